package simtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// fault is a way for an append to fail.
type fault uint8

const (
	noFault fault = iota
	full
	unknownWritten
	unknownLost
	syncWritten
	syncLost
)

var faultNames = [...]string{"none", "disk full", "unknown, written", "unknown, not written", "sync failed, written", "sync failed, not written"}

func (f fault) written() bool { return f == unknownWritten || f == syncWritten }

func (f fault) err() error {
	switch f {
	case full:
		return fmt.Errorf("test: %w", journal.ErrFull)
	case unknownWritten, unknownLost:
		return fmt.Errorf("test: %w", journal.ErrUnknown)
	case syncWritten, syncLost:
		return fmt.Errorf("test: %w", journal.ErrSync)
	}
	return nil
}

// faults stands between a shard and its journals: the one it has and, after a reload, the next one.
type faults struct {
	mu     sync.Mutex
	next   fault // of the append after `after` further ones
	after  int
	fired  fault // of the last failed append
	count  int   // of failed appends
	fatals int
	gate   chan struct{} // appends wait for it; nil: they do not
	spare  bool          // the first append of a journal, with which the shard starts or reloads, does not fail
	former bool          // strategies are drawn as they were before there were lists of values
}

type faultyLog struct {
	journal.Journal
	faults *faults
	begun  atomic.Bool
}

func (f *faults) wrap(inner journal.Journal) journal.Journal {
	return &faultyLog{Journal: inner, faults: f}
}

func (f *faults) fatal(error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fatals++
}

// arm makes the append after `after` further ones fail.
func (f *faults) arm(kind fault, after int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next, f.after, f.fired = kind, after, noFault
}

// shut holds appends back until the returned function is called.
func (f *faults) shut() (open func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	gate := make(chan struct{})
	f.gate = gate
	return func() {
		f.mu.Lock()
		f.gate = nil
		f.mu.Unlock()
		close(gate)
	}
}

// played is how many appends failed.
func (f *faults) played() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count
}

func (f *faults) take() (fault, chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kind := noFault
	if f.next != noFault {
		if f.after == 0 {
			kind, f.next, f.fired = f.next, noFault, f.next
			f.count++
		} else {
			f.after--
		}
	}
	return kind, f.gate
}

func (l *faultyLog) Append(ctx context.Context, expect journal.Position, batch []byte) (journal.Position, error) {
	if first := !l.begun.Swap(true); first && l.faults.spare {
		return l.Journal.Append(ctx, expect, batch)
	}
	kind, gate := l.faults.take()
	if gate != nil {
		<-gate
	}
	if kind == noFault || kind.written() {
		position, err := l.Journal.Append(ctx, expect, batch)
		if kind == noFault || err != nil {
			return position, err
		}
	}
	return 0, kind.err()
}

// expected is the error that all callers in a batch get when its append fails with the fired fault.
func (f *faults) expected() error {
	code := queue.CodeCommitFailed
	if f.fired == full {
		code = queue.CodeDiskFull
	}
	return &queue.Error{Code: code, Err: errors.Unwrap(f.fired.err())}
}

// TestFaults plays simulations in which one append in some fails, in every way an append can fail. Each call in the batch gets the error,
// only changes that were written have happened, and the shard goes on.
func TestFaults(t *testing.T) {
	t.Parallel()
	n := uint64(30)
	if testing.Short() {
		n = 8
	}
	first, last := seedsToPlay(t, n)
	all := newPlayed()
	t.Cleanup(func() { all.tellNastiest(t) })
	playSeeds(t, first, last, func(t *testing.T, seed uint64) {
		all.take(seed, simulate(t, seed, 250, new(faults)))
	})
}

// Of the first seed the life-cycle worker's commits fail three times in a row, and an insert is refused; the model did not know. Of the
// second one commit of a tick finds the disk full, and a later one of the same tick ends a submission; the model had it end in the next.
func TestFaultsOfFormerSeeds(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{1795767031, 1795767703} {
		playSeeds(t, seed, seed, func(t *testing.T, seed uint64) { simulate(t, seed, 250, &faults{former: true}) })
	}
}

// arm draws whether an append of the next step fails.
func (s *sim) arm() {
	if s.faults != nil && s.chance(20) {
		kind := fault(1 + s.r.IntN(int(syncLost)))
		s.log.add("the next append fails: %s", faultNames[kind])
		s.faults.arm(kind, 0)
	}
}

// recover has a shard whose life-cycle worker failed too often in a row refuse an insert, and take inserts again after the next pass.
func (s *sim) recover() {
	if s.faults == nil || !s.shard.Work().Degraded {
		return
	}
	if n := s.faults.played(); n < 3 {
		s.fail("the shard is degraded after %d failed appends", n)
	}
	n := prefixed(1)
	if _, _, err := s.shard.Insert(ctx, &n); queue.CodeOf(err) != queue.CodeUnavailable {
		s.fail("an insert into a degraded shard: got %v, want %s", err, queue.CodeUnavailable)
	}
	s.tick()
	if s.shard.Work().Degraded {
		s.fail("the shard is degraded after a pass in which nothing failed")
	}
	s.tally.add("insert refused by a degraded shard", 1)
}

func (s *sim) disarm() {
	if s.faults != nil {
		s.faults.arm(noFault, 0)
	}
}

// commitFailed says whether a call's commit failed, which only a fault may do, and whether it was written all the same.
func (s *sim) commitFailed(what string, err error) (failed, written bool) {
	return s.commitFailedBehind(what, false, err)
}

// commitFailedBehind is commitFailed for a call that may have done something before its commit: then its error must not say that nothing
// was done.
func (s *sim) commitFailedBehind(what string, begun bool, err error) (failed, written bool) {
	if s.faults == nil || s.faults.fired == noFault {
		s.must(what, err)
		return false, false
	}
	kind := s.faults.fired
	want := queue.CodeCommitFailed
	if kind == full && !begun {
		want = queue.CodeDiskFull
	}
	if queue.CodeOf(err) != want || !errors.Is(err, errors.Unwrap(kind.err())) {
		s.fail("%s whose commit failed (%s): got %v, want %s", what, faultNames[kind], err, want)
	}
	return true, kind.written()
}

// takeEffect repeats a call's effects in the model, and those of a failed commit on everything else.
func (s *sim) takeEffect(effects []func(), failed, written bool) {
	if !failed || written {
		for _, effect := range effects {
			effect()
		}
	}
	if !failed {
		return
	}
	kind := s.faults.fired
	s.tally.add("append fails: "+faultNames[kind], 1)
	s.disarm()
	if wantFatals := map[bool]int{true: 1}[kind == syncWritten || kind == syncLost]; s.faults.fatals != wantFatals {
		s.fail("%s: Fatal was called %d times, want %d", faultNames[kind], s.faults.fatals, wantFatals)
	}
	s.faults.fatals = 0
	if s.shard.Full() != (kind == full) {
		s.fail("%s: the shard says full=%v", faultNames[kind], s.shard.Full())
	}
	s.shard.SetFull(false)
	s.shard.Worker.Retry() // the life-cycle worker does not pause: the model knows of no pauses
	if kind != full {      // reloaded, under an epoch of its own
		s.epoch++
		s.m.reload(s.now)
		s.tick()
	}
}

// syncTotals takes over the totals of the life-cycle worker: it makes several commits, and the model does not know which failed. The
// effects of calls have to be counted exactly, also when it is not known whether the batch was written.
func (s *sim) syncTotals() {
	got, t := s.shard.Stats(), &s.m.totals
	t.failed, t.expired, t.lost, t.released = got.FailedTotal, got.ExpiredTotal, got.LostTotal, got.ReleasedTotal
	t.ended, t.forwarded, t.bulk = got.SubmissionsEndedTotal, got.ForwardedTotal, got.BulkTotal
}
