package engine

import (
	"context"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/inspect"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

// PreviewRequest asks what a reserve of up to Max chunks (1 to MaxPreview; 0: 10) would hand out. The same seed on
// the same state gives the same; nil: any.
type PreviewRequest struct {
	Plan *strategy.Plan
	Max  int
	Seed *uint64

	Context queue.Meta // that the reserve would carry, from queue.NewContext
}

// Previewed is one chunk that a reserve would hand out now.
type Previewed = inspect.Previewed

// MaxPreview is how many chunks one preview foresees at most.
const MaxPreview = inspect.MaxPreview

// MaxSeed keeps seeds exact in every JSON implementation.
const MaxSeed = api.MaxSeed

const defaultPreview = 10

// Foreseen is what a reserve would hand out now, drawn by Seed; the leaves of its picks are those of Plan.Unscored.
// Faults are why Plugin and Score blocks that were asked gave no scores. Until Grace the restart grace keeps back what
// a limit counts; 0: there is none.
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

// Candidates gives the first `rows` candidates (1 to strategy.MaxWindow) of a strategy in its text form, in its order and with
// these columns, for a reservation with this context: what a plugin would be asked to score. Nothing is reserved.
// Scores inside of the strategy are left out.
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
	return q.shard.Scoring.Candidates(ctx, s.Plan().Unscored(), about, reads, rows)
}
