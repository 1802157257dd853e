package schedules

//	op in the journal ─► Apply ─► Scheduled ─ Aim ─► LookAt ─► worker ─► emit.go ─► op: tick and insert
//	row in the store  ─► Load  ──┘      ▲
//	                                    └ Aim again: a tick waited for an open submission, a rule ended, a retry

import (
	"fmt"
	"math"
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// This file keeps the schedules: their state by the journal and the store, and when each is to be looked at.

// Part is the part that knows the schedules and their next ticks: emitted ticks are in the journal, with their inserts.
// earliest is a lower bound: a schedule that moves to a later time does not change it, and the worker then looks once
// in excess. An exact value would need a heap, for a thousand schedules at most.
type Part struct {
	m        *machine.Machine
	Totals   scheduleTotals
	ByName   map[string]*Scheduled
	earliest queue.Time // nothing is to be looked at before

	rows map[uint64]*Scheduled // by number
	last uint64                // the largest number of a row
}

// Scheduled is one schedule.
type Scheduled struct {
	Name    string
	number  uint64           // of its row; 0: it has none yet
	stored  journal.Position // of its row when it was loaded: older ops are not replayed
	Rhythm  *Rhythm
	broken  error // why the rhythm has no spec
	Text    string
	Version uint32
	Created queue.Time
	Changed queue.Time
	Enabled bool
	Reason  string
	Next    queue.Time
	Waiting queue.Time // another tick to be emitted: a buffered one, or that of run_on_create
	Last    queue.Time
	LastID  queue.SubmissionID
	Counts  queue.ScheduleCounts
	Made    bool           // false while its first definition is on its way to the disk
	Busy    *commit.Commit // of the last batch with a change of it, while that is on its way to the disk
	changes int            // how many there are
	pausing bool           // among them the pause after a failure
	stamp   uint64         // counts its changes, so that code that looked without the mutex notices them
	LookAt  queue.Time     // when there may be something to emit
	AsOf    queue.Time     // the moment by which a run of late ticks is judged, while it is emitted in slices
	Held    bool           // a rule kept it from emitting when the worker last looked
	recent  []queue.Emission
}

// never is later than any tick.
const never = queue.Time(math.MaxInt64)

// New is the part of a machine without schedules.
func New(m *machine.Machine) *Part {
	return &Part{m: m, ByName: map[string]*Scheduled{}, rows: map[uint64]*Scheduled{}, earliest: never}
}

// Apply changes a schedule, unless its row already has the op.
func (p *Part) Apply(op journal.PartOp) (mine bool, err error) {
	change, mine := op.(*journal.Schedule)
	if mine {
		err = p.apply(change)
	}
	return mine, err
}

// Checkpoints write the rows, each with its position. A replay begins earlier, and must not apply a tick to a row that
// already has it.
func (p *Part) apply(op *journal.Schedule) error {
	m := p.m
	sch := p.ByName[op.Name]
	if m.Replay && sch != nil && m.AppliedAt <= sch.stored {
		return nil
	}
	if sch == nil {
		if op.Change != journal.SchedulePut {
			return nil
		}
		sch = &Scheduled{Name: op.Name}
		p.ByName[op.Name] = sch
	}
	switch op.Change {
	case journal.SchedulePut:
		if err := p.define(sch, op); err != nil {
			return fmt.Errorf("shard: the journal is damaged: %w", err)
		}
	case journal.ScheduleTick:
		p.Totals.Add(&sch.Counts, &op.Counts)
		sch.Next, sch.Waiting, sch.Last, sch.LastID, sch.Counts = op.Next, op.Waiting, op.Last, op.LastID, op.Counts
		sch.Held = false
	case journal.ScheduleSwitch:
		sch.Version = max(op.Version, sch.Version+1)
		sch.Enabled, sch.Reason, sch.Changed, sch.AsOf = op.Enabled, op.Reason, m.Now, 0
	case journal.ScheduleDelete:
		delete(p.ByName, op.Name)
		delete(p.rows, sch.number)
	}
	m.Asides.Changed(machine.AsideSchedule, sch.number)
	p.Aim(sch)
	return nil
}

// define applies a definition.
// A new definition ends a run of late ticks (AsOf): the ticks of the old one are not made up for by the new.
func (p *Part) define(sch *Scheduled, op *journal.Schedule) error {
	if err := sch.Read(op.Definition); err != nil {
		return err
	}
	if !sch.Made {
		sch.Created = p.m.Now
		p.last++
		sch.number = p.last
		p.rows[sch.number] = sch
	}
	sch.Made, sch.AsOf, sch.Changed = true, 0, p.m.Now
	sch.Version, sch.Enabled, sch.Reason = op.Version, op.Enabled, op.Reason
	sch.Next, sch.Waiting = op.Next, op.Waiting
	return nil
}

// Read reads a definition. One whose spec this server does not understand is kept, and
// never due: a bad schedule is no reason for a queue not to open.
func (s *Scheduled) Read(text string) error {
	def, err := journal.DecodeDefinition(text)
	if err != nil {
		return err
	}
	s.Text = text
	s.Rhythm, s.broken = newRhythm(s.Name, def)
	return nil
}

// Aim sets when a schedule is to be looked at next. It is called after every change of the schedule, and when the
// submission, rule or retry that it waits for is over. Without the call, a tick would wait for another change of the
// schedule.
func (p *Part) Aim(sch *Scheduled) {
	sch.LookAt = never
	switch {
	case !sch.Made || !sch.Enabled || sch.broken != nil:
	// 0 is earlier than any moment: at once.
	case sch.Waiting != 0 && !p.overlaps(sch):
		sch.LookAt = 0
	case sch.Next != 0:
		sch.LookAt = sch.Rhythm.due(sch.Next)
	}
	p.earliest = min(p.earliest, sch.LookAt)
}

// overlaps says whether a tick has to be held back because the submission of the one before is open.
func (p *Part) overlaps(sch *Scheduled) bool {
	return sch.Rhythm.Def.Overlap != queue.OverlapAllow && sch.LastID != 0 && p.m.Live(sch.LastID) != nil
}

// Ended has the schedule of a submission that ended looked at: a tick may have waited for that.
func (p *Part) Ended(r *machine.Record) {
	p.Opened(r)
	if name := r.Details().Schedule; name != "" {
		if sch := p.ByName[name]; sch != nil && sch.Waiting != 0 {
			p.Aim(sch)
		}
	}
}

// NextTick is when the first schedule that may emit is or was due; 0: there is none. It walks over all schedules, at
// most a thousand: only statistics ask for it.
func (p *Part) NextTick() (first queue.Time) {
	for _, sch := range p.ByName {
		if !sch.Made || !sch.Enabled || sch.Held || sch.broken != nil || sch.Next == 0 {
			continue
		}
		if due := sch.Rhythm.due(sch.Next); first == 0 || due < first {
			first = due
		}
	}
	return first
}

// Ruled has the schedules looked at that a rule kept from emitting.
func (p *Part) Ruled() {
	for _, sch := range p.ByName {
		if sch.Held {
			p.Aim(sch)
		}
	}
}

// Failing pauses the schedule of a submission that does not succeed, if its definition says so. The caller has encoded
// the reason. A submission that is older than the schedule belongs to a deleted one of the same name, and does not
// pause this one.
func (p *Part) Failing(r *machine.Record, reason string, now queue.Time) {
	name := r.Details().Schedule
	if name == "" {
		return
	}
	sch := p.ByName[name]
	if sch == nil || !sch.Made || !sch.Enabled || sch.pausing || !sch.Rhythm.Def.PauseOnFailure ||
		r.ID.Time() < sch.Created {
		return
	}
	p.m.Encode(now).Schedule(&journal.Schedule{
		Change: journal.ScheduleSwitch, Name: name, Version: sch.Version + 1,
		Reason: machine.Clip("submission "+r.ID.String()+" did not succeed: "+reason, queue.MaxPauseReasonBytes),
	})
	p.Occupy(sch)
	sch.pausing = true
}

// Retried has a schedule that was parked looked at again.
func (p *Part) Retried(a machine.Action) (mine bool) {
	sch := p.ByName[a.Schedule]
	if a.Kind != machine.KindSchedule || sch == nil {
		return false
	}
	p.Aim(sch)
	return true
}

// Uncounted sets the counters to zero during a replay, because they count from the server's start.
func (p *Part) Uncounted() { p.Totals = scheduleTotals{} }

// Replayed aims all of them once everything is replayed.
func (p *Part) Replayed() {
	p.emittedBefore()
	for _, sch := range p.ByName {
		p.Aim(sch)
	}
}

// Row returns the bytes for a row; nil: the row is not needed.
func (p *Part) Row(key uint64) []byte {
	s := p.rows[key]
	if s == nil {
		return nil
	}
	return journal.AppendScheduleRow(nil, &journal.ScheduleRow{
		Position: p.m.AppliedAt, Created: s.Created, Changed: s.Changed,
		Schedule: journal.Schedule{
			Name: s.Name, Version: s.Version, Definition: s.Text, Enabled: s.Enabled, Reason: s.Reason, Next: s.Next,
			Waiting: s.Waiting,
			Last:    s.Last, LastID: s.LastID, Counts: s.Counts,
		},
	})
}

// Load reads a row. Rows come by number. Of two with one name, the first is of a schedule that was deleted before the
// other was made: a kill came between the two writes. Load marks the older row as changed, so that the next checkpoint
// deletes it.
func (p *Part) Load(key uint64, row []byte) error {
	r, err := journal.DecodeScheduleRow(row)
	if err != nil {
		return fmt.Errorf("%w: %w", machine.AsideError(machine.AsideSchedule), err)
	}
	sch := &Scheduled{
		number: key, stored: r.Position, Name: r.Name, Version: r.Version, Created: r.Created, Changed: r.Changed,
		Enabled: r.Enabled,
		Reason:  r.Reason, Next: r.Next, Waiting: r.Waiting, Last: r.Last, LastID: r.LastID, Counts: r.Counts,
		Made: true,
	}
	if err := sch.Read(r.Definition); err != nil {
		return fmt.Errorf("store: schedule %s: %w", r.Name, err)
	}
	if gone := p.ByName[r.Name]; gone != nil {
		delete(p.rows, gone.number)
		p.m.Asides.Changed(machine.AsideSchedule, gone.number)
	}
	p.ByName[r.Name], p.rows[key], p.last = sch, sch, max(p.last, key)
	return nil
}

// Info is the schedule as it stands.
func (s *Scheduled) Info() queue.ScheduleInfo {
	x := queue.ScheduleInfo{
		Name: s.Name, Schedule: *s.Rhythm.Def, Version: s.Version, Created: s.Created, Changed: s.Changed,
		Reason: s.Reason, Words: s.Rhythm.words,
		Next: s.Next, Last: s.Last, LastID: s.LastID, Waiting: s.Waiting, ScheduleCounts: s.Counts,
		Recent: slices.Clone(s.recent),
	}
	x.Schedule.Enabled = s.Enabled
	switch {
	case s.broken != nil:
		x.State, x.Reason = queue.ScheduleBroken, s.broken.Error()
	case !s.Enabled:
		x.State = queue.SchedulePaused
	case s.Next == 0 && s.Waiting == 0:
		x.State = queue.ScheduleFinished
	case s.Held:
		x.State = queue.ScheduleHeld
	}
	return x
}

// Intended counts the marks of intents.
func (p *Part) Intended(count func(what string, n int)) {
	for _, sch := range p.ByName {
		if sch.Busy != nil || sch.changes != 0 || !sch.Made {
			count("changes of schedule "+sch.Name, 1)
		}
	}
}
