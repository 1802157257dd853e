package machine

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// endings is the part of the machine that ends submissions, and keeps those that have ended until their history rows are written.
type endings struct {
	m       *Machine
	ByID    map[queue.SubmissionID]*Record   // ended, history row not yet written
	InOrder []*Record                        // the same, in the order of their end
	Watch   map[queue.SubmissionID][]Watcher // told when the submission ends
	Closing int                              // submissions whose end is on its way to the disk
	Opened  int                              // records whose older row the history may still have
	latest  queue.Time                       // the latest end of a submission
	// of ended submissions whose last dead letters went since retention looked, the earliest end; 0: there are none
	Freed queue.Time
}

// Watcher waits for submissions to end.
type Watcher interface {
	Settle() // one of them has ended
}

// Close encodes the end of a submission. From now on nothing of it can be finished: those who are told "ok" come before.
func (p *endings) Close(r *Record, state queue.SubmissionState, reason string, now queue.Time) {
	m := p.m
	if r.Ending {
		return // the first one decides
	}
	m.Encode(now).End(journal.End{Seq: r.Seq, State: state, Reason: reason})
	r.Ending = true
	p.Closing++
	m.Batch.Intend((*closing)(r))
	if state == queue.Failed || state == queue.Expired {
		m.failing(r, reason, now)
	}
}

// failing tells the parts that a submission does not succeed.
func (m *Machine) failing(r *Record, reason string, now queue.Time) {
	for _, failing := range m.Joined.Failing {
		failing(r, reason, now)
	}
}

// closing is a submission that is about to end.
type closing Record

func (r *closing) Applied(m *Machine) { r.Ending = false; m.Endings.Closing-- }

func (r *closing) Undo(m *Machine) {
	r.Applied(m)
	m.Endings.expires((*Record)(r))
}

// Finish ends a submission if nothing of it is left to do.
func (p *endings) Finish(r *Record) {
	if !r.over() {
		return
	}
	state := queue.Completed
	if r.Dead > 0 {
		state = queue.CompletedWithDead
	}
	p.end(r, state, "")
}

// end takes the submission out of the backlog. Who still holds chunks of it learns so from his next call. It costs the same
// however many chunks are held, wait or are dead: the reservations are swept in slices, and what the history will say of the
// chunks is put together later, outside of the mutex.
func (p *endings) end(r *Record, state queue.SubmissionState, reason string) {
	m := p.m
	m.Changing(r)
	m.Touch(r)
	m.Ready(r, -int(r.Sub.Available()))
	m.Stats.Waiting -= uint64(r.Waiting)
	m.Stats.Completed -= uint64(r.Done)
	m.Stats.Skipped -= uint64(r.Skips)
	m.Suspects.acquitAll(r)
	m.Stats.Dead -= uint64(r.Dead)
	meta := r.Sub.Meta()
	r.Ended = &ending{
		At: m.Now, Position: m.AppliedAt, reopened: r.Reopened, Meta: meta, reason: reason, spec: r.Spec(meta),
	}
	r.Ended.Left = m.Backlog.RemoveKeeping(r.Sub)
	m.Orphans.add(r)
	r.State, r.Sub, r.Deads, r.Delays = state, nil, nil, nil
	p.ByID[r.ID] = r
	p.InOrder = append(p.InOrder, r)
	m.Stats.SubmissionEnd++
	for _, ended := range m.Joined.Ended {
		ended(r)
	}
	m.Stats.EndedAs[state]++
	for _, w := range p.Watch[r.ID] {
		w.Settle()
	}
	delete(p.Watch, r.ID)
	if m.Now < p.latest { // the clock was set back
		p.free(m.Now)
	}
	p.latest = max(p.latest, m.Now)
}

// expires has the submission end at its dead deadline.
func (p *endings) expires(r *Record) {
	if at := r.Details().DeadDeadline; at != 0 {
		p.m.Lifecycle.Schedule(KindDeadDeadline, Due{At: at, Seq: r.Seq})
	}
}

// free has retention look again at what ended at a time, or later.
func (p *endings) free(ended queue.Time) {
	if p.Freed == 0 || ended < p.Freed {
		p.Freed = ended
	}
}

// Current is the record that tells of a submission now; nil: the history does. One that ended may have been opened
// again since the checkpoint began, as another record: its row has to be written by this very checkpoint, which lets
// the journal forget all that came before.
func (p *endings) Current(r *Record) *Record {
	if r.Ended != nil && r.Ended.replaced {
		return p.m.Record(r.ID)
	}
	return r
}

// Rowed notes that the history has no older row of this record any more.
func (p *endings) Rowed(r *Record) {
	if r.Reopened {
		r.Reopened = false
		p.Opened--
	}
}

// Rewatch has those who wait for the end of a submission go on waiting, but for what has ended.
func (p *endings) Rewatch(old *Machine) {
	for id, waits := range old.Endings.Watch {
		if p.m.Live(id) != nil {
			p.Watch[id] = waits
			continue
		}
		for _, w := range waits {
			w.Settle()
		}
	}
}
