package shard

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/queue"
)

// Of several shards that are prepared on one journal, one becomes its owner. The others get `moved`, have changed
// nothing, and leave the owner alone.
func TestOneClaimWins(t *testing.T) {
	t.Parallel()
	dir, ctx := t.TempDir(), context.Background()
	how := sqlitelog.Options{Durability: queue.Relaxed, Shared: true}
	opens := func(ctx context.Context) (journal.Journal, error) {
		return sqlitelog.Open(ctx, filepath.Join(dir, "journal.db"), how)
	}
	withShardOn(t, dir, how, func(s *Shard) {
		if err := insertFive(s); err != nil {
			t.Fatal(err)
		}
	})
	const several = 4
	var all [several]*Prepared
	for i := range all {
		var err error
		if all[i], err = Prepare(ctx, optionsOn(t, t.TempDir(), opens)); err != nil { // a store of its own, which the journal fills
			t.Fatal(err)
		}
	}
	var owners [several]*Shard
	var group sync.WaitGroup
	for i := range all {
		group.Go(func() {
			var err error
			if owners[i], err = all[i].Claim(ctx); err != nil && queue.CodeOf(err) != queue.CodeMoved {
				t.Errorf("Claim = %v; want it to be made, or the code moved", err)
			}
		})
	}
	group.Wait()
	won := 0
	for _, s := range owners {
		if s == nil {
			continue
		}
		won++
		if got := s.Stats(); got.Ready != 5 || s.m.Epoch != 2 {
			t.Errorf("the owner has %d chunks ready and epoch %d, want 5 and 2", got.Ready, s.m.Epoch)
		}
		if err := insertFive(s); err != nil {
			t.Errorf("Insert of the owner: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d of %d became the owner, want 1", won, several)
	}
}
