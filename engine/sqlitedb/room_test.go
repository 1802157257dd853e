package sqlitedb

import (
	"bytes"
	"os"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// A log with room behind it is read like one without, whichever part of its last frames a power cut or a kill left.
func TestRoomIsTheEndOfTheLog(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change    func(frames []byte) // of a log of nine commits
		cut, kill int64               // rows after a power cut, and after a kill; -1: refused
	}{
		"sound":                  {func([]byte) {}, 9, 9},
		"the last frame is torn": {func(b []byte) { clear(b[len(b)-100:]) }, 8, -1},
		"it was never written":   {func(b []byte) { clear(b[len(b)-frameBytes:]) }, 8, -1},
		"a bit of the last one":  {func(b []byte) { b[len(b)-1] ^= 1 }, 8, -1},
		"the one before":         {func(b []byte) { b[len(b)-frameBytes-1] ^= 1 }, -1, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for powerCut, want := range map[bool]int64{true: c.cut, false: c.kill} {
				path := ownedBy(t, 9, (*Conn).KeepRoom)
				log, err := readLog(path, 4096)
				if err != nil {
					t.Fatal(err)
				}
				end := logHeaderBytes + int(log.frames)*frameBytes
				editLog(t, path, func(b []byte) []byte {
					if room := b[end:]; len(room) < leastRoom/4 || len(bytes.Trim(room, "\x00")) > 0 {
						t.Errorf("behind %d frames there are %d bytes, want zeros, and more of them", log.frames, len(room))
					}
					c.change(b[:end])
					return b
				})
				if powerCut {
					if err := os.Remove(path + "-shm"); err != nil {
						t.Fatal(err)
					}
					anotherBoot(t, path)
				}
				wantRows(t, path, Owner{}, want)
			}
		})
	}
}

// The log becomes longer a few times, and not with each commit, until it is copied back.
//
//quern:sequential
func TestRoomDoubles(t *testing.T) {
	t.Parallel()
	sizes := map[int64]bool{}
	path := ownedBy(t, 2100, func(c *Conn) {
		c.KeepRoom()
		info, err := os.Stat(c.path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		sizes[info.Size()] = true
	})
	if len(sizes) < 3 || len(sizes) > 12 {
		t.Errorf("the log had %d sizes in 2,100 commits, want a few: %v", len(sizes), sizes)
	}
	for size := range sizes {
		if size > autoCheckpoint+2*mostRoom {
			t.Errorf("the log has %d bytes, want at most %d and what it takes at once", size, autoCheckpoint)
		}
	}
	wantRows(t, path, Owner{}, 2100)
}

// Writes go on if the disk has no more room than SQLite needs, or if the log cannot be opened again.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(t *testing.T, c *Conn){
		"the disk is full": func(t *testing.T, c *Conn) {
			if c.room.file == nil {
				file, err := os.Open(c.path + "-wal") // for reading: no write to it succeeds
				if err != nil {
					t.Fatal(err)
				}
				c.room.file = file
			}
		},
		"the file was closed": func(_ *testing.T, c *Conn) {
			if c.room.file != nil {
				c.room.file.Close()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := ownedBy(t, 20, func(c *Conn) {
				before(t, c)
				c.KeepRoom()
			})
			wantRows(t, path, Owner{}, 20)
		})
	}
}

// A process uses the room in the log that a killed one left: the log does not become longer.
func TestRoomIsUsedAgain(t *testing.T) {
	t.Parallel()
	path := ownedBy(t, 60, (*Conn).KeepRoom)
	before, err := os.Stat(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, path, Options{Owner: &Owner{}, Alone: true})
	if _, err := c.Own(queue.Identity{Generation: 2}); err != nil {
		t.Fatal(err)
	}
	stmt := prepare1(t, c, "INSERT INTO thing (n) VALUES (?)")
	for i := range 10 {
		c.KeepRoom()
		if _, err := stmt.Exec(int64(100 + i)); err != nil {
			t.Fatal(err)
		}
	}
	after, err := os.Stat(path + "-wal")
	if err != nil || after.Size() != before.Size() {
		t.Errorf("the log has %d bytes after ten commits (%v), want %d as before", after.Size(), err, before.Size())
	}
}
