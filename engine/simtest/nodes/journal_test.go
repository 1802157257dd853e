package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quern-queue/quern/engine/cluster"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/journaltest"
	"github.com/quern-queue/quern/engine/queue"
)

// log is a handle of a journal. It finds out what became of an append as that of the package pg does.
type log struct {
	*link
	name string
	of   *table        // which a deletion takes from its name
	turn chan struct{} // held by the one who appends

	mu      sync.Mutex // of what follows; never held during a call
	tail    journal.Position
	sum     journal.Sum
	ghost   *journal.Sum     // with a batch behind the tail whose outcome is not known; nil: there is none
	low     journal.Position // what is before it is gone
	trimmed journal.Position // what is before it is not needed
	wanted  journal.Position // what Trim was told: trimmed is behind it while a reader holds what it reads
	holds   int
	refused bool
	closed  bool
	fails   []failing // of the conformance suite
	late    func()    // the same: a statement that is made when the next one is
}

type failing struct {
	outcome journaltest.Outcome
	made    func()
}

// Rows of a Read that one call takes.
const pageRows = 16

var errClosed = errors.New("the journal is closed")

// table is that of this handle, unless it was deleted.
func (l *log) table(d *database) (*table, error) {
	if d.journals[l.name] != l.of {
		return nil, cluster.ErrNoJournal
	}
	return l.of, nil
}

func (l *log) known() (journal.Position, journal.Sum) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tail, l.sum
}

func (l *log) Append(ctx context.Context, expect journal.Position, batch []byte) (journal.Position, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(batch) > journal.MaxBatchBytes {
		return 0, fmt.Errorf("a batch of %d bytes; at most %d are taken", len(batch), journal.MaxBatchBytes)
	}
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	a := appending{expect: expect, batch: slices.Clone(batch)}
	for {
		done, err := l.try(ctx, &a)
		switch {
		case done:
			l.reclaim(ctx)
			return expect + 1, nil
		case errors.Is(err, journal.ErrConflict), errors.Is(err, errClosed):
			return 0, err
		case errors.Is(err, errKilled): // no one hears what becomes of it
			return 0, fmt.Errorf("%w: %w", err, journal.ErrConflict)
		}
		select {
		case <-ctx.Done():
			if !a.tried {
				return 0, fmt.Errorf("nothing was written: %w (%w)", ctx.Err(), err)
			}
			return 0, fmt.Errorf("%w (%w): %w", journal.ErrUnknown, ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}

// appending is an append that may take several tries.
type appending struct {
	expect journal.Position
	batch  []byte
	sum    journal.Sum
	tried  bool // a try was made whose outcome is not known
}

// try makes one try. An error that is no conflict asks for another one.
func (l *log) try(ctx context.Context, a *appending) (done bool, err error) {
	if err := l.resolve(ctx); err != nil {
		return false, err
	}
	tail, before := l.known()
	switch {
	case l.isClosed():
		return false, errClosed
	case a.tried && tail == a.expect+1 && before == a.sum:
		return true, nil
	case tail != a.expect:
		return false, fmt.Errorf("the last batch that is known is %d, not %d: %w", tail, a.expect, journal.ErrConflict)
	}
	a.sum = before.Next(a.expect+1, a.batch)
	fits, err := l.put(ctx, a, before)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil && fits:
		l.tail, l.sum, l.ghost = a.expect+1, a.sum, nil
		return true, nil
	case err == nil && l.ghost != nil:
		return false, errors.New("a batch came behind the tail while its outcome was looked for")
	case err == nil:
		l.refused = true
		return false, fmt.Errorf("journal %s does not end with batch %d as this writer knows it: %w", l.name, a.expect, journal.ErrConflict)
	case errors.Is(err, errSilent):
		sum := a.sum
		l.ghost, a.tried = &sum, true
	}
	return false, err
}

// put makes the statement of an append.
func (l *log) put(ctx context.Context, a *appending, before journal.Sum) (fits bool, err error) {
	expect, added := a.expect, row{a.batch, a.sum} // the statement may be made when the append is over
	statement := func(d *database) (bool, error) {
		t, err := l.table(d)
		return err == nil && d.append(l.name, t, expect, before, added), err
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

// looked is what resolve finds.
type looked struct {
	tail      journal.Position
	sum, next journal.Sum // at the tail, and behind the batch that was known to be the last one
	trimmed   bool        // the batch behind that one is
}

// resolve finds out what became of a batch whose outcome is not known, if there is one.
func (l *log) resolve(ctx context.Context) error {
	l.mu.Lock()
	tail, sum, ghost := l.tail, l.sum, l.ghost
	l.mu.Unlock()
	if ghost == nil {
		return nil
	}
	found, err := ask(ctx, l.link, func(d *database) (found looked, err error) {
		t, err := l.table(d)
		if err != nil {
			return found, err
		}
		found.tail, found.sum = t.end()
		if found.trimmed = t.base > tail+1; !found.trimmed && found.tail > tail {
			found.next = t.sumAt(tail + 1)
		}
		return found, nil
	})
	switch {
	case err != nil:
		return err
	case found.tail == tail && found.sum == sum:
		return nil // it has not come so far
	case found.tail > tail && found.trimmed:
		return fmt.Errorf("batch %d is trimmed, so no one can tell whether it is the one that was tried", tail+1)
	case found.tail > tail && found.next == *ghost:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.tail, l.sum, l.ghost = tail+1, *ghost, nil
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = true
	return fmt.Errorf("journal %s ends at batch %d, and this writer knows another batch %d: %w", l.name, found.tail, tail, journal.ErrConflict)
}

// page is what one call of a Read gives.
type page struct {
	base    journal.Position
	sum     journal.Sum // up to the batch behind which it was read
	rows    []row
	present bool // that batch is there
}

func (l *log) Read(ctx context.Context, after journal.Position, fn func(journal.Position, []byte) error) error {
	select {
	case l.turn <- struct{}{}: // after an append of unknown outcome
		_ = l.resolve(ctx) // else the next append does it
		<-l.turn
	default: // an append is under way
	}
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
		l.mu.Lock()
		l.low, l.trimmed = max(l.low, p.base), max(l.trimmed, p.base) // another handle may have trimmed it
		trimmed := l.trimmed
		l.mu.Unlock()
		if at < trimmed {
			return fmt.Errorf("batch %d of journal %s: %w", at+1, l.name, journal.ErrTrimmed)
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
			if err := l.learn(at, sum); err != nil {
				return err
			}
			if err := fn(at, r.batch); err != nil {
				return err
			}
		}
	}
}

// learn takes in that the journal has a batch, unless an append of unknown outcome is to be resolved first.
func (l *log) learn(at journal.Position, sum journal.Sum) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case at == l.tail && sum != l.sum:
		return fmt.Errorf("batch %d of journal %s is another one: %w", at, l.name, journal.ErrConflict)
	case at > l.tail && l.ghost == nil:
		l.tail, l.sum = at, sum
	}
	return nil
}

func (l *log) Trimmed() journal.Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.trimmed
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

func (l *log) Trim(ctx context.Context, upTo journal.Position) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errClosed
	}
	l.wanted = max(l.wanted, min(upTo, l.tail))
	l.letGo()
	return nil
}

func (l *log) Hold() (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.holds--
		l.letGo()
	})
}

// letGo takes what Trim was told as trimmed, unless a reader holds it.
func (l *log) letGo() {
	if l.holds == 0 {
		l.trimmed = max(l.trimmed, l.wanted)
	}
}

// reclaim deletes what is trimmed. What it cannot delete the next append does.
func (l *log) reclaim(ctx context.Context) {
	l.mu.Lock()
	upTo, tail, sum := l.trimmed, l.tail, l.sum
	is := l.low < upTo && l.ghost == nil && !l.refused && !l.closed
	l.mu.Unlock()
	if !is {
		return
	}
	_, err := ask(ctx, l.link, func(d *database) (none struct{}, err error) {
		t, err := l.table(d)
		if err == nil {
			t.trim(upTo, tail, sum)
		}
		return none, err
	})
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.low = upTo
	}
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

func (l *log) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

func (l *log) Close() error {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	l.reclaim(context.Background())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return nil
}
