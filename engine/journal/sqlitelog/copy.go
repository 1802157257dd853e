package sqlitelog

import (
	"errors"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// copyBytes is about how many bytes one transaction of a copy writes.
const copyBytes = 4 << 20

// WriteCopy makes a journal at path, where none may be, that begins behind `after` and
// holds the batches that each gives, in order and without a gap, with a chain of its own.
// It is of this identity, and was closed in good order.
func WriteCopy(path string, id queue.Identity, after journal.Position,
	each func(fn func(journal.Position, []byte) error) error) error {
	err := sqlitedb.Create(path, Kind, func(temporary string) error {
		conn, err := sqlitedb.OpenUnfinished(temporary)
		if err != nil {
			return err
		}
		c := copying{Log: Log{path: path, conn: conn, tail: after}}
		err = c.write(each)
		if err == nil {
			err = conn.Assign(id)
		}
		return errors.Join(err, conn.Close())
	})
	return wrap("copy", err)
}

// copying is a journal that is being made as a copy.
type copying struct {
	Log
	room int // bytes that the open transaction may still take
}

func (c *copying) write(each func(fn func(journal.Position, []byte) error) error) error {
	err := c.conn.Exec("PRAGMA synchronous = OFF; BEGIN")
	if err != nil {
		return err
	}
	if c.setLow, err = c.conn.Prepare("UPDATE trimmed SET upto = ? WHERE one = 1"); err != nil {
		return err
	}
	if _, err = c.setLow.Exec(int64(c.tail)); err != nil {
		return err
	}
	if c.insert, err = c.conn.Prepare(insertSQL); err != nil {
		return err
	}
	c.room = copyBytes
	if err := each(c.add); err != nil {
		return err
	}
	return c.conn.Exec("COMMIT")
}

func (c *copying) add(position journal.Position, batch []byte) error {
	sum := c.sum.Next(position, batch)
	if err := c.Log.write(position, sum, batch); err != nil {
		return err
	}
	c.tail, c.sum = position, sum
	if c.room -= len(batch); c.room > 0 {
		return nil
	}
	c.room = copyBytes
	return c.conn.Exec("COMMIT; BEGIN")
}
