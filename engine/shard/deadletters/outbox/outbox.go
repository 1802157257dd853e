// Package outbox has the dead letters of a shard that are on their way to another queue. It is pure.
//
//quern:tests pure
package outbox

import (
	"slices"

	"github.com/quern-queue/quern/engine/queue"
)

// Outbox has the letters that are on their way, by number.
type Outbox struct {
	List  []queue.Outgoing // ascending; removed ones are holes with an empty Queue
	holes int
	Last  uint64 // the greatest number that was given out
}

// At is the place of a number in the list, or the place where it would be.
func (o *Outbox) At(number uint64) (int, bool) {
	return slices.BinarySearchFunc(o.List, number, func(x queue.Outgoing, number uint64) int {
		switch {
		case x.Number < number:
			return -1
		case x.Number > number:
			return 1
		}
		return 0
	})
}

// Find is the entry of a number; nil: it is not on its way.
func (o *Outbox) Find(number uint64) *queue.Outgoing {
	if at, there := o.At(number); there && o.List[at].Queue != "" {
		return &o.List[at]
	}
	return nil
}

// Add adds a letter; one that is already there changes nothing.
func (o *Outbox) Add(x queue.Outgoing) {
	o.Last = max(o.Last, x.Number)
	at, there := o.At(x.Number)
	switch {
	case !there:
		o.List = slices.Insert(o.List, at, x)
	case o.List[at].Queue == "": // a replay that begins before its removal
		o.List[at] = x
		o.holes--
	}
}

// Remove removes a letter; one that is not there changes nothing.
func (o *Outbox) Remove(number uint64) {
	at, there := o.At(number)
	if !there || o.List[at].Queue == "" {
		return
	}
	o.List[at].Queue = ""
	if o.holes++; o.holes == len(o.List) || o.holes > 1024 && o.holes > len(o.List)/2 {
		o.List = slices.DeleteFunc(o.List, func(x queue.Outgoing) bool { return x.Queue == "" })
		o.holes = 0
	}
}

// Len is how many letters are on their way.
func (o *Outbox) Len() int { return len(o.List) - o.holes }
