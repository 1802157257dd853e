package simtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// afterWorld is a uniqueWorld in which submissions wait for others.
type afterWorld struct {
	uniqueWorld
	all []*afterSub
}

// afterSub is a submission as the model remembers it.
type afterSub struct {
	id    queue.SubmissionID
	after *queue.After
	left  []queue.SubmissionID // those that it waits for, as far as the model knows
	late  queue.Time           // its run_at
}

func (w *afterWorld) find(id queue.SubmissionID) *afterSub {
	return w.all[slices.IndexFunc(w.all, func(s *afterSub) bool { return s.id == id })]
}

// insert inserts a submission that waits for up to three others, in whatever state those are.
func (w *afterWorld) insert() {
	n := prefixed(uint32(1 + w.r.IntN(2)))
	if w.r.IntN(3) == 0 {
		n = queue.NewSubmission{Chunks: queue.Chunks{Count: 2, Inline: [][]byte{[]byte("large"), []byte("content")}}}
	}
	if w.r.IntN(4) == 0 {
		n.RunAt = w.clock.now().Add(time.Duration(1+w.r.IntN(5)) * time.Second)
	}
	if len(w.all) > 0 && w.r.IntN(4) > 0 {
		after := &queue.After{Ended: w.r.IntN(3) == 0}
		after.Run = !after.Ended && w.r.IntN(4) == 0
		after.DeadLetter = !after.Ended && !after.Run && w.r.IntN(2) == 0
		for range 1 + w.r.IntN(3) {
			if id := w.all[max(len(w.all)-1-w.r.IntN(8), 0)].id; !slices.Contains(after.IDs, id) {
				after.IDs = append(after.IDs, id)
			}
		}
		n.After = after
	}
	w.log.add("insert %+v %v", n.After, n.RunAt)
	if w.fails.Store(nil); w.r.IntN(10) == 0 {
		err := journal.ErrFull
		w.fails.Store(&err)
	}
	made, _, err := w.shard.Insert(ctx, &n)
	if queue.CodeOf(err) == queue.CodeDiskFull {
		w.shard.SetFull(false)
		w.tally["failed"]++
		return
	}
	w.fails.Store(nil)
	must(w.t, err)
	s := &afterSub{id: made.ID, after: n.After, late: n.RunAt}
	if n.After != nil {
		s.left = slices.Clone(n.After.IDs)
		if made.Ready > 0 || len(made.WaitsFor) != len(s.left) {
			w.t.Fatalf("the answer of an insert that waits: %+v", made)
		}
		w.tally["waiting"]++
	}
	w.all = append(w.all, s)
}

// settled has the worker do all that is due, and compares the result with the model.
func (w *afterWorld) settled() {
	for range 3 {
		w.tickAfter(time.Second)
	}
	w.look()
}

func (w *afterWorld) look() {
	w.t.Helper()
	for range 2 { // a submission that is cancelled here ends the wait of others
		for _, s := range w.all {
			now := w.sub(s.id)
			unmet := w.learn(s)
			if unmet && s.after.DeadLetter && now.State == queue.CompletedWithDead {
				w.dead(s, &now)
				continue
			}
			switch {
			case unmet && now.State == queue.Open:
				w.t.Fatalf("%s is open, and one of %v did not end as it wanted", s.id, s.after.IDs)
			case len(s.left) > 0 && now.State == queue.Open && now.Ready+now.Reserved+now.Done > 0:
				w.t.Fatalf("%s waits for %v, and %d are ready, %d reserved and %d done", s.id, s.left, now.Ready, now.Reserved, now.Done)
			case s.late > w.clock.now() && now.Ready+now.Reserved > 0:
				w.t.Fatalf("%s is offered before its run_at", s.id)
			case now.State == queue.Open && !slices.Equal(now.WaitsFor, s.left) && len(now.WaitsFor)+len(s.left) > 0:
				w.t.Fatalf("%s waits for %v, want %v", s.id, now.WaitsFor, s.left)
			case s.after != nil && len(s.left) == 0 && now.State == queue.Open && now.Ready+now.Reserved+now.Done+now.Dead+now.Skipped == 0 && s.late < w.clock.now():
				w.t.Fatalf("%s waits for nothing, and is not offered: %+v", s.id, now)
			}
		}
	}
}

// dead checks that all chunks of a submission are dead letters that name an awaited submission with an unwanted end. It waits for nothing
// any more, also when its letters are redriven.
func (w *afterWorld) dead(s *afterSub, now *queue.Submission) {
	list, err := w.shard.DeadLetters.List(ctx, queue.BulkFilter{Dead: queue.DeadFilter{Submission: s.id}}, queue.ChunkID{}, 10)
	must(w.t, err)
	if uint64(now.Dead) != uint64(now.Chunks) || len(list) != int(now.Chunks) {
		w.t.Fatalf("%s has %d chunks, %d dead and %d dead letters", s.id, now.Chunks, now.Dead, len(list))
	}
	for _, letter := range list {
		if !slices.ContainsFunc(s.left, func(id queue.SubmissionID) bool {
			return strings.HasPrefix(letter.Error, fmt.Sprintf("submission %s, which it waited for, ended as ", id))
		}) {
			w.t.Fatalf("the dead letter %v of %s says %q, which names none of %v", letter.Chunk, s.id, letter.Error, s.left)
		}
	}
	s.left = nil
	w.tally["dead"]++
}

// learn crosses out the submissions that one no longer waits for, and says whether one of them had an unwanted end.
func (w *afterWorld) learn(s *afterSub) (unmet bool) {
	s.left = slices.DeleteFunc(s.left, func(id queue.SubmissionID) bool {
		switch p := w.sub(id); {
		case p.State == queue.Open:
			return false
		case s.after.Met(p.State):
			w.tally["released"]++
			return true
		default:
			unmet = true
			w.tally["unmet"]++
			return false
		}
	})
	return unmet
}

// reserve takes chunks, none of which may be of a submission that waits.
func (w *afterWorld) reserve() {
	got := mustReserve(w.t, w.box, "Random", 1+w.r.IntN(3))
	for i := range got {
		s := w.find(got[i].Token.Submission)
		for _, id := range s.left {
			if p := w.sub(id); p.State == queue.Open || !s.after.Met(p.State) {
				w.t.Fatalf("a chunk of %s was handed out, which waits for %s, which is %s", s.id, id, p.State)
			}
		}
		if s.after != nil {
			w.tally["reserved"]++
		}
	}
	w.held = append(w.held, got...)
}

func (w *afterWorld) step() {
	switch n := w.r.IntN(12); {
	case n < 4:
		w.insert()
	case n < 6:
		w.reserve()
	case n < 10:
		w.subs = w.subs[:0]
		for _, s := range w.all {
			w.subs = append(w.subs, uniqueSub{id: s.id})
		}
		switch w.r.IntN(5) {
		case 0:
			_, err := w.shard.Complete(ctx, completions(w.held), nil)
			must(w.t, err)
			w.held = nil
		case 1:
			w.fail()
		case 2:
			w.redrive()
		case 3:
			if n := len(w.all); n > 0 && w.r.IntN(2) == 0 {
				_, err := w.shard.Submissions.Cancel(ctx, w.all[w.r.IntN(n)].id)
				must(w.t, err)
			}
		case 4:
			if w.r.IntN(3) == 0 { // the worker's first commit fails
				err := journal.ErrFull
				w.fails.Store(&err)
			}
			w.clock.pass(time.Second)
			w.shard.Worker.Tick()
			w.fails.Store(nil)
			w.shard.SetFull(false)
		}
	default:
		if w.restart(); w.held != nil && w.r.IntN(2) == 0 {
			w.held = nil
		}
	}
}

// redrive offers dead chunks again. Submissions that waited for the end, and had not learned of it yet, wait again.
func (w *afterWorld) redrive() {
	for _, x := range w.all {
		if now := w.sub(x.id); now.Dead > 0 && now.State != queue.Cancelled && now.State != queue.Failed {
			for _, s := range w.all {
				w.learn(s)
			}
			w.settled()
			_, err := w.shard.DeadLetters.Redrive(ctx, x.id, []uint32{0})
			must(w.t, err)
			w.tally["redriven"]++
			return
		}
	}
}

func (w *afterWorld) fail() {
	var items []queue.FailItem
	for i := range w.held {
		items = append(items, queue.FailItem{Token: w.held[i].Token, Fatal: w.r.IntN(4) > 0})
	}
	_, err := w.shard.Fail(ctx, items, nil)
	must(w.t, err)
	w.held = nil
}

// Submissions that wait for others are handed out when those have ended as wanted, and never before, and are cancelled when one has another
// end. A brute-force model decides which. Failing commits, reloads, checkpoints, kills and redrives come between.
func TestAfterAgainstModel(t *testing.T) {
	t.Parallel()
	total := map[string]int{}
	seeds := 30
	if testing.Short() {
		seeds = 20
	}
	for i := range seeds {
		seed := rand.Uint64()
		t.Run(fmt.Sprint("seed ", i), func(t *testing.T) {
			settings := relaxed()
			settings.OnExhausted = queue.DeadLetter
			w := &afterWorld{uniqueWorld: uniqueWorld{box: newBox(t, settings), r: newRand(seed, 1), tally: total}}
			w.opBytes = 8 // so that inline contents are put into blobs before
			w.wrap = func(log journal.Journal) journal.Journal { return failingAppends{log, &w.uniqueWorld} }
			w.open()
			defer func() {
				if t.Failed() {
					t.Logf("seed %d\n  %s", seed, w.log.String())
				}
			}()
			for n := range 80 {
				if w.step(); n%4 == 0 {
					w.settled()
				}
			}
			w.settled()
			must(t, w.shard.Audit())
		})
	}
	for _, what := range []string{"waiting", "reserved", "released", "unmet", "dead", "redriven", "killed", "reloaded", "failed"} {
		if total[what] == 0 {
			t.Errorf("nothing was %s", what)
		}
	}
	t.Logf("counted: %v", total)
}

// An end whose consequences were not written before a kill has them after the start, whether the submission is in memory or in the history.
// One that was deleted meanwhile counts as one that did not complete.
func TestAfterOutlivesAKill(t *testing.T) {
	t.Parallel()
	for kind := range killMoments {
		for _, end := range []string{"completed", "cancelled", "deleted"} {
			b := openBox(t, relaxed())
			first := mustInsert(t, b, prefixed(1)).ID
			other := mustInsert(t, b, prefixed(1)).ID
			n := prefixed(1)
			n.After = &queue.After{IDs: []queue.SubmissionID{first}}
			second := mustInsert(t, b, n).ID
			n.After = &queue.After{IDs: []queue.SubmissionID{first, other}, Ended: true}
			third := mustInsert(t, b, n).ID
			if end == "completed" {
				held := mustReserve(t, b, "OldestFirst", 1)
				if held[0].Token.Submission != first {
					t.Fatal("another one came first")
				}
				_, err := b.shard.Complete(ctx, completions(held), nil)
				must(t, err)
			} else {
				_, err := b.shard.Submissions.Cancel(ctx, first)
				must(t, err)
				if end == "deleted" {
					must(t, b.shard.Deletions.Delete(ctx, first, false))
				}
			}
			b.kill(t, kind)
			b.tickAfter(time.Second)
			want := queue.Cancelled
			if end == "completed" {
				want = queue.Open
			}
			if got := b.sub(second); got.State != want || end == "completed" && got.Ready != 1 {
				t.Errorf("%s, files %d: the one that waited is %s with %d ready, want %s", end, kind, got.State, got.Ready, want)
			}
			if got := b.sub(third); got.State != queue.Open || !slices.Equal(got.WaitsFor, []queue.SubmissionID{other}) {
				t.Errorf("%s, files %d: the other one is %s and waits for %v", end, kind, got.State, got.WaitsFor)
			}
			b.kill(t, allFolded)
			if got := b.sub(third); !slices.Equal(got.WaitsFor, []queue.SubmissionID{other}) || got.Ready > 0 {
				t.Errorf("%s, files %d: after another start it waits for %v", end, kind, got.WaitsFor)
			}
			must(t, b.shard.Audit())
		}
	}
}

// If a submission that ended with dead chunks is redriven before those that wait for it have learned of the end, these wait again.
func TestAfterARedrive(t *testing.T) {
	t.Parallel()
	b := openBox(t, deadLetters())
	first := mustInsert(t, b, prefixed(1)).ID
	n := prefixed(1)
	n.After = &queue.After{IDs: []queue.SubmissionID{first}, Ended: true}
	second := mustInsert(t, b, n).ID
	b.mustFail(mustReserve(t, b, "OldestFirst", 1), func(f *queue.FailItem) { f.Fatal = true })
	_, err := b.shard.DeadLetters.Redrive(ctx, first, []uint32{0})
	must(t, err)
	b.tickAfter(time.Second)
	if got := b.sub(second); got.Ready > 0 || len(got.WaitsFor) != 1 {
		t.Fatalf("it waits for %v, and %d are ready", got.WaitsFor, got.Ready)
	}
	_, err = b.shard.Complete(ctx, completions(mustReserve(t, b, "OldestFirst", 2)), nil)
	must(t, err)
	b.tickAfter(time.Second)
	if got := b.sub(second); got.Ready != 1 || len(got.WaitsFor) > 0 {
		t.Errorf("it waits for %v, and %d are ready", got.WaitsFor, got.Ready)
	}
}

// A submission that ended with dead chunks counts as completed if it is redriven and completed before those that wait for it learned of the
// first end.
func TestAfterARedriveThatSucceeds(t *testing.T) {
	t.Parallel()
	b := openBox(t, deadLetters())
	first := mustInsert(t, b, prefixed(1)).ID
	n := prefixed(1)
	n.After = &queue.After{IDs: []queue.SubmissionID{first}}
	second := mustInsert(t, b, n).ID
	b.mustFail(mustReserve(t, b, "OldestFirst", 1), func(f *queue.FailItem) { f.Fatal = true })
	_, err := b.shard.DeadLetters.Redrive(ctx, first, []uint32{0})
	must(t, err)
	_, err = b.shard.Complete(ctx, completions(mustReserve(t, b, "OldestFirst", 1)), nil)
	must(t, err)
	b.tickAfter(time.Second)
	b.wantCounts("after the redrive succeeded", second, queue.Submission{Ready: 1})
}

// A submission whose dead_deadline passes while it waits for another one is not offered when the slice that makes dead letters of it fails.
func TestAfterAndADeadlineThatFails(t *testing.T) {
	t.Parallel()
	settings := relaxed()
	settings.OnDeadline = queue.DeadLetterThem
	f := &faults{}
	b := newBox(t, settings)
	b.wrap, b.fatal = f.wrap, f.fatal
	b.open()
	defer b.close()
	n := prefixed(3)
	n.After = &queue.After{IDs: []queue.SubmissionID{mustInsert(t, b, prefixed(1)).ID}}
	n.DeadDeadline = b.clock.now().Add(time.Minute)
	second := mustInsert(t, b, n).ID
	f.arm(full, 0)
	b.clock.pass(time.Minute)
	b.shard.Worker.Tick()
	if err := b.settle(); queue.CodeOf(err) != queue.CodeDiskFull && !f.hasFired() {
		t.Fatalf("the commit of the slice: got %v, want a full disk", err)
	}
	if got := b.sub(second); got.State != queue.Open || got.Ready > 0 || len(got.WaitsFor) != 1 {
		t.Errorf("after the slice failed it is %s, waits for %v, and %d are ready", got.State, got.WaitsFor, got.Ready)
	}
	b.tickAfter(time.Second)
	b.wantCounts("after the next tick", second, queue.Submission{State: queue.CompletedWithDead, Dead: 3})
	must(t, b.shard.Audit())
}

// Waits are bounded, and an insert that is refused or fails leaves none.
func TestAfterIsBounded(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	var count int
	waits := func(limit int) int {
		b.shard.Submissions.Look(func(m *machine.Machine) { m.Afters.Limit, count = limit, m.Afters.Count })
		return count
	}
	waits(2)
	ids := []queue.SubmissionID{mustInsert(t, b, prefixed(1)).ID, mustInsert(t, b, prefixed(1)).ID}
	n := prefixed(1)
	n.After = &queue.After{IDs: ids}
	second := mustInsert(t, b, n).ID
	if _, _, err := b.shard.Insert(ctx, &n); queue.CodeOf(err) != queue.CodeOverloaded {
		t.Errorf("a wait beyond the bound gave %v", err)
	}
	_, err := b.shard.Submissions.Cancel(ctx, second)
	must(t, err)
	if left := waits(2); left != 0 {
		t.Errorf("%d waits are left of a submission that was cancelled", left)
	}
	n.After = &queue.After{IDs: []queue.SubmissionID{ids[0] + 1<<30}}
	var refused *queue.Error
	if _, _, err := b.shard.Insert(ctx, &n); !errors.As(err, &refused) || refused.Code != queue.CodeInvalid {
		t.Errorf("a wait for what does not exist gave %v", err)
	}
	if left := waits(2); left != 0 {
		t.Errorf("%d waits are left of inserts that were refused", left)
	}
}

// Chunks of a submission that waited without success die in slices. Full disks and kills in between do not change the dead chunks, and the
// others follow. No consumer gets one of them.
func TestAfterMakesDeadLettersInSlices(t *testing.T) {
	t.Parallel()
	for kind := range killMoments + 1 {
		for slice := range 3 {
			afterInSlices(t, kind, slice)
		}
	}
}

// afterInSlices lets the commit of one slice fail, and then kills the server, or, with killMoments, lets it go on.
func afterInSlices(t *testing.T, kind, slice int) {
	f := &faults{}
	b := newBox(t, relaxed())
	b.wrap, b.fatal = f.wrap, f.fatal
	b.open()
	defer b.close()
	first := mustInsert(t, b, prefixed(1)).ID
	const chunks = 1300
	n := prefixed(chunks)
	n.After = &queue.After{IDs: []queue.SubmissionID{first, mustInsert(t, b, prefixed(1)).ID}, DeadLetter: true}
	n.DeadDeadline = b.clock.now().Add(time.Hour)
	second := mustInsert(t, b, n).ID
	_, err := b.shard.Submissions.Cancel(ctx, first)
	must(t, err)
	f.arm(full, slice)
	b.clock.pass(time.Second)
	b.shard.Worker.Tick()
	if err := b.settle(); queue.CodeOf(err) != queue.CodeDiskFull && !f.hasFired() {
		t.Fatalf("the commit of slice %d: got %v, want a full disk", slice, err)
	}
	dead := uint32(max(500*slice-1, 0)) // the look at the wait was a step, too
	b.wantCounts(fmt.Sprint("after slice ", slice, " failed"), second, queue.Submission{Waiting: chunks - dead, Dead: dead})
	if got := mustReserve(t, b, "NewestFirst", 2); len(got) != 1 || got[0].Token.Submission == second {
		t.Fatal("a chunk of it was handed out")
	}
	if kind < killMoments {
		if b.kill(t, kind); slice == 2 {
			b.shard.Worker.Tick() // with the time of before
		}
	}
	b.tickAfter(time.Second)
	b.wantCounts("in the end", second, queue.Submission{State: queue.CompletedWithDead, Dead: chunks})
	list, err := b.shard.DeadLetters.List(ctx, queue.BulkFilter{Dead: queue.DeadFilter{Submission: second}}, queue.ChunkID{}, chunks)
	must(t, err)
	for _, letter := range list {
		if want := fmt.Sprintf("submission %s, which it waited for, ended as cancelled", first); letter.Error != want || letter.Attempts != 0 {
			t.Fatalf("the dead letter %v says %q after %d attempts, want %q", letter.Chunk, letter.Error, letter.Attempts, want)
		}
	}
	_, err = b.shard.DeadLetters.Redrive(ctx, second, []uint32{7})
	must(t, err)
	b.kill(t, min(kind, allFolded))
	if got := b.sub(second); got.State != queue.Open || got.Ready != 1 || len(got.WaitsFor) > 0 {
		t.Errorf("after a redrive it is %s, %d are ready, and it waits for %v", got.State, got.Ready, got.WaitsFor)
	}
	must(t, b.shard.Audit())
}

// dyingInSlices inserts a submission of many chunks, has `begin` start the death of all of them, and stops after the first slice: the
// commit of the second one fails.
func dyingInSlices(t *testing.T, settings queue.Settings, change func(*box, *queue.NewSubmission), begin func(*box),
) (*box, *faults, queue.SubmissionID) {
	t.Helper()
	f := &faults{}
	b := newBox(t, settings)
	b.wrap, b.fatal = f.wrap, f.fatal
	b.open()
	n := prefixed(1300)
	change(b, &n)
	sub := mustInsert(t, b, n).ID
	begin(b)
	f.arm(full, 1)
	b.shard.Worker.Tick()
	if err := b.settle(); queue.CodeOf(err) != queue.CodeDiskFull && !f.hasFired() {
		t.Fatalf("the commit of the second slice: got %v, want a full disk", err)
	}
	if got := b.sub(sub); got.Dead == 0 || got.Waiting+got.Dead != got.Chunks {
		t.Fatalf("between two slices: %+v", got)
	}
	return b, f, sub
}

// The decision that all chunks of a submission become dead letters is made once. Between two slices, or at a restart, nothing changes it:
// not a redrive or a completion of the other submission, not a rule that covers this one, and not a new setting.
func TestDyingInSlicesIsDecidedOnce(t *testing.T) {
	t.Parallel()
	settings := deadLetters()
	settings.OnDeadline = queue.DeadLetterThem
	for kind := range killMoments + 1 {
		var first queue.SubmissionID
		waits := func(b *box, n *queue.NewSubmission) {
			first = mustInsert(t, b, prefixed(1)).ID
			n.After = &queue.After{IDs: []queue.SubmissionID{first}, DeadLetter: true}
		}
		fail := func(b *box) {
			b.mustFail(mustReserve(t, b, "OldestFirst", 1), func(f *queue.FailItem) { f.Fatal = true })
		}
		redrive := func(b *box) {
			_, err := b.shard.DeadLetters.Redrive(ctx, first, []uint32{0})
			must(t, err)
		}
		late := func(b *box, n *queue.NewSubmission) { n.DeadDeadline = b.clock.now().Add(time.Minute) }
		pass := func(b *box) { b.clock.pass(time.Minute) }
		for name, x := range map[string]struct {
			change  func(b *box, n *queue.NewSubmission)
			begin   func(b *box)
			between func(b *box, f *faults, sub queue.SubmissionID) (deleted int)
		}{
			"redriven": {waits, fail, func(b *box, _ *faults, _ queue.SubmissionID) int { redrive(b); return 0 }},
			"redriven, and the letters deleted": {waits, fail, func(b *box, _ *faults, sub queue.SubmissionID) int {
				redrive(b)
				deleted := 0
				for some := range slices.Chunk(indexes(1300), 100) {
					n, err := b.shard.DeadLetters.Delete(ctx, sub, some)
					must(t, err)
					deleted += n
				}
				return deleted
			}},
			"redriven and completed": {waits, fail, func(b *box, f *faults, _ queue.SubmissionID) int {
				redrive(b)
				b.kill(t, asTheyAre) // from now on its end is waited for again
				_, err := b.shard.Complete(ctx, completions(mustReserve(t, b, "OldestFirst", 1)), nil)
				must(t, err)
				f.arm(full, 1) // the next slice but one, so that the end that was waited for is seen before
				b.clock.pass(time.Second)
				b.shard.Worker.Tick()
				return 0
			}},
			"paused": {late, pass, func(b *box, _ *faults, _ queue.SubmissionID) int {
				_, _, err := b.shard.Rules.Set(queue.Rule{Action: queue.Pause}, nil)
				must(t, err)
				return 0
			}},
			"set to skip": {late, pass, func(b *box, _ *faults, _ queue.SubmissionID) int { b.settings.OnDeadline = queue.SkipThem; return 0 }},
		} {
			b, f, sub := dyingInSlices(t, settings, x.change, x.begin)
			deleted := uint32(x.between(b, f, sub))
			if kind < killMoments {
				b.kill(t, kind)
			}
			if got := b.sub(sub); got.Ready > 0 || got.Waiting+got.Dead+got.Skipped != got.Chunks {
				t.Errorf("%s, files %d: between two slices: %+v", name, kind, got)
			}
			b.tickAfter(time.Second)
			want := queue.Submission{State: queue.CompletedWithDead, Dead: 1300 - deleted, Skipped: deleted}
			b.wantCounts(fmt.Sprintf("%s, files %d", name, kind), sub, want)
			must(t, b.shard.Audit())
			b.close()
		}
	}
}

// While the chunks of a submission die, the end of one that it waits for decides nothing any more: it neither cancels the remaining chunks
// nor counts as another action.
func TestAfterASecondUnmet(t *testing.T) {
	t.Parallel()
	settings := relaxed()
	settings.OnDeadline = queue.DeadLetterThem
	var first, other queue.SubmissionID
	waits := func(b *box, n *queue.NewSubmission) {
		first, other = mustInsert(t, b, prefixed(1)).ID, mustInsert(t, b, prefixed(1)).ID
		n.After = &queue.After{IDs: []queue.SubmissionID{first, other}}
	}
	cancel := func(b *box, id queue.SubmissionID) {
		_, err := b.shard.Submissions.Cancel(ctx, id)
		must(t, err)
	}
	acts := func(b *box) (n uint64) {
		b.shard.Submissions.Look(func(m *machine.Machine) { n = m.Stats.Acts[machine.KindAfter].Done })
		return n
	}

	b, _, sub := dyingInSlices(t, settings, func(b *box, n *queue.NewSubmission) {
		waits(b, n)
		n.DeadDeadline = b.clock.now().Add(time.Minute)
	}, func(b *box) { b.clock.pass(time.Minute) })
	cancel(b, first)
	b.tickAfter(time.Second)
	b.wantCounts("at its dead_deadline, and then unmet", sub, queue.Submission{State: queue.CompletedWithDead, Dead: 1300})
	if n := acts(b); n != 0 {
		t.Errorf("an end that decides nothing counts as %d actions", n)
	}
	b.close()

	b, _, sub = dyingInSlices(t, settings, func(b *box, n *queue.NewSubmission) { waits(b, n); n.After.DeadLetter = true },
		func(b *box) { cancel(b, first); b.clock.pass(time.Second) })
	cancel(b, other)
	b.tickAfter(time.Second)
	b.wantCounts("unmet twice", sub, queue.Submission{State: queue.CompletedWithDead, Dead: 1300})
	if n := acts(b); n != 1 {
		t.Errorf("two ends, of which the first decides, count as %d actions", n)
	}
	b.close()
}
