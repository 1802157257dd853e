package plugins_test

import "testing"

// warmModel is warm-model's arithmetic outside of any sandbox.
func warmModel(load, patience float64) func(table, int) float64 {
	return func(b table, i int) float64 {
		priority, _ := b.i64("priority", i)
		age, _ := b.i64("age_ms", i)
		cost, _ := b.i64("meta_i64:cost_ms", i)
		limit, _ := b.i64("limit:model", i)
		already := float64(b.u32("inflight:model", i))
		model, named := b.text("meta_str:model", i)
		warm, hasWarm := b.text("context.warm_model", 0)
		s := float64(float64(age)*patience) + float64(float64(priority)*1000) - float64(float64(b.u32("attempts", i))*100)
		if named && (!hasWarm || model != warm) {
			run := float64(b.u32("available", i)) * float64(max(1, cost))
			s -= load*load/(load+run+1) + float64(already*100)
		}
		if limit >= 0 && int64(already)+1 >= limit {
			s -= load
		}
		return s
	}
}

// Work for the model that the consumer has loaded goes first, by the same arithmetic as outside.
func TestWarmModel(t *testing.T) {
	t.Parallel()
	module := built(t, "warm-model")
	agree(t, load(t, module, `{}`, still), warmModel(20_000, 0.5))
}
