package engine

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

// This file diagnoses a whole queue, as Diagnose does a value. It uses the counters of the last frame, so that it costs the same at any
// backlog. It does not know which submissions the filters of strategies refuse.

const (
	namedValues = 3 // values at their limits that the sentence names
	namedRules  = 2 // rules that it names

	// maxHeldLooks is how many chunks may be in flight for the longest holder of a value that does not move to be looked for.
	maxHeldLooks = 10_000
)

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
	d := p.q.diagnosis(frame)
	for i := range d.Causes {
		if err := p.holder(ctx, d, i); err != nil {
			return a.said, a.now, err
		}
	}
	a.number, a.said = frame.Number, d.API()
	s := d.stats
	a.now = api.QueueNow{Waiting: s.Ready + s.Waiting + s.Paused + s.Blocked, Reserved: s.Reserved, DeadLetters: s.DeadLetters,
		DonePerSecond: d.rates.Done, DoneRates: p.q.sparkline(), Alarms: d.alarms()}
	if _, number := queue.CutShard(p.q.name); number == 0 && overruns(p.q) == 1 {
		a.now.Alarms = append(a.now.Alarms, "all shards are full")
	}
	return a.said, a.now, nil
}

const (
	sparkPoints = 40 // of a sparkline: the last ten minutes
	sparkStep   = secondsKept / sparkPoints
	mostAlarms  = 5
)

// sparkline is how many chunks were done a second over the last ten minutes, the oldest first: fewer points when less is known.
func (q *Queue) sparkline() []float64 {
	q.frames.mu.Lock()
	defer q.frames.mu.Unlock()
	r := &q.frames.past[0]
	rates := []float64{}
	for i := (len(r.points) - 1) % sparkStep; i+sparkStep < len(r.points); i += sparkStep {
		rates = append(rates, ratesBetween(*r.at(i), *r.at(i + sparkStep)).Done)
	}
	return rates
}

// alarms are sentences about trouble that an operator would otherwise notice late.
func (d *queueDiagnosis) alarms() []string {
	list := []string{}
	if d.stats.DiskFull > 0 {
		list = append(list, "the disk is full")
	}
	for i := range d.Causes {
		c := &d.Causes[i]
		switch none, unasked := d.unserved(); {
		case c.Obstacle == queue.NoObstacle && none:
			list = append(list, noConsumer)
		case c.Obstacle == queue.NoObstacle && unasked:
			list = append(list, "no strategy in use takes what is ready")
		case d.still[i]:
			list = append(list, entryText(queue.MetaEntry{Key: c.Limit.Key, Value: c.Value})+" does not move")
		case c.Rule.ID != 0 && c.Rule.Match.Whole():
			list = append(list, "a rule holds the whole queue")
		}
	}
	return list[:min(len(list), mostAlarms)]
}

const noConsumer = "no consumer asks for work"

// unserved says that no consumer asks for ready chunks (none), or that those that ask do not get them (unasked).
func (d *queueDiagnosis) unserved() (none, unasked bool) {
	s := d.stats
	return d.rates.Reserved == 0 && s.Reserved == 0 && s.ConsumersWaiting == 0, d.rates.Reserved == 0 && s.ConsumersWaiting > 0
}

// Brief is the entry of a queue in a list: its sentence, and its state.
func (p Questions) Brief(ctx context.Context) (sentence string, now *api.QueueNow) {
	said, is, err := p.answer(ctx)
	if err != nil {
		return "", nil // it is just closing
	}
	return said.Sentence, &is
}

// queueDiagnosis is a diagnosis of a queue, with what its sentence says besides the causes.
type queueDiagnosis struct {
	Diagnosis
	queue   string
	stats   *api.Stats
	rates   *api.Rates
	behind  behind
	still   []bool            // causes whose value is at its limit and did nothing for as long as its pace is known
	holders []queue.HeldChunk // of these, who holds longest; zero: not known
	links   [][]api.Link      // of the causes
}

// diagnosis diagnoses the queue as of a frame.
func (q *Queue) diagnosis(frame *Frame) *queueDiagnosis {
	stats := &frame.Stats.Stats
	d := &queueDiagnosis{queue: q.name, stats: stats, rates: &frame.Stats.Rates}
	d.At, d.InFlight, d.Present, d.Met = frame.At, stats.Reserved, int(stats.SubmissionsOpen), int(stats.SubmissionsOpen)
	add := func(why BranchWhy, submissions int, chunks uint64) {
		if chunks > 0 {
			c := Cause{BranchWhy: why}
			c.Held = api.Amount{Submissions: submissions, Chunks: chunks}
			d.Causes = append(d.Causes, c)
		}
	}
	q.frames.mu.Lock()
	d.behind = q.frames.outlook.behind
	for i := range d.behind.top {
		v := &d.behind.top[i]
		add(BranchWhy{Obstacle: queue.ObstacleValueLimit, Limit: strategy.Limit{Key: d.behind.key, Max: v.limit}, Value: v.count.Value,
			HasValue: true, InFlight: uint32(v.count.InFlight)}, v.count.Submissions, v.count.Available)
	}
	for _, held := range q.frames.outlook.held {
		obstacle := queue.ObstaclePaused
		if held.Action == queue.Block {
			obstacle = queue.ObstacleBlocked
		}
		add(BranchWhy{Obstacle: obstacle, Rule: held.Rule, Until: held.Until}, 0, held.Chunks)
	}
	q.frames.mu.Unlock()
	add(BranchWhy{Obstacle: queue.ObstacleWaiting}, 0, stats.Waiting)
	add(BranchWhy{}, 0, stats.Ready-min(stats.Ready, d.behind.waiting))
	add(BranchWhy{Obstacle: queue.ObstacleDead}, 0, stats.DeadLetters)
	slices.SortStableFunc(d.Causes, func(a, b Cause) int { return cmp.Compare(b.Held.Chunks, a.Held.Chunks) })
	d.Causes = d.Causes[:min(len(d.Causes), machine.TopMost)]
	q.foresee(&d.Diagnosis)
	d.Forecast = stats.Forecast
	d.still, d.holders = make([]bool, len(d.Causes)), make([]queue.HeldChunk, len(d.Causes))
	for i := range d.Causes {
		c := &d.Causes[i]
		d.still[i] = c.Limit.Key != "" && q.frames.still(queue.MetaEntry{Key: c.Limit.Key, Value: c.Value})
	}
	return d
}

// holder finds the consumer that holds the places of a value that does not move.
func (p Questions) holder(ctx context.Context, d *queueDiagnosis, i int) error {
	if !d.still[i] || d.stats.Reserved > maxHeldLooks {
		return nil
	}
	c := &d.Causes[i]
	page, err := p.q.Reservations.List(ctx, HeldRequest{Limit: 1,
		Filter: queue.HeldFilter{Meta: queue.Meta{{Key: c.Limit.Key, Value: c.Value}}}})
	if err == nil && len(page.Items) > 0 {
		d.holders[i] = page.Items[0]
	}
	return err
}

// API is the diagnosis as it stands in answers.
func (d *queueDiagnosis) API() api.Diagnosis {
	d.links = make([][]api.Link, len(d.Causes))
	sentence := d.sentence()
	out := d.Diagnosis.API()
	if out.Sentence = sentence; len(d.Causes) == 0 {
		out.Causes[0].Detail = "nothing is left to hand out"
	}
	for i, links := range d.links {
		if out.Causes[i].Links = links; d.Causes[i].Obstacle == queue.ObstacleWaiting {
			out.Causes[i].Detail = d.waitingClause()
		}
	}
	return out
}

// sentence says how much waits for what, the most first, with links to what it names.
func (d *queueDiagnosis) sentence() string {
	s := d.stats
	var clauses []string
	var dead string
	var limited, ruled bool
	for i := range d.Causes {
		c := &d.Causes[i]
		switch c.Obstacle {
		case queue.ObstacleValueLimit:
			if !limited {
				clauses = append(clauses, d.limitsClause())
			}
			limited = true
		case queue.ObstaclePaused, queue.ObstacleBlocked:
			if !ruled {
				clauses = append(clauses, d.rulesClause())
			}
			ruled = true
		case queue.ObstacleDead:
			dead = queue.Compact(s.DeadLetters) + queue.One(s.DeadLetters, " dead letter", " dead letters")
			d.link(i, dead, "dead-letters")
		case queue.ObstacleWaiting:
			clauses = append(clauses, d.waitingClause())
		default:
			clauses = append(clauses, d.freeClause(i))
		}
	}
	all := s.Ready + s.Waiting + s.Paused + s.Blocked
	if s.Reserved > 0 {
		clauses = append(clauses, are(s.Reserved, "is", "are")+" in flight")
	}
	head := are(all, "waits", "wait")
	switch {
	case all == 0 && s.Reserved > 0:
		head = "Nothing waits"
	case all == 0:
		head, clauses = "Empty", []string{"nothing is open"}
	}
	if dead != "" {
		clauses = append(clauses, dead)
	}
	return head + ": " + strings.Join(clauses, "; ") + "."
}

// link notes where a text of the sentence leads to, below the queue.
func (d *queueDiagnosis) link(cause int, text string, path ...string) string {
	at := "/v1/queues/" + url.PathEscape(d.queue)
	for _, step := range path {
		at += "/" + url.PathEscape(step)
	}
	d.links[cause] = append(d.links[cause], api.Link{Text: text, Href: at})
	return text
}

func (d *queueDiagnosis) waitingClause() string {
	return are(d.stats.Waiting, "waits", "wait") + " for a time, run_at or the next try"
}

// limitsClause is about the values that wait at their limits: those that do not move come first.
func (d *queueDiagnosis) limitsClause() string {
	var at []int
	for i := range d.Causes {
		if d.Causes[i].Obstacle == queue.ObstacleValueLimit {
			at = append(at, i)
		}
	}
	slices.SortStableFunc(at, func(a, b int) int { return cmp.Compare(stuck(d, b), stuck(d, a)) })
	var named []string
	for _, i := range at[:min(len(at), namedValues)] {
		c := &d.Causes[i]
		name := entryText(queue.MetaEntry{Key: c.Limit.Key, Value: c.Value})
		d.link(i, name, "meta-keys", c.Limit.Key, "values", shownValue(c.Value))
		if d.behind.values == 1 {
			return queue.Compact(d.behind.waiting) + " behind the limit of " + name + ", which " + d.valueClause(i)
		}
		named = append(named, name+" "+d.valueClause(i))
	}
	return fmt.Sprintf("%s behind the limits of %s values of %s (%s)", queue.Compact(d.behind.waiting),
		queue.Compact(uint64(d.behind.values)),
		plain(d.behind.key), strings.Join(named, ", "))
}

func stuck(d *queueDiagnosis, cause int) int {
	if d.still[cause] || d.Causes[cause].Limit.Max == 0 {
		return 1
	}
	return 0
}

// valueClause says how a value moves that waits at its limit.
func (d *queueDiagnosis) valueClause(i int) string {
	c := &d.Causes[i]
	switch held := &d.holders[i]; {
	case c.Limit.Max == 0:
		return "has a limit of 0"
	case d.still[i] && held.Reserved != 0:
		name := nameText(held.Consumer)
		if held.Consumer != "" {
			d.link(i, name, "consumers", held.Consumer)
		}
		return fmt.Sprintf("does not move: %s holds %s for %s", name, places(c.InFlight, c.Limit.Max), span(d.At.Sub(held.Reserved)))
	case d.still[i]:
		return "does not move"
	case d.Forecasts[i] == nil:
		return fullText(c)
	}
	return "ends " + d.ending(i)
}

func places(inFlight, limit uint32) string {
	if limit == 1 {
		return "its one place"
	}
	return "one of its " + queue.Compact(uint64(min(inFlight, limit))) + " places"
}

// ending is when the chunks of a cause are done, and how fast.
func (d *queueDiagnosis) ending(i int) string {
	return fmt.Sprintf("in %s at %s/s", span(queue.At(d.Forecasts[i].P50.Time).Sub(d.At)), perSecond(d.Paces[i]))
}

func perSecond(pace float64) string {
	if pace < 10 {
		return strconv.FormatFloat(pace, 'g', 2, 64)
	}
	return queue.Compact(uint64(pace + 0.5))
}

// rulesClause is about the chunks that rules hold.
func (d *queueDiagnosis) rulesClause() string {
	var named []string
	var left uint64
	for i := range d.Causes {
		c := &d.Causes[i]
		switch {
		case c.Obstacle != queue.ObstaclePaused && c.Obstacle != queue.ObstacleBlocked:
		case len(named) == namedRules:
			left += c.Held.Chunks
		default:
			named = append(named, d.ruleClause(c))
			d.link(i, ruleName(&c.Rule.Match), "rules", strconv.FormatUint(uint64(c.Rule.ID), 10))
		}
	}
	if left > 0 {
		named = append(named, are(left, "is", "are")+" held by other rules")
	}
	return strings.Join(named, "; ")
}

// freeClause is about the chunks that nothing holds back, as far as counters show.
func (d *queueDiagnosis) freeClause(i int) string {
	text := queue.Compact(d.Causes[i].Held.Chunks) + " can be handed out"
	switch none, unasked := d.unserved(); {
	case none:
		return text + ", but " + d.link(i, noConsumer, "consumers")
	case unasked:
		return text + ", but " + d.link(i, "no strategy in use", "strategies") + " takes " +
			queue.One(d.Causes[i].Held.Chunks, "it", "them")
	case d.Forecasts[i] == nil:
		return text
	}
	return text + ", done " + d.ending(i)
}

// still says that a value is at its limit, and that none of its chunks was done in the whole time that a pace covers.
func (f *frames) still(entry queue.MetaEntry) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.outlook.of[entry]
	return p != nil && p.paces.Known() && p.pace().Middle == 0
}
