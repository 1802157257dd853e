package web

import (
	"context"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

type explainOutput struct{ Body api.ExplainResponse }

func (s *Server) explain(ctx context.Context, in *previewInput) (*explainOutput, error) {
	if in.Body.failed != nil {
		return nil, s.wireProblem(in.Body.failed, in.Body.body, contentJSON)
	}
	asked := &in.Body.value
	plan, err := s.engine.Plan(asked.Strategy)
	if err != nil {
		return nil, err
	}
	text, err := s.engine.StrategyText(asked.Strategy)
	if err != nil {
		return nil, err
	}
	found, seed, err := s.engine.Explain(ctx, in.Queue, engine.PreviewRequest{Plan: plan, Max: asked.Max, Seed: asked.Seed})
	if err != nil {
		return nil, err
	}
	out := &explainOutput{Body: api.ExplainResponse{
		Strategy: text, Seed: seed, Branches: make([]api.ExplainBranch, len(found.Branches)), Picks: make([]api.ExplainPick, len(found.Picks)),
	}}
	for i := range found.Branches {
		out.Body.Branches[i] = apiBranchState(&found.Branches[i], &plan.Branches[i])
		out.Body.Branches[i].Branch = i + 1
	}
	for i := range found.Picks {
		p := &found.Picks[i]
		pick := api.ExplainPick{Pick: apiPick(&p.Previewed, plan), Skipped: make([]api.WhyBranch, len(p.Skipped))}
		for j := range p.Skipped {
			pick.Skipped[j] = apiWhy(&p.Skipped[j], &plan.Branches[j])
			pick.Skipped[j].Branch = j + 1
		}
		out.Body.Picks[i] = pick
	}
	return out, nil
}

func apiBranchState(in *engine.BranchState, br *strategy.Branch) api.ExplainBranch {
	out := api.ExplainBranch{
		BranchText: br.Key(), Built: in.Built, Submissions: in.Submissions,
		GatesOpen: in.Open, GatesShut: in.Shut, GatesEmpty: in.Empty, Saturated: make([]api.Saturated, len(in.Saturated)),
	}
	for i, g := range in.Saturated {
		out.Saturated[i] = api.Saturated{Key: g.Key, Value: apiValue(g.Value), InFlight: g.InFlight, Max: g.Max}
	}
	return out
}

func apiPick(p *engine.Previewed, plan *strategy.Plan) api.PreviewPick {
	out := api.PreviewPick{
		Submission: p.Submission.String(), Index: p.Index, Meta: apiMeta(p.Meta), Priority: p.Priority,
		Branch: p.Branch + 1, BranchText: plan.Branches[p.Branch].Key(),
	}
	if out.Meta == nil {
		out.Meta = api.Meta{}
	}
	return out
}
