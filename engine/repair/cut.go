package repair

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/check"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// A journal is cut off before its first batch that is damaged or missing: a later op may depend on that batch, so replaying it would make a
// state that never was. Clients may hold positions and tokens that were written behind the cut, and rows of the store may be of a position
// there. None of them may get another meaning. So empty batches take these positions, in an epoch behind all that there may have been. The
// numbers of submissions go on behind those in the store, as at every start.

// spareBatches is the assumed number of batches, and of epochs, that may have been written and cannot be counted.
const spareBatches = engine.SpareEpochs

// faultOf names the fault of a journal; "": it has none, or none that a repair is for, as it belongs elsewhere or to another moment. ends
// says that the journal has its end, so that the fault is before it.
func faultOf(ctx context.Context, path string, id queue.Identity, checkpoint journal.Position) (reason string, ends bool, err error) {
	log, err := sqlitelog.Open(ctx, path, sqlitelog.Options{Identity: id})
	if err == nil {
		var tail journal.Position
		if tail, err = log.Tail(ctx); err == nil && tail < checkpoint {
			err = fmt.Errorf("the journal ends at batch %d, and the store holds what batch %d did", tail, checkpoint)
		}
		if ends = err == nil; ends {
			err = log.Read(ctx, max(checkpoint, 1)-1, func(_ journal.Position, batch []byte) error {
				return journal.Decode(batch, func(queue.Time) {}, nothing{})
			})
		}
		if err = errors.Join(err, log.Close()); err == nil {
			err = damageOf(ctx, path)
		}
	}
	if format, is := errors.AsType[*queue.FormatError](err); err == nil || ctx.Err() != nil || is && (format.Other || format.Unread) {
		return "", false, ctx.Err()
	}
	return err.Error(), ends, nil
}

// damageOf returns an error if any part of a journal is damaged, even one that no start needs any more.
func damageOf(ctx context.Context, path string) error {
	var found error
	_, err := sqlitelog.Verify(ctx, path, func(d sqlitedb.Damage) {
		if found == nil {
			found = fmt.Errorf("%s, table %s, row %d: %s", path, d.Table, d.Row, d.Detail)
		}
	})
	return errors.Join(err, found)
}

// nothing is an Applier that applies nothing.
type nothing struct{}

func (nothing) ApplyEpoch(uint32) error               { return nil }
func (nothing) ApplyInsert(*journal.Insert) error     { return nil }
func (nothing) ApplyComplete(journal.Completed) error { return nil }
func (nothing) ApplyReturn(journal.Returned) error    { return nil }
func (nothing) ApplyEnd(journal.End) error            { return nil }
func (nothing) ApplyPriority(journal.Priority) error  { return nil }
func (nothing) ApplyPart(journal.PartOp) error        { return nil }

// cutting is the repair of one journal.
type cutting struct {
	queue string
	path  string
	ends  bool // the journal has its end
	id    queue.Identity
	kept  storeKeeps
	now   time.Time

	first    journal.Position // of the new journal: the batch at the checkpoint, where a start reads the epoch
	last     journal.Position // the last one that is kept
	read     journal.Position // the last one that was seen; 0: none
	newest   journal.Position // the newest known: seen, or in a row of the store
	epoch    uint32           // the latest that was seen
	at       time.Time        // of the latest batch that was seen
	whole    bool             // every batch so far was there
	fromHere bool             // the batch at the checkpoint can be kept
	report   Journal
	lost     []Lost
}

func (c *cutting) run(ctx context.Context, reason string) error {
	c.first = max(c.kept.checkpoint, 1)
	c.last, c.newest, c.whole = c.kept.checkpoint, c.kept.newest, true
	return replace(c.path, func(damaged string) error {
		if err := sqlitelog.Salvage(ctx, damaged, c.first-1, c.see); err != nil {
			return err
		}
		if c.whole && !c.ends { // all batches are good, so some are missing behind them
			c.unreadable(c.newest+1, time.Time{}, "what was written behind the batch before, if anything was, is not in the file")
		}
		c.report.Queue, c.report.Reason = c.queue, reason
		c.report.Checkpoint, c.report.Kept = uint64(c.kept.checkpoint), uint64(c.last)
		return c.write(ctx, damaged)
	})
}

// see takes in a batch: it is kept, or its operations are lost.
func (c *cutting) see(b sqlitelog.Batch) error {
	if b.Damage == "" {
		if err := journal.Decode(b.Bytes, func(queue.Time) {}, nothing{}); err != nil {
			b.Damage = err.Error()
		}
	}
	atCheckpoint := b.Position <= c.kept.checkpoint
	if expected := max(c.read, c.kept.checkpoint) + 1; !atCheckpoint && b.Position > expected {
		c.unreadable(expected, time.Time{}, fmt.Sprintf("the batches %d to %d are missing", expected, b.Position-1))
		c.report.Unreadable += uint64(b.Position-expected) - 1
	}
	c.read = b.Position
	c.newest = max(c.newest, b.Position)
	switch {
	case atCheckpoint && b.Damage != "":
		return nil // its operations are in the store
	case b.Damage != "":
		c.unreadable(b.Position, time.Time{}, b.Damage)
		return nil
	case atCheckpoint:
		c.fromHere = true
	case c.whole:
		c.last = b.Position
	}
	if epoch, err := journal.Epoch(b.Bytes); err == nil {
		c.epoch = max(c.epoch, epoch)
	}
	return check.Ops(&b, c.kept.ids, func(op check.Op) error {
		c.note(&op, !atCheckpoint && !c.whole)
		return nil
	})
}

// unreadable notes that everything from a position on is cut off, and that the batch there cannot be read.
func (c *cutting) unreadable(at journal.Position, when time.Time, why string) {
	c.whole = false
	c.report.Unreadable++
	c.lose(&check.Op{Position: uint64(at), At: when, Op: check.OpDamaged, Fields: map[string]any{"detail": why}})
}

// note remembers the numbers of an op that must not be given out again, and the op itself if it is cut off.
func (c *cutting) note(op *check.Op, cut bool) {
	if op.At.After(c.at) {
		c.at = op.At
	}
	switch op.Op {
	case "epoch":
		epoch, _ := op.Fields["epoch"].(uint32)
		c.epoch = max(c.epoch, epoch)
		return
	case "contents", "output", "held": // they go with the inserts and completions, and reservations end with the server
		return
	}
	if cut {
		c.lose(op)
	}
}

func (c *cutting) lose(op *check.Op) {
	l := Lost{Queue: c.queue, Position: op.Position, Op: op.Op, Submission: op.Submission}
	if !op.At.IsZero() {
		at := op.At
		l.At = &at
	}
	switch op.Op {
	case "insert":
	case "complete":
		index, _ := op.Fields["index"].(uint32)
		l.Chunk = &index
		if op.Submission == "" {
			l.Fields = map[string]any{"seq": op.Fields["seq"]}
		}
	default:
		l.Fields = op.Fields
	}
	c.lost = append(c.lost, l)
}

// write makes the new journal. It has the batches that are kept, and empty ones up to the last position that there may have been.
func (c *cutting) write(ctx context.Context, damaged string) error {
	at := queue.At(c.now)
	if !c.at.IsZero() {
		at = queue.At(c.at)
	}
	var empty journal.Encoder
	empty.Reset(c.epoch+spareBatches, at)
	return sqlitelog.WriteCopy(c.path, c.id, c.first-1, func(fn func(journal.Position, []byte) error) error {
		next := c.first
		if !c.fromHere && c.kept.checkpoint > 0 {
			if err := fn(next, empty.Bytes()); err != nil {
				return err
			}
			next++
		}
		next, err := c.keep(ctx, damaged, next, fn)
		if err != nil {
			return err
		}
		for ; next <= c.newest+spareBatches; next++ {
			if err := fn(next, empty.Bytes()); err != nil {
				return err
			}
		}
		return nil
	})
}

// keep writes the batches that are kept, from a position on, and returns the position behind them. damaged is the journal that has them;
// "": none is kept.
func (c *cutting) keep(ctx context.Context, damaged string, next journal.Position,
	fn func(journal.Position, []byte) error) (journal.Position, error) {
	if damaged == "" {
		return next, nil
	}
	enough := errors.New("enough")
	err := sqlitelog.Salvage(ctx, damaged, next-1, func(b sqlitelog.Batch) error {
		if b.Position > c.last {
			return enough
		}
		next = b.Position + 1
		return fn(b.Position, b.Bytes)
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return next, err
}
