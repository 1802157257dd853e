package views

import (
	"context"
	"fmt"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
)

// A view counts in the share of the access token that it was made for, so that one token cannot take all memory for
// views. The use of a token is the sum over the existing views, and is added up again each time they are counted, so
// dropping a view frees its share.

// own counts a view that is about to be built in the share of the caller's token, or refuses it. Idle views of the same
// token are dropped first. The mutex is held.
func (v *Views) own(ctx context.Context, b *backlog.Backlog, view *backlog.View) error {
	use, limits := access.Of(ctx).Share()
	if use == nil || limits.Views == 0 {
		return nil
	}
	view.Owner = use
	v.countOwners(b)
	for use.Views.Load() > limits.Views {
		if b.Views.DropIdleOf(use) == 0 {
			took := view.Bytes()
			b.Views.Forgo(view)
			v.count(b)
			v.Refused.Views++
			return &queue.Error{Code: queue.CodeOverloaded, Message: fmt.Sprintf(
				"The strategy needs an index of its own of about %d MiB in memory, and the indexes that were made "+
					"for this access token take %d of the %d MiB that the server's option token-view-memory allows. "+
					"Reserve by fewer different strategies at the same time, wait until those that are not used any "+
					"more are dropped, or have the option raised.",
				took>>20+1, use.Views.Load()>>20, limits.Views>>20)}
		}
		v.countOwners(b)
	}
	return nil
}

// countOwners gives each access token the present size of the shard's views that were made for it. The mutex is held.
func (v *Views) countOwners(b *backlog.Backlog) {
	var now map[*access.Use]int64
	b.EachView(func(view *backlog.View) {
		if use, ok := view.Owner.(*access.Use); ok {
			if now == nil {
				now = map[*access.Use]int64{}
			}
			now[use] += int64(view.Bytes())
		}
	})
	v.tellOwners(now)
}

// tellOwners is countOwners, with the sizes.
func (v *Views) tellOwners(now map[*access.Use]int64) {
	for use, before := range v.owned {
		use.Views.Add(now[use] - before)
	}
	for use, bytes := range now {
		if _, there := v.owned[use]; !there {
			use.Views.Add(bytes)
		}
	}
	v.owned = now
}
