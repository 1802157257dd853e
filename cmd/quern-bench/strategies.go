package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
)

var strategyNames = []string{
	"reserve_p50/*", "reserve_p99/*", "patho_p50/*", "patho_empty_p50/*", "nested_limits_mean", "all_views_p50/*", "examined_per_chunk_max",
}

// strategyScale is how large the backlog is and how often each case is measured.
type strategyScale struct {
	submissions int
	chunks      uint32 // of each
	companies   int    // values of the key "company", an even number
	sides       int    // values of "tier" and of "region"; each pair of the two has submissions: at least 2*sides*sides of them
	head        int    // chunks held at the head of an order, a multiple of chunks
	timing      timing
}

var largeScale = strategyScale{
	submissions: largeSubmissions, chunks: largeChunks, companies: 10_000, sides: 100, head: 100_000, timing: fullTiming,
}

// submission is the i-th of the backlog. Those of the last company have the lowest priority, and one submission is the
// only one of its campaign.
func (s *strategyScale) submission(i int) queue.NewSubmission {
	mode := "batch"
	if i%2 == 0 {
		mode = "preview"
	}
	n := queue.NewSubmission{
		Meta: queue.Meta{
			{Key: "company", Value: queue.IntValue(int64(i % s.companies))},
			{Key: "mode", Value: queue.StringValue(mode)},
			{Key: "region", Value: queue.IntValue(int64(i / (2 * s.sides) % s.sides))},
			{Key: "tier", Value: queue.IntValue(int64(i / 2 % s.sides))},
		},
		Priority: int64(9 - i%10),
		Chunks:   queue.Chunks{Count: s.chunks, Prefix: "s3://bucket/input/"},
	}
	if i == s.submissions/2 {
		n.Meta = append(queue.Meta{{Key: "campaign", Value: queue.StringValue("rare")}}, n.Meta...)
	}
	return n
}

// strategyCases are every block, then the compositions. "company" has 10^4 values, "tier" and "region" 100 each.
var strategyCases = []reserveCase{
	{name: "random", strategy: `Random`},
	{name: "oldest_first", strategy: `OldestFirst`},
	{name: "newest_first", strategy: `NewestFirst`},
	{name: "custom_priority", strategy: `CustomPriority`},
	{name: "select_only", strategy: `SelectOnly("company", 7, Random)`},
	{name: "select_any", strategy: `SelectAny("tier", [7, 8, 30, 99], Random)`},
	{name: "except", strategy: `Except("tier", [7, 8, 30, 99], OldestFirst)`},
	{name: "or_else", strategy: `OrElse(SelectOnly("company", 7, Random), SelectOnly("mode", "preview", Random))`},
	{name: "prefer_distinct", strategy: `PreferDistinct("company", 1, Random)`},
	{name: "max_simultaneous", strategy: `MaxSimultaneous("company", 1000, Random)`},
	{name: "max_simultaneous_percent", strategy: `MaxSimultaneous("company", "20%", Random)`},
	{name: "max_rate", strategy: `MaxRate("company", 100000, "1s", Random)`},

	{name: "select_only_1pc", strategy: `SelectOnly("tier", 7, Random)`},
	{name: "select_only_nested", strategy: `SelectOnly("mode", "preview", SelectOnly("tier", 7, Random))`},
	{name: "select_only_priority", strategy: `SelectOnly("mode", "batch", CustomPriority)`},
	{name: "prefer_distinct_oldest", strategy: `PreferDistinct("company", 1, OldestFirst)`},
	{name: "prefer_distinct_max_simultaneous", strategy: `PreferDistinct("company", 1, MaxSimultaneous("region", 5000, Random))`},
	{name: "max_simultaneous_prefer_distinct", strategy: `MaxSimultaneous("region", 5000, PreferDistinct("company", 1, OldestFirst))`},
	{name: "max_simultaneous_or_else", strategy: `MaxSimultaneous("company", 1000, OrElse(SelectOnly("tier", 7, NewestFirst), Random))`},
	{name: "or_else_absent", strategy: `OrElse(SelectOnly("company", -1, Random), Random)`},

	{name: "fair", strategy: `Fair("tier", OldestFirst)`},
	{name: "fair_1e4", strategy: `Fair("company", OldestFirst)`},
	{name: "fair_1e4_random", strategy: `Fair("company", Random)`},
	{name: "fair_max_simultaneous", strategy: `Fair("company", MaxSimultaneous("company", 1000, OldestFirst))`},
	{name: "fair_nested", strategy: `Fair("company", Fair("$submission", OldestFirst))`},
}

// strategyRun runs the cases of the suite on one backlog. Every view that stands is kept in order at each pick. So a case is
// measured on an engine that has just started: with its own views, and with those that made its situation. Other figures show the
// cost when the views of all cases stand at once. A queue drops views only beyond 256.
type strategyRun struct {
	*run
	*bed
	scale    strategyScale
	examined float64 // the most per chunk in any case so far
	where    string  // that case
}

func strategySuite(ctx context.Context, r *run) error { return strategyFigures(ctx, r, largeScale) }

func strategyFigures(ctx context.Context, r *run, scale strategyScale) error {
	r.progress(fmt.Sprintf("%d submissions of %d chunks each", scale.submissions, scale.chunks))
	b, err := r.open(ctx, "strategies")
	if err != nil {
		return err
	}
	m := &strategyRun{run: r, bed: b, scale: scale}
	defer func() { m.close() }()
	if err := b.insert(ctx, scale.submissions, scale.submission); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{m.alone, m.pathological, m.nested, m.together} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	r.progress(fmt.Sprintf("the most submissions were examined by %s", m.where))
	r.add("examined_per_chunk_max", m.examined, "submissions")
	return nil
}

// restart closes the engine and opens it on the same data: no view stands, and nothing is held.
func (m *strategyRun) restart(ctx context.Context) error {
	if _, err := m.q.Reservations.ReleaseConsumer(ctx, consumer, "", ""); err != nil { // a restart keeps reservations
		return err
	}
	if err := m.close(); err != nil {
		return err
	}
	b, err := m.open(ctx, "strategies")
	if err != nil {
		return err
	}
	m.bed = b
	return nil
}

// alone measures every case with its own views.
func (m *strategyRun) alone(ctx context.Context) error {
	for _, c := range strategyCases {
		if err := m.restart(ctx); err != nil {
			return err
		}
		got, err := m.measure(ctx, c)
		if err != nil {
			return err
		}
		m.addReserve(c, got)
	}
	return nil
}

// together measures every case while the views of all of them stand.
func (m *strategyRun) together(ctx context.Context) error {
	m.progress("the views of all cases stand")
	if err := m.restart(ctx); err != nil {
		return err
	}
	for _, c := range strategyCases {
		held, err := m.hold(ctx, c.strategy, 1)
		if err == nil {
			err = m.giveBack(ctx, held)
		}
		if err != nil {
			return err
		}
	}
	for _, c := range strategyCases {
		got, err := m.measure(ctx, c)
		if err != nil {
			return err
		}
		m.add("all_views_p50/"+c.name, micro(quantile(got.sorted, 0.5)), "us")
	}
	return nil
}

func (m *strategyRun) measure(ctx context.Context, c reserveCase) (cost, error) {
	got, err := m.time(ctx, m.scale.timing, c)
	m.counted(c.name, got.examined)
	return got, err
}

func (m *strategyRun) counted(name string, examined float64) {
	if examined > m.examined {
		m.examined, m.where = examined, name
	}
}

// held is a part of a situation: n chunks, which the strategy chose, are held. Those that are given back were in the way while
// the others were chosen.
type held struct {
	strategy string
	n        int
	back     bool
}

// situation is the state of the backlog in which cases begin.
type situation struct {
	name  string
	held  []held
	cases []reserveCase
}

// situations are the pathological ones: a value that is rare, absent or all in flight; a head of the order that is held; one chunk
// held of every company but the last, which comes late in every order; and one of all.
func (s *strategyScale) situations() []situation {
	const rare, each = `SelectOnly("campaign", "rare", Random)`, `MaxSimultaneous("company", 1, OldestFirst)`
	list := []situation{
		{"rare and absent values", nil, []reserveCase{
			{name: "rare_value", strategy: rare},
			{name: "absent_value", strategy: `SelectOnly("company", -1, Random)`, empty: true},
			{name: "empty_intersection", strategy: `SelectOnly("mode", "preview", SelectOnly("company", 7, Random))`, empty: true},
		}},
		{"a rare value in flight", []held{{strategy: rare, n: int(s.chunks)}},
			[]reserveCase{{name: "rare_value_in_flight", strategy: rare, empty: true}}},
	}
	for _, c := range []reserveCase{
		{name: "held_head_random", strategy: `Random`},
		{name: "held_head_oldest_first", strategy: `OldestFirst`},
		{name: "held_head_custom_priority", strategy: `CustomPriority`},
	} {
		list = append(list, situation{"what comes first is held", []held{{strategy: c.strategy, n: s.head}}, []reserveCase{c}})
	}
	last := fmt.Sprintf(`SelectOnly("company", %d, OldestFirst)`, s.companies-1)
	return append(list, situation{"all values but one saturated", []held{{last, 1, true}, {each, s.companies - 1, false}}, []reserveCase{
		{name: "saturated_random", strategy: `MaxSimultaneous("company", 1, Random)`, lone: true},
		{name: "saturated_oldest_first", strategy: each, lone: true},
		{name: "saturated_custom_priority", strategy: `MaxSimultaneous("company", 1, CustomPriority)`, lone: true},
		{name: "saturated_prefer_distinct", strategy: `PreferDistinct("company", 1, Random)`, lone: true},
		{name: "saturated_fair", strategy: `Fair("company", MaxSimultaneous("company", 1, OldestFirst))`, lone: true},
	}}, situation{"all values saturated", []held{{each, s.companies, false}}, []reserveCase{
		{name: "all_saturated_prefer_distinct", strategy: `PreferDistinct("company", 1, Random)`},
		{name: "all_saturated_prefer_distinct_oldest", strategy: `PreferDistinct("company", 1, OldestFirst)`},
		{name: "all_saturated", strategy: `MaxSimultaneous("company", 1, Random)`, empty: true},
		{name: "all_saturated_oldest_first", strategy: each, empty: true},
		{name: "all_saturated_nested", strategy: `MaxSimultaneous("region", 1, MaxSimultaneous("company", 1, Random))`, empty: true},
		{name: "all_saturated_fair", strategy: `Fair("company", MaxSimultaneous("company", 1, OldestFirst))`, empty: true},
	}})
}

// bring restarts the engine and makes the situation.
func (m *strategyRun) bring(ctx context.Context, s *situation) error {
	if err := m.restart(ctx); err != nil {
		return err
	}
	var back []queue.ReleaseItem
	for _, h := range s.held {
		items, err := m.hold(ctx, h.strategy, h.n)
		if err != nil {
			return err
		}
		if h.back {
			back = append(back, items...)
		}
	}
	return m.giveBack(ctx, back)
}

// pathological measures every case in its situation, which is made again for each.
func (m *strategyRun) pathological(ctx context.Context) error {
	for _, s := range m.scale.situations() {
		m.progress(s.name)
		for _, c := range s.cases {
			if err := m.bring(ctx, &s); err != nil {
				return err
			}
			got, err := m.measure(ctx, c)
			if err != nil {
				return err
			}
			name := "patho_p50/"
			if c.empty {
				name = "patho_empty_p50/"
			}
			m.add(name+c.name, micro(quantile(got.sorted, 0.5)), "us")
		}
	}
	return nil
}

// nested saturates two limits under each other, gives one chunk back, and reserves the only one that may then be had: the
// worst case that is known. Each pick meets submissions that the one limit lets through and the other does not.
func (m *strategyRun) nested(ctx context.Context) error {
	m.progress("two nested limits")
	if err := m.restart(ctx); err != nil {
		return err
	}
	const strategy = `MaxSimultaneous("tier", 1, MaxSimultaneous("region", 1, Random))`
	held, err := m.hold(ctx, strategy, m.scale.sides)
	if err != nil {
		return err
	}
	plan, err := planOf(strategy)
	if err != nil {
		return err
	}
	before := m.q.Examined()
	request := engine.ReserveRequest{Max: 1, Plan: plan, Consumer: consumer}
	reservations := make([]queue.Reservation, 0, 1)
	rnd := rand.New(rand.NewPCG(3, 1))
	started := time.Now()
	for range m.scale.timing.samples {
		i := rnd.IntN(len(held))
		if err := m.giveBack(ctx, held[i:i+1]); err != nil {
			return err
		}
		got, err := m.q.Reserve(ctx, request, reservations[:0])
		if err != nil {
			return err
		}
		if len(got.Reservations) == 0 {
			return fmt.Errorf("%s gave nothing, although a chunk was given back", strategy)
		}
		held[i].Token = got.Reservations[0].Token
	}
	cycles := float64(m.scale.timing.samples)
	m.add("nested_limits_mean", micro(time.Since(started))/cycles, "us")
	after := m.q.Examined()
	m.counted("nested_limits", float64(after-before)/cycles)
	return m.giveBack(ctx, held)
}
