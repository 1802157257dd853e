package bulks

import (
	"context"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

//	list (memory and history, newest first) ─► filter ─► one hold:  order each deletion + note ─► batch
//	                                                     the engine: makes the ordered deletions, then the next page
//
// The order is durable before anything is deleted, as with a single deletion. So a crash loses no order, and a replay
// deletes again.

// Purged are the submissions of the shard, open and ended, as a purge takes them.
type Purged interface {
	// List lists up to limit submissions with smaller ids than before that the filter means, the newest first. next is
	// the id to go on from; 0: there are no more.
	List(ctx context.Context, f machine.Filter, before queue.SubmissionID, limit int) (list []queue.Submission,
		next queue.SubmissionID, err error)
	// Room is how many deletions can be ordered now. The mutex is held.
	Room() int
	// Order ends a submission if it is open, and encodes that it is to be deleted. The mutex is held.
	Order(m *machine.Machine, id queue.SubmissionID, now queue.Time)
}

// purge orders the deletion of the next submissions.
func (p *page) purge(ctx context.Context) (n int, err error) {
	room := p.most
	if !p.request.DryRun {
		p.Look(func(*machine.Machine) { room = min(room, p.purged.Room()) })
	}
	if room == 0 {
		return 0, &queue.Error{Code: queue.CodeOverloaded, RetryAfter: time.Second,
			Message: "Too many submissions of the queue are to be deleted already. The log says why they are not gone."}
	}
	f, before := p.span()
	list, next, err := p.purged.List(ctx, f, before, room)
	if err != nil {
		return 0, err
	}
	var ids []queue.SubmissionID
	for i := range list {
		if p.filter.Matches(list[i].ID, list[i].State, list[i].Meta) {
			ids = append(ids, list[i].ID)
		}
	}
	p.seen.Examined += uint64(len(list))
	p.unread = next != 0
	return len(ids), p.change(func(m *machine.Machine, now queue.Time) {
		p.note(now, len(ids), queue.ChunkID{Submission: next}, p.seen.Examined, func() (done, refused int) {
			for _, id := range ids {
				if !p.request.DryRun {
					p.purged.Order(m, id, now)
				}
			}
			return len(ids), 0
		})
	})
}

// span is the range of ids that the page has to look at: those behind the cursor that the filter can mean.
func (p *page) span() (f machine.Filter, before queue.SubmissionID) {
	f = machine.Filter{States: p.filter.States, Meta: p.filter.Meta}
	if before = queue.SubmissionID(p.id); p.after.Submission != 0 {
		before = p.after.Submission
	}
	if at := min(p.filter.CreatedBefore, p.started()); at > 0 {
		before = min(before, queue.MakeSubmissionID(at, 0, 0))
	}
	if at := min(p.filter.CreatedAfter, p.started()); at > 0 {
		f.From = queue.MakeSubmissionID(at, 0, 0)
	}
	if id := p.filter.Dead.Submission; id != 0 {
		before, f.From = min(before, id+1), max(f.From, id)
	}
	return f, before
}
