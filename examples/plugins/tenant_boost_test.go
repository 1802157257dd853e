package plugins_test

import "testing"

// tenantBoost is tenant-boost's arithmetic outside of any sandbox.
func tenantBoost(boost, promise map[string]float64, late, crowd float64) func(table, int) float64 {
	return func(b table, i int) float64 {
		priority, _ := b.i64("priority", i)
		age, _ := b.i64("age_ms", i)
		tenant, _ := b.text("meta_str:tenant", i)
		s := float64(priority) - float64(crowd*float64(b.u32("inflight:tenant", i)))
		s += boost[tenant]
		if p := promise[tenant]; p > 0 {
			part := float64(age) / p
			s += float64(float64(late*part) * part)
		}
		return s
	}
}

// The order follows the rules of the configuration, by tenants' names.
func TestTenantBoost(t *testing.T) {
	t.Parallel()
	module := built(t, "tenant-boost")
	t.Run("no rules", func(t *testing.T) { agree(t, load(t, module, `{}`, still), tenantBoost(nil, nil, 1000, 1)) })
	t.Run("rules", func(t *testing.T) {
		config := `{"boost":{"acme":100,"globex":-5.5,"no one \"here\" \u00e9":3},"promise_ms":{"acme":60000,"initech":1e4},"late":50,"crowd":0.25}`
		boost, promise := map[string]float64{"acme": 100, "globex": -5.5}, map[string]float64{"acme": 60_000, "initech": 10_000}
		agree(t, load(t, module, config, still), tenantBoost(boost, promise, 50, 0.25))
	})
}
