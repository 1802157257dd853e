package simtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/strategy"
)

// deepest is how deep the strategies of a simulation nest, the order at the bottom not counted.
const deepest = 6

// drawText makes up a strategy, a shallow one or one of the deep ones of this simulation. Those are few, so that their views
// and ledgers live long enough for something to go wrong with them.
func (s *sim) drawText() string {
	if s.deep == nil {
		for range 8 {
			s.deep = append(s.deep, s.drawDeep())
		}
	}
	if s.chance(40) {
		return s.deep[s.r.IntN(len(s.deep))]
	}
	return s.drawValid(s.r.IntN(4))
}

// drawDeep draws until the strategy is one that the language admits: some have too many branches.
func (s *sim) drawDeep() string {
	for {
		if text := s.drawBlock(2 + s.r.IntN(deepest-1)); accepted(text) {
			return text
		}
	}
}

func accepted(text string) bool {
	parsed, err := strategy.Parse(text)
	return err == nil && len(parsed.Plan().Branches) > 0
}

// drawBlock makes up a strategy of exactly this depth, from all blocks.
func (s *sim) drawBlock(depth int) string {
	if depth == 0 {
		return s.drawStrategy(0)
	}
	key, inner := pickOf(s, "a", "b", "c"), s.drawBlock(depth-1)
	switch s.r.IntN(10) {
	case 0:
		return fmt.Sprintf("SelectOnly(%q, %d, %s)", key, s.r.IntN(2), inner)
	case 1, 2:
		other := s.drawBlock(s.r.IntN(depth))
		if s.chance(50) {
			inner, other = other, inner
		}
		return fmt.Sprintf("OrElse(%s, %s)", inner, other)
	case 3, 4:
		return fmt.Sprintf("PreferDistinct(%q, %d, %s%s)", key, 1+s.r.IntN(3), s.drawMissing(), inner)
	case 5, 6:
		return fmt.Sprintf("MaxSimultaneous(%q, %d, %s%s)", key, 1+s.r.IntN(5), s.drawMissing(), inner)
	}
	return fmt.Sprintf("Fair(%q, %s%s)", pickOf(s, "a", "b", "c", "$submission"), pickOf(s, "", "", "time, "), inner)
}

// drawMissing draws how submissions without the key are treated; it draws nothing where a seed has to repeat its former draws.
func (s *sim) drawMissing() string {
	if s.lists == nil {
		return ""
	}
	return []string{"", "", "missing=one, ", "missing=never, "}[s.lists.IntN(4)]
}

// The deep strategies of some simulations have every block, Fair inside of Fair among them, and nest as deeply as they should.
func TestDeepStrategies(t *testing.T) {
	t.Parallel()
	most, seen := 0, map[string]int{}
	for seed := range uint64(40) {
		s := &sim{r: newRand(seed, 9), lists: newRand(seed, 10)}
		for range 8 {
			text := s.drawDeep()
			depth := 0
			for _, c := range text {
				switch c {
				case '(':
					depth++
				case ')':
					depth--
				}
				most = max(most, depth)
			}
			for _, block := range []string{"Random", "OldestFirst", "NewestFirst", "CustomPriority", "SelectOnly(", "OrElse(", "PreferDistinct(", "MaxSimultaneous(", "Fair(", "time, ", "missing=one", "missing=never"} {
				if strings.Contains(text, block) {
					seen[block]++
				}
			}
			if _, inside, found := strings.Cut(text, "Fair("); found && strings.Contains(inside, "Fair(") {
				seen["Fair in Fair"]++
			}
		}
	}
	if most != deepest {
		t.Errorf("the deepest of 320 nests %d deep, want %d", most, deepest)
	}
	if len(seen) != 13 {
		t.Errorf("got only %v", seen)
	}
	for block, n := range seen {
		if n < 20 {
			t.Errorf("%s is in %d of 320 strategies", block, n)
		}
	}
}
