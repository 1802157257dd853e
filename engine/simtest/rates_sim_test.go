package simtest

import (
	"fmt"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// modelRate is a rate that some reserve has named in this life: the moment from which each value may be taken if all
// came at equal distances, and all reservations since.
type modelRate struct {
	of    map[queue.MetaValue]time.Duration // since 1970; a value that is not here was not taken yet
	first time.Duration                     // that of such a value
	taken map[queue.MetaValue][]queue.Time  // reservations by strategies with the rate, and by others
}

// rateFree is the first moment of a value in the first life, when nothing was taken before.
const rateFree = time.Duration(-1)

// rated has the model know the rates of a plan.
func (m *model) rated(p *strategy.Plan) {
	for i := range p.Branches {
		p.Branches[i].Leaves(func(leaf *strategy.Branch) bool {
			for _, l := range leaf.Limits {
				if l.Of != strategy.Rate || m.rates[l] != nil {
					continue
				}
				r := &modelRate{of: map[queue.MetaValue]time.Duration{}, first: rateFree, taken: map[queue.MetaValue][]queue.Time{}}
				if apart, slack := l.Pace(); m.lives > 0 { // as if all had just used their burst
					r.first = sinceEpoch(m.began) + slack + apart
				}
				m.rates[l] = r
			}
			return true
		})
	}
}

func sinceEpoch(at queue.Time) time.Duration { return time.Duration(at) * time.Millisecond }

// rateValue is the value of a submission that a rate counts; all chunks are one value where the rate has no key.
func (x *modelSub) rateValue(l strategy.Limit) (value queue.MetaValue, counts bool) {
	if l.Key == "" {
		return value, true
	}
	return x.find(l.Key)
}

// opens is when a rate lets a value be taken.
func (m *model) opens(l strategy.Limit, value queue.MetaValue) time.Duration {
	r := m.rates[l]
	if r == nil {
		return rateFree
	}
	at, is := r.of[value]
	if !is {
		at = r.first
	}
	if at == rateFree {
		return rateFree
	}
	_, slack := l.Pace()
	return at - slack
}

// paces says that a rate has the submission wait.
func (m *model) paces(l strategy.Limit, x *modelSub, now queue.Time) bool {
	value, counts := x.rateValue(l)
	return counts && m.opens(l, value) > sinceEpoch(now)
}

// pace counts a reservation by all rates, whichever strategy made it.
func (m *model) pace(x *modelSub, now queue.Time) {
	for l, r := range m.rates {
		value, counts := x.rateValue(l)
		if !counts {
			continue
		}
		at, is := r.of[value]
		if !is {
			at = r.first
		}
		apart, slack := l.Pace()
		at = max(at, sinceEpoch(now))
		r.of[value] = min(at+apart, max(at, sinceEpoch(now)+time.Duration(l.Max)*apart+slack))
		r.taken[value] = append(r.taken[value], now)
	}
}

// checkRates replays all reservations of the submission that was just reserved, under the rates of a branch: in no time
// of `per` that ends now there is one more than the rate allows, even with those of strategies without it.
func (s *sim) checkRates(br *strategy.Branch, x *modelSub) {
	br.Leaves(func(leaf *strategy.Branch) bool {
		for _, l := range leaf.Limits {
			if l.Of != strategy.Rate || br.Fair != "" && !s.m.admits(leaf, x) {
				continue
			}
			value, counts := x.rateValue(l)
			if !counts {
				continue
			}
			within, all := 1, s.m.rates[l].taken[value] // this one
			for i := len(all) - 1; i >= 0 && s.now.Sub(all[i]) < l.Per; i-- {
				within++
			}
			if most := int(l.Max + l.Burst - 1); within > most {
				s.fail("%s has %d reservations within %v under %s, want at most %d", value.Text(), within, l.Per, l.Rate(), most)
			}
			s.tally.add("reserve under a rate", 1)
		}
		return true
	})
}

// rateWaits are how long rates have submissions of a plan wait: those that nothing else holds back, and those that are
// also at a limit or under a rule. For the latter an answer may name the rate or the other reason.
func (m *model) rateWaits(p *strategy.Plan, now queue.Time) (alone, limited []time.Duration) {
	for i := range p.Branches {
		p.Branches[i].Leaves(func(leaf *strategy.Branch) bool {
			for _, x := range m.subs {
				if !x.offered() || !x.matches(leaf) {
					continue
				}
				wait := time.Duration(0) // for the last of its rates
				atLimit := m.withheld(x) || m.ruling(x) != queue.Unruled
				for _, l := range leaf.Limits {
					if l.Of != strategy.Rate {
						v, there := x.find(l.Key)
						atLimit = atLimit || there && m.inFlight(l.Key, v) >= l.Max
					} else if m.paces(l, x, now) {
						value, _ := x.rateValue(l)
						wait = max(wait, m.opens(l, value)-sinceEpoch(now))
					}
				}
				wait = (wait + time.Millisecond - 1) / time.Millisecond * time.Millisecond
				switch {
				case wait > 0 && atLimit:
					limited = append(limited, wait)
				case wait > 0:
					alone = append(alone, wait)
				}
			}
			return true
		})
	}
	return alone, limited
}

// mayWait says that an empty answer may say that a rate waits so long, or, with 0, that limits are reached.
func (m *model) mayWait(p *strategy.Plan, now queue.Time, after time.Duration) bool {
	alone, limited := m.rateWaits(p, now)
	if after == 0 {
		return len(alone) == 0
	}
	if len(alone) > 0 && after >= slices.Min(alone) {
		return after == slices.Min(alone)
	}
	return slices.Contains(limited, after)
}

// drawRate makes up a rate around a strategy. They are few, as each is remembered for long, and of times that operators
// set no rate for: TestSetRatesHold is about these.
func (s *sim) drawRate(inner string) string {
	number, per := 1+2*s.rates.IntN(2), []string{"100ms", "2s", "1m"}[s.rates.IntN(3)]
	burst := ""
	if number > 1 && s.rates.IntN(3) == 0 {
		burst = "burst=2, "
	}
	if key := []string{"", "a", "b", "c"}[s.rates.IntN(4)]; key != "" {
		return fmt.Sprintf("MaxRate(%q, %d, %q, %s%s)", key, number, per, burst, inner)
	}
	return fmt.Sprintf("MaxRate(%d, %q, %s%s)", number, per, burst, inner)
}
