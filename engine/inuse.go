package engine

import (
	"cmp"
	"github.com/quern-queue/quern/engine/diagnosis"
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

const (
	// InUseFor is how long a strategy counts as in use after a reserve.
	InUseFor = diagnosis.InUseFor

	// maxInUse bounds the strategies that a queue counts. If a client invents strategies without end, the one that was unused for longest
	// is dropped.
	maxInUse = 256

	useSlots     = 2 * maxInUse // found without a lock or a map
	useProbes    = 8            // slots in a row that a plan may have
	consumerBits = 4096
)

// strategyUse is a strategy that consumers of a queue reserve by, with its plan.
type strategyUse struct {
	api.StrategyUse
	plan *strategy.Plan
}

// inUse counts reserves by strategy. A reserve finds the counters of its plan in a slot; only when they are not there does it take the
// lock. The sampler adds times to the counts once a second.
type inUse struct {
	slots [useSlots]atomic.Pointer[useSlot]

	mu      sync.Mutex // guards what follows
	byText  map[string]*strategyUses
	since   queue.Time // what was used before is not known; 0: the first sample is still to come
	rotated queue.Time
}

type useSlot struct {
	plan *strategy.Plan
	uses *strategyUses
}

// strategyUses are the counters of one strategy. Reserves add to the first four fields; the others belong to the sampler.
type strategyUses struct {
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

// add counts a reserve that handed out n chunks.
func (u *inUse) add(plan *strategy.Plan, consumer string, n int) {
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

func (u *inUse) find(plan *strategy.Plan) *strategyUses {
	at := plan.Tag()
	for i := range uint32(useProbes) {
		if slot := u.slots[(at+i)%useSlots].Load(); slot != nil && slot.plan == plan {
			return slot.uses
		}
	}
	return u.enter(plan, at)
}

// enter finds or makes the counters of a strategy, and puts them where the next reserve finds them.
func (u *inUse) enter(plan *strategy.Plan, at uint32) *strategyUses {
	u.mu.Lock()
	defer u.mu.Unlock()
	text := plan.Text()
	uses := u.byText[text]
	if uses == nil {
		if len(u.byText) >= maxInUse {
			u.dropOldest()
		}
		if u.byText == nil {
			u.byText = map[string]*strategyUses{}
		}
		uses = &strategyUses{plan: plan}
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
func (u *inUse) dropOldest() {
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

func (u *inUse) drop(text string) {
	uses := u.byText[text]
	delete(u.byText, text)
	for i := range u.slots {
		if slot := u.slots[i].Load(); slot != nil && slot.uses == uses {
			u.slots[i].Store(nil)
		}
	}
}

// sample adds the time to the counts since the last sample, and drops strategies that are not in use any more.
func (u *inUse) sample(now queue.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.since == 0 || now < u.rotated { // the first, or the clock was set back
		u.since, u.rotated = cmp.Or(u.since, now), now
	}
	rotate := now.Sub(u.rotated) >= InUseFor/2
	if rotate {
		u.rotated = now
	}
	for text, uses := range u.byText {
		if uses.sample(now, rotate); now.Sub(uses.last) > InUseFor {
			u.drop(text)
		}
	}
}

func (s *strategyUses) sample(now queue.Time, rotate bool) {
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

// list is what is in use, most chunks first, and since when that is known.
func (u *inUse) list(now queue.Time) (list []strategyUse, since queue.Time) {
	u.sample(now)
	u.mu.Lock()
	defer u.mu.Unlock()
	for text, uses := range u.byText {
		use := strategyUse{api.StrategyUse{Strategy: text, Consumers: uses.names(), LastUsed: uses.last.API()}, uses.plan}
		if seconds := now.Sub(uses.marks[1].at).Seconds(); seconds > 0 {
			use.ReservesPerSecond = float64(uses.reserves.Load()-uses.marks[1].reserves) / seconds
			use.ChunksPerSecond = float64(uses.chunks.Load()-uses.marks[1].chunks) / seconds
		}
		list = append(list, use)
	}
	slices.SortFunc(list, func(a, b strategyUse) int {
		return cmp.Or(cmp.Compare(b.ChunksPerSecond, a.ChunksPerSecond), cmp.Compare(b.ReservesPerSecond, a.ReservesPerSecond),
			b.LastUsed.Compare(a.LastUsed.Time), cmp.Compare(a.Strategy, b.Strategy))
	})
	return list, max(u.since, now.Add(-InUseFor))
}

// plans are those of the strategies in use.
func (u *inUse) plans() (list []*strategy.Plan) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, uses := range u.byText {
		list = append(list, uses.plan)
	}
	return list
}

// lately are the plans that consumers reserved by lately.
func (u *inUse) lately(now queue.Time) (list []*strategy.Plan) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, uses := range u.byText {
		if uses.last == 0 || now.Sub(uses.last) <= diagnosis.PacedFor {
			list = append(list, uses.plan)
		}
	}
	return list
}

// limitsOf are the limits of the values of keys by all of these plans, as a call for one chunk follows them. A key has a limit if all
// leaves of the plans have one, and the highest of them holds.
func limitsOf(plans []*strategy.Plan, numbered func(*strategy.Plan, int) *strategy.Plan) (limits map[queue.MetaKey]uint32) {
	for _, plan := range plans {
		plan = numbered(plan, 1)
		for i := range plan.Branches {
			plan.Branches[i].Leaves(func(leaf *strategy.Branch) bool {
				limits = atMost(limits, leaf)
				return true
			})
		}
	}
	return limits
}

// atMost are the limits that a leaf has too; nil: it is the first one.
func atMost(limits map[queue.MetaKey]uint32, leaf *strategy.Branch) map[queue.MetaKey]uint32 {
	own := map[queue.MetaKey]uint32{}
	for _, l := range leaf.Limits {
		before, is := limits[l.Key]
		if l.Of == strategy.Simultaneous && (is || limits == nil) {
			own[l.Key] = max(before, l.Max)
		}
	}
	return own
}

// names estimates how many different names have set bits. It corrects for names that share a bit.
func (s *strategyUses) names() int {
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

// InUse lists the strategies that consumers of a queue reserved by in the last hour, those that handed out most first.
func (p Strategies) InUse() api.StrategiesInUse {
	list, since := p.q.inUse.list(queue.At(p.q.e.options.Now()))
	out := api.StrategiesInUse{Items: make([]api.StrategyUse, len(list)), Since: since.API()}
	for i := range list {
		out.Items[i] = list[i].StrategyUse
	}
	return out
}

// PluginStore is where the plugins are kept: the server's catalogue. It lives until Close.
func (e *Engine) PluginStore() *store.Catalogue { return e.catalogue }

// PluginUsers lists the blocks that name a plugin, by queue and name: of the stored strategies of all queues, as they stand now, and of
// those that consumers reserved by within InUseFor.
func (e *Engine) PluginUsers(plugin string) (users []queue.PluginUser) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, q := range e.queues {
		stored := map[*strategy.Plan]bool{}
		for _, n := range q.named.all() {
			if plan, wrong := n.compiled(); wrong == nil {
				stored[plan] = true
				users = appendUsers(users, plan, plugin, queue.PluginUser{Queue: q.name, Strategy: n.Name})
			}
		}
		for _, plan := range q.inUse.plans() {
			if !stored[plan] {
				users = appendUsers(users, plan, plugin, queue.PluginUser{Queue: q.name})
			}
		}
	}
	slices.SortFunc(users, func(a, b queue.PluginUser) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Strategy, b.Strategy), cmp.Compare(a.Version, b.Version),
			cmp.Compare(a.Config, b.Config), cmp.Compare(a.Window, b.Window))
	})
	return slices.Compact(users)
}

// appendUsers appends the blocks of a plan that name a plugin; by says whose they are.
func appendUsers(users []queue.PluginUser, plan *strategy.Plan, plugin string, by queue.PluginUser) []queue.PluginUser {
	for i := range plan.Branches {
		if scored := plan.Branches[i].Scored; scored != nil && scored.Expression == nil && scored.Plugin == plugin {
			by.Version, by.Config, by.Window = scored.Version, string(scored.Config), scored.Window
			users = append(users, by)
		}
	}
	return users
}
