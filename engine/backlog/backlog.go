package backlog

import (
	"fmt"

	"github.com/quern-queue/quern/engine/queue"
)

// Backlog is the submissions of one shard. It is not safe for concurrent use.
type Backlog struct {
	subs     []*Submission // by slot; nil where free
	freeSubs []uint32
	byID     map[queue.SubmissionID]uint32
	bySeq    seqs
	first    uint32 // slot of the submission inserted first
	last     uint32

	shown     []uint32 // slots of the shown submissions, in no useful order
	oldest    []uint32 // heap by id of those that have available chunks
	available uint64   // chunks of shown submissions
	examined  uint64
	work      [Kinds]Work

	exceptions exceptions
	preview    preview
	moves      moves
	windows    uint32 // that were made

	Values  terms   // the keys and values that submissions have
	Rules   rulings // what operators pause and block
	Views   views   // what chunks are taken by
	Ledgers ledgers // of the fair views
	Recount recount // counts again what is kept as counters
}

// New makes an empty backlog.
func New() *Backlog {
	b := &Backlog{byID: map[queue.SubmissionID]uint32{}, first: none, last: none}
	b.Values = terms{of: b, keys: map[queue.MetaKey]*metaKey{}, settings: map[queue.MetaEntry]queue.ValueSettings{}}
	b.Rules = rulings{of: b}
	b.Views = views{of: b, byKey: map[string]*View{}, frameOf: map[string]*frame{}}
	b.Ledgers = ledgers{of: b, views: map[uint8]*View{}}
	b.Recount = recount{of: b}
	return b
}

// Insert adds a submission, all of whose chunks are available. It is hidden: known, but in no view. The spec must pass
// Check, and its id and seq must be new; anything else is a mistake of the caller and panics.
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
	if _, known := b.byID[spec.ID]; known {
		return fmt.Errorf("backlog: submission %v is there already", spec.ID)
	}
	if _, known := b.bySeq.find(spec.Seq); known {
		return fmt.Errorf("backlog: submission %v has the seq %d of another one", spec.ID, spec.Seq)
	}
	return nil
}

func (b *Backlog) enter(spec *Spec) *Submission {
	s := &Submission{
		id: spec.ID, seq: spec.Seq, priority: spec.Priority, chunks: spec.Chunks,
		home: b, older: b.last, younger: none, shownAt: none, oldestAt: none,
	}
	s.key = spec.Key
	if last := len(b.freeSubs) - 1; last >= 0 {
		s.slot, b.freeSubs = b.freeSubs[last], b.freeSubs[:last]
		b.subs[s.slot] = s
	} else {
		s.slot = uint32(len(b.subs))
		b.subs = append(b.subs, s)
	}
	if b.last == none {
		b.first = s.slot
	} else {
		b.subs[b.last].younger = s.slot
	}
	b.last = s.slot
	b.byID[s.id] = s.slot
	b.bySeq.put(s.seq, s.slot)
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
	s.shownAt = uint32(len(b.shown))
	b.shown = append(b.shown, s.slot)
	b.available += uint64(s.available)
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
		b.offer(s)
	}
}

// Hide takes the submission out of all views. It stays known, and its chunks in flight go on counting.
func (b *Backlog) Hide(s *Submission) {
	if s.home == nil || !s.Shown() {
		return
	}
	b.Recount.Changing(s)
	if s.offered() {
		b.unoffer(s)
	}
	b.Rules.cover(s, -int64(s.available))
	b.available -= uint64(s.available)
	last := b.shown[len(b.shown)-1]
	b.shown[s.shownAt] = last
	b.subs[last].shownAt = s.shownAt
	b.shown = trimmed(b.shown[:len(b.shown)-1])
	s.shownAt = none
	for _, ref := range s.refs() {
		t := b.Values.list[ref.term]
		t.available -= uint64(s.available)
		last := t.shown[len(t.shown)-1]
		t.shown[ref.place] = last
		b.subs[last].place(ref.term, ref.place)
		t.shown = trimmed(t.shown[:len(t.shown)-1])
	}
}

// place notes where in a term's list of shown submissions this one stands.
func (s *Submission) place(term, place uint32) {
	refs := s.refs()
	for i := range refs {
		if refs[i].term == term {
			refs[i].place = place
			return
		}
	}
}

// Remove forgets the submission. What it has in flight is no longer counted, so gates may open. To remove it again, or to
// use it in any other way, does nothing.
func (b *Backlog) Remove(s *Submission) {
	if s.home == nil {
		return
	}
	b.Recount.Changing(s)
	b.Hide(s)
	if s.own != queue.Unruled {
		b.Rules.own--
	}
	for _, ref := range s.refs() {
		t := b.Values.list[ref.term]
		b.Values.lower(t, s.inFlight)
		t.all--
		b.Values.release(t)
	}
	b.exceptions.putBack -= int(s.putBack)
	delete(b.byID, s.id)
	b.bySeq.drop(s.seq)
	if s.older == none {
		b.first = s.younger
	} else {
		b.subs[s.older].younger = s.younger
	}
	if s.younger == none {
		b.last = s.older
	} else {
		b.subs[s.younger].older = s.older
	}
	b.subs[s.slot] = nil
	b.freeSubs = append(b.freeSubs, s.slot)
	s.home, s.back, s.ahead, s.many, s.members, s.count = nil, nil, nil, nil, nil, 0
	s.available, s.inFlight, s.putBack = 0, 0, 0
}

// ByID finds a submission by its public id; nil when it is not there.
func (b *Backlog) ByID(id queue.SubmissionID) *Submission {
	if slot, ok := b.byID[id]; ok {
		return b.subs[slot]
	}
	return nil
}

// BySeq finds a submission by its number within the shard; nil when it is not there.
func (b *Backlog) BySeq(seq uint32) *Submission {
	if slot, ok := b.bySeq.find(seq); ok {
		return b.subs[slot]
	}
	return nil
}

// Len is how many submissions there are, hidden ones too.
func (b *Backlog) Len() int { return len(b.byID) }

// Each calls fn for every submission, hidden ones too, in order of insertion, until fn returns false. fn may remove the
// submission it is given, and no other.
func (b *Backlog) Each(fn func(*Submission) bool) {
	for slot := b.first; slot != none; {
		s := b.subs[slot]
		slot = s.younger
		if !fn(s) {
			return
		}
	}
}

// Available is how many chunks are available in shown submissions.
func (b *Backlog) Available() uint64 { return b.available }

// Examined is how many submissions, cells and combinations of values Take has looked at since New: what a pick costs, whatever
// the machine.
func (b *Backlog) Examined() uint64 { return b.examined }
