package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// Behaviour 119: over four shards every order is the order of one queue, for any number at a time, through filters and through
// alternatives.
func TestShardsMakeOneOrder(t *testing.T) {
	t.Parallel()
	older := func(a, b *queue.Submission) int { return cmp.Compare(a.ID, b.ID) }
	first := func(a, b *queue.Submission) int { return cmp.Or(cmp.Compare(b.Priority, a.Priority), older(a, b)) }
	kind := func(s *queue.Submission, n int64) bool {
		value, _ := s.Meta.Find("kind")
		return value == queue.IntValue(n)
	}
	for _, test := range []struct {
		strategy string
		compare  func(a, b *queue.Submission) int
		admits   func(*queue.Submission) bool
	}{
		{"OldestFirst", older, nil},
		{"NewestFirst", func(a, b *queue.Submission) int { return older(b, a) }, nil},
		{"CustomPriority", first, nil},
		{`SelectOnly("kind", 1, CustomPriority)`, first, func(s *queue.Submission) bool { return kind(s, 1) }},
		{`SelectAny("group", ["g1", "g2", "g3"], OldestFirst)`, older, func(s *queue.Submission) bool { return s.Group >= "g1" && s.Group <= "g3" }},
		{`SelectOnly("group", "g4", NewestFirst)`, func(a, b *queue.Submission) int { return older(b, a) }, func(s *queue.Submission) bool { return s.Group == "g4" }},
		{`OrElse(SelectOnly("kind", 2, OldestFirst), CustomPriority)`, func(a, b *queue.Submission) int {
			switch {
			case kind(a, 2) && kind(b, 2):
				return older(a, b)
			case kind(a, 2):
				return -1
			case kind(b, 2):
				return 1
			}
			return first(a, b)
		}, nil},
	} {
		t.Run(test.strategy, func(t *testing.T) {
			t.Parallel()
			e, w := openSharded(t, t.TempDir(), 4)
			defer closed(t, e)
			var all []*queue.Submission
			var want, got []queue.ChunkID
			for i := range 60 {
				s := put1(t, w, queue.NewSubmission{Group: fmt.Sprintf("g%d", rand.IntN(9)), Priority: rand.Int64N(5),
					Chunks: queue.Chunks{Count: uint32(1 + i%3)}, Meta: queue.Meta{number("kind", int64(i%4))}})
				if test.admits == nil || test.admits(&s) {
					all = append(all, &s)
				}
			}
			slices.SortStableFunc(all, test.compare)
			for _, s := range all {
				for index := range s.Chunks {
					want = append(want, queue.ChunkID{Submission: s.ID, Index: index})
				}
			}
			for {
				page := takenBy(t, w, test.strategy, 1+rand.IntN(12))
				for i := range page {
					got = append(got, queue.ChunkID{Submission: page[i].Token.Submission, Index: page[i].Token.Index})
				}
				if len(page) == 0 {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
		})
	}
}

// Behaviour 119: Random takes every chunk of all shards with the same probability, whatever the shards have.
//
//quern:sequential
func TestRandomIsUniformOverShards(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 4)
	defer closed(t, e)
	const draws = 8000
	want, got, total := map[queue.SubmissionID]float64{}, map[queue.SubmissionID]float64{}, 0.0
	for i := range 12 {
		count := []uint32{1, 9, 17, 33}[i%4] // no bounds of a sampler
		s := put1(t, w, queue.NewSubmission{Group: fmt.Sprintf("g%d", i), Chunks: queue.Chunks{Count: count}})
		want[s.ID] = float64(count)
		total += float64(count)
	}
	for range draws / 4 {
		page := takenBy(t, w, "Random", 4)
		items := make([]queue.ReleaseItem, len(page))
		for i := range page {
			got[page[i].Token.Submission]++
			items[i].Token = page[i].Token
		}
		if len(page) != 4 {
			t.Fatalf("%d chunks were taken of many", len(page))
		}
		if _, err := w.Release(t.Context(), items, nil); err != nil {
			t.Fatal(err)
		}
	}
	chi := 0.0
	for id, weight := range want {
		expected := draws * weight / total
		chi += (got[id] - expected) * (got[id] - expected) / expected
	}
	if chi > 38 { // 11 degrees of freedom: one in ten thousand, and less, as four are taken without putting back
		t.Errorf("chi-square is %.1f: got %v, want in proportion to %v", chi, got, want)
	}
}

// Behaviour 121: by the group, never more than two chunks of a value are in flight over four shards, however many ask.
func TestLimitsHoldOverShards(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 4)
	defer closed(t, e)
	const groups, each, consumers = 12, 40, 50
	for i := range groups {
		put1(t, w, queue.NewSubmission{Group: fmt.Sprintf("g%d", i), Chunks: queue.Chunks{Count: each}})
	}
	var inFlight [groups]atomic.Int32
	var done, over atomic.Int32
	var group sync.WaitGroup
	for range consumers {
		group.Go(func() {
			for done.Load() < groups*each {
				got, err := reserveBy(t, w, `MaxSimultaneous("group", 2, Random)`, 2, 20*time.Millisecond)
				if err != nil {
					t.Error(err)
					return
				}
				items := make([]queue.CompleteItem, len(got.Reservations))
				for i, r := range got.Reservations {
					name := r.Meta.GroupOf()
					var n int
					fmt.Sscanf(name, "g%d", &n)
					if inFlight[n].Add(1) > 2 {
						over.Add(1)
					}
					items[i].Token = r.Token
				}
				for _, r := range got.Reservations { // before the completion: from then on it may be another's
					var n int
					fmt.Sscanf(r.Meta.GroupOf(), "g%d", &n)
					inFlight[n].Add(-1)
				}
				if _, err := w.Complete(t.Context(), items, nil); err != nil {
					t.Error(err)
					return
				}
				done.Add(int32(len(items)))
			}
		})
	}
	group.Wait()
	if over.Load() > 0 || done.Load() != groups*each {
		t.Errorf("%d times more than two chunks of a group were in flight; %d of %d were done", over.Load(), done.Load(), groups*each)
	}
}

// A strategy that several shards cannot follow exactly is refused, and the error says what to do.
func TestWhatShardsCannotDo(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 2)
	defer closed(t, e)
	put1(t, w, queue.NewSubmission{Group: "a", Meta: queue.Meta{number("company", 7)}})
	for _, strategy := range []string{
		`MaxSimultaneous("company", 2, missing=one, Random)`, `MaxRate("company", 5, "1s", missing=one, Random)`,
		`Fair("company", Fair("user", Random))`, `OrElse(OldestFirst, Fair("group", Fair("$submission", Random)))`,
	} {
		if _, err := reserveBy(t, w, strategy, 1, 0); queue.CodeOf(err) != queue.CodeInvalid || !strings.Contains(err.Error(), "several shards") {
			t.Errorf("%s answers %v", strategy, err)
		}
	}
	for _, strategy := range []string{
		`MaxSimultaneous("group", 2, Random)`, `MaxRate("group", 1000, "1s", OldestFirst)`, `PreferDistinct("group", Random)`,
		`SelectOnly("group", "a", Fair("company", Fair("user", Random)))`, `Fair("company", Random)`, `OrElse(OldestFirst, Fair("group", Random))`,
	} {
		if _, err := reserveBy(t, w, strategy, 1, 0); err != nil {
			t.Errorf("%s answers %v", strategy, err)
		}
	}
	one := queueAt(e, queue.ShardName(shardedName, 1))
	for _, strategy := range []string{`MaxSimultaneous("company", 2, Random)`, `MaxRate("company", 2, "1s", Random)`, `MaxRate(2, "1s", Random)`,
		`MaxSimultaneous("group", "20%", Random)`} {
		if _, err := reserveBy(t, one, strategy, 1, 0); queue.CodeOf(err) != queue.CodeInvalid {
			t.Errorf("%s, which one shard alone cannot keep, answers %v", strategy, err)
		}
	}
	if _, _, err := one.Values.Put(t.Context(), number("company", 7), limited(1), nil); queue.CodeOf(err) != queue.CodeInvalid {
		t.Errorf("a limit of a value that several shards have answers %v", err)
	}
	if _, err := e.Queue(shardedName); queue.CodeOf(err) != queue.CodeInvalid {
		t.Errorf("a call that one shard has to answer says %v", err)
	}
	if _, err := e.ChangeQueue(t.Context(), queue.ShardName(shardedName, 2), func(*queue.Settings) error { return nil }); queue.CodeOf(err) != queue.CodeInvalid {
		t.Errorf("a change of one shard's settings answers %v", err)
	}
	for settings, want := range map[queue.Settings]string{
		with(func(s *queue.Settings) { s.Shards = 1 }):                                 "/shards",
		with(func(s *queue.Settings) { s.Shards = queue.MaxQueueShards + 1 }):          "/shards",
		with(func(s *queue.Settings) { s.Shards, s.DeadLetterQueue = 2, shardedName }): "/dead_letter_queue",
		with(func(s *queue.Settings) { s.Shards, s.DeadLetterQueue = 2, "orders~2" }):  "/dead_letter_queue",
	} {
		if _, _, err := e.PutQueue(t.Context(), shardedName, settings); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("settings with %d shards and dead letters to %q: %v", settings.Shards, settings.DeadLetterQueue, err)
		}
	}
	list := []queue.Insertion{
		{New: &queue.NewSubmission{Group: "a", Meta: queue.Meta{text("group", "b")}, OperationsPerChunk: 1, Chunks: queue.Chunks{Count: 1, Prefix: "x"}}},
		{New: &queue.NewSubmission{Unique: &queue.Unique{Key: "k"}, OperationsPerChunk: 1, Chunks: queue.Chunks{Count: 1, Prefix: "x"}}},
	}
	if err := w.InsertMany(t.Context(), list, false); err != nil || !strings.Contains(fmt.Sprint(list[0].Err), "/group") || !strings.Contains(fmt.Sprint(list[1].Err), "/unique") {
		t.Errorf("inserts that say two groups, and a unique key: %v, %v, %v", err, list[0].Err, list[1].Err)
	}
	if err := e.DeleteQueue(t.Context(), shardedName, false); queue.CodeOf(err) != queue.CodeConflict {
		t.Errorf("the deletion of a queue with open submissions answers %v", err)
	}
}

// The refusal of a strategy names the block that the caller wrote, and the server accepts what the refusal advises.
func TestRefusalsOverShardsAdviseWhatWorks(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 2)
	defer closed(t, e)
	put1(t, w, queue.NewSubmission{Group: "a", Meta: queue.Meta{number("company", 7)}})
	one := queueAt(e, queue.ShardName(shardedName, 1))
	const selectOne = `Instead, select one group, as in SelectOnly("group", "NAME", ...)`
	for _, test := range []struct {
		of                       Work
		strategy, block, instead string
		accepted                 string
	}{
		{w, `MaxSimultaneous("company", 2, missing=one, Random)`, `MaxSimultaneous(company<2, missing=one)`,
			`Instead, leave missing=one out`, `MaxSimultaneous("company", 2, Random)`},
		{w, `OrElse(SelectOnly("a", 1, Random), MaxRate("company", 5, "1s", missing=one, Random))`, `OrElse[1] > MaxRate(company 5/1s, missing=one)`,
			`Instead, leave missing=one out`, `OrElse(SelectOnly("a", 1, Random), MaxRate("company", 5, "1s", Random))`},
		{w, `SelectOnly("group", "a", MaxSimultaneous("company", 2, missing=one, Random))`, `SelectOnly(group="a") > MaxSimultaneous(company<2, missing=one)`,
			`Instead, leave missing=one out`, `SelectOnly("group", "a", MaxSimultaneous("company", 2, Random))`},
		{w, `PreferDistinct("company", 2, missing=one, Random)`, `PreferDistinct(company<2, missing=one, soft limit)`,
			`Instead, leave missing=one out`, `PreferDistinct("company", 2, Random)`},
		{w, `SelectOnly("a", 1, PreferDistinct("company", missing=one, OldestFirst))`, `SelectOnly(a=1) > PreferDistinct(company, missing=one)`,
			`Instead, leave missing=one out`, `SelectOnly("a", 1, PreferDistinct("company", OldestFirst))`},
		{w, `OrElse(SelectOnly("b", 1, Random), Fair("company", Fair("user", Random)))`, `OrElse[1] > Fair(company)`, selectOne,
			`SelectOnly("group", "a", Fair("company", Fair("user", Random)))`},
		{w, `SelectOnly("group", "a", Fair("company", Fair("user", MaxSimultaneous("company", 2, Random))))`, `SelectOnly(group="a") > Fair(company)`,
			`Instead, count by the key "group" only, and select one group`,
			`SelectOnly("group", "a", Fair("company", Fair("user", MaxSimultaneous("group", 2, Random))))`},
		{one, `MaxSimultaneous("company", 2, missing=one, Random)`, `MaxSimultaneous(company<2, missing=one)`,
			`Instead, use the key "group"`, `MaxSimultaneous("group", 2, Random)`},
		{one, `MaxSimultaneous("company", "20%", Random)`, `MaxSimultaneous(company<20%)`,
			`Otherwise use the key "group" and give a number`, `MaxSimultaneous("group", 2, Random)`},
		{one, `PreferDistinct("company", Random)`, `PreferDistinct(company)`, `Otherwise use the key "group"`, `PreferDistinct("group", Random)`},
	} {
		_, err := reserveBy(t, test.of, test.strategy, 1, 0)
		if queue.CodeOf(err) != queue.CodeInvalid || !strings.Contains(err.Error(), ": "+test.block+" ") || !strings.Contains(err.Error(), test.instead) {
			t.Errorf("%s answers %v", test.strategy, err)
		}
		if _, err := reserveBy(t, test.of, test.accepted, 1, 0); err != nil {
			t.Errorf("the refusal of %s says: %s, and %s answers %v", test.strategy, test.instead, test.accepted, err)
		}
	}
	scored, err := strategy.Parse(`OrElse(SelectOnly("a", 1, Random), Score(priority, Random))`) // which an engine without plugins refuses
	if err != nil {
		t.Fatal(err)
	}
	if err := w.(*Sharded).mergeable(scored.Plan()); err == nil || !strings.Contains(err.Error(), "OrElse[1] > Score(priority) ranks") ||
		!strings.Contains(err.Error(), selectOne) {
		t.Errorf("scores over shards answer %v", err)
	}
}

// A limit by group with missing=one is exact: submissions without a group are all in the first shard.
func TestOneLimitForAllWithoutAGroup(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 4)
	defer closed(t, e)
	for range 5 {
		put1(t, w, queue.NewSubmission{})
	}
	for i := range 8 {
		put1(t, w, queue.NewSubmission{Group: fmt.Sprint("g", i%4)})
	}
	const prefer, atMostTwo = `PreferDistinct("group", missing=one, OldestFirst)`, `MaxSimultaneous("group", 2, missing=one, Random)`
	flying := map[string]int{}
	take := func(strategy string, most int) {
		got, err := reserveBy(t, w, strategy, most, 0)
		if err != nil {
			t.Fatalf("%s: %v", strategy, err)
		}
		for _, r := range got.Reservations {
			flying[r.Meta.GroupOf()]++
		}
	}
	for number := 1; number <= 2; number++ {
		take(prefer, 5)
		for _, group := range []string{"", "g0", "g1", "g2", "g3"} {
			if flying[group] != number {
				t.Fatalf("after %d each: %v", number, flying)
			}
		}
	}
	if take(atMostTwo, 100); flying[""] != 2 {
		t.Errorf("beside two chunks without a group, %d were given", flying[""]-2)
	}
	if take(`MaxSimultaneous("group", 4, missing=one, Random)`, 100); flying[""] != 4 {
		t.Errorf("%d chunks without a group are in flight, want 4", flying[""])
	}
}

// A call that waits gets what becomes available in any shard: by an insert, and by a completion that makes room under a limit.
func TestWaitOverShards(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 4)
	defer closed(t, e)
	const limitedTo = `MaxSimultaneous("group", 1, OldestFirst)`
	wait := func() chan ReserveResult {
		answer := make(chan ReserveResult, 1)
		go func() {
			got, err := reserveBy(t, w, limitedTo, 1, time.Minute)
			if err != nil {
				t.Error(err)
			}
			answer <- got
		}()
		return answer
	}
	waiting := func() (n uint64) {
		for _, q := range e.all() {
			n += q.Stats().ConsumersWaiting
		}
		return n
	}
	for i := range 8 {
		answer := wait()
		for waiting() < 4 { // in every shard
			time.Sleep(time.Millisecond)
		}
		s := put1(t, w, queue.NewSubmission{Group: fmt.Sprint("g", i), Chunks: queue.Chunks{Count: 2}})
		got := <-answer
		if len(got.Reservations) != 1 || got.Reservations[0].Token.Submission != s.ID {
			t.Fatalf("the call that waited got %v of submission %d", got, s.ID)
		}
		answer = wait()
		for waiting() < 4 {
			time.Sleep(time.Millisecond)
		}
		if _, err := w.Complete(t.Context(), []queue.CompleteItem{{Token: got.Reservations[0].Token}}, nil); err != nil {
			t.Fatal(err)
		}
		if got = <-answer; len(got.Reservations) != 1 || got.Reservations[0].Token.Index != 1 {
			t.Fatalf("the call that waited for room got %v", got)
		}
	}
	empty, err := reserveBy(t, w, limitedTo, 1, 0)
	if err != nil || empty.Reason != queue.Nothing && empty.Reason != queue.AllLimited {
		t.Errorf("a reserve without work says %v, %v", empty.Reason, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		asked, _ := w.Asked(ctx, []byte(`"Random"`))
		_, err := w.Reserve(ctx, ReserveRequest{Max: 1, Plan: asked.Plan, Wait: time.Minute}, nil)
		left <- err
	}()
	stop()
	if err := <-left; err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("a call whose caller went away answers %v", err)
	}
	for waiting() > 0 {
		time.Sleep(time.Millisecond)
	}
}

// The chunks of all shards are one answer, with no more bytes than that of a single shard. Chunks that do not fit stay ready.
func TestAnswerOverShardsIsBounded(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 4)
	defer closed(t, e)
	content := make([]byte, queue.MaxAnswerBytes/5)
	for i := range 12 {
		list := []queue.Insertion{{New: &queue.NewSubmission{Group: fmt.Sprint("g", i), OperationsPerChunk: 1, Chunks: queue.Chunks{Inline: [][]byte{content}}}}}
		if err := errors.Join(w.InsertMany(t.Context(), list, false), list[0].Err); err != nil {
			t.Fatal(err)
		}
	}
	got := 0
	for rounds := 0; got < 12; rounds++ {
		page := takenBy(t, w, "OldestFirst", 12)
		if len(page) > 4 || len(page) == 0 || rounds > 12 {
			t.Fatalf("an answer has %d chunks of a fifth of what it may have", len(page))
		}
		got += len(page)
	}
}

// A call that waits for several groups also gets the work of a new one, whichever shard the group gets.
func TestWaitForGroupThatIsNew(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 3)
	defer closed(t, e)
	for number, group := range map[int]string{1: "a", 2: "b"} {
		put1(t, queueAt(e, queue.ShardName(shardedName, number)), queue.NewSubmission{Group: group})
	}
	takenBy(t, w, "Random", 2)
	for _, strategy := range []string{`SelectAny("group", ["a", "b", "new"], OldestFirst)`, `SelectAny("group", ["a", "newer"], OldestFirst)`,
		`SelectOnly("group", "newest", Fair("kind", Random))`} {
		got := make(chan int)
		go func() {
			result, err := reserveBy(t, w, strategy, 1, time.Minute)
			if err != nil {
				t.Errorf("%s: %v", strategy, err)
			}
			got <- len(result.Reservations)
		}()
		for e.shardOf(queueAt(e, queue.ShardName(shardedName, 1)).id).Stats().ConsumersWaiting == 0 && !strings.Contains(strategy, "newest") {
			time.Sleep(time.Millisecond)
		}
		group, _, _ := strings.Cut("new"+strings.Split(strategy, `"new`)[1], `"`)
		put1(t, queueAt(e, queue.ShardName(shardedName, 3)), queue.NewSubmission{Group: group})
		if n := <-got; n != 1 {
			t.Errorf("%s: %d chunks", strategy, n)
		}
	}
}

// If a chunk of another shard brings a shard's head to its limit meanwhile, the shard is asked for its next chunk.
func TestHeadAtItsLimitKeepsNoShardBack(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 2)
	defer closed(t, e)
	if err := errors.Join(w.(*Sharded).place([]string{"a"}, 1), w.(*Sharded).place([]string{"b"}, 2)); err != nil {
		t.Fatal(err)
	}
	put := func(group, user string, priority int64) queue.SubmissionID {
		return put1(t, w, queue.NewSubmission{Group: group, Priority: priority, Meta: queue.Meta{{Key: "user", Value: queue.StringValue(user)}}}).ID
	}
	want := []queue.SubmissionID{put("a", "x", 9), 0, 0}
	put("b", "x", 8)
	want[1], want[2] = put("a", "z", 6), put("b", "y", 3) // the other shard has nothing before z
	put("a", "w", 2)
	got := takenBy(t, w, `MaxSimultaneous("user", 1, CustomPriority)`, 3)
	if len(got) != 3 {
		t.Fatalf("%d chunks, want those of %v", len(got), want)
	}
	for i := range want {
		if got[i].Token.Submission != want[i] {
			t.Errorf("chunk %d is of %d, want %d", i, got[i].Token.Submission, want[i])
		}
	}
}
