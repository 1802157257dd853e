package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

const shardedName = "orders"

// openSharded opens an engine whose draws are by a seed, and the queue "orders" of so many shards in it.
func openSharded(t *testing.T, dir string, shards uint8) (*Engine, Work) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(seed, 39))
	e, err := Open(t.Context(), Options{Dir: dir, Now: time.Now, BallastBytes: -1, Seed: func() uint64 {
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
	page, err := e.Groups(t.Context(), shardedName, "", 70)
	if err != nil || len(page.Items) != 70 || page.Next == "" || page.Items[0].Name != "g000" || page.Items[0].Submissions != 2 {
		t.Errorf("the first page of groups has %d: %+v, %v", len(page.Items), page.Items[:min(2, len(page.Items))], err)
	}
	if page, err = e.Groups(t.Context(), shardedName, page.Next, 70); err != nil || len(page.Items) != 30 || page.Next != "" {
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
	if list, err := e.Shards(t.Context(), shardedName); err != nil || len(list) != 4 || list[0].Groups < groups || list[0].Groups == groups+50 {
		t.Errorf("the shards are %+v, %v", list, err)
	}
}

// What the only shard has of groups stays there when the queue gets more: the groups of its dead letters, whose submissions can
// be opened again, and of its schedules.
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

// Behaviour 117: a start makes the shards that are missing, and has all go by the settings of the first.
func TestMissingShardIsMade(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e, _ := openSharded(t, dir, 3)
	second := queueAt(e, queue.ShardName(shardedName, 2))
	if err := e.catalogue.DeleteQueue(second.name); err != nil { // as a kill between the first shard's setting and this one
		t.Fatal(err)
	}
	closed(t, e)
	again, w := openSharded(t, dir, 3)
	defer closed(t, again)
	list, err := again.Shards(t.Context(), shardedName)
	if err != nil || len(list) != 3 {
		t.Fatalf("there are %d shards, %v", len(list), err)
	}
	for _, shard := range list {
		if shard.State != api.ShardOpen {
			t.Errorf("shard %d is %s: %s", shard.Number, shard.State, shard.Reason)
		}
	}
	for i := range 30 {
		put1(t, w, queue.NewSubmission{Group: fmt.Sprint(i)})
	}
	if n := len(takenBy(t, w, "OldestFirst", 100)); n != 30 {
		t.Errorf("%d of 30 chunks were taken", n)
	}
}

// Behaviour 120: a shard whose files are damaged keeps no other from serving. Its groups are refused by name, its completions are
// not lost, and the list of shards says which it is.
func TestShardThatDoesNotServe(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	e, w := openSharded(t, dir, 3)
	bad, held := queueAt(e, queue.ShardName(shardedName, 2)), []queue.Reservation(nil)
	names := map[bool][]string{} // by whether the shard is the bad one
	for i := range 30 {
		s := put1(t, w, queue.NewSubmission{Group: fmt.Sprint("g", i), Chunks: queue.Chunks{Count: 2}})
		names[s.ID.Shard() == bad.id] = append(names[s.ID.Shard() == bad.id], s.Group)
	}
	held = takenBy(t, w, "Random", 30)
	closed(t, e)
	file := filepath.Join(dir, "shards", fmt.Sprintf("%04d", bad.id), journalFile)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	e, w = openSharded(t, dir, 3)
	list := []queue.Insertion{{New: &queue.NewSubmission{Group: names[true][0], OperationsPerChunk: 1, Chunks: queue.Chunks{Count: 1, Prefix: "x"}}},
		{New: &queue.NewSubmission{Group: names[false][0], OperationsPerChunk: 1, Chunks: queue.Chunks{Count: 1, Prefix: "x"}}}}
	if err := w.InsertMany(t.Context(), list, false); err != nil || queue.CodeOf(list[0].Err) != queue.CodeQuarantined || list[1].Err != nil {
		t.Errorf("an insert into a shard in quarantine and one that serves: %v, %v, %v", err, list[0].Err, list[1].Err)
	}
	for _, r := range takenBy(t, w, "Random", 100) {
		if r.Token.Submission.Shard() == bad.id {
			t.Error("a chunk of the shard in quarantine was handed out")
		}
	}
	items := make([]queue.CompleteItem, len(held))
	for i := range held {
		items[i].Token = held[i].Token
	}
	if _, err := w.Complete(t.Context(), items, nil); queue.CodeOf(err) != queue.CodeQuarantined {
		t.Errorf("a completion that one shard cannot take answers %v", err)
	}
	shards, err := e.Shards(t.Context(), shardedName)
	if err != nil || len(shards) != 3 || shards[1].State != api.ShardOffline || shards[1].Reason == "" || shards[0].State != api.ShardOpen {
		t.Errorf("the shards are %+v, %v", shards, err)
	}
	closed(t, e)
	lost := filepath.Join(t.TempDir(), "lost")
	if err := os.CopyFS(lost, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	emptied(t, lost, names[true])
	if err := os.WriteFile(file, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	e, w = openSharded(t, dir, 3)
	defer closed(t, e)
	results, err := w.Complete(t.Context(), items, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range results {
		if got := results[i].Outcome; got != queue.OutcomeOK && got != queue.OutcomeAlready {
			t.Errorf("the completion of %v answers %v once its shard serves", items[i].Token.Submission, got)
		}
	}
}

// emptied gives up the second shard, which is in quarantine: it comes back empty, and its groups stay in it.
func emptied(t *testing.T, dir string, groups []string) {
	t.Helper()
	e, w := openSharded(t, dir, 3)
	defer closed(t, e)
	second := queue.ShardName(shardedName, 2)
	if err := e.DeleteQueue(t.Context(), second, true); err != nil {
		t.Fatal(err)
	}
	for _, name := range groups {
		if id := put1(t, w, queue.NewSubmission{Group: name}).ID; id.Shard() != queueAt(e, second).id {
			t.Errorf("the group %s is in another shard than the one that was made again", name)
		}
	}
	if n := len(takenBy(t, w, fmt.Sprintf(`SelectOnly("group", %q, Random)`, groups[0]), 10)); n != 1 {
		t.Errorf("%d chunks of a group were taken, of whose work all but one is given up", n)
	}
}

// Rows of groups that are lost from the catalogue, as in a repair, come back at a start from the open work of the shards.
func TestLostGroupsComeBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e, w := openSharded(t, dir, 4)
	at := map[string]queue.ShardID{}
	for i := range 30 {
		s := put1(t, w, queue.NewSubmission{Group: fmt.Sprint("g", i)})
		at[s.Group] = s.ID.Shard()
	}
	e.mu.RLock()
	row := e.queues[shardedName].row()
	e.mu.RUnlock()
	if err := errors.Join(e.catalogue.DeleteQueue(shardedName), e.catalogue.PutQueue(row)); err != nil {
		t.Fatal(err)
	}
	closed(t, e)
	e, w = openSharded(t, dir, 4)
	defer closed(t, e)
	for name, shard := range at {
		if id := put1(t, w, queue.NewSubmission{Group: name}).ID; id.Shard() != shard {
			t.Errorf("the group %s is in shard %d now, and its open work in %d", name, id.Shard(), shard)
		}
	}
}

// A backup has all shards of a queue, and which shard has which group.
func TestShardsAreInBackups(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 3)
	at := map[string]queue.ShardID{}
	for i := range 12 {
		s := put1(t, w, queue.NewSubmission{Group: fmt.Sprint("g", i), Chunks: queue.Chunks{Count: 2}})
		at[s.Group] = s.ID.Shard()
	}
	copied := backedUp(t, e)
	closed(t, e)
	dir := filepath.Join(t.TempDir(), "restored")
	if _, err := Restore(t.Context(), dir, bytes.NewReader(copied)); err != nil {
		t.Fatal(err)
	}
	e, w = openSharded(t, dir, 3)
	defer closed(t, e)
	if n := len(takenBy(t, w, "OldestFirst", 100)); n != 24 {
		t.Errorf("%d of 24 chunks were taken", n)
	}
	for name, shard := range at {
		if id := put1(t, w, queue.NewSubmission{Group: name}).ID; id.Shard() != shard {
			t.Errorf("the group %s is in shard %d now, and was in %d", name, id.Shard(), shard)
		}
	}
}

// What several shards cannot do exactly is refused, and says what to do.
func TestWhatShardsCannotDo(t *testing.T) {
	t.Parallel()
	e, w := openSharded(t, t.TempDir(), 2)
	defer closed(t, e)
	put1(t, w, queue.NewSubmission{Group: "a", Meta: queue.Meta{number("company", 7)}})
	for _, strategy := range []string{
		`MaxSimultaneous("company", 2, Random)`, `MaxRate("company", 5, "1s", Random)`, `MaxRate(5, "1s", Random)`,
		`PreferDistinct("company", Random)`, `Fair("company", Random)`, `Fair("group", Random)`, `OrElse(OldestFirst, Fair("group", Random))`,
		`SelectOnly("group", "a", MaxSimultaneous("company", 2, Random))`,
	} {
		if _, err := reserveBy(t, w, strategy, 1, 0); queue.CodeOf(err) != queue.CodeInvalid || !strings.Contains(err.Error(), "several shards") {
			t.Errorf("%s answers %v", strategy, err)
		}
	}
	for _, strategy := range []string{
		`MaxSimultaneous("group", 2, Random)`, `MaxRate("group", 1000, "1s", OldestFirst)`, `PreferDistinct("group", Random)`,
		`SelectOnly("group", "a", Fair("company", Random))`,
	} {
		if _, err := reserveBy(t, w, strategy, 1, 0); err != nil {
			t.Errorf("%s answers %v", strategy, err)
		}
	}
	one := queueAt(e, queue.ShardName(shardedName, 1))
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

func with(change func(*queue.Settings)) queue.Settings {
	s := queue.DefaultSettings()
	change(&s)
	return s
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
		stats, err := e.Stats(shardedName)
		if err != nil {
			t.Fatal(err)
		}
		return stats.ConsumersWaiting
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
	stats, err := e.Stats(shardedName)
	if err != nil || stats.Reserved != 13 || stats.DoneTotal != 14 || stats.FailedTotal != 13 || stats.Empty != 0 {
		t.Errorf("the numbers of all shards are %+v, %v", stats, err)
	}
}

// What the shards give together is one answer, which has no more bytes than one of a single shard. What does not fit stays ready.
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

// What a completion brings is in its commit, and so in its shard: another shard's group is refused by its place.
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
	if _, _, err := bring(elsewhere); queue.CodeOf(err) != queue.CodeInvalid || !strings.Contains(err.Error(), "/items/0/insert/0/group") {
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
