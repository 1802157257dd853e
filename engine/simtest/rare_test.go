package simtest

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"testing"
)

// A seed is nasty when much happens in it that hardly happens in others. The measure counts successions: an event and the next event. One
// that is found in a share p of the seeds counts -log2 p, once in a seed. The ten seeds of TestNastySeeds were chosen for each simulation
// one after the other, each with the largest sum over successions that those before it do not have, among the seeds 1 to 2,000:
//
//	QUERN_SIM_SEEDS=1-2000 go test ./engine/simtest -count 1 -v -run '^TestSimulation$' -nastiest 4

var nastiestWanted = flag.Int("nastiest", 0, "print so many of the seeds in which most happened that is rare")

// succession is an event and the next event.
type succession [2]string

// played is the events of many seeds.
type played struct {
	mu    sync.Mutex
	total *tally
	of    map[uint64][]succession // by seed
	in    map[succession]int      // how many seeds have it
}

func newPlayed() *played {
	return &played{total: newTally(), of: map[uint64][]succession{}, in: map[succession]int{}}
}

// take adds the events of a seed.
func (p *played) take(seed uint64, t *tally) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for what, n := range t.n {
		p.total.n[what] += n
	}
	if *nastiestWanted == 0 {
		return
	}
	p.of[seed] = slices.Collect(maps.Keys(t.next))
	for s := range t.next {
		p.in[s]++
	}
}

func (p *played) bits(s succession) float64 { return math.Log2(float64(len(p.of)) / float64(p.in[s])) }

// tellNastiest logs the seeds that are worth playing always.
func (p *played) tellNastiest(t *testing.T) {
	had := map[succession]bool{}
	for range min(*nastiestWanted, len(p.of)) {
		best, most := uint64(0), -1.0
		for _, seed := range slices.Sorted(maps.Keys(p.of)) {
			sum := 0.0
			for _, s := range p.of[seed] {
				if !had[s] {
					sum += p.bits(s)
				}
			}
			if sum > most {
				best, most = seed, sum
			}
		}
		list := p.of[best]
		slices.SortFunc(list, func(a, b succession) int {
			return cmp.Or(p.in[a]-p.in[b], slices.Compare(a[:], b[:]))
		})
		text := ""
		for _, s := range list[:min(6, len(list))] {
			text += fmt.Sprintf("\n  in %d seeds: %s, then %s", p.in[s], s[0], s[1])
		}
		t.Logf("seed %d: %.0f bits in %d successions%s", best, most, len(list), text)
		for _, s := range list {
			had[s] = true
		}
	}
}
