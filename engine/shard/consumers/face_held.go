package consumers

import (
	"cmp"
	"context"
	"slices"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/consumers/roster"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
)

// Reservations lists which consumer holds which chunk, across consumers and submissions, for
// operators.
type Reservations struct{ *shell.Questions }

// HeldPlace is where a reservation stands in their list. The zero value is before the first.
type HeldPlace struct {
	At       queue.Time // the order of the list: when it was made, or its deadline
	Sequence uint64     // of its token
	Epoch    uint32     // of its token
}

func (p HeldPlace) compare(q HeldPlace) int {
	return cmp.Or(cmp.Compare(p.At, q.At), cmp.Compare(p.Sequence, q.Sequence), cmp.Compare(p.Epoch, q.Epoch))
}

// List lists the reservations that the filter means, at most limit of them behind a place. last is the place of the
// last one listed; more says that others follow. It looks at all slots in short holds of the mutex, so a page covers
// several moments: it may miss reservations that come or go meanwhile, and have fewer than limit though there are more.
func (r Reservations) List(ctx context.Context, f *queue.HeldFilter, after HeldPlace,
	limit int) (list []queue.HeldChunk, last HeldPlace, more bool, err error) {
	w := heldWalk{filter: f, after: after, most: limit + 1}
	for !w.over {
		if err := ctx.Err(); err != nil {
			return nil, last, false, err
		}
		look := func(m *machine.Machine) (machine.Looks, error) { return w.slice(m, r.Now()), nil }
		if err := r.Ask(look); err != nil {
			return nil, last, false, err
		}
		w.cut() // sorted without the mutex
	}
	w.sort()
	if more = len(w.met) > limit; more {
		w.met = w.met[:limit]
	}
	answer, full := access.Gather(ctx), false
	err = r.Ask(func(m *machine.Machine) (machine.Looks, error) {
		now := r.Now()
		for i := 0; i < len(w.met) && !full; i++ {
			at := &w.met[i]
			if of, h := heldAt(m, at.slot, at.Sequence, at.Epoch); of != nil {
				list = append(list, machine.HeldChunk(m, of, h, now))
				full = !answer.Fits(list[len(list)-1].Bytes())
			}
			last = at.HeldPlace
			more = more || full && i+1 < len(w.met)
		}
		return machine.Looks(len(w.met)), nil
	})
	return list, last, more, err
}

// heldWalk finds the first reservations behind a place, in the order of the list, by
// looking at all of them slice by slice: there is no index by age or deadline, as every
// reserve and every extension would pay for it.
type heldWalk struct {
	filter *queue.HeldFilter
	after  HeldPlace
	most   int // that are wanted

	from uint32 // the slot that the next slice begins with
	over bool
	met  []heldSlot // all of the first `most` that were met so far are among them
	last HeldPlace  // of the first `most` met, if there were so many: later places are not wanted
}

// The slot may hold another reservation by the time it is read again: heldAt compares the numbers of the token.
type heldSlot struct {
	HeldPlace
	slot uint32
}

// slice looks at the next slots. When the filter names a consumer or a submission with few
// reservations, it looks at only those.
func (w *heldWalk) slice(m *machine.Machine, now queue.Time) (n machine.Looks) {
	look := func(slot uint32, h *reserver.Hold) bool {
		n++
		if w.means(m, h, now) {
			w.add(slot, h)
		}
		return true
	}
	if w.from == 0 && w.few(m, look) {
		w.over = true
		return n
	}
	end := min(w.from+machine.LookMost, m.Holds.Slots())
	for ; w.from < end; w.from++ {
		if h := m.Holds.At(w.from); h != nil {
			look(w.from, h)
		} else {
			n++
		}
	}
	w.over = w.from >= m.Holds.Slots()
	return n
}

// few calls fn for all reservations of the filter's consumer or submission, if they are few enough for one slice. It
// returns true if that answers the question, also with an empty list.
func (w *heldWalk) few(m *machine.Machine, fn func(slot uint32, h *reserver.Hold) bool) bool {
	if id := w.filter.Submission; id != 0 {
		r := m.Live(id)
		if r == nil || r.Holds.Len() > machine.LookMost {
			return r == nil
		}
		m.Holds.Each(&r.Holds, fn)
		return true
	}
	if name := w.filter.Consumer; name != "" {
		if held, _ := m.Holds.Holding(name); held.Held > machine.LookMost {
			return false
		}
		m.Holds.HeldBy(name, reserver.Place{}, func(at reserver.Place, h *reserver.Hold) bool { return fn(at.Slot, h) })
		return true
	}
	return false
}

// means says whether the filter means a reservation. It looks up the submission last, because that is elsewhere in
// memory.
func (w *heldWalk) means(m *machine.Machine, h *reserver.Hold, now queue.Time) bool {
	f := w.filter
	if f.Overdue && !machine.Overdue(m, h, now) || f.Consumer != "" && f.Consumer != m.Holds.Consumer(h) {
		return false
	}
	r := m.LiveSeq(h.Seq)
	if r == nil || f.Submission != 0 && f.Submission != r.ID {
		return false
	}
	for _, entry := range f.Meta {
		if value, has := r.Sub.Find(entry.Key); !has || value != entry.Value {
			return false
		}
	}
	return true
}

func (w *heldWalk) add(slot uint32, h *reserver.Hold) {
	at := HeldPlace{At: h.Reserved, Sequence: h.Sequence, Epoch: h.Epoch}
	if w.filter.ByDeadline {
		at.At = h.Deadline
	}
	if at.compare(w.after) > 0 && (w.last == HeldPlace{} || at.compare(w.last) < 0) {
		w.met = append(w.met, heldSlot{at, slot})
	}
}

// cut keeps the first `most` of those met, once there are twice as many. So the work per reservation stays constant,
// however many there are.
func (w *heldWalk) cut() {
	if len(w.met) >= 2*w.most {
		w.sort()
		w.met = w.met[:w.most]
		w.last = w.met[w.most-1].HeldPlace
	}
}

func (w *heldWalk) sort() {
	slices.SortFunc(w.met, func(a, b heldSlot) int { return a.compare(b.HeldPlace) })
}

// heldAt is the reservation of a token and its submission, nil if it is gone.
func heldAt(m *machine.Machine, slot uint32, sequence uint64, epoch uint32) (*machine.Record, *reserver.Hold) {
	h := m.Holds.At(slot)
	if h == nil || h.Sequence != sequence || h.Epoch != epoch {
		return nil, nil
	}
	return m.LiveSeq(h.Seq), h
}

// Release takes a chunk from the consumer that holds it, tells the consumer if it is attached, and offers the chunk
// again, with no try counted. It returns the reservation, once the act is on the disk. CodeConflict: no consumer holds
// the chunk, or the reservation is just ending; a consumer that finishes the chunk before the act is on the disk comes
// first.
func (r Reservations) Release(id queue.ChunkID, reason string, act queue.Act) (held queue.HeldChunk, err error) {
	var taken *takenBack
	err = shell.Change(r, func(m *machine.Machine, now queue.Time) error {
		of, slot := heldOf(m, id)
		if of == nil {
			return notHeld(id)
		}
		held = machine.HeldChunk(m, of, m.Holds.At(slot), now)
		taken = takeBack(m, slot, &held, reason, act, now)
		return nil
	})
	if err == nil && !taken.gone {
		err = notHeld(id)
	}
	return held, err
}

// heldOf is the reservation of a chunk, if it is not ending, and its submission; nil: there is none.
func heldOf(m *machine.Machine, id queue.ChunkID) (*machine.Record, uint32) {
	r := m.Live(id.Submission)
	if r == nil || r.Ending {
		return nil, 0
	}
	slot, found := m.Holds.Find(r.Seq, id.Index)
	if !found || m.Holds.At(slot).State != reserver.Held {
		return nil, 0
	}
	return r, slot
}

// takeBack encodes the act of taking a reservation back. As with a deadline that passed, the consumer may still come
// first until the act is on the disk.
func takeBack(m *machine.Machine, slot uint32, held *queue.HeldChunk, reason string, act queue.Act,
	now queue.Time) *takenBack {
	h := m.Holds.At(slot)
	x := &takenBack{slot: slot, sequence: h.Sequence, epoch: h.Epoch}
	h.State = reserver.Expiring
	m.Batch.Mark(slot, h.Sequence)
	m.ActLog.Tell(now, []queue.Act{act}, heldState(held), queue.Reasoned(reason))
	m.Batch.Intend(x)
	return x
}

func notHeld(id queue.ChunkID) error {
	return &queue.Error{Code: queue.CodeConflict, Message: "No consumer holds chunk " + id.String() +
		": it was finished or given back, its reservation ended or is just ending, or it was never reserved."}
}

// heldState is the form of a reservation in the audit log, with the names of the HTTP API.
func heldState(h *queue.HeldChunk) map[string]any {
	return map[string]any{"consumer": h.Consumer, "attempt": h.Attempt, "since": h.Reserved.Std().UTC(),
		"deadline": h.Deadline.Std().UTC()}
}

// takenBack is a reservation that an operator takes back, by its slot and the numbers of its token.
type takenBack struct {
	slot     uint32
	sequence uint64
	epoch    uint32
	gone     bool // the chunk is offered again
}

// Applied offers the chunk again, unless its consumer came first. When the commit fails,
// the mark of the reservation is undone.
func (x *takenBack) Applied(m *machine.Machine) {
	r, h := heldAt(m, x.slot, x.sequence, x.epoch)
	if r == nil || h.State != reserver.Expiring {
		return
	}
	m.Revoked(r.ID, x.slot, queue.RevokedOperator)
	m.Unhold(r, x.slot)
	m.Stats.Released++
	x.gone = true
}

func (x *takenBack) Undo(*machine.Machine) {}

// describe gathers the state of a consumer, and says how many looks that took.
func (c *Consumers) describe(m *machine.Machine, name string, now queue.Time) (info queue.Consumer, n machine.Looks) {
	info.Name = name
	if in := c.roster.ByName[name]; in != nil {
		info.Attached, info.Since, info.Away, info.Seen, info.Order = len(in.Streams) > 0, in.Since, in.Away, in.Seen,
			in.Order
	}
	if h, holds := m.Holds.Holding(name); holds {
		info.Reserved, info.Oldest, info.Seen = uint64(h.Held), h.Oldest, max(info.Seen, h.Seen)
		m.Holds.HeldBy(name, reserver.Place{}, func(_ reserver.Place, h *reserver.Hold) bool {
			if !machine.Overdue(m, h, now) || info.Overdue == queue.MaxOverdue {
				return false
			}
			info.Overdue++
			n++
			return true
		})
	}
	if info.Away != 0 {
		info.LostAt = max(info.Away, info.Seen).Add(m.Settings.ConsumerGrace)
	}
	return info, n
}

// heldNow appends the slots of a consumer's reservations that are not ending, at most `most` behind a place, and says
// where it stopped; the zero place: it met all. It leaves out reservations of submissions that ended.
func heldNow(m *machine.Machine, name string, from reserver.Place, slots []uint32,
	most int) ([]uint32, reserver.Place) {
	last, all := from, true
	m.Holds.HeldBy(name, from, func(at reserver.Place, h *reserver.Hold) bool {
		if len(slots) == most {
			all = false
			return false
		}
		if r := m.LiveSeq(h.Seq); h.State == reserver.Held && r != nil && !r.Ending {
			slots = append(slots, at.Slot)
		}
		last = at
		return true
	})
	if all {
		last = reserver.Place{}
	}
	return slots, last
}

// lose encodes the ends of a consumer's reservations, and says of how many.
func lose(m *machine.Machine, c *roster.Consumer, most int, now queue.Time) int {
	var slots []uint32
	slots, c.LostTo = heldNow(m, c.Name, c.LostTo, nil, most)
	for _, slot := range slots {
		m.Lifecycle.Acting = m.ActionOf(machine.KindLost, slot)
		m.Tries.Lose(slot, now)
	}
	return len(slots)
}
