package journal

// Schedules in the journal: the op, the row of a checkpoint, and the definition.
//
// The definition is JSON with names of its own, not the Go type's. It is the one part of an op that
// people may have to read in a file, and it has many optional fields. A field that is renamed in Go
// must not be renamed here; TestDefinitionKeepsEveryField fails for a field without a place.

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/quern-queue/quern/engine/coding"
	"github.com/quern-queue/quern/engine/queue"
)

// ScheduleChange is the kind of a Schedule op.
type ScheduleChange uint8

// The changes. A Tick is in one batch with the inserts that it emits, so that either all of them happened or nothing.
const (
	SchedulePut    ScheduleChange = iota // it is created, or redefined
	ScheduleTick                         // ticks became due
	ScheduleSwitch                       // it is paused or resumed
	ScheduleDelete
	endOfScheduleChanges
)

// Schedule is a change of a schedule. Every field is absolute, so that applying it twice
// is applying it once; each change has only the fields that it names.
type Schedule struct {
	Change     ScheduleChange
	Name       string
	Version    uint32               // Put, Switch
	Definition string               // Put: the bytes of AppendDefinition
	Enabled    bool                 // Put, Switch
	Reason     string               // Put, Switch: why not
	Next       queue.Time           // Put, Tick
	Waiting    queue.Time           // Put, Tick
	Last       queue.Time           // Tick
	LastID     queue.SubmissionID   // Tick
	Counts     queue.ScheduleCounts // Tick
}

// Like all fields functions it reads and writes. The field Change comes first, as it decides which others follow.
func (s *Schedule) fields(c *coder) {
	coding.Octet(&c.Coder, &s.Change, endOfScheduleChanges-1)
	c.Text(&s.Name)
	switch s.Change {
	case SchedulePut:
		s.switched(c)
		coding.Signed(&c.Coder, &s.Next)
		coding.Signed(&c.Coder, &s.Waiting)
		c.Text(&s.Definition)
	case ScheduleTick:
		s.ticked(c)
	case ScheduleSwitch:
		s.switched(c)
	}
}

func (s *Schedule) switched(c *coder) {
	coding.Unsigned(&c.Coder, &s.Version)
	c.Yes(&s.Enabled)
	c.Text(&s.Reason)
}

func (s *Schedule) ticked(c *coder) {
	coding.Signed(&c.Coder, &s.Next)
	coding.Signed(&c.Coder, &s.Waiting)
	coding.Signed(&c.Coder, &s.Last)
	coding.Unsigned(&c.Coder, &s.LastID)
	for _, n := range [...]*uint64{&s.Counts.Emitted, &s.Counts.Missed, &s.Counts.Late, &s.Counts.Overlapped} {
		coding.Unsigned(&c.Coder, n)
	}
}

// ScheduleRow is a schedule as the store keeps it, true up to Position. A replay that begins before Position passes
// over the ops that the row has already.
type ScheduleRow struct {
	Position         Position
	Created, Changed queue.Time
	Schedule         // all fields but Change
}

// scheduleRowVersion is the first byte of a row.
const scheduleRowVersion = 1

func (r *ScheduleRow) fields(c *coder) {
	coding.Unsigned(&c.Coder, &r.Position)
	coding.Signed(&c.Coder, &r.Created)
	coding.Signed(&c.Coder, &r.Changed)
	c.Text(&r.Name)
	r.switched(c)
	r.ticked(c)
	c.Text(&r.Definition)
}

// AppendScheduleRow appends the row's encoding.
func AppendScheduleRow(dst []byte, r *ScheduleRow) []byte {
	return appendRow(dst, scheduleRowVersion, (*ScheduleRow).fields, r)
}

// DecodeScheduleRow reads a row that AppendScheduleRow wrote.
func DecodeScheduleRow(b []byte) (*ScheduleRow, error) {
	r, err := readRow(b, scheduleRowVersion, (*ScheduleRow).fields)
	if err != nil {
		return nil, err
	}
	return &r, nil
}

// definition is how a schedule's definition stands in the journal: names and units that never
// change, whatever becomes of the Go type. A field that is not there has its zero value.
type definition struct {
	Spec        string     `json:"spec"`
	Seconds     bool       `json:"seconds,omitempty"`
	Zone        string     `json:"tz,omitempty"`
	Anchor      queue.Time `json:"anchor,omitempty"`
	DeadAfterMs int64      `json:"dead_after_ms,omitempty"`
	// The next four are always written: their zero values are choices, not "none".
	Missed          string            `json:"missed"`
	CatchUp         uint32            `json:"catchup_limit"`
	CatchUpWindowMs int64             `json:"catchup_window_ms"`
	Overlap         string            `json:"overlap"`
	JitterMs        int64             `json:"jitter_ms,omitempty"`
	Start           queue.Time        `json:"start,omitempty"`
	End             queue.Time        `json:"end,omitempty"`
	PauseOnFailure  bool              `json:"pause_on_failure,omitempty"`
	RunOnCreate     bool              `json:"run_on_create,omitempty"`
	Submission      definedSubmission `json:"submission"`
}

// definedSubmission has the fields of an insert, except those that depend on the tick, such as its times.
type definedSubmission struct {
	Group       string            `json:"group,omitempty"`
	Meta        []MetaField       `json:"meta,omitempty"`
	Priority    int64             `json:"priority,omitempty"`
	Count       uint32            `json:"count,omitempty"`
	Prefix      string            `json:"prefix,omitempty"`
	Template    string            `json:"template,omitempty"`
	Inline      [][]byte          `json:"inline,omitempty"`
	Attachment  []byte            `json:"attachment,omitempty"`
	Operations  uint32            `json:"operations_per_chunk,omitempty"`
	MaxAttempts uint16            `json:"max_attempts,omitempty"`
	OnExhausted queue.OnExhausted `json:"on_exhausted,omitempty"`
	MaxFailed   uint32            `json:"max_failed_chunks,omitempty"`
	Retry       *queue.Backoff    `json:"retry_backoff,omitempty"`
	TimeoutMs   int64             `json:"timeout_ms,omitempty"`
	Unique      *definedUnique    `json:"unique,omitempty"`
}

// definedUnique is the unique key of the submissions that a schedule inserts. It has no scope: tokens that are bound to
// a value of meta cannot set schedules.
type definedUnique struct {
	Key     string `json:"key"`
	ForMs   int64  `json:"for_ms,omitempty"`
	Replace bool   `json:"replace,omitempty"`
}

// EncodeDefinition writes a schedule's definition, all but whether it is enabled.
func EncodeDefinition(s *queue.Schedule) (string, error) {
	t := &s.Template
	d := definition{
		Spec: s.Spec, Seconds: s.Seconds, Zone: s.Zone, Anchor: s.Anchor, DeadAfterMs: s.DeadAfter.Milliseconds(),
		Missed:  s.Missed.String(),
		CatchUp: s.CatchUp, CatchUpWindowMs: s.CatchUpWindow.Milliseconds(), Overlap: s.Overlap.String(),
		JitterMs: s.Jitter.Milliseconds(),
		Start:    s.Start, End: s.End, PauseOnFailure: s.PauseOnFailure, RunOnCreate: s.RunOnCreate,
		Submission: definedSubmission{
			Group: t.Group, Meta: MetaFields(t.Meta), Priority: t.Priority, Count: t.Chunks.Count,
			Prefix:   t.Chunks.Prefix,
			Template: t.Chunks.Template, Inline: t.Chunks.Inline,
			Attachment: t.Attachment, Operations: t.OperationsPerChunk, MaxAttempts: t.MaxAttempts,
			OnExhausted: t.OnExhausted, MaxFailed: t.MaxFailedChunks, Retry: t.RetryBackoff,
			TimeoutMs: t.AttemptTimeout.Milliseconds(),
		},
	}
	if u := t.Unique; u != nil {
		d.Submission.Unique = &definedUnique{u.Key, u.For.Milliseconds(), u.Replace}
	}
	text, err := json.Marshal(d)
	if err != nil {
		return "", fmt.Errorf("journal: schedule: %w", err)
	}
	return string(text), nil
}

// DecodeDefinition reads a definition that EncodeDefinition wrote, which does not include Enabled. It refuses a policy
// that it does not know. With the default instead, the schedule of a newer version would silently do something else.
func DecodeDefinition(text string) (*queue.Schedule, error) {
	var d definition
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return nil, fmt.Errorf("journal: schedule: %w", err)
	}
	x := &d.Submission
	s := &queue.Schedule{
		Spec: d.Spec, Seconds: d.Seconds, Zone: d.Zone, Anchor: d.Anchor, DeadAfter: milliseconds(d.DeadAfterMs),
		CatchUp: d.CatchUp, CatchUpWindow: milliseconds(d.CatchUpWindowMs), Jitter: milliseconds(d.JitterMs),
		Start: d.Start, End: d.End,
		PauseOnFailure: d.PauseOnFailure, RunOnCreate: d.RunOnCreate,
		Template: queue.NewSubmission{
			Group: x.Group, Priority: x.Priority,
			Chunks:     queue.Chunks{Count: x.Count, Prefix: x.Prefix, Template: x.Template, Inline: x.Inline},
			Attachment: x.Attachment, OperationsPerChunk: x.Operations, MaxAttempts: x.MaxAttempts,
			OnExhausted: x.OnExhausted, MaxFailedChunks: x.MaxFailed, RetryBackoff: x.Retry,
			AttemptTimeout: milliseconds(x.TimeoutMs),
		},
	}
	if u := x.Unique; u != nil {
		s.Template.Unique = &queue.Unique{Key: u.Key, For: milliseconds(u.ForMs), Replace: u.Replace}
	}
	missed, knownMissed := queue.ParseMissed(d.Missed)
	overlap, knownOverlap := queue.ParseOverlap(d.Overlap)
	if !knownMissed || !knownOverlap || x.OnExhausted > queue.Skip {
		return nil, fmt.Errorf("journal: schedule: the definition has missed %q, overlap %q and on_exhausted %d: it "+
			"is damaged or was written by a newer Quern", d.Missed, d.Overlap, x.OnExhausted)
	}
	s.Missed, s.Overlap = missed, overlap
	entries, _ := MetaEntries(x.Meta) // one without a value is the empty text
	meta, err := queue.NewMeta(entries)
	if err != nil {
		return nil, fmt.Errorf("journal: schedule: %w", err)
	}
	if len(meta) > 0 {
		s.Template.Meta = meta
	}
	return s, nil
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
