package engine

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// Behaviours 113 and 114: a group is made once, however many inserts name it at the same time, and groups are spread evenly.
func TestGroupsArePlacedOnceAndEvenly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e, w := openSharded(t, dir, 4)
	var group sync.WaitGroup
	ids := make([]queue.SubmissionID, 200)
	for i := range ids {
		group.Go(func() { ids[i] = put1(t, w, queue.NewSubmission{Group: fmt.Sprintf("g%03d", i/2)}).ID })
	}
	group.Wait()
	shards := map[queue.ShardID]int{}
	for i := 0; i < len(ids); i += 2 {
		if ids[i].Shard() != ids[i+1].Shard() {
			t.Errorf("group %d is in two shards", i/2)
		}
		shards[ids[i].Shard()]++
	}
	for id, n := range shards {
		if n > 50 {
			t.Errorf("shard %d has %d of 100 groups", id, n)
		}
	}
	page, err := e.Groups(shardedName, "", 70)
	if err != nil || len(page.Items) != 70 || page.Next == "" || page.Items[0].Name != "g000" || page.Items[0].Submissions != 2 {
		t.Errorf("the first page of groups has %d: %+v, %v", len(page.Items), page.Items[:min(2, len(page.Items))], err)
	}
	if page, err = e.Groups(shardedName, page.Next, 70); err != nil || len(page.Items) != 30 || page.Next != "" {
		t.Errorf("the second page of groups has %d, and next is %q, %v", len(page.Items), page.Next, err)
	}
	closed(t, e)
	again, w := openSharded(t, dir, 4)
	defer closed(t, again)
	for i := range 100 {
		if at := put1(t, w, queue.NewSubmission{Group: fmt.Sprintf("g%03d", i)}).ID.Shard(); at != ids[2*i].Shard() {
			t.Errorf("after a restart group %d is in shard %d, and was in %d", i, at, ids[2*i].Shard())
		}
	}
}

// A queue of one shard becomes one of four while producers and workers use it: every chunk is done once, and the groups that
// have open submissions stay where they are.
func TestQueueIsSplitWhileWorkRuns(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 1)
	defer closed(t, e)
	const groups = 23
	name := func(n int) string { return fmt.Sprintf("g%d", n%groups) }
	first := queueAt(e, shardedName).id
	for n := range groups { // these stay open
		put1(t, w, queue.NewSubmission{Group: name(n), RunAt: queue.At(time.Now().Add(time.Hour))})
	}
	var (
		mu    sync.Mutex
		put   = map[queue.SubmissionID]bool{}
		done  = map[queue.SubmissionID]int{}
		group sync.WaitGroup
		stop  atomic.Bool
	)
	for p := range 4 {
		group.Go(func() {
			for n := 0; !stop.Load() || n < 40; n++ {
				id := put1(t, workAt(t, e), queue.NewSubmission{Group: name(7*n + p)}).ID
				if id.Shard() != first {
					t.Errorf("a submission of the group %s is in shard %d, and others in %d", name(7*n+p), id.Shard(), first)
				}
				mu.Lock()
				put[id] = true
				mu.Unlock()
			}
		})
	}
	finish := func() int {
		page := takenBy(t, workAt(t, e), "Random", 20)
		items := make([]queue.CompleteItem, len(page))
		for i := range page {
			items[i].Token = page[i].Token
		}
		results, err := workAt(t, e).Complete(t.Context(), items, nil)
		if err != nil {
			t.Error(err)
			return 0
		}
		mu.Lock()
		defer mu.Unlock()
		for i := range results {
			if results[i].Outcome != queue.OutcomeOK {
				t.Errorf("the completion of %v answers %v", items[i].Token.Submission, results[i].Outcome)
			}
			done[items[i].Token.Submission]++
		}
		return len(items)
	}
	group.Go(func() {
		for !stop.Load() {
			finish()
		}
	})
	settings := queue.DefaultSettings()
	settings.Shards = 4
	if _, _, err := e.PutQueue(t.Context(), shardedName, settings); err != nil {
		t.Error(err)
	}
	for n := range 50 {
		id := put1(t, workAt(t, e), queue.NewSubmission{Group: fmt.Sprint("late", n)}).ID
		mu.Lock()
		put[id] = true
		mu.Unlock()
	}
	stop.Store(true)
	group.Wait()
	for finish() > 0 {
	}
	for id := range put {
		if done[id] != 1 {
			t.Errorf("submission %d was done %d times", id, done[id])
		}
	}
	info, err := e.Shard(t.Context(), queue.ShardName(shardedName, 1))
	if err != nil || info.Groups < groups || info.Groups == groups+50 {
		t.Errorf("the first shard is %+v, %v", info, err)
	}
}

// The groups of the only shard stay there when the queue gets more: those of its dead letters, whose submissions can be opened again, and
// of its schedules.
func TestGroupsOfTheFirstShardStay(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 1)
	defer closed(t, e)
	dead := put1(t, w, queue.NewSubmission{Group: "dead", MaxAttempts: 1})
	page := takenBy(t, w, "Random", 1)
	if _, err := w.Fail(t.Context(), []queue.FailItem{{Token: page[0].Token, Fatal: true}}, nil); err != nil {
		t.Fatal(err)
	}
	q := queueAt(e, shardedName)
	definition := queue.DefaultSchedule()
	definition.Spec = "0 5 * * *"
	definition.Template = queue.NewSubmission{Group: "nightly", OperationsPerChunk: 1, Chunks: queue.Chunks{Count: 1, Prefix: "n/"}}
	if _, _, err := q.Schedules.Put(t.Context(), "nightly", definition, nil); err != nil {
		t.Fatal(err)
	}
	settings := queue.DefaultSettings()
	settings.Shards = 8
	if _, _, err := e.PutQueue(t.Context(), shardedName, settings); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dead", "nightly"} {
		if at := put1(t, workAt(t, e), queue.NewSubmission{Group: name}).ID.Shard(); at != dead.ID.Shard() {
			t.Errorf("the group %s is in shard %d now, and was in %d", name, at, dead.ID.Shard())
		}
	}
	definition.Template.Group, definition.Template.Meta = "elsewhere", nil
	for range 20 { // until it is not in the first shard
		if put1(t, workAt(t, e), queue.NewSubmission{Group: definition.Template.Group}).ID.Shard() != dead.ID.Shard() {
			break
		}
		definition.Template.Group += "."
	}
	first := queueAt(e, queue.ShardName(shardedName, 1))
	_, _, err := first.Schedules.Put(t.Context(), "elsewhere", definition, nil)
	if queue.CodeOf(err) != queue.CodeInvalid || !strings.Contains(err.Error(), "/template/group") {
		t.Errorf("a schedule of another shard's group answers %v", err)
	}
}

// An insert with a key that the only shard knew is not repeated after the queue is divided, although its group had no open work and gets
// another shard. When the group moves on, the knowledge of the first shard still counts.
func TestDivisionForgetsNoKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e, w := openSharded(t, dir, 1)
	const groups = 12
	insert := func(n int) queue.NewSubmission {
		return queue.NewSubmission{Group: fmt.Sprint("g", n), IdempotencyKey: fmt.Sprint("key", n)}
	}
	var known []queue.SubmissionID
	for n := range groups {
		known = append(known, put1(t, w, insert(n)).ID)
	}
	workOff(t, w, "OldestFirst")
	settings := queue.DefaultSettings()
	settings.Shards = 4
	if _, _, err := e.PutQueue(t.Context(), shardedName, settings); err != nil {
		t.Fatal(err)
	}
	for n := range groups { // without a key, so that each group has a shard
		put1(t, workAt(t, e), queue.NewSubmission{Group: fmt.Sprint("g", n)})
	}
	if n := workOff(t, workAt(t, e), "OldestFirst"); n != groups {
		t.Fatalf("%d chunks were done", n)
	}
	repeated := func(when string) {
		t.Helper()
		for n := range groups {
			if again := put1(t, workAt(t, e), insert(n)); again.ID != known[n] {
				t.Errorf("%s, the insert %d is made twice", when, n)
			}
		}
	}
	repeated("behind the division")
	s := workAt(t, e).(*Sharded)
	elsewhere := 0
	for n := range groups {
		if at := s.groups.of(fmt.Sprint("g", n)); at != 1 {
			elsewhere++
			if info, err := e.MoveGroup(t.Context(), shardedName, fmt.Sprint("g", n), 2+(at-1)%3); err != nil || info.Shard == at {
				t.Errorf("a move from %d: %+v, %v", at, info, err)
			}
		}
	}
	if elsewhere == 0 {
		t.Fatal("all groups are in the first shard")
	}
	repeated("after moves")
	closed(t, e)
	e, _ = reopened(t, dir)
	defer closed(t, e)
	repeated("after a restart")
	s = workAt(t, e).(*Sharded)
	if s.groups.of("") != 1 || s.groups.number() != groups {
		t.Errorf("there are %d groups", s.groups.number())
	}
	reused := insert(1)
	reused.Fingerprint[0]++
	reused.OperationsPerChunk, reused.Chunks = 1, queue.Chunks{Count: 1, Prefix: "x/"}
	list := []queue.Insertion{{New: &reused}}
	if err := workAt(t, e).InsertMany(t.Context(), list, false); err != nil || queue.CodeOf(list[0].Err) != queue.CodeIdempotencyReuse {
		t.Errorf("another insert with the same key: %v, %v", err, list[0].Err)
	}
}

// A queue that has several shards from the start does not ask the first one about keys, so that the first one need not serve.
func TestNewShardsAskNoOther(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 2)
	defer closed(t, e)
	put1(t, w, queue.NewSubmission{Group: "g", IdempotencyKey: "key"})
	settings := queue.DefaultSettings()
	settings.Shards = 3
	if _, _, err := e.PutQueue(t.Context(), shardedName, settings); err != nil {
		t.Fatal(err)
	}
	if number := cameLately(w.(*Sharded), ""); number != 0 {
		t.Errorf("keys are looked up in shard %d", number)
	}
}
