package engine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// Behaviour 117: a start makes missing shards, and gives all shards the settings of the first.
func TestMissingShardIsMade(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e, _ := openSharded(t, dir, 3)
	second := queueAt(e, queue.ShardName(shardedName, 2))
	if err := e.catalogue.DeleteQueue(second.row()); err != nil { // as a kill between the first shard's setting and this one
		t.Fatal(err)
	}
	closed(t, e)
	again, w := openSharded(t, dir, 3)
	defer closed(t, again)
	for number := 1; number <= 3; number++ {
		if shard, err := again.Shard(t.Context(), queue.ShardName(shardedName, number)); err != nil || shard.State != api.ShardOpen {
			t.Errorf("shard %d is %+v, %v", number, shard, err)
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
	for number, want := range map[int]queue.Code{1: "", 2: queue.CodeQuarantined, 3: ""} {
		if shard, err := e.Shard(t.Context(), queue.ShardName(shardedName, number)); queue.CodeOf(err) != want || want == "" && shard.State != api.ShardOpen {
			t.Errorf("shard %d is %+v, %v", number, shard, err)
		}
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
	if err := errors.Join(e.catalogue.DeleteQueue(row), e.catalogue.PutQueue(row)); err != nil {
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

// A backup has all shards of a queue, and the shards of its groups.
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

// A strategy that several shards cannot follow exactly is refused even while only one of them serves: the chunks of the others come back.
func TestRefusedWhileOneShardServes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	e, w := openSharded(t, dir, 2)
	bad := queueAt(e, queue.ShardName(shardedName, 2))
	groups := map[bool]string{} // one in each shard, by whether it is the bad one
	for i := 0; len(groups) < 2; i++ {
		s := put1(t, w, queue.NewSubmission{Group: fmt.Sprint("g", i)})
		groups[s.ID.Shard() == bad.id] = s.Group
	}
	closed(t, e)
	file := filepath.Join(dir, "shards", fmt.Sprintf("%04d", bad.id), journalFile)
	if err := os.Truncate(file, 100); err != nil {
		t.Fatal(err)
	}
	e, w = openSharded(t, dir, 2)
	defer closed(t, e)
	for _, strategy := range []string{
		`Fair("group", Fair("$submission", Random))`, `MaxRate("company", 2, "1s", missing=one, Random)`,
		fmt.Sprintf(`SelectAny("group", [%q, %q], Fair("company", Fair("user", Random)))`, groups[true], groups[false]),
	} {
		if _, err := reserveBy(t, w, strategy, 1, 0); queue.CodeOf(err) != queue.CodeInvalid {
			t.Errorf("%s answers %v", strategy, err)
		}
	}
	alone := fmt.Sprintf(`SelectOnly("group", %q, Fair("company", Random))`, groups[false])
	if got, err := reserveBy(t, w, alone, 1, 0); err != nil || len(got.Reservations) != 1 {
		t.Errorf("%s gives %d chunks, %v", alone, len(got.Reservations), err)
	}
	for _, strategy := range []string{"OldestFirst", `MaxRate("group", 100000, "1s", Random)`, `MaxRate("company", 100000, "1s", Random)`,
		`MaxSimultaneous("group", "20%", Random)`, `Fair("group", Random)`,
		fmt.Sprintf(`SelectAny("group", [%q, %q], Fair("company", Random))`, groups[true], groups[false])} {
		put1(t, w, queue.NewSubmission{Group: groups[false]})
		if got := takenBy(t, w, strategy, 100); len(got) == 0 {
			t.Errorf("by %s the shard that serves gave nothing", strategy)
		}
	}
}
