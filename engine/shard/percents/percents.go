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
	Waiting func() int // the number of chunks that calls ask for that wait in this shard alone; the mutex is held

	plans Plans // guarded by the mutex
}

// PlanNow is a plan with a number in place of each percentage, for a call for so many chunks. The percentage is of the
// chunks that are in flight or asked for: calls that wait count, too. Without them, a fleet that waits for work of one
// value would never get more of it than one call asks for.
func (p *Percents) PlanNow(plan *strategy.Plan, asked int) *strategy.Plan {
	if !plan.Percents() {
		return plan
	}
	return p.numbered(plan, asked) // a function of its own, so that other plans cost no memory
}

func (p *Percents) numbered(plan *strategy.Plan, asked int) (now *strategy.Plan) {
	var chunks int
	p.Look(func(m *machine.Machine) {
		chunks = p.Asked(m) + asked
		now = p.plans.Find(plan, chunks)
	})
	if now == nil {
		now = plan.Now(chunks) // without the mutex: a large plan takes long to compile
		p.Look(func(*machine.Machine) { now = p.plans.Keep(plan, chunks, now) })
	}
	return now
}

// Asked is how many chunks are in flight or asked for by calls that wait in this shard alone. The mutex is held.
func (p *Percents) Asked(m *machine.Machine) int { return int(m.InFlight()) + p.Waiting() }

// Plans are plans with numbers that were used lately. It has no lock.
type Plans struct{ of map[key]*strategy.Plan }

// key is a plan with the numbers in place of its percentages.
type key struct {
	of      *strategy.Plan
	numbers string
}

// mostPlans bounds the plans that are kept. A fleet of a steady size needs a few for each strategy.
const mostPlans = 64

// Find finds a plan as it is for so many chunks; nil: it is not kept.
func (p *Plans) Find(plan *strategy.Plan, chunks int) *strategy.Plan {
	return p.of[key{plan, plan.NumbersAt(chunks)}]
}

// Keep keeps a plan as it is for so many chunks. If another call kept one meanwhile, it returns that one.
func (p *Plans) Keep(plan *strategy.Plan, chunks int, now *strategy.Plan) *strategy.Plan {
	k := key{plan, plan.NumbersAt(chunks)}
	if kept := p.of[k]; kept != nil {
		return kept
	}
	if p.of == nil || len(p.of) >= mostPlans {
		p.of = map[key]*strategy.Plan{}
	}
	p.of[k] = now
	return now
}
