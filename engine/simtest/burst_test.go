package simtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// 19: after 10^4 expiries at once, a pool of 100 consumers gives at most 30 of its slots to expired chunks, at any instant, as
// long as there is other work; the expired chunks get done all the same. Consumers take a chunk each, work on it for some
// seconds, and take the next; the strategy prefers old chunks.
func TestBurstOfExpiries(t *testing.T) {
	t.Parallel()
	for _, share := range []float64{0, 0.1, queue.DefaultSuspectShare, 1} {
		t.Run(fmt.Sprint(share), func(t *testing.T) {
			t.Parallel()
			const burst, slots = 10_000, 100
			settings := relaxed()
			settings.SuspectShare = share
			b := openBox(t, settings)
			old := mustInsert(t, b, prefixed(burst))
			for range burst / 1000 {
				if got, err := b.shard.Reserve(ctx, machine.Request{Plan: plan(t, "OldestFirst"), Max: 1000, Timeout: time.Minute}, nil); err != nil || len(got.Reservations) != 1000 {
					t.Fatalf("reserved %d %v, want 1000", len(got.Reservations), err)
				}
			}
			mustInsert(t, b, prefixed(2_000_000)) // fresh work without end
			b.tickAfter(time.Minute)
			b.tickAfter(2 * time.Second) // the back-off of the last
			limit := int(share * slots)
			switch share {
			case 0:
				limit = 0
			case 1:
				limit = slots
			}
			var held [slots]queue.Reservation
			var busy [slots]int // seconds left
			r := newRand(7, 7)
			most, finished, fresh := 0, 0, 0
			for second := range 300 {
				for i := range held {
					if busy[i]--; busy[i] > 0 {
						continue
					}
					if held[i].Token.Sequence != 0 {
						if results, err := b.shard.Complete(ctx, completions(held[i:i+1]), nil); err != nil || results[0].Outcome != queue.OutcomeOK {
							t.Fatalf("second %d: complete: %v %v", second, results, err)
						}
						if held[i].Token.Submission == old.ID {
							finished++
						} else {
							fresh++
						}
					}
					held[i], busy[i] = mustReserve(t, b, "OldestFirst", 1)[0], 1+r.IntN(5)
					suspects := 0
					for j := range held {
						if held[j].Token.Submission == old.ID {
							suspects++
						}
					}
					most = max(most, suspects)
				}
				b.tickAfter(time.Second)
			}
			if most > limit || limit > 0 && most < limit*9/10 {
				t.Errorf("share %g: at most %d of %d slots held what expired, want at most %d and nearly so many; %+v", share, most, slots, limit, b.shard.Work().Suspects)
			}
			if total := finished + fresh; share < 1 && float64(fresh) < (1-share)*float64(total)*0.99 {
				t.Errorf("share %g: %d of %d chunks that were done are fresh, want %g of them", share, fresh, total, 1-share)
			}
			if share > 0 && finished == 0 {
				t.Errorf("share %g: nothing of what expired is done", share)
			}
			if err := b.shard.Audit(); err != nil {
				t.Error(err)
			}
			t.Logf("share %g: at most %d slots, %d of what expired and %d fresh done", share, most, finished, fresh)
		})
	}
}

// A crash at any point of the end of a submission leaves it either open or ended with the same counts and chunks: before the
// answer's commit, during and after the sweep of its reservations, between the steps of the checkpoint, and after it.
func TestCrashWhileSweeping(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	sub := mustInsert(t, b, prefixed(5000))
	held := mustReserve(t, b, "OldestFirst", 1000)
	for range 3 {
		held = append(held, mustReserve(t, b, "Random", 1000)...)
	}
	b.mustFail(held[:100], func(f *queue.FailItem) { f.HasRetry, f.RetryAfter = true, 60_000 })
	if _, err := b.shard.Complete(ctx, completions(held[100:150]), nil); err != nil {
		t.Fatal(err)
	}
	type moment struct {
		name, dir string
		ended     bool
	}
	var moments []moment
	remember := func(name string, ended bool) {
		m := moment{name, t.TempDir(), ended}
		b.copyFiles("journal.db", m.dir)
		b.copyFiles("store.db", m.dir)
		moments = append(moments, m)
	}
	remember("before", false)
	if _, err := b.shard.Submissions.Cancel(ctx, sub.ID); err != nil {
		t.Fatal(err)
	}
	remember("answered", true)
	for from := uint32(0); from < 5000; from += 1000 { // readers drive the sweep on, slice by slice
		if _, _, err := b.shard.Submissions.Chunks(ctx, sub.ID, nil, from, 10); err != nil {
			t.Fatal(err)
		}
		remember(fmt.Sprint("read from ", from), true)
	}
	b.clock.pass(time.Minute)
	b.shard.Worker.Tick()
	remember("swept", true)
	checkpointed, err := b.store.Checkpointed(ctx)
	if err != nil {
		t.Fatal(err)
	}
	journalBefore := t.TempDir()
	b.copyFiles("journal.db", journalBefore)
	if err := b.shard.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	remember("checkpointed", true)
	between := moment{"between the steps of the checkpoint", journalBefore, true}
	b.copyFiles("store.db", between.dir)
	rewindFolded(t, between.dir, checkpointed)
	moments = append(moments, between)

	wantDone := map[uint32]bool{}
	for _, r := range held[100:150] {
		wantDone[r.Token.Index] = true
	}
	b.close()
	for _, m := range moments {
		b.dir = m.dir
		b.open()
		got := b.sub(sub.ID)
		if m.ended && (got.State != queue.Cancelled || got.Done != 50 || got.Skipped != 4950 || got.Reserved != 0) {
			t.Errorf("crash %s: %+v, want cancelled with 50 done and 4950 skipped", m.name, got)
		}
		if !m.ended && (got.State != queue.Open || got.Done != 50 || got.Ready+got.Waiting != 4950) {
			t.Errorf("crash %s: %+v, want open with 50 done", m.name, got)
		}
		for from := uint32(0); from < 5000; {
			list, next, err := b.shard.Submissions.Chunks(ctx, sub.ID, nil, from, 1000)
			if err != nil {
				t.Fatalf("crash %s: %v", m.name, err)
			}
			for i := range list {
				if is := list[i].State == queue.ChunkDone; is != wantDone[list[i].Index] || m.ended && !is && list[i].State != queue.ChunkSkipped {
					t.Fatalf("crash %s: chunk %d is %s, done wanted: %v", m.name, list[i].Index, list[i].State, wantDone[list[i].Index])
				}
			}
			from = next
		}
		if err := b.shard.Audit(); err != nil {
			t.Errorf("crash %s: %v", m.name, err)
		}
		b.close()
	}
}
