package engine

import (
	"context"
	"sync"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// cleaner removes things that are past their retention, and has files give back the room. It works in slices. It rests for a second after a
// round that left nothing to do, and after any other for as long as the round took. So it keeps up with the ends of submissions, and takes
// half a processor at most.
type cleaner struct {
	e  *Engine
	mu sync.Mutex // one round at a time

	acts    size // entries of the audit log in one slice
	letters size // dead letters
	ended   size // ended submissions
	keys    size // pages of idempotency keys
	bytes   size // that a file gives back
	whole   size // work without slices
}

const (
	cleanEvery = time.Second
	// cleanSlice is how long one slice is to take. A slice has locks that clients may wait for, such as that of the store's writer.
	cleanSlice = 20 * time.Millisecond
	// cleanTurn is how long the turn of one queue is.
	cleanTurn = 50 * time.Millisecond
)

// size is how much one slice does: less after one that took too long, more after short ones.
type size struct{ now, least, most int }

// took adapts the size to how long a slice took, and whether that was a full one.
func (s *size) took(d time.Duration, full bool) {
	switch {
	case d > cleanSlice:
		s.now = max(s.now/2, s.least)
	case d < cleanSlice/2 && full:
		s.now = min(s.now*2, s.most)
	}
}

func newCleaner(e *Engine) *cleaner {
	return &cleaner{e: e, acts: size{500, 100, 10_000}, letters: size{500, 50, 5_000}, ended: size{500, 50, 5_000},
		keys:  size{500, 50, 10_000},
		bytes: size{1 << 20, 64 << 10, 16 << 20}}
}

// always cleans until ctx ends.
func (c *cleaner) always(ctx context.Context) {
	timer := time.NewTimer(cleanEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		began, pause := c.e.options.Now(), cleanEvery
		if c.round(ctx) {
			pause = min(max(c.e.options.Now().Sub(began), time.Millisecond), cleanEvery) // a clock that is set may tell anything
		}
		timer.Reset(pause)
	}
}

// round gives the catalogue and every queue a turn, and says whether anything is left to do.
func (c *cleaner) round(ctx context.Context) (more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.e
	if keep := e.options.AuditKeep; keep > 0 {
		more = c.turn(ctx, &c.acts, "", "removing old entries of the audit log", func(most int) (bool, error) {
			n, err := e.catalogue.TrimActs(queue.At(e.options.Now()).Add(-keep), most)
			return n == int64(most), err
		})
	}
	more = c.turn(ctx, &c.bytes, "", "shrinking the catalogue", func(most int) (bool, error) {
		return e.catalogue.Shrink(e.full.Load(), int64(most))
	}) || more
	for _, q := range e.all() {
		more = c.queue(ctx, q) || more
	}
	return more && ctx.Err() == nil
}

func (c *cleaner) queue(ctx context.Context, q *Queue) (more bool) {
	more = c.turn(ctx, &c.whole, q.name, "deleting submissions", func(int) (bool, error) {
		return false, q.shard.Deletions.Due(ctx)
	})
	if keep := q.info().Settings.DeadRetention; keep > 0 {
		more = c.turn(ctx, &c.letters, q.name, "discarding old dead letters", func(most int) (bool, error) {
			return q.shard.Retention.Age(ctx, keep, most)
		}) || more
	}
	if keep := q.info().Settings.Retention; keep > 0 {
		more = c.turn(ctx, &c.ended, q.name, "retention", func(most int) (bool, error) {
			return q.shard.Retention.Retain(ctx, queue.At(c.e.options.Now()).Add(-keep), most)
		}) || more
	}
	more = c.turn(ctx, &c.keys, q.name, "removing old idempotency keys", func(most int) (bool, error) {
		return q.store.Keys.Expire(ctx, queue.At(c.e.options.Now()).Add(-queue.IdempotencyWindow), most)
	}) || more
	return c.turn(ctx, &c.bytes, q.name, "shrinking the store", func(most int) (bool, error) {
		return q.store.Space.Shrink(ctx, c.e.full.Load(), int64(most))
	}) || more
}

// turn does slices of one thing until nothing of it is left, or its time is over: then it returns true.
func (c *cleaner) turn(ctx context.Context, size *size, queueName, what string, slice func(most int) (more bool, err error)) bool {
	began := c.e.options.Now()
	for now := began; ; {
		more := false
		err := c.e.roomy(func() (err error) { // it makes room, but needs some for that
			more, err = slice(size.now)
			return err
		})
		after := c.e.options.Now()
		size.took(after.Sub(now), more)
		now = after
		switch {
		case ctx.Err() != nil || err == nil && !more || queue.CodeOf(err) == queue.CodeUnavailable: // the queue is closed meanwhile
			return false
		case err != nil:
			c.e.options.Logger.Error(what+" failed; the server tries again", "queue", queueName, "error", err)
			return false
		case now.Sub(began) > cleanTurn:
			return true
		}
	}
}
