package diagnosis

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/inspect"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

// This file diagnoses a whole queue. It uses the counters of one frame, so that it costs the same at any backlog. It does not know which
// submissions the filters of strategies refuse.

const (
	namedValues = 3 // values at their limits that the sentence names
	namedRules  = 2 // rules that it names
	mostAlarms  = 5
)

// Counters are the counters of a queue at a moment.
type Counters struct {
	Queue string // its name
	At    queue.Time
	Stats *api.Stats
	Rates *api.Rates

	MemoryShort bool // the server nears its limit of memory, and refuses inserts at it
}

// Queue is a diagnosis of a queue: its causes, and what its sentence says besides them.
type Queue struct {
	Diagnosis
	counters Counters
	behind   behind
	still    []bool            // causes whose value is at its limit and did nothing for as long as its pace is known
	holders  []queue.HeldChunk // of these, who holds longest; zero: not known
	links    [][]api.Link      // of the causes
}

// OfQueue diagnoses a queue as of the last look.
func (o *Outlook) OfQueue(c Counters) *Queue {
	stats := c.Stats
	d := &Queue{counters: c, behind: o.behind}
	d.At, d.InFlight, d.Present, d.Met = c.At, stats.Reserved, int(stats.SubmissionsOpen), int(stats.SubmissionsOpen)
	add := func(why inspect.BranchWhy, submissions int, chunks uint64) {
		if chunks > 0 {
			c := Cause{BranchWhy: why}
			c.Held = api.Amount{Submissions: submissions, Chunks: chunks}
			d.Causes = append(d.Causes, c)
		}
	}
	for i := range d.behind.top {
		v := &d.behind.top[i]
		add(inspect.BranchWhy{Obstacle: queue.ObstacleValueLimit, Limit: strategy.Limit{Key: d.behind.key, Max: v.limit},
			Value: v.count.Value, HasValue: true, InFlight: uint32(v.count.InFlight)}, v.count.Submissions, v.count.Available)
	}
	for _, held := range o.held {
		obstacle := queue.ObstaclePaused
		if held.Action == queue.Block {
			obstacle = queue.ObstacleBlocked
		}
		add(inspect.BranchWhy{Obstacle: obstacle, Rule: held.Rule, Until: held.Until}, 0, held.Chunks)
	}
	add(inspect.BranchWhy{Obstacle: queue.ObstacleWaiting}, 0, stats.Waiting)
	add(inspect.BranchWhy{}, 0, stats.Ready-min(stats.Ready, d.behind.waiting))
	add(inspect.BranchWhy{Obstacle: queue.ObstacleDead}, 0, stats.DeadLetters)
	slices.SortStableFunc(d.Causes, func(a, b Cause) int { return cmp.Compare(b.Held.Chunks, a.Held.Chunks) })
	d.Causes = d.Causes[:min(len(d.Causes), machine.TopMost)]
	o.Foresee(&d.Diagnosis)
	d.Forecast = stats.Forecast
	d.still, d.holders = make([]bool, len(d.Causes)), make([]queue.HeldChunk, len(d.Causes))
	for i := range d.Causes {
		d.still[i] = d.Causes[i].Limit.Key != "" && o.still(valueOf(&d.Causes[i]))
	}
	return d
}

// valueOf is the value whose limit a cause is about.
func valueOf(c *Cause) queue.MetaEntry { return queue.MetaEntry{Key: c.Limit.Key, Value: c.Value} }

// Still is the value of a cause, if it is at its limit and does not move.
func (d *Queue) Still(cause int) (value queue.MetaEntry, still bool) {
	return valueOf(&d.Causes[cause]), d.still[cause]
}

// Holds adds the chunk that is held longest of the value of a cause.
func (d *Queue) Holds(cause int, chunk queue.HeldChunk) { d.holders[cause] = chunk }

// Now is the state of the queue in lists. doneRates are those of its sparkline.
func (d *Queue) Now(doneRates []float64) api.QueueNow {
	s := d.counters.Stats
	return api.QueueNow{Waiting: s.Ready + s.Waiting + s.Paused + s.Blocked, Reserved: s.Reserved, DeadLetters: s.DeadLetters,
		DonePerSecond: d.counters.Rates.Done, DoneRates: doneRates, Alarms: d.alarms()}
}

// alarms are sentences about trouble that an operator would otherwise notice late.
func (d *Queue) alarms() []string {
	list := []string{}
	if d.counters.Stats.DiskFull > 0 {
		list = append(list, "the disk is full")
	}
	switch {
	case d.counters.Stats.MemoryFull > 0:
		list = append(list, "inserts are refused: the server uses all memory that memory-limit allows")
	case d.counters.MemoryShort:
		list = append(list, "the server uses 90 % or more of memory-limit, and will refuse inserts when it uses all")
	}
	for i := range d.Causes {
		c := &d.Causes[i]
		switch none, unasked := d.unserved(); {
		case c.Obstacle == queue.NoObstacle && none:
			list = append(list, noConsumer)
		case c.Obstacle == queue.NoObstacle && unasked:
			list = append(list, "no strategy in use takes what is ready")
		case d.still[i]:
			list = append(list, entryText(valueOf(c))+" does not move")
		case c.Rule.ID != 0 && c.Rule.Match.Whole():
			list = append(list, "a rule holds the whole queue")
		}
	}
	return list[:min(len(list), mostAlarms)]
}

const noConsumer = "no consumer asks for work"

// unserved says that no consumer asks for ready chunks (none), or that those that ask do not get them (unasked).
func (d *Queue) unserved() (none, unasked bool) {
	s, idle := d.counters.Stats, d.counters.Rates.Reserved == 0
	return idle && s.Reserved == 0 && s.ConsumersWaiting == 0, idle && s.ConsumersWaiting > 0
}

// API is the diagnosis as it stands in answers.
func (d *Queue) API() api.Diagnosis {
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
func (d *Queue) sentence() string {
	s := d.counters.Stats
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
func (d *Queue) link(cause int, text string, path ...string) string {
	at := "/v1/queues/" + url.PathEscape(d.counters.Queue)
	for _, step := range path {
		at += "/" + url.PathEscape(step)
	}
	return d.linkTo(cause, text, at)
}

func (d *Queue) linkTo(cause int, text, address string) string {
	d.links[cause] = append(d.links[cause], api.Link{Text: text, Href: address})
	return text
}

func (d *Queue) waitingClause() string {
	return are(d.counters.Stats.Waiting, "waits", "wait") + " for a time, run_at or the next try"
}

// limitsClause is about the values that wait at their limits: those that do not move come first.
func (d *Queue) limitsClause() string {
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
		name := entryText(valueOf(c))
		d.linkTo(i, name, queue.ValueAddress(d.counters.Queue, valueOf(c)))
		if d.behind.values == 1 {
			return queue.Compact(d.behind.waiting) + " behind the limit of " + name + ", which " + d.valueClause(i)
		}
		named = append(named, name+" "+d.valueClause(i))
	}
	return fmt.Sprintf("%s behind the limits of %s values of %s (%s)", queue.Compact(d.behind.waiting),
		queue.Compact(uint64(d.behind.values)),
		plain(d.behind.key), strings.Join(named, ", "))
}

func stuck(d *Queue, cause int) int {
	if d.still[cause] || d.Causes[cause].Limit.Max == 0 {
		return 1
	}
	return 0
}

// valueClause says how a value moves that waits at its limit.
func (d *Queue) valueClause(i int) string {
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
func (d *Queue) ending(i int) string {
	return fmt.Sprintf("in %s at %s/s", span(queue.At(d.Forecasts[i].P50.Time).Sub(d.At)), perSecond(d.Paces[i]))
}

func perSecond(pace float64) string {
	if pace < 10 {
		return strconv.FormatFloat(pace, 'g', 2, 64)
	}
	return queue.Compact(uint64(pace + 0.5))
}

// rulesClause is about the chunks that rules hold.
func (d *Queue) rulesClause() string {
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
func (d *Queue) freeClause(i int) string {
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
