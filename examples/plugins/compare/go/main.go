// The comparison's scorer in Go: the same arithmetic as in ../rust, ../c and ../assemblyscript.
package main

import "github.com/quern-queue/quern/sdk/plugin"

var (
	priority  = plugin.I64("priority")
	age       = plugin.I64("age_ms")
	attempts  = plugin.U32("attempts")
	available = plugin.U32("available")
	inflight  = plugin.U32("inflight:tenant")
	cost      = plugin.I64("meta_i64:cost_ms")
	model     = plugin.Str("meta_str:model")
	limit     = plugin.I64("limit:tenant")
	warm      = plugin.ContextStr("warm_model")
)

var _ = plugin.Register(plugin.Plugin{
	Name: "compare-go", Version: "1.0.0", License: "Apache-2.0",
	Columns: []plugin.Column{priority, age, attempts, available, inflight, cost, model, limit},
	Context: []plugin.Column{warm},
	Score:   score,
})

func score(b *plugin.Batch) {
	p, a, at, re, in, co, m, li := priority.Of(b), age.Of(b), attempts.Of(b), available.Of(b), inflight.Of(b),
		cost.Of(b), model.Of(b), limit.Of(b)
	w := warm.Of(b)
	scores := b.Scores()
	for i := range scores {
		s := float64(p[i])*10 + float64(a[i])*0.001 - float64(at[i])*5 + 1000/(1+float64(re[i])) -
			0.5*float64(in[i])*float64(in[i]) + float64(co[i])*0.25
		if m[i] == w {
			s *= 2
		}
		if li[i] == 0 {
			s -= 1e6
		}
		scores[i] = s
	}
}

func main() { plugin.Main() }
