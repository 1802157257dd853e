package shard

import (
	"context"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// Reserves by a Fair block that the shards of a queue share out together. The plan of these calls has one branch, which
// is such a block.

// ShareTogether has a shard tell the ledger of this id how the tenants of the branch stand in it, all of them if it is
// asked for that. fresh: it tells all of them, and what it told before counts no more. at is when it told this.
func ShareTogether(ctx context.Context, s *Shard, plan *strategy.Plan, id uint64, all bool) (news []backlog.TenantNews,
	fresh bool, at Moment, err error) {
	now := s.options.Now()
	err = overViews(ctx, s, plan, func(views []*backlog.View) (again bool) {
		fresh = views[0].ShareTogether(id, all)
		news, at = views[0].News(nil), moment(s, now)
		return false
	})
	return news, fresh, at, err
}

// TenantHeads are what the alternatives of the branch give next of a tenant; the zero Head: nothing.
func TenantHeads(ctx context.Context, s *Shard, plan *strategy.Plan, of backlog.TenantName) (heads []backlog.Head,
	err error) {
	err = overViews(ctx, s, plan, func(views []*backlog.View) (again bool) {
		s.m.Backlog.Allow(machine.ShelveMost)
		heads = s.m.Backlog.TenantHeads(views[0], of, s.m.Rnd)
		again = s.m.Backlog.Tired()
		s.m.Backlog.Allow(0)
		return again
	})
	return heads, err
}
