package simtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// sim drives one shard and its model through the same random steps.
type sim struct {
	aged   int        // how often dead letters went for their age
	over   queue.Time // up to which retention has been over
	remade bool       // the store was lost
	box
	seed     uint64
	r        *rand.Rand
	m        *model
	tokens   []queue.Token // handed out so far, the oldest forgotten beyond a bound
	epoch    uint32
	sequence uint64 // the last one of this epoch
	keys     int    // idempotency keys used so far
	now      queue.Time
	log      history
	evicted  map[queue.Token]bool // completions that the shard did not remember
	remember int                  // completions that it did remember
	faults   *faults
	ledgers  map[string]bool // fair branches asked for
	deep     []string        // strategies that nest deeply
	recounts *rand.Rand
	lists    *rand.Rand // draws the filters; nil: they are of one value
	rates    *rand.Rand // draws rates; nil: no strategy has one
	late     *rand.Rand // draws settings about dead_deadlines; nil: queues have none
	rounds   uint64     // of recounts, the most between two starts
	tally    *tally
	record   *recording
}

var ctx = context.Background()

// TestSimulation plays seeds: each is some hundred steps, every answer compared with the model's.
func TestSimulation(t *testing.T) {
	t.Parallel()
	n := uint64(100)
	if testing.Short() {
		n = 24
	}
	first, last := seedsToPlay(t, n)
	all := newPlayed()
	t.Cleanup(func() { // when all seeds are played
		if last-first >= 99 { // in fewer, rare events may not happen
			all.total.check(t)
		}
		all.tellNastiest(t)
	})
	playSeeds(t, first, last, func(t *testing.T, seed uint64) {
		all.take(seed, simulate(t, seed, 300, nil))
	})
}

// simulate plays a seed, and returns its events.
func simulate(t *testing.T, seed uint64, steps int, f *faults) *tally {
	s := &sim{seed: seed, r: newRand(seed, 1), faults: f, ledgers: map[string]bool{}, tally: newTally()}
	if f == nil || !f.former {
		s.lists, s.late = newRand(seed, 38), newRand(seed, 48)
	}
	if f == nil {
		s.rates = newRand(seed, 58)
	}
	settings := s.drawSettings()
	settings.Durability = queue.Relaxed
	if seed%16 == 0 {
		settings.Durability = queue.Full
	}
	s.box = box{t: t, dir: t.TempDir(), settings: settings}
	s.opBytes = []int{0, -1, 40}[seed%3] // contents of a call go into its op, are written before it, or some of each
	s.slotKeys = 1 + int(seed%5)         // most keys are in slots that are full
	if f != nil {
		s.wrap, s.fatal = f.wrap, f.fatal
	} else if seed%20 == 4 { // copies are made at each checkpoint, which takes time
		s.keepSnapshots()
	}
	s.record = newRecording()
	s.wrap = s.record.wrap(s.wrap)
	s.clock.ms.Store(start)
	s.seeds.Store(seed << 32)
	s.now = s.clock.now()
	s.m, s.evicted = newModel(settings), map[queue.Token]bool{}
	s.m.now = func() queue.Time { return s.now }
	s.m.tally = s.tally
	step := 0
	defer func() {
		problem := recover()
		if s.shard != nil {
			s.close()
		}
		f, ours := problem.(failure)
		switch {
		case ours:
			t.Fatalf("seed %d step %d: %s\n  %s", seed, step, f.text, &s.log)
		case problem != nil:
			t.Logf("seed %d step %d:\n  %s", seed, step, &s.log)
			panic(problem)
		}
	}()
	s.open()
	s.epoch = 1
	for ; step < steps; step++ {
		s.log.add("%d:", step)
		s.recover()
		s.arm()
		s.step()
		s.disarm()
		s.recount()
		s.m.hush()
		s.checkStats()
		if len(s.m.subs) > 0 {
			s.checkSubmission(s.m.subs[s.r.IntN(len(s.m.subs))])
		}
	}
	s.checkAll()
	s.wholeRound()
	s.restart(false)
	s.checkAll()
	if n := len(s.evicted); n > 2+s.remember/20 {
		s.fail("%d completions were forgotten, %d times one was remembered", n, s.remember)
	}
	s.must("checkpoint", s.shard.Checkpoint())
	s.must("record", s.record.stored(s.dir))
	s.record.asked(s.log.lines)
	s.record.keep(t, strconv.FormatUint(seed, 10))
	return s.tally
}

func (s *sim) fail(format string, args ...any) { panic(failure{fmt.Sprintf(format, args...)}) }

func (s *sim) must(what string, err error) {
	if err != nil {
		s.fail("%s: %v", what, err)
	}
}

// step does one thing.
func (s *sim) step() {
	choices := []struct {
		weight int
		do     func()
	}{
		{20, s.insert}, {5, s.insertMany}, {22, s.reserve}, {12, s.completeSome}, {10, s.failSome}, {4, s.extendSome}, {3, s.releaseSome}, {9, s.wait},
		{1, s.cancel}, {1, s.cancelChunk}, {3, s.redriveSome}, {2, s.deleteSome}, {2, s.forwardSome}, {2, s.post}, {2, s.stick}, {1, s.age}, {2, s.readLetters}, {2, s.reprioritise},
		{1, s.list}, {1, s.readChunks}, {1, s.readOutputs}, {1, s.readValues}, {2, s.repeatKey},
		{1, s.foldNow}, {1, func() { s.restart(false) }}, {2, func() { s.restart(true) }}, {1, s.changeSettings}, {2, s.setValue},
		{3, s.setRule}, {3, s.liftRule}, {2, s.ask}, {9, s.consumers}, {10, s.bulkSome}, {2, s.retain},
	}
	all := 0
	for i := range choices {
		all += choices[i].weight
	}
	n := s.r.IntN(all)
	for i := range choices {
		if n -= choices[i].weight; n < 0 {
			choices[i].do()
			return
		}
	}
}

func (s *sim) chance(percent int) bool { return s.r.IntN(100) < percent }

func pickOf[T any](s *sim, list ...T) T { return list[s.r.IntN(len(list))] }

func (s *sim) drawSettings() queue.Settings {
	q := queue.DefaultSettings()
	q.MaxAttempts = uint16(1 + s.r.IntN(5))
	q.MaxExpiries = uint8(1 + s.r.IntN(4))
	q.OnExhausted = pickOf(s, queue.FailSubmission, queue.DeadLetter, queue.DeadLetter, queue.DeadLetter, queue.Skip)
	q.DeadLetterQueue = pickOf(s, "", "", "", "dead", "other")
	q.ReservationTimeout = pickOf(s, 500*time.Millisecond, 10*time.Second, 10*time.Minute)
	q.MaxReservation = pickOf(s, time.Minute, time.Hour, 24*time.Hour)
	q.RetryBackoff = s.drawBackoff()
	q.SuspectShare = pickOf(s, 0, 0.1, queue.DefaultSuspectShare, queue.DefaultSuspectShare, 1)
	q.Requeue = pickOf(s, queue.Head, queue.Head, queue.Head, queue.Tail)
	q.ConsumerGrace = pickOf(s, 0, 5*time.Second, 30*time.Second, 10*time.Minute)
	q.RestartGrace = pickOf(s, 0, 0, 3*time.Second, 5*time.Minute)
	q.ExpiryBackoff = s.drawBackoff()
	if s.late == nil {
		return q
	}
	if s.faults == nil { // else the chunks alone would not show the rest of a failed tick
		q.OnDeadline = queue.OnDeadline(s.late.IntN(2))
	}
	if s.late.IntN(8) == 0 {
		q.DeadAfter = []time.Duration{20 * time.Second, 5 * time.Minute, time.Hour}[s.late.IntN(3)]
	}
	return q
}

func (s *sim) drawBackoff() queue.Backoff {
	b := pickOf(s, queue.Backoff{}, queue.Backoff{}, queue.Backoff{},
		queue.Backoff{Base: time.Second, Factor: 2, Cap: 5 * time.Minute}, queue.Backoff{Base: time.Second, Factor: 2, Cap: time.Minute},
		queue.Backoff{Base: 200 * time.Millisecond, Factor: 1.5},
		queue.Backoff{Kind: queue.Linear, Base: 3 * time.Second, Cap: 10 * time.Second}, queue.Backoff{Kind: queue.Linear, Base: time.Second},
		queue.Backoff{Kind: queue.Fixed, Base: 10 * time.Second},
		queue.Backoff{Kind: queue.Listed, Delays: queue.NewDelays([]uint32{500, 0, 30_000})})
	b.Jitter = pickOf(s, queue.FullJitter, queue.EqualJitter, queue.NoJitter)
	return b
}

func (s *sim) changeSettings() {
	q := s.drawSettings()
	q.Durability = s.settings.Durability
	s.log.add("settings %+v", q)
	failed, written := s.commitFailed("set settings", s.putSettings(q))
	s.takeEffect([]func(){func() {
		s.settings, s.m.settings = q, q
		s.tally.add("settings changed", 1)
		if s.m.grace != 0 {
			s.m.grace = min(s.m.grace, s.m.began.Add(q.RestartGrace))
		}
	}}, failed, written)
}

// demandedOf are the values that get settings.
var demandedOf = []queue.MetaValue{queue.IntValue(0), queue.IntValue(1), queue.IntValue(2), queue.StringValue("1")}

// checkDemands compares the settings of values.
func (s *sim) checkDemands() {
	for _, key := range []string{"a", "b", "c"} {
		for _, value := range demandedOf {
			entry := queue.MetaEntry{Key: key, Value: value}
			if got, want := s.shard.Values.Settings(entry), s.m.demanded(entry); got != want {
				s.fail("for %s=%s is set %+v, want %+v", key, value, got, want)
			}
		}
	}
}

// setValue has an operator set something for a value, or take it back.
func (s *sim) setValue() {
	entry := queue.MetaEntry{Key: pickOf(s, "a", "b", "c"), Value: pickOf(s, demandedOf...)}
	set := queue.NoSettings()
	if s.chance(60) {
		set.Limit = pickOf[uint32](s, 0, 1, 2, 3, 7, queue.NoLimit)
		set.Weight = pickOf[uint32](s, 0, 0, 1, 500, 3000, 1_000_000)
		set.Rate = pickOf(s, queue.Rate{}, queue.Rate{}, queue.Rate{Max: 3, Per: time.Second}, queue.Rate{Max: queue.MaxRate, Per: queue.MaxPer})
	}
	if s.chance(30) {
		s.setDefault(entry.Key, set)
		return
	}
	s.log.add("set %s=%s to %+v", entry.Key, entry.Value.Text(), set)
	failed, written := s.commitFailed("set a value", s.putValue(entry, set))
	s.takeEffect([]func(){func() {
		if s.m.values[entry] = set; set == queue.NoSettings() {
			delete(s.m.values, entry)
		}
		s.tally.add("value set", 1)
	}}, failed, written)
}

// setDefault has an operator set something for all values of a key, or take it back.
func (s *sim) setDefault(key queue.MetaKey, set queue.ValueSettings) {
	s.log.add("set all of %s to %+v", key, set)
	failed, written := s.commitFailed("set a default", s.putDefault(key, set))
	s.takeEffect([]func(){func() {
		if s.m.defaults[key] = set; set == queue.NoSettings() {
			delete(s.m.defaults, key)
		}
		s.tally.add("default set", 1)
	}}, failed, written)
}

// wait lets time pass and ticks.
func (s *sim) wait() {
	d := pickOf(s, 0, time.Millisecond, 100*time.Millisecond, time.Second, 7*time.Second, time.Minute, 11*time.Minute, 2*time.Hour)
	if s.chance(3) {
		d = 25 * time.Hour
	}
	s.pass(d)
}

// pass lets so much time pass and ticks.
func (s *sim) pass(d time.Duration) {
	s.clock.pass(d)
	s.now = s.clock.now()
	s.log.add("wait %s", d)
	s.tick()
}

// restart ends the shard's life, by a close or by a crash, and starts the next one.
func (s *sim) restart(crash bool) {
	s.log.add("restart, crash=%v", crash)
	s.disarm()
	s.acrossRestart()
	began := s.now
	if crash {
		s.crash()
	} else {
		s.close()
		s.tally.add("restart", 1)
		s.loses()
	}
	if s.chance(30) {
		s.clock.pass(pickOf(s, time.Second, time.Minute, time.Hour))
		s.now = s.clock.now()
	}
	s.open()
	s.epoch++
	s.sequence = 0
	s.m.totals = modelTotals{}
	if crash {
		s.m.crash(s.now)
	} else {
		s.m.restart(began, s.now)
	}
	s.retainAgain()
	s.tick()
}

// crash opens a copy of the files as they were after the last answer. Sometimes the store is that of a later moment than
// the journal, as when the kill comes between the steps of a checkpoint: after the rows of submissions, after those beside them,
// or after its note of the position.
func (s *sim) crash() {
	dir := s.t.TempDir()
	s.must("settle", s.settle()) // writes that no one waits for may still be on their way, and would be in the later store
	copies := s.copyJournal(dir)
	kind := s.r.IntN(4)
	asides := s.asides()
	checkpointed, err := s.store.Checkpointed(ctx)
	s.must("checkpointed", err)
	if kind > 0 {
		s.must("checkpoint", s.shard.Checkpoint())
	}
	s.copyFiles("store.db", dir)
	s.close()
	s.dir, s.copies = dir, copies
	if s.loses() {
		return
	}
	s.tally.add([]string{"crash", "crash after a checkpoint", "crash between the steps of a checkpoint", "crash between the rows of a checkpoint"}[kind], 1)
	if kind >= 2 {
		s.log.add("the store forgets its checkpointed position %d", checkpointed)
		rewindFolded(s.t, s.dir, checkpointed)
	}
	if kind == 3 {
		rewindAsides(s.t, s.dir, asides)
	}
}

// loses sometimes loses the store of a closed shard, if it keeps snapshots.
func (s *sim) loses() bool {
	lost := s.copies != "" && s.r.IntN(2) == 0
	if lost {
		s.log.add("the store is lost")
		s.tally.add("the store is lost", 1)
		s.loseStore()
		s.remade = true
	}
	return lost
}

func (s *sim) foldNow() {
	s.log.add("checkpoint")
	s.tally.add("checkpoint", 1)
	s.must("checkpoint", s.shard.Checkpoint())
}
