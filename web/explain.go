package web

// POST .../strategies/explain: how a strategy stands, block by block. The engine counts; this file
// gives the branches their paths and keeps the answer within its size.
//
// It is a question and not a reserve: it takes nothing, wakes no one, and its views are apart from
// those of consumers.

import (
	"context"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

const explainAbout = "Shows the blocks of the strategy, with the chunks that reach each block and those that it " +
	"refuses, by value. It counts the chunks that operators' limits hold back from the whole strategy. It lists " +
	"the branches, under Fair with the next tenant. For each chunk that would be handed out, it names the obstacle " +
	"in each earlier branch. The server counts in slices and does other work between them, so under load the " +
	"counts are of slightly different moments."

// The plan is shown without scores, as its blocks are what refuses; scores only change the order of what passes.
func (ask questions) explain(ctx context.Context, q *engine.Queue,
	in *queueBody[api.PreviewRequest]) (*output[api.ExplainResponse], error) {
	request, err := previewRequest(ctx, q, in)
	if err != nil {
		return nil, err
	}
	found, seed, err := q.Questions.Explain(ctx, request)
	if err != nil {
		return nil, err
	}
	plan := request.Plan.Unscored()
	paths, leaves := pathsOf(plan), plan.Leaves()
	out := api.ExplainResponse{
		Strategy: plan.Text(), Submissions: found.Shown, Examined: min(found.Met, found.Shown), Seed: seed,
		Tree:     found.Tree,
		Branches: found.Branches,
		Withheld: found.Withheld, Ruled: found.Ruled,
		RestartGraceUntil: found.Grace.API(), Warnings: unscored(found.Faults),
	}
	// pageOf cuts the list at the size of an answer. There is no next page: a second call would describe another
	// moment.
	first := func(*engine.ExplainedPick) string { return "" } // a list without a next page
	out.Picks, _, err = pageOf(found.Picks, "", first, func(p *engine.ExplainedPick) api.ExplainPick {
		leaf := &leaves[p.Leaf]
		pick := api.ExplainPick{Pick: apiPick(&p.Previewed, paths), Tenants: make([]api.Tenant, len(p.Tenants)),
			Skipped: make([]api.WhyBranch, len(p.Skipped))}
		for level := range p.Tenants {
			pick.Tenants[level] = p.Tenants[level].API(leaf.Around[level].Fair)
		}
		for j := range p.Skipped {
			pick.Skipped[j] = p.Skipped[j].API(j, &leaves[j], paths[j])
		}
		return pick
	})
	return answered(out, err, asIs)
}

// Both strategies are followed with the same seed and at the same moment (engine), so a difference is theirs and
// not chance's.
func (ask questions) compare(ctx context.Context, q *engine.Queue,
	in *queueBody[api.CompareRequest]) (*output[api.CompareResponse], error) {
	asked := &in.Body.value
	a, err := q.PlanFor(ctx, asked.A)
	if err != nil {
		return nil, renamed(err, "/strategy", "/a")
	}
	b, err := q.PlanFor(ctx, asked.B)
	if err != nil {
		return nil, renamed(err, "/strategy", "/b")
	}
	about, err := contextOf(asked.Context)
	if err != nil {
		return nil, err
	}
	found, err := q.Questions.Compare(ctx, engine.CompareRequest{A: a, B: b,
		Max: asked.Max, Seed: asked.Seed, Context: about})
	if err != nil {
		return nil, err
	}
	return &output[api.CompareResponse]{Body: api.CompareResponse{A: apiSpread(&found.A, a), B: apiSpread(&found.B, b),
		Overlap: found.Overlap, OnlyA: apiPicks(found.OnlyA, a), OnlyB: apiPicks(found.OnlyB, b), Seed: found.Seed,
		RestartGraceUntil: found.Grace.API()}}, nil
}

// The list is for reading, so it is cut; the counts in apiSpread are of all picks.
func apiPicks(picks []engine.Previewed, plan *strategy.Plan) []api.PreviewPick {
	out := make([]api.PreviewPick, min(len(picks), api.MaxDiffering))
	paths := pathsOf(plan.Unscored())
	for i := range out {
		out[i] = apiPick(&picks[i], paths)
	}
	return out
}

// The text of the plan is the canonical one: two spellings of one strategy show as the same in a comparison.
func apiSpread(in *engine.Spread, plan *strategy.Plan) api.Spread {
	return api.Spread{Strategy: plan.Text(), Picks: in.Picks, Keys: in.Keys, Warnings: unscored(in.Faults)}
}

// What a reserve would get now. A token that is bound to a value may ask this, too: its plan is narrowed
// in the same way as that of a reserve, so the answer shows nothing of others.

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
