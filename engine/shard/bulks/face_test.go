package bulks

import (
	"errors"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/locks"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/deadletters"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/shard/shell/shelltest"
	"github.com/quern-queue/quern/engine/shard/submissions"
)

// script is a shell with bulk operations in it.
type script struct {
	*shelltest.Shell
	*Bulks
	part    *Part
	letters *deadletters.Part
	purging purging
}

func newScript(t *testing.T) *script {
	x := &script{Shell: shelltest.New(t), purging: purging{room: 1000}}
	x.purging.script = x
	x.join(x.Machine)
	door := shelltest.Door(x.Shell, x.part)
	door.Part = func() *Part { return x.part }
	letters := deadletters.Face(shelltest.Door(x.Shell, x.letters), new(sync.Mutex),
		submissions.New(x.Shell, "q", nil, new(locks.RWMutex[shell.InHistory])))
	x.Bulks = Face(door, letters, &x.purging, new(sync.Mutex))
	return x
}

// join gives a machine the parts that bulk operations need.
func (x *script) join(m *machine.Machine) {
	x.letters = deadletters.New(m)
	x.part = New(m, x.letters)
	m.Joined.Parts = []machine.Part{x.part, x.letters}
	m.Joined.Died = append(m.Joined.Died, x.letters.Died)
	m.Joined.Ended = append(m.Joined.Ended, x.letters.Ended)
}

// insert makes n submissions of three chunks, with the same entry of meta, one millisecond after the other.
func (x *script) insert(n int, company int64) (ids []queue.SubmissionID) {
	for range n {
		x.Clock++
		ids = append(ids, x.Insert(&queue.NewSubmission{
			Chunks: queue.Chunks{Count: 3, Prefix: "p/"}, Meta: queue.Meta{{Key: "company", Value: queue.IntValue(company)}},
		}))
	}
	x.Clock += 1000
	return ids
}

func ofCompany(n int64) queue.BulkFilter {
	return queue.BulkFilter{Meta: queue.Meta{{Key: "company", Value: queue.IntValue(n)}}}
}

func (x *script) start(r queue.BulkRequest) queue.BulkID {
	x.T.Helper()
	op, err := x.Start(r)
	if err != nil {
		x.T.Fatal(err)
	}
	return op.ID
}

// page does a page, and checks how many there were and whether there may be more.
func (x *script) page(id queue.BulkID, most, n int, more bool) {
	x.T.Helper()
	if got, left, err := x.Step(x.T.Context(), id, most); got != n || left != more || err != nil {
		x.T.Fatalf("a page of %d: got %d, more %t, %v; want %d, more %t", most, got, left, err, n, more)
	}
}

// stands checks how an operation stands.
func (x *script) stands(id queue.BulkID, state queue.BulkState, counts queue.BulkCounts, walk queue.BulkWalk) {
	x.T.Helper()
	got, there := x.Get(id)
	if !there || got.State != state || got.Counts != counts || got.Walk != walk || (got.Finished != 0) != (state != queue.BulkRunning) {
		x.T.Fatalf("got %v %+v; want %s, %+v, %+v", there, got, state, counts, walk)
	}
	x.part.Intended(func(what string, n int) {
		if n != 0 {
			x.T.Errorf("%d %s are left", n, what)
		}
	})
}

// An operation takes its submissions page by page, the newest first, each page in one commit with how far it got. Those that were inserted
// after its start, and those that the filter does not mean, stay as they are.
func TestPages(t *testing.T) {
	t.Parallel()
	x := newScript(t)
	first, other := x.insert(5, 1), x.insert(2, 2)
	id := x.start(queue.BulkRequest{Action: queue.BulkCancel, Filter: ofCompany(1), Actor: "ana"})
	later := x.insert(1, 1)
	x.stands(id, queue.BulkRunning, queue.BulkCounts{}, queue.BulkWalk{ToExamine: 7})
	commits := len(x.Commits)
	x.page(id, 2, 2, true)
	x.stands(id, queue.BulkRunning, queue.BulkCounts{Matched: 2, Done: 2}, queue.BulkWalk{Examined: 4, ToExamine: 7})
	if got := len(x.Commits) - commits; got != 1 {
		t.Errorf("a page took %d commits, want 1", got)
	}
	for i, open := range []bool{true, true, true, false, false} {
		if (x.Machine.Live(first[i]) != nil) != open {
			t.Errorf("submission %d is open: %t, want %t", i, !open, open)
		}
	}
	x.page(id, 2, 2, true)
	x.page(id, 2, 1, false)
	x.stands(id, queue.BulkCompleted, queue.BulkCounts{Matched: 5, Done: 5}, queue.BulkWalk{Examined: 7, ToExamine: 7})
	for _, open := range append(other, later...) {
		if x.Machine.Live(open) == nil {
			t.Errorf("submission %s was cancelled, and is not meant", open)
		}
	}
	x.page(id, 2, 0, false) // nothing is left to do
	if x.part.Totals != (queue.BulkCounts{Matched: 5, Done: 5}) {
		t.Errorf("totals: %+v", x.part.Totals)
	}
	if list := x.List(); len(list) != 1 || list[0].Queue != "q" || list[0].Actor != "ana" || list[0].Filter.Meta[0].Key != "company" {
		t.Errorf("the list: %+v", list)
	}
	if _, there := x.Get(id + 1); there {
		t.Error("an operation that no one started is there")
	}
}

// A submission that needs no change, or that others end before the walk comes to it, is left alone.
func TestUnchanged(t *testing.T) {
	t.Parallel()
	x := newScript(t)
	ids := x.insert(4, 1)
	one := queue.BulkFilter{Dead: queue.DeadFilter{Submission: ids[2]}}
	r := queue.BulkRequest{Action: queue.BulkReprioritize, Priority: 7, Filter: one}
	x.page(x.start(r), 10, 1, false)
	if got := x.Machine.Live(ids[2]).Priority; got != 7 || x.Machine.Live(ids[1]).Priority != 0 {
		t.Fatalf("priority %d, want 7, of this one alone", got)
	}
	all, cancel := x.start(queue.BulkRequest{Action: r.Action, Priority: 7}), x.start(queue.BulkRequest{Action: queue.BulkCancel})
	x.page(all, 2, 2, true)
	x.stands(all, queue.BulkRunning, queue.BulkCounts{Matched: 2, Done: 1, Unchanged: 1}, queue.BulkWalk{Examined: 2, ToExamine: 4})
	x.page(cancel, 3, 3, true) // the other operation has one left to walk over
	x.page(all, 2, 1, false)
	x.stands(all, queue.BulkCompleted, queue.BulkCounts{Matched: 3, Done: 2, Unchanged: 1}, queue.BulkWalk{Examined: 3, ToExamine: 3})
	x.page(cancel, 3, 1, false)
	x.stands(cancel, queue.BulkCompleted, queue.BulkCounts{Matched: 4, Done: 4}, queue.BulkWalk{Examined: 4, ToExamine: 4})
	x.page(x.start(r), 10, 0, false)
}

// A dry run counts the outcome for each, and changes nothing.
func TestDryRun(t *testing.T) {
	t.Parallel()
	x := newScript(t)
	ids := x.insert(3, 1)
	x.Failed(ids[0], queue.FailItem{HasRetry: true, RetryAfter: math.MaxInt32}, 0, 1)
	x.Clock += 1000
	for action, n := range map[queue.BulkAction]int{queue.BulkCancel: 3, queue.BulkReprioritize: 3, queue.BulkRetry: 2} {
		id := x.start(queue.BulkRequest{Action: action, Priority: 1, DryRun: true})
		x.page(id, 10, n, false)
		x.stands(id, queue.BulkCompleted, queue.BulkCounts{Matched: uint64(n), Done: uint64(n)},
			queue.BulkWalk{Examined: uint64(n), ToExamine: uint64(n)})
	}
	if m := x.Machine; m.Backlog.Len() != 3 || m.Stats.Waiting != 2 || m.Live(ids[1]).Priority != 0 {
		t.Errorf("%d open, %d chunks wait, priority %d: a dry run changed something", m.Backlog.Len(), m.Stats.Waiting, m.Live(ids[1]).Priority)
	}
	if x.part.Totals != (queue.BulkCounts{}) {
		t.Errorf("dry runs count as done: %+v", x.part.Totals)
	}
}

// Chunks that wait for a retry are offered at once, a page at a time, across submissions and within one. Those of submissions that the
// filter does not mean are walked over.
func TestRetries(t *testing.T) {
	t.Parallel()
	x := newScript(t)
	a, b, c := x.insert(1, 1)[0], x.insert(1, 2)[0], x.insert(1, 1)[0]
	late := queue.FailItem{HasRetry: true, RetryAfter: math.MaxInt32}
	x.Failed(a, late, 0, 1, 2)
	x.Failed(b, late, 0, 2)
	x.Failed(c, late, 1, 2)
	x.Clock += 1000
	id := x.start(queue.BulkRequest{Action: queue.BulkRetry, Filter: ofCompany(1)})
	x.Clock += 10
	x.Failed(c, late, 0) // too late for it
	x.page(id, 3, 3, true)
	x.stands(id, queue.BulkRunning, queue.BulkCounts{Matched: 3, Done: 3}, queue.BulkWalk{Examined: 5, ToExamine: 7})
	x.page(id, 3, 2, false)
	x.stands(id, queue.BulkCompleted, queue.BulkCounts{Matched: 5, Done: 5}, queue.BulkWalk{Examined: 7, ToExamine: 7})
	for id, waiting := range map[queue.SubmissionID]int{a: 0, b: 2, c: 1} {
		if got := x.Machine.Live(id).Delays.Len(); got != waiting {
			t.Errorf("%d chunks of %s wait, want %d", got, id, waiting)
		}
	}
}

// Dead letters are redriven, deleted and forwarded a page at a time, across submissions that are open and ended; those whose dead_deadline
// passed are refused, and a dry run does nothing.
func TestLetters(t *testing.T) {
	t.Parallel()
	for _, action := range []queue.BulkAction{queue.BulkRedrive, queue.BulkDelete, queue.BulkForward} {
		x := newScript(t)
		open, ended := x.insert(1, 1)[0], x.insert(1, 1)[0]
		x.Failed(open, queue.FailItem{Fatal: true}, 0, 1)
		x.Failed(ended, queue.FailItem{Fatal: true}, 0, 1, 2)
		late := x.Insert(&queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Prefix: "p/"}, DeadDeadline: x.Clock + 5000})
		x.Failed(late, queue.FailItem{Fatal: true}, 0)
		x.Clock += 10_000
		want := queue.BulkCounts{Matched: 6, Done: 6}
		if action == queue.BulkRedrive {
			want = queue.BulkCounts{Matched: 6, Done: 5, Refused: 1}
		}
		for _, dry := range []bool{true, false} {
			id := x.start(queue.BulkRequest{Action: action, To: "there", DryRun: dry})
			x.page(id, 4, 4, true)
			x.page(id, 4, 2, false)
			x.stands(id, queue.BulkCompleted, want, queue.BulkWalk{Examined: 6, ToExamine: 6})
			if left := x.letters.Of(open) + x.letters.Of(ended); dry && left != 5 || !dry && left != 0 {
				t.Errorf("%s, dry run %t: %d letters are left", action, dry, left)
			}
		}
		if sent := x.letters.OutgoingTo("there"); sent != map[queue.BulkAction]int{queue.BulkForward: 6}[action] {
			t.Errorf("%s: %d are on their way", action, sent)
		}
	}
}

// More chunks wait in one submission than one hold of the mutex takes, and only the last of them are meant.
func TestRetriesByError(t *testing.T) {
	t.Parallel()
	x := newScript(t)
	many := x.Insert(&queue.NewSubmission{Chunks: queue.Chunks{Count: 310, Prefix: "p/"}})
	for index := range uint32(310) {
		item := queue.FailItem{HasRetry: true, RetryAfter: math.MaxInt32, Error: "often"}
		if index >= 300 {
			item.Error = "rarely"
		}
		x.Failed(many, item, index)
	}
	x.Failed(x.insert(1, 1)[0], queue.FailItem{HasRetry: true, RetryAfter: math.MaxInt32, Error: "rarely"}, 2)
	x.Clock += 1000
	f := queue.BulkFilter{Dead: queue.DeadFilter{Fingerprint: queue.Fingerprint("rarely")}}
	id := x.start(queue.BulkRequest{Action: queue.BulkRetry, Filter: f})
	x.page(id, 8, 8, true)
	x.page(id, 8, 3, false)
	x.stands(id, queue.BulkCompleted, queue.BulkCounts{Matched: 11, Done: 11}, queue.BulkWalk{Examined: 311, ToExamine: 311})
	if waiting := x.Machine.Stats.Waiting; waiting != 300 {
		t.Errorf("%d chunks still wait, want 300", waiting)
	}
}

// An operation of which nothing is meant notes how far it got after so many looks, and goes on from there.
func TestFilterThatMeansLittle(t *testing.T) {
	t.Parallel()
	x := newScript(t)
	rare := x.insert(1, 1)[0]
	x.insert(5000, 2)
	id := x.start(queue.BulkRequest{Action: queue.BulkCancel, Filter: ofCompany(1)})
	x.page(id, 10, 0, true)
	x.stands(id, queue.BulkRunning, queue.BulkCounts{}, queue.BulkWalk{Examined: 4096, ToExamine: 5001})
	x.page(id, 10, 1, false)
	x.stands(id, queue.BulkCompleted, queue.BulkCounts{Matched: 1, Done: 1}, queue.BulkWalk{Examined: 5001, ToExamine: 5001})
	if x.Machine.Live(rare) != nil {
		t.Error("the one that is meant is still open")
	}
}

// A page whose commit fails has done nothing: the next one is the same. An operation whose start fails does not exist.
func TestFailedCommit(t *testing.T) {
	t.Parallel()
	x := newScript(t)
	x.insert(3, 1)
	full := errors.New("no room")
	x.Fail = full
	if _, err := x.Start(queue.BulkRequest{}); !errors.Is(err, full) {
		t.Fatalf("a start whose commit fails: %v", err)
	}
	if len(x.List()) != 0 || x.part.running() != 0 {
		t.Fatalf("an operation is left: %+v, %d run", x.List(), x.part.running())
	}
	id := x.start(queue.BulkRequest{Action: queue.BulkCancel})
	x.page(id, 1, 1, true)
	before, _ := x.Get(id)
	x.Fail = full
	if n, more, err := x.Step(t.Context(), id, 1); !errors.Is(err, full) || more {
		t.Fatalf("a page whose commit fails: %d, more %t, %v", n, more, err)
	}
	x.stands(id, queue.BulkRunning, before.Counts, before.Walk)
	x.Fail = full
	if err := x.End(id, queue.BulkCancelled, "ana", ""); !errors.Is(err, full) {
		t.Fatalf("an end whose commit fails: %v", err)
	}
	x.page(id, 1, 1, true)
	x.page(id, 2, 1, false)
	x.stands(id, queue.BulkCompleted, queue.BulkCounts{Matched: 3, Done: 3}, queue.BulkWalk{Examined: 3, ToExamine: 3})
}

// Someone ends an operation: its changes stay, a page in hand does nothing, and the end is final.
func TestEnd(t *testing.T) {
	t.Parallel()
	x := newScript(t)
	x.insert(3, 1)
	id := x.start(queue.BulkRequest{Action: queue.BulkCancel})
	x.page(id, 1, 1, true)
	inHand := page{Bulks: x.Bulks, id: id, step: x.part.find(id).Plan.Step, request: x.part.find(id).Request, most: 1}
	inHand.seen.Started = inHand.started()
	if err := x.End(id, queue.BulkCancelled, "ana", "", queue.Act{Action: "bulk.cancel"}); err != nil {
		t.Fatal(err)
	}
	if n, err := inHand.submissions(); n != 1 || err != nil || !inHand.overtaken || x.Machine.Backlog.Len() != 2 || x.Machine.Batch.Begun {
		t.Errorf("a page in hand: %d, %v, overtaken %t; %d are open, want 2", n, err, inHand.overtaken, x.Machine.Backlog.Len())
	}
	if err := x.End(id, queue.BulkFailed, "bo", "too late"); err != nil {
		t.Fatal(err)
	}
	x.page(id, 1, 0, false)
	x.stands(id, queue.BulkCancelled, queue.BulkCounts{Matched: 1, Done: 1}, queue.BulkWalk{Examined: 1, ToExamine: 3})
	if op, _ := x.Get(id); op.EndedBy != "ana" || op.Failure != "" {
		t.Errorf("who ended it: %+v", op)
	}
	broken := x.start(queue.BulkRequest{Action: queue.BulkCancel})
	if err := x.End(broken, queue.BulkFailed, "", strings.Repeat("x", 2*queue.MaxErrorBytes)); err != nil {
		t.Fatal(err)
	}
	if op, _ := x.Get(broken); op.State != queue.BulkFailed || len(op.Failure) != queue.MaxErrorBytes {
		t.Errorf("the failure of %s has %d bytes, want %d", op.State, len(op.Failure), queue.MaxErrorBytes)
	}
	if fresh := x.Machine.ActLog.Fresh; len(fresh) != 1 || fresh[0].Action != "bulk.cancel" {
		t.Errorf("entries of the audit log: %+v, want the one of the end that came first", fresh)
	}
}

// So many run at once, and so many that have ended are kept. A shard that cannot work starts none and makes no page.
func TestBounds(t *testing.T) {
	t.Parallel()
	x := newScript(t)
	var ids []queue.BulkID
	for range queue.MaxBulkRunning {
		ids = append(ids, x.start(queue.BulkRequest{Action: queue.BulkCancel}))
	}
	if _, err := x.Start(queue.BulkRequest{}); queue.CodeOf(err) != queue.CodeOverloaded {
		t.Fatalf("one too many: %v", err)
	}
	x.Refuse = &queue.Error{Code: queue.CodeUnavailable}
	if _, _, err := x.Step(t.Context(), ids[0], 10); queue.CodeOf(err) != queue.CodeUnavailable {
		t.Errorf("a page of a shard that cannot work: %v", err)
	}
	x.Refuse = nil
	for range queue.MaxBulkKept {
		x.page(ids[1], 10, 0, false)
		ids = append(ids[:1], append(ids[2:], x.start(queue.BulkRequest{Action: queue.BulkCancel}))...)
	}
	oldest := x.List()[1].ID
	x.page(ids[1], 10, 0, false)
	if _, there := x.Get(oldest); there || len(x.List()) != queue.MaxBulkRunning-1+queue.MaxBulkKept {
		t.Errorf("%d are kept, the oldest that ended: %t", len(x.List()), there)
	}
	x.stands(ids[0], queue.BulkRunning, queue.BulkCounts{}, queue.BulkWalk{})
}

// After a reload an operation goes on behind its last commit, and its earlier changes do not count as done since the
// start. Its row has the same state.
func TestReload(t *testing.T) {
	t.Parallel()
	x := newScript(t)
	x.insert(5, 1)
	id := x.start(queue.BulkRequest{Action: queue.BulkReprioritize, Priority: -3, Filter: ofCompany(1), Rate: 9, Actor: "ana"})
	x.page(id, 2, 2, true)
	before, _ := x.Get(id)
	row, old := x.part.Row(uint64(id)), x.part
	x.Reload(x.join)
	x.part.Uncounted()
	after, there := x.Get(id)
	if !there || after.Counts != before.Counts || after.Walk != before.Walk || after.Priority != -3 || after.Rate != 9 || after.Actor != "ana" {
		t.Fatalf("after the reload: %+v, want %+v", after, before)
	}
	if x.part == old || x.part.Totals != (queue.BulkCounts{}) {
		t.Errorf("totals after a start: %+v", x.part.Totals)
	}
	loaded := New(x.Machine, nil)
	if err := loaded.Load(uint64(id), row); err != nil || string(loaded.Row(uint64(id))) != string(row) {
		t.Errorf("the row that is read is not the one that was written: %v", err)
	}
	if err := loaded.apply(&journal.Bulk{ID: queue.SubmissionID(id), Step: 1, State: queue.BulkFailed}); err != nil ||
		loaded.find(id).At.State != queue.BulkRunning {
		t.Errorf("an op that the row has already changed it: %v", err)
	}
	x.page(id, 10, 3, false)
	x.stands(id, queue.BulkCompleted, queue.BulkCounts{Matched: 5, Done: 5}, queue.BulkWalk{Examined: 5, ToExamine: 5})
}
