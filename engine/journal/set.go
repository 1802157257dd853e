package journal

import (
	"time"

	"github.com/quern-queue/quern/engine/coding"
	"github.com/quern-queue/quern/engine/queue"
)

// SetKind is the kind of thing that an operator's settings are for.
type SetKind uint8

// The kinds. They are numbers in files: never used again for something else.
const (
	SetQueue    SetKind = iota // the settings of the queue
	SetValue                   // limit, weight and rate of a value of a meta key
	SetStrategy                // a strategy under a name
	SetKey                     // the default limit, weight and rate of all values of a meta key
	SetGroup                   // a group, with its limits and a description
)

func (k SetKind) String() string { return [...]string{"queue", "value", "strategy", "key", "group"}[k] }

// Set is a change by an operator, in effect from its batch on. It has the whole new version, so
// applying it twice has the same result as once.
type Set struct {
	Kind    SetKind
	Version uint32 // from 1, each change makes the next; 0: the setting is removed
	Changed queue.Time

	Settings string              // of the queue: as queue.Settings.Row has them
	Entry    queue.MetaEntry     // the value, or the key alone
	Demand   queue.ValueSettings // of the value or the key; queue.NoSettings with version 0
	Name     string              // of the strategy or the group
	Text     string              // of the strategy, canonical, or the description of the group; "" with version 0
	Quota    queue.Quota         // of the group; zero with version 0. That of a value is in Demand
	Deleted  bool                // the group: its shard stays known, so work on its way to the group arrives
	Moves    GroupMoves          // of the group between shards
}

// GroupMoves are where a group goes, or went, in a queue of several shards.
type GroupMoves struct {
	Unset bool   // no one created the group: the row is there for its moves
	Gone  bool   // the shard does not have the group any more
	To    uint8  // the number of the shard that it moves to, or went to; 0: it stays
	Last  uint32 // moves of the group before this shard got it, or lost it: an older one changes nothing
}

// setVersion is the first byte of a Set as the store keeps it.
const setVersion = 1

func (s *Set) fields(c *coder) {
	coding.Octet(&c.Coder, &s.Kind, SetGroup)
	coding.Unsigned(&c.Coder, &s.Version)
	coding.Signed(&c.Coder, &s.Changed)
	switch s.Kind {
	case SetQueue:
		c.Text(&s.Settings)
		c.Must(s.Version > 0)
	case SetValue:
		entry := queue.Meta{s.Entry}
		meta(c, &entry)
		if c.Must(len(entry) == 1); c.Reading && !c.Bad {
			s.Entry = entry[0]
		}
		s.demandFields(c)
	case SetKey:
		c.Text(&s.Entry.Key)
		c.Must(s.Entry.Key != "")
		s.demandFields(c)
	case SetStrategy:
		c.Text(&s.Name)
		c.Text(&s.Text)
		c.Must(s.Name != "" && (s.Text != "") == (s.Version > 0))
	case SetGroup:
		c.Text(&s.Name)
		c.Text(&s.Text)
		quota(c, &s.Quota)
		s.groupFields(c)
		c.Must(s.Name != "" && (s.Version > 0 && !s.Deleted || s.Text == "" && s.Quota == queue.Quota{}))
	}
}

// marksOfGroup are bits for the special properties of a group.
type marksOfGroup uint8

const (
	groupDeleted marksOfGroup = 1 << iota
	groupMoves                // where it goes follows
	groupUnset
	groupGone
)

// groupFields are the special properties of a group. Rows that were written before groups could move have a byte 0
// or 1 here, and read as before. Gone rows keep the limits until the group comes back: after a kill, the new shard
// gets them from here. A row without anything special has one byte, as most groups never move, and a queue may have
// many of them.
func (s *Set) groupFields(c *coder) {
	var has marksOfGroup
	for mark, is := range map[marksOfGroup]bool{groupDeleted: s.Deleted, groupMoves: s.Moves != GroupMoves{},
		groupUnset: s.Moves.Unset, groupGone: s.Moves.Gone} {
		if is {
			has |= mark
		}
	}
	coding.Octet(&c.Coder, &has, groupDeleted|groupMoves|groupUnset|groupGone)
	s.Deleted = has&groupDeleted != 0
	if has&groupMoves == 0 {
		c.Must(has&(groupUnset|groupGone) == 0)
		return
	}
	s.Moves.Unset, s.Moves.Gone = has&groupUnset != 0, has&groupGone != 0
	coding.AtMost(&c.Coder, &s.Moves.To, queue.MaxQueueShards)
	coding.Unsigned(&c.Coder, &s.Moves.Last)
	c.Must(s.Version > 0 && s.Moves != GroupMoves{} && (s.Moves.To > 0 || !s.Moves.Gone))
}

// Target names the value or the key that a Set of the kinds SetValue and SetKey changes.
func (s *Set) Target() queue.ValueTarget {
	return queue.ValueTarget{MetaEntry: s.Entry, All: s.Kind == SetKey}
}

// demands are bits that say which parts of a demand follow.
type demands uint8

const (
	limited demands = 1 << iota
	rated
	quoted
)

func quota(c *coder, q *queue.Quota) {
	coding.AtMost(&c.Coder, &q.Waiting, queue.MaxQuota)
	coding.AtMost(&c.Coder, &q.Submissions, queue.MaxQuota)
	coding.AtMost(&c.Coder, &q.Bytes, queue.MaxQuota)
}

func (s *Set) demandFields(c *coder) {
	var has demands
	if s.Demand.Limit != queue.NoLimit {
		has |= limited
	}
	if s.Demand.Rate != (queue.Rate{}) {
		has |= rated
	}
	if s.Demand.Quota != (queue.Quota{}) {
		has |= quoted
	}
	if coding.Octet(&c.Coder, &has, limited|rated|quoted); has&limited != 0 {
		coding.AtMost(&c.Coder, &s.Demand.Limit, queue.MaxValueLimit)
	} else {
		s.Demand.Limit = queue.NoLimit
	}
	coding.AtMost(&c.Coder, &s.Demand.Weight, queue.MaxWeight)
	if has&rated != 0 {
		rate := &s.Demand.Rate
		coding.AtMost(&c.Coder, &rate.Max, queue.MaxRate)
		per := uint64(rate.Per / time.Millisecond)
		coding.AtMost(&c.Coder, &per, uint64(queue.MaxPer/time.Millisecond))
		rate.Per = time.Duration(per) * time.Millisecond
		c.Must(rate.Max > 0 && rate.Per >= queue.MinPer)
	}
	if has&quoted != 0 {
		quota(c, &s.Demand.Quota)
		c.Must(s.Demand.Quota != queue.Quota{})
	}
	c.Must((s.Demand == queue.NoSettings()) == (s.Version == 0))
}

// AppendSet appends the encoding of a Set as the store keeps it, described in docs/formats/ops.md.
func AppendSet(dst []byte, s *Set) []byte {
	return appendRow(dst, setVersion, (*Set).fields, s)
}

// DecodeSet reads a Set that AppendSet wrote.
func DecodeSet(b []byte) (Set, error) { return readRow(b, setVersion, (*Set).fields) }
