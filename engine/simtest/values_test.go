package simtest

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// heard has the values that a shard reported to its owner.
type heard struct {
	values map[queue.MetaEntry]queue.ValueSettings
	starts int // how often all of them were reported
}

func (h *heard) take(list []journal.Set, all bool) {
	if all {
		h.values = map[queue.MetaEntry]queue.ValueSettings{}
		h.starts++
	}
	for _, set := range list {
		switch {
		case set.Kind != journal.SetValue:
		case set.Version == 0:
			delete(h.values, set.Entry)
		default:
			h.values[set.Entry] = set.Demand
		}
	}
}

// Settings for values hold from their answer on: after a failed commit, after a kill, and when only the rows are left. A setting of
// unknown outcome holds if the journal has it. The shard reports the same settings to its owner.
//
//quern:overlapping
func TestValuesOutliveAReload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, h := &faults{spare: true}, new(heard)
		b := newBox(t, relaxed())
		b.wrap, b.reported = f.wrap, h.take
		b.open()
		first := queue.MetaEntry{Key: "a", Value: queue.IntValue(1)}
		later := queue.MetaEntry{Key: "a", Value: queue.StringValue("1")}
		set := map[queue.MetaEntry]queue.ValueSettings{}
		check := func(when string) {
			t.Helper()
			for _, entry := range []queue.MetaEntry{first, later} {
				want, is := set[entry]
				if !is {
					want = queue.NoSettings()
				}
				if got := b.shard.Values.Settings(entry); got != want {
					t.Errorf("%s: %v is %+v, want %+v", when, entry, got, want)
				}
			}
			if !maps.Equal(h.values, set) {
				t.Errorf("%s: its owner was told %v, want %v", when, h.values, set)
			}
		}
		put := func(entry queue.MetaEntry, demand queue.ValueSettings) {
			b.setValue(entry, demand)
			if set[entry] = demand; demand == queue.NoSettings() {
				delete(set, entry)
			}
		}
		put(first, queue.ValueSettings{Limit: 3, Weight: 4})
		check("at first")
		put(later, queue.ValueSettings{Limit: 0})
		check("when more is set")
		for kind, holds := range map[fault]bool{unknownLost: false, unknownWritten: true} {
			f.arm(kind, 0)
			if err := b.putValue(first, queue.NoSettings()); queue.CodeOf(err) != queue.CodeCommitFailed {
				t.Errorf("a removal whose commit fails: got %v, want %s", err, queue.CodeCommitFailed)
			}
			synctest.Wait()
			if holds {
				delete(set, first)
			}
			check("after a reload")
			put(first, queue.ValueSettings{Limit: 5, Weight: 4})
		}
		if h.starts != 3 {
			t.Errorf("its owner was told of everything %d times, want 3: at the start and at two reloads", h.starts)
		}
		b.close()
		for _, when := range []string{"after a restart", "from the rows"} {
			b.open()
			check(when)
			must(t, b.shard.Checkpoint())
			b.close()
		}
		b.open()
		put(first, queue.NoSettings())
		check("after a removal")
		must(t, b.shard.Checkpoint())
		b.close()
		b.open()
		check("a removal in the rows")
		b.close()
	})
}

// A change of the restart grace with an unknown outcome that turns out to be written cuts a grace short as any other does.
//
//quern:overlapping
func TestReloadCutsGraceShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &faults{spare: true}
		settings := relaxed()
		settings.RestartGrace = time.Hour
		b := newBox(t, settings)
		b.wrap = f.wrap
		b.open()
		mustInsert(t, b, prefixed(4, number("company", 1)))
		b.setValue(number("company", 1), queue.ValueSettings{Limit: 3})
		b.crashed(time.Second)
		if got := mustReserve(t, b, "OldestFirst", 4); len(got) != 0 {
			t.Errorf("during the grace: got %d chunks of a limited value, want none", len(got))
		}
		settings.RestartGrace = 0
		f.arm(unknownWritten, 0)
		if err := b.putSettings(settings); queue.CodeOf(err) != queue.CodeCommitFailed {
			t.Errorf("got %v, want %s", err, queue.CodeCommitFailed)
		}
		synctest.Wait()
		b.tickAfter(0)
		if got := mustReserve(t, b, "OldestFirst", 4); len(got) != 3 {
			t.Errorf("after it: got %d chunks, want the 3 that the limit allows", len(got))
		}
	})
}
