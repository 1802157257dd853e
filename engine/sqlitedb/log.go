package sqlitedb

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
)

// This file reads a write-ahead log before SQLite does (https://sqlite.org/fileformat.html, section 4). SQLite takes the frames up to the
// first one that is not sound, and silently ignores those behind it, as a power cut may have torn the last ones. This file finds damage
// that SQLite would ignore:
//
//   - sound frames of a commit behind one that is not: a torn tail has none, as a commit is synced before the next one is written;
//   - fewer frames than the index of the log has, in the -shm file. That file is shared memory, never synced. It has the last commit for as
//     long as the machine is up, even if the process ends.
const (
	logHeaderBytes   = 32
	frameHeaderBytes = 24
	logMagic         = 0x377f0682 // and, with the last bit set, for sums over big endian numbers
	logFormat        = 3007000
)

// walLog is the content of a write-ahead log.
type walLog struct {
	there  bool   // there is a file, with at least one byte
	header bool   // it begins with a sound header
	whole  bool   // it has room for a frame: a log that is in use always does
	frames uint32 // up to the last commit that SQLite will find
	salt   [8]byte
	pages  map[uint32]bool // that these frames hold
	broken uint32          // the first frame that is not sound although sound ones are behind it; 0: none
	torn   uint32          // likewise, but only damage if no power cut can have torn the log
}

// logSum is the running checksum of a log.
type logSum [2]uint32

func (s logSum) add(b []byte, order binary.ByteOrder) logSum {
	for ; len(b) >= 8; b = b[8:] {
		s[0] += order.Uint32(b) + s[1]
		s[1] += order.Uint32(b[4:]) + s[0]
	}
	return s
}

func (s logSum) is(b []byte) bool {
	return s[0] == binary.BigEndian.Uint32(b) && s[1] == binary.BigEndian.Uint32(b[4:])
}

// readLog reads the write-ahead log of the database at path, which has pages of this size, as far as it is one.
func readLog(path string, pageSize uint32) (l walLog, err error) {
	f, err := os.Open(path + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	} else if err != nil {
		return l, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return l, err
	}
	l.there, l.whole = info.Size() > 0, info.Size() >= logHeaderBytes+frameHeaderBytes+int64(pageSize)
	r := bufio.NewReaderSize(f, 1<<18)
	var header [logHeaderBytes]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return l, short(err)
	}
	magic, order := binary.BigEndian.Uint32(header[:]), sumOrder(header[:])
	sum := logSum{}.add(header[:24], order)
	l.header = magic&^1 == logMagic && binary.BigEndian.Uint32(header[4:]) == logFormat &&
		binary.BigEndian.Uint32(header[8:]) == pageSize && sum.is(header[24:])
	if !l.header {
		return l, nil
	}
	copy(l.salt[:], header[16:])
	return l, l.readFrames(r, make([]byte, frameHeaderBytes+pageSize), sum, order)
}

// sumOrder is the byte order of the sums of a log, which its head names.
func sumOrder(head []byte) binary.ByteOrder {
	if binary.BigEndian.Uint32(head)&1 != 0 {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// readFrames walks the frames behind the header. The sum of a frame continues that of the frame before it. So behind a frame that is not
// sound, the next one is checked with the sum that is stored there. `frame` has room for one.
func (l *walLog) readFrames(r io.Reader, frame []byte, sum logSum, order binary.ByteOrder) error {
	l.pages = map[uint32]bool{}
	var fresh []uint32 // pages of the commit that is being read
	var bad uint32     // the first frame that is not sound
	ended := false     // a commit ended at it, or behind it
	for n := uint32(1); ; n++ {
		if _, err := io.ReadFull(r, frame); err != nil {
			return short(err)
		}
		ours := bytes.Equal(frame[8:16], l.salt[:])
		next := sum.add(frame[:8], order).add(frame[frameHeaderBytes:], order)
		sound := ours && next.is(frame[16:])
		commits := ours && binary.BigEndian.Uint32(frame[4:]) != 0
		switch {
		case bad == 0 && sound:
			if fresh = append(fresh, binary.BigEndian.Uint32(frame)); commits {
				for _, page := range fresh {
					l.pages[page] = true
				}
				l.frames, fresh = n, fresh[:0]
			}
		case bad == 0:
			bad, ended = n, commits
		case sound && commits:
			l.torn = bad
			if ended {
				l.broken = bad
				return nil
			}
			ended = true
		}
		sum = logSum{binary.BigEndian.Uint32(frame[16:]), binary.BigEndian.Uint32(frame[20:])}
	}
}

// short is nil for the end of a file.
func short(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// logIndex is the head of the index of a log.
type logIndex struct {
	frames uint32
	copied uint32 // this many of them are in the main file
	salt   [8]byte
}

// whole says whether everything in the log was copied back.
func (x *logIndex) whole() bool { return x.copied == x.frames }

const (
	indexHeadBytes = 48
	// SQLite cuts the -shm file to this length before it makes the index again; a kill then leaves it so, or with a head of zeros
	indexBegunBytes = 3
)

// indexOf reads the -shm file of the database at path, which no one may have open. found is false if there is none, or if it is damaged.
// One that SQLite had only begun to make has no number of frames.
func indexOf(path string) (x logIndex, found bool, err error) {
	f, err := os.Open(path + "-shm")
	if errors.Is(err, fs.ErrNotExist) {
		return x, false, nil
	} else if err != nil {
		return x, false, err
	}
	defer f.Close()
	return readIndex(f)
}

func readIndex(f io.ReaderAt) (x logIndex, found bool, err error) {
	const heads = 2 * indexHeadBytes // the head is there twice, and written one after the other, so that one of them is sound at any moment
	var b [heads + 4]byte
	if n, err := f.ReadAt(b[:], 0); n < len(b) {
		return x, n == indexBegunBytes, short(err)
	}
	x.copied = binary.NativeEndian.Uint32(b[heads:])
	for head := range slices.Chunk(b[:heads], indexHeadBytes) {
		sum := logSum{}.add(head[:40], binary.NativeEndian)
		if head[12] != 0 && sum == (logSum{binary.NativeEndian.Uint32(head[40:]), binary.NativeEndian.Uint32(head[44:])}) {
			x.frames = binary.NativeEndian.Uint32(head[16:])
			copy(x.salt[:], head[32:40])
			return x, true, nil
		}
	}
	return x, b == [len(b)]byte{}, nil
}

// check names the fault of the log of the database at path, whose main file has the mark m. `relaxed` logs are not synced at every commit,
// so after a power cut any part may be missing.
func (l *walLog) check(path string, m mark, relaxed bool) error {
	running := m.boot != "" && m.boot == Boot() // all writes of the last server are there, also those that were never synced
	wrong := func(format string, args ...any) error {
		return &queue.FormatError{Path: path + "-wal", Reason: fmt.Sprintf(format, args...), Advice: adviceLog}
	}
	switch {
	case m.open && (!l.there || !l.whole):
		return wrong("is missing or cut off, but %s was in use when its server ended: what was written last is not there", path)
	case m.open && !l.header:
		return wrong("is damaged: its first bytes are not those of a write-ahead log")
	case l.broken != 0 && (running || !relaxed):
		return wrong("is damaged: its frame %d is not sound, though sound ones follow. All writes from there on would be lost", l.broken)
	case l.torn != 0 && running:
		return wrong("is damaged: its frame %d is not sound, though sound ones follow. All writes from there on would be lost", l.torn)
	case m.found && !m.open && l.frames > 0 && !l.pages[m.page]:
		return wrong("does not belong to %s, which was closed in good order without one", path)
	}
	x, found, err := indexOf(path)
	switch {
	case err != nil:
		return err
	case m.open && running && !found:
		return &queue.FormatError{Path: path + "-shm", Advice: adviceIndex,
			Reason: "is missing or damaged, but " + path + " was in use when its server ended: no one can tell whether its -wal is whole"}
	case x.frames == 0:
		return nil
	case running && (!l.header || x.salt != l.salt), l.frames < x.frames && (running || !relaxed && x.salt == l.salt):
		return wrong("is damaged, cut off or an older copy: %d frames of it can be used, but %d were written", l.frames, x.frames)
	}
	return nil
}

const adviceIndex = "Nothing was changed: put the file back, which belongs to the -wal as that belongs to the database. Else restore the " +
	"whole data directory from a backup, or have quern repair make one of what is there"

const adviceLog = "Nothing was changed: keep a copy of the data directory, and restore the whole of it from a backup"

// SQLite makes the log longer with each commit until it is first copied back, and writes over it from then on. A sync of a file that has
// become longer takes half as long again, as the disk is also told where the file ends and which blocks it has. So a connection that has
// its file alone keeps room behind the log: zeros, which SQLite takes for the end of it, as they are no frame.

const (
	leastRoom = 64 << 10
	mostRoom  = 1 << 20 // at once, as the next commit waits until it is on the disk
)

// logRoom is what a connection knows of the end of its log.
type logRoom struct {
	file *os.File // the log; nil until there is one
	end  int64    // of the file, in bytes, when it was last looked at
}

// KeepRoom doubles the log when SQLite has filled it, until it is as long as when it is copied back. It is called outside of
// transactions, on a file that was opened Alone, as SQLite must not write meanwhile. Where there is no room it does nothing: SQLite
// then makes the log longer by itself.
func (c *Conn) KeepRoom() {
	if c.lost != nil {
		return
	}
	r := &c.room
	first := r.file == nil
	if c.back.spared && !first { // the first write is that of the start
		c.copyAgain()
	}
	if first {
		r.file, _ = os.OpenFile(c.path+"-wal", os.O_WRONLY, 0)
	}
	// Not by Stat: Linux notes that the time of the last change was asked for, and the next sync has to write the new one (6.13,
	// multigrain timestamps), which makes it slower by a third.
	end, err := r.file.Seek(0, io.SeekEnd)
	if err != nil || end <= r.end {
		return
	}
	r.end = end
	if first || end >= autoCheckpoint { // what an earlier process left is room already: its log was copied back
		return
	}
	n, _ := r.file.WriteAt(make([]byte, min(max(end, leastRoom), mostRoom)), end)
	r.end += int64(n)
}
