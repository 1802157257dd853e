package reserver

import (
	"cmp"
	"maps"
	"slices"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/quern-queue/quern/engine/queue"
)

// model is the brute-force twin of a Reserver: every reservation in a map, expiry by looking at all of them.
type model struct {
	held      map[uint32]*modelHold // by slot
	perSub    map[uint32]int        // by seq
	consumers map[string]int
}

type modelHold struct {
	seq, index uint32
	sequence   uint64
	deadline   queue.Time
	state      State
	consumer   string
}

func (m *model) due(now queue.Time) (slots []uint32) {
	for slot, h := range m.held {
		if h.state == Held && h.deadline <= now {
			slots = append(slots, slot)
		}
	}
	return slots
}

// machine runs one random history through both.
type machine struct {
	t     *rapid.T
	r     *Reserver
	lists map[uint32]*List
	now   queue.Time
	model model
}

func newMachine(t *rapid.T) *machine {
	now := queue.Time(rapid.Int64Range(0, 1<<41).Draw(t, "start"))
	return &machine{
		t: t, r: New(now, 0), now: now, lists: map[uint32]*List{},
		model: model{held: map[uint32]*modelHold{}, perSub: map[uint32]int{}, consumers: map[string]int{}},
	}
}

func (m *machine) list(seq uint32) *List {
	if m.lists[seq] == nil {
		list := NewList()
		m.lists[seq] = &list
	}
	return m.lists[seq]
}

// deadline draws moments in the past, within the tick, within a turn of the wheel, around its end and far beyond.
func (m *machine) deadline() queue.Time {
	turn := int64(wheelBuckets * wheelTick)
	distance := rapid.OneOf(
		rapid.Int64Range(-2*turn, 0), rapid.Int64Range(-2*wheelTick, 2*wheelTick), rapid.Int64Range(0, turn),
		rapid.Int64Range(turn-2*wheelTick, turn+2*wheelTick), rapid.Int64Range(0, 200*turn),
	).Draw(m.t, "distance")
	return m.now + queue.Time(distance)
}

// slot draws one of the reservations, by sequence so that the same draws give the same history.
func (m *machine) slot() uint32 {
	if len(m.model.held) == 0 {
		m.t.Skip("nothing is held")
	}
	slots := slices.SortedFunc(maps.Keys(m.model.held), func(a, b uint32) int {
		return cmp.Compare(m.model.held[a].sequence, m.model.held[b].sequence)
	})
	return rapid.SampledFrom(slots).Draw(m.t, "slot")
}

func (m *machine) add(*rapid.T) {
	h := modelHold{
		seq: rapid.Uint32Range(1, 4).Draw(m.t, "seq"), index: rapid.Uint32Range(0, 60).Draw(m.t, "index"),
		deadline: m.deadline(), consumer: rapid.SampledFrom([]string{"", "a", "b", "c", "d"}).Draw(m.t, "consumer"),
	}
	if _, taken := m.r.Find(h.seq, h.index); taken {
		m.t.Skip("the chunk is held")
	}
	h.sequence = m.r.NextSequence()
	slot := m.r.Add(m.list(h.seq), Hold{Sequence: h.sequence, Epoch: 7, Seq: h.seq, Index: h.index, Deadline: h.deadline}, h.consumer)
	if m.model.held[slot] != nil {
		m.t.Fatalf("Add returned slot %d, which is in use", slot)
	}
	m.model.held[slot] = &h
	m.model.perSub[h.seq]++
	m.model.consumers[h.consumer]++
}

func (m *machine) remove(*rapid.T) { m.drop(m.slot()) }

func (m *machine) drop(slot uint32) {
	h := m.model.held[slot]
	m.r.Remove(m.list(h.seq), slot)
	delete(m.model.held, slot)
	m.model.perSub[h.seq]--
	m.model.consumers[h.consumer]--
}

func (m *machine) extend(*rapid.T) {
	slot := m.slot()
	h := m.model.held[slot]
	if h.state == Expiring {
		m.t.Skip("an expiring reservation is not extended")
	}
	h.deadline = m.deadline()
	m.r.Extend(slot, h.deadline)
}

// finish marks a reservation as a completion does, also while its expiry is on its way.
func (m *machine) finish(*rapid.T) {
	slot := m.slot()
	m.model.held[slot].state = Finishing
	m.r.At(slot).State = Finishing
}

// abandon is a commit that failed: the reservation is held again and must expire (again).
func (m *machine) abandon(*rapid.T) {
	slot := m.slot()
	h := m.model.held[slot]
	h.state = Held
	m.r.At(slot).State = Held
	m.r.Extend(slot, h.deadline)
}

// expire lets time pass, a moment or several turns, at times backwards, and compares what is due.
func (m *machine) expire(*rapid.T) {
	turn := int64(wheelBuckets * wheelTick)
	m.now += queue.Time(rapid.OneOf(
		rapid.Int64Range(0, 2*wheelTick), rapid.Int64Range(0, turn), rapid.Int64Range(turn-wheelTick, turn+wheelTick),
		rapid.Int64Range(0, 50*turn), rapid.Int64Range(-3*wheelTick, 0),
	).Draw(m.t, "passed"))
	most := rapid.SampledFrom([]int{0, 1, 2, 5, 1000}).Draw(m.t, "most")
	due := m.model.due(m.now)
	prefix := []uint32{1 << 30}
	got := m.r.Expired(prefix, m.now, most)
	if got[0] != prefix[0] {
		m.t.Fatalf("Expired overwrote what was in dst: %v", got)
	}
	got = got[1:]
	if want := min(most, len(due)); len(got) != want {
		m.t.Fatalf("Expired(now %d, most %d) = %d slots; want %d of %d due", m.now, most, len(got), want, len(due))
	}
	for _, slot := range got {
		h := m.model.held[slot]
		if h == nil || h.state != Held || h.deadline > m.now {
			m.t.Fatalf("Expired(now %d) returned slot %d, which is %+v", m.now, slot, h)
		}
		h.state = Expiring
	}
}

// check compares everything that can be asked.
func (m *machine) check(*rapid.T) {
	if got, want := m.r.Len(), len(m.model.held); got != want {
		m.t.Fatalf("Len() = %d; want %d", got, want)
	}
	for slot, want := range m.model.held {
		h := m.r.At(slot)
		if h == nil {
			m.t.Fatalf("At(%d) = nil; want %+v", slot, want)
		}
		got := modelHold{h.Seq, h.Index, h.Sequence, h.Deadline, h.State, m.r.Consumer(h)}
		if got != *want {
			m.t.Fatalf("At(%d) = %+v; want %+v", slot, got, *want)
		}
		if found, ok := m.r.Find(want.seq, want.index); !ok || found != slot {
			m.t.Fatalf("Find(%d, %d) = %d, %v; want %d", want.seq, want.index, found, ok, slot)
		}
	}
	for slot := range uint32(m.r.holds.Len() + 2) {
		if h := m.r.At(slot); h != nil && m.model.held[slot] == nil {
			m.t.Fatalf("At(%d) = %+v; want nil", slot, *h)
		}
	}
	m.checkLists()
	m.checkConsumers()
}

func (m *machine) checkLists() {
	for seq, list := range m.lists {
		n := 0
		m.r.Each(list, func(slot uint32, h *Hold) bool {
			if want := m.model.held[slot]; want == nil || want.seq != seq || h.Index != want.index {
				m.t.Fatalf("the list of submission %d holds slot %d: %+v; want %+v", seq, slot, *h, want)
			}
			n++
			return n <= len(m.model.held)
		})
		if want := m.model.perSub[seq]; n != want || int(list.Len()) != want {
			m.t.Fatalf("the list of submission %d has %d entries and Len() = %d; want %d", seq, n, list.Len(), want)
		}
	}
}

func (m *machine) checkConsumers() {
	got := map[string]int{}
	for from, more := 0, true; more; more = from != 0 {
		from = m.r.Consumers(from, 2, func(c Holding) {
			if _, twice := got[c.Name]; twice {
				m.t.Fatalf("consumer %q is told twice", c.Name)
			}
			got[c.Name] = c.Held
		})
	}
	maps.DeleteFunc(m.model.consumers, func(_ string, held int) bool { return held == 0 })
	if !maps.Equal(got, m.model.consumers) {
		m.t.Fatalf("consumers hold %v; want %v", got, m.model.consumers)
	}
	for _, name := range []string{"", "a", "b", "c", "d"} {
		m.checkHeldBy(name)
	}
}

// checkHeldBy: a consumer's reservations are listed from the oldest to the newest, from any of them on, also from one that is gone.
func (m *machine) checkHeldBy(name string) {
	var want []uint64
	for _, h := range m.model.held {
		if h.consumer == name {
			want = append(want, h.sequence)
		}
	}
	slices.Sort(want)
	from := func(after Place) (got []uint64, places []Place) {
		m.r.HeldBy(name, after, func(at Place, h *Hold) bool {
			got, places = append(got, h.Sequence), append(places, at)
			return len(got) <= len(want)
		})
		return got, places
	}
	got, places := from(Place{})
	if !slices.Equal(got, want) {
		m.t.Fatalf("%q holds %v; want %v", name, got, want)
	}
	if h, holds := m.r.Holding(name); holds != (len(want) > 0) || h.Held != len(want) {
		m.t.Fatalf("Holding(%q) = %+v, %v; want %d", name, h, holds, len(want))
	}
	for i, at := range places {
		gone := Place{Ordinal: at.Ordinal, Slot: at.Slot + 1} // as if another reservation lay there by now
		for _, after := range []Place{at, gone} {
			if rest, _ := from(after); !slices.Equal(rest, want[i+1:]) {
				m.t.Fatalf("%q holds %v after place %+v; want %v", name, rest, after, want[i+1:])
			}
		}
	}
}

// Whatever happens, the table answers like the map, and reports a reservation as due exactly when it is.
func TestReserverModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		t.Repeat(map[string]func(*rapid.T){
			"": m.check, "add": m.add, "add2": m.add, "remove": m.remove, "extend": m.extend, "finish": m.finish,
			"abandon": m.abandon, "expire": m.expire,
		})
		for slot := range m.model.held {
			m.drop(slot)
		}
		m.check(t)
		for i, head := range m.r.wheel.buckets {
			if head != none {
				t.Fatalf("the empty table leaves slot %d in bucket %d", head, i)
			}
		}
	})
}

// With a limit of a few at a time, Expired finds all due reservations, each once, and does not look again at those that it has returned.
func TestExpiredInPortions(t *testing.T) {
	t.Parallel()
	const count, most = 20_000, 64
	r, list := New(1000, 0), NewList()
	for i := range uint32(count) {
		r.Add(&list, Hold{Sequence: r.NextSequence(), Seq: 1, Index: i, Deadline: 5000}, "c")
	}
	seen := map[uint32]bool{}
	for len(seen) < count {
		slots := r.Expired(nil, 5000, most)
		if want := min(most, count-len(seen)); len(slots) != want {
			t.Fatalf("after %d: Expired = %d slots; want %d", len(seen), len(slots), want)
		}
		for _, slot := range slots {
			if seen[slot] {
				t.Fatalf("slot %d is told twice", slot)
			}
			seen[slot] = true
		}
		left := 0
		for slot := r.wheel.buckets[bucketOf(5000/wheelTick)]; slot != none; slot = r.holds.At(uint32(slot)).later {
			left++
		}
		if want := count - len(seen); left != want {
			t.Fatalf("after %d: the bucket still holds %d; want %d", len(seen), left, want)
		}
	}
	if slots := r.Expired(nil, 1<<40, most); len(slots) != 0 {
		t.Errorf("Expired after all = %v; want none", slots)
	}
}

// A deadline is kept to the millisecond, not to the tick, and not a turn early.
func TestExpiryIsExact(t *testing.T) {
	t.Parallel()
	const turn = wheelBuckets * wheelTick
	for _, distance := range []queue.Time{0, 1, wheelTick - 1, wheelTick, wheelTick + 1, turn - 1, turn, turn + 1, 3*turn + 5, 86_400_000} {
		start := queue.Time(1_700_000_000_123)
		r, list := New(start, 0), NewList()
		slot := r.Add(&list, Hold{Sequence: 1, Seq: 1, Deadline: start + distance}, "")
		for now := start; now < start+distance; now += 1 + distance/7 {
			if got := r.Expired(nil, now, 10); len(got) > 0 {
				t.Errorf("distance %d: due at %d already", distance, now-start)
			}
		}
		if got := r.Expired(nil, start+distance-1, 10); len(got) > 0 {
			t.Errorf("distance %d: due a millisecond early", distance)
		}
		if got := r.Expired(nil, start+distance, 10); !slices.Equal(got, []uint32{slot}) {
			t.Errorf("distance %d: Expired = %v; want slot %d", distance, got, slot)
		}
	}
}

// A reservation costs 64 bytes of table and no pointer: a million of them are nothing to the garbage collector.
func TestHoldSize(t *testing.T) {
	t.Parallel()
	if got := unsafe.Sizeof(Hold{}); got != 64 {
		t.Errorf("a Hold takes %d bytes; want 64, a cache line", got)
	}
}

// An operation costs the same with a million reservations as with a thousand.
func BenchmarkReserver(b *testing.B) {
	for _, held := range []int{1000, 1_000_000} {
		b.Run(map[int]string{1000: "1k", 1_000_000: "1M"}[held], func(b *testing.B) {
			r, list, now := New(1, 0), NewList(), queue.Time(1)
			add := func(index uint32) uint32 {
				return r.Add(&list, Hold{Sequence: r.NextSequence(), Seq: 1, Index: index, Deadline: now + 600_000}, "c")
			}
			slots := make([]uint32, held)
			for i := range slots {
				slots[i] = add(uint32(i))
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				at := i % held
				r.Remove(&list, slots[at])
				slots[at] = add(uint32(at))
			}
		})
	}
}

// BenchmarkGrow measures the longest single Add while the table grows to a million reservations. It delays one hold of the shard's mutex.
func BenchmarkGrow(b *testing.B) {
	var longest time.Duration
	for range b.N {
		r, list := New(1, 0), NewList()
		for i := range uint32(1_000_000) {
			began := time.Now()
			r.Add(&list, Hold{Sequence: r.NextSequence(), Seq: 1, Index: i, Deadline: 600_000}, "c")
			longest = max(longest, time.Since(began))
		}
	}
	b.ReportMetric(float64(longest.Microseconds()), "longest-us")
}
