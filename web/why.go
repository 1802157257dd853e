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
	plan, err := q.Plan(in.Body.value.Strategy)
	if err != nil {
		return nil, err
	}
	resting := ask.engine.Unusable(plan)
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
	out := api.WhyBranch{Branch: index + 1, Path: paths[index], Until: in.Until.API(), Consumer: in.Consumer}
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
	case engine.IsDone:
		out.Obstacle, out.Detail = api.ObstacleDone, "The chunk is done."
	case engine.IsDead:
		out.Obstacle, out.Detail = api.ObstacleDead, "The chunk is out of attempts."
	case engine.IsSkipped:
		out.Obstacle, out.Detail = api.ObstacleSkipped, "The submission ended before the chunk was done."
	case engine.IsForwarded:
		out.Obstacle, out.Detail = api.ObstacleForwarded, "The chunk was out of attempts and went on to another queue."
	case engine.IsWaiting:
		out.Obstacle, out.Detail = api.ObstacleWaiting, "The chunk waits for its next try until "+timeText(in.Until)+"."
	case engine.IsReserved:
		out.Obstacle, out.Detail = api.ObstacleReserved,
			fmt.Sprintf("The consumer %q holds the chunk until %s.", in.Consumer, timeText(in.Until))
	case engine.NotYetDue:
		out.Obstacle, out.Detail = api.ObstacleNotDue, "The submission waits for its run_at, "+timeText(in.Until)+"."
	case engine.IsPaused, engine.IsBlocked:
		rule := in.Rule.API()
		out.Obstacle, out.Rule, out.Detail = api.ObstaclePaused, &rule, ruleText(&in.Rule)
		if in.Obstacle == engine.IsBlocked {
			out.Obstacle = api.ObstacleBlocked
		}
	case engine.NotAdmitted:
		out.Obstacle, out.Key = api.ObstacleFilter, in.Filter.Key
		out.Detail = fmt.Sprintf("The branch wants %s=%s; the submission has %s.", in.Filter.Key, in.Filter.Value, own)
	case engine.IsGraced:
		out.Obstacle, out.Key, out.Max = api.ObstacleGrace, in.Limit.Key, &in.Limit.Max
		out.Detail = fmt.Sprintf("The server restarted: until %s nothing that a limit counts is handed out, so that "+
			"consumers can extend what they hold first; %s=%s is under a limit of %d.", timeText(in.Until), in.Limit.Key, own, in.Limit.Max)
	case engine.IsLimited:
		out.Obstacle, out.Key, out.InFlight, out.Max = api.ObstacleLimit, in.Limit.Key, &in.InFlight, &in.Limit.Max
		out.Detail = fmt.Sprintf("%s=%s has %d of %d chunks in flight.", in.Limit.Key, own, in.InFlight, in.Limit.Max)
	case engine.IsWithheld:
		out.Obstacle, out.Key, out.InFlight, out.Max = api.ObstacleValueLimit, in.Limit.Key, &in.InFlight, &in.Limit.Max
		out.Detail = fmt.Sprintf("%s=%s has %d chunks in flight, and an operator set a limit of %d for it, whatever "+
			"the strategy.", in.Limit.Key, own, in.InFlight, in.Limit.Max)
	case engine.IsHidden:
		out.Obstacle, out.HiddenBy = api.ObstacleHidden, in.HiddenBy+1
		out.Detail = fmt.Sprintf("Branch %d comes first and has something to hand out.", in.HiddenBy+1)
	case engine.IsOvertaken:
		out.Obstacle, out.HiddenBy = api.ObstacleAlternative, in.HiddenBy+1
		out.Detail = fmt.Sprintf("For the same tenant branch %d comes first and has something to hand out.", in.HiddenBy+1)
	case engine.NotItsTurn:
		out.Obstacle, out.Detail = api.ObstacleTurn, turnText(in.Seats, leaf)
	case engine.NotScored:
		out.Obstacle = api.ObstacleScore
		out.Detail = "The scores of the branch pass over the chunk, or there are none: its submission is not among the " +
			"first candidates, or nothing can score them now."
	default:
		out.Obstacle, out.Detail = api.ObstacleNone, "Nothing keeps the branch from handing the chunk out."
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
