package nodes

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/quern-queue/quern/engine/cluster"
	"github.com/quern-queue/quern/engine/cluster/handle"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/journaltest"
	"github.com/quern-queue/quern/engine/queue"
)

// log is a handle of a journal. Its other half is that of the handles of the package pg.
type log struct {
	*handle.Handle
	*link
	name string
	of   *table // which a deletion takes from its name

	mu    sync.Mutex // of what follows; never held during a call
	fails []failing  // of the conformance suite
	late  func()     // the same: a statement that is made when the next one is
}

type failing struct {
	outcome journaltest.Outcome
	made    func()
}

// Rows of a Read that one call takes.
const pageRows = 16

// table is that of this handle, unless it was deleted.
func (l *log) table(d *database) (*table, error) {
	if d.journals[l.name] != l.of {
		return nil, cluster.ErrNoJournal
	}
	return l.of, nil
}

func (l *log) Judge(err error) (silent bool, final error) { return errors.Is(err, errSilent), nil }

func (l *log) Grew(int) {}

func (l *log) Put(ctx context.Context, b *handle.Batch) (fits bool, err error) {
	put := *b // the statement may be made when the append is over
	put.Bytes = slices.Clone(b.Bytes)
	statement := func(d *database) (bool, error) {
		t, err := l.table(d)
		return err == nil && d.append(l.name, t, &put), err
	}
	l.mu.Lock()
	late, fails := l.late, l.fails
	if l.late = nil; len(fails) > 0 {
		l.fails = fails[1:]
	}
	l.mu.Unlock()
	if late != nil {
		late()
	}
	if len(fails) == 0 {
		return ask(ctx, l.link, statement)
	}
	now := func() { _, _ = ask(context.WithoutCancel(ctx), l.link, statement) }
	if fails[0].made != nil {
		fails[0].made()
	}
	switch fails[0].outcome {
	case journaltest.Written:
		now()
	case journaltest.Late:
		l.mu.Lock()
		l.late = now
		l.mu.Unlock()
	case journaltest.Lost:
	}
	return false, errSilent
}

func (l *log) Look(ctx context.Context, tail journal.Position, sum journal.Sum) (handle.Found, error) {
	return ask(ctx, l.link, func(d *database) (found handle.Found, err error) {
		t, err := l.table(d)
		if err != nil {
			return found, err
		}
		if found.Tail, found.Sum = t.end(); t.base <= tail+1 && found.Tail > tail {
			next := t.sumAt(tail + 1)
			found.Next, found.Written = &next, next == sum
		}
		return found, nil
	})
}

// page is the result of one call of a Read.
type page struct {
	base    journal.Position
	sum     journal.Sum // up to the batch behind which it was read
	rows    []row
	present bool // that batch is there
}

func (l *log) Read(ctx context.Context, after journal.Position, fn func(journal.Position, []byte) error) error {
	l.Resolve(ctx)
	for at := after; ; {
		p, err := patiently(ctx, l.link, func(d *database) (p page, err error) {
			t, err := l.table(d)
			if err != nil {
				return p, err
			}
			p.base = t.base
			if end, _ := t.end(); at >= t.base && at <= end {
				p.present, p.sum = true, t.sumAt(at)
				p.rows = slices.Clone(t.rows[at-t.base : min(at-t.base+pageRows, end-t.base)])
			}
			return p, nil
		})
		if err != nil {
			return err
		}
		if err := l.Gone(p.base, at); err != nil {
			return err
		}
		if !p.present || len(p.rows) == 0 {
			return nil
		}
		sum := p.sum
		for _, r := range p.rows {
			at++
			if sum = sum.Next(at, r.batch); sum != r.sum {
				return &queue.FormatError{Path: l.name, Reason: "has a batch that does not follow the one before it"}
			}
			if err := l.Learn(at, sum); err != nil {
				return err
			}
			if err := fn(at, r.batch); err != nil {
				return err
			}
		}
	}
}

func (l *log) Tail(ctx context.Context) (journal.Position, error) {
	return patiently(ctx, l.link, func(d *database) (journal.Position, error) {
		t, err := l.table(d)
		if err != nil {
			return 0, err
		}
		at, _ := t.end()
		return at, nil
	})
}

func (l *log) Wait(ctx context.Context, after journal.Position) error {
	for {
		grown, err := patiently(ctx, l.link, func(d *database) (chan struct{}, error) {
			t, err := l.table(d)
			if err != nil {
				return nil, err
			}
			if at, _ := t.end(); at > after {
				return nil, nil
			}
			return t.grown, nil
		})
		if err != nil || grown == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-grown:
		}
	}
}

func (l *log) Delete(ctx context.Context, upTo, tail journal.Position, sum journal.Sum) (journal.Position, error) {
	return ask(ctx, l.link, func(d *database) (journal.Position, error) {
		t, err := l.table(d)
		if err == nil {
			t.trim(upTo, tail, sum)
		}
		return upTo, err
	})
}

func (l *log) SetDurability(queue.Durability) error { return nil }

func (l *log) Size() (bytes int64) {
	l.database.mu.Lock()
	defer l.database.mu.Unlock()
	for _, r := range l.of.rows {
		bytes += int64(len(r.batch))
	}
	return bytes
}
