package sqlitelog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

const (
	// The bounds of what one append reclaims: enough to keep ahead of the appends, little enough not to delay a caller
	// noticeably.
	trimRows  = 32
	trimBytes = 1 << 20

	// How long an append waits before it tries again when the outcome of a try is unknown.
	firstPause   = 10 * time.Millisecond
	longestPause = 500 * time.Millisecond
)

// insertSQL adds a batch if the one before it is the one that the writer knows: the last
// argument is the sum up to there. Else the column sum gets no value, which it must have.
// No batch can be behind that one, as the position is free.
const insertSQL = `INSERT INTO batch (n, crc, sum, bytes) VALUES (?1, ?2, CASE WHEN ?5 =
	coalesce((SELECT sum FROM batch WHERE n = ?1 - 1), (SELECT sum FROM trimmed WHERE upto = ?1 - 1)) THEN ?3 END, ?4)`

var errClosed = errors.New("sqlitelog: the journal is closed")

// Append implements journal.Journal.
//
//	try ─► written: done
//	    ─► certainly refused (full, conflict): the error, at once
//	    ─► no answer: doubt. The next try reads what is there first (resolve):
//	           the batch is there ─► done, it was written after all
//	           it is not          ─► written again, the same bytes
//	       until ctx ends: ErrUnknown
//
// The statement that writes checks the condition (insertSQL). A check before it would leave a moment in which another
// writer could append.
func (l *Log) Append(ctx context.Context, expect journal.Position, batch []byte) (journal.Position, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(batch) > journal.MaxBatchBytes {
		return 0, fmt.Errorf("sqlitelog: append: a batch of %d bytes; at most %d are taken", len(batch),
			journal.MaxBatchBytes)
	}
	a := appending{expect: expect, batch: batch}
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		done, err := l.try(&a)
		switch {
		case done:
			return expect + 1, nil
		case !errors.Is(err, journal.ErrUnknown):
			l.noteRefused(err)
			return 0, err
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("%w (%w)", err, ctx.Err())
		case <-time.After(pause):
		}
	}
}

// After a conflict another writer writes this journal. The handle remembers it, because the file gives no sign of it
// later: the other writer may have trimmed the batches that would show it.
func (l *Log) noteRefused(err error) {
	if errors.Is(err, journal.ErrConflict) {
		l.mu.Lock()
		l.refused = true
		l.mu.Unlock()
	}
}

// appending is an append that may take several tries.
type appending struct {
	expect journal.Position
	batch  []byte
	tried  bool        // a try was made, and its outcome is not known
	sum    journal.Sum // then: of the chain with the batch
}

// try makes one try. After ErrUnknown the caller makes another. The position alone cannot say whose batch is there
// after a doubtful try, as another writer may have used it. The sum of the chain can: it covers this batch and all
// before it.
func (l *Log) try(a *appending) (done bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false, errClosed
	}
	if err := l.resolve(); err != nil {
		return false, err
	}
	if a.tried && l.tail > a.expect {
		return l.has(a) // an earlier try may have been written after all
	}
	if a.expect != l.tail {
		return false, fmt.Errorf("sqlitelog: append: the last batch that is known is %d, not %d: %w", l.tail, a.expect,
			journal.ErrConflict)
	}
	a.sum = l.sum.Next(a.expect+1, a.batch)
	if !l.shared {
		l.conn.KeepRoom()
	}
	var low journal.Position
	if l.fault == nil {
		low, err = l.put(a)
	} else {
		low, err = l.putFaulty(*a)
	}
	if err == nil {
		l.low = low
		l.appended(a.sum)
		return true, nil
	}
	if err = wrap("append", err); errors.Is(err, journal.ErrConflict) && a.tried {
		return l.late(a, err)
	}
	if errors.Is(err, journal.ErrUnknown) {
		l.doubt, l.unknown, a.tried = true, a.sum, true
	}
	return false, err
}

// put writes a batch, in a transaction, and returns the new low.
func (l *Log) put(a *appending) (low journal.Position, err error) {
	if l.trimmed == l.low {
		return l.low, l.write(a.expect+1, a.sum, a.batch)
	}
	return l.putReclaiming(*a)
}

func (l *Log) putReclaiming(a appending) (low journal.Position, err error) {
	err = l.conn.Tx(func() (err error) {
		// Reclaimed first, so that the new row can take the room.
		if low, err = l.reclaim(); err != nil {
			return err
		}
		return l.write(a.expect+1, a.sum, a.batch)
	})
	return low, err
}

func (l *Log) putFaulty(a appending) (low journal.Position, err error) {
	err = l.fault(func() (err error) {
		low, err = l.put(&a)
		return err
	})
	return low, err
}

// late finds out whether an earlier try, which came to the file after the look at it, caused the refusal of a further
// one.
func (l *Log) late(a *appending, conflict error) (done bool, err error) {
	l.doubt, l.unknown = true, a.sum
	if err := l.resolve(); err != nil {
		l.doubt = !errors.Is(err, journal.ErrConflict)
		return false, err
	}
	if l.tail == a.expect {
		return false, conflict
	}
	return true, nil
}

// has finds out whether a batch that was tried is in the journal.
func (l *Log) has(a *appending) (done bool, err error) {
	sum, found, err := l.sumAt(a.expect + 1)
	switch {
	case err != nil:
		return false, wrap("append", err)
	case !found || sum != a.sum:
		return false, fmt.Errorf("sqlitelog: append: another batch %d: %w", a.expect+1, journal.ErrConflict)
	}
	return true, nil
}

// appended notes that the batch behind the last one is durable.
func (l *Log) appended(sum journal.Sum) {
	l.tail, l.sum, l.doubt = l.tail+1, sum, false
	l.tellGrown()
}

func (l *Log) tellGrown() {
	if l.grown != nil {
		close(l.grown)
		l.grown = nil
	}
}

// write adds a batch behind the last one that this handle knows.
func (l *Log) write(at journal.Position, sum journal.Sum, batch []byte) error {
	if l.args.mine == nil {
		l.args.mine, l.args.before = l.args.sums[0][:], l.args.sums[1][:]
	}
	l.args.sums = [2]journal.Sum{sum, l.sum}
	_, err := l.insert.Exec(int64(at), int64(l.checksum(at, batch)), l.args.mine, batch, l.args.before)
	return err
}

// sumArgs are the sums that a statement is given, made once, as each append gives two.
type sumArgs struct {
	sums         [2]journal.Sum
	mine, before any // slices of sums
}

// resolve finds out what became of a batch whose outcome is unknown, if there is one. It makes a batch that it finds
// durable (touch): the database may show one that a failed write left in its log.
func (l *Log) resolve() error {
	if !l.doubt {
		return nil
	}
	x, err := l.locate()
	if err == nil && x.tail > l.tail {
		_, err = l.touch.Exec()
	}
	if err != nil {
		return wrap("append", err)
	}
	behind, _, err := l.sumAt(l.tail + 1)
	switch {
	case err != nil:
		return wrap("append", err)
	case x.tail > l.tail && behind == l.unknown:
		l.appended(l.unknown)
	case x.tail == l.tail && x.sum == l.sum:
		l.doubt = false
	default:
		return fmt.Errorf("sqlitelog: append: the journal ends at batch %d, and this writer knows another batch %d: %w",
			x.tail, l.tail, journal.ErrConflict)
	}
	return nil
}

// reclaim deletes one slice of the trimmed rows and returns the new low. It runs in a
// transaction; the caller sets l.low after the commit.
func (l *Log) reclaim() (low journal.Position, err error) {
	low = l.low
	room := int64(trimBytes)
	err = l.sizes.Query(func(r sqlitedb.Row) (bool, error) {
		low = journal.Position(r.Int(0))
		room -= r.Int(1)
		return room > 0, nil
	}, int64(l.trimmed))
	if err != nil || low == l.low {
		return low, err
	}
	if _, err = l.setLow.Exec(int64(low)); err != nil { // while the row with its sum is still there
		return low, err
	}
	_, err = l.remove.Exec(int64(low))
	return low, err
}
