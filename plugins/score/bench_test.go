package score_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/plugins/score"
)

// The formula of the benchmark reads eight columns, compares a string and divides, as a person would write it.
const benchFormula = `if(meta.model == "llama", 50, 0) + priority*10 - attempts*5 + min(age_s/60, 30) - inflight("company")*2 + meta("urgency", 0) + available/total`

type candidate struct {
	priority, age, urgency               int64
	attempts, inflight, available, total uint32
	model                                uint32
	hasUrgency                           bool
}

// native is the same function as a person would write it in Go, over the same columns as structs.
func native(rows []candidate, warm uint32, scores []float64) {
	for i := range rows {
		c := &rows[i]
		score := 0.0
		if c.model == warm && warm != 0 {
			score = 50
		}
		urgency := 0.0
		if c.hasUrgency {
			urgency = float64(c.urgency)
		}
		scores[i] = score + float64(c.priority)*10 - float64(c.attempts)*5 + min(float64(c.age)/1000/60, 30) - float64(c.inflight)*2 + urgency + float64(c.available)/float64(c.total)
	}
}

// BenchmarkScore measures the cost of a candidate at a window of 256, with fuel, from the columns as the shard hands them over
// to the scores: the compiled formula beside the same function natively in the same run. Reported per candidate.
func BenchmarkScore(b *testing.B) {
	const rows = 256
	start := time.Now()
	e := expression(b, benchFormula)
	rnd := rand.New(rand.NewPCG(1, 2))
	candidates := make([]candidate, rows)
	for i := range candidates {
		candidates[i] = candidate{
			priority: rnd.Int64N(10), age: rnd.Int64N(1e7), urgency: rnd.Int64N(5), attempts: rnd.Uint32N(3), inflight: rnd.Uint32N(9),
			available: 1 + rnd.Uint32N(50), total: 100, model: rnd.Uint32N(3), hasUrgency: rnd.IntN(2) == 0,
		}
	}
	data, scores := batch(e, filled(e, candidates)), make([]float64, rows)
	v := open(b, e, rows, func() time.Duration { return time.Since(start) })
	each := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/candidate")
	}
	b.Run("native", func(b *testing.B) {
		for b.Loop() {
			native(candidates, 1, scores)
		}
		each(b)
	})
	b.Run("compiled", func(b *testing.B) {
		b.ReportAllocs()
		fuel := int64(0)
		for b.Loop() {
			report, err := v.Score(b.Context(), data, scores)
			if err != nil {
				b.Fatal(err)
			}
			fuel = report.Fuel
		}
		each(b)
		b.ReportMetric(float64(fuel)/rows, "fuel/candidate")
	})
	simple := expression(b, "priority*10 - attempts*5")
	two := batch(simple, filled(simple, candidates))
	v = open(b, simple, rows, func() time.Duration { return time.Since(start) })
	b.Run("compiled/two-columns", func(b *testing.B) {
		for b.Loop() {
			if _, err := v.Score(b.Context(), two, scores); err != nil {
				b.Fatal(err)
			}
		}
		each(b)
	})
}

// BenchmarkCompile is the way from a formula's text to the module.
func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		if module, _ := score.Compile(expression(b, benchFormula)); len(module) == 0 {
			b.Fatal("no module")
		}
	}
}

// filled is the window of the candidates.
func filled(e *strategy.Expression, candidates []candidate) *strategy.Window {
	w := &strategy.Window{Rows: len(candidates), Dictionary: []string{"llama", "whisper"}}
	for _, c := range e.Columns() {
		var v strategy.Values
		for i := range candidates {
			k := &candidates[i]
			switch c.Property {
			case strategy.Priority:
				v.Numbers = append(v.Numbers, k.priority)
			case strategy.Age:
				v.Numbers = append(v.Numbers, k.age)
			case strategy.Attempts:
				v.Counts = append(v.Counts, k.attempts)
			case strategy.InFlight:
				v.Counts = append(v.Counts, k.inflight)
			case strategy.Available:
				v.Counts = append(v.Counts, k.available)
			case strategy.Total:
				v.Counts = append(v.Counts, k.total)
			case strategy.MetaInt:
				present := c.Key == "urgency" && k.hasUrgency
				v.Numbers, v.Present = append(v.Numbers, k.urgency), append(v.Present, present)
			case strategy.MetaString:
				v.Words = append(v.Words, k.model)
			}
		}
		switch c.Property {
		case strategy.ContextInt:
			v = strategy.Values{Numbers: []int64{0}, Present: []bool{false}}
		case strategy.ContextString:
			v = strategy.Values{Words: []uint32{1}}
		}
		w.Columns = append(w.Columns, v)
	}
	return w
}
