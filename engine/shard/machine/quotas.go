package machine

// Limits of groups. An insert is decided before it is applied, so an exact limit counts both what
// is applied and what is on its way:
//
//	Room    what the group has, applied or on its way, and what is to be inserted: within the limits?
//	Claim   with the decision: the insert is on its way, and counts
//	applied with its op, the backlog counts it instead
//	Forget  its commit failed, or it is not made
//
// What waits is not handed out: it is available (the backlog counts that by value for what it
// shows), or its submission is hidden until its run_at (parked counts those by group).

import (
	"fmt"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// quotas are the groups that someone created, with their limits, and what inserts on their way bring to each group.
type quotas struct {
	m       *Machine
	of      map[string]queue.Quota
	pending map[string]queue.Quota
	parked  map[string]uint64 // chunks of hidden submissions
}

// Set creates a group, or changes its limits.
func (p *quotas) Set(group string, quota queue.Quota) {
	if p.of == nil {
		p.of = map[string]queue.Quota{}
	}
	p.of[group] = quota
}

// Remove forgets a group that someone created.
func (p *quotas) Remove(group string) { delete(p.of, group) }

// Use is the open work of a group: applied, and on its way.
func (p *quotas) Use(group string) queue.Quota {
	use := p.pending[group]
	use.Waiting += p.parked[group]
	for _, value := range queue.GroupValues(group) {
		n := p.m.Backlog.Values.Of(queue.GroupKey, value)
		use.Waiting += n.Available + n.Paused + n.Blocked
		use.Submissions += uint64(n.Submissions)
	}
	return use
}

// Room refuses an insert into a group that no one created, where the queue's settings want that, or
// that has no room for it. leaving is a submission that ends in the commit of the insert; nil: none does.
func (p *quotas) Room(n *queue.NewSubmission, leaving *Record) error {
	group := n.Meta.GroupOf()
	if group == "" {
		return nil
	}
	quota, created := p.of[group]
	if !created && p.m.Settings.GroupMustExist {
		return queue.NotCreated(group)
	}
	if quota == (queue.Quota{}) {
		return nil
	}
	use := p.Use(group)
	if leaving != nil && leaving.Meta().GroupOf() == group {
		use.Submissions--
		use.Waiting -= uint64(leaving.Sub.Available())
	}
	switch {
	case quota.Submissions > 0 && use.Submissions >= quota.Submissions:
		return full(group, "open submissions", use.Submissions, 1, quota.Submissions)
	case quota.Waiting > 0 && use.Waiting+uint64(n.Chunks.Count) > quota.Waiting:
		return full(group, "waiting chunks", use.Waiting, uint64(n.Chunks.Count), quota.Waiting)
	}
	return nil
}

// full is the refusal of this many more.
func full(group, what string, current, more, most uint64) error {
	advice := "Send this again when some are done, or have the limit raised."
	if more > most {
		advice = "This submission alone has more: divide it, or have the limit raised."
	}
	return &queue.Error{Code: queue.CodeLimitReached, Reached: &queue.Reached{Current: current, Max: most},
		Message: fmt.Sprintf("The group %q has %d %s, its limit is %d, and this brings %d. %s",
			group, current, what, most, more, advice)}
}

// OnItsWay is what an insert brings to its group, until it is applied.
type OnItsWay struct {
	group  string
	chunks uint64
}

// Claim counts an insert that was decided on; nil: it has no group.
func (p *quotas) Claim(op *journal.Insert) *OnItsWay {
	w := &OnItsWay{group: op.Meta.GroupOf(), chunks: uint64(op.Chunks)}
	if w.group == "" {
		return nil
	}
	if p.pending == nil {
		p.pending = map[string]queue.Quota{}
	}
	now := p.pending[w.group]
	p.pending[w.group] = queue.Quota{Waiting: now.Waiting + w.chunks, Submissions: now.Submissions + 1}
	return w
}

// Forget ends the count of an insert on its way.
func (p *quotas) Forget(w *OnItsWay) {
	now := p.pending[w.group]
	if now.Waiting, now.Submissions = now.Waiting-w.chunks, now.Submissions-1; now.Submissions > 0 {
		p.pending[w.group] = now
	} else {
		delete(p.pending, w.group)
	}
}

// Applied and Undo: the backlog counts the insert from now on, or no one does.
func (w *OnItsWay) Applied(m *Machine) { m.Quotas.Forget(w) }

// Undo is intent's.
func (w *OnItsWay) Undo(m *Machine) { m.Quotas.Forget(w) }

// park counts chunks of a hidden submission for its group, or, below 0, no longer.
func (p *quotas) park(r *Record, delta int) {
	group := r.Meta().GroupOf()
	if group == "" || delta == 0 {
		return
	}
	if p.parked == nil {
		p.parked = map[string]uint64{}
	}
	if p.parked[group] += uint64(delta); p.parked[group] == 0 {
		delete(p.parked, group)
	}
}
