package engine

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/inspect"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

// This file writes the findings of Diagnose, for answers and as a sentence.

// API is the diagnosis as it stands in answers.
func (d *Diagnosis) API() api.Diagnosis {
	out := api.Diagnosis{Sentence: d.sentence(), InFlight: d.InFlight, Holders: d.Holders, Submissions: d.Present,
		Examined: min(d.Met, d.Present), Causes: make([]api.Cause, len(d.Causes)), FirstReservedAt: d.FirstReserved.API(),
		Forecast: d.Forecast}
	for i := range d.Causes {
		out.Causes[i] = d.cause(&d.Causes[i])
		if i < len(d.Forecasts) {
			out.Causes[i].Forecast, out.Causes[i].PerSecond = d.Forecasts[i], math.Round(d.Paces[i]*1000)/1000
		}
	}
	if len(d.Causes) == 0 {
		out.Causes = []api.Cause{{Kind: api.CauseEmpty, Detail: d.emptyClause()}}
	}
	if d.HoldsMet > 0 {
		out.Oldest = &api.Holding{Consumer: d.Oldest.Consumer,
			Submission: d.Oldest.Chunk.Submission.String(), Index: d.Oldest.Chunk.Index,
			Attempt: uint32(d.Oldest.Attempt), ReservedAt: d.Oldest.Reserved.API(), Deadline: d.Oldest.Deadline.API()}
	}
	return out
}

func (d *Diagnosis) cause(c *Cause) api.Cause {
	alone := *d
	alone.Entry = queue.MetaEntry{} // alone it says everything, also the part of the holders
	out := api.Cause{Kind: causeKinds[c.Obstacle], Detail: alone.causeClause(c), Chunks: c.Held.Chunks, Submissions: c.Held.Submissions,
		Until: c.Until.API()}
	if c.Limit.Key != "" {
		out.Key, out.Value, out.Max = c.Limit.Key, &c.Value, &c.Limit.Max
		if of, lack := queue.LackedBy(c.Limit.Key); lack {
			out.Key, out.Value = of, nil
		}
		if c.Obstacle != queue.ObstacleGrace && c.Obstacle != queue.ObstacleRate {
			out.InFlight = &c.InFlight
		}
	}
	if c.Rule.ID != 0 {
		rule := c.Rule.API()
		out.Rule = &rule
	}
	if use := d.usedBy(c); use != nil {
		out.Strategy, out.LastUsed = use.Strategy, use.LastUsed
	}
	return out
}

// usedBy is the strategy that a cause is about.
func (d *Diagnosis) usedBy(c *Cause) *api.StrategyUse {
	byPlan := c.Obstacle == queue.NoObstacle || c.Obstacle == queue.ObstacleLimit || c.Obstacle == queue.ObstacleRate
	if !byPlan || c.Plan >= len(d.Used) {
		return nil
	}
	return &d.Used[c.Plan]
}

var causeKinds = map[queue.Obstacle]string{
	queue.NoObstacle: api.CauseNone, queue.ObstacleDead: api.CauseDead,
	queue.ObstacleWaiting: api.CauseNotDue, queue.ObstacleNotDue: api.CauseNotDue,
	queue.ObstaclePaused: api.CauseRule, queue.ObstacleBlocked: api.CauseRule, queue.ObstacleFilter: api.CauseUnasked,
	queue.ObstacleGrace: api.CauseLimit, queue.ObstacleLimit: api.CauseLimit, queue.ObstacleValueLimit: api.CauseLimit,
	queue.ObstacleRate: api.CauseRate, queue.ObstacleAfter: api.CauseAfter,
}

// causeHeads are the first words of the sentence, by its first cause.
var causeHeads = map[queue.Obstacle]string{
	queue.NoObstacle: "Ready", queue.ObstacleDead: "Dead", queue.ObstacleWaiting: "Waiting", queue.ObstacleNotDue: "Not due",
	queue.ObstaclePaused: "Paused", queue.ObstacleBlocked: "Blocked", queue.ObstacleFilter: "Not asked for",
	queue.ObstacleGrace: "Held", queue.ObstacleLimit: "Held", queue.ObstacleValueLimit: "Held",
	queue.ObstacleRate: "At its rate", queue.ObstacleAfter: "Waiting",
}

// sentenceCauses is how many causes the sentence names.
const sentenceCauses = 4

// sentence says it all in one sentence, the cause with most chunks first; dead chunks come last, as they wait for nothing.
func (d *Diagnosis) sentence() string {
	var clauses, dead []string
	var first *Cause
	others := d.Others.Chunks
	for i := range d.Causes {
		c := &d.Causes[i]
		switch {
		case c.Obstacle == queue.ObstacleDead:
			dead = append(dead, d.causeClause(c))
			continue
		case len(clauses) == sentenceCauses:
			others += c.Held.Chunks
			continue
		case first == nil:
			first = c
		}
		clauses = append(clauses, d.causeClause(c))
	}
	head := "Empty"
	switch {
	case first != nil:
		head = causeHeads[first.Obstacle]
	case d.InFlight > 0:
		head = "In flight"
	case len(dead) > 0:
		head = causeHeads[queue.ObstacleDead]
	case d.Submission.State == queue.Failed:
		head = "Failed"
	}
	switch holders := d.holdersClause(first); {
	case first == nil && d.InFlight > 0: // the head has said that they are in flight
		clauses = append(clauses, strings.Replace(holders, " in flight", "", 1))
		if len(dead) == 0 {
			clauses = append(clauses, "nothing else is left")
		}
	case first == nil && len(dead) == 0:
		clauses = append(clauses, d.emptyClause())
	case head == "Held" && d.InFlight > 0: // those that hold it are the reason
		clauses = append([]string{holders}, clauses...)
	case d.InFlight > 0:
		clauses = append(clauses, holders)
	}
	if others > 0 {
		clauses = append(clauses, are(others, "waits", "wait")+" for other reasons")
	}
	text := head + ": " + strings.Join(append(clauses, dead...), "; ") + "."
	if d.Met < d.Present {
		text += fmt.Sprintf(" This is of %s of %s submissions.", queue.Compact(uint64(d.Met)), queue.Compact(uint64(d.Present)))
	}
	return text
}

// causeClause is what a cause says within the sentence.
func (d *Diagnosis) causeClause(c *Cause) string {
	n := c.Held.Chunks
	switch c.Obstacle {
	case queue.NoObstacle:
		text := queue.Compact(n) + " can be handed out"
		if use := d.usedBy(c); use != nil && d.At.Std().Sub(use.LastUsed.Time) > time.Minute {
			text += ", but none has been reserved by a strategy that selects " + queue.One(n, "it", "them") + " for " +
				span(d.At.Std().Sub(use.LastUsed.Time))
		}
		return text
	case queue.ObstacleDead:
		return are(n, "is", "are") + " dead"
	case queue.ObstacleWaiting:
		text := are(n, "waits for its", "wait for their") + " next try"
		if c.Until != 0 {
			text += queue.One(n, ", ", ", the first ") + d.ahead(c.Until)
		}
		return text
	case queue.ObstacleNotDue:
		return are(n, "is", "are") + " due " + queue.One(uint64(c.Held.Submissions), "", "later, the first ") + d.ahead(c.Until)
	case queue.ObstacleAfter:
		return are(n, "waits", "wait") + " for other submissions"
	case queue.ObstaclePaused, queue.ObstacleBlocked:
		return d.ruleClause(c)
	case queue.ObstacleFilter:
		return d.unaskedClause(n)
	case queue.ObstacleGrace:
		return are(n, "waits", "wait") + " for the end of the restart grace " + d.ahead(c.Until)
	case queue.ObstacleRate:
		text := are(n, "waits", "wait") + " for the rate of " + c.Limit.Rate()
		if c.Limit.Key != "" {
			text += " for " + entryText(queue.MetaEntry{Key: c.Limit.Key, Value: c.Value})
		}
		return text
	}
	return d.limitClause(c)
}

func (d *Diagnosis) limitClause(c *Cause) string {
	text := are(c.Held.Chunks, "waits", "wait")
	entry := queue.MetaEntry{Key: c.Limit.Key, Value: c.Value}
	switch {
	case c.Limit.Key == "":
		return text + " for a limit on a value shared with others"
	case c.Limit.Max == 0:
		return text + ", as " + entryText(entry) + " has a limit of 0"
	case entry == d.Entry && d.InFlight > 0: // the holders have been named
		return text
	}
	return text + " for " + entryText(entry) + ", which " + fullText(c)
}

// fullText says how many of the places of a limit are taken.
func fullText(c *Cause) string {
	return "has " + queue.Compact(uint64(c.InFlight)) + " of " + queue.Compact(uint64(c.Limit.Max)) + " in flight"
}

func (d *Diagnosis) ruleClause(c *Cause) string {
	done := "paused"
	if c.Obstacle == queue.ObstacleBlocked {
		done = "blocked"
	}
	text := are(c.Held.Chunks, "is", "are") + " " + done + " by "
	if c.Rule.ID == 0 {
		text += "a rule"
	} else {
		text += ruleName(&c.Rule.Match)
	}
	if c.Until != 0 {
		text += " for another " + span(c.Until.Sub(d.At))
	}
	return text
}

// ruleName is what a rule is about.
func ruleName(match *queue.RuleMatch) string {
	switch {
	case match.Submission != 0:
		return "a rule about the submission"
	case match.Whole():
		return "a rule about the queue"
	case match.Several != "":
		return match.String()
	}
	return entryText(match.Entry)
}

func (d *Diagnosis) unaskedClause(n uint64) string {
	within := "the last hour"
	if known := d.At.Sub(d.Since); known < InUseFor-time.Minute {
		within = "the last " + span(max(known, time.Second)) + ", which is how far back strategies are known"
	}
	return are(n, "is", "are") + " selected by no strategy of " + within
}

// holdersClause names the consumers that hold the chunks in flight. If the first cause is the limit of the value itself, they are a part of
// the limit.
func (d *Diagnosis) holdersClause(first *Cause) string {
	text := queue.Compact(d.InFlight)
	if first != nil && first.Limit.Max > 0 && d.Entry.Key != "" && first.Limit.Key == d.Entry.Key && first.Value == d.Entry.Value {
		text += " of " + queue.Compact(uint64(first.Limit.Max))
	}
	text += " in flight"
	if d.HoldsMet == 0 {
		return text
	}
	held, name := span(d.At.Sub(d.Oldest.Reserved)), nameText(d.Oldest.Consumer)
	switch seen := queue.Compact(d.HoldsMet); {
	case d.HoldsMet < d.InFlight && d.Holders > 1: // there may be others beyond those, and longer ones
		return fmt.Sprintf("%s, by at least %s consumers; of %s that were looked at, %s holds one the longest, for %s", text,
			queue.Compact(uint64(d.Holders)), seen, name, held)
	case d.HoldsMet < d.InFlight:
		return fmt.Sprintf("%s; %s that were looked at are held by %s, the longest for %s", text, seen, name, held)
	case d.Holders > 1:
		return fmt.Sprintf("%s, by %s consumers, the longest by %s for %s", text, queue.Compact(uint64(d.Holders)), name, held)
	case d.InFlight > 1:
		return fmt.Sprintf("%s, by %s, the longest for %s", text, name, held)
	}
	return fmt.Sprintf("%s, by %s for %s", text, name, held)
}

// emptyClause is about a value or submission that has no chunks but those in flight.
func (d *Diagnosis) emptyClause() string {
	switch {
	case d.InFlight > 0:
		return d.holdersClause(nil) + "; nothing else is left"
	case d.Entry.Key != "" && d.Present == 0:
		return "no open submission has " + entryText(d.Entry)
	case d.Submission.State == queue.CompletedWithDead:
		return "the submission has ended, " + are(uint64(d.Submission.Dead), "chunk is", "chunks are") + " dead"
	case d.Submission.State == queue.Failed:
		return failedClause(&d.Submission)
	case d.Entry.Key == "" && d.Submission.State != queue.Open:
		return "the submission is " + d.Submission.State.String()
	}
	return "nothing is left to hand out"
}

// failedClause says which chunk failed a submission, and by which error.
func failedClause(sub *queue.Submission) string {
	text := "the submission has failed"
	if sub.FailedChunk != nil {
		text = fmt.Sprintf("chunk %d failed the submission", *sub.FailedChunk)
	}
	if sub.Failure != "" {
		text += " with the error " + strconv.Quote(sub.Failure)
	}
	if sub.Skipped > 0 {
		text += "; " + are(uint64(sub.Skipped), "other chunk is", "other chunks are") + " skipped"
	}
	return text
}

// ahead is a time of the future, as a span.
func (d *Diagnosis) ahead(t queue.Time) string {
	if t <= d.At {
		return "now"
	}
	return "in " + span(t.Sub(d.At))
}

// are is a number with its verb.
func are(n uint64, singular, plural string) string {
	return queue.Compact(n) + " " + queue.One(n, singular, plural)
}

// span is a duration by its two largest units.
func span(d time.Duration) string {
	seconds := int64(max(d, 0) / time.Second)
	days, hours, minutes := seconds/86400, seconds/3600%24, seconds/60%60
	parts := []struct {
		n    int64
		unit string
	}{{days, "d"}, {hours, "h"}, {minutes, "m"}, {seconds % 60, "s"}}
	for i, p := range parts[:3] {
		if p.n == 0 {
			continue
		}
		text := strconv.FormatInt(p.n, 10) + p.unit
		if next := parts[i+1]; next.n > 0 {
			text += " " + strconv.FormatInt(next.n, 10) + next.unit
		}
		return text
	}
	if seconds == 0 {
		return "<1s"
	}
	return strconv.FormatInt(seconds, 10) + "s"
}

// entryText is a value with its key. A text is quoted only if it would not be read as what it is.
func entryText(entry queue.MetaEntry) string {
	text := entry.Value.Quoted()
	if bare := entry.Value.Text(); !entry.Value.IsInt() && bare != "" && plain(bare) == bare {
		if _, err := strconv.ParseInt(bare, 10, 64); err != nil {
			text = bare
		}
	}
	if of, lack := queue.LackedBy(entry.Key); lack {
		return of + "=(none)"
	}
	return entry.Key + "=" + text
}

func nameText(name string) string { return cmp.Or(plain(name), "a consumer without a name") }

// plain quotes a text with characters that do not show, or that change the direction or the lines of the text behind it.
func plain(text string) string {
	if quoted := strconv.Quote(text); strings.Contains(quoted, `\`) {
		return quoted
	}
	return text
}

// Cause is one reason why chunks are not handed out.
type Cause = inspect.Cause

// Diagnosis is why the chunks of a value or of a submission move or do not, by the strategies in use.
type Diagnosis struct {
	inspect.Diagnosis
	Entry      queue.MetaEntry   // the value that it is about; no key: it is about Submission
	Submission queue.Submission  // only its id, state, failure, dead and skipped chunks count
	Used       []api.StrategyUse // in use, the one used last first. Cause.Plan is an index into it
	Since      queue.Time        // what was used before is not known

	Forecast  *api.Forecast   // nil: nothing moves
	Forecasts []*api.Forecast // of the causes
	Paces     []float64       // at which they end, in chunks per second; 0: nothing moves, or a tenant may not know it

	own queue.MetaEntry // the value of the tenant who asks; no key: no tenant does
}

// DiagnoseValue tells why the chunks of a value of a meta key move or do not. One that no open submission has is no error.
func (p Questions) DiagnoseValue(ctx context.Context, entry queue.MetaEntry) (Diagnosis, error) {
	if err := validTarget(queue.ValueTarget{MetaEntry: entry}); err != nil {
		return Diagnosis{}, err
	}
	d, plans := p.used()
	d.Entry = entry
	var err error
	d.Diagnosis, err = p.q.shard.Inspect.Diagnose(ctx, entry, p.asked(plans))
	p.q.foresee(&d)
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
	p.q.foresee(&d)
	if err == nil && !there && d.Submission.State == queue.Open { // it ended meanwhile
		d.Submission, err = p.q.Submissions.Get(ctx, id)
	}
	return d, err
}

// Narrow removes everything that is not the tenant's own: numbers of values that it shares with others, rules about more than its value,
// strategies, and ends that follow from any of these.
func (p Questions) Narrow(d *Diagnosis, own queue.MetaEntry) {
	d.Used, d.own = nil, own
	for i := range d.Causes {
		c := &d.Causes[i]
		if c.Limit.Key != "" && (queue.MetaEntry{Key: c.Limit.Key, Value: c.Value}) != own {
			c.Limit.Key, c.InFlight, c.Limit.Max = "", 0, 0
		}
		if c.Rule.ID != 0 && c.Rule.Match.Submission == 0 && c.Rule.Match.Entry != own {
			c.Rule, c.Until = queue.Rule{}, 0
		}
	}
	p.q.foresee(d)
}

// asked is the input of a diagnosis. The frames say which values were at their limits lately, so that the sentence agrees with the time
// that a value has been at its limit.
func (p Questions) asked(plans []*strategy.Plan) inspect.Asked {
	return inspect.Asked{Plans: plans, Full: func(entry queue.MetaEntry) bool { return p.q.frames.full.since(entry) != 0 }}
}

// used are the strategies in use, the one used last first, with their plans.
func (p Questions) used() (d Diagnosis, plans []*strategy.Plan) {
	list, since := p.q.inUse.list(queue.At(p.q.e.options.Now()))
	slices.SortStableFunc(list, func(a, b strategyUse) int { return b.LastUsed.Compare(a.LastUsed.Time) })
	d.Since = since
	for i := range list {
		d.Used, plans = append(d.Used, list[i].StrategyUse), append(plans, p.PlanNow(list[i].plan, 1))
	}
	return d, plans
}
