package web

// What a reserve would get now. A token that is bound to a value may ask this, too: its plan is narrowed
// in the same way as that of a reserve, so the answer shows nothing of others.

import (
	"context"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

// preview reserves nothing. The answer has the seed of the random draws: with the same seed and the same state, a
// second preview has the same picks.
func (ask questions) preview(ctx context.Context, q *engine.Queue,
	in *queueBody[api.PreviewRequest]) (*output[api.PreviewResponse], error) {
	request, err := previewRequest(ctx, q, in)
	if err != nil {
		return nil, err
	}
	if request.Plan, err = narrowPlan(ctx, q, request.Plan); err != nil {
		return nil, err
	}
	found, err := q.Questions.Preview(ctx, request)
	if err != nil {
		return nil, err
	}
	out := &output[api.PreviewResponse]{Body: api.PreviewResponse{
		Strategy: request.Plan.Text(), Picks: make([]api.PreviewPick, len(found.Picks)), Seed: found.Seed,
		RestartGraceUntil: found.Grace.API(), Warnings: unscored(found.Faults),
	}}
	paths := pathsOf(request.Plan.Unscored())
	for i := range found.Picks {
		out.Body.Picks[i] = apiPick(&found.Picks[i], paths)
	}
	return out, nil
}

// previewRequest is what the body of a preview or an explain asks for.
func previewRequest(ctx context.Context, q *engine.Queue,
	in *queueBody[api.PreviewRequest]) (r engine.PreviewRequest, err error) {
	asked := &in.Body.value
	plan, err := q.PlanFor(ctx, asked.Strategy)
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
		list = append(list, api.StrategyWarning(strategy.WarningOf(err)))
	}
	return list
}

// pathsOf are the ways to the leaves of a plan.
// Texts of paths are made once for a plan and not for each pick: a hundred picks usually come from a few leaves.
func pathsOf(plan *strategy.Plan) []string {
	leaves := plan.Leaves()
	paths := make([]string, len(leaves))
	for i := range leaves {
		paths[i] = plan.PathText(&leaves[i])
	}
	return paths
}

// Branches count from 1 for readers, as in the answers of explain and why.
func apiPick(p *engine.Previewed, paths []string) api.PreviewPick {
	return api.PreviewPick{
		Submission: p.Submission.String(), Index: p.Index, Meta: someMeta(p.Meta), Priority: p.Priority,
		Branch: p.Leaf + 1, Path: paths[p.Leaf],
	}
}
