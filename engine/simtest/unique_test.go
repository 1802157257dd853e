package simtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// unique is a submission with a unique key. If it is large, its bytes are put before its insert is finally decided.
func unique(key string, window time.Duration, replace, large bool) *queue.NewSubmission {
	n := prefixed(1)
	if large {
		n = queue.NewSubmission{Chunks: queue.Chunks{Count: 2, Inline: [][]byte{[]byte("large"), []byte("content")}}}
	}
	n.Unique = &queue.Unique{Key: key, For: window, Replace: replace}
	return &n
}

// uniqueSub is a submission as the model remembers it.
type uniqueSub struct {
	id       queue.SubmissionID
	key      string
	until    queue.Time // 0: while open
	replaced bool
}

// uniqueWorld is a box, and a model of it that is a list of all inserts.
type uniqueWorld struct {
	*box
	r     *rand.Rand
	subs  []uniqueSub
	held  []queue.Reservation
	fails atomic.Pointer[error] // of the next append
	log   history
	tally map[string]int
}

// Append is journal.Journal's.
type failingAppends struct {
	journal.Journal
	w *uniqueWorld
}

func (j failingAppends) Append(ctx context.Context, expect journal.Position, batch []byte) (journal.Position, error) {
	if err := j.w.fails.Swap(nil); err != nil {
		return 0, *err
	}
	return j.Journal.Append(ctx, expect, batch)
}

// holder is the submission that holds a key: the youngest that is open, or whose time is not over.
func (w *uniqueWorld) holder(key string) *uniqueSub {
	for i := range slices.Backward(w.subs) {
		x := &w.subs[i]
		if x.key == key && !x.replaced && (x.until == 0 && w.sub(x.id).State == queue.Open || x.until > w.clock.now()) {
			return x
		}
		if x.key == key && x.until != 0 {
			// A submission that came behind one that holds the key for a time found it free, so that time is over.
			x.until = min(x.until, w.clock.now())
		}
	}
	return nil
}

// begun says whether a chunk of a submission is reserved or finished.
func (w *uniqueWorld) begun(id queue.SubmissionID) bool {
	x := w.sub(id)
	return x.State != queue.Open || x.Reserved+x.Done+x.Dead+x.Skipped > 0
}

func (w *uniqueWorld) insert() {
	list := make([]queue.Insertion, 1+w.r.IntN(3))
	for i := range list {
		window := time.Duration(0)
		if w.r.IntN(2) == 0 {
			window = time.Duration(1+w.r.IntN(10)) * time.Second
		}
		list[i].New = unique(fmt.Sprint("key", w.r.IntN(3)), window, w.r.IntN(2) == 0, w.r.IntN(3) == 0)
		w.log.add("insert %+v", *list[i].New.Unique)
	}
	before := len(w.subs)
	wanted := make([]*uniqueSub, len(list))
	ousted := make([]*uniqueSub, len(list))
	seen := map[string]int{}
	for i := range list {
		u := list[i].New.Unique
		if _, made := seen[u.Key]; made { // by this call, in which nothing takes the place of another one
			wanted[i] = &uniqueSub{}
			continue
		}
		switch holder := w.holder(u.Key); {
		case holder == nil:
			seen[u.Key] = i
		case u.Replace && !w.begun(holder.id):
			seen[u.Key] = i
			ousted[i] = &uniqueSub{id: holder.id}
		default:
			wanted[i] = &uniqueSub{id: holder.id}
		}
	}
	fails := w.r.IntN(8) == 0
	if fails {
		err := journal.ErrFull
		w.fails.Store(&err)
	}
	err := w.shard.InsertMany(ctx, list, w.r.IntN(2) == 0)
	if fails = fails && w.fails.Swap(nil) == nil; fails {
		if queue.CodeOf(err) != queue.CodeDiskFull {
			w.t.Fatalf("an insert whose append failed gave %v", err)
		}
		w.shard.SetFull(false)
		w.tally["failed"]++
		return
	}
	must(w.t, err)
	for i := range list {
		in, u := &list[i], list[i].New.Unique
		must(w.t, in.Err)
		want := wanted[i]
		if want != nil && want.id == 0 {
			want = &uniqueSub{id: list[seen[u.Key]].Submission.ID}
		}
		if want != nil {
			if !in.Existing || in.Submission.ID != want.id {
				w.t.Fatalf("%+v gave %s, existing %v; want %s, which holds the key", *u, in.Submission.ID, in.Existing, want.id)
			}
			w.tally["existing"]++
			continue
		}
		if in.Existing || in.Replayed {
			w.t.Fatalf("%+v gave %s, which exists; want a new one", *u, in.Submission.ID)
		}
		made := uniqueSub{id: in.Submission.ID, key: u.Key}
		if u.For > 0 {
			made.until = in.Submission.Created.Add(u.For)
		}
		if old := ousted[i]; old != nil {
			at := slices.IndexFunc(w.subs[:before], func(x uniqueSub) bool { return x.id == old.id })
			w.subs[at].replaced = true
			if got := w.sub(old.id); got.State != queue.Cancelled || got.Failure == "" {
				w.t.Fatalf("%s was replaced, and is %s %q", old.id, got.State, got.Failure)
			}
			w.tally["replaced"]++
		}
		w.subs = append(w.subs, made)
		w.tally["inserted"]++
	}
}

// work does something with the submissions that are there.
func (w *uniqueWorld) work() {
	switch w.r.IntN(6) {
	case 0:
		w.held = append(w.held, mustReserve(w.t, w.box, "Random", 1+w.r.IntN(3))...)
	case 1:
		_, err := w.shard.Complete(ctx, completions(w.held), nil)
		must(w.t, err)
		w.held = nil
	case 2:
		var items []queue.FailItem
		for i := range w.held {
			items = append(items, queue.FailItem{Token: w.held[i].Token, Fatal: w.r.IntN(4) > 0})
		}
		_, err := w.shard.Fail(ctx, items, nil)
		must(w.t, err)
		w.held = nil
	case 3:
		for _, x := range w.subs {
			if now := w.sub(x.id); now.Dead > 0 && now.State != queue.Cancelled {
				_, err := w.shard.DeadLetters.Redrive(ctx, x.id, []uint32{0})
				must(w.t, err)
				w.tally["redriven"]++
			}
		}
	case 4:
		if n := len(w.subs); n > 0 {
			_, err := w.shard.Submissions.Cancel(ctx, w.subs[w.r.IntN(n)].id)
			must(w.t, err)
		}
	case 5:
		w.tickAfter(time.Duration(w.r.IntN(4000)) * time.Millisecond)
	}
}

func (w *uniqueWorld) restart() {
	switch w.r.IntN(4) {
	case 0:
		must(w.t, w.shard.Checkpoint())
	case 1:
		w.close()
		w.open()
	case 2:
		moment := w.r.IntN(killMoments)
		w.log.add("kill %d", moment)
		w.kill(w.t.(*testing.T), moment)
		w.held = nil
		w.tally["killed"]++
	case 3:
		cause := errors.New("no one knows whether it was written")
		w.fails.Store(&cause)
		_, _, err := w.shard.Insert(ctx, unique("of no one", 0, true, false))
		if w.fails.Swap(nil) != nil || queue.CodeOf(err) != queue.CodeCommitFailed {
			w.t.Fatalf("an insert of unknown outcome gave %v", err)
		}
		w.tally["reloaded"]++
	}
}

// A brute-force model that looks at all inserts ever made agrees about every insert with a unique key: whether it is made, whose place it
// takes, or which submission answers it. Completions, dead letters, redrives, cancels, failing commits, reloads, checkpoints and kills
// come between.
func TestUniqueAgainstModel(t *testing.T) {
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
			w := &uniqueWorld{box: newBox(t, settings), r: newRand(seed, 1), tally: total}
			w.opBytes = 8 // so that inline contents are put into blobs before
			w.wrap = func(log journal.Journal) journal.Journal { return failingAppends{log, w} }
			w.open()
			defer func() {
				if t.Failed() {
					t.Logf("seed %d\n  %s", seed, w.log.String())
				}
			}()
			for range 60 {
				switch n := w.r.IntN(10); {
				case n < 5:
					w.insert()
				case n < 9:
					w.work()
				default:
					w.restart()
				}
			}
			must(t, w.shard.Audit())
		})
	}
	for _, what := range []string{"inserted", "existing", "replaced", "redriven", "killed", "reloaded", "failed"} {
		if total[what] == 0 {
			t.Errorf("nothing was %s", what)
		}
	}
	t.Logf("counted: %v", total)
}

// Of inserts with one key that come at the same time exactly one holds it at every moment, and none that was handed out is replaced.
//
//quern:overlapping
func TestUniqueAtOnce(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	const producers, each = 8, 60
	var made, existing atomic.Int64
	var mu sync.Mutex
	reserved := map[queue.SubmissionID]bool{}
	all := map[queue.SubmissionID]bool{}
	var group sync.WaitGroup
	stop := make(chan struct{})
	var consumer sync.WaitGroup
	consumer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			got, err := b.shard.Reserve(ctx, machine.Request{Plan: plan(t, "Random"), Max: 1, Timeout: time.Hour}, nil)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			for i := range got.Reservations {
				reserved[got.Reservations[i].Token.Submission] = true
			}
			mu.Unlock()
			results, err := b.shard.Complete(ctx, completions(got.Reservations), nil)
			if err != nil {
				t.Error(err)
				return
			}
			for _, r := range results {
				if r.Outcome != queue.OutcomeOK {
					t.Errorf("a completion gave %v: its submission was replaced although it had begun", r.Outcome)
				}
			}
		}
	})
	for p := range producers {
		group.Go(func() {
			for i := range each {
				in := []queue.Insertion{{New: unique("one", 0, (p+i)%2 == 0, i%3 == 0)}}
				if err := b.shard.InsertMany(ctx, in, false); err != nil || in[0].Err != nil {
					t.Error(err, in[0].Err)
					return
				}
				if in[0].Existing {
					existing.Add(1)
					continue
				}
				made.Add(1)
				mu.Lock()
				all[in[0].Submission.ID] = true
				mu.Unlock()
			}
		})
	}
	group.Wait()
	close(stop)
	consumer.Wait()
	open := 0
	for id := range all {
		switch sub := b.sub(id); {
		case sub.State == queue.Open:
			open++
		case sub.State == queue.Cancelled && reserved[id]:
			t.Errorf("%s was handed out, and replaced", id)
		}
	}
	if open > 1 {
		t.Errorf("%d submissions hold the key", open)
	}
	if made.Load()+existing.Load() != producers*each {
		t.Errorf("%d were made and %d answered with another, of %d", made.Load(), existing.Load(), producers*each)
	}
	must(t, b.shard.Audit())
	t.Logf("counted: %d made, %d existing", made.Load(), existing.Load())
}

// A replace that comes while a cancel is on its way to the disk replaces nothing: the cancel was first. Its answer is the submission that
// is being cancelled, which is ended once, by its own cancel. If the cancel fails, that submission is open and holds its key.
func TestReplaceWhileACancelIsOnItsWay(t *testing.T) {
	for name, end := range map[string]ending{"the cancel succeeds": succeeds, "the cancel fails": isFull} {
		t.Run(name, func(t *testing.T) {
			behindGates(t, func(o *overlap) {
				var first queue.Submission
				o.freely(func() { first = mustInsert(o.t, &o.box, *unique("k", 0, false, false)) })
				cancel := o.later(func() ([]queue.Result, error) {
					_, err := o.shard.Submissions.Cancel(ctx, first.ID)
					return nil, err
				})
				in := []queue.Insertion{{New: unique("k", 0, true, false)}}
				replace := o.later(func() ([]queue.Result, error) { return nil, o.shard.InsertMany(ctx, in, false) })
				o.let("append", end)
				o.shard.SetFull(false)
				o.freely(func() {})
				if !cancel.done || (cancel.err == nil) != (end == succeeds) {
					o.t.Fatalf("the cancel: %v, %v", cancel.done, cancel.err)
				}
				if !replace.done || replace.err != nil || in[0].Err != nil || !in[0].Existing || in[0].Submission.ID != first.ID {
					o.t.Errorf("the replace: %v, %v, %+v; want it answered with %s", replace.done, replace.err, in[0], first.ID)
				}
				now := o.sub(first.ID)
				if end == succeeds && (now.State != queue.Cancelled || now.Failure != "") || end != succeeds && (now.State != queue.Open || now.Ready != 1) {
					o.t.Errorf("%s is %s %q with %d ready", name, now.State, now.Failure, now.Ready)
				}
				if stats := o.shard.Stats(); stats.UniqueReplaced != 0 || end != succeeds && stats.UniqueKeys != 1 {
					o.t.Errorf("%s: %d were replaced, %d keys are held", name, stats.UniqueReplaced, stats.UniqueKeys)
				}
				must(o.t, o.shard.Audit())
			})
		})
	}
}
