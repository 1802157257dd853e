package engine

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/diagnosis"
	"github.com/quern-queue/quern/engine/queue"
	shardvalues "github.com/quern-queue/quern/engine/shard/values"
	"github.com/quern-queue/quern/sdk/api"
)

// The bounds of a frame. It reads only maintained counters, so it costs the same at any backlog.
const (
	// FrameValues is how many values of a meta key a frame names; the others are summed.
	FrameValues = 50

	// maxFrameVisits bounds the values, of all keys together, that one frame reads (BenchmarkFrame/values).
	maxFrameVisits = 10 << 10

	// maxShownVisits bounds the values that a frame reads of a key that metrics show.
	maxShownVisits = 100_000

	// maxFrameKeys bounds the meta keys of one frame.
	maxFrameKeys = 16

	// maxFrameRules bounds the rules that a frame shows.
	maxFrameRules = 20
)

// Frame is how a queue stood at one moment. Frames are made once a second, for all who look, and must not be changed.
type Frame struct {
	Number uint64 // from 1 at the server's start, one more each second
	At     queue.Time
	Stats  api.StatsFrame
	Keys   api.KeysFrame

	memoryShort bool // LiveLimit.MemoryShort

	paced, unpaced uint64 // values at their limits: with a pace of their own, and without one because there are too many
}

// frames makes a queue's frames, and keeps the series of the past.
type frames struct {
	last atomic.Pointer[Frame]

	mu      sync.Mutex            // guards what follows
	past    [len(seriesKept)]ring // by step
	heat    map[queue.MetaKey]*heat
	visited []backlog.ValueCount // scratch
	outlook diagnosis.Outlook

	full saturations // has a mutex of its own
}

// Frame is the last frame of a queue; nil before the first, which comes within a second of Run.
func (q *Queue) Frame() *Frame { return q.frames.last.Load() }

// Sampled is closed when all queues have their next frame. Ask for it before reading a frame, so as to miss none.
func (e *Engine) Sampled() <-chan struct{} { return e.sampled.wait() }

// sampled announces that all queues have a new frame.
type sampled struct {
	mu   sync.Mutex
	next chan struct{} // nil: no one waits
}

func (s *sampled) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return s.next
}

func (s *sampled) announce() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		close(s.next)
		s.next = nil
	}
}

// sample makes the next frame of every queue.
func (e *Engine) sample() {
	defer e.sampled.announce()
	now := queue.At(e.options.Now())
	for _, q := range e.all() {
		q.sample(now, e.options.MetricKeys)
		q.inUse.Sample(now)
		sums := q.shard.Inspect.LedgerSums()
		q.fair.Store(&sums)
	}
}

func (q *Queue) sample(now queue.Time, shown []queue.MetaKey) {
	f := &q.frames
	rules := q.shard.Rules.List()
	frame := &Frame{Number: 1, At: now, Keys: api.KeysFrame{Queue: askedAs(q), At: now.API(), Keys: []api.KeyFrame{}},
		Stats: api.StatsFrame{Queue: askedAs(q), At: now.API(), Stats: q.shard.Stats().Stats, Rules: firstRules(rules),
			RulesTotal: len(rules)},
		memoryShort: q.e.shared.live.MemoryShort()}
	f.mu.Lock()
	defer f.mu.Unlock()
	if before := f.last.Load(); before != nil {
		frame.Number = before.Number + 1
		frame.Stats.Rates = ratesBetween(pointOf(before), pointOf(frame))
	}
	point := pointOf(frame)
	for i, kept := range seriesKept {
		f.past[i].add(point, kept.most, kept.step)
	}
	f.full.forget(now)
	f.outlook.Begin(diagnosis.LimitsOf(q.inUse.Lately(now, diagnosis.PacedFor), q.Questions.PlanNow))
	q.sampleKeys(&frame.Keys, now, shown)
	var held []HeldRule
	if frame.Stats.Stats.Paused+frame.Stats.Stats.Blocked > 0 {
		held = q.shard.Rules.Kept(diagnosis.LastRules(rules))
	}
	frame.Stats.Stats.Forecast = f.outlook.Tell(&frame.Stats.Stats, held, now)
	frame.paced, frame.unpaced = f.outlook.Paced()
	f.note(frame)
	f.last.Store(frame)
}

// sampleKeys reads the counters of the values, key by key, up to maxFrameVisits, and leaves the rest out. Keys that metrics show come
// first, each with up to maxShownVisits values, because an operator asked for them.
func (q *Queue) sampleKeys(frame *api.KeysFrame, now queue.Time, shown []queue.MetaKey) {
	keys := q.shard.Values.Keys()
	slices.Sort(keys)
	asked := func(key queue.MetaKey) bool { return slices.Contains(shown, key) }
	slices.SortStableFunc(keys, func(a, b queue.MetaKey) int {
		switch {
		case asked(a) == asked(b):
			return 0
		case asked(a):
			return -1
		}
		return 1
	})
	budget := maxFrameVisits
	for _, key := range keys {
		most := budget
		if asked(key) {
			most = maxShownVisits
		}
		if len(frame.Keys) == maxFrameKeys || most == 0 {
			frame.Left++
			continue
		}
		k := q.sampleKey(key, most, now)
		if k.Values == 0 {
			continue // a strategy asks for the key, and no submission has it
		}
		if !asked(key) {
			budget -= k.Values
		}
		frame.Keys = append(frame.Keys, k)
	}
	slices.SortFunc(frame.Keys, func(a, b api.KeyFrame) int { return cmp.Compare(a.Key, b.Key) })
}

func (q *Queue) sampleKey(key queue.MetaKey, budget int, now queue.Time) api.KeyFrame {
	seen, all := q.shard.Values.List(key, budget, q.frames.visited[:0])
	q.frames.visited = seen
	k := api.KeyFrame{Key: key, Values: len(seen), Whole: all}
	q.frames.full.look(key, seen, &q.values, now)
	q.frames.look(key, seen, &q.values, now)
	top := topValues(seen, &k.Rest)
	k.Top = make([]api.ValueCount, len(top))
	for i := range top {
		k.Top[i] = q.showValue(key, &top[i], shardvalues.Total{})
	}
	return k
}

// look counts the chunks of a key's values for the outlook. The caller holds the mutex.
func (f *frames) look(key queue.MetaKey, seen []backlog.ValueCount, settings *values, now queue.Time) {
	settings.mu.RLock()
	defer settings.mu.RUnlock()
	set := settings.limit
	if settings.none(key) {
		set = nil
	}
	f.outlook.Look(key, seen, set, now)
}

// firstRules are the rules that a frame shows: of the whole queue first, then the newest. They are given by ascending id.
func firstRules(list []queue.Rule) (first []api.Rule) {
	for _, whole := range []bool{true, false} {
		for _, rule := range slices.Backward(list) {
			if rule.Match.Whole() == whole && len(first) < maxFrameRules {
				first = append(first, rule.API())
			}
		}
	}
	return first
}

// topValues are the values with most in flight, then most ready; the others are added to rest. It sorts only what has a chance.
func topValues(seen []backlog.ValueCount, rest *api.ValueSum) []backlog.ValueCount {
	larger := func(a, b backlog.ValueCount) int {
		return cmp.Or(cmp.Compare(b.InFlight, a.InFlight), cmp.Compare(b.Available, a.Available), a.Value.Compare(b.Value))
	}
	leave := func(v *backlog.ValueCount) {
		rest.Values++
		rest.Ready += v.Available
		rest.InFlight += v.InFlight
	}
	top := make([]backlog.ValueCount, 0, min(len(seen), FrameValues))
	for _, v := range seen {
		if len(top) == FrameValues {
			if larger(v, top[FrameValues-1]) >= 0 {
				leave(&v)
				continue
			}
			leave(&top[FrameValues-1])
			top = top[:FrameValues-1]
		}
		at, _ := slices.BinarySearchFunc(top, v, larger)
		top = slices.Insert(top, at, v)
	}
	return top
}

// Stats are the queue's numbers.
func (q *Queue) Stats() queue.Stats {
	stats := q.shard.Stats()
	if frame := q.Frame(); frame != nil {
		stats.Forecast = frame.Stats.Stats.Forecast
		stats.Paced, stats.Unpaced = frame.paced, frame.unpaced
	}
	return stats
}

// Examined is how many submissions all reserves of a queue have looked at since it was opened. It measures the cost of picking
// independently of the machine.
func (q *Queue) Examined() uint64 { return q.shard.Examined() }

// emptyCounts counts reserves that came back with nothing, by reason.
type emptyCounts [queue.EmptyReasons]atomic.Uint64

func (c *emptyCounts) count(reason queue.EmptyReason) { c[reason].Add(1) }
