package engine

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// Bulk operations belong to the shard of their queue, which records how far they got (shard/bulks). This file gives them turns, and keeps
// their rates.

// bulkRunner gives running operations their turns, and knows how much each may do now.
type bulkRunner struct {
	e      *Engine
	mu     sync.Mutex
	turn   sync.Mutex // held by the goroutine that advances the operations: one at a time
	of     map[queue.BulkID]*bulkPace
	warned time.Time                   // when it was logged last that a step failed
	met    map[queue.BulkID]*bulkMeter // the progress of running operations since the start of the server
}

// bulkPace saves up for a second at most, and begins with one second's worth: an operation does not catch up after a restart.
type bulkPace struct {
	saved float64
	at    queue.Time
}

const (
	bulkMost  = 4000                  // chunks or submissions of one operation in one turn
	bulkPage  = journal.MaxRedrive    // and in one step
	bulkLooks = 16                    // steps of a turn that break off because they found little
	bulkEvery = 50 * time.Millisecond // how often running operations get a turn
)

// Start starts a bulk operation, durably. Run does its work.
func (p Bulks) Start(ctx context.Context, r queue.BulkRequest) (queue.Bulk, error) {
	var err error
	if r.Filter.Meta, err = queue.NewMeta(r.Filter.Meta); err != nil {
		return queue.Bulk{}, err
	}
	if err := p.q.validBulk(&r); err != nil {
		return queue.Bulk{}, err
	}
	if err := bulkShare(ctx, p.q); err != nil {
		return queue.Bulk{}, err
	}
	if err := oldest(ctx, p.q, &r); err != nil {
		return queue.Bulk{}, err
	}
	return p.q.shard.Bulks.Start(r, p.q.act(ctx, r.Actor, "bulk.start", ""))
}

func (q *Queue) validBulk(r *queue.BulkRequest) error {
	f := &r.Filter
	if err := validPriority(r.Priority); err != nil {
		return err
	}
	if err := validActor(r.Actor); err != nil {
		return err
	}
	switch {
	case r.Action != queue.BulkForward && r.To != "":
		return queue.Invalid("/to", "is for the action forward only")
	case r.Action == queue.BulkForward:
		if err := q.validForward(r.To); err != nil {
			return err
		}
	}
	for _, state := range f.States {
		if r.Action != queue.BulkPurge && state != queue.Open && (!r.Action.OnLetters() || state != queue.CompletedWithDead) {
			return queue.Invalid("/filter/states", "has %q: only submissions that are open have something for this "+
				"action (and, for dead letters, those that are completed_with_dead)", state)
		}
	}
	if f.Dead.Oldest > 0 && !r.Action.OnLetters() {
		return queue.Invalid("/filter/oldest", "is about dead letters: redrive, delete or forward")
	}
	if f.Dead.Oldest > queue.MaxOldest {
		return queue.Invalid("/filter/oldest", "must be at most %d; leave it out for all", queue.MaxOldest)
	}
	if r.Limit > queue.MaxOldest {
		return queue.Invalid("/limit", "must be at most %d; leave it out for all", queue.MaxOldest)
	}
	if !r.Action.OnChunks() && (f.Dead.Fingerprint != "" || f.Dead.Timed()) {
		return queue.Invalid("/filter", "has fingerprint, died_before or died_after, which are about chunks: the action %s takes "+
			"whole submissions", r.Action)
	}
	return nil
}

// Bulk tells how a bulk operation stands. CodeUnknownBulk: there is none, or it was forgotten.
func (e *Engine) Bulk(id string) (queue.Bulk, error) {
	_, b, err := e.findBulk(id)
	if err == nil {
		e.bulks.foresee(&b)
	}
	return b, err
}

func (e *Engine) findBulk(text string) (*Queue, queue.Bulk, error) {
	if id, ok := queue.ParseBulkID(text); ok {
		if q, err := e.QueueOf(queue.SubmissionID(id)); err == nil {
			if b, there := q.shard.Bulks.Get(id); there {
				return q, b, nil
			}
		}
	}
	return nil, queue.Bulk{}, &queue.Error{Code: queue.CodeUnknownBulk, Message: fmt.Sprintf("There is no bulk "+
		"operation %s: it never existed, or it ended and was forgotten (the server keeps the last %d of each queue).",
		clip(text, 64), queue.MaxBulkKept)}
}

// Bulks lists the bulk operations of all queues, or of one, the newest first.
func (e *Engine) Bulks(queueName string) (list []queue.Bulk, err error) {
	queues := e.all()
	if queueName != "" {
		q, err := e.Queue(queueName)
		if err != nil {
			return nil, err
		}
		queues = []*Queue{q}
	}
	for _, q := range queues {
		list = append(list, q.shard.Bulks.List()...)
	}
	slices.SortFunc(list, func(a, b queue.Bulk) int { return cmp.Compare(b.ID, a.ID) })
	for i := range list {
		e.bulks.foresee(&list[i])
	}
	return list, nil
}

// CancelBulk stops a bulk operation, durably, and keeps who asked for that. The changes that it made stay. An operation that has ended
// stays as it is.
func (e *Engine) CancelBulk(ctx context.Context, id, actor string) (queue.Bulk, error) {
	if err := validActor(actor); err != nil {
		return queue.Bulk{}, err
	}
	q, b, err := e.findBulk(id)
	if err != nil {
		return b, err
	}
	if err := q.shard.Bulks.End(b.ID, queue.BulkCancelled, actor, "",
		q.act(ctx, actor, "bulk.cancel", "bulk operation "+b.ID.String())); err != nil {
		return queue.Bulk{}, err
	}
	e.options.Logger.Info("bulk operation cancelled", "id", b.ID, "queue", q.name, "action", b.Action, "actor", actor)
	return e.Bulk(id)
}

// step takes every running operation a turn further.
func (p *bulkRunner) step(ctx context.Context) {
	p.turn.Lock()
	defer p.turn.Unlock()
	running := map[queue.BulkID]bool{}
	for _, q := range p.e.all() {
		for _, b := range q.shard.Bulks.List() {
			if b.State == queue.BulkRunning && ctx.Err() == nil {
				running[b.ID] = true
				p.turnOf(ctx, q, &b)
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.of {
		if !running[id] {
			delete(p.of, id)
		}
	}
	for id := range p.met {
		if !running[id] {
			delete(p.met, id)
		}
	}
}

// turnOf gives one operation its turn.
func (p *bulkRunner) turnOf(ctx context.Context, q *Queue, b *queue.Bulk) {
	p.meter(b)
	left, done, looks := p.allowance(b), 0, 0
	if left <= 0 {
		return
	}
	var err error
	if p.e.options.Spans != nil {
		if span := p.e.options.Spans.Bulk(b); span != nil {
			defer func() { span.End(done, err) }()
		}
	}
	for left > 0 && ctx.Err() == nil {
		var n int
		var more bool
		n, more, err = p.page(ctx, q, b, min(left, bulkPage))
		done += n
		if err != nil {
			p.failed(ctx, q, b, err)
			return
		}
		p.spend(b, n)
		if n < min(left, bulkPage) {
			looks++
		}
		if left -= n; !more || looks == bulkLooks {
			return
		}
	}
}

// page does a page. While it decides that dead letters leave for a queue, that queue cannot be deleted. A purge page only orders deletions.
// They are done behind it, because a deletion needs the history for itself.
func (p *bulkRunner) page(ctx context.Context, q *Queue, b *queue.Bulk, most int) (n int, more bool, err error) {
	if b.Action == queue.BulkForward && !b.DryRun {
		p.e.forwards.doors.RLock()
		defer p.e.forwards.doors.RUnlock()
		if _, err := p.e.Queue(b.To); err != nil {
			return 0, false, err
		}
	}
	n, more, err = q.shard.Bulks.Step(ctx, b.ID, most)
	if b.Action == queue.BulkPurge && !b.DryRun && err == nil {
		// A submission that cannot be deleted now, of this purge or of another caller, must not end the purge: its order is durable.
		if stuck := q.shard.Deletions.Due(ctx); stuck != nil && ctx.Err() == nil && p.mayWarn() {
			p.e.options.Logger.Warn("a submission could not be deleted; the server tries again", "queue", q.name, "error", stuck)
		}
	}
	return n, more, err
}

// failed decides what a failed step means. A failure that may pass is tried again; any other ends the operation.
func (p *bulkRunner) failed(ctx context.Context, q *Queue, b *queue.Bulk, err error) {
	failure := err.Error()
	switch code := queue.CodeOf(err); {
	case ctx.Err() != nil:
		return
	case code == queue.CodeCommitFailed || code == queue.CodeDiskFull || code == queue.CodeUnavailable || code == queue.CodeOverloaded:
		if !p.mayWarn() {
			return
		}
		p.e.options.Logger.Warn("a step of a bulk operation failed; the server tries again", "id", b.ID, "queue", q.name, "error", err)
		return
	case code == "":
		failure = "internal: the server's log says what is wrong"
	}
	p.e.options.Logger.Error("a bulk operation failed", "id", b.ID, "queue", q.name, "error", err)
	if err := q.shard.Bulks.End(b.ID, queue.BulkFailed, "", failure); err != nil {
		p.e.options.Logger.Error("ending a failed bulk operation failed; the server tries again", "id", b.ID, "queue", q.name, "error", err)
	}
}

// mayWarn says whether it is to be logged that a step failed: once a minute, as steps are tried twenty times a second.
func (p *bulkRunner) mayWarn() bool {
	now := p.e.options.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.warned.IsZero() && now.Sub(p.warned) < warnEvery {
		return false
	}
	p.warned = now
	return true
}

// allowance is how much the operation may do now.
func (p *bulkRunner) allowance(b *queue.Bulk) int {
	if b.Rate == 0 || b.DryRun {
		return bulkMost
	}
	now := queue.At(p.e.options.Now())
	p.mu.Lock()
	defer p.mu.Unlock()
	pace := p.of[b.ID]
	if pace == nil {
		pace = &bulkPace{saved: 1, at: now}
		if p.of == nil {
			p.of = map[queue.BulkID]*bulkPace{}
		}
		p.of[b.ID] = pace
	}
	if elapsed := now.Sub(pace.at).Seconds(); elapsed > 0 {
		pace.saved = min(pace.saved+elapsed*float64(b.Rate), float64(b.Rate))
	}
	pace.at = now
	return int(min(pace.saved, bulkMost))
}

func (p *bulkRunner) spend(b *queue.Bulk, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pace := p.of[b.ID]; pace != nil {
		pace.saved -= float64(n)
	}
}

// ages is a heap of dead letters by when they died, the one that died last on top.
type ages []queue.DeadAge

func (a ages) Len() int           { return len(a) }
func (a ages) Less(i, j int) bool { return a[i].Compare(a[j]) > 0 }
func (a ages) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *ages) Push(x any)        { *a = append(*a, x.(queue.DeadAge)) }

func (a *ages) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	*a = (*a)[:last]
	return x
}

// oldest fixes which dead letters are the oldest that a request asks for. Later deaths, redrives, deletions and restarts do not change the
// choice. It looks at every letter.
func oldest(ctx context.Context, q *Queue, r *queue.BulkRequest) error {
	f := &r.Filter
	f.Dead.Until = queue.DeadAge{}
	if f.Dead.Oldest == 0 {
		return nil
	}
	var first ages
	after := queue.ChunkID{}
	for {
		page, err := q.shard.DeadLetters.List(ctx, *f, after, queue.MaxListLimit)
		if err != nil {
			return err
		}
		for i := range page {
			after = page[i].Chunk
			switch age := page[i].Age(); {
			case len(first) < int(f.Dead.Oldest):
				heap.Push(&first, age)
			case age.Compare(first[0]) < 0:
				first[0] = age
				heap.Fix(&first, 0)
			}
		}
		if len(page) < queue.MaxListLimit {
			break
		}
	}
	if len(first) > 0 {
		f.Dead.Until = first[0]
	}
	return nil
}

// bulkMeter measures the progress of an operation over the last one to two spans, or since the server runs it. So a restart, or a disk that
// was full for an hour, does not spoil the forecast for long.
type bulkMeter struct{ from, middle bulkMark }

type bulkMark struct {
	at       time.Time // with its reading of the monotonic clock
	examined uint64
}

const (
	bulkSpan    = 30 * time.Second
	bulkSettled = time.Second               // a pace that was measured for less says nothing
	bulkFarOff  = 10 * 365 * 24 * time.Hour // a longer time is not forecast
)

// meter notes how far an operation is before its turn.
func (p *bulkRunner) meter(b *queue.Bulk) {
	now := bulkMark{p.e.options.Now(), b.Walk.Examined}
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.met[b.ID]
	switch {
	case m == nil:
		if p.met == nil {
			p.met = map[queue.BulkID]*bulkMeter{}
		}
		p.met[b.ID] = &bulkMeter{now, now}
	case now.at.Sub(m.middle.at) >= bulkSpan:
		m.from, m.middle = m.middle, now
	}
}

// foresee sets the time that a running operation still takes, if it is known: by the measured pace, or else by its rate.
func (p *bulkRunner) foresee(b *queue.Bulk) {
	left := b.Walk.Left()
	if b.State != queue.BulkRunning || left == 0 {
		return
	}
	pace := 0.0
	if !b.DryRun {
		pace = float64(b.Rate)
	}
	now := p.e.options.Now()
	p.mu.Lock()
	if m := p.met[b.ID]; m != nil {
		if elapsed := now.Sub(m.from.at); elapsed >= bulkSettled {
			pace = float64(b.Walk.Examined-min(m.from.examined, b.Walk.Examined)) / elapsed.Seconds()
		}
	}
	p.mu.Unlock()
	if seconds := float64(left) / pace; pace > 0 && seconds < bulkFarOff.Seconds() {
		b.Remaining = max(time.Duration(seconds*float64(time.Second)), time.Millisecond)
	}
}
