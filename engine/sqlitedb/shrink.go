package sqlitedb

import (
	"fmt"
	"io"
	"os"
)

// SQLite puts pages that are no longer needed on a list inside the file and uses them again. Without the functions in this file, a database
// would never become smaller, and a disk that it filled would stay full.

// rewriteBytes is the largest content of a file that GiveBack writes again as a whole. Other writes put as much into one transaction, so no
// caller waits longer for the connection than for them.
const rewriteBytes = 4 << 20

// Usage is how many bytes of the file are in use, and how many are free inside it.
func (c *Conn) Usage() (used, free int64, err error) {
	pages, err := c.Int("PRAGMA page_count")
	if err == nil {
		free, err = c.Int("PRAGMA freelist_count")
	}
	return (pages - free) * c.pageSize, free * c.pageSize, err
}

// GiveBack shortens the file by about this many free bytes, in one transaction. A file that holds little is written again, without any free
// pages. A larger one has pages moved from its end into free ones; only a file of a Kind that Shrinks can do that: then more says that
// another call would give back more.
func (c *Conn) GiveBack(bytes int64) (more bool, err error) {
	if err := c.writable(); err != nil {
		return false, err
	}
	used, _, err := c.Usage()
	if err != nil {
		return false, err
	}
	c.cut = true
	if used <= rewriteBytes {
		return false, c.failed(c.Exec("VACUUM"))
	}
	if !c.shrinks {
		return false, nil
	}
	return true, c.Tx(func() error { return c.drain(fmt.Sprintf("PRAGMA incremental_vacuum(%d)", max(bytes/c.pageSize, 1))) })
}

// CutFile takes the room that GiveBack has freed from the end of the file. SQLite does so when it has copied back the whole log, which it
// cannot while a reader still reads from there: then a later call does it.
func (c *Conn) CutFile() error {
	if !c.cut || c.lost != nil || c.owed != nil {
		return nil
	}
	if _, err := c.copyBack(); err != nil {
		return c.failed(err)
	}
	pages, err := c.Int("PRAGMA page_count")
	if err != nil {
		return err
	}
	info, err := os.Stat(c.path)
	if err == nil {
		c.cut = info.Size() > pages*c.pageSize
	}
	return err
}

// drain steps through all rows of a statement. The driver's Exec would end with the first, and this kind frees a page with each.
func (c *Conn) drain(sql string) error {
	rows, err := c.raw.Query(sql, nil)
	if err != nil {
		return err
	}
	values := make(Row, len(rows.Columns()))
	for err == nil {
		err = rows.Next(values)
	}
	if closing := rows.Close(); err == io.EOF {
		err = closing
	}
	return err
}
