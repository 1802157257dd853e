// Warm is the plugin that the tests build: work whose model the consumer has loaded goes first, then priority and age.
package main

import (
	"errors"

	"github.com/quern-queue/quern/sdk/plugin"
)

var (
	priority  = plugin.I64("priority")
	age       = plugin.I64("age_ms")
	attempts  = plugin.U32("attempts")
	available = plugin.U32("available")
	inflight  = plugin.U32("inflight:tenant")
	cost      = plugin.I64("meta_i64:cost")
	model     = plugin.Str("meta_str:model")
	limit     = plugin.I64("limit:tenant")
	warm      = plugin.ContextStr("warm_model")
	zone      = plugin.ContextI64("zone")
	hits      = plugin.NewCounter("warm_hits")
)

var favoured uint32

var scorer = plugin.Register(plugin.Plugin{
	Name: "warm", Version: "1.0.0", License: "MIT",
	Columns:      []plugin.Column{priority, age, attempts, available, inflight, cost, model, limit},
	Context:      []plugin.Column{warm, zone},
	Counters:     []*plugin.Counter{hits},
	ConfigSchema: `{"type":"object","properties":{"refuse":{"type":"boolean","default":false}},"additionalProperties":false}`,
	State:        "reset",
	Init: func(s *plugin.Setup) error {
		if string(s.Config) == `{"refuse":true}` {
			return errors.New("warm: told to refuse")
		}
		favoured = s.Intern("favoured")
		return nil
	},
	Score: score,
})

func score(b *plugin.Batch) {
	p, a, at, re, in, co, m, li := priority.Of(b), age.Of(b), attempts.Of(b), available.Of(b), inflight.Of(b),
		cost.Of(b), model.Of(b), limit.Of(b)
	want, scores := warm.Of(b), b.Scores()
	near, _ := zone.Of(b)
	warmed := 0
	for i := range scores {
		s := float64(p[i])*10 + float64(a[i])*0.001 - float64(at[i])*5 + 1000/(1+float64(re[i])) -
			0.5*float64(in[i])*float64(in[i]) + float64(co[i])*0.25 + float64(near)
		if want != 0 && m[i] == want {
			s *= 2
			warmed++
		}
		if m[i] == favoured {
			s += 1e6
		}
		scores[i] = s
		if li[i] == 0 {
			b.Skip(i)
		}
	}
	if warmed > 0 {
		hits.Add(float64(warmed))
	}
}

func main() { plugin.Main() }
