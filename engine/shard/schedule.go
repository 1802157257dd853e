package shard

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// This file keeps the schedules: what the journal and the store say of them, and when each is to be looked at.

// schedules are the part of the machine that knows when to insert what: the ticks that were emitted are in the journal,
// with what they inserted.
type schedules struct {
	m        *machine
	byName   map[string]*scheduled
	dirty    map[string]bool // changed or deleted since their last row
	earliest queue.Time      // nothing is to be looked at before
}

// scheduled is one schedule.
type scheduled struct {
	name    string
	rhythm  *rhythm
	broken  error // why the rhythm has no spec
	text    string
	version uint32
	created queue.Time
	changed queue.Time
	enabled bool
	reason  string
	next    queue.Time
	waiting queue.Time // a tick to be emitted besides: buffered, or that of run_on_create
	last    queue.Time
	lastID  queue.SubmissionID
	counts  queue.ScheduleCounts
	applied journal.Position
	made    bool       // false while its first definition is on its way to the disk
	busy    *batch     // the last one with a change of it that is on its way to the disk
	changes int        // how many there are
	pausing bool       // among them the pause after a failure
	stamp   uint64     // counts what happened to it, so that who looked without the mutex can tell
	lookAt  queue.Time // when there may be something to emit
	asOf    queue.Time // the moment that a run of late ticks is judged by, while it is emitted in slices
	held    bool       // a rule kept it from emitting when it was looked at last
	recent  []queue.Emission
}

// never is later than any tick.
const never = queue.Time(math.MaxInt64)

func newSchedules(m *machine) schedules {
	return schedules{m: m, byName: map[string]*scheduled{}, dirty: map[string]bool{}, earliest: never}
}

// apply changes a schedule. What its row already tells of changes nothing.
func (p *schedules) apply(op *journal.Schedule) error {
	m := p.m
	sch := p.byName[op.Name]
	if m.replay && sch != nil && m.applied <= sch.applied && !p.dirty[op.Name] {
		return nil
	}
	if sch == nil {
		if op.Change != journal.SchedulePut {
			return nil
		}
		sch = &scheduled{name: op.Name}
		p.byName[op.Name] = sch
	}
	switch op.Change {
	case journal.SchedulePut:
		if err := p.define(sch, op); err != nil {
			return fmt.Errorf("shard: the journal is damaged: %w", err)
		}
	case journal.ScheduleTick:
		m.stats.schedules.add(&sch.counts, &op.Counts)
		sch.next, sch.waiting, sch.last, sch.lastID, sch.counts = op.Next, op.Waiting, op.Last, op.LastID, op.Counts
		sch.held = false
	case journal.ScheduleSwitch:
		sch.version = max(op.Version, sch.version+1)
		sch.enabled, sch.reason, sch.changed, sch.asOf = op.Enabled, op.Reason, m.now, 0
	case journal.ScheduleDelete:
		delete(p.byName, op.Name)
	}
	sch.applied = m.applied
	p.dirty[op.Name] = true
	p.aim(sch)
	return nil
}

// define applies a definition.
func (p *schedules) define(sch *scheduled, op *journal.Schedule) error {
	if err := sch.read(op.Definition); err != nil {
		return err
	}
	if !sch.made {
		sch.created = p.m.now
	}
	sch.made, sch.asOf, sch.changed = true, 0, p.m.now
	sch.version, sch.enabled, sch.reason = op.Version, op.Enabled, op.Reason
	sch.next, sch.waiting = op.Next, op.Waiting
	return nil
}

// read reads a definition. One whose spec this server does not understand is kept, and never due: a bad schedule is no reason for a
// queue not to open.
func (s *scheduled) read(text string) error {
	def, err := journal.DecodeDefinition(text)
	if err != nil {
		return err
	}
	s.text = text
	s.rhythm, s.broken = newRhythm(s.name, def)
	return nil
}

// aim says when a schedule is to be looked at next.
func (p *schedules) aim(sch *scheduled) {
	sch.lookAt = never
	switch {
	case !sch.made || !sch.enabled || sch.broken != nil:
	case sch.waiting != 0 && !p.overlaps(sch):
		sch.lookAt = 0
	case sch.next != 0:
		sch.lookAt = sch.rhythm.due(sch.next)
	}
	p.earliest = min(p.earliest, sch.lookAt)
}

// overlaps says whether a tick has to be held back because the submission of the one before is open.
func (p *schedules) overlaps(sch *scheduled) bool {
	return sch.rhythm.def.Overlap != queue.OverlapAllow && sch.lastID != 0 && p.m.live(sch.lastID) != nil
}

// stir has the schedule of a submission that ended looked at: a tick may have waited for that.
func (p *schedules) stir(r *record) {
	p.emitted(r)
	if name := r.details().schedule; name != "" {
		if sch := p.byName[name]; sch != nil && sch.waiting != 0 {
			p.aim(sch)
		}
	}
}

// nextTick is when the first schedule that nothing keeps from emitting is due, or was; 0: none is.
func (p *schedules) nextTick() (first queue.Time) {
	for _, sch := range p.byName {
		if !sch.made || !sch.enabled || sch.held || sch.broken != nil || sch.next == 0 {
			continue
		}
		if due := sch.rhythm.due(sch.next); first == 0 || due < first {
			first = due
		}
	}
	return first
}

// stirHeld has the schedules looked at that a rule kept from emitting.
func (p *schedules) stirHeld() {
	for _, sch := range p.byName {
		if sch.held {
			p.aim(sch)
		}
	}
}

// failedRun pauses the schedule of a submission that fails, if it is to be. The caller encodes the end beside it.
func (p *schedules) failedRun(r *record, reason string, now queue.Time) {
	name := r.details().schedule
	if name == "" {
		return
	}
	sch := p.byName[name]
	if sch == nil || !sch.made || !sch.enabled || sch.pausing || !sch.rhythm.def.PauseOnFailure || r.id.Time() < sch.created {
		return
	}
	p.m.encode(now).Schedule(&journal.Schedule{
		Change: journal.ScheduleSwitch, Name: name, Version: sch.version + 1,
		Reason: clip("submission "+r.id.String()+" did not succeed: "+reason, queue.MaxPauseReasonBytes),
	})
	p.occupy(sch)
	sch.pausing = true
}

// load reads the rows.
func (p *Schedules) load(ctx context.Context, m *machine) error {
	rows, err := p.s.store.Schedules(ctx)
	if err != nil {
		return err
	}
	for _, row := range rows {
		r, err := journal.DecodeScheduleRow(row.Bytes)
		if err != nil {
			return fmt.Errorf("store: schedule %s: %w", row.Name, err)
		}
		sch := &scheduled{
			name: row.Name, version: r.Version, created: r.Created, changed: r.Changed, enabled: r.Enabled, reason: r.Reason, next: r.Next,
			waiting: r.Waiting, last: r.Last, lastID: r.LastID, counts: r.Counts, applied: r.Position, made: true,
		}
		if err := sch.read(r.Definition); err != nil {
			return fmt.Errorf("store: schedule %s: %w", row.Name, err)
		}
		m.schedules.byName[row.Name] = sch
	}
	return nil
}

// settle aims all of them once everything is replayed.
func (p *schedules) settle() {
	p.emittedBefore()
	for _, sch := range p.byName {
		p.aim(sch)
	}
}

// checkpoint writes the rows of schedules that changed.
func (p *Schedules) checkpoint(ctx context.Context, m *machine) error {
	s := p.s
	s.applying.Lock()
	s.mu.Lock()
	changed := m.schedules.dirty
	m.schedules.dirty = map[string]bool{}
	rows := make([]store.ScheduleRow, 0, len(changed))
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		rows = append(rows, store.ScheduleRow{Name: name, Bytes: m.schedules.byName[name].row()})
	}
	s.mu.Unlock()
	s.applying.Unlock()
	if len(rows) == 0 {
		return nil
	}
	err := s.disk.write(func() error { return s.store.CheckpointSchedules(ctx, rows) })
	if err != nil {
		s.mu.Lock()
		maps.Copy(m.schedules.dirty, changed)
		s.mu.Unlock()
	}
	return err
}

// row is the schedule as the store keeps it; nil when it is no more.
func (s *scheduled) row() []byte {
	if s == nil || !s.made {
		return nil
	}
	return journal.AppendScheduleRow(nil, &journal.ScheduleRow{
		Position: s.applied, Created: s.created, Changed: s.changed,
		Schedule: journal.Schedule{
			Name: s.name, Version: s.version, Definition: s.text, Enabled: s.enabled, Reason: s.reason, Next: s.next, Waiting: s.waiting,
			Last: s.last, LastID: s.lastID, Counts: s.counts,
		},
	})
}

// info is the schedule as it stands.
func (s *scheduled) info() queue.ScheduleInfo {
	x := queue.ScheduleInfo{
		Name: s.name, Schedule: *s.rhythm.def, Version: s.version, Created: s.created, Changed: s.changed,
		Reason: s.reason, Words: s.rhythm.words,
		Next: s.next, Last: s.last, LastID: s.lastID, Waiting: s.waiting, ScheduleCounts: s.counts,
		Recent: slices.Clone(s.recent),
	}
	x.Schedule.Enabled = s.enabled
	switch {
	case s.broken != nil:
		x.State, x.Reason = queue.ScheduleBroken, s.broken.Error()
	case !s.enabled:
		x.State = queue.SchedulePaused
	case s.next == 0 && s.waiting == 0:
		x.State = queue.ScheduleFinished
	case s.held:
		x.State = queue.ScheduleHeld
	}
	return x
}

// intended counts what intents have left.
func (p *schedules) intended(count func(what string, n int)) {
	for _, sch := range p.byName {
		if sch.busy != nil || sch.changes != 0 || !sch.made {
			count("changes of schedule "+sch.name, 1)
		}
	}
}
