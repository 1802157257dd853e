// The guest of the tests: a plugin in Go that reads a column of every kind.
package main

import "github.com/quern-queue/quern/sdk/plugin"

var (
	priority = plugin.I64("priority")
	attempts = plugin.U32("attempts")
	deadline = plugin.I64("meta_i64:deadline_ms")
	model    = plugin.Str("meta_str:model")
	warm     = plugin.ContextStr("warm_model")
	hits     = plugin.NewCounter("warm_hits")
)

var scorer = plugin.Register(plugin.Plugin{
	Name: "guest", Version: "1.0.0",
	Columns:  []plugin.Column{priority, attempts, deadline, model},
	Context:  []plugin.Column{warm},
	Counters: []*plugin.Counter{hits},
	State:    "reset",
	Window:   plugin.Window{Max: 1024},
	Score: func(b *plugin.Batch) {
		tries, due, known, models, scores := attempts.Of(b), deadline.Of(b), deadline.Valid(b), model.Of(b), b.Scores()
		for i, p := range priority.Of(b) {
			scores[i] = float64(p)*10 - float64(tries[i])*5
			if known[i] {
				scores[i] += float64(due[i])
			}
			if models[i] != 0 && models[i] == warm.Of(b) {
				scores[i] += 1000
				hits.Add(1)
			}
		}
	},
})

func main() { plugin.Main() }
