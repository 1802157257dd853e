package web

// POST .../why: for one chunk, what keeps it from being handed out, branch by branch; and the
// diagnoses, which say it in one sentence for a submission, a value or a queue.
//
// `why` leaves scores out (plan.Unscored): an obstacle that it names holds whatever the scores are.

import (
	"context"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

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
