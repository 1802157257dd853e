package plugins_test

import "testing"

// spreadDomains is spread-domains' arithmetic outside of any sandbox.
func spreadDomains(spread, local float64) func(table, int) float64 {
	return func(b table, i int) float64 {
		priority, _ := b.i64("priority", i)
		age, _ := b.i64("age_ms", i)
		s := float64(priority) + float64(float64(age)*0.001) - float64(b.u32("attempts", i))
		zone, depends := b.text("meta_str:zone", i)
		if !depends {
			return s - float64(spread*float64(b.u32("inflight_submission", i)))
		}
		before := 0
		for k := range i {
			if other, has := b.text("meta_str:zone", k); has && other == zone {
				before++
			}
		}
		s -= float64(spread * float64(int(b.u32("inflight:zone", i))+before))
		if here, given := b.text("context.zone", 0); given && here == zone {
			s += local
		}
		return s
	}
}

// Chunks in flight, and chunks that this window would add, are spread over zones.
func TestSpreadDomains(t *testing.T) {
	t.Parallel()
	module := built(t, "spread-domains")
	t.Run("defaults", func(t *testing.T) { agree(t, load(t, module, `{}`, still), spreadDomains(10, 0)) })
	t.Run("configured", func(t *testing.T) {
		agree(t, load(t, module, `{"spread":2.5e-1,"local":-1e3}`, still), spreadDomains(0.25, -1000))
	})
}
