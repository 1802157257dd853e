package backlog

import (
	"fmt"

	"github.com/quern-queue/quern/engine/queue"
)

// Backlog is the submissions of one shard. It is not safe for concurrent use.
//
// Each part owns its fields and knows only the parts that it needs. None knows the Backlog.
type Backlog struct {
	ground
	oldest     oldest
	exceptions exceptions
	windows    uint32 // that were made

	Views   views   // chunks are taken through these
	Ledgers ledgers // of the fair views
	Recount recount // counts the counters again
}

// ground is the state that bases stand on.
type ground struct {
	subs  submissions
	bases bases
	meter meter
	trail trail

	Values values  // the keys and values that submissions have
	Rules  rulings // pauses and blocks of operators
}

// New makes an empty backlog.
func New() *Backlog {
	b := &Backlog{}
	subs, values, all, rules := &b.subs, &b.Values, &b.bases, &b.Rules
	b.subs = submissions{byID: map[queue.SubmissionID]uint32{}, first: none, last: none}
	b.oldest = oldest{subs: subs}
	b.bases = bases{values: values, oldest: &b.oldest}
	b.Values = newValues(subs, rules, all)
	b.Values.Rates = rates{values: values, began: never}
	b.Recount = recount{subs: subs, values: values, rules: rules}
	b.Rules = rulings{subs: subs, values: values, bases: all, oldest: &b.oldest, changing: b.Recount.Changing}
	b.Views = views{ground: &b.ground, byKey: map[string]*View{}, baseOf: map[string]*base{}, fair: map[uint8]*View{}}
	b.Ledgers = ledgers{views: &b.Views}
	return b
}

// Insert adds a submission, all of whose chunks are available. It is hidden: known, but in
// no view. The spec must pass Check, and its id and seq must be new; anything else is a
// mistake of the caller and panics.
func (b *Backlog) Insert(spec Spec) *Submission {
	if err := b.check(&spec); err != nil {
		panic(err.Error())
	}
	s := b.enter(&spec)
	s.available = s.chunks
	return s
}

func (b *Backlog) check(spec *Spec) error {
	if err := spec.Check(); err != nil {
		return err
	}
	if _, known := b.subs.byID[spec.ID]; known {
		return fmt.Errorf("backlog: submission %v is there already", spec.ID)
	}
	if _, known := b.subs.bySeq.find(spec.Seq); known {
		return fmt.Errorf("backlog: submission %v has the seq %d of another one", spec.ID, spec.Seq)
	}
	return nil
}

func (b *Backlog) enter(spec *Spec) *Submission {
	s := &Submission{
		id: spec.ID, seq: spec.Seq, priority: spec.Priority, chunks: spec.Chunks, key: spec.Key, Bytes: spec.Bytes,
		home: &b.Values, shownAt: none, oldestAt: none,
	}
	b.subs.add(s)
	if b.Recount.running {
		b.Recount.born(s)
	}
	refs := s.makeRefs(len(spec.Meta))
	for i, m := range spec.Meta {
		t := b.Values.intern(m.Key, m.Value)
		if b.Recount.running {
			b.Recount.sumOf(t)
		}
		t.all++
		refs[i].term = t.number
	}
	return s
}

// Show lets the submission be offered: it enters every view it matches.
func (b *Backlog) Show(s *Submission) {
	if s.home == nil || s.Shown() {
		return
	}
	b.Recount.Changing(s)
	b.subs.show(s)
	s.ruling = [2]queue.Ruling{b.Rules.rulingIn(s, 0), b.Rules.rulingIn(s, 1)}
	refs := s.refs()
	for i := range refs {
		ref := &refs[i]
		t := b.Values.list[ref.term]
		ref.place = uint32(len(t.shown))
		t.shown = append(t.shown, s.slot)
		t.available += uint64(s.available)
	}
	b.Rules.cover(s, int64(s.available))
	if s.offered() {
		b.bases.offer(s)
	}
}

// Hide takes the submission out of all views. It stays known, and its chunks in flight go on counting.
func (b *Backlog) Hide(s *Submission) {
	if s.home == nil || !s.Shown() {
		return
	}
	b.Recount.Changing(s)
	if s.offered() {
		b.bases.unoffer(s)
	}
	b.Rules.cover(s, -int64(s.available))
	b.subs.hide(s)
	for _, ref := range s.refs() {
		t := b.Values.list[ref.term]
		t.available -= uint64(s.available)
		last := t.shown[len(t.shown)-1]
		t.shown[ref.place] = last
		b.subs.list[last].place(ref.term, ref.place)
		t.shown = trimmed(t.shown[:len(t.shown)-1])
	}
}

// place records the submission's index in a term's list of shown submissions.
func (s *Submission) place(term, place uint32) {
	refs := s.refs()
	for i := range refs {
		if refs[i].term == term {
			refs[i].place = place
			return
		}
	}
}

// Remove forgets the submission. Its chunks in flight are no longer counted, so gates may open. A call
// with a submission that was removed does nothing.
func (b *Backlog) Remove(s *Submission) {
	if s.home == nil {
		return
	}
	b.Recount.Changing(s)
	b.Hide(s)
	if s.own != queue.Unruled {
		b.Rules.own--
	}
	b.landed(s, s.inFlight)
	for _, ref := range s.refs() {
		t := b.Values.list[ref.term]
		b.Values.landed(t, s.inFlight)
		t.all--
		b.Values.release(t)
	}
	b.exceptions.putBack -= int(s.putBack)
	b.subs.remove(s)
	s.home, s.back, s.ahead, s.many, s.members, s.count = nil, nil, nil, nil, nil, 0
	s.available, s.inFlight, s.putBack = 0, 0, 0
}

// ByID finds a submission by its public id; nil when it is not there.
func (b *Backlog) ByID(id queue.SubmissionID) *Submission {
	if slot, ok := b.subs.byID[id]; ok {
		return b.subs.list[slot]
	}
	return nil
}

// BySeq finds a submission by its number within the shard; nil when it is not there.
func (b *Backlog) BySeq(seq uint32) *Submission { return b.subs.withSeq(seq) }

// Len is how many submissions there are, hidden ones too.
func (b *Backlog) Len() int { return len(b.subs.byID) }

// Each calls fn for every submission, hidden ones too, in order of insertion, until fn
// returns false. fn may remove the submission it is given, and no other.
func (b *Backlog) Each(fn func(*Submission) bool) {
	for slot := b.subs.first; slot != none; {
		s := b.subs.list[slot]
		slot = s.younger
		if !fn(s) {
			return
		}
	}
}

// Available is how many chunks are available in shown submissions.
func (b *Backlog) Available() uint64 { return b.subs.available }

// Examined is how many submissions, cells and combinations of values Take has looked at since New. It
// measures the cost of picks independently of the machine.
func (b *Backlog) Examined() uint64 { return b.meter.examined }
