package sqlitedb

import (
	"io"
	"os"
)

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

// KeepRoom doubles the log when SQLite has come to its end, until it is as long as when it is copied back. It is called outside of
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
