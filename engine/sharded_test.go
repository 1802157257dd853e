package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

const shardedName = "orders"

// openSharded opens an engine with seeded draws, and the queue "orders" of so many shards in it.
func openSharded(t *testing.T, dir string, shards uint8) (*Engine, Work) {
	t.Helper()
	return openShardedAt(t, dir, shards, time.Now)
}

// openShardedAt is openSharded with a clock.
func openShardedAt(t *testing.T, dir string, shards uint8, now func() time.Time) (*Engine, Work) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(seed, 39))
	e, err := Open(t.Context(), Options{Dir: dir, Now: now, BallastBytes: -1, Seed: func() uint64 {
		mu.Lock()
		defer mu.Unlock()
		return rnd.Uint64()
	}})
	if err != nil {
		t.Fatal(err)
	}
	settings := queue.DefaultSettings()
	settings.Shards = shards
	if _, _, err := e.PutQueue(t.Context(), shardedName, settings); err != nil {
		t.Fatal(err)
	}
	return e, workAt(t, e)
}

func workAt(t *testing.T, e *Engine) Work {
	t.Helper()
	work, err := e.Work(shardedName)
	if err != nil {
		t.Fatal(err)
	}
	return work
}

// put1 inserts one submission into a group.
func put1(t *testing.T, w Work, n queue.NewSubmission) queue.Submission {
	t.Helper()
	if n.Chunks.Count == 0 {
		n.Chunks.Count = 1
	}
	n.Chunks.Prefix, n.OperationsPerChunk = "x/", 1
	list := []queue.Insertion{{New: &n}}
	if err := errors.Join(w.InsertMany(t.Context(), list, false), list[0].Err); err != nil {
		t.Fatal(err)
	}
	return list[0].Submission
}

func reserveBy(t *testing.T, w Work, strategy string, most int, wait time.Duration) (ReserveResult, error) {
	t.Helper()
	asked, err := w.Asked(t.Context(), fmt.Appendf(nil, "%q", strategy))
	if err != nil {
		t.Fatal(err)
	}
	return w.Reserve(t.Context(), ReserveRequest{Max: most, Plan: asked.Plan, Wait: wait, Limited: queue.MaxLimited}, nil)
}

// takenBy reserves, and fails if that is refused.
func takenBy(t *testing.T, w Work, strategy string, most int) []queue.Reservation {
	t.Helper()
	got, err := reserveBy(t, w, strategy, most, 0)
	if err != nil {
		t.Fatal(err)
	}
	return got.Reservations
}

func with(change func(*queue.Settings)) queue.Settings {
	s := queue.DefaultSettings()
	change(&s)
	return s
}

// The first shard has another name in calls than in its entries.
func TestAuditOfAShardedQueueLacksNothing(t *testing.T) {
	t.Parallel()
	e, _ := openSharded(t, t.TempDir(), 3)
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	page, err := e.Audit(AuditFilter{}, "", 100)
	if err != nil || len(page.Items) == 0 || len(page.Lacks) != 0 {
		t.Fatalf("%d entries, without those of %q: %v", len(page.Items), page.Lacks, err)
	}
}

// Finishing goes to the shards that the tokens name, in one call, and the results come back in order.
func TestFinishOverShards(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 4)
	defer closed(t, e)
	for i := range 40 {
		put1(t, w, queue.NewSubmission{Group: fmt.Sprint("g", i)})
	}
	held := takenBy(t, w, "Random", 40)
	asked, err := w.Asked(t.Context(), []byte(`"Random"`))
	if err != nil || len(held) != 40 {
		t.Fatal(len(held), err)
	}
	x := Exchange{Reserve: &ReserveRequest{Max: 5, Plan: asked.Plan}}
	for i := range held {
		switch i % 3 {
		case 0:
			x.Complete = append(x.Complete, queue.CompleteItem{Token: held[i].Token})
		case 1:
			x.Fail = append(x.Fail, queue.FailItem{Token: held[i].Token, Error: "no"})
		default:
			x.Extend = append(x.Extend, queue.ExtendItem{Token: held[i].Token, Timeout: 60_000})
		}
	}
	wrong := held[0].Token
	wrong.Submission = queue.MakeSubmissionID(wrong.Submission.Time(), 999, 0)
	x.Complete = slices.Insert(x.Complete, 3, queue.CompleteItem{Token: wrong})
	var out Exchanged
	if err := w.Exchange(t.Context(), x, &out); err != nil {
		t.Fatal(err)
	}
	for i, r := range out.Complete {
		if want := map[bool]queue.Outcome{true: queue.OutcomeUnknown, false: queue.OutcomeOK}[i == 3]; r.Outcome != want {
			t.Errorf("completion %d answers %v, want %v", i, r.Outcome, want)
		}
	}
	for i, r := range slices.Concat(out.Fail, out.Extend) {
		if r.Outcome != queue.OutcomeOK {
			t.Errorf("item %d of what was failed and extended answers %v", i, r.Outcome)
		}
	}
	if len(out.Complete) != 15 || len(out.Fail) != 13 || len(out.Extend) != 13 {
		t.Errorf("there are %d, %d and %d results", len(out.Complete), len(out.Fail), len(out.Extend))
	}
	again, err := w.Complete(t.Context(), x.Complete, nil)
	if err != nil || again[0].Outcome != queue.OutcomeAlready || again[3].Outcome != queue.OutcomeUnknown {
		t.Errorf("the same completions once more: %v, %v", again, err)
	}
	var sum [3]uint64
	for _, q := range e.all() {
		stats := q.Stats().Stats
		sum[0], sum[1], sum[2] = sum[0]+stats.Reserved, sum[1]+stats.DoneTotal, sum[2]+stats.FailedTotal
	}
	if sum != [3]uint64{13, 14, 13} {
		t.Errorf("in all shards, %d chunks are reserved, %d done and %d failed", sum[0], sum[1], sum[2])
	}
}

// A submission that a completion inserts is in its commit, and so in its shard: a group of another shard is refused by its place.
func TestCompletionBringsIntoItsShard(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 4)
	defer closed(t, e)
	first := put1(t, w, queue.NewSubmission{Group: "a"})
	elsewhere := ""
	for i := 0; elsewhere == ""; i++ {
		if s := put1(t, w, queue.NewSubmission{Group: fmt.Sprint("g", i)}); s.ID.Shard() != first.ID.Shard() {
			elsewhere = s.Group
		}
	}
	held := takenBy(t, w, `SelectOnly("group", "a", Random)`, 1)
	bring := func(group string) ([]queue.Result, []queue.Insertion, error) {
		list := []queue.Insertion{{New: &queue.NewSubmission{Group: group, OperationsPerChunk: 1, Chunks: queue.Chunks{Count: 1, Prefix: "n/"}}}}
		results, err := w.Complete(t.Context(), []queue.CompleteItem{{Token: held[0].Token, Insert: list}}, nil)
		return results, list, err
	}
	if _, _, err := bring(elsewhere); queue.CodeOf(err) != queue.CodeInvalid ||
		!strings.Contains(err.Error(), "/items/0/insert/0/group") || !strings.Contains(err.Error(), "a call of its own") {
		t.Errorf("a completion that brings another shard's group answers %v", err)
	}
	results, list, err := bring("fresh")
	if err != nil || results[0].Outcome != queue.OutcomeOK || list[0].Submission.ID.Shard() != first.ID.Shard() {
		t.Errorf("a completion that brings a new group answers %v, %v: %+v", results, err, list[0].Submission)
	}
}

// A consumer is attached in every shard, and leaves them all.
func TestAttachedOverShards(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 3)
	defer closed(t, e)
	for i := range 12 {
		put1(t, w, queue.NewSubmission{Group: fmt.Sprint("g", i)})
	}
	stream, err := e.Attach(t.Context(), shardedName, "w1", "")
	if err != nil {
		t.Fatal(err)
	}
	asked, err := w.Asked(t.Context(), []byte(`"Random"`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := w.Reserve(t.Context(), ReserveRequest{Max: 12, Plan: asked.Plan, Consumer: "w1"}, nil)
	if err != nil || len(got.Reservations) != 12 {
		t.Fatalf("%d chunks were taken, %v", len(got.Reservations), err)
	}
	if n := stream.Next(); !n.Hello || n.Held != 12 || n.Over {
		t.Errorf("the first notice is %+v", n)
	}
	if n, err := e.Detach(shardedName, "w1"); err != nil || n != 12 {
		t.Errorf("%d chunks were released, %v", n, err)
	}
	<-stream.Wake()
	if n := stream.Next(); !n.Over {
		t.Errorf("the stream of a consumer that left says %+v", n)
	}
	stream.Close(true)
}

// moreShards gives the queue so many shards.
func moreShards(t *testing.T, e *Engine, shards uint8) {
	t.Helper()
	if _, _, err := e.PutQueue(t.Context(), shardedName, with(func(s *queue.Settings) { s.Shards = shards })); err != nil {
		t.Fatal(err)
	}
}

// A call that named a queue with one shard is about all shards if the queue gets more before the call reserves. A call that named the first
// shard is not.
func TestCallBesideMoreShards(t *testing.T) {
	t.Parallel()
	e, before := openSharded(t, t.TempDir(), 1)
	defer closed(t, e)
	moreShards(t, e, 3)
	const limited = `MaxSimultaneous("company", 1, OldestFirst)`
	for i := range 12 {
		put1(t, queueAt(e, queue.ShardName(shardedName, i%3+1)), queue.NewSubmission{Group: fmt.Sprint("g", i),
			Meta: queue.Meta{{Key: "company", Value: queue.IntValue(int64(i % 2))}}})
	}
	asked, err := before.Asked(t.Context(), fmt.Appendf(nil, "%q", limited))
	if err != nil {
		t.Fatal(err)
	}
	request := ReserveRequest{Max: 10, Plan: asked.Plan, Of: shardedName}
	got, err := before.Reserve(t.Context(), request, nil)
	if err != nil || len(got.Reservations) != 2 {
		t.Fatalf("%d chunks and %v, want one of each company", len(got.Reservations), err)
	}
	var out Exchanged
	done := []queue.CompleteItem{{Token: got.Reservations[0].Token}}
	err = before.Exchange(t.Context(), Exchange{Complete: done, Reserve: &request}, &out)
	if err != nil || len(out.Reserve.Reservations) != 1 {
		t.Errorf("an exchange: %d chunks and %v, want one", len(out.Reserve.Reservations), err)
	}
	request.Of = queue.ShardName(shardedName, 1)
	if _, err := before.Reserve(t.Context(), request, nil); queue.CodeOf(err) != queue.CodeInvalid {
		t.Errorf("of the first shard alone: %v, want that it cannot be kept", err)
	}
}

// Calls that wait while a queue gets more shards wait in all shards from then on, and keep its limits over all of them.
func TestWaitBesideMoreShards(t *testing.T) {
	t.Parallel()
	e, work := openSharded(t, t.TempDir(), 1)
	defer closed(t, e)
	const limited = `MaxSimultaneous("company", 1, OldestFirst)`
	before := 1
	for _, after := range []int{2, 4} {
		answer := make(chan ReserveResult, 1)
		go func() {
			got, err := reserveBy(t, work, limited, 1, time.Minute)
			if err != nil {
				t.Error(err)
			}
			answer <- got
		}()
		for slices.ContainsFunc(e.all(), func(q *Queue) bool { return q.name != "default" && q.Stats().ConsumersWaiting == 0 }) {
			time.Sleep(time.Millisecond)
		}
		moreShards(t, e, uint8(after))
		for queueAt(e, queue.ShardName(shardedName, after)).Stats().ConsumersWaiting == 0 && len(answer) == 0 {
			time.Sleep(time.Millisecond)
		}
		put := func(shard int) queue.SubmissionID {
			return put1(t, queueAt(e, queue.ShardName(shardedName, shard)), queue.NewSubmission{Group: fmt.Sprint("g", shard, "of", after),
				Meta: queue.Meta{{Key: "company", Value: queue.IntValue(int64(after))}}}).ID
		}
		first := put(after)
		got := <-answer
		if len(got.Reservations) != 1 || got.Reservations[0].Token.Submission != first {
			t.Fatalf("the call that waited while %d shards became %d got %v, want the chunk of the new shard", before, after, got)
		}
		put(1)
		before, work = after, workAt(t, e)
		if more := takenBy(t, work, limited, 5); len(more) != 0 {
			t.Fatalf("%d chunks above the limit", len(more))
		}
	}
}

// A call that waits in the only shard of its queue gets nothing from it by its own counts when there are more.
func TestNoWaiterOfOneShardIgnoresTheOthers(t *testing.T) {
	t.Parallel()
	e, work := openSharded(t, t.TempDir(), 1)
	defer closed(t, e)
	const limited = `MaxSimultaneous("company", 1, OldestFirst)`
	answers := make(chan int, 2)
	for range 2 {
		go func() {
			got, err := reserveBy(t, work, limited, 1, time.Second)
			if err != nil {
				t.Error(err)
			}
			answers <- len(got.Reservations)
		}()
	}
	for queueAt(e, shardedName).Stats().ConsumersWaiting < 2 {
		time.Sleep(time.Millisecond)
	}
	moreShards(t, e, 2)
	got := 0
	for _, shard := range []int{2, 1} {
		put1(t, queueAt(e, queue.ShardName(shardedName, shard)), queue.NewSubmission{Group: fmt.Sprint("g", shard),
			Meta: queue.Meta{{Key: "company", Value: queue.IntValue(7)}}})
		got += len(takenBy(t, workAt(t, e), limited, 1))
	}
	if got += <-answers + <-answers; got != 1 {
		t.Fatalf("%d chunks of one company were handed out", got)
	}
}
