package simtest

import (
	"testing"
	"testing/synctest"

	"github.com/quern-queue/quern/engine/queue"
)

// What is set for values holds from the start, and again when the state was made again after a failed commit.
func TestValuesOutliveAReload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &faults{spare: true}
		b := newBox(t, relaxed())
		b.wrap = f.wrap
		first := queue.MetaEntry{Key: "a", Value: queue.IntValue(1)}
		later := queue.MetaEntry{Key: "a", Value: queue.StringValue("1")}
		set := map[queue.MetaEntry]queue.ValueSettings{first: {Limit: 3, Weight: 4}}
		asked := 0
		b.values = func(fn func(queue.MetaEntry, queue.ValueSettings)) {
			asked++
			for entry, settings := range set {
				fn(entry, settings)
			}
		}
		b.open()
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
		}
		check("at the start")
		set[later] = queue.ValueSettings{Limit: 0}
		b.shard.Values.Set(later, set[later])
		check("after SetValue")
		f.arm(unknownLost, 0)
		if _, _, err := b.shard.Insert(ctx, &queue.NewSubmission{Chunks: queue.Chunks{Count: 1}}); queue.CodeOf(err) != queue.CodeCommitFailed {
			t.Errorf("insert: got %v, want %s", err, queue.CodeCommitFailed)
		}
		synctest.Wait()
		if asked != 2 {
			t.Errorf("the values were asked for %d times, want 2: at the start and at the reload", asked)
		}
		check("after a reload")
		delete(set, first)
		b.shard.Values.Set(first, queue.NoSettings())
		check("after a removal")
		b.close()
	})
}
