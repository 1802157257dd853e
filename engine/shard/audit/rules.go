package audit

import (
	"errors"
	"fmt"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// rules counts the covered work, by asking the rules about each submission, and compares it with the counters: in all,
// for each value, and of operations. The counters exist so that other code need not ask for each submission.
func (p auditor) rules() error {
	m := p.m
	var found []error
	var all backlog.Amounts
	operations := uint64(0)
	values := map[queue.MetaEntry]backlog.Amounts{}
	flying := map[queue.MetaEntry]uint64{}
	m.Backlog.Each(func(sub *backlog.Submission) bool {
		r := sub.Data.(*machine.Record)
		want := queue.Unruled
		if rule, covered := m.Joined.Rules.Covering(r.ID, r.Meta()); covered {
			want = rule.Ruling()
		}
		if got := sub.Ruling(); got != want {
			found = append(found, fmt.Errorf("submission %s: it counts as under ruling %d, the rules say %d", r.ID, got,
				want))
		}
		for _, entry := range sub.Meta() {
			flying[entry] += uint64(sub.InFlight())
		}
		if r.Parked {
			return true
		}
		available := uint64(sub.Available())
		if want == queue.Unruled {
			operations += available * uint64(r.Details().Operations)
		}
		count(&all, want, available)
		for _, entry := range sub.Meta() {
			n := values[entry]
			count(&n, want, available)
			values[entry] = n
		}
		return true
	})
	if got := m.Backlog.Rules.Amounts(); got != all {
		found = append(found, fmt.Errorf("available: %+v are counted, %+v there", got, all))
	}
	if got := m.Stats.OperationsReady(m.Backlog); got != operations {
		found = append(found, fmt.Errorf("operations of what is ready: %d are counted, %d there", got, operations))
	}
	for entry, want := range flying {
		if got := m.Backlog.Values.Of(entry.Key, entry.Value).InFlight; got != want {
			found = append(found, fmt.Errorf("%s=%s: %d are counted as in flight, %d are", entry.Key,
				entry.Value.Quoted(), got, want))
		}
	}
	for entry, want := range values {
		v := m.Backlog.Values.Of(entry.Key, entry.Value)
		if got := (backlog.Amounts{Ready: v.Available, Paused: v.Paused, Blocked: v.Blocked}); got != want {
			found = append(found, fmt.Errorf("%s=%s: %+v are counted, %+v there", entry.Key, entry.Value.Quoted(), got,
				want))
		}
	}
	return errors.Join(found...)
}

func count(a *backlog.Amounts, ruling queue.Ruling, by uint64) {
	switch ruling {
	case queue.PausedByRule:
		a.Paused += by
	case queue.BlockedByRule:
		a.Blocked += by
	default:
		a.Ready += by
	}
}
