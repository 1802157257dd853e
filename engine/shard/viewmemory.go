package shard

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// ViewMemory is how much memory the standing views of all shards of a server may take together: those of who reserves, and apart from
// them those that only questions made (preview, explain, why, compare), so that a client that may only read takes nothing from consumers.
// A view is refused when there is no room for it and none that is idle can go for it. The methods are safe for concurrent use.
type ViewMemory struct{ views, asked budget }

// NewViewMemory bounds the views to so many bytes, and those of questions to a quarter of that beyond it.
func NewViewMemory(most uint64) *ViewMemory {
	m := &ViewMemory{}
	m.views.most, m.asked.most = int64(most), int64(most/4)
	return m
}

// budget is a bound and what is taken of it.
type budget struct {
	most int64
	used atomic.Int64
}

func (b *budget) over() bool { return b.used.Load() > b.most }

// Use is what all views take at the moment, and may take.
func (m *ViewMemory) Use() api.Views {
	return api.Views{
		Bytes: uint64(max(m.views.used.Load(), 0)), BytesMost: uint64(m.views.most),
		QuestionBytes: uint64(max(m.asked.used.Load(), 0)), QuestionBytesMost: uint64(m.asked.most),
	}
}

func (m *ViewMemory) of(asked bool) *budget {
	if asked {
		return &m.asked
	}
	return &m.views
}

// Views are the shard's standing views, which take from what the server has for those of all its shards.
type Views struct {
	s       *Shard
	counted backlog.Memory                // what ViewMemory was told that they take
	owned   map[*access.Use]int64         // what access tokens were told that those made for them take
	refused struct{ views, asked uint64 } // for want of memory
}

// build goes on with a view that is not built, for one slice: first it takes apart what dropped views left, so that their memory is free
// before this one needs it. The error says that there is no room for it. The mutex is held.
func (p *Views) build(ctx context.Context, v *backlog.View) error {
	b := p.s.m.Backlog
	promised := b.Views.Promise(v)
	if promised > 0 {
		if err := p.own(ctx, v); err != nil {
			return err
		}
	}
	if promised > 0 && !p.room(v) {
		asked := v.Asked() // Forgo may take the view apart
		b.Views.Forgo(v)
		p.count()
		return p.noRoom(asked, promised)
	}
	if b.Views.Sweep(buildSlice) {
		v.Build(buildSlice)
	}
	return nil
}

// room says whether a view may be built, dropping idle ones for it.
func (p *Views) room(v *backlog.View) bool {
	p.count()
	for of := p.s.options.ViewMemory.of(v.Asked()); of.over(); {
		if p.s.m.Backlog.Views.DropIdle(v.Asked(), backlog.Idle) == 0 {
			return false
		}
		p.count()
	}
	return true
}

// noRoom refuses a reserve or a question.
func (p *Views) noRoom(asked bool, promised uint64) error {
	of := p.s.options.ViewMemory.of(asked)
	count := &p.refused.views
	why := "Reserve by fewer different strategies at the same time, by one limit each, whose number may differ, or " +
		"have the server's option view-memory raised."
	if asked {
		count = &p.refused.asked
		why = "Ask again when no other question is being answered, about a strategy that is in use, or have the " +
			"server's option view-memory raised, a quarter of which is for questions."
	}
	*count++
	return &queue.Error{Code: queue.CodeOverloaded, Message: fmt.Sprintf(
		"The strategy needs an index of its own of about %d MiB in memory, and of %d MiB for such "+
			"indexes %d are in use. %s", (promised>>20)+1, of.most>>20, max(of.used.Load(), 0)>>20, why)}
}

// release gives back what a shard's views took.
func (m *ViewMemory) release(taken *backlog.Memory) {
	m.views.used.Add(-int64(taken.Views))
	m.asked.used.Add(-int64(taken.Asked))
	*taken = backlog.Memory{}
}

// count tells the server how much the shard's views take now. The mutex is held.
func (p *Views) count() {
	now := p.s.m.Backlog.Views.Memory()
	m := p.s.options.ViewMemory
	m.views.used.Add(int64(now.Views) - int64(p.counted.Views))
	m.asked.used.Add(int64(now.Asked) - int64(p.counted.Asked))
	p.counted = now
	p.countOwners()
}

// tidy drops views that no one has used for long: beyond a number, those of a minute ago when half of the memory for views is
// taken, idle ones when all is, and any but those that someone waits on when they grew far beyond. The mutex is held.
func (p *Views) tidy() {
	b := p.s.m.Backlog
	b.Views.Tick()
	b.Views.Drop(keepViews)
	p.count()
	for _, asked := range []bool{false, true} {
		of := p.s.options.ViewMemory.of(asked)
		for how := range backlog.NotIdle + 1 {
			bound := [...]int64{backlog.Idle: of.most, backlog.LongIdle: of.most / 2, backlog.NotIdle: of.most + of.most/8}[how]
			for of.used.Load() > bound && b.Views.DropIdle(asked, how) > 0 {
				p.count()
			}
		}
	}
}

// List are the standing views, the largest first.
func (p *Views) List() []api.View {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []api.View{}
	if s.usable() != nil {
		return list
	}
	s.m.Backlog.EachView(func(v *backlog.View) {
		list = append(list, api.View{Branch: v.Branch(), Bytes: v.Bytes(), Question: v.Asked(), Built: v.Built()})
	})
	slices.SortFunc(list, func(a, b api.View) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Branch, b.Branch))
	})
	return list
}

// DefaultViewMemory is what a shard's views may take when no one bounds them.
const DefaultViewMemory = 1 << 30
