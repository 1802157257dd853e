package engine

import (
	"context"
	"slices"
	"sync"

	"github.com/quern-queue/quern/engine/diagnosis"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/inspect"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/engine/usage"
	"github.com/quern-queue/quern/sdk/api"
)

// This file collects what a diagnosis needs: causes from the shard, strategies in use, and the paces of the frames.

// Diagnosis is why the chunks of a value or of a submission move or do not.
type Diagnosis = diagnosis.Diagnosis

// DiagnoseValue tells why the chunks of a value of a meta key move or do not. One that no open submission has is no error.
func (p Questions) DiagnoseValue(ctx context.Context, entry queue.MetaEntry) (Diagnosis, error) {
	if err := validTarget(queue.ValueTarget{MetaEntry: entry}); err != nil {
		return Diagnosis{}, err
	}
	d, plans := p.used()
	d.Entry = entry
	var err error
	d.Diagnosis, err = p.q.shard.Inspect.Diagnose(ctx, entry, p.asked(plans))
	p.q.frames.foresee(&d)
	return d, err
}

// DiagnoseSubmission is DiagnoseValue for a submission, which may have ended.
func (p Questions) DiagnoseSubmission(ctx context.Context, id queue.SubmissionID) (Diagnosis, error) {
	d, plans := p.used()
	var err error
	if d.Submission, err = p.q.Submissions.Get(ctx, id); err != nil {
		return Diagnosis{}, err
	}
	found, there, err := p.q.shard.Inspect.DiagnoseSubmission(id, p.asked(plans))
	d.Diagnosis = found
	p.q.frames.foresee(&d)
	if err == nil && !there && d.Submission.State == queue.Open { // it ended meanwhile
		d.Submission, err = p.q.Submissions.Get(ctx, id)
	}
	return d, err
}

// Narrow leaves only what a tenant may know (Diagnosis.Narrow).
func (p Questions) Narrow(d *Diagnosis, own queue.MetaEntry) {
	d.Narrow(own)
	p.q.frames.foresee(d)
}

// foresee adds to a diagnosis when the chunks of each cause are done.
func (f *frames) foresee(d *Diagnosis) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.outlook.Foresee(d)
}

// asked is the input of a diagnosis. The frames say which values were at their limits lately, so that the sentence agrees with the time
// that a value has been at its limit.
func (p Questions) asked(plans []*strategy.Plan) inspect.Asked {
	return inspect.Asked{Plans: plans, Full: func(entry queue.MetaEntry) bool { return p.q.frames.full.since(entry) != 0 }}
}

// used are the strategies in use, the one used last first, with their plans.
func (p Questions) used() (d Diagnosis, plans []*strategy.Plan) {
	list, since := p.q.inUse.List(queue.At(p.q.e.options.Now()))
	slices.SortStableFunc(list, func(a, b usage.Use) int { return b.LastUsed.Compare(a.LastUsed.Time) })
	d.Since = since
	for i := range list {
		d.Used, plans = append(d.Used, list[i].StrategyUse), append(plans, p.PlanNow(list[i].Plan, 1))
	}
	return d, plans
}

// maxHeldLooks is how many chunks may be in flight for the longest holder of a value that does not move to be looked for.
const maxHeldLooks = 10_000

// queueAnswer keeps the answer of a frame. It is made once, for all callers.
type queueAnswer struct {
	mu     sync.Mutex
	number uint64 // of the frame; 0: there is no answer
	said   api.Diagnosis
	now    api.QueueNow
}

// DiagnoseQueue says, as of the last frame, what the chunks of the queue wait for, and when they will be done.
func (p Questions) DiagnoseQueue(ctx context.Context) (api.Diagnosis, error) {
	said, _, err := p.answer(ctx)
	return said, err
}

func (p Questions) answer(ctx context.Context) (api.Diagnosis, api.QueueNow, error) {
	frame := p.q.Frame()
	if frame == nil {
		p.q.sample(queue.At(p.q.e.options.Now()), nil)
		frame = p.q.Frame()
	}
	a := &p.q.answer
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.number == frame.Number {
		return a.said, a.now, nil
	}
	d := p.q.frames.diagnose(p.q.name, frame)
	for i := range d.Causes {
		if err := p.holder(ctx, d, i, frame); err != nil {
			return a.said, a.now, err
		}
	}
	a.number, a.said, a.now = frame.Number, d.API(), d.Now(p.q.frames.sparkline())
	if _, number := queue.CutShard(p.q.name); number == 0 && overruns(p.q) == 1 {
		a.now.Alarms = append(a.now.Alarms, "all shards are full")
	}
	return a.said, a.now, nil
}

// diagnose diagnoses the queue of this name as of a frame.
func (f *frames) diagnose(name string, frame *Frame) *diagnosis.Queue {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.outlook.OfQueue(diagnosis.Counters{Queue: name, At: frame.At, Stats: &frame.Stats.Stats, Rates: &frame.Stats.Rates,
		MemoryShort: frame.memoryShort})
}

// holder finds the consumer that holds the places of a value that does not move.
func (p Questions) holder(ctx context.Context, d *diagnosis.Queue, cause int, frame *Frame) error {
	entry, still := d.Still(cause)
	if !still || frame.Stats.Stats.Reserved > maxHeldLooks {
		return nil
	}
	page, err := p.q.Reservations.List(ctx, HeldRequest{Limit: 1, Filter: queue.HeldFilter{Meta: queue.Meta{entry}}})
	if err == nil && len(page.Items) > 0 {
		d.Holds(cause, page.Items[0])
	}
	return err
}

const (
	sparkPoints = 40 // of a sparkline: the last ten minutes
	sparkStep   = secondsKept / sparkPoints
)

// sparkline is how many chunks were done a second over the last ten minutes, the oldest first: fewer points when less is known.
func (f *frames) sparkline() []float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &f.past[0]
	rates := []float64{}
	for i := (len(r.points) - 1) % sparkStep; i+sparkStep < len(r.points); i += sparkStep {
		rates = append(rates, ratesBetween(*r.at(i), *r.at(i + sparkStep)).Done)
	}
	return rates
}

// Brief is the entry of a queue in a list: its sentence, and its state.
func (p Questions) Brief(ctx context.Context) (sentence string, now *api.QueueNow) {
	said, is, err := p.answer(ctx)
	if err != nil {
		return "", nil // it is just closing
	}
	return said.Sentence, &is
}
