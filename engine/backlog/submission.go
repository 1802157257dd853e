package backlog

import (
	"fmt"

	"github.com/quern-queue/quern/engine/queue"
)

// Spec is the part of a submission that is fixed at the insert.
type Spec struct {
	Seq      uint32 // dense number within the shard, unique
	ID       queue.SubmissionID
	Chunks   uint32 // at least 1
	Priority int64
	Meta     queue.Meta // sorted by key, each key once
	Key      uint64     // of the order in which Random visits the chunks: from OrderKey
	Bytes    uint32     // the caller's own
}

// Check reports what is wrong with a spec from outside, or nil.
func (s *Spec) Check() error {
	if s.Chunks == 0 {
		return fmt.Errorf("backlog: submission %v has no chunks", s.ID)
	}
	if s.Chunks <= maxTable && !isTable(s.Key, s.Chunks) || s.Chunks > maxTable && s.Key == 0 {
		return fmt.Errorf("backlog: submission %v: %#x is not the key of an order of %d chunks", s.ID, s.Key, s.Chunks)
	}
	for i := 1; i < len(s.Meta); i++ {
		if s.Meta[i-1].Key >= s.Meta[i].Key {
			return fmt.Errorf("backlog: submission %v: meta is not sorted by key", s.ID)
		}
	}
	return nil
}

// Submission is one submission of the backlog. It is valid until it is removed; after that
// it has nothing available and nothing in flight, and every operation on it does nothing.
//
// Its size counts: 10^6 of them are kept. Places in lists are numbers rather than
// pointers, and the meta is kept only as the terms it shares with others.
type Submission struct {
	// The fields that every pick reads come first: a cache line of 64 bytes, and most of the next.
	home      *values // nil once removed
	back      *pile   // visited and put back; nil when none
	ahead     *table  // the skip set: taken and not visited; nil when none
	key       uint64  // of the permutation
	available uint32
	inFlight  uint32
	chunks    uint32
	p         uint32 // cursor of order Random: positions 0..p-1 of the permutation are visited
	l         uint32 // cursor of the other orders: indexes 0..l-1 are visited
	putBack   uint32 // chunks in back: most picks need not look there
	shownAt   uint32 // place in submissions.shown; none while hidden
	slot      uint32 // in submissions.list

	few   [4]termRef // the terms, if there are no more
	many  *[]termRef // the terms, if there are
	Data  any        // the caller's own
	count uint8      // of few

	own    queue.Ruling    // of rules about this very submission
	ruling [2]queue.Ruling // while shown: of these, and of those about its values; by book
	Bytes  uint32          // the caller's own

	members  []member // one per base it stands in; none while hidden or without available chunks
	id       queue.SubmissionID
	priority int64
	both     uint32 // chunks that both cursors have visited
	older    uint32 // slots of the neighbours in order of insertion
	younger  uint32
	oldestAt uint32 // place in oldest; none: not in there
	seq      uint32

	window uint32 // Backlog.windows of the last one it was in

	// 192 bytes: whole cache lines, so that submissions do not share lines.
}

// refs are the submission's terms, in the order of their keys.
func (s *Submission) refs() []termRef {
	if s.many != nil {
		return *s.many
	}
	return s.few[:s.count]
}

// makeRefs makes room for n of them.
func (s *Submission) makeRefs(n int) []termRef {
	if n > len(s.few) {
		many := make([]termRef, n)
		s.many = &many
	} else {
		s.count = uint8(n)
	}
	return s.refs()
}

// none is no slot, place or number. It is far beyond what memory could hold.
const none = 1<<32 - 1

// termRef says which term, and where in its list of shown submissions this one stands.
type termRef struct{ term, place uint32 }

// member is a submission's place in one base: in a gate or, if the base has cells, in
// the cell of this number.
type member struct{ base, gate, place uint32 }

// ID is the submission's public id.
func (s *Submission) ID() queue.SubmissionID { return s.id }

// Seq is the submission's number within the shard.
func (s *Submission) Seq() uint32 { return s.seq }

// Chunks is how many chunks it has in all.
func (s *Submission) Chunks() uint32 { return s.chunks }

// Priority is its priority; larger comes first under CustomPriority.
func (s *Submission) Priority() int64 { return s.priority }

// Order is the Key of its Spec.
func (s *Submission) Order() uint64 { return s.key }

// Available is how many chunks are available.
func (s *Submission) Available() uint32 { return s.available }

// InFlight is how many chunks are in flight.
func (s *Submission) InFlight() uint32 { return s.inFlight }

// Shown says whether the submission is offered by views.
func (s *Submission) Shown() bool { return s.shownAt != none }

// Meta is a copy of the submission's meta, sorted by key; nil once it is removed.
func (s *Submission) Meta() queue.Meta {
	if s.MetaLen() == 0 {
		return nil
	}
	return s.AppendMeta(make(queue.Meta, 0, s.MetaLen()))
}

// MetaLen is how many meta keys it has.
func (s *Submission) MetaLen() int { return len(s.refs()) }

// AppendMeta appends the submission's meta, sorted by key. Strings are shared, not copied.
func (s *Submission) AppendMeta(dst queue.Meta) queue.Meta {
	for _, ref := range s.refs() {
		t := s.home.list[ref.term]
		dst = append(dst, queue.MetaEntry{Key: t.key.name, Value: t.value})
	}
	return dst
}

// termOf is the submission's term of a key, or nil.
func (s *Submission) termOf(key *metaKey) *term {
	for _, ref := range s.refs() {
		if t := s.home.list[ref.term]; t.key == key {
			return t
		}
	}
	switch {
	case key.name == "":
		return s.home.Rates.all
	case key.of != nil:
		return s.lacks(key)
	}
	return nil
}

func (s *Submission) hasTerm(number uint32) bool {
	for _, ref := range s.refs() {
		if ref.term == number {
			return true
		}
	}
	return false
}

func (s *Submission) memberOf(base uint32) bool {
	for i := range s.members {
		if s.members[i].base == base {
			return true
		}
	}
	return false
}

// dropMember forgets a place whose entry is already out of its view. The last member moves
// into the gap, and its entry is told.
func (s *Submission) dropMember(at uint32) {
	last := len(s.members) - 1
	if int(at) != last {
		m := s.members[last]
		s.members[at] = m
		s.home.bases.list[m.base].entryOf(s, m).at = at
	}
	s.members = s.members[:last]
}
