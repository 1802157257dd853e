package web

import (
	"context"
	"fmt"
	"strings"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

type whyInput struct {
	ChunkPath
	Body decoded[api.WhyRequest]
}

func (ask questions) why(ctx context.Context, q *engine.Queue, in *whyInput) (*output[api.WhyResponse], error) {
	plan, err := q.PlanFor(ctx, in.Body.value.Strategy)
	if err != nil {
		return nil, err
	}
	resting := ask.engine.Unusable(ctx, plan)
	plan = plan.Unscored()
	found, err := q.Questions.Why(ctx, in.id, in.chunk.Index, plan)
	if err != nil {
		return nil, err
	}
	out := &output[api.WhyResponse]{Body: api.WhyResponse{State: found.State.String(), Strategy: plan.Text(),
		Branches: make([]api.WhyBranch, len(found.Leaves)), Standing: found.Standing, RestartGraceUntil: found.Grace.API(),
		Warnings: unscored(resting)}}
	paths, leaves := pathsOf(plan), plan.Leaves()
	for i := range leaves {
		out.Body.Branches[i] = apiWhyBranch(&found.Leaves[i], i, &leaves[i], paths)
	}
	return out, nil
}

// apiWhyBranch says what the leaf of this index has against a chunk, for machines and in words.
func apiWhyBranch(in *engine.BranchWhy, index int, leaf *strategy.Leaf, paths []string) api.WhyBranch {
	out := api.WhyBranch{Branch: index + 1, Path: paths[index], Obstacle: in.Obstacle.String(), Until: in.Until.API(),
		Consumer: in.Consumer}
	for level := range in.Seats {
		tenant := in.Seats[level].Tenant.API(leaf.Around[level].Fair)
		tenant.Before = in.Seats[level].Before
		out.Tenants = append(out.Tenants, tenant)
	}
	own := "none"
	if in.HasValue {
		out.Value, own = &in.Value, in.Value.String()
	}
	switch in.Obstacle {
	case queue.ObstacleDone:
		out.Detail = "The chunk is done."
	case queue.ObstacleDead:
		out.Detail = "The chunk is out of attempts."
	case queue.ObstacleSkipped:
		out.Detail = "The submission ended before the chunk was done."
	case queue.ObstacleForwarded:
		out.Detail = "The chunk was out of attempts and went on to another queue."
	case queue.ObstacleWaiting:
		out.Detail = "The chunk waits for its next try until " + timeText(in.Until) + "."
	case queue.ObstacleReserved:
		out.Detail = fmt.Sprintf("The consumer %q holds the chunk until %s.", in.Consumer, timeText(in.Until))
	case queue.ObstacleNotDue:
		out.Detail = "The submission waits for its run_at, " + timeText(in.Until) + "."
	case queue.ObstaclePaused, queue.ObstacleBlocked:
		rule := in.Rule.API()
		out.Rule, out.Detail = &rule, ruleText(&in.Rule)
	case queue.ObstacleFilter:
		out.Key = in.Filter.Key
		out.Detail = fmt.Sprintf("The branch wants %s=%s; the submission has %s.", in.Filter.Key, in.Filter.Value, own)
	case queue.ObstacleGrace:
		out.Key, out.Max = in.Limit.Key, &in.Limit.Max
		out.Detail = fmt.Sprintf("The server restarted: until %s nothing that a limit counts is handed out, so that "+
			"consumers can extend what they hold first; %s=%s is under a limit of %d.", timeText(in.Until), in.Limit.Key, own, in.Limit.Max)
	case queue.ObstacleLimit:
		out.Key, out.InFlight, out.Max = in.Limit.Key, &in.InFlight, &in.Limit.Max
		out.Detail = fmt.Sprintf("%s=%s has %d of %d chunks in flight.", in.Limit.Key, own, in.InFlight, in.Limit.Max)
	case queue.ObstacleValueLimit:
		out.Key, out.InFlight, out.Max = in.Limit.Key, &in.InFlight, &in.Limit.Max
		out.Detail = fmt.Sprintf("%s=%s has %d chunks in flight, and an operator set a limit of %d for it, whatever "+
			"the strategy.", in.Limit.Key, own, in.InFlight, in.Limit.Max)
	case queue.ObstacleHidden:
		out.HiddenBy = in.HiddenBy + 1
		out.Detail = fmt.Sprintf("Branch %d comes first and has something to hand out.", in.HiddenBy+1)
	case queue.ObstacleAlternative:
		out.HiddenBy = in.HiddenBy + 1
		out.Detail = fmt.Sprintf("For the same tenant branch %d comes first and has something to hand out.", in.HiddenBy+1)
	case queue.ObstacleTurn:
		out.Detail = turnText(in.Seats, leaf)
	case queue.ObstacleScore:
		out.Detail = "The scores of the branch pass over the chunk, or there are none: its submission is not among the " +
			"first candidates, or nothing can score them now."
	default:
		out.Detail = "Nothing keeps the branch from handing the chunk out."
	}
	return out
}

// turnText says how many tenants come first, block by block, and how the chunk's own stands there.
func turnText(seats []engine.Seat, leaf *strategy.Leaf) string {
	var parts []string
	for level := range seats {
		seat, br := &seats[level], leaf.Around[level]
		if seat.Before == 0 {
			continue
		}
		unit := "chunks"
		if br.Cost == strategy.ByTime {
			unit = "seconds"
		}
		stands := fmt.Sprintf("owed %.2f %s", seat.Lag, unit)
		if seat.Lag < 0 {
			stands = fmt.Sprintf("%.2f %s ahead", -seat.Lag, unit)
		}
		parts = append(parts, fmt.Sprintf("of %s about %d, and its own is %s", br.Fair, seat.Before, stands))
	}
	return "Other tenants come first: " + strings.Join(parts, "; ") + "."
}

// timeText is a time within a sentence, as it is in fields.
func timeText(t queue.Time) string { return t.Std().UTC().Format("2006-01-02T15:04:05.000Z") }

const diagnosisAbout = "One sentence, and what it is made of: the open chunks by what keeps them from being handed out, judged by " +
	"the rules, the limits and the strategies that consumers reserved by in the last hour (`.../strategies/in-use`). Whose turn it is " +
	"does not enter. A chunk that is in flight is no cause. It is looked at in slices, between which others work, so under load it is " +
	"of slightly different moments; of very many submissions a part is looked at, and `examined` says how many. "

func (ask questions) valueDiagnosis(ctx context.Context, q *engine.Queue, in *ValuePath) (*output[api.Diagnosis], error) {
	if token := tenantOf(ctx); token != nil && token.Entry != in.entry {
		return nil, uncovered(queue.CodeUnknownValue, "such value")
	}
	found, err := q.Questions.DiagnoseValue(ctx, in.entry)
	return diagnosed(ctx, &found, err)
}

func (ask questions) submissionDiagnosis(ctx context.Context, q *engine.Queue, in *SubmissionPath) (*output[api.Diagnosis], error) {
	found, err := q.Questions.DiagnoseSubmission(ctx, in.id)
	return diagnosed(ctx, &found, err)
}

func diagnosed(ctx context.Context, d *engine.Diagnosis, err error) (*output[api.Diagnosis], error) {
	if err != nil {
		return nil, err
	}
	if token := tenantOf(ctx); token != nil {
		d.Narrow(token.Entry)
	}
	return &output[api.Diagnosis]{Body: d.API()}, nil
}
