// Package views is the part of a shard that limits the memory of its standing views. One
// limit is for the views of all shards together, and one for those of each access token.
// The views themselves are in the backlog.
package views

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/sdk/api"
)

// Views are the standing views of a shard. They outlive a reload.
type Views struct {
	shell.Shell
	memory *Memory

	// The shard's mutex guards the rest.
	Counted backlog.Memory                // the memory that the server counts for them
	Refused struct{ Views, Asked uint64 } // for want of memory
	owned   map[*access.Use]int64         // the memory that each access token counts for its views
	closed  bool
}

// New is the views of a shard, which take their space from memory.
func New(s shell.Shell, memory *Memory) *Views { return &Views{Shell: s, memory: memory} }

// Close frees the memory of the views. The mutex is held.
func (v *Views) Close() {
	v.closed = true
	v.memory.change(v.Counted, backlog.Memory{})
	v.Counted = backlog.Memory{}
	v.tellOwners(nil)
}

// Build continues to build a view, for one slice. It first takes apart the remains of dropped views,
// so that their memory is free before this view needs it. It fails if there is no room for the view.
// The mutex is held.
func (v *Views) Build(ctx context.Context, b *backlog.Backlog, view *backlog.View) error {
	promised := b.Views.Promise(view)
	if promised > 0 {
		if err := v.own(ctx, b, view); err != nil {
			return err
		}
	}
	if promised > 0 && !v.room(b, view) {
		asked := view.Asked() // Forgo may take the view apart
		b.Views.Forgo(view)
		v.count(b)
		return v.noRoom(asked, promised)
	}
	if b.Views.Sweep(machine.LookMost) {
		view.Build(machine.LookMost)
	}
	return nil
}

// room says whether a view may be built, dropping idle ones for it.
func (v *Views) room(b *backlog.Backlog, view *backlog.View) bool {
	v.count(b)
	for of := v.memory.of(view.Asked()); of.over(); {
		if b.Views.DropIdle(view.Asked(), backlog.Idle) == 0 {
			return false
		}
		v.count(b)
	}
	return true
}

// noRoom refuses a reserve or a question.
func (v *Views) noRoom(asked bool, promised uint64) error {
	of := v.memory.of(asked)
	count := &v.Refused.Views
	why := "Use fewer different strategies at the same time (strategies that differ only in the number of a single " +
		"limit share an index), or have the server's option view-memory raised."
	if asked {
		count = &v.Refused.Asked
		why = "Ask again when the server answers no other question, ask about a strategy that consumers use, or have " +
			"the server's option view-memory raised: questions may use a quarter of it in addition."
	}
	*count++
	return &queue.Error{Code: queue.CodeOverloaded, Message: fmt.Sprintf(
		"The strategy needs an index of its own of about %d MiB in memory, and such indexes take %d MiB of the %d MiB "+
			"that they may take. %s", (promised>>20)+1, max(of.used.Load(), 0)>>20, of.most>>20, why)}
}

// count gives the server the present size of the shard's views. The mutex is held.
func (v *Views) count(b *backlog.Backlog) {
	now := b.Views.Memory()
	v.memory.change(v.Counted, now)
	v.Counted = now
	v.countOwners(b)
}

const (
	// keep is how many standing views of idle strategies may stay; beyond it the least recently used go.
	keep = 256
	// sweepSlice is how many entries of dropped views one hold of the mutex takes apart.
	sweepSlice = 5000
)

// Tidy drops views that have not been used for a while.
func (v *Views) Tidy() {
	clean := false
	v.Look(func(m *machine.Machine) {
		if clean = v.closed; !clean {
			v.tidy(m.Backlog)
		}
	})
	for !clean {
		v.Look(func(m *machine.Machine) { clean = m.Backlog.Views.Sweep(sweepSlice) })
	}
}

// tidy drops views that have not been used for a while: those beyond a number; those unused for a minute when half of
// the memory for views is taken; idle ones when all is taken; and any without waiters when they grew far beyond.
func (v *Views) tidy(b *backlog.Backlog) {
	b.Views.Tick()
	b.Views.Drop(keep)
	v.count(b)
	for _, asked := range []bool{false, true} {
		of := v.memory.of(asked)
		for how := range backlog.NotIdle + 1 {
			bound := [...]int64{backlog.Idle: of.most, backlog.LongIdle: of.most / 2,
				backlog.NotIdle: of.most + of.most/8}[how]
			for of.used.Load() > bound && b.Views.DropIdle(asked, how) > 0 {
				v.count(b)
			}
		}
	}
}

// List are the standing views, the largest first. While the shard cannot work there are none.
func (v *Views) List() []api.View {
	list := []api.View{}
	_ = v.Locked(func(m *machine.Machine, _ queue.Time) error {
		m.Backlog.EachView(func(view *backlog.View) {
			list = append(list, api.View{Branch: view.Branch(), Bytes: view.Bytes(), Question: view.Asked(),
				Built: view.Built()})
		})
		return nil
	})
	slices.SortFunc(list, func(a, b api.View) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Branch, b.Branch))
	})
	return list
}
