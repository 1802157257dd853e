// Package usage counts by which strategies consumers reserve: how often, how many chunks, and about how many consumers.
package usage

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

const (
	// Kept is how long a strategy counts as in use after a reserve.
	Kept = time.Hour

	// maxInUse bounds the strategies that a queue counts. If a client invents strategies without end, the one that was unused for longest
	// is dropped.
	maxInUse = 256

	useSlots     = 2 * maxInUse // found without a lock or a map
	useProbes    = 8            // slots in a row that a plan may have
	consumerBits = 4096
)

// Use is a strategy that consumers of a queue reserve by, with its plan.
type Use struct {
	api.StrategyUse
	Plan *strategy.Plan
}

// Usage counts the reserves of a queue by strategy. Its zero value is ready, and its methods may be called at the same time. A reserve
// finds the counters of its plan in a slot; only when they are not there does it take the lock. The sampler adds times to the counts once
// a second.
type Usage struct {
	slots [useSlots]atomic.Pointer[useSlot]

	mu      sync.Mutex // guards what follows
	byText  map[string]*counters
	since   queue.Time // what was used before is not known; 0: the first sample is still to come
	rotated queue.Time
}

type useSlot struct {
	plan *strategy.Plan
	uses *counters
}

// counters are the counters of one strategy. Reserves add to the first four fields; the others belong to the sampler.
type counters struct {
	reserves, chunks atomic.Uint64
	consumers        [2][consumerBits / 64]atomic.Uint64 // a bit for each name's hash: of this half hour and the one before
	half             atomic.Uint32                       // which of them is this one's

	plan  *strategy.Plan
	last  queue.Time
	seen  uint64       // reserves, at the last sample
	marks [2]usageMark // at the beginning of this minute and of the one before
}

type usageMark struct {
	at               queue.Time
	reserves, chunks uint64
}

// Add counts a reserve that handed out n chunks.
func (u *Usage) Add(plan *strategy.Plan, consumer string, n int) {
	uses := u.find(plan)
	uses.reserves.Add(1)
	if n > 0 {
		uses.chunks.Add(uint64(n))
	}
	bit := hashName(consumer) % consumerBits
	word := &uses.consumers[uses.half.Load()][bit/64]
	if mask := uint64(1) << (bit % 64); word.Load()&mask == 0 {
		word.Or(mask)
	}
}

func (u *Usage) find(plan *strategy.Plan) *counters {
	at := plan.Tag()
	for i := range uint32(useProbes) {
		if slot := u.slots[(at+i)%useSlots].Load(); slot != nil && slot.plan == plan {
			return slot.uses
		}
	}
	return u.enter(plan, at)
}

// enter finds or makes the counters of a strategy, and puts them where the next reserve finds them.
func (u *Usage) enter(plan *strategy.Plan, at uint32) *counters {
	u.mu.Lock()
	defer u.mu.Unlock()
	text := plan.Text()
	uses := u.byText[text]
	if uses == nil {
		if len(u.byText) >= maxInUse {
			u.dropOldest()
		}
		if u.byText == nil {
			u.byText = map[string]*counters{}
		}
		uses = &counters{plan: plan}
		u.byText[text] = uses
	}
	to := at % useSlots // which another plan may have to leave
	for i := range uint32(useProbes) {
		if next := (at + i) % useSlots; u.slots[next].Load() == nil {
			to = next
			break
		}
	}
	u.slots[to].Store(&useSlot{plan, uses})
	return uses
}

// dropOldest drops the strategy that was unused for longest, and forgets the time before now. The caller holds u.mu.
func (u *Usage) dropOldest() {
	var oldest string
	for text, uses := range u.byText {
		if before := u.byText[oldest]; before == nil || cmp.Or(cmp.Compare(uses.last, before.last), cmp.Compare(text, oldest)) < 0 {
			oldest = text
		}
	}
	if last := u.byText[oldest].last; last != 0 {
		u.since = max(u.since, last+1)
	}
	u.drop(oldest)
}

func (u *Usage) drop(text string) {
	uses := u.byText[text]
	delete(u.byText, text)
	for i := range u.slots {
		if slot := u.slots[i].Load(); slot != nil && slot.uses == uses {
			u.slots[i].Store(nil)
		}
	}
}

// Sample adds the time to the counts since the last sample, and drops strategies that are not in use any more.
func (u *Usage) Sample(now queue.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.since == 0 || now < u.rotated { // the first, or the clock was set back
		u.since, u.rotated = cmp.Or(u.since, now), now
	}
	rotate := now.Sub(u.rotated) >= Kept/2
	if rotate {
		u.rotated = now
	}
	for text, uses := range u.byText {
		if uses.sample(now, rotate); now.Sub(uses.last) > Kept {
			u.drop(text)
		}
	}
}

func (s *counters) sample(now queue.Time, rotate bool) {
	reserves := s.reserves.Load()
	if reserves != s.seen || s.last == 0 || s.last > now {
		s.seen, s.last = reserves, now
	}
	mark := usageMark{now, reserves, s.chunks.Load()}
	switch {
	case s.marks[0].at == 0 || now < s.marks[0].at:
		s.marks = [2]usageMark{mark, mark}
	case now.Sub(s.marks[0].at) >= time.Minute:
		s.marks = [2]usageMark{mark, s.marks[0]}
	}
	if !rotate {
		return
	}
	other := 1 - s.half.Load()
	for i := range s.consumers[other] {
		s.consumers[other][i].Store(0)
	}
	s.half.Store(other)
}

// List is what is in use, most chunks first, and since when that is known.
func (u *Usage) List(now queue.Time) (list []Use, since queue.Time) {
	u.Sample(now)
	u.mu.Lock()
	defer u.mu.Unlock()
	for text, uses := range u.byText {
		use := Use{api.StrategyUse{Strategy: text, Consumers: uses.names(), LastUsed: uses.last.API()}, uses.plan}
		if seconds := now.Sub(uses.marks[1].at).Seconds(); seconds > 0 {
			use.ReservesPerSecond = float64(uses.reserves.Load()-uses.marks[1].reserves) / seconds
			use.ChunksPerSecond = float64(uses.chunks.Load()-uses.marks[1].chunks) / seconds
		}
		list = append(list, use)
	}
	slices.SortFunc(list, func(a, b Use) int {
		return cmp.Or(cmp.Compare(b.ChunksPerSecond, a.ChunksPerSecond), cmp.Compare(b.ReservesPerSecond, a.ReservesPerSecond),
			b.LastUsed.Compare(a.LastUsed.Time), cmp.Compare(a.Strategy, b.Strategy))
	})
	return list, max(u.since, now.Add(-Kept))
}

// Plans are those of the strategies in use.
func (u *Usage) Plans() (list []*strategy.Plan) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, uses := range u.byText {
		list = append(list, uses.plan)
	}
	return list
}

// Lately are the plans that consumers reserved by within this time.
func (u *Usage) Lately(now queue.Time, within time.Duration) (list []*strategy.Plan) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, uses := range u.byText {
		if uses.last == 0 || now.Sub(uses.last) <= within {
			list = append(list, uses.plan)
		}
	}
	return list
}

// names estimates how many different names have set bits. It corrects for names that share a bit.
func (s *counters) names() int {
	set := 0
	for i := range s.consumers[0] {
		set += bits.OnesCount64(s.consumers[0][i].Load() | s.consumers[1][i].Load())
	}
	clear := max(consumerBits-set, 1)
	return int(math.Round(-consumerBits * math.Log(float64(clear)/consumerBits)))
}

// hashName mixes a name eight bytes at a time.
func hashName(name string) uint64 {
	const odd = 0x9e3779b97f4a7c15
	h := uint64(len(name)) * odd
	for ; len(name) >= 8; name = name[8:] {
		word := uint64(name[0]) | uint64(name[1])<<8 | uint64(name[2])<<16 | uint64(name[3])<<24 |
			uint64(name[4])<<32 | uint64(name[5])<<40 | uint64(name[6])<<48 | uint64(name[7])<<56
		h = mixName(h ^ word)
	}
	last := uint64(0)
	for i := range len(name) {
		last = last<<8 | uint64(name[i])
	}
	return mixName(h ^ last)
}

func mixName(h uint64) uint64 {
	h = (h ^ h>>32) * 0xd6e8feb86659fd93
	h = (h ^ h>>32) * 0xd6e8feb86659fd93
	return h ^ h>>32
}
