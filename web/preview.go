package web

import (
	"context"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

type previewInput struct {
	QueuePath
	Body decoded[api.PreviewRequest]
}

type previewOutput struct{ Body api.PreviewResponse }

func (ask questions) preview(ctx context.Context, in *previewInput) (*previewOutput, error) {
	request, err := ask.s.previewRequest(in)
	if err != nil {
		return nil, err
	}
	if request.Plan, err = ask.s.narrowPlan(ctx, in.Queue, request.Plan); err != nil {
		return nil, err
	}
	found, err := ask.s.engine.Questions().Preview(ctx, in.Queue, request)
	if err != nil {
		return nil, err
	}
	out := &previewOutput{Body: api.PreviewResponse{
		Strategy: request.Plan.Text(), Picks: make([]api.PreviewPick, len(found.Picks)), Seed: found.Seed,
		RestartGraceUntil: apiTime(found.Grace), Warnings: unscored(found.Faults),
	}}
	paths := pathsOf(request.Plan.Unscored())
	for i := range found.Picks {
		out.Body.Picks[i] = apiPick(&found.Picks[i], paths)
	}
	return out, nil
}

// previewRequest is what the body of a preview or an explain asks for.
func (s *Server) previewRequest(in *previewInput) (r engine.PreviewRequest, err error) {
	if in.Body.failed != nil {
		return r, s.wireProblem(in.Body.failed, in.Body.body, contentJSON)
	}
	asked := &in.Body.value
	plan, err := s.engine.Plan(in.Queue, asked.Strategy)
	if err != nil {
		return r, err
	}
	about, err := contextOf(asked.Context)
	if err != nil {
		return r, err
	}
	return engine.PreviewRequest{Plan: plan, Max: asked.Max, Seed: asked.Seed, Context: about}, nil
}

// unscored are the warnings of blocks that were not scored.
func unscored(faults []error) (list []api.StrategyWarning) {
	for _, err := range faults {
		list = append(list, unusable(err))
	}
	return list
}

// pathsOf are the ways to the leaves of a plan.
func pathsOf(plan *strategy.Plan) []string {
	leaves := plan.Leaves()
	paths := make([]string, len(leaves))
	for i := range leaves {
		paths[i] = plan.PathText(&leaves[i])
	}
	return paths
}

func apiPick(p *engine.Previewed, paths []string) api.PreviewPick {
	out := api.PreviewPick{
		Submission: p.Submission.String(), Index: p.Index, Meta: apiMeta(p.Meta), Priority: p.Priority,
		Branch: p.Leaf + 1, Path: paths[p.Leaf],
	}
	if out.Meta == nil {
		out.Meta = api.Meta{}
	}
	return out
}
