package web

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

type previewInput struct {
	QueuePath
	Body decoded[api.PreviewRequest]
}

type previewOutput struct{ Body api.PreviewResponse }

func (s *Server) preview(ctx context.Context, in *previewInput) (*previewOutput, error) {
	if in.Body.failed != nil {
		return nil, s.wireProblem(in.Body.failed, in.Body.body, contentJSON)
	}
	asked := &in.Body.value
	plan, err := s.engine.Plan(asked.Strategy)
	if err != nil {
		return nil, err
	}
	picks, seed, err := s.engine.Preview(ctx, in.Queue, engine.PreviewRequest{Plan: plan, Max: asked.Max, Seed: asked.Seed})
	if err != nil {
		return nil, err
	}
	out := &previewOutput{Body: api.PreviewResponse{Picks: make([]api.PreviewPick, len(picks)), Seed: seed}}
	for i := range picks {
		out.Body.Picks[i] = apiPick(&picks[i], plan)
	}
	return out, nil
}

type compareInput struct {
	QueuePath
	Body decoded[api.CompareRequest]
}

type compareOutput struct{ Body api.CompareResponse }

func (s *Server) compare(ctx context.Context, in *compareInput) (*compareOutput, error) {
	if in.Body.failed != nil {
		return nil, s.wireProblem(in.Body.failed, in.Body.body, contentJSON)
	}
	asked := &in.Body.value
	a, err := s.engine.Plan(asked.A)
	if err != nil {
		return nil, renamed(err, "/strategy", "/a")
	}
	b, err := s.engine.Plan(asked.B)
	if err != nil {
		return nil, renamed(err, "/strategy", "/b")
	}
	found, err := s.engine.Compare(ctx, in.Queue, engine.CompareRequest{A: a, B: b, Max: asked.Max, Seed: asked.Seed})
	if err != nil {
		return nil, err
	}
	return &compareOutput{Body: api.CompareResponse{A: apiSpread(&found.A), B: apiSpread(&found.B), Overlap: found.Overlap, Seed: found.Seed}}, nil
}

func apiSpread(in *engine.Spread) api.Spread {
	out := api.Spread{Picks: in.Picks, Keys: make([]api.KeySpread, len(in.Keys))}
	for i, k := range in.Keys {
		out.Keys[i] = api.KeySpread{Key: k.Key, Picks: k.Picks, Distinct: k.Distinct, MaxShare: k.Share, Jain: k.Jain}
	}
	return out
}

// renamed moves the pointers of an error from one field to another.
func renamed(err error, from, to string) error {
	var failure *queue.Error
	if !errors.As(err, &failure) {
		return err
	}
	moved := *failure
	moved.Problems = make([]queue.Problem, len(failure.Problems))
	for i, p := range failure.Problems {
		moved.Problems[i] = p
		if rest, ok := strings.CutPrefix(p.Pointer, from); ok {
			moved.Problems[i].Pointer = to + rest
		}
	}
	return &moved
}

type whyInput struct {
	SubmissionPath
	Index string `path:"index" maxLength:"10" doc:"Index of the chunk, from 0"`
	Body  decoded[api.WhyRequest]
}

type whyOutput struct{ Body api.WhyResponse }

func (s *Server) why(ctx context.Context, in *whyInput) (*whyOutput, error) {
	if in.Body.failed != nil {
		return nil, s.wireProblem(in.Body.failed, in.Body.body, contentJSON)
	}
	id, err := in.parse()
	if err != nil {
		return nil, err
	}
	index, err := strconv.ParseUint(in.Index, 10, 32)
	if err != nil {
		return nil, queue.Invalid("/path/index", "must be a whole number from 0 to %d", uint32(queue.MaxChunks-1))
	}
	plan, err := s.engine.Plan(in.Body.value.Strategy)
	if err != nil {
		return nil, err
	}
	state, found, err := s.engine.Why(ctx, id, uint32(index), plan)
	if err != nil {
		return nil, err
	}
	out := &whyOutput{Body: api.WhyResponse{State: state.String(), Branches: make([]api.WhyBranch, len(found))}}
	for i := range found {
		out.Body.Branches[i] = apiWhy(&found[i], &plan.Branches[i])
		out.Body.Branches[i].Branch = i + 1
	}
	return out, nil
}

func apiWhy(in *engine.BranchWhy, br *strategy.Branch) api.WhyBranch {
	out := api.WhyBranch{BranchText: br.Key(), Until: apiTime(in.Until), Consumer: in.Consumer}
	own := "none"
	if in.HasValue {
		v := apiValue(in.Value)
		out.Value, own = &v, v.String()
	}
	switch in.Obstacle {
	case engine.IsDone:
		out.Obstacle, out.Detail = api.ObstacleDone, "The chunk is done."
	case engine.IsDead:
		out.Obstacle, out.Detail = api.ObstacleDead, "The chunk is out of attempts."
	case engine.IsSkipped:
		out.Obstacle, out.Detail = api.ObstacleSkipped, "The submission ended before the chunk was done."
	case engine.IsWaiting:
		out.Obstacle, out.Detail = api.ObstacleWaiting, "The chunk waits for its next try until "+timeText(in.Until)+"."
	case engine.IsReserved:
		out.Obstacle, out.Detail = api.ObstacleReserved, fmt.Sprintf("The consumer %q holds the chunk until %s.", in.Consumer, timeText(in.Until))
	case engine.NotYetDue:
		out.Obstacle, out.Detail = api.ObstacleNotDue, "The submission waits for its run_at, "+timeText(in.Until)+"."
	case engine.NotAdmitted:
		out.Obstacle, out.Key = api.ObstacleFilter, in.Filter.Key
		out.Detail = fmt.Sprintf("The branch wants %s=%s; the submission has %s.", in.Filter.Key, apiValue(in.Filter.Value), own)
	case engine.IsLimited:
		out.Obstacle, out.Key, out.InFlight, out.Max = api.ObstacleLimit, in.Limit.Key, in.InFlight, in.Limit.Max
		out.Detail = fmt.Sprintf("%d chunks with %s=%s are in flight, and at most %d may be.", in.InFlight, in.Limit.Key, own, in.Limit.Max)
	case engine.IsHidden:
		out.Obstacle, out.HiddenBy = api.ObstacleHidden, in.HiddenBy+1
		out.Detail = fmt.Sprintf("Branch %d comes first and has something to hand out.", in.HiddenBy+1)
	default:
		whyNot(&out, in, br)
	}
	return out
}

// whyNot says about where a chunk stands that may be handed out.
func whyNot(out *api.WhyBranch, in *engine.BranchWhy, br *strategy.Branch) {
	out.Obstacle, out.Detail = api.ObstacleNone, "The branch may hand out the chunk now."
	switch {
	case !in.Counted:
	case br.Order == strategy.Random:
		out.Among, out.Detail = &in.Standing, fmt.Sprintf("The branch may hand out the chunk now; it draws among about %d.", in.Standing)
	default:
		out.Before, out.Detail = &in.Standing, fmt.Sprintf("The branch may hand out the chunk now, after about %d others.", in.Standing)
	}
}

// timeText is a time within a sentence, as it is in fields.
func timeText(t queue.Time) string { return t.Std().UTC().Format("2006-01-02T15:04:05.000Z") }
