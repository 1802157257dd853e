package shard

import (
	"context"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// Reserves by a Fair block whose ledger the shards of a queue keep together. The plan of these calls has one branch,
// which is such a block.

// ShareTogether makes a shard report how the tenants of the branch stand, to the ledger of this id; with `all`, it
// reports all tenants. fresh: the report has all of them, and replaces earlier ones. at is the moment of the report.
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

// TenantHeads are the next candidates of a tenant in the alternatives of the branch; the zero Head: none.
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
