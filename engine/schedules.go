package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/schedule"
	"github.com/quern-queue/quern/engine/shard/schedules"
	"github.com/quern-queue/quern/sdk/api"
)

// ScheduleGuard decides, by the present schedule (exists false: there is none), whether a change may go on. It must be quick and not call
// the engine. nil allows every change.
type ScheduleGuard = schedules.Guard

// List lists a queue's schedules by name, from the one after `after` on: at most limit (1 to queue.MaxListLimit). Next of the
// page is the `after` of the following one, also where fewer fit into an answer.
func (p Schedules) List(after string, limit int) (Page[queue.ScheduleInfo], error) {
	all := p.q.shard.Schedules.List()
	slices.SortFunc(all, func(a, b queue.ScheduleInfo) int { return strings.Compare(a.Name, b.Name) })
	return pageByName(all, after, limit, queue.MaxAnswerBytes, func(s *queue.ScheduleInfo) (string, int) {
		t := &s.Schedule.Template
		bytes := t.Meta.Bytes() + len(t.Chunks.Template) + len(t.Attachment)
		for _, chunk := range t.Chunks.Inline {
			bytes += len(chunk)
		}
		return s.Name, bytes
	})
}

// Get is one of them.
func (p Schedules) Get(name string) (queue.ScheduleInfo, error) { return p.q.shard.Schedules.Get(name) }

// Put creates or redefines a schedule, durably. The same definition as before changes nothing. A rhythm that stays the same (spec, zone,
// start and end) goes on where it was, with the ticks that it missed meanwhile. Another one begins after now.
func (p Schedules) Put(ctx context.Context, name string, def queue.Schedule,
	guard ScheduleGuard) (info queue.ScheduleInfo, created bool, err error) {
	if err := ValidSchedule(name, &def); err != nil {
		return info, false, err
	}
	if err := beneath("/template", def.Template.Fits(p.q.config.Load())); err != nil {
		return info, false, err
	}
	p.q.splitting.RLock()
	defer p.q.splitting.RUnlock()
	if many := p.q.many.Load(); many != nil {
		if err := beneath("/template", many.belongs(p.q, &def.Template)); err != nil {
			return info, false, err
		}
		// While a group leaves, no one changes the settings of values: so a schedule comes either before the group leaves, or behind it.
		p.q.values.change.Lock()
		defer p.q.values.change.Unlock()
		group := def.Template.Meta.GroupOf()
		if moves := p.q.shard.Settings.GroupRow(group).Moves; moves.Gone {
			return info, false, queue.GroupMoved(group, int(moves.To))
		}
	}
	if group := def.Template.Meta.GroupOf(); group != "" && p.q.config.Load().GroupMustExist {
		if _, created := p.q.shard.Settings.Group(group); !created {
			return info, false, queue.NotCreated(group)
		}
	}
	return p.q.shard.Schedules.Put(name, def, guard, p.q.act(ctx, "", "schedule.create", "schedule "+name))
}

// Delete removes a schedule. The submissions that it inserted stay.
func (p Schedules) Delete(ctx context.Context, name string, guard ScheduleGuard) error {
	return p.q.shard.Schedules.Delete(name, guard, p.q.act(ctx, "", "schedule.delete", "schedule "+name))
}

// Switch pauses a schedule, for a reason of at most queue.MaxPauseReasonBytes, or resumes it. A state that it has already is no change.
// Ticks that pass during the pause are missed ones when it ends.
func (p Schedules) Switch(ctx context.Context, name string, enabled bool, reason string) (queue.ScheduleInfo, error) {
	if len(reason) > queue.MaxPauseReasonBytes {
		return queue.ScheduleInfo{}, queue.Invalid("/reason", "has %d bytes; at most %d are allowed", len(reason),
			queue.MaxPauseReasonBytes)
	}
	action := "schedule.pause"
	if enabled {
		action = "schedule.resume"
	}
	return p.q.shard.Schedules.Switch(name, enabled, reason, p.q.act(ctx, "", action, "schedule "+name))
}

// Trigger inserts one submission of a schedule now, whatever its state, beside its ticks. With an idempotency key that came before, it
// returns what that request inserted.
func (p Schedules) Trigger(ctx context.Context, name, key string) (in queue.Insertion, err error) {
	info, err := p.Get(name)
	if err != nil {
		return in, err
	}
	now := queue.At(p.q.e.options.Now())
	return p.insert(ctx, &info, now, scheduleKey("trigger", p.q.name, name, key, 0),
		p.q.act(ctx, "", "schedule.trigger", "schedule "+name))
}

// insert inserts the submission of a schedule for a tick. A key makes it happen only once.
func (p Schedules) insert(ctx context.Context, info *queue.ScheduleInfo, tick queue.Time,
	key string, act queue.Act) (queue.Insertion, error) {
	n := schedules.Submission(info.Name, &info.Schedule, tick)
	if after := info.Schedule.DeadAfter; after > 0 {
		n.DeadDeadline = queue.At(p.q.e.options.Now()).Add(after)
	}
	n.Acts = []queue.Act{act}
	n.IdempotencyKey = key // the key itself has its meaning, so the fingerprint says nothing more
	one := []queue.Insertion{{New: &n}}
	err := p.q.InsertMany(ctx, one, false)
	return one[0], cmp.Or(err, one[0].Err)
}

// scheduleKey is the idempotency key of one submission of a request that came with a key; without a key it is none.
func scheduleKey(what, queueName, name, key string, tick queue.Time) string {
	if key == "" {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%s\x00%d", what, queueName, name, key, tick))
	return queue.MadeKey + "schedule-" + what + "-" + hex.EncodeToString(sum[:])
}

// Backfill inserts the submissions of a schedule for past ticks, whether or not the ticks were missed at their time. A limit of 0 is
// queue.DefaultBackfill. It inserts them one after the other: if it fails in the middle, the same request with the same key does the rest.
// Without a key each request inserts them all.
func (p Schedules) Backfill(ctx context.Context, name string, r api.BackfillRequest, key string) (made api.Backfilled, err error) {
	made.Submissions = []string{}
	from, to, limit := queue.At(r.From.Time), queue.At(r.To.Time), int(cmp.Or(r.Limit, queue.DefaultBackfill))
	info, err := p.Get(name)
	if err != nil {
		return made, err
	}
	spec, err := schedules.Parse(&info.Schedule)
	if err != nil {
		return made, err
	}
	switch now := queue.At(p.q.e.options.Now()); {
	case from <= 0:
		return made, queue.Invalid("/from", "is missing; give the time of the first tick")
	case to < from:
		return made, queue.Invalid("/to", "is before from")
	case to > now:
		return made, queue.Invalid("/to", "is in the future; ticks to come are emitted when they are due")
	case limit > queue.MaxBackfill:
		return made, queue.Invalid("/limit", "is %d; 1 to %d are allowed", limit, queue.MaxBackfill)
	}
	ticks := ticksAfter(spec, from.Add(-time.Millisecond), to, limit+1)
	if made.Ticks = int64(len(ticks)); len(ticks) > limit {
		made.Ticks = spec.Count((from - 1).Std(), to.Std())
	}
	if r.DryRun {
		if len(ticks) > 0 {
			made.FirstAt = ticks[0].API()
		}
		return made, nil
	}
	if len(ticks) > limit {
		return made, queue.Invalid("/to", "asks for %d ticks, and limit is %d: raise limit (up to %d), or ask for a "+
			"shorter time", made.Ticks, limit, queue.MaxBackfill)
	}
	for _, tick := range ticks {
		in, err := p.insert(ctx, &info, tick,
			scheduleKey("backfill", p.q.name, name, key, tick), p.q.act(ctx, "", "schedule.backfill", "schedule "+name))
		if err != nil {
			return made, err
		}
		if !in.Existing {
			made.Submissions = append(made.Submissions, in.Submission.ID.String())
		}
	}
	return made, nil
}

// ticksAfter lists at most n ticks after `from`, up to and including `to` (0: without an end).
func ticksAfter(spec *schedule.Spec, from, to queue.Time, n int) (ticks []queue.Time) {
	for at := spec.Next(from.Std()); len(ticks) < n && !at.IsZero() && (to == 0 || queue.At(at) <= to); at = spec.Next(at) {
		ticks = append(ticks, queue.At(at))
	}
	return ticks
}

// Preview says what a definition means, stored or not: in words, and its next n ticks (1 to queue.MaxPreview) after a moment (0: now). It
// only looks at the fields of the definition that say when it is due.
func (p Schedules) Preview(def queue.Schedule, after queue.Time, n int) (out api.SchedulePreview, err error) {
	now := queue.At(p.q.e.options.Now())
	after = cmp.Or(after, now)
	switch {
	case n < 1 || n > queue.MaxPreview:
		return out, queue.Invalid("/n", "is %d; 1 to %d are allowed", n, queue.MaxPreview)
	case def.Start != 0 && def.End != 0 && def.End < def.Start:
		return out, queue.Invalid("/end", "is before start")
	}
	if def.Anchor == 0 {
		def.Anchor = now
		if def.Start != 0 {
			def.Anchor = def.Start
		}
	}
	spec, err := schedules.Parse(&def)
	if err != nil {
		return out, err
	}
	out = api.SchedulePreview{Description: spec.Describe(), TZ: spec.Location().String(), Ticks: []api.ScheduleTick{}}
	for _, tick := range ticksAfter(spec, max(after, def.Start-1), def.End, n) {
		local := tick.Std().In(spec.Location()).Format("Monday 2 January 2006 15:04:05 -07:00")
		out.Ticks = append(out.Ticks, api.ScheduleTick{At: tick.API(), Local: local})
	}
	return out, nil
}

// Span is a piece of work that is traced.
type Span = schedules.Span

// Spans begin spans of the work that the engine does by itself. Callers trace their own calls. A nil Span is not recorded. They must be
// quick: they are called with locks held.
type Spans interface {
	// Emit begins the span of a schedule's inserting for ticks. The submissions carry its context.
	Emit(queueName, schedule string) Span

	// Bulk begins the span of a turn of a bulk operation.
	Bulk(b *queue.Bulk) Span
}

// emitting is how the shard of a queue asks for spans; nil when nothing is traced.
func (e *Engine) emitting(queueName string) func(schedule string) Span {
	if e.options.Spans == nil {
		return nil
	}
	return func(schedule string) Span { return e.options.Spans.Emit(queueName, schedule) }
}
