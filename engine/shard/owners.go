package shard

import (
	"context"
	"fmt"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
)

// A view counts in the share of the access token that it was made for, so that one token cannot take all memory for
// views. What a token has is added up from the views that there are, as often as these are: a view that is dropped is
// free by that.

// own has a view that is about to be built count in the share of who asks, or refuses it: an idle one of the
// token's own may go for it first. The mutex is held.
func (p *Views) own(ctx context.Context, v *backlog.View) error {
	use, limits := access.Of(ctx).Share()
	if use == nil || limits.Views == 0 {
		return nil
	}
	v.Owner = use
	p.countOwners()
	for use.Views.Load() > limits.Views {
		if p.s.m.Backlog.Views.DropIdleOf(use) == 0 {
			took := v.Bytes()
			p.s.m.Backlog.Views.Forgo(v)
			p.count()
			p.refused.views++
			return &queue.Error{Code: queue.CodeOverloaded, Message: fmt.Sprintf(
				"The strategy needs an index of its own of about %d MiB in memory, and the indexes that were made "+
					"for this access token take %d of the %d MiB that the server's option token-view-memory allows. "+
					"Reserve by fewer different strategies at the same time, wait until those that are not used any "+
					"more are dropped, or have the option raised.",
				took>>20+1, use.Views.Load()>>20, limits.Views>>20)}
		}
		p.countOwners()
	}
	return nil
}

// countOwners tells access tokens how much the shard's views that were made for them take now. The mutex is held.
func (p *Views) countOwners() {
	var now map[*access.Use]int64
	p.s.m.Backlog.EachView(func(v *backlog.View) {
		if use, ok := v.Owner.(*access.Use); ok {
			if now == nil {
				now = map[*access.Use]int64{}
			}
			now[use] += int64(v.Bytes())
		}
	})
	p.tellOwners(now)
}

// tellOwners is countOwners, with what they take.
func (p *Views) tellOwners(now map[*access.Use]int64) {
	for use, before := range p.owned {
		use.Views.Add(now[use] - before)
	}
	for use, bytes := range now {
		if _, there := p.owned[use]; !there {
			use.Views.Add(bytes)
		}
	}
	p.owned = now
}

// Open says whether a submission is open, as far as memory knows.
func (p *Submissions) Open(id queue.SubmissionID) bool {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.Live(id) != nil
}

// Attends says whether a consumer is attached, or was a moment ago and is waited for.
func (p *Consumers) Attends(name string) bool {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.roster.ByName[name]
	return c != nil && (len(c.Streams) > 0 || c.Away != 0)
}
