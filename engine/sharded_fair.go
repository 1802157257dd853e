package engine

// Fair over several shards of a node. One ledger has the tenants of all shards, and says whose turn it is. The shards report how their
// parts of the tenants stand. The shard that has the first chunk of the tenant whose turn it is gives it.
//
//	reserve ─► lock ─► shards tell what is new of tenants ─► ledger: whose turn? ─► heads of that tenant ─► take ─┐
//	                                                         ▲                                                    │
//	                                                         └────── the shard tells what that changed ◄──────────┘
//
// A ledger belongs to a branch, as in one shard, and lives as long as calls use it. A shard that restarts reports all its tenants again,
// and none of them gains or loses by that.

import (
	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/merge"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// fairShare is the division among tenants of all shards by one Fair branch.
type fairShare struct {
	*merge.Ledger
	id     uint64
	used   uint64                             // in fairShares.uses
	silent uint32                             // shards that could not report, by bit, and are to report all
	heard  [queue.MaxQueueShards]shard.Moment // when shards reported
}

// fairShares are those of a queue. Each is used under the lock of Sharded.counts.
type fairShares struct {
	of   map[string]*fairShare // by the key of the branch
	uses uint64
}

// share is the one of a branch. A new one replaces the least recently used, as a shard has no more either.
func (f *fairShares) share(s *Sharded, branch *strategy.Branch) *fairShare {
	if f.of == nil {
		f.of = map[string]*fairShare{}
	}
	x := f.of[branch.Key()]
	if x == nil {
		f.makeRoom()
		x = &fairShare{Ledger: merge.NewLedger(branch), id: s.e.options.Seed()}
		f.of[branch.Key()] = x
	}
	f.uses++
	x.used = f.uses
	return x
}

func (f *fairShares) makeRoom() {
	if len(f.of) < backlog.MaxLedgers {
		return
	}
	oldest := ""
	for key, x := range f.of {
		if oldest == "" || x.used < f.of[oldest].used {
			oldest = key
		}
	}
	delete(f.of, oldest)
}

// sharing is a reserve by one Fair branch.
type sharing struct {
	*merging
	branch *strategy.Branch
	plan   *strategy.Plan // of the branch alone
	share  *fairShare
}

// followFair takes by a Fair branch until there are enough chunks or no tenant has any.
func (m *merging) followFair(b int) {
	x := &sharing{merging: m, plan: m.plans[b], branch: &m.plans[b].Branches[0]}
	x.share = m.of.fair.share(m.of, x.branch)
	for i := range m.shards {
		x.hear(i)
	}
	var out []merge.TenantTurn
	for m.room() > 0 && m.ctx.Err() == nil {
		turn, ok := x.share.Begin()
		if !ok {
			break
		}
		if !x.turnOf(&turn) && x.share.Fail(&turn) {
			out = append(out, turn)
		}
	}
	for i := range out {
		x.share.Resume(&out[i])
	}
}

// hear learns what is new in a shard.
func (x *sharing) hear(i int) {
	own, is := x.shards[i].(ownShard)
	if !is || x.mute[i] {
		return
	}
	bit, at := uint32(1)<<(own.number-1), &x.share.heard[own.number-1]
	if at.Lasts(own.q.shard, x.of.counts.Now()) {
		return
	}
	news, fresh, now, err := shard.ShareTogether(x.ctx, own.q.shard, x.plan, x.share.id, x.share.silent&bit != 0)
	x.share.silent &^= bit
	if *at = now; err != nil {
		x.mute[i], x.err, *at = true, err, shard.Moment{}
		x.share.silent |= bit
		fresh, news = true, nil // its tenants give nothing now
	}
	x.share.Hear(news, own.number, fresh)
}

// turnOf takes one chunk of the tenant whose turn it is.
func (x *sharing) turnOf(turn *merge.TenantTurn) bool {
	heads := x.headsOf(turn)
	for arm := range x.branch.Inner {
		if x.takeOf(turn, arm, heads) {
			return true
		}
	}
	return false
}

// headsOf are what the shards give next of a tenant, by shard and alternative.
func (x *sharing) headsOf(turn *merge.TenantTurn) (heads [][]backlog.Head) {
	heads = make([][]backlog.Head, len(x.shards))
	for i, of := range x.shards {
		own, is := of.(ownShard)
		if !is || x.mute[i] || !x.share.In(turn, own.number) {
			continue
		}
		_ = x.know(i, nil) // a shard that fails says so in the next line
		list, err := shard.TenantHeads(x.ctx, own.q.shard, x.plan, turn.Name)
		if err != nil {
			x.mute[i], x.err = true, err
		}
		if heads[i] = list; nothing(list) {
			x.hear(i) // limits hold all of it back
		}
	}
	return heads
}

// takeOf takes one chunk of an alternative, from the shard whose chunk comes first.
func (x *sharing) takeOf(turn *merge.TenantTurn, arm int, all [][]backlog.Head) bool {
	heads := make([]backlog.Head, len(all))
	for i := range all {
		if len(all[i]) > arm {
			heads[i] = all[i][arm]
		}
	}
	leaf := &x.branch.Inner[arm]
	for range emptyDraws {
		x.turns = merge.Next(leaf, heads, 1, x.rnd, x.turns[:0])
		if len(x.turns) == 0 {
			return false
		}
		next := x.turns[0]
		request := x.request(x.plan, 1)
		request.Turn = &machine.Turn{Tenant: &backlog.TenantTurn{Name: turn.Name, Arm: arm, Bound: next.Bound, Weight: next.Weight,
			Estimate: turn.Estimate}}
		before := len(x.got)
		x.takeFrom(next.Shard, 0, request)
		x.hear(next.Shard)
		if len(x.got) > before {
			return true
		}
		heads[next.Shard] = x.again(next.Shard, turn, arm, leaf)
	}
	return false
}

// again is the next head of a shard after a turn that gave nothing. With an order, the shard is left out: something that heads do not show
// holds it back.
func (x *sharing) again(i int, turn *merge.TenantTurn, arm int, leaf *strategy.Branch) (h backlog.Head) {
	own, is := x.shards[i].(ownShard)
	if !is || x.mute[i] || leaf.Order != strategy.Random {
		return h
	}
	list, err := shard.TenantHeads(x.ctx, own.q.shard, x.plan, turn.Name)
	if err != nil || len(list) <= arm {
		return h
	}
	return list[arm]
}
