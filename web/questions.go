package web

//	preview   what would be handed out     explain  where each block refuses
//	compare   two strategies, one state    why      one chunk, each branch
//	diagnosis what keeps the work of a queue, a value or a submission
//
// All are about one moment, change nothing, and have views of their own: a curious operator takes no memory from
// the consumers.

import (
	"context"
	"math"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// questions are the handlers of what changes nothing and asks what strategies would do, or
// why work does not move.
type questions struct{ engine *engine.Engine }

// routes are the part of the table about them.
func (ask questions) routes(r *router) {
	registerIn(r, operation{id: "list-strategies-in-use", method: "GET", path: "/v1/queues/{queue}/strategies/in-use",
		scope: scopeRead, narrow: inQueue | noTenants, tag: tagStrategies, compress: true,
		summary: "List the strategies that consumers used in the last hour", about: inUseAbout}, ask.inUse)
	registerIn(r, operation{id: "preview", method: "POST", path: "/v1/queues/{queue}/strategies/preview",
		scope: scopeRead, narrow: inQueue | inHandler, tag: tagStrategies, compress: true,
		summary: "Preview the chunks that a reserve would hand out now",
		about: "It reserves and changes nothing. A later " +
			"reserve may get other chunks, and Random draws again each time."}, ask.preview)
	registerIn(r, operation{id: "explain", method: "POST", path: "/v1/queues/{queue}/strategies/explain",
		scope: scopeRead, narrow: inQueue | noTenants, tag: tagStrategies, compress: true,
		summary: "Explain a strategy", about: explainAbout}, ask.explain)
	registerIn(r, operation{id: "compare", method: "POST", path: "/v1/queues/{queue}/strategies/compare",
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
	registerIn(r, operation{id: "diagnose-queue", method: "GET", path: "/v1/queues/{queue}/diagnosis",
		scope: scopeRead, narrow: inQueue | noTenants, tag: tagStrategies,
		summary: "Explain what the chunks of a queue wait for",
		about:   queueDiagnosisAbout}, ask.queueDiagnosis)
	registerIn(r, operation{id: "diagnose-meta-value", method: "GET",
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
// could say that one is not active. The leaves, their paths and what was found are parallel lists, all in the order
// in which a reserve tries the branches.
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
	"several meta keys have limits, it names the key that holds back the most chunks. Where a value does not move, it " +
	"names the consumer that holds its place, unless more than 10,000 chunks are in flight. It does not consider the " +
	"filters of strategies."

func (ask questions) queueDiagnosis(ctx context.Context, q *engine.Queue,
	_ *QueuePath) (*output[api.Diagnosis], error) {
	d, err := q.Questions.DiagnoseQueue(ctx)
	return answered(d, err, asIs)
}

// A tenant may ask about its own value only. For any other it gets the answer for a value that does not exist,
// whether it does or not.
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
	return diagnosed(ctx, q, &found, err)
}

// diagnosed is the answer about a submission or a value. For a tenant it leaves out what belongs to others, such as
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
