package simtest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/schedule"
	"github.com/quern-queue/quern/engine/shard/schedules"
)

// scheduleSim plays random steps with schedules against a model that looks at every single tick.
type scheduleSim struct {
	*box
	r      *rand.Rand
	faults *faults
	faulty bool // commits fail; then there are no deadlines, and no slices, so that a schedule's ticks are emitted at one moment
	model  map[string]*modelSchedule
	runs   []*modelRun // of all schedules, deleted ones too
	now    queue.Time
	log    history
}

// modelSchedule is a schedule as the model knows it.
type modelSchedule struct {
	def     queue.Schedule
	spec    *schedule.Spec // read when it is needed
	version uint32
	created queue.Time
	enabled bool
	next    queue.Time
	waiting queue.Time
	last    queue.Time
	lastRun *modelRun
	counts  queue.ScheduleCounts
}

type modelRun struct {
	schedule string
	tick     queue.Time
	inserted queue.Time
	dead     queue.Time
	open     bool
}

// TestScheduleSimulation plays seeds: schedules are made, changed, paused and deleted, time passes, submissions end, commits fail, the
// server is closed or crashes, also between the steps of a checkpoint and in the middle of an emission.
func TestScheduleSimulation(t *testing.T) {
	t.Parallel()
	n := uint64(15)
	if testing.Short() {
		n = 8
	}
	first, last := seedsToPlay(t, n)
	playSeeds(t, first, last, func(t *testing.T, seed uint64) {
		s := &scheduleSim{box: newBox(t, relaxed()), r: newRand(seed, 7), faults: new(faults), faulty: seed%2 == 1, model: map[string]*modelSchedule{}}
		s.faults.spare = true
		s.wrap, s.fatal = s.faults.wrap, s.faults.fatal
		s.seeds.Store(seed << 32)
		s.now = s.clock.now()
		defer func() {
			if problem := recover(); problem != nil {
				f, ours := problem.(failure)
				if !ours {
					panic(problem)
				}
				t.Fatalf("seed %d: %s\n  %s", seed, f.text, &s.log)
			}
		}()
		s.open()
		for step := range 120 {
			s.log.add("%d at %s:", step, s.now.Std().Format(time.RFC3339))
			s.step()
			s.settle()
			s.check()
		}
		s.restart(0)
		s.check()
	})
}

func (s *scheduleSim) fail(format string, args ...any) { panic(failure{fmt.Sprintf(format, args...)}) }

func (s *scheduleSim) must(what string, err error) {
	if err != nil {
		s.fail("%s: %v", what, err)
	}
}

func (s *scheduleSim) step() {
	switch n := s.r.IntN(100); {
	case n < 16:
		s.put()
	case n < 20:
		s.remove()
	case n < 28:
		s.turn()
	case n < 40:
		s.endOne()
	case n < 44:
		s.must("checkpoint", s.shard.Checkpoint())
		s.log.add("checkpoint")
	case n < 54:
		s.restart(1 + s.r.IntN(4))
	default:
		d := []time.Duration{time.Millisecond, time.Second, 5 * time.Second, 6 * time.Second, 7 * time.Second, time.Minute, 7 * time.Minute, time.Hour, 5 * time.Hour, 30 * time.Hour, 40 * 24 * time.Hour}[s.r.IntN(11)]
		s.pass(d)
	}
}

func (s *scheduleSim) pass(d time.Duration) {
	s.log.add("wait %s", d)
	s.clock.pass(d)
	s.now = s.clock.now()
}

func (s *scheduleSim) name() string { return []string{"a", "b", "c", "d"}[s.r.IntN(4)] }

func (s *scheduleSim) put() {
	def := queue.Schedule{
		Enabled: s.r.IntN(8) > 0, Missed: queue.Missed(s.r.IntN(3)), Overlap: queue.Overlap(s.r.IntN(3)), CatchUp: uint32(1 + s.r.IntN(250)),
		CatchUpWindow:  []time.Duration{10 * time.Second, time.Hour, 100 * time.Hour}[s.r.IntN(3)],
		PauseOnFailure: s.r.IntN(3) == 0, RunOnCreate: s.r.IntN(3) == 0,
		Template: queue.NewSubmission{Priority: int64(s.r.IntN(3)), Chunks: queue.Chunks{Count: 2, Prefix: "p"}},
	}
	switch s.r.IntN(6) {
	case 0:
		def.Spec = "@every 7s"
	case 1:
		def.Spec = "* * * * *"
	case 2:
		def.Spec, def.Seconds = "*/5 * * * * *", true
	case 3:
		def.Spec = "0 */3 * * *"
	case 4:
		def.Spec, def.Zone = "30 2 * * *", "Europe/Amsterdam"
	case 5:
		def.Spec = "@at " + s.now.Add(time.Duration(s.r.IntN(7200)-3600)*time.Second).Std().Format(time.RFC3339)
	}
	if s.r.IntN(5) == 0 {
		def.Start = s.now.Add(time.Duration(s.r.IntN(100)) * time.Minute)
	}
	if s.r.IntN(5) == 0 {
		def.End = max(def.Start, s.now).Add(time.Duration(s.r.IntN(100)) * time.Minute)
	}
	if s.faulty {
		def.CatchUp = min(def.CatchUp, 80)
	} else if s.r.IntN(3) == 0 {
		def.DeadAfter = time.Duration(1+s.r.IntN(120)) * time.Minute
	}
	if s.r.IntN(3) == 0 {
		def.Template.Chunks = queue.Chunks{Count: 2, Inline: [][]byte{{1}, {2}}}
	}
	name := s.name()
	s.log.add("put %s %+v", name, def)
	_, created, err := s.shard.Schedules.Put(name, def, nil)
	s.must("put", err)
	old := s.model[name]
	if created != (old == nil) {
		s.fail("put %s: created is %v", name, created)
	}
	m := &modelSchedule{def: def, version: 1, created: s.now, enabled: def.Enabled}
	if old == nil {
		s.model[name] = m
		if def.RunOnCreate {
			m.waiting = s.now
		}
	} else {
		m.created, m.waiting, m.last, m.lastRun, m.counts, m.version = old.created, old.waiting, old.last, old.lastRun, old.counts, old.version
		a, b := old.def, def
		if a.Spec == b.Spec && a.Zone == b.Zone && a.Start == b.Start && a.End == b.End {
			m.next, m.def.Anchor = old.next, a.Anchor
			a.Anchor, a.Enabled, b.Enabled = 0, false, false
			if !reflect.DeepEqual(a, b) || old.enabled != def.Enabled {
				m.version++
			}
			s.model[name] = m
			return
		}
		m.version++
		s.model[name] = m
	}
	m.def.Anchor = max(s.now, 1)
	if def.Start != 0 {
		m.def.Anchor = def.Start
	}
	from := max(s.now, def.Start-1)
	if strings.HasPrefix(def.Spec, "@at") {
		from = def.Start - 1
	}
	m.next = m.after(s, from)
}

// after is the first tick after a moment. Package schedule tests the ticks themselves.
func (m *modelSchedule) after(s *scheduleSim, t queue.Time) queue.Time {
	if m.spec == nil {
		var err error
		m.spec, err = schedules.Parse(&m.def)
		s.must("parse", err)
	}
	next := queue.At(m.spec.Next(time.UnixMilli(int64(t))))
	if m.def.End != 0 && next > m.def.End {
		return 0
	}
	return next
}

func (s *scheduleSim) remove() {
	name := s.name()
	s.log.add("delete %s", name)
	err := s.shard.Schedules.Delete(name, nil)
	if _, there := s.model[name]; there != (err == nil) {
		s.fail("delete %s: %v", name, err)
	}
	delete(s.model, name)
}

func (s *scheduleSim) turn() {
	name, enabled := s.name(), s.r.IntN(3) > 0
	s.log.add("enabled of %s: %v", name, enabled)
	_, err := s.shard.Schedules.Switch(name, enabled, "because")
	m := s.model[name]
	if (m != nil) != (err == nil) {
		s.fail("switch %s: %v", name, err)
	}
	if m != nil && m.enabled != enabled {
		m.enabled = enabled
		m.version++
	}
}

// endOne cancels one of the submissions.
func (s *scheduleSim) endOne() {
	var open []*modelRun
	for _, run := range s.runs {
		if run.open {
			open = append(open, run)
		}
	}
	if len(open) == 0 {
		return
	}
	run := open[s.r.IntN(len(open))]
	s.log.add("cancel the run of %s for %s", run.schedule, run.tick.Std().Format(time.RFC3339))
	for _, sub := range s.list() {
		if sub.Schedule == run.schedule && sub.Scheduled == run.tick && sub.State == queue.Open {
			_, err := s.shard.Submissions.Cancel(ctx, sub.ID)
			s.must("cancel", err)
			run.open = false
			return
		}
	}
	s.fail("the run of %s for %s is not open", run.schedule, run.tick.Std())
}

// settle has the shard do all due work, sometimes with a commit that fails, and then the model.
func (s *scheduleSim) settle() {
	if s.faulty && s.r.IntN(3) == 0 {
		kind := fault(1 + s.r.IntN(int(unknownLost)))
		s.log.add("a commit fails: %s", faultNames[kind])
		s.faults.arm(kind, 0)
	}
	err := s.shard.CatchUp(ctx)
	s.faults.mu.Lock()
	fired := s.faults.fired
	s.faults.next, s.faults.fired = noFault, noFault
	s.faults.mu.Unlock()
	if fired != noFault {
		s.halfway()
		err = s.shard.CatchUp(ctx)
	}
	s.must("catch up", err)
	s.catchUp()
}

// halfway follows a commit that failed: all due ticks of a schedule are emitted, or all are still due. The worker pauses then.
func (s *scheduleSim) halfway() {
	s.shard.SetFull(false)
	for _, info := range s.shard.Schedules.List() {
		m := s.model[info.Name]
		if m != nil && m.enabled && (info.Next != m.next || info.Waiting != m.waiting || info.ScheduleCounts != m.counts) {
			s.log.add("%s is done", info.Name)
			s.emit(info.Name, m)
		}
	}
	s.pass(time.Second)
}

// catchUp plays the ticks up to now in the model.
func (s *scheduleSim) catchUp() {
	for _, run := range s.runs {
		if !run.open || run.dead == 0 || run.dead > s.now {
			continue
		}
		run.open = false
		if m := s.model[run.schedule]; m != nil && m.enabled && m.def.PauseOnFailure && run.inserted >= m.created {
			m.enabled = false
			m.version++
		}
	}
	for name, m := range s.model {
		if m.enabled {
			s.emit(name, m)
		}
	}
}

func (s *scheduleSim) emit(name string, m *modelSchedule) {
	run := func(tick queue.Time) {
		r := &modelRun{schedule: name, tick: tick, inserted: s.now, open: true}
		if m.def.DeadAfter > 0 {
			r.dead = s.now.Add(m.def.DeadAfter)
		}
		s.runs = append(s.runs, r)
		m.last, m.lastRun = tick, r
		m.counts.Emitted++
	}
	busy := func() bool { return m.def.Overlap != queue.OverlapAllow && m.lastRun != nil && m.lastRun.open }
	var late, fresh []queue.Time
	for ; m.next != 0 && m.next <= s.now; m.next = m.after(s, m.next) {
		if m.next < s.now.Add(-queue.ScheduleGrace) {
			late = append(late, m.next)
		} else {
			fresh = append(fresh, m.next)
		}
	}
	switch m.def.Missed {
	case queue.MissedSkip:
		m.counts.Missed += uint64(len(late))
		late = nil
	case queue.MissedOnce:
		keep := min(len(late), 1)
		if len(fresh) > 0 {
			keep = 0
		}
		m.counts.Missed += uint64(len(late) - keep)
		late = late[len(late)-keep:]
	case queue.MissedAll:
		n := len(late)
		late = slices.DeleteFunc(late, func(t queue.Time) bool { return t < s.now.Add(-m.def.CatchUpWindow) })
		late = late[max(0, len(late)-int(m.def.CatchUp)):]
		m.counts.Late += uint64(n - len(late))
	}
	if m.waiting != 0 && !busy() {
		run(m.waiting)
		m.waiting = 0
	}
	for _, tick := range append(late, fresh...) {
		switch {
		case !busy():
			run(tick)
		case m.def.Overlap == queue.OverlapBufferOne && m.waiting == 0:
			m.waiting = tick
		default:
			m.counts.Overlapped++
		}
	}
}

// list is all submissions of the shard, the oldest first.
func (s *scheduleSim) list() (all []queue.Submission) {
	for before := queue.SubmissionID(0); ; before = all[len(all)-1].ID {
		page, _, err := s.shard.Submissions.List(ctx, everything, before, 1000)
		s.must("list", err)
		if all = append(all, page...); len(page) < 1000 {
			slices.Reverse(all)
			return all
		}
	}
}

// check compares all answers of the shard with the model.
func (s *scheduleSim) check() {
	got, want := map[string]int{}, map[string]int{}
	for _, sub := range s.list() {
		got[fmt.Sprintf("%s %s open=%v", sub.Schedule, sub.Scheduled.Std().Format(time.RFC3339Nano), sub.State == queue.Open)]++
	}
	for _, run := range s.runs {
		want[fmt.Sprintf("%s %s open=%v", run.schedule, run.tick.Std().Format(time.RFC3339Nano), run.open)]++
	}
	for key, n := range want {
		if got[key] != n {
			s.fail("there are %d submissions %s, want %d", got[key], key, n)
		}
	}
	if len(got) != len(want) {
		s.fail("got submissions %v\nwant %v", got, want)
	}
	infos := s.shard.Schedules.List()
	if len(infos) != len(s.model) {
		s.fail("%d schedules, want %d", len(infos), len(s.model))
	}
	for _, info := range infos {
		m := s.model[info.Name]
		if m == nil {
			s.fail("there is a schedule %s", info.Name)
		}
		if info.ScheduleCounts != m.counts || info.Next != m.next || info.Waiting != m.waiting || info.Last != m.last || info.Schedule.Enabled != m.enabled || info.Version != m.version || info.Created != m.created {
			s.fail("schedule %s:\ngot  %+v\nwant %+v", info.Name, info, m)
		}
	}
}

// restart closes the server (0), or crashes it: with the store as it was (1), with rows of a checkpoint (2), with rows and not the position (3),
// or in the middle of an emission (4).
func (s *scheduleSim) restart(kind int) {
	s.log.add("restart of kind %d", kind)
	if kind == 0 {
		s.close()
		s.box.open()
		s.settle()
		return
	}
	if kind == 4 {
		s.clock.pass(time.Duration(s.r.IntN(10)) * time.Second)
		s.now = s.clock.now()
		s.shard.Worker.Nudge()
	}
	dir := s.t.TempDir()
	s.copyFiles("journal.db", dir)
	checkpointed, err := s.store.Checkpointed(ctx)
	s.must("checkpointed", err)
	if kind == 2 || kind == 3 {
		s.must("checkpoint", s.shard.Checkpoint())
	}
	s.copyFiles("store.db", dir)
	s.close()
	s.dir = dir
	if kind == 3 {
		rewindFolded(s.t.(*testing.T), dir, checkpointed)
	}
	s.box.open()
	s.settle()
}

// The counts of schedules begin at the server's start: the life that emitted a tick counted it, and a replay does not. A reload goes on
// counting.
func TestTicksCountFromTheStart(t *testing.T) {
	t.Parallel()
	b := newBox(t, queue.DefaultSettings())
	b.open()
	def := queue.Schedule{Spec: "@every 10s", Enabled: true, Template: prefixed(1)}
	if _, _, err := b.shard.Schedules.Put("s", def, nil); err != nil {
		t.Fatal(err)
	}
	b.tickAfter(10 * time.Second)
	if got := b.shard.Stats().Ticks.Emitted; got != 1 {
		t.Errorf("after a tick: %d emitted, want 1", got)
	}
	b.crashed(0)
	if got := b.shard.Stats().Ticks; got.Emitted != 0 {
		t.Errorf("after a restart that replays it: %+v, want none", got)
	}
}
