package fair

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// A pick is Pick and Charge. After every tenth, the tenant leaves, or is blocked, and comes back later.
func BenchmarkPick(b *testing.B) {
	for _, n := range []int{100, 10_000, 1_000_000} {
		for _, zipf := range []bool{false, true} {
			for _, traffic := range []bool{false, true} {
				b.Run(fmt.Sprintf("tenants=%d/zipf=%t/traffic=%t", n, zipf, traffic), func(b *testing.B) {
					benchmarkPick(b, n, zipf, traffic)
				})
			}
		}
	}
}

func benchmarkPick(b *testing.B, n int, zipf, traffic bool) {
	rnd := rand.New(rand.NewPCG(1, 2))
	l := new(Ledger)
	for i, at := range rnd.Perm(n) {
		if zipf {
			l.SetWeight(uint32(i), WeightOf(1000*math.Pow(float64(at+1), -1.1)))
		}
		l.Join(uint32(i))
	}
	var away []uint32
	pick := func(slot int) {
		tenant, ok := l.Pick()
		if !ok {
			b.Fatalf("slot %d: no tenant to pick", slot)
		}
		l.Charge(tenant, Chunk)
		if !traffic || slot%10 != 0 {
			return
		}
		if slot%20 == 0 {
			l.Leave(tenant)
		} else {
			l.Block(tenant)
		}
		if away = append(away, tenant); len(away) > n/4 {
			l.Join(away[0])
			away = away[1:]
		}
	}
	for slot := range 2 * n {
		pick(slot)
	}
	b.ReportAllocs()
	slot := 0
	for b.Loop() {
		pick(slot)
		slot++
	}
}
