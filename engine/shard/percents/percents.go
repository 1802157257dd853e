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
	p.Look(func(m *machine.Machine) { now = p.of(plan, int(m.InFlight())+p.Waiting()+asked) })
	return now
}

// of is the plan for so many chunks.
func (p *Percents) of(plan *strategy.Plan, chunks int) *strategy.Plan {
	k := key{plan, plan.NumbersAt(chunks)}
	now := p.plans[k]
	if now == nil {
		if len(p.plans) >= mostPlans {
			clear(p.plans)
		}
		if p.plans == nil {
			p.plans = map[key]*strategy.Plan{}
		}
		now = plan.Now(chunks)
		p.plans[k] = now
	}
	return now
}
