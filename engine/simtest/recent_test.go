package simtest

import (
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// A repeated completion is answered as counted already, also after a checkpoint and a restart, for a chunk whose submission goes on and for
// one whose submission has ended.
func TestRepeatedCompleteAfterFoldAndRestart(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]func(b *box){
		"stopped": func(b *box) { b.close(); b.open() },
		"killed":  func(b *box) { b.crashed(0) },
		"twice": func(b *box) {
			b.close()
			b.open()
			if err := b.shard.Checkpoint(); err != nil {
				b.t.Error(err)
			}
			b.crashed(0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := openBox(t, relaxed())
			mustInsert(t, b, prefixed(1))
			mustInsert(t, b, prefixed(5))
			done := completions(mustReserve(t, b, "OldestFirst", 4))
			complete := func(when string, want queue.Outcome) {
				t.Helper()
				results, err := b.shard.Complete(ctx, done, nil)
				if err != nil {
					t.Fatal(err)
				}
				for i := range results {
					if results[i].Outcome != want {
						t.Errorf("%s: completion %d got %v (%s), want %v", when, i, results[i].Outcome, results[i].Code, want)
					}
				}
			}
			complete("at first", queue.OutcomeOK)
			if err := b.shard.Checkpoint(); err != nil {
				t.Fatal(err)
			}
			restart(b)
			complete("repeated", queue.OutcomeAlready)
		})
	}
}
