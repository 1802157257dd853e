package shard

import (
	"github.com/quern-queue/quern/engine/shard/schedules"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// parts are the features of a machine that are packages of their own. A recovery makes them with their machine, and a reload replaces both.
type parts struct {
	schedules *schedules.Part
}

// join makes the parts of a machine. Here is all that they are told of, and in which order.
func join(m *machine.Machine) (p parts) {
	p.schedules = schedules.New(m)
	m.Joined = machine.Joined{
		Parts:   []machine.Part{p.schedules},
		Opened:  []func(*machine.Record){p.schedules.Opened},
		Failing: []func(*machine.Record, string, queue.Time){p.schedules.Failing},
		Ended:   []func(*machine.Record){p.schedules.Ended},
		Ruled:   []func(){p.schedules.Ruled},
		Retried: []func(machine.Action) bool{p.schedules.Retried},
	}
	return p
}

// settle has them end a replay.
func (p *parts) settle() { p.schedules.Settle() }

// carry takes over what counts on over a reload.
func (p *parts) carry(old *parts) { p.schedules.Totals = old.schedules.Totals }
