package engine

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/inspect"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

// PreviewRequest asks what a reserve of up to Max chunks (1 to MaxPreview; 0: 10) would hand out. The same seed on the same state gives the
// same chunks; nil: any seed.
type PreviewRequest struct {
	Plan *strategy.Plan
	Max  int
	Seed *uint64

	Context queue.Meta // that the reserve would carry, from queue.NewContext
}

// Previewed is one chunk that a reserve would hand out now.
type Previewed = inspect.Previewed

// MaxPreview is the most chunks of one preview.
const MaxPreview = inspect.MaxPreview

// MaxSeed keeps seeds exact in every JSON implementation.
const MaxSeed = api.MaxSeed

const defaultPreview = 10

// Foreseen is what a reserve would hand out now, drawn by Seed; the leaves of its picks are those of Plan.Unscored. Faults say why Plugin
// and Score blocks that were asked gave no scores. Until Grace, the restart grace keeps back chunks that a limit counts; 0: there is none.
type Foreseen struct {
	inspect.Foreseen
	Seed  uint64
	Grace queue.Time
}

// Preview tells what a reserve would hand out now, and by which seed. Nothing is reserved and nothing changes.
func (p Questions) Preview(ctx context.Context, r PreviewRequest) (Foreseen, error) {
	all, err := p.previews(ctx, []*strategy.Plan{r.Plan}, r.Max, r.Seed, r.Context)
	if err != nil {
		return Foreseen{}, err
	}
	return all[0], nil
}

// previews foresees several plans on the same state with the same seed.
func (p Questions) previews(
	ctx context.Context, plans []*strategy.Plan, most int, seed *uint64, about queue.Meta,
) ([]Foreseen, error) {
	asked, err := p.question(most, seed, about)
	if err != nil {
		return nil, err
	}
	found, grace, err := p.q.shard.Inspect.Preview(ctx, plans, asked)
	all := make([]Foreseen, len(found))
	for i := range found {
		all[i] = Foreseen{found[i], asked.Seed, grace}
	}
	return all, err
}

// question checks the numbers of a request and fills in what it leaves out.
func (p Questions) question(most int, seed *uint64, about queue.Meta) (*inspect.Question, error) {
	q := &inspect.Question{Max: most, Context: about}
	if most == 0 {
		q.Max = defaultPreview
	}
	if q.Max < 1 || q.Max > MaxPreview {
		return nil, queue.Invalid("/max", "is %d; 1 to %d are allowed", most, MaxPreview)
	}
	switch {
	case seed == nil:
		q.Seed = p.q.e.options.Seed() & MaxSeed
	case *seed > MaxSeed:
		return nil, queue.Invalid("/seed", "is %d; 0 to %d are allowed", *seed, uint64(MaxSeed))
	default:
		q.Seed = *seed
	}
	return q, nil
}

// Candidates gives the first `rows` candidates (1 to strategy.MaxWindow) of a strategy in its text form, in its order and with these
// columns, for a reservation with this context, as a plugin would get them to score. Nothing is reserved. Scores inside of the strategy are
// left out.
func (e *Engine) Candidates(ctx context.Context, queueName, text string, about queue.Meta, reads []strategy.Column,
	rows int) (*strategy.Window, error) {
	q, err := e.Queue(queueName)
	if err != nil {
		return nil, err
	}
	if rows < 1 || rows > strategy.MaxWindow {
		return nil, queue.Invalid("/rows", "is %d; 1 to %d are allowed", rows, strategy.MaxWindow)
	}
	s, err := strategy.Parse(text)
	if err != nil {
		return nil, err
	}
	return q.shard.Scoring.Candidates(ctx, q.Questions.PlanNow(s.Plan(), rows).Unscored(), about, reads, rows)
}

// BranchWhy is how a chunk stands with one leaf of a plan. Its Obstacle keeps the leaf from handing it out.
type BranchWhy = inspect.BranchWhy

// Explained is how a strategy stands and what it would hand out.
type Explained = inspect.Explained

// ExplainedPick is one chunk that would be handed out, and why no branch before its own gave it.
type ExplainedPick = inspect.ExplainedPick

// Seat is how the tenant that a chunk belongs to stands in one Fair block.
type Seat = inspect.Seat

// PlanNow is a plan as a reserve for so many chunks would follow it now, with a number in place of each percentage. Questions and their
// answers are about that plan.
func (p Questions) PlanNow(plan *strategy.Plan, most int) *strategy.Plan {
	return p.q.shard.Percents.PlanNow(plan, most)
}

// Explain says which chunks reach each block of a strategy, how its leaves stand, and for each pick of a preview, why no earlier leaf gave
// it.
func (p Questions) Explain(ctx context.Context, r PreviewRequest) (Explained, uint64, error) {
	asked, err := p.question(r.Max, r.Seed, r.Context)
	if err != nil {
		return Explained{}, 0, err
	}
	x, err := p.q.shard.Inspect.Explain(ctx, r.Plan, asked)
	return x, asked.Seed, err
}

// longestWait bounds the expected wait that is reported: a longer one says nothing.
const longestWait = 365 * 24 * time.Hour

// Why tells where a chunk stands, and the first obstacle between it and each leaf of the plan. The numbers of chunks before it are rounded
// to two digits, because they have changed by the time they are read. The rate is how many chunks of the queue were reserved a second over
// the last minute.
func (p Questions) Why(ctx context.Context, id queue.SubmissionID, index uint32, plan *strategy.Plan) (inspect.Why, error) {
	why, err := p.q.shard.Inspect.Why(ctx, id, index, plan)
	rate := p.q.pace.perSecond(queue.At(p.q.e.options.Now()), p.q.shard.Stats().ReservedTotal)
	if at := why.Standing; err == nil && at != nil {
		at.Ahead, at.Among, at.PerSecond = coarse(at.Ahead), coarse(at.Among), rate
		if seconds := float64(at.Ahead) / rate; rate > 0 {
			wait := time.Duration(min(seconds, longestWait.Seconds()) * float64(time.Second))
			at.WaitMs = new(wait.Round(time.Millisecond).Milliseconds())
		}
	}
	return why, err
}

// coarse keeps the first two digits of a number.
func coarse(n uint64) uint64 {
	digit := uint64(1)
	for n/digit >= 100 {
		digit *= 10
	}
	return n / digit * digit
}

// CompareRequest asks for the previews of two plans on one state; the rest is as in PreviewRequest.
type CompareRequest struct {
	A, B    *strategy.Plan
	Max     int
	Seed    *uint64
	Context queue.Meta
}

// Comparison is how the picks of two plans differ. Overlap is how many chunks both would hand out.
type Comparison struct {
	A, B    Spread
	Overlap int
	OnlyA   []Previewed // what A would hand out and B would not, in its order
	OnlyB   []Previewed // and the reverse
	Seed    uint64
	Grace   queue.Time // as in Foreseen
}

// Spread is how the picks of one plan are spread over the values of each meta key, by key. The first is
// strategy.SubmissionKey, whose values are the submissions.
type Spread struct {
	Picks  int
	Keys   []api.KeySpread
	Faults []error // as in Foreseen
}

// Compare previews two plans on the same state, and says how fair each is and how much they have in common.
func (p Questions) Compare(ctx context.Context, r CompareRequest) (Comparison, error) {
	all, err := p.previews(ctx, []*strategy.Plan{r.A, r.B}, r.Max, r.Seed, r.Context)
	if err != nil {
		return Comparison{}, err
	}
	c := ComparePicks(all[0].Picks, all[1].Picks)
	c.Seed, c.Grace, c.A.Faults, c.B.Faults = all[0].Seed, all[0].Grace, all[0].Faults, all[1].Faults
	return c, nil
}

// ComparePicks says how the picks of two plans differ.
func ComparePicks(a, b []Previewed) Comparison {
	x, y := countPicks(a), countPicks(b)
	c := Comparison{A: x.spread(y), B: y.spread(x), OnlyA: without(a, b), OnlyB: without(b, a)}
	c.Overlap = len(b) - len(c.OnlyB)
	return c
}

// without are the picks of chunks that are not among the others.
func without(picks, others []Previewed) (list []Previewed) {
	there := make(map[queue.ChunkID]bool, len(others))
	for i := range others {
		there[queue.ChunkID{Submission: others[i].Submission, Index: others[i].Index}] = true
	}
	for i := range picks {
		if !there[queue.ChunkID{Submission: picks[i].Submission, Index: picks[i].Index}] {
			list = append(list, picks[i])
		}
	}
	return list
}

// tally is how many picks each value of each key has.
type tally struct {
	picks int
	keys  map[queue.MetaKey]map[queue.MetaValue]int
}

func countPicks(picks []Previewed) tally {
	t := tally{picks: len(picks), keys: map[queue.MetaKey]map[queue.MetaValue]int{strategy.SubmissionKey: {}}}
	count := func(key queue.MetaKey, value queue.MetaValue) {
		if t.keys[key] == nil {
			t.keys[key] = map[queue.MetaValue]int{}
		}
		t.keys[key][value]++
	}
	for i := range picks {
		count(strategy.SubmissionKey, queue.IntValue(int64(picks[i].Submission)))
		for _, m := range picks[i].Meta {
			count(m.Key, m.Value)
		}
	}
	return t
}

// spread measures every key that either of the two has.
func (t tally) spread(other tally) Spread {
	s := Spread{Picks: t.picks}
	keys := map[queue.MetaKey]bool{}
	for _, side := range []tally{t, other} {
		for key := range side.keys {
			keys[key] = true
		}
	}
	for key := range keys {
		s.Keys = append(s.Keys, spreadOf(key, t.keys[key], other.keys[key]))
	}
	slices.SortFunc(s.Keys, func(a, b api.KeySpread) int { return cmp.Compare(a.Key, b.Key) })
	return s
}

func spreadOf(key queue.MetaKey, mine, other map[queue.MetaValue]int) api.KeySpread {
	k := api.KeySpread{Key: key, Distinct: len(mine)}
	most, squares, values := 0, 0, len(mine)
	for _, n := range mine {
		k.Picks += n
		squares += n * n
		most = max(most, n)
	}
	for value := range other {
		if _, both := mine[value]; !both {
			values++
		}
	}
	if k.Picks > 0 {
		k.MaxShare = float64(most) / float64(k.Picks)
		k.Jain = float64(k.Picks*k.Picks) / float64(values*squares)
	}
	return k
}
