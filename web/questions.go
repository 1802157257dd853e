package web

//	preview   what would be handed out     explain  where each block refuses
//	compare   two strategies, one state    why      one chunk, each branch
//	diagnosis what keeps the work of a queue, a value or a submission
//
// All are about one moment, change nothing, and have views of their own: a curious operator takes no memory from
// the consumers.

import (
	"context"
	"fmt"
	"math"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

// questions are the handlers of calls that change nothing, and ask what strategies would
// do or why work does not move.
type questions struct{ engine *engine.Engine }

// routes are the part of the table about them.
func (ask questions) routes(r *router) {
	registerIn(r, operation{id: "list-strategies-in-use",
		shards: inUseOverShards(),
		method: "GET", path: "/v1/queues/{queue}/strategies/in-use",
		scope: scopeRead, narrow: inQueue | noTenants, tag: tagStrategies, compress: true,
		summary: "List the strategies that consumers used in the last hour", about: inUseAbout}, ask.inUse)
	registerIn(r, operation{id: "preview",
		shards: aboutStrategy("preview", previewOverShards, "strategy"),
		method: "POST", path: "/v1/queues/{queue}/strategies/preview",
		scope: scopeRead, narrow: inQueue | inHandler, tag: tagStrategies, compress: true,
		summary: "Preview the chunks that a reserve would hand out now",
		about: "It reserves and changes nothing. A later " +
			"reserve may get other chunks, and Random draws again each time."}, ask.preview)
	registerIn(r, operation{id: "explain",
		shards: aboutStrategy("explain", explainOverShards, "strategy"),
		method: "POST", path: "/v1/queues/{queue}/strategies/explain",
		scope: scopeRead, narrow: inQueue | noTenants, tag: tagStrategies, compress: true,
		summary: "Explain a strategy", about: explainAbout}, ask.explain)
	registerIn(r, operation{id: "compare",
		shards: aboutStrategy("preview", compareOverShards, "a", "b"),
		method: "POST", path: "/v1/queues/{queue}/strategies/compare",
		scope: scopeRead, narrow: inQueue | noTenants, tag: tagStrategies, compress: true,
		summary: "Compare what two strategies would hand out now", about: "Previews both on the same state with " +
			"the same seed: the values of each meta key that get chunks, how evenly they share, and the common " +
			"chunks."},
		ask.compare)
	registerIn(r, operation{id: "why", method: "POST", path: "/v1/submissions/{id}/chunks/{index}/why",
		scope: scopeRead, narrow: inSub | noTenants, tag: tagStrategies,
		summary: "Explain why a strategy does not hand out a chunk now", about: "The first obstacle in " +
			"each branch, and the chunk's approximate place: the number of chunks before it, and the wait at the " +
			"rate of the last minute."}, ask.why)
	registerIn(r, operation{id: "diagnose-queue",
		shards: diagnosisOverShards,
		method: "GET", path: "/v1/queues/{queue}/diagnosis",
		scope: scopeRead, narrow: inQueue | noTenants, tag: tagStrategies,
		summary: "Explain what the chunks of a queue wait for",
		about:   queueDiagnosisAbout}, ask.queueDiagnosis)
	registerIn(r, operation{id: "diagnose-meta-value", shards: diagnosisOverShards, method: "GET",
		path:  "/v1/queues/{queue}/meta-keys/{key}/values/{value}/diagnosis",
		scope: scopeRead, narrow: inQueue | inHandler, tag: tagStrategies,
		summary: "Explain why the chunks of a value wait",
		about:   diagnosisAbout + valueAbout}, ask.valueDiagnosis)
	registerIn(r, operation{id: "diagnose-submission", method: "GET", path: "/v1/submissions/{id}/diagnosis",
		scope:  scopeRead,
		narrow: inSub | inHandler, tag: tagStrategies, summary: "Explain why the chunks of a submission wait",
		about: diagnosisAbout}, ask.submissionDiagnosis)
}

const inUseAbout = "The strategies that handed out the most chunks come first. The server remembers at most 256 " +
	"strategies, and forgets the one that was unused for longest. Rates are over the last one to two minutes and " +
	"include empty reserves. `consumers` estimates the number of names that reserved with it in the last half hour " +
	"to hour: nearly exact up to 20, within a few percent beyond. The list starts with the server, at `since`."

// Rates are positive floats, whose bits grow with the number, so they sort as texts in a cursor.
func (ask questions) inUse(_ context.Context, q *engine.Queue, in *listInput) (*output[api.StrategiesInUse], error) {
	all := q.Strategies.InUse()
	busiest := func(u *api.StrategyUse) string {
		chunks, reserves := math.Float64bits(u.ChunksPerSecond), math.Float64bits(u.ReservesPerSecond)
		return downwards(chunks) + "." + downwards(reserves) + "." + hashed(u.Strategy)
	}
	arrange(all.Items, busiest)
	var err error
	all.Items, all.Next, err = pageOf(behind(all.Items, in.Cursor.Cursor, busiest), "", busiest, asIs)
	return answered(all, err, asIs)
}

// POST .../why: for one chunk, what keeps it from being handed out, branch by branch; and the
// diagnoses, which say it in one sentence for a submission, a value or a queue.
//
// `why` leaves scores out (plan.Unscored): an obstacle that it names holds whatever the scores are.

// whyInput has the chunk in its path and the strategy in its body. Without a strategy the question is about Random,
// as a reserve without one would be.
type whyInput struct {
	ChunkPath
	Body decoded[api.WhyRequest]
}

// why explains one chunk.
//
// Unusable is asked before the scores are taken out of the plan: afterwards the plan names no plugin, and no warning
// could say that one is not active. The leaves, their paths and the findings are parallel lists, all in the order in
// which a reserve tries the branches.
func (ask questions) why(ctx context.Context, q *engine.Queue, in *whyInput) (*output[api.WhyResponse], error) {
	plan, err := q.PlanFor(ctx, in.Body.value.Strategy)
	if err != nil {
		return nil, err
	}
	resting := ask.engine.Unusable(ctx, plan)
	plan = q.Questions.PlanNow(plan, 1).Unscored()
	found, err := q.Questions.Why(ctx, in.id, in.chunk.Index, plan)
	if err != nil {
		return nil, err
	}
	out := &output[api.WhyResponse]{Body: api.WhyResponse{State: found.State.String(), Shard: engine.NumberOf(q),
		Strategy: plan.Text(),
		Branches: make([]api.WhyBranch, len(found.Leaves)), Standing: found.Standing,
		RestartGraceUntil: found.Grace.API(),
		Warnings:          unscored(resting)}}
	paths, leaves := pathsOf(plan), plan.Leaves()
	for i := range leaves {
		out.Body.Branches[i] = found.Leaves[i].API(i, &leaves[i], paths[i])
	}
	return out, nil
}

const diagnosisAbout = "One sentence, and its parts: the open chunks, counted by the cause that holds them back. " +
	"It considers the rules, the limits, and the strategies that consumers used in the last hour " +
	"(`.../strategies/in-use`), but not whose turn is next. A chunk in flight has no cause. The server examines " +
	"chunks in slices and does other work between them, so under load the counts are of slightly different " +
	"moments. If there are very many submissions, it examines a part of them, and `examined` says how many. "

// The diagnoses differ in what they may cost. That of a queue is part of the frame that the server makes once a
// second for all its readers, so a wall of dashboards costs what one does. The other two examine chunks for each
// call.
const queueDiagnosisAbout = "One sentence about the whole queue, and its parts: the chunks that wait at limits of " +
	"values, behind rules, for a time, or for a consumer, with the end of each wait. The server makes it from " +
	"counters once a second, so it costs the same at any backlog. It names the 10 causes with the most chunks. If " +
	"several meta keys have limits, it names the key that holds back the most chunks. Where a value does not move, " +
	"it names the consumer that holds its place, unless more than 10,000 chunks are in flight. It does not consider " +
	"the filters of strategies."

func (ask questions) queueDiagnosis(ctx context.Context, q *engine.Queue,
	_ *QueuePath) (*output[api.Diagnosis], error) {
	d, err := q.Questions.DiagnoseQueue(ctx)
	return answered(d, err, asIs)
}

// A tenant may ask about its own value only. For any other value it gets the answer for a value that does not exist,
// even if that value exists.
func (ask questions) valueDiagnosis(ctx context.Context, q *engine.Queue,
	in *ValuePath) (*output[api.Diagnosis], error) {
	if token := tenantOf(ctx); token != nil && token.Entry != in.entry {
		return nil, uncovered(queue.CodeUnknownValue, "such value")
	}
	found, err := q.Questions.DiagnoseValue(ctx, in.entry)
	return diagnosed(ctx, q, &found, err)
}

func (ask questions) submissionDiagnosis(ctx context.Context, q *engine.Queue,
	in *SubmissionPath) (*output[api.Diagnosis], error) {
	found, err := q.Questions.DiagnoseSubmission(ctx, in.id)
	out, err := diagnosed(ctx, q, &found, err)
	if err == nil {
		out.Body.Shard = engine.NumberOf(q)
	}
	return out, err
}

// diagnosed is the answer about a submission or a value. For a tenant it leaves out everything about others, such as
// the limits that they share and the rules that cover more than its own work.
func diagnosed(ctx context.Context, q *engine.Queue, d *engine.Diagnosis, err error) (*output[api.Diagnosis], error) {
	if err != nil {
		return nil, err
	}
	if token := tenantOf(ctx); token != nil {
		q.Questions.Narrow(d, token.Entry)
	}
	return &output[api.Diagnosis]{Body: d.API()}, nil
}

// The ledgers of Fair blocks: the share that each tenant got, and the share that it is owed.
// Read-only. A ledger has no number to continue a list from. So the list is sorted by branch and
// depth first, and the cursor is a hash of both.

const ledgerAbout = "Shares per tenant. `sort` is received (the largest first), behind (furthest behind first) " +
	"or ahead. No tenant is ever more than a few chunks from an ideal division: STRATEGIES.md has the numbers."

// ledgers lists the Fair blocks in use. Views come and go between two pages, so a ledger may be missed or be new, but
// none is listed twice.
func (x queues) ledgers(ctx context.Context, q *engine.Queue, in *listInput) (*output[api.Page[api.Ledger]], error) {
	list, err := q.Ledgers(ctx)
	if err != nil {
		return nil, err
	}
	byBranch := func(l *api.Ledger) string { return hashed(l.Branch) + fmt.Sprintf(".%04d.", l.Depth) + l.ID }
	arrange(list, byBranch)
	return answeredList(list, in.Cursor, byBranch, asIs)
}

// getLedgerInput names a ledger by its id. There are no pages: the tenants that are furthest from their share matter,
// and the three orders have them first. `value` finds any other tenant.
type getLedgerInput struct {
	QueuePath
	Ledger string `path:"ledger" maxLength:"32" doc:"Id of the ledger"`
	Sort   string `query:"sort" enum:"received,behind,ahead" default:"received" doc:"Order of the list"`
	Value  string `query:"value" maxLength:"1024" doc:"Only tenants of this value, written as in paths: 7, s:7 or acme"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Most tenants"`
}

func (x queues) ledger(ctx context.Context, q *engine.Queue, in *getLedgerInput) (*output[api.LedgerTenants], error) {
	// otherwise ByReceived
	order := map[string]engine.LedgerOrder{"behind": engine.ByBehind, "ahead": engine.ByAhead}[in.Sort]
	var only *queue.MetaValue
	if in.Value != "" {
		value, err := queue.ReadValue("/query/value", in.Value)
		if err != nil {
			return nil, err
		}
		only = &value
	}
	v, found, err := q.LedgerTenants(ctx, in.Ledger, order, only, in.Limit)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, newProblem(codeNotFound, "No Fair block in use has this id: a block that has not been used for "+
			"a while is removed to make room for others. List the ledgers again.")
	}
	first := func(*api.LedgerTenant) string { return "" } // a list without a next page
	v.Items, _, err = pageOf(v.Items, "", first, asIs)
	return answered(v, err, asIs)
}

// POST .../strategies/explain: how a strategy stands, block by block. The engine counts; this file
// gives the branches their paths and keeps the answer within its size.
//
// It is a question and not a reserve: it takes nothing, wakes no one, and its views are apart from
// those of consumers.

const explainAbout = "Shows the blocks of the strategy, with the chunks that reach each block and those that it " +
	"refuses, by value. It counts the chunks that operators' limits hold back from the whole strategy. It lists " +
	"the branches, under Fair with the next tenant. For each chunk that would be handed out, it names the obstacle " +
	"in each earlier branch. The server counts in slices and does other work between them, so under load the " +
	"counts are of slightly different moments."

// The plan is shown without scores, as only its blocks refuse chunks; scores only change the order of the others.
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
	show, leaves := shownPicks(ctx, q, plan), plan.Leaves()
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
		pick := api.ExplainPick{Pick: show.api(&p.Previewed), Tenants: make([]api.Tenant, len(p.Tenants)),
			Skipped: make([]api.WhyBranch, len(p.Skipped))}
		for level := range p.Tenants {
			pick.Tenants[level] = p.Tenants[level].API(leaf.Around[level].Fair)
		}
		for j := range p.Skipped {
			pick.Skipped[j] = p.Skipped[j].API(j, &leaves[j], show.paths[j])
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
	a, b = q.Questions.PlanNow(a, asked.Max), q.Questions.PlanNow(b, asked.Max)
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
		Overlap: found.Overlap, OnlyA: shownPicks(ctx, q, a).some(found.OnlyA),
		OnlyB: shownPicks(ctx, q, b).some(found.OnlyB), Seed: found.Seed,
		RestartGraceUntil: found.Grace.API()}}, nil
}

// The list is for reading, so it is cut; the counts in apiSpread are of all picks.
func (s *shownPick) some(picks []engine.Previewed) []api.PreviewPick {
	out := make([]api.PreviewPick, min(len(picks), api.MaxDiffering))
	for i := range out {
		out[i] = s.api(&picks[i])
	}
	return out
}

// The text of the plan is the canonical one: two spellings of one strategy show as the same in a comparison.
func apiSpread(in *engine.Spread, plan *strategy.Plan) api.Spread {
	return api.Spread{Strategy: plan.Text(), Picks: in.Picks, Keys: in.Keys, Warnings: unscored(in.Faults)}
}

// A preview shows the chunks that a reserve would get now. A token that is bound to a value may ask for one, too: its
// plan is narrowed in the same way as that of a reserve, so the answer shows nothing of others.

// preview reserves nothing. The answer has the seed of the random draws: with the same seed and the same state, a
// second preview has the same picks.
func (ask questions) preview(ctx context.Context, q *engine.Queue,
	in *queueBody[api.PreviewRequest]) (*output[api.PreviewResponse], error) {
	request, err := previewRequest(ctx, q, in)
	if err != nil {
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
	show := shownPicks(ctx, q, request.Plan)
	for i := range found.Picks {
		out.Body.Picks[i] = show.api(&found.Picks[i])
	}
	return out, nil
}

// previewRequest reads the body of a preview or an explain.
func previewRequest(ctx context.Context, q *engine.Queue,
	in *queueBody[api.PreviewRequest]) (r engine.PreviewRequest, err error) {
	asked := &in.Body.value
	plan, err := q.PlanFor(ctx, asked.Strategy)
	if err != nil {
		return r, err
	}
	if plan, err = narrowPlan(ctx, q, plan); err != nil {
		return r, err
	}
	about, err := contextOf(asked.Context)
	if err != nil {
		return r, err
	}
	plan = q.Questions.PlanNow(plan, asked.Max)
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

// shownPick is how the picks of one plan are shown.
type shownPick struct {
	paths  []string
	shard  int
	tenant bool // a tenant may not see how much others have in flight
}

func shownPicks(ctx context.Context, q *engine.Queue, plan *strategy.Plan) *shownPick {
	return &shownPick{pathsOf(plan.Unscored()), engine.NumberOf(q), tenantOf(ctx) != nil}
}

// Branches count from 1 for readers, as in the answers of explain and why.
func (s *shownPick) api(p *engine.Previewed) api.PreviewPick {
	out := api.PreviewPick{
		Submission: p.Submission.String(), Index: p.Index, Meta: someMeta(p.Meta), Priority: p.Priority,
		Branch: p.Leaf + 1, Path: s.paths[p.Leaf], Shard: s.shard, Among: p.Head.Weight,
	}
	if !s.tenant {
		out.InFlight = p.Head.Flight
	}
	return out
}
