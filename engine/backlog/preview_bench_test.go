package backlog

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/quern-queue/quern/engine/strategy"
)

// One look ahead at a fair view blocks the shard while it copies the ledger of each Fair block that is asked.
func BenchmarkPreviewFair(b *testing.B) {
	for _, tenants := range []int{1, 10_000, 100_000} {
		for _, c := range []struct {
			name string
			br   strategy.Branch
		}{
			{"Fair", fairly("company", strategy.OldestFirst)},
			{"Fair(Fair)", strategy.Branch{Fair: "company", Inner: []strategy.Branch{fairly("user", strategy.OldestFirst)}}},
			{"Fair(Fair) of one company", strategy.Branch{Fair: "site", Inner: []strategy.Branch{fairly("company", strategy.OldestFirst)}}},
		} {
			b.Run(fmt.Sprintf("%s/tenants=%d", c.name, tenants), func(b *testing.B) {
				q, rnd := New(), rand.New(rand.NewPCG(1, 1))
				for i := range tenants {
					q.add(1000, 0, is("company", int64(i)), is("site", 1), is("user", int64(i%10)))
				}
				views := []*View{finished(q, c.br)}
				var picks []Pick
				for b.Loop() {
					picks = q.Preview(views, 100, rnd, nil, picks[:0])
				}
			})
		}
	}
}
