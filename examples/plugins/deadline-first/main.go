// Deadline-first orders work by how little time is left until its deadline, weighed against its priority. Work that comes too
// late to be of use can be passed over, so that it does not delay work that can still be in time.
//
//quern:tests pure
package main

import (
	"math"

	"github.com/quern-queue/quern/sdk/plugin"
)

var (
	priority = plugin.I64("priority")
	attempts = plugin.U32("attempts")
	deadline = plugin.I64("meta_i64:deadline_ms")
	cost     = plugin.I64("meta_i64:cost_ms")
	tooLate  = plugin.NewCounter("too_late_rows")
)

// settings are the configuration.
type settings struct {
	weight  float64 // points for work whose time is up
	horizon float64 // milliseconds before its time is up at which work has half of them
	grace   float64 // milliseconds after its deadline until which work is still done; below 0 without end
}

var (
	set    = &settings{}
	scorer = plugin.Register(plugin.Plugin{
		Name: "deadline-first", Version: "1.0.0", License: "Apache-2.0",
		Columns:  []plugin.Column{priority, attempts, deadline, cost},
		Counters: []*plugin.Counter{tooLate},
		ConfigSchema: `{"type":"object","properties":{
			"weight":{"type":"number","minimum":0,"default":100,"description":"points for work whose time is up"},
			"horizon_ms":{"type":"number","minimum":1,"default":60000,"description":"how long before its time is up work has half of them"},
			"grace_ms":{"type":"number","default":-1,"description":"how long after its deadline work is still done; below 0 without end"}
		},"additionalProperties":false}`,
		Init:  set.init,
		Score: set.score,
	})
)

func (s *settings) init(c *plugin.Setup) error {
	*s = settings{c.Number("weight", 100), c.Number("horizon_ms", 60_000), c.Number("grace_ms", -1)}
	return nil
}

func (s *settings) score(b *plugin.Batch) {
	p, tries, due, dated, takes := priority.Of(b), attempts.Of(b), deadline.Of(b), deadline.Valid(b), cost.Of(b)
	now, skipped := b.Now(), 0
	for i := range b.Scores() {
		score := float64(p[i]) - float64(tries[i]) // a chunk that failed before is likelier to fail again
		if dated[i] {
			left := float64(due[i] - now)
			if s.grace >= 0 && -left > s.grace {
				score = math.NaN()
				skipped++
			}
			// It must begin earlier by the cost of one chunk.
			score += s.weight * s.horizon / (s.horizon + max(0, left-float64(takes[i])))
		}
		b.Scores()[i] = score
	}
	if skipped > 0 {
		tooLate.Add(float64(skipped))
	}
}

func main() { plugin.Main() }
