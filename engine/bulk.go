package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// BulkAction is what a bulk operation does with what its filter means.
type BulkAction uint8

// The actions on dead letters.
const (
	BulkRedrive BulkAction = iota
	BulkDelete
)

var bulkActions = [...]string{"redrive", "delete"}

func (a BulkAction) String() string { return bulkActions[a] }

// ParseBulkAction reads the name of an action.
func ParseBulkAction(name string) (BulkAction, bool) {
	i := slices.Index(bulkActions[:], name)
	return BulkAction(max(i, 0)), i >= 0
}

// BulkState is where a bulk operation stands. Every state but BulkRunning is final.
type BulkState uint8

// The states.
const (
	BulkRunning BulkState = iota
	BulkCompleted
	BulkCancelled
	BulkFailed
)

var bulkStates = [...]string{"running", "completed", "cancelled", "failed"}

func (s BulkState) String() string { return bulkStates[s] }

// BulkRequest asks for something to be done with many dead letters of a queue: all that the filter means and that died
// before the operation started.
type BulkRequest struct {
	Queue  string
	Action BulkAction
	Filter queue.DeadFilter
	Rate   uint32 // chunks per second at most; 0: as fast as it goes
	DryRun bool   // count only
}

// Bulk is a bulk operation. It lives in memory: a restart forgets it, and what it did stays done.
type Bulk struct {
	BulkRequest
	ID       string
	State    BulkState
	Created  queue.Time
	Finished queue.Time // 0 while it runs
	Matched  uint64     // dead letters met so far that the filter means
	Done     uint64     // of them, those redriven or deleted; none in a dry run
	Refused  uint64     // of them, those whose submission does not allow it, or that somebody else came to first
	Failure  string     // of a failed one
}

// Bounds of bulk operations, which are held in memory.
const (
	maxBulkRunning = 16
	maxBulkKept    = 200
	bulkMost       = 5000 // chunks of one operation in one step
	bulkPage       = 256
)

// bulks are all operations, oldest first.
type bulks struct {
	mu   sync.Mutex
	list []*bulkRun
}

type bulkRun struct {
	Bulk
	after queue.ChunkID
}

// StartBulk starts a bulk operation. Run does its work.
func (e *Engine) StartBulk(_ context.Context, r BulkRequest) (Bulk, error) {
	if _, err := e.queue(r.Queue); err != nil {
		return Bulk{}, err
	}
	now := queue.At(e.options.Now())
	b := &bulkRun{Bulk: Bulk{BulkRequest: r, ID: fmt.Sprintf("b%016x", e.options.Seed()), Created: now}}
	e.bulks.mu.Lock()
	defer e.bulks.mu.Unlock()
	running := 0
	for _, other := range e.bulks.list {
		if other.State == BulkRunning {
			running++
		}
	}
	if running >= maxBulkRunning {
		return Bulk{}, &queue.Error{Code: queue.CodeOverloaded, Message: fmt.Sprintf("%d bulk operations run already, which is the most. Wait for one to end, or cancel one.", running)}
	}
	e.bulks.list = append(e.bulks.list, b)
	for i := 0; len(e.bulks.list) > maxBulkKept && i < len(e.bulks.list); {
		if e.bulks.list[i].State == BulkRunning {
			i++
			continue
		}
		e.bulks.list = slices.Delete(e.bulks.list, i, i+1)
	}
	return b.Bulk, nil
}

// Bulk tells how a bulk operation stands. CodeUnknownBulk: there is none, or it was forgotten.
func (e *Engine) Bulk(id string) (Bulk, error) {
	e.bulks.mu.Lock()
	defer e.bulks.mu.Unlock()
	b, err := e.bulks.find(id)
	if err != nil {
		return Bulk{}, err
	}
	return b.Bulk, nil
}

// Bulks lists the bulk operations since the server started, at most the last 200, the newest first.
func (e *Engine) Bulks() []Bulk {
	e.bulks.mu.Lock()
	defer e.bulks.mu.Unlock()
	list := make([]Bulk, 0, len(e.bulks.list))
	for _, b := range slices.Backward(e.bulks.list) {
		list = append(list, b.Bulk)
	}
	return list
}

// CancelBulk stops a bulk operation. What it did stays done; one that has ended stays as it is.
func (e *Engine) CancelBulk(id string) (Bulk, error) {
	now := queue.At(e.options.Now())
	e.bulks.mu.Lock()
	defer e.bulks.mu.Unlock()
	b, err := e.bulks.find(id)
	if err != nil {
		return Bulk{}, err
	}
	b.end(BulkCancelled, "", now)
	return b.Bulk, nil
}

func (l *bulks) find(id string) (*bulkRun, error) {
	for _, b := range l.list {
		if b.ID == id {
			return b, nil
		}
	}
	return nil, &queue.Error{Code: queue.CodeUnknownBulk, Message: "There is no bulk operation " + id + ": it never was, or it was forgotten (the last 200 are kept, until the server restarts)."}
}

func (b *bulkRun) end(state BulkState, failure string, now queue.Time) {
	if b.State == BulkRunning {
		b.State, b.Failure, b.Finished = state, failure, now
	}
}

// stepBulks takes every running operation a step further.
func (e *Engine) stepBulks(ctx context.Context) {
	e.bulks.mu.Lock()
	list := slices.Clone(e.bulks.list)
	e.bulks.mu.Unlock()
	for _, b := range list {
		left := e.allowance(b)
		for left > 0 && ctx.Err() == nil {
			n, more := e.stepBulk(ctx, b, min(left, bulkPage))
			left -= n
			if !more {
				break
			}
		}
	}
}

// allowance is how many chunks the operation may take now. It begins with one, and never saves up for more than a second.
func (e *Engine) allowance(b *bulkRun) int {
	e.bulks.mu.Lock()
	defer e.bulks.mu.Unlock()
	switch {
	case b.State != BulkRunning:
		return 0
	case b.Rate == 0 || b.DryRun:
		return bulkMost
	}
	elapsed := queue.At(e.options.Now()).Sub(b.Created)
	due := 1 + uint64(elapsed.Seconds()*float64(b.Rate))
	if due <= b.Matched {
		return 0
	}
	return int(min(due-b.Matched, uint64(b.Rate), bulkMost))
}

// stepBulk does the next page of an operation: how many chunks that were, and whether there may be more.
func (e *Engine) stepBulk(ctx context.Context, b *bulkRun, most int) (n int, more bool) {
	f := b.Filter
	if started := b.Created + 1; f.DiedBefore == 0 || f.DiedBefore > started {
		f.DiedBefore = started // what is redriven and dies again is not met again
	}
	q, err := e.queue(b.Queue)
	var page []queue.DeadChunk
	if err == nil {
		page, err = q.shard.DeadLetters(ctx, f, b.after, most)
	}
	done := 0
	if err == nil && !b.DryRun {
		done, err = e.actOn(ctx, q, b.Action, page)
	}
	now := queue.At(e.options.Now())
	e.bulks.mu.Lock()
	defer e.bulks.mu.Unlock()
	b.Done += uint64(done)
	if err != nil {
		if ctx.Err() == nil {
			e.options.Logger.Error("a bulk operation failed", "id", b.ID, "queue", b.Queue, "error", err)
			failure := err.Error()
			if queue.CodeOf(err) == "" {
				failure = "internal: the server's log says what is wrong"
			}
			b.end(BulkFailed, failure, now)
		}
		return 0, false
	}
	b.Matched += uint64(len(page))
	if !b.DryRun {
		b.Refused += uint64(len(page) - done)
	}
	if len(page) < most {
		b.end(BulkCompleted, "", now)
		return len(page), false
	}
	b.after = page[len(page)-1].Chunk
	return len(page), b.State == BulkRunning
}

// actOn redrives or deletes dead letters, which are in the order of the list, submission by submission.
func (e *Engine) actOn(ctx context.Context, q *openQueue, action BulkAction, page []queue.DeadChunk) (done int, err error) {
	for start := 0; start < len(page); {
		id := page[start].Chunk.Submission
		var indexes []uint32
		for ; start < len(page) && page[start].Chunk.Submission == id && len(indexes) < redriveMost; start++ {
			indexes = append(indexes, page[start].Chunk.Index)
		}
		slices.SortFunc(indexes, cmp.Compare[uint32])
		n := 0
		if action == BulkRedrive {
			n, err = q.shard.Redrive(ctx, id, indexes)
		} else {
			n, err = q.shard.DeleteDead(ctx, id, indexes)
		}
		done += n
		if code := queue.CodeOf(err); code == queue.CodeConflict || code == queue.CodeUnknownSubmission {
			err = nil // counted as refused
		}
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// bulkPace is how often running operations go on.
const bulkPace = 50 * time.Millisecond
