package machine

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// endings keeps submissions that have ended until their history rows are written, and the calls that wait for an end.
//
//	open ─► EndSubmission: Ending, op in the batch
//	          │ applied                     └ the commit fails: Undo, it is open as before
//	          └► end ─► ByID, InOrder ─► checkpoint: history row ─► forgotten
//
// Between its end and its row a submission is found here only: neither the backlog nor the history
// has it.
type endings struct {
	ByID    map[queue.SubmissionID]*Record   // ended, history row not yet written
	InOrder []*Record                        // the same, in the order of their end
	Watch   map[queue.SubmissionID][]Watcher // calls that wait for the submission to end
	Closing int                              // submissions whose end is on its way to the disk
	Opened  int                              // records whose older row the history may still have
	latest  queue.Time                       // the latest end of a submission
	// of ended submissions whose last dead letters went since retention looked, the
	// earliest end; 0: there are none
	Freed queue.Time
}

// Watcher waits for submissions to end.
type Watcher interface {
	Ended() // one of them has
}

// EndSubmission encodes the end of a submission. From now on no chunk of it can be finished: every
// "ok" was decided before.
func (m *Machine) EndSubmission(r *Record, state queue.SubmissionState, reason string, now queue.Time) {
	if r.Ending {
		return // the first one decides
	}
	m.Encode(now).End(journal.End{Seq: r.Seq, State: state, Reason: reason})
	r.Ending = true
	m.Endings.Closing++
	m.Batch.Intend((*closing)(r))
	if state == queue.Failed || state == queue.Expired {
		m.Joined.failing(r, reason, now)
	}
}

// failing tells the parts that a submission does not succeed.
func (j *Joined) failing(r *Record, reason string, now queue.Time) {
	for _, failing := range j.Failing {
		failing(r, reason, now)
	}
}

// closing is a submission that is about to end.
type closing Record

func (r *closing) Applied(m *Machine) { r.Ending = false; m.Endings.Closing-- }

func (r *closing) Undo(m *Machine) {
	r.Applied(m)
	m.expires((*Record)(r))
}

// Finish ends a submission if it has no unfinished chunk.
func (m *Machine) Finish(r *Record) {
	if !r.over() {
		return
	}
	state := queue.Completed
	if r.Dead > 0 {
		state = queue.CompletedWithDead
	}
	m.end(r, state, "")
}

// end takes the submission out of the backlog. Consumers that still hold its chunks learn so from their next call. It
// costs the same however many chunks are held, wait or are dead: the reservations are swept in slices, and the history
// row is put together later, outside of the mutex.
func (m *Machine) end(r *Record, state queue.SubmissionState, reason string) {
	m.Counting.Changing(r)
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
	m.Quotas.closed(r)
	r.Ended.Left = m.Backlog.RemoveKeeping(r.Sub)
	if r.Holds.Len() > 0 { // the first ones go at once, the others in later slices
		m.Stats.Orphaned += uint64(r.Holds.Len())
		m.Orphans.List = append(m.Orphans.List, r)
		m.Shed(r, OrphanMost)
	}
	r.State, r.Sub, r.Deads, r.Delays = state, nil, nil, nil
	m.Endings.ByID[r.ID] = r
	m.Endings.InOrder = append(m.Endings.InOrder, r)
	m.Stats.SubmissionEnd++
	m.Uniques.ended(r)
	m.Afters.ended(r)
	for _, ended := range m.Joined.Ended {
		ended(r)
	}
	m.Stats.EndedAs[state]++
	m.Endings.came(r.ID, m.Now)
}

// came notifies the waits for the end of a submission.
func (p *endings) came(id queue.SubmissionID, at queue.Time) {
	for _, w := range p.Watch[id] {
		w.Ended()
	}
	delete(p.Watch, id)
	if at < p.latest { // the clock was set back
		p.free(at)
	}
	p.latest = max(p.latest, at)
}

// expires sets the timer of the submission's dead_deadline. If its chunks already become dead letters, in slices, that
// goes on.
func (m *Machine) expires(r *Record) {
	if m.Tries.Overdue(r) {
		m.Lifecycle.Schedule(KindDeadDeadline, Due{At: m.Now, Seq: r.Seq})
	} else if at := r.Details().DeadDeadline; at != 0 {
		m.Lifecycle.Schedule(KindDeadDeadline, Due{At: at, Seq: r.Seq})
	}
}

// free makes retention look again at submissions that ended at a time, or later.
func (p *endings) free(ended queue.Time) {
	if p.Freed == 0 || ended < p.Freed {
		p.Freed = ended
	}
}

// Current is the record that a submission has now; nil: it is in the history only. A submission that ended may have
// been opened again since the checkpoint began, as another record: this very checkpoint has to write its row, as it
// trims the journal before it.
func (m *Machine) Current(r *Record) *Record {
	if r.Ended != nil && r.Ended.replaced {
		return m.Record(r.ID)
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

// Rewatch registers the calls that wait for the end of a submission again, except for submissions
// that have ended.
func (p *endings) Rewatch(old *endings, open func(queue.SubmissionID) *Record) {
	for id, waits := range old.Watch {
		if open(id) != nil {
			p.Watch[id] = waits
			continue
		}
		for _, w := range waits {
			w.Ended()
		}
	}
}
