package machine

// Quotas: the most that may be open of the queue, of a group, or of a value of a meta key. Each of them is a scope. An
// insert is decided before it is applied, so an exact quota counts both applied inserts and those on their way:
//
//	Room    is the work of the scope, applied and on its way, within the quota together with the new insert?
//	Claim   with the decision: the insert is on its way, and counts
//	applied with its op, the backlog counts it instead
//	Forget  its commit failed, or it is not made
//
// A waiting chunk is one that is not handed out: it is available (the backlog counts these by value, for submissions
// that it shows), or its submission is hidden until its run_at (`parked` counts these by scope).

import (
	"fmt"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// scope is a value of a meta key that a quota bounds. The zero scope is the whole queue. A group is the text that names
// it, also where submissions have it as a number.
type scope = queue.MetaEntry

func groupScope(group string) scope {
	return scope{Key: queue.GroupKey, Value: queue.StringValue(group)}
}

// scopeOf is the scope of an entry of a submission's meta.
func scopeOf(entry queue.MetaEntry) scope {
	if entry.Key == queue.GroupKey {
		return groupScope(entry.Value.String())
	}
	return entry
}

// quotas are the groups that someone created, with their quotas, and the work that inserts on their way add to each
// scope. Quotas of the queue are in its settings, and those of values in the backlog.
type quotas struct {
	settings *queue.Settings
	backlog  *backlog.Backlog
	stats    *Stats

	of      map[string]queue.Quota
	watched bool // the queue or a value may have a quota: inserts on their way count for all their scopes
	pending map[scope]queue.Quota
	parked  map[scope]uint64 // chunks of hidden submissions
	bytes   openBytes
	gone    map[string]uint8 // groups that moved to another shard, with its number
	leaving map[string]uint8 // groups that may move: this is being decided
}

// Went notes that a group is in another shard; 0: it is in this one.
func (p *quotas) Went(group string, to uint8) {
	if to == 0 {
		delete(p.gone, group)
		return
	}
	delete(p.leaving, group)
	if p.gone == nil {
		p.gone = map[string]uint8{}
	}
	p.gone[group] = to
}

// Leaves stops the shard from opening submissions of a group, until it is decided whether the group moves. false: some
// are open, or a rate still counts earlier ones.
func (p *quotas) Leaves(group string, to uint8, now queue.Time) bool {
	if p.Use(group).Submissions > 0 || p.rated(group, now) {
		return false
	}
	if p.leaving == nil {
		p.leaving = map[string]uint8{}
	}
	p.leaving[group] = to
	return true
}

// Left says that a group that leaves can move: earlier decisions have opened none of its submissions.
func (p *quotas) Left(group string) bool {
	return p.leaving[group] > 0 && p.Use(group).Submissions == 0
}

// Stays takes back Leaves.
func (p *quotas) Stays(group string) { delete(p.leaving, group) }

// rated says that a MaxRate of the group's key counts earlier work of the group.
func (p *quotas) rated(group string, now queue.Time) bool {
	for _, value := range queue.GroupValues(group) {
		for _, rate := range p.backlog.Values.OfRates(queue.MetaEntry{Key: queue.GroupKey, Value: value}) {
			if rate.Owes(now) {
				return true
			}
		}
	}
	return false
}

// Elsewhere refuses submissions of a group that another shard has, or is about to get.
func (p *quotas) Elsewhere(group string) error {
	if len(p.gone)+len(p.leaving) == 0 || group == "" {
		return nil
	}
	if to := max(p.gone[group], p.leaving[group]); to > 0 {
		return queue.GroupMoved(group, int(to))
	}
	return nil
}

// Set creates a group, or changes its quota.
func (p *quotas) Set(group string, quota queue.Quota) {
	if p.of == nil {
		p.of = map[string]queue.Quota{}
	}
	p.of[group] = quota
	if quota.Bytes > 0 {
		p.bytes.watch(p.backlog, queue.GroupKey)
	}
}

// Remove forgets a group that someone created.
func (p *quotas) Remove(group string) { delete(p.of, group) }

// Watch is called before a quota of the queue (without a key) or of values of a key holds. From then on inserts on
// their way count for it, and earlier ones are applied when it holds. The counting never ends, because an operator may
// set the quota again.
func (p *quotas) Watch(key queue.MetaKey, quota queue.Quota) {
	p.watched = p.watched || quota != queue.Quota{}
	if quota.Bytes > 0 {
		p.bytes.watch(p.backlog, key)
	}
}

// Use is the open work of a group: applied, and on its way.
func (p *quotas) Use(group string) queue.Quota { return p.use(groupScope(group)) }

func (p *quotas) use(of scope) queue.Quota {
	use := p.pending[of]
	use.Bytes += p.bytes.of[of]
	switch of.Key {
	case "":
		use.Waiting += p.backlog.Available() + p.stats.Parked
		use.Submissions += uint64(p.backlog.Len())
	case queue.GroupKey:
		use.Waiting += p.parked[of]
		for _, value := range queue.GroupValues(of.Value.String()) {
			p.addValue(&use, queue.MetaEntry{Key: of.Key, Value: value})
		}
	default:
		use.Waiting += p.parked[of]
		p.addValue(&use, of)
	}
	return use
}

func (p *quotas) addValue(use *queue.Quota, of queue.MetaEntry) {
	n := p.backlog.Values.Of(of.Key, of.Value)
	use.Waiting += n.Available + n.Paused + n.Blocked
	use.Submissions += uint64(n.Submissions)
}

// Room refuses an insert into a group that no one created, where the queue's settings want that, or
// that a quota has no room for. leaving is a submission that ends in the commit of the insert; nil: none does.
func (p *quotas) Room(n *queue.NewSubmission, leaving *Record) error {
	if group := n.Meta.GroupOf(); group != "" {
		quota, created := p.of[group]
		if !created && p.settings.GroupMustExist {
			return queue.NotCreated(group)
		}
		if err := p.room(groupScope(group), quota, n, leaving); err != nil {
			return err
		}
	}
	if !p.watched {
		return nil
	}
	for _, entry := range n.Meta {
		quota := p.backlog.Values.Settings(entry.Key, entry.Value).Quota
		if err := p.room(entry, quota, n, leaving); err != nil {
			return err
		}
	}
	return p.room(scope{}, p.settings.Quota(), n, leaving)
}

func (p *quotas) room(of scope, quota queue.Quota, n *queue.NewSubmission, leaving *Record) error {
	if quota == (queue.Quota{}) {
		return nil
	}
	use := p.use(of)
	if leaving != nil && hasScope(leaving.Meta(), of) {
		use.Submissions--
		use.Waiting -= uint64(leaving.Sub.Available())
		use.Bytes -= min(use.Bytes, uint64(leaving.Sub.Bytes))
	}
	brings := uint64(0)
	if quota.Bytes > 0 {
		brings = n.ContentBytes()
	}
	switch {
	case quota.Submissions > 0 && use.Submissions >= quota.Submissions:
		return full(of, "open submissions", use.Submissions, 1, quota.Submissions)
	case quota.Waiting > 0 && use.Waiting+uint64(n.Chunks.Count) > quota.Waiting:
		return full(of, "waiting chunks", use.Waiting, uint64(n.Chunks.Count), quota.Waiting)
	case brings > 0 && use.Bytes+brings > quota.Bytes:
		return full(of, "bytes of open submissions", use.Bytes, brings, quota.Bytes)
	}
	return nil
}

// hasScope says that a submission with this meta counts for a scope.
func hasScope(meta queue.Meta, of scope) bool {
	value, has := meta.Find(of.Key)
	return of == (scope{}) || has && scopeOf(queue.MetaEntry{Key: of.Key, Value: value}) == of
}

// full is the refusal of this many more.
func full(of scope, what string, current, more, most uint64) error {
	advice := "Send this again when some are done, or have the limit raised."
	if more > most {
		advice = "This submission alone has more: divide it, or have the limit raised."
	}
	return &queue.Error{Code: queue.CodeLimitReached, Reached: &queue.Reached{Current: current, Max: most},
		Message: fmt.Sprintf("%s has %d %s, its limit is %d, and this brings %d. %s",
			scopeName(of), current, what, most, more, advice)}
}

func scopeName(of scope) string {
	switch of.Key {
	case "":
		return "The queue"
	case queue.GroupKey:
		return fmt.Sprintf("The group %q", of.Value.String())
	}
	return fmt.Sprintf("The value %s of %q", of.Value.Quoted(), of.Key)
}

// OnItsWay is the work that an insert adds to the scopes for which it counts, until it is applied.
type OnItsWay struct {
	meta   queue.Meta
	chunks uint64
	bytes  uint64
	all    bool // it counts for the queue and for all values; else only for its group
}

// scopes calls do for each scope for which the insert counts.
func (w *OnItsWay) scopes(do func(scope)) {
	if w.all {
		do(scope{})
	}
	for _, entry := range w.meta {
		if w.all || entry.Key == queue.GroupKey {
			do(scopeOf(entry))
		}
	}
}

// Claim counts an insert from its decision on; nil: no quota can count it.
func (p *quotas) Claim(op *journal.Insert) *OnItsWay {
	w := &OnItsWay{meta: op.Meta, chunks: uint64(op.Chunks), bytes: uint64(op.Bytes), all: p.watched}
	if !w.all && op.Meta.GroupOf() == "" {
		return nil
	}
	if p.pending == nil {
		p.pending = map[scope]queue.Quota{}
	}
	w.scopes(func(of scope) {
		now := p.pending[of]
		p.pending[of] = queue.Quota{Waiting: now.Waiting + w.chunks, Submissions: now.Submissions + 1,
			Bytes: now.Bytes + w.bytes}
	})
	return w
}

// Forget ends the count of an insert on its way.
func (p *quotas) Forget(w *OnItsWay) {
	w.scopes(func(of scope) {
		now := p.pending[of]
		now.Waiting, now.Bytes = now.Waiting-w.chunks, now.Bytes-w.bytes
		if now.Submissions--; now.Submissions > 0 {
			p.pending[of] = now
		} else {
			delete(p.pending, of)
		}
	})
}

// Applied is intent's: from now on the backlog counts the insert.
func (w *OnItsWay) Applied(m *Machine) { m.Quotas.Forget(w) }

// Undo is intent's: nothing counts the insert.
func (w *OnItsWay) Undo(m *Machine) { m.Quotas.Forget(w) }

// park counts chunks of a hidden submission, or, below 0, no longer.
func (p *quotas) park(r *Record, delta int) {
	if delta == 0 {
		return
	}
	if p.parked == nil {
		p.parked = map[scope]uint64{}
	}
	for _, entry := range r.Meta() {
		of := scopeOf(entry)
		if p.parked[of] += uint64(delta); p.parked[of] == 0 {
			delete(p.parked, of)
		}
	}
}
