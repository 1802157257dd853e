// Package handle is the part of a journal's handle that does not depend on the database. It tracks the end that the writer knows, appends
// that got no answer, and the batches that may be trimmed. The simulation of a cluster puts it on its own database, so it runs the code of
// a cluster.
package handle

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quern-queue/quern/engine/journal"
)

// Database makes the statements of one journal. A statement may be lost, be made twice, or come when no one waits for it any more.
type Database interface {
	// Put appends a batch, in one commit, if the journal ends with the position and the sum in front of it. If it does not, fits is false.
	Put(ctx context.Context, b *Batch) (fits bool, err error)

	// Look finds out whether the batch behind tail is the one with this sum. It is durable if found says so.
	Look(ctx context.Context, tail journal.Position, sum journal.Sum) (found Found, err error)

	// Delete deletes a slice of the batches up to a position, if the journal ends with this tail and this sum: positions mean something
	// else in a journal that was taken back. Then all batches up to low are gone; low 0: another writer has the journal, or another handle
	// deleted them.
	Delete(ctx context.Context, upTo, tail journal.Position, sum journal.Sum) (low journal.Position, err error)

	// Judge interprets an error of the other methods. silent: a Put may have been made, or may yet be. final: another try would end with
	// the same error, this one; nil: it may succeed.
	Judge(err error) (silent bool, final error)

	// Grew is told of a batch that was appended.
	Grew(bytes int)
}

// Batch is the batch of a Put.
type Batch struct {
	Expect journal.Position // where the journal ends
	Before journal.Sum      // of the chain up to there
	Bytes  []byte
	Sum    journal.Sum // of the chain with this batch
}

// Found is the end of a journal, as Look finds it.
type Found struct {
	Written bool // the batch that was looked for is there, and durable
	Tail    journal.Position
	Sum     journal.Sum
	Next    *journal.Sum // behind the known tail; nil: there is no batch, or not any more
}

// Options are the initial knowledge of a handle, and its pauses.
type Options struct {
	Name                string
	Database            Database
	Tail, Low           journal.Position // the last batch, and the last that is gone
	Sum                 journal.Sum      // at the tail
	FirstPause, MaxWait time.Duration    // before an append is tried again; it doubles, up to MaxWait
	Ended               <-chan struct{}  // closed when the database is; nil: it never is
}

// Handle is the part of a journal's handle that all databases share.
type Handle struct {
	o    Options
	turn chan struct{} // held while a caller appends or trims, which may take long

	mu      sync.Mutex // of what follows; never held during a statement
	tail    journal.Position
	sum     journal.Sum
	ghost   *journal.Sum     // of the chain with a batch behind the tail whose outcome is not known; nil: there is none
	low     journal.Position // batches up to here are gone
	trimmed journal.Position // batches up to here are not needed
	wanted  journal.Position // the position of the last Trim; trimmed is behind it while a reader holds the batches that it reads
	holds   int
	refused bool // an append was: trimming is another writer's affair
	closed  bool
}

// ErrClosed is the error of a handle that was closed, or whose database was.
var ErrClosed = errors.New("the journal is closed")

// New makes a handle.
func New(o Options) *Handle {
	return &Handle{o: o, turn: make(chan struct{}, 1), tail: o.Tail, sum: o.Sum, low: o.Low, trimmed: o.Low}
}

// appending is an append that may take several tries.
type appending struct {
	Batch
	tried bool // a try was made whose outcome is not known
}

// Append implements journal.Journal.
func (h *Handle) Append(ctx context.Context, expect journal.Position, batch []byte) (journal.Position, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(batch) > journal.MaxBatchBytes {
		return 0, fmt.Errorf("append: a batch of %d bytes; at most %d are taken", len(batch), journal.MaxBatchBytes)
	}
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	a := appending{Batch: Batch{Expect: expect, Bytes: batch}}
	for pause := h.o.FirstPause; ; pause = min(2*pause, h.o.MaxWait) {
		done, err := h.try(ctx, &a)
		switch _, final := h.o.Database.Judge(err); {
		case done:
			h.o.Database.Grew(len(batch))
			_, _ = h.reclaim(ctx) // the next append tries again
			return expect + 1, nil
		case errors.Is(err, journal.ErrConflict), errors.Is(err, ErrClosed):
			return 0, err
		case final != nil && !a.tried: // nothing is certain before a batch is behind the tail
			return 0, final
		}
		select {
		case <-ctx.Done():
			return 0, a.undecided(err, ctx.Err())
		case <-h.o.Ended:
			return 0, a.undecided(err, ErrClosed)
		case <-time.After(pause):
		}
	}
}

// undecided is the error of an append that may not go on.
func (a *appending) undecided(err, end error) error {
	if !a.tried {
		return fmt.Errorf("append: nothing was written: %w (%w)", end, err)
	}
	return fmt.Errorf("append: %w (%w): %w", journal.ErrUnknown, end, err)
}

// try makes one try. After an error that is no conflict, another try may succeed.
func (h *Handle) try(ctx context.Context, a *appending) (done bool, err error) {
	if err := h.resolve(ctx); err != nil {
		return false, h.noteRefused(err)
	}
	if done, err := h.begin(a); done || err != nil {
		return done, err
	}
	fits, err := h.o.Database.Put(ctx, &a.Batch)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch silent, _ := h.o.Database.Judge(err); {
	case err == nil && fits:
		h.tail, h.sum, h.ghost = a.Expect+1, a.Sum, nil
		return true, nil
	case err == nil && h.ghost != nil:
		return false, errors.New("a batch came behind the tail while its outcome was looked for")
	case err == nil:
		h.refused = true
		return false, fmt.Errorf("append: journal %s does not end with batch %d as this writer knows it: %w",
			h.o.Name, a.Expect, journal.ErrConflict)
	case silent:
		sum := a.Sum
		h.ghost, a.tried = &sum, true
	}
	return false, err
}

// begin prepares a try, unless the journal is known to end elsewhere. done: an earlier try of the append was written.
func (h *Handle) begin(a *appending) (done bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return false, ErrClosed
	case a.tried && h.tail == a.Expect+1 && h.sum == a.Sum:
		return true, nil
	case a.Expect != h.tail:
		return false, fmt.Errorf("append: the last batch of journal %s that is known is %d, not %d: %w",
			h.o.Name, h.tail, a.Expect, journal.ErrConflict)
	}
	a.Before, a.Sum = h.sum, h.sum.Next(a.Expect+1, a.Bytes)
	return false, nil
}

// noteRefused notes that another writer has the journal.
func (h *Handle) noteRefused(err error) error {
	if errors.Is(err, journal.ErrConflict) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.refused = true
	}
	return err
}

// Resolve finds the outcome of an append that got no answer. If it fails, the next append tries again. While an append is under way, it
// does nothing.
func (h *Handle) Resolve(ctx context.Context) {
	select {
	case h.turn <- struct{}{}:
		_ = h.resolve(ctx)
		<-h.turn
	default:
	}
}

// resolve finds the outcome of a batch whose outcome is not known, if there is one. A batch that it finds is durable when it returns.
func (h *Handle) resolve(ctx context.Context) error {
	h.mu.Lock()
	tail, sum, ghost := h.tail, h.sum, h.ghost
	h.mu.Unlock()
	if ghost == nil {
		return nil
	}
	found, err := h.o.Database.Look(ctx, tail, *ghost)
	switch {
	case err != nil:
		return err
	case found.Written:
		h.mu.Lock()
		defer h.mu.Unlock()
		h.tail, h.sum, h.ghost = tail+1, *ghost, nil
		return nil
	case found.Tail == tail && found.Sum == sum:
		return nil // it has not come so far
	case found.Tail > tail && found.Next == nil:
		return fmt.Errorf("batch %d is trimmed, so no one can tell whether it is the one that was tried", tail+1)
	case found.Tail > tail && *found.Next == *ghost:
		return fmt.Errorf("batch %d came while it was looked for", tail+1)
	}
	return fmt.Errorf("append: journal %s ends at batch %d, and this writer knows another batch %d: %w",
		h.o.Name, found.Tail, tail, journal.ErrConflict)
}

// Learn takes in that the journal has a batch. It is a conflict if this handle knows another batch there. While the outcome of an append is
// unknown, the handle learns nothing: the batch that was read may be the one of that append, which is not durable before resolve has
// confirmed it.
func (h *Handle) Learn(at journal.Position, sum journal.Sum) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case at == h.tail && sum != h.sum:
		return fmt.Errorf("read: batch %d of journal %s is another one: %w", at, h.o.Name, journal.ErrConflict)
	case at > h.tail && h.ghost == nil:
		h.tail, h.sum = at, sum
	}
	return nil
}

// Gone takes in that another handle may have trimmed the journal. It refuses to read on behind a batch that is trimmed.
func (h *Handle) Gone(upTo, behind journal.Position) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.low, h.trimmed = max(h.low, upTo), max(h.trimmed, upTo); behind < h.trimmed {
		return fmt.Errorf("read: batch %d of journal %s: %w", behind+1, h.o.Name, journal.ErrTrimmed)
	}
	return nil
}

// End is the last batch that this handle knows, and the sum of the chain up to it.
func (h *Handle) End() (journal.Position, journal.Sum) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tail, h.sum
}

// Trimmed implements journal.Journal.
func (h *Handle) Trimmed() journal.Position {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.trimmed
}

// Trim implements journal.Journal.
func (h *Handle) Trim(ctx context.Context, upTo journal.Position) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return ErrClosed
	}
	h.wanted = max(h.wanted, min(upTo, h.tail))
	h.letGo()
	return nil
}

// Hold implements journal.Journal.
func (h *Handle) Hold() (release func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holds++
	return sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.holds--
		h.letGo()
	})
}

// letGo counts the batches of the last Trim as trimmed, unless a reader holds them.
func (h *Handle) letGo() {
	if h.holds == 0 {
		h.trimmed = max(h.trimmed, h.wanted)
	}
}

// trimmable says up to where reclaim may delete, and the end of the journal as this handle knows it.
func (h *Handle) trimmable() (upTo, tail journal.Position, sum journal.Sum, is bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.trimmed, h.tail, h.sum, h.low < h.trimmed && h.ghost == nil && !h.refused && !h.closed
}

// reclaim deletes one slice of the trimmed batches. The caller has the turn. more: another slice is left.
func (h *Handle) reclaim(ctx context.Context) (more bool, err error) {
	upTo, tail, sum, is := h.trimmable()
	if !is {
		return false, nil
	}
	low, err := h.o.Database.Delete(ctx, upTo, tail, sum)
	if err != nil || low == 0 {
		return false, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.low = low
	return low < upTo, nil
}

// Reclaim deletes all trimmed batches, in slices. The next append deletes those that it cannot delete now.
func (h *Handle) Reclaim(ctx context.Context) error {
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	for {
		if more, err := h.reclaim(ctx); !more || err != nil {
			return err
		}
	}
}

// closing bounds how long a Close trims.
const closing = 10 * time.Second

// Close implements journal.Journal. A later Trim deletes the batches that it cannot delete now.
func (h *Handle) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	_ = h.Reclaim(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	return nil
}
