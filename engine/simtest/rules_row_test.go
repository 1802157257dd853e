package simtest

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/store"
)

// reopened has a submission with a rule about it that ends with a dead chunk, and is opened again: the rule went with its end.
// between is called after the rule is set, and after the end.
func reopened(t *testing.T, b *box, between func()) queue.SubmissionID {
	t.Helper()
	sub := mustInsert(t, b, prefixed(1))
	held := mustReserve(t, b, "OldestFirst", 1)
	if _, _, err := b.shard.Rules.Set(queue.Rule{Action: queue.Pause, Match: queue.RuleMatch{Submission: sub.ID}}, nil); err != nil {
		t.Fatal(err)
	}
	between()
	b.mustFail(held, func(f *queue.FailItem) { f.Fatal = true })
	b.wantCounts("ended", sub.ID, queue.Submission{State: queue.CompletedWithDead, Dead: 1})
	between()
	if n, err := b.shard.DeadLetters.Redrive(ctx, sub.ID, []uint32{0}); n != 1 || err != nil {
		t.Fatalf("redrive: %d %v, want 1", n, err)
	}
	return sub.ID
}

// A rule about a submission ends with it, and does not come back when the submission is opened again: neither with the row of a checkpoint
// before the end, nor by a replay onto rows that are younger than the end.
func TestRulesOfAnEndedSubmissionStayGone(t *testing.T) {
	t.Parallel()
	for _, checkpoints := range []bool{false, true} {
		for moment := range killMoments {
			t.Run(fmt.Sprint(checkpoints, moment), func(t *testing.T) {
				t.Parallel()
				b := openBox(t, deadLetters())
				id := reopened(t, b, func() {
					if !checkpoints {
						return
					}
					if err := b.shard.Checkpoint(); err != nil {
						t.Fatal(err)
					}
				})
				b.wantCounts("opened again", id, queue.Submission{Ready: 1})
				b.kill(t, moment)
				if rules := b.shard.Rules.List(); len(rules) != 0 {
					t.Errorf("after the restart: rules %+v, want none: the one there was ended with its submission", rules)
				}
				b.wantCounts("after the restart", id, queue.Submission{Ready: 1})
			})
		}
	}
}

// A rule about a submission that was opened again stays when the process is killed after a checkpoint wrote the rules and before it wrote
// anything else: the end of the submission, which is replayed, came before the rule.
func TestRuleOfAReopenedSubmissionStays(t *testing.T) {
	t.Parallel()
	b := openBox(t, deadLetters())
	id := reopened(t, b, func() {})
	want, _, err := b.shard.Rules.Set(queue.Rule{Action: queue.Block, Match: queue.RuleMatch{Submission: id}, Reason: "again"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	b.copyFiles("journal.db", dir)
	b.copyFiles("store.db", dir)
	if err := b.shard.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	younger := filepath.Join(b.dir, "store.db")
	b.close()
	b.dir = dir
	exec(t, filepath.Join(dir, "store.db"), store.Kind, fmt.Sprintf(
		"ATTACH DATABASE '%s' AS younger; DELETE FROM aside WHERE kind = %d; INSERT INTO aside SELECT * FROM younger.aside WHERE kind = %d; "+
			"DETACH DATABASE younger", younger, machine.AsideRules, machine.AsideRules))
	b.open()
	if rules := b.shard.Rules.List(); len(rules) != 1 || rules[0] != want {
		t.Errorf("after the restart: rules %+v, want %+v", rules, want)
	}
	b.wantCounts("after the restart", id, queue.Submission{Blocked: 1})
}

// A checkpoint writes the rules before the submissions. Else a kill between the two leaves rules that are older than the submissions: a rule
// comes back that ended with its submission, when that was opened again.
func TestRulesAreWrittenFirst(t *testing.T) {
	t.Parallel()
	b := openBox(t, deadLetters())
	b.close()
	exec(t, filepath.Join(b.dir, "store.db"), store.Kind,
		"CREATE TRIGGER full BEFORE INSERT ON open_page BEGIN SELECT RAISE(ABORT, 'no submission is written'); END")
	b.open()
	mustInsert(t, b, prefixed(1))
	if _, _, err := b.shard.Rules.Set(queue.Rule{Action: queue.Pause}, nil); err != nil {
		t.Fatal(err)
	}
	if err := b.shard.Checkpoint(); err == nil {
		t.Fatal("the checkpoint came through")
	}
	if rows := b.asides(); len(rows) != 1 || rows[0].Kind != machine.AsideRules {
		t.Errorf("rows beside the submissions: %+v, want that of the rules only", rows)
	}
}

// stopLog stops at an append until the test lets it go on.
type stopLog struct {
	journal.Journal
	stop *stop
}

type stop struct {
	mu   sync.Mutex
	at   chan struct{} // closed when the next append has begun; nil: it does not stop
	then chan struct{} // the append goes on when it is closed
}

func (s *stop) arm() (at, then chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at, s.then = make(chan struct{}), make(chan struct{})
	return s.at, s.then
}

func (l *stopLog) Append(ctx context.Context, expect journal.Position, batch []byte) (journal.Position, error) {
	l.stop.mu.Lock()
	at, then := l.stop.at, l.stop.then
	l.stop.at, l.stop.then = nil, nil
	l.stop.mu.Unlock()
	if at != nil {
		close(at)
		<-then
	}
	return l.Journal.Append(ctx, expect, batch)
}

// An operator gives a rule more time a moment before it would end: while that is on its way to the disk, the worker does not end it.
//
//quern:overlapping
func TestRuleIsProlongedAtItsEnd(t *testing.T) {
	t.Parallel()
	at := new(stop)
	b := newBox(t, relaxed())
	b.wrap = func(inner journal.Journal) journal.Journal { return &stopLog{inner, at} }
	b.open()
	rule := queue.Rule{Action: queue.Pause, Until: b.clock.now().Add(time.Minute)}
	if _, _, err := b.shard.Rules.Set(rule, nil); err != nil {
		t.Fatal(err)
	}
	b.clock.pass(time.Minute - 1)
	begun, then := at.arm()
	rule.Until = rule.Until.Add(time.Hour)
	set := make(chan error)
	go func() {
		_, _, err := b.shard.Rules.Set(rule, nil)
		set <- err
	}()
	<-begun
	b.clock.pass(time.Second)
	ticked, drawn := make(chan struct{}), b.seeds.Load()
	go func() {
		defer close(ticked)
		b.shard.Worker.Tick()
	}()
	for b.seeds.Load() == drawn { // the pass draws one with the mutex held
		runtime.Gosched()
	}
	b.shard.Work() // the mutex is free again, so the ops of the pass are encoded
	close(then)
	if err := <-set; err != nil {
		t.Fatal(err)
	}
	<-ticked
	if rules := b.shard.Rules.List(); len(rules) != 1 || rules[0].Until != rule.Until {
		t.Errorf("rules: got %+v, want the one until %d", rules, rule.Until)
	}
	b.tickAfter(time.Hour)
	if rules := b.shard.Rules.List(); len(rules) != 0 {
		t.Errorf("after its time: got %+v, want none", rules)
	}
}
