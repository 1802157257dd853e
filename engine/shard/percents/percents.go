// Package percents puts numbers in place of the percentages of strategies, as in MaxSimultaneous("company", "20%", X).
//
//	plan with 20% ─► 25 in flight + 15 asked for ─► plan with 8, for the whole of a call
//
//quern:tests pure
package percents

import (
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/strategy"
)

// Percents has the plans with numbers.
type Percents struct {
	shell.Shell
	Waiting func() int // for how many chunks the calls that wait ask; the mutex is held

	plans map[key]*strategy.Plan // guarded by the mutex
}

// key is a plan with what stands in place of its percentages.
type key struct {
	of      *strategy.Plan
	numbers string
}

// mostPlans bounds the plans that are kept. A fleet of a steady size needs a few for each strategy.
const mostPlans = 64

// PlanNow is a plan with a number in place of each percentage, for a call for so many chunks. The number is of the
// chunks that are in flight or that someone asks for: calls that wait count, too. Without these, a fleet that waits for
// work of one value would never get more of it than a call asks for.
func (p *Percents) PlanNow(plan *strategy.Plan, asked int) (now *strategy.Plan) {
	if !plan.Percents() {
		return plan
	}
	var chunks int
	var k key
	p.Look(func(m *machine.Machine) {
		chunks = int(m.InFlight()) + p.Waiting() + asked
		k = key{plan, plan.NumbersAt(chunks)}
		now = p.plans[k]
	})
	if now == nil {
		now = plan.Now(chunks) // without the mutex: a large plan takes long to compile
		p.Look(func(*machine.Machine) { now = p.keep(k, now) })
	}
	return now
}

// keep keeps a plan, and gives the one that another call kept meanwhile. The mutex is held.
func (p *Percents) keep(k key, now *strategy.Plan) *strategy.Plan {
	if kept := p.plans[k]; kept != nil {
		return kept
	}
	if p.plans == nil || len(p.plans) >= mostPlans {
		p.plans = map[key]*strategy.Plan{}
	}
	p.plans[k] = now
	return now
}
