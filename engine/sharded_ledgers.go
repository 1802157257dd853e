package engine

import (
	"cmp"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/inspect"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

// The answers about ledgers of Fair over several shards. Each shard has a ledger of the same branch, which knows only what the shard gave
// itself, so the ledger of all shards takes its place.

// branchIn is the Fair branch with this ledger, and its share over all shards; nil: there is none. The lock of Sharded.counts is held.
func (f *fairShares) branchIn(id string) (branch string, x *fairShare) {
	for branch, x := range f.of {
		if inspect.LedgerID(branch, 0) == id {
			return branch, x
		}
	}
	return "", nil
}

// ledger is its entry in a list of ledgers.
func (x *fairShare) ledger(branch string) api.Ledger {
	totals := x.Totals()
	out := api.Ledger{ID: inspect.LedgerID(branch, 0), Branch: branch, Key: cmp.Or(x.Key, strategy.SubmissionKey),
		Cost: strategy.ByChunk.String(), Places: 1, Active: totals.Active, Owing: totals.Owing, Blocked: totals.Blocked}
	if x.Time {
		out.Cost = strategy.ByTime.String()
	}
	return out
}

// overShards puts the ledgers of all shards in the place of those of one shard.
func overShards(s *Sharded, list []api.Ledger) {
	s.counts.Locked(func() {
		for i := range list {
			if share := s.fair.of[list[i].Branch]; share != nil && list[i].Depth == 0 {
				list[i] = share.ledger(list[i].Branch)
			}
		}
	})
}

// ledgerSlice is how many tenants are looked at in one hold of the lock, which reserves wait for.
const ledgerSlice = 4096

// lone says that a tenant is not inside of others.
func lone() []backlog.Tenant { return nil }

// tenantsOverShards lists the tenants of a ledger of all shards. found is false if there is none with this id.
func tenantsOverShards(s *Sharded, id string, order LedgerOrder, only *queue.MetaValue, most int) (
	list api.LedgerTenants, found bool) {
	listed := inspect.NewListed(order, only, most)
	var of api.Ledger
	whole := true
	for at, more := 0, true; more && whole; at += ledgerSlice {
		s.counts.Locked(func() {
			branch, share := s.fair.branchIn(id)
			if found = share != nil; found {
				of = share.ledger(branch)
				more = share.Each(at, ledgerSlice, func(t *backlog.Tenant) { listed.Add(t, lone) })
				whole = !more || at+ledgerSlice < inspect.MostMembers
			}
		})
		if !found {
			return list, false
		}
	}
	return listed.Answer(of, whole), true
}
