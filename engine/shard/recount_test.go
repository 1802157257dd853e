package shard

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/audit"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/recount"
	"github.com/quern-queue/quern/engine/store"
	"github.com/quern-queue/quern/engine/strategy"
)

// recounter is a shard with a bit of everything in it, its log and its clock.
type recounter struct {
	*Shard
	t     *testing.T
	log   bytes.Buffer // written under the mutex only
	clock atomic.Int64
	work  queue.SubmissionID // open, with chunks in every state
}

var damagedEntry = queue.MetaEntry{Key: "customer", Value: queue.IntValue(7)}

// newRecounter opens a shard whose state no one changes while a test looks at it.
func newRecounter(t *testing.T, every time.Duration) *recounter {
	t.Helper()
	ctx, dir, settings := context.Background(), t.TempDir(), queue.DefaultSettings()
	settings.Durability, settings.OnExhausted, settings.SuspectShare = queue.Relaxed, queue.DeadLetter, 0.1
	settings.ExpiryBackoff = queue.Backoff{}
	rows, err := store.Open(ctx, filepath.Join(dir, "store.db"), store.Options{Durability: queue.Relaxed})
	if err != nil {
		t.Fatal(err)
	}
	x := &recounter{t: t}
	x.clock.Store(int64(lifeStart))
	seed := uint64(0)
	x.Shard, err = Open(ctx, Options{
		Queue: "q", Settings: settings, Key: reserver.Key{K0: 1, K1: 2}, Store: rows, RecountEvery: every,
		Journal: func(ctx context.Context) (journal.Journal, error) {
			return sqlitelog.Open(ctx, filepath.Join(dir, "journal.db"), sqlitelog.Options{Durability: queue.Relaxed})
		},
		Now: func() time.Time { return queue.Time(x.clock.Load()).Std() }, Seed: func() uint64 { seed++; return seed },
		Logger:    slog.New(slog.NewJSONHandler(&x.log, &slog.HandlerOptions{Level: slog.LevelError})),
		Committed: func(time.Duration, int, int) {}, Fatal: func(err error) { t.Error(err) }, FreeBallast: func() bool { return false },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		x.Close()
		rows.Close()
	})
	return x
}

func (x *recounter) insert(n *queue.NewSubmission) queue.SubmissionID {
	x.t.Helper()
	n.Chunks.Prefix = "p/"
	sub, _, err := x.Insert(context.Background(), n)
	if err != nil {
		x.t.Fatal(err)
	}
	return sub.ID
}

func (x *recounter) reserve(text string, n int) []queue.Reservation {
	x.t.Helper()
	parsed, err := strategy.Parse(text)
	if err != nil {
		x.t.Fatal(err)
	}
	got, err := x.Reserve(context.Background(), machine.Request{Plan: parsed.Plan(), Max: n, Timeout: time.Hour}, nil)
	if err != nil || len(got.Reservations) != n {
		x.t.Fatalf("%s: %d reservations, %v; want %d", text, len(got.Reservations), err, n)
	}
	return got.Reservations
}

// fill puts chunks into every state.
func (x *recounter) fill() {
	x.t.Helper()
	ctx := context.Background()
	x.insert(&queue.NewSubmission{Chunks: queue.Chunks{Count: 1}, Meta: queue.Meta{{Key: "customer", Value: queue.IntValue(1)}}})
	ends := x.reserve(`SelectOnly("customer", 1, OldestFirst)`, 1)
	x.work = x.insert(&queue.NewSubmission{Chunks: queue.Chunks{Count: 100}, Meta: queue.Meta{damagedEntry}, OperationsPerChunk: 3})
	x.insert(&queue.NewSubmission{Chunks: queue.Chunks{Count: 40}, Meta: queue.Meta{{Key: "customer", Value: queue.IntValue(8)}, {Key: "mode", Value: queue.StringValue("p")}}})
	x.insert(&queue.NewSubmission{Chunks: queue.Chunks{Count: 5}, Meta: queue.Meta{damagedEntry}, RunAt: lifeStart + 3_600_000_000})
	held := x.reserve(`SelectOnly("customer", 7, Random)`, 20)
	if _, err := x.Complete(ctx, []queue.CompleteItem{{Token: held[0].Token}, {Token: held[1].Token}, {Token: held[2].Token}}, nil); err != nil {
		x.t.Fatal(err)
	}
	_, err := x.Fail(ctx, []queue.FailItem{
		{Token: ends[0].Token, Fatal: true}, {Token: held[3].Token, Fatal: true}, {Token: held[4].Token, Fatal: true},
		{Token: held[5].Token, HasRetry: true, RetryAfter: 1_000_000_000}, {Token: held[6].Token, HasRetry: true, RetryAfter: 1_000_000_000},
	}, nil)
	if err != nil {
		x.t.Fatal(err)
	}
	if _, err := x.Extend(ctx, []queue.ExtendItem{{Token: held[7].Token, Timeout: 3 * 3_600_000}, {Token: held[8].Token, Timeout: 3 * 3_600_000}}, nil); err != nil {
		x.t.Fatal(err)
	}
	if n, err := x.DeadLetters.Delete(ctx, x.work, []uint32{held[3].Token.Index}); err != nil || n != 1 {
		x.t.Fatalf("delete: %d, %v", n, err)
	}
	if _, _, err := x.Rules.Set(queue.Rule{Action: queue.Pause, Match: queue.RuleMatch{Entry: queue.MetaEntry{Key: "customer", Value: queue.IntValue(8)}}}, nil); err != nil {
		x.t.Fatal(err)
	}
	x.clock.Add((2 * time.Hour).Milliseconds())
	for range 3 {
		x.Worker.Tick() // reservations that no one extended expire, and their chunks are shelved, and some lent
	}
	if s := x.Work().Suspects; s.Shelved == 0 || s.Lent == 0 || s.Ready == 0 {
		x.t.Fatalf("suspects %+v: want some shelved, lent and ready", s)
	}
}

// round recounts everything in slices of so many steps.
func (x *recounter) round(most int) {
	x.t.Helper()
	for {
		if over, err := x.Recounts.Step(most); err != nil {
			x.t.Fatal(err)
		} else if over {
			return
		}
	}
}

// damage changes a counter behind the shard's back. Every kind has one, but for the size of the table of reservations.
func damages(x *recounter) map[recount.Counter]func(m *machine.Machine, r *machine.Record) {
	add := func(kept func(m *machine.Machine) *uint64) func(*machine.Machine, *machine.Record) {
		return func(m *machine.Machine, _ *machine.Record) { *kept(m) += 2 }
	}
	total := func(d backlog.Sums) func(*machine.Machine, *machine.Record) {
		return func(m *machine.Machine, _ *machine.Record) { m.Backlog.Recount.CorrectTotals(d) }
	}
	value := func(d backlog.ValueSums) func(*machine.Machine, *machine.Record) {
		return func(m *machine.Machine, _ *machine.Record) { m.Backlog.Recount.CorrectValue(damagedEntry, d) }
	}
	return map[recount.Counter]func(*machine.Machine, *machine.Record){
		recount.OwnWaiting:   func(_ *machine.Machine, r *machine.Record) { r.Waiting++ },
		recount.OwnDead:      func(_ *machine.Machine, r *machine.Record) { r.Dead-- },
		recount.OwnSkipped:   func(_ *machine.Machine, r *machine.Record) { r.Skips += 3 },
		recount.OwnShelved:   func(_ *machine.Machine, r *machine.Record) { r.Shelved-- },
		recount.OwnLent:      func(_ *machine.Machine, r *machine.Record) { r.Lent++ },
		recount.OwnLentReady: func(_ *machine.Machine, r *machine.Record) { r.Ready-- },
		recount.OwnReserved:  func(_ *machine.Machine, r *machine.Record) { r.Holds.SetLen(r.Holds.Len() + 5) },
		recount.OwnInFlight:  func(m *machine.Machine, r *machine.Record) { m.Backlog.SetInFlight(r.Sub, r.Sub.InFlight()+1) },
		recount.OwnAvailable: func(m *machine.Machine, r *machine.Record) { m.Backlog.SetAvailable(r.Sub, r.Sub.Available()-30) },
		recount.OwnDone:      func(_ *machine.Machine, r *machine.Record) { r.Done-- },

		recount.ValueAvailable:   value(backlog.ValueSums{Available: -4}),
		recount.ValuePaused:      value(backlog.ValueSums{Covered: [2][2]int64{{7, 0}, {0, 0}}}),
		recount.ValueBlocked:     value(backlog.ValueSums{Covered: [2][2]int64{{0, 0}, {0, 1}}}),
		recount.ValueInFlight:    value(backlog.ValueSums{InFlight: 1}),
		recount.ValueSubmissions: value(backlog.ValueSums{Submissions: 1}),

		recount.QueueAvailable: total(backlog.Sums{Available: 9}),
		recount.QueueReady:     total(backlog.Sums{Chunks: [2][3]int64{{-5, 0, 0}, {0, 0, 0}}}),
		recount.QueuePaused:    total(backlog.Sums{Chunks: [2][3]int64{{0, 0, 0}, {0, -5, 0}}}),
		recount.QueueBlocked:   total(backlog.Sums{Chunks: [2][3]int64{{0, 0, 5}, {0, 0, 0}}}),

		recount.QueueWaiting:      add(func(m *machine.Machine) *uint64 { return &m.Stats.Waiting }),
		recount.QueueRunAt:        add(func(m *machine.Machine) *uint64 { return &m.Stats.Parked }),
		recount.QueueDead:         add(func(m *machine.Machine) *uint64 { return &m.Stats.Dead }),
		recount.QueueDone:         add(func(m *machine.Machine) *uint64 { return &m.Stats.Completed }),
		recount.QueueSkipped:      add(func(m *machine.Machine) *uint64 { return &m.Stats.Skipped }),
		recount.QueueOperations:   add(func(m *machine.Machine) *uint64 { return &m.Stats.Operations }),
		recount.QueueCovered:      add(func(m *machine.Machine) *uint64 { return &m.Stats.Covered[0] }),
		recount.QueueCoveredNext:  add(func(m *machine.Machine) *uint64 { return &m.Stats.Covered[1] }),
		recount.QueueSweeping:     add(func(m *machine.Machine) *uint64 { return &m.Stats.Orphaned }),
		recount.QueueEndedLetters: add(func(m *machine.Machine) *uint64 { return &m.Stats.EndedLetters }),
		recount.QueueShelved:      func(m *machine.Machine, _ *machine.Record) { m.Suspects.Shelved++ },
		recount.QueueLent:         func(m *machine.Machine, _ *machine.Record) { m.Suspects.Lent++ },
		recount.QueueLentReady:    func(m *machine.Machine, _ *machine.Record) { m.Suspects.Ready-- },
	}
}

// Every kind of damaged counter is found, counted, logged with scope, counter, kept and recounted, and corrected. Then
// the state is as it was before, and the next round finds nothing.
func TestDriftIsFoundAndCorrected(t *testing.T) {
	t.Parallel()
	x := newRecounter(t, -1)
	x.fill()
	x.round(7)
	stats, values := x.Stats(), x.Values.Get(damagedEntry)
	if w := x.Work().Recount; w.Drifted() > 0 || w.Suspected > 0 || w.Checked[recount.OfSubmission] != 3 || w.Checked[recount.OfValue] != 4 { // a view asks for one more
		t.Fatalf("before any damage: %+v", w)
	}
	all := damages(x)
	for counter := range recount.Counters {
		damage := all[counter]
		if damage == nil {
			if counter != recount.QueueReserved {
				t.Errorf("%s %s: nothing damages it", counter.Scope(), counter)
			}
			continue
		}
		before := x.Work().Recount
		x.log.Reset()
		x.mu.Lock()
		damage(x.m, x.m.Live(x.work))
		x.mu.Unlock()
		x.round(3)
		if counter.Scope() != recount.OfSubmission { // a total is believed to be wrong when the second round says so too
			if w := x.Work().Recount; w.Suspected != before.Suspected+1 || w.Drifted() != before.Drifted() {
				t.Errorf("%s %s after one round: %d suspected and %d drifts more, want 1 and 0", counter.Scope(), counter, w.Suspected-before.Suspected, w.Drifted()-before.Drifted())
			}
			x.round(3)
		}
		w := x.Work().Recount
		for other := range recount.Counters {
			want := before.Drifts[other]
			if other == counter {
				want++
			}
			if w.Drifts[other] != want {
				t.Errorf("%s %s is damaged: %d drifts of %s %s, want %d", counter.Scope(), counter, w.Drifts[other], other.Scope(), other, want)
			}
		}
		x.checkLogged(counter, w.Newest)
		if err := x.Audit(); err != nil {
			t.Errorf("%s %s: corrected, but %v", counter.Scope(), counter, err)
		}
		if got, now := x.Stats(), x.Values.Get(damagedEntry); got != stats || now != values {
			t.Errorf("%s %s: corrected\n got %+v %+v\nwant %+v %+v", counter.Scope(), counter, got, now, stats, values)
		}
		x.log.Reset()
		x.round(1000)
		if again := x.Work().Recount; again.Drifted() != w.Drifted() || again.Suspected != w.Suspected || x.log.Len() > 0 {
			t.Errorf("%s %s: corrected, and found again: %s", counter.Scope(), counter, x.log.String())
		}
	}
}

// checkLogged checks the one line of the log.
func (x *recounter) checkLogged(counter recount.Counter, newest *recount.Drift) {
	x.t.Helper()
	var line struct {
		Level, Scope, Counter, Submission, Key, Value string
		Kept, Recounted                               uint64
		Corrected                                     bool
	}
	if err := json.Unmarshal(x.log.Bytes(), &line); err != nil {
		x.t.Errorf("%s %s: the log is %q, want one line", counter.Scope(), counter, x.log.String())
		return
	}
	if line.Level != "ERROR" || line.Scope != counter.Scope().String() || line.Counter != counter.String() || !line.Corrected || line.Kept == line.Recounted {
		x.t.Errorf("%s %s: the log says %s", counter.Scope(), counter, x.log.String())
	}
	if newest == nil || newest.Counter != counter || newest.Kept != line.Kept || newest.Found != line.Recounted || newest.At == 0 {
		x.t.Errorf("%s %s: the newest drift is %+v, the log says %s", counter.Scope(), counter, newest, x.log.String())
	}
	if of := counter.Scope(); of == recount.OfSubmission && line.Submission != x.work.String() || of == recount.OfValue && line.Key+line.Value != "customer7" {
		x.t.Errorf("%s %s: the log does not say whose it is: %s", counter.Scope(), counter, x.log.String())
	}
}

// A submission that counted too few of its chunks as done ends when that is corrected, as nothing is left to do.
func TestCorrectedSubmissionEnds(t *testing.T) {
	t.Parallel()
	x := newRecounter(t, -1)
	id := x.insert(&queue.NewSubmission{Chunks: queue.Chunks{Count: 2}})
	held := x.reserve("OldestFirst", 2)
	x.mu.Lock()
	x.m.Live(id).Done, x.m.Stats.Completed = ^uint32(0), ^uint64(0)
	x.mu.Unlock()
	if _, err := x.Complete(context.Background(), []queue.CompleteItem{{Token: held[0].Token}, {Token: held[1].Token}}, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := x.Submissions.Get(context.Background(), id); err != nil || got.State != queue.Open {
		t.Fatalf("damaged: %s %v, want open: it counts one chunk too few as done", got.State, err)
	}
	x.round(10)
	if got, err := x.Submissions.Get(context.Background(), id); err != nil || got.State != queue.Completed || got.Done != 2 {
		t.Errorf("corrected: %s with %d done, %v; want completed with 2", got.State, got.Done, err)
	}
	if err := x.Checkpoint(); err != nil {
		t.Error(err)
	}
}

// Rounds are spread over the time that they may take, by the clock that is given; a total that differs is looked at again at once.
func TestRecountKeepsPace(t *testing.T) {
	t.Parallel()
	x := newRecounter(t, time.Hour)
	for range 4 * recount.SliceMost {
		x.insert(&queue.NewSubmission{Chunks: queue.Chunks{Count: 1}})
	}
	x.Worker.Tick()
	if w := x.Work().Recount; w.Progress != 0 || w.Checked[recount.OfSubmission] != 0 {
		t.Errorf("at the start: %+v, want nothing done", w)
	}
	x.clock.Add(recount.First.Milliseconds())
	x.Worker.Tick() // begins
	x.clock.Add(30 * 60_000)
	for range 20 {
		x.Worker.Tick()
	}
	if w := x.Work().Recount; w.Progress < 0.5 || w.Progress > 0.7 || w.Rounds != 0 {
		t.Errorf("after half of the time %.2f of round %d is done, want about half of the first", w.Progress, w.Rounds+1)
	}
	x.clock.Add(30 * 60_000)
	for range 20 {
		x.Worker.Tick()
	}
	first := x.Work().Recount
	if first.Rounds != 1 || first.Last != queue.Time(x.clock.Load()) || first.Checked[recount.OfSubmission] < 4*recount.SliceMost {
		t.Errorf("after the whole time: %+v, want one round, just now", first)
	}
	x.mu.Lock()
	x.m.Stats.Waiting++
	x.mu.Unlock()
	x.clock.Add(90 * 60_000) // the second round is late
	for range 40 {
		x.Worker.Tick()
	}
	if w := x.Work().Recount; w.Drifts[recount.QueueWaiting] != 1 || w.Rounds < 3 {
		t.Errorf("a damaged total: %d drifts after %d rounds, want 1, as the round that confirms it is made at once", w.Drifts[recount.QueueWaiting], w.Rounds)
	}
	if !strings.Contains(x.log.String(), `"counter":"waiting"`) {
		t.Errorf("the log is %q", x.log.String())
	}
}

// A recount that breaks off is the last one; the shard reloads and goes on.
func TestRecountThatPanics(t *testing.T) {
	t.Parallel()
	x := newRecounter(t, time.Hour)
	x.fill()
	x.mu.Lock()
	x.parts.recount = recount.New(x.m, map[recount.Counter]recount.Total{
		recount.QueueEndedLetters: {Kept: func() uint64 { panic("a total that cannot be had") }},
	})
	x.mu.Unlock()
	for range 3 {
		x.clock.Add(3_600_000)
		x.Worker.Tick()
	}
	if w := x.Work().Recount; !w.Stopped {
		t.Errorf("after a panic: %+v, want stopped", w)
	}
	if err := x.Health(); err != nil {
		t.Errorf("Health() = %v, want nil: it has reloaded", err)
	}
	if err := x.Audit(); err != nil {
		t.Error(err)
	}
}

// No slice does more than its steps, even within a submission with 10^6 tried chunks, 10^5 of them held.
//
//quern:sequential
func TestRecountSlicesAreBounded(t *testing.T) {
	t.Parallel()
	const tried, held, most = 1_000_000, 100_000, 500
	l := triedLife(t, tried, held)
	c := recount.New(l.m, nil)
	own, found := 0, 0
	c.Compared = func(scope recount.Scope, n int) { own += n * int(1-min(scope, 1)) }
	c.Skipped = func(recount.Skip, int) {}
	c.Judged = func(_ recount.Counter, d *recount.Drift) { found++ }
	slices, steps := 0, 0
	for over := false; !over; slices++ {
		var n int
		n, over = c.Slice(most)
		if steps += n; n > most+8 {
			t.Fatalf("slice %d took %d steps, want about %d", slices, n, most)
		}
	}
	if own != 1 || steps < tried+held || slices < (tried+held)/most {
		t.Errorf("%d submissions in %d steps and %d slices, want 1 in at least %d and %d", own, steps, slices, tried+held, (tried+held)/most)
	}
	if found > 0 {
		t.Errorf("%d differences, want none", found)
	}
	l.r.Waiting++
	for over := false; !over; {
		_, over = c.Slice(most)
	}
	if found != 1 || audit.Machine(l.m) != nil {
		t.Errorf("one counter is damaged: %d differences, and %v; want 1 and nothing", found, audit.Machine(l.m))
	}
}

// triedLife is a submission with so many tried chunks, half of which wait, and so many held ones.
func triedLife(t testing.TB, tried, held uint32) *life {
	l := heldLife(t, 2*tried, held)
	for index := tried; index < 2*tried; index++ {
		tr := &machine.Try{Attempts: 1}
		l.r.Tries[index] = tr
		if index%2 == 0 && l.m.Withdraw(l.r, index, false) == backlog.Taken {
			l.m.Delays.Note(l.r, index, tr)
			l.m.Stats.Waiting++
		}
	}
	return l
}
