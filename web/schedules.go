package web

// The HTTP face of schedules. It reads names, specs and conditions; engine/schedule and
// engine/shard/schedules decide when a tick is due, and what it inserts.
//
// A PUT is idempotent: the same definition changes nothing. With If-Match it replaces only the
// version that the client saw, so that two operators do not overwrite each other unseen.
//
// A schedule passes through three forms, and each has its place here:
//
//	request body ─ scheduleOf ─► queue.Schedule ─ engine ─► queue.ScheduleInfo ─ apiSchedule ─► answer
//	                                                              └ scheduleETag, for If-Match
//
// The fields themselves are one table, queue.ScheduleFields, that both directions use. A field that is added there
// is read and shown without a change in this file.

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"reflect"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

const (
	putScheduleAbout = "A tick and its submission are one commit. Even after a crash, each tick is emitted once, " +
		"or dropped by `missed` or `overlap` and counted. The same definition again changes nothing. If spec, " +
		"seconds, tz, start and end stay, a schedule continues where it was; otherwise its ticks begin after now. " +
		"With If-Match, the server replaces only a version with this ETag; with `If-None-Match: *` it only creates " +
		"a new name; else the answer is 412. A new name answers 201."
	triggerAbout = "Inserts the submission of a tick now, regardless of the schedule's state and overlap. Its " +
		"ticks do not change. The submission's scheduled_at is now."
	pauseAbout  = "Ticks that pass meanwhile count as missed when you resume. A paused schedule stays as it is."
	resumeAbout = "`missed` decides which ticks of the pause are emitted. A schedule that is not paused stays as " +
		"it is."
	backfillAbout = "Inserts the submissions of past ticks, whether they were emitted or not. With `dry_run` " +
		"it only counts them. With an `Idempotency-Key`, each tick's submission is inserted once within 24 hours, " +
		"however often you send the request."
	previewAbout = "Stores nothing. `@every` counts from `start`, or from now."
)

// schedules are the handlers of schedules.
type schedules struct{}

// routes are the part of the table about schedules.
func (x schedules) routes(r *router) {
	const all, one = "/v1/queues/{queue}/schedules", "/v1/queues/{queue}/schedules/{name}"
	// A schedule may insert work of any value of a meta key. A token that is bound to one value therefore sees no
	// schedules at all (noTenants): it could not be shown a part of one. Reading takes the scope read, changing
	// takes operate, because a schedule inserts in the operator's name for as long as it exists.
	registerIn(r, operation{id: "list-schedules",
		shards: joinedList(schedulesOverShards),
		method: "GET", path: all, scope: scopeRead,
		narrow: inQueue | noTenants, tag: tagSchedules, compress: true,
		summary: "List a queue's schedules by name"}, x.list)
	registerIn(r, operation{id: "preview-schedule",
		shards: inAny,
		method: "POST", path: all + "/preview", scope: scopeRead,
		narrow: inQueue | noTenants, tag: tagSchedules,
		summary: "Describe a spec in plain words, with its next ticks", about: previewAbout}, x.preview)
	registerIn(r, operation{id: "get-schedule",
		shards: inOneThatHas,
		method: "GET", path: one, scope: scopeRead, narrow: inQueue | noTenants,
		tag: tagSchedules, summary: "Read a schedule and its state"}, x.get)
	registerIn(r, operation{id: "put-schedule",
		shards: putScheduleInShards,
		act:    act{"schedule.set", "schedule {name}"},
		brings: true, method: "PUT", path: one, scope: scopeOperate,
		narrow: inQueue | noTenants, tag: tagSchedules, creates: reflect.TypeFor[api.Schedule](),
		summary: "Create a schedule, or redefine it", about: putScheduleAbout}, x.put)
	registerIn(r, operation{id: "delete-schedule", shards: inOneThatHas, act: act{"schedule.delete", "schedule {name}"},
		method: "DELETE", path: one, scope: scopeOperate,
		narrow: inQueue | noTenants, tag: tagSchedules,
		summary: "Delete a schedule", about: "Its submissions stay. If-Match works as in PUT."}, x.delete)
	registerIn(r, operation{id: "list-schedule-ticks",
		shards: inOneThatHas,
		method: "GET", path: one + "/ticks", scope: scopeRead,
		narrow: inQueue | noTenants, tag: tagSchedules,
		summary: "List the next ticks of a schedule"}, x.ticks)
	registerIn(r, operation{id: "trigger-schedule",
		shards: inOneThatHas,
		act:    act{"schedule.trigger", "schedule {name}"},
		brings: true, method: "POST", path: one + "/trigger",
		scope: scopeOperate, narrow: inQueue | noTenants, tag: tagSchedules, creates: reflect.TypeFor[api.Submission](),
		summary: "Insert the work of a tick now", about: triggerAbout}, x.trigger)
	registerIn(r, operation{id: "pause-schedule", shards: inOneThatHas, act: act{"schedule.pause", "schedule {name}"},
		method: "POST", path: one + "/pause", scope: scopeOperate,
		narrow: inQueue | noTenants, tag: tagSchedules,
		summary: "Pause a schedule", about: pauseAbout}, x.pause)
	registerIn(r, operation{id: "resume-schedule", shards: inOneThatHas, act: act{"schedule.resume", "schedule {name}"},
		method: "POST", path: one + "/resume", scope: scopeOperate,
		narrow: inQueue | noTenants, tag: tagSchedules,
		summary: "Resume a paused schedule", about: resumeAbout}, x.resume)
	registerIn(r, operation{id: "backfill-schedule",
		shards: inOneThatHas,
		act:    act{"schedule.backfill", "schedule {name}"},
		brings: true, method: "POST", path: one + "/backfill",
		scope: scopeOperate, narrow: inQueue | noTenants, tag: tagSchedules,
		summary: "Insert the work of past ticks", about: backfillAbout}, x.backfill)
}

func (x schedules) list(_ context.Context, q *engine.Queue, in *queuePage) (*output[api.Page[api.Schedule]], error) {
	page, err := q.Schedules.List(in.Cursor, in.Limit)
	return answeredPage(page, err, apiSchedule)
}

// SchedulePath names a schedule of a queue. It is exported because huma only looks into exported fields.
type SchedulePath struct {
	QueuePath
	Name string `path:"name" maxLength:"64" doc:"Name of the schedule: letters, digits, '.', '_' and '-'"`
}

func answeredSchedule(info queue.ScheduleInfo, err error) (*tagged[api.Schedule], error) {
	out := apiSchedule(&info)
	return answeredTagged(out, out.ETag, err)
}

func (x schedules) get(_ context.Context, q *engine.Queue, in *SchedulePath) (*tagged[api.Schedule], error) {
	return answeredSchedule(q.Schedules.Get(in.Name))
}

type putScheduleInput struct {
	SchedulePath
	Conditions
	Body decoded[api.ScheduleDefinition]
}

// put creates or replaces. The engine compares and writes in one step under the queue's lock, with scheduleGuard
// called inside, so that no other PUT can come between the check of If-Match and the change.
func (x schedules) put(ctx context.Context, q *engine.Queue,
	in *putScheduleInput) (*taggedCreation[api.Schedule], error) {
	// POST .../schedules/preview would hide such a schedule: the path of its own operations would begin with the
	// name of another operation.
	if in.Name == "preview" {
		return nil, queue.Invalid("/path/name", "is the name of an operation on schedules; choose another")
	}
	def, err := scheduleOf(&in.Body.value)
	if err != nil {
		return nil, err
	}
	info, created, err := q.Schedules.Put(ctx, in.Name, def, in.scheduleGuard)
	out := apiSchedule(&info)
	return answeredTaggedCreation(out, out.ETag, created, "/v1/queues/"+in.Queue+"/schedules/"+out.Name, err)
}

type deleteScheduleInput struct {
	SchedulePath
	Conditions
}

// Deleting a schedule leaves the submissions that it inserted, and lists of submissions still find them by its name.
func (x schedules) delete(ctx context.Context, q *engine.Queue, in *deleteScheduleInput) (*struct{}, error) {
	return nil, q.Schedules.Delete(ctx, in.Name, in.scheduleGuard)
}

type triggerScheduleInput struct {
	SchedulePath
	Key string `header:"Idempotency-Key" doc:"1 to 255 printable ASCII characters, kept for 24 hours"`
}

// triggerScheduleOutput tells three cases apart, as an insert does: inserted, inserted by an earlier call with this
// key, and not inserted because another submission holds the unique key.
type triggerScheduleOutput struct {
	Status   int
	Location string `header:"Location" doc:"Path of the submission"`
	Replayed string `header:"Idempotency-Replayed" doc:"true: an earlier request with the same key inserted it"`
	Existing string `header:"Quern-Existing" doc:"true: nothing was inserted: this one holds the unique key"`
	Body     api.Submission
}

// trigger inserts outside the ticks. With an Idempotency-Key a repeated call finds the submission of the first one
// for 24 hours and answers 200; without a key each call inserts again.
func (x schedules) trigger(ctx context.Context, q *engine.Queue,
	in *triggerScheduleInput) (*triggerScheduleOutput, error) {
	if err := validKey(in.Key); err != nil {
		return nil, err
	}
	made, err := q.Schedules.Trigger(ctx, in.Name, in.Key)
	if err != nil {
		return nil, err
	}
	out := &triggerScheduleOutput{Status: http.StatusCreated,
		Location: "/v1/submissions/" + made.Submission.ID.String(), Body: apiSubmission(&made.Submission, ownShard{q})}
	if made.Replayed {
		out.Status, out.Replayed = http.StatusOK, "true"
	} else if made.Existing {
		out.Status, out.Existing, out.Body.Existing = http.StatusOK, "true", true
	}
	return out, nil
}

// validKey checks an Idempotency-Key that huma read; "" is none.
func validKey(key string) error {
	if key == "" {
		return nil
	}
	_, err := idempotencyKey(http.Header{"Idempotency-Key": {key}})
	return err
}

type pauseScheduleInput struct {
	SchedulePath
	Reason string `query:"reason" maxLength:"500" doc:"Reason, for later readers"`
}

// Pausing takes no condition: the reason of a second pause replaces the first, and nothing is lost.
func (x schedules) pause(ctx context.Context, q *engine.Queue, in *pauseScheduleInput) (*tagged[api.Schedule], error) {
	return answeredSchedule(q.Schedules.Switch(ctx, in.Name, false, in.Reason))
}

func (x schedules) resume(ctx context.Context, q *engine.Queue, in *SchedulePath) (*tagged[api.Schedule], error) {
	return answeredSchedule(q.Schedules.Switch(ctx, in.Name, true, ""))
}

type backfillScheduleInput struct {
	SchedulePath
	Key  string `header:"Idempotency-Key" doc:"1 to 255 printable ASCII characters, kept for 24 hours"`
	Body decoded[api.BackfillRequest]
}

// backfill takes one key for many submissions. A call that broke off half way can be sent again with it: each
// tick's submission is inserted once.
func (x schedules) backfill(ctx context.Context, q *engine.Queue,
	in *backfillScheduleInput) (*output[api.Backfilled], error) {
	if err := validKey(in.Key); err != nil {
		return nil, err
	}
	made, err := q.Schedules.Backfill(ctx, in.Name, in.Body.value, in.Key)
	return answered(made, err, asIs)
}

// defaultTicks is how many ticks a preview shows when the request names no number.
const defaultTicks = 5

// preview needs the queue only for its access rules: nothing of the queue is read, and nothing is stored.
func (x schedules) preview(_ context.Context, q *engine.Queue,
	in *queueBody[api.SchedulePreviewRequest]) (*output[api.SchedulePreview], error) {
	asked := &in.Body.value
	n := cmp.Or(int(asked.N), defaultTicks)
	var def queue.Schedule
	if err := readFields(queue.ScheduleFields(), asked, &def); err != nil {
		return nil, err
	}
	preview, err := q.Schedules.Preview(def, queue.At(asked.After.Time), n)
	return answered(preview, err, asIs)
}

type listTicksInput struct {
	SchedulePath
	N int `query:"n" minimum:"1" maximum:"100" default:"5" doc:"How many"`
}

// ticks shows what the stored spec says, also of a paused schedule. nextOf says when it really runs next.
func (x schedules) ticks(_ context.Context, q *engine.Queue, in *listTicksInput) (*output[api.SchedulePreview], error) {
	info, err := q.Schedules.Get(in.Name)
	if err != nil {
		return nil, err
	}
	preview, err := q.Schedules.Preview(info.Schedule, 0, in.N)
	return answered(preview, err, asIs)
}

// nextOf is when a schedule is due next. One that is paused is not due, whatever its spec says.
func nextOf(in *queue.ScheduleInfo) api.Time {
	if in.State == queue.SchedulePaused {
		return api.Time{}
	}
	return in.Next.API()
}

// apiSchedule shows a schedule with its counters. They tell emitted ticks from dropped ones, and the reasons for
// drops apart: `missed` and its limits, or an open submission before it (`overlap`).
func apiSchedule(in *queue.ScheduleInfo) api.Schedule {
	out := api.Schedule{
		Name: in.Name, Description: in.Words, State: in.State.String(), Reason: in.Reason, NextAt: nextOf(in),
		LastAt:    in.Last.API(),
		WaitingAt: in.Waiting.API(), Emitted: in.Emitted, SkippedMissed: in.Missed, SkippedLate: in.Late,
		SkippedOverlap: in.Overlapped,
		Version:        in.Version, ETag: scheduleETag(in), CreatedAt: in.Created.API(), ChangedAt: in.Changed.API(),
		Definition: apiDefinition(in),
	}
	if in.LastID != 0 {
		// 0 is no id; the text "0" would look like one.
		out.LastSubmission = in.LastID.String()
	}
	out.Recent = make([]api.Emission, len(in.Recent))
	for i, e := range in.Recent {
		out.Recent[i] = api.Emission{At: e.Tick.API(), Submission: e.ID.String(), State: e.State.String()}
	}
	return out
}

// apiDefinition is the inverse of scheduleOf: a PUT with its result as the body changes nothing. scheduleETag depends
// on that.
func apiDefinition(in *queue.ScheduleInfo) api.ScheduleDefinition {
	t := &in.Schedule.Template
	out := api.ScheduleDefinition{Template: api.ScheduleTemplate{
		Meta: t.Meta.Object(), Attachment: t.Attachment,
		Chunks: api.Chunks{Count: t.Chunks.Count, Prefix: t.Chunks.Prefix, Template: t.Chunks.Template},
	}}
	showFields(queue.ScheduleFields(), &in.Schedule, &out)
	showFields(queue.SubmissionFields(), t, &out.Template)
	if out.Template.Unique = apiUnique(t.Unique); t.Unique != nil {
		out.Template.Unique.OnConflict = t.Unique.OnConflict()
	}
	if len(t.Chunks.Inline) > 0 {
		// The engine counts inline chunks itself. A request must not have both, so an answer has not both either.
		out.Template.Chunks.Count = 0
		for _, b := range t.Chunks.Inline {
			out.Template.Chunks.Inline = append(out.Template.Chunks.Inline, append(api.Bytes{}, b...))
		}
	}
	out.TZ = cmp.Or(out.TZ, "UTC")
	return out
}

// scheduleOf turns a definition into the engine's words, with the defaults. The engine
// checks whether it makes sense.
func scheduleOf(in *api.ScheduleDefinition) (out queue.Schedule, err error) {
	out = queue.DefaultSchedule()
	if err := readFields(queue.ScheduleFields(), in, &out); err != nil {
		return out, err
	}
	// The empty zone is stored for UTC, so that two spellings of one definition have one ETag.
	if out.Zone == "UTC" {
		out.Zone = ""
	}
	out.Template, err = templateOf(&in.Template)
	return out, prefixed(err, "/template")
}

// templateOf checks the form of the chunks, as chunksOf does for inserts. A template never comes as JSON lines, and
// its contents are kept with the schedule, so they are copied.
func templateOf(in *api.ScheduleTemplate) (queue.NewSubmission, error) {
	out := queue.NewSubmission{
		Meta: queue.EntriesOf(in.Meta), Attachment: in.Attachment,
		Chunks: queue.Chunks{Count: in.Chunks.Count, Prefix: in.Chunks.Prefix, Template: in.Chunks.Template},
	}
	if err := readFields(queue.SubmissionFields(), in, &out); err != nil {
		return out, err
	}
	if u := in.Unique; u != nil {
		var err error
		if out.Unique, err = queue.NewUnique(u.Key, u.While, u.OnConflict); err != nil {
			return out, err
		}
	}
	forms := 0
	for _, given := range []bool{in.Chunks.Prefix != "", in.Chunks.Template != "", len(in.Chunks.Inline) > 0} {
		if given {
			forms++
		}
	}
	switch {
	case forms != 1:
		return out, queue.Invalid("/chunks",
			`must have exactly one of "prefix" (with "count"), "template" (with "count") and "inline"`)
	case len(in.Chunks.Inline) > 0 && in.Chunks.Count != 0:
		return out, queue.Invalid("/chunks/count", `must be left out beside "inline", whose entries are counted`)
	}
	for _, b := range in.Chunks.Inline {
		out.Chunks.Inline = append(out.Chunks.Inline, b)
	}
	return out, nil
}

// scheduleETag is the ETag of a version. It covers the definition beside the version: a name that was deleted and set
// again begins with version 1, too.
func scheduleETag(in *queue.ScheduleInfo) string {
	def, err := json.Marshal(apiDefinition(in))
	if err != nil {
		def = []byte(err.Error()) // cannot be: all of it came in as JSON
	}
	return queue.ETag(in.Version, def)
}

// scheduleGuard is the engine's question before it changes a schedule.
func (c *Conditions) scheduleGuard(now *queue.ScheduleInfo, exists bool) error {
	if !exists {
		return c.hold("schedule of this name", 0, "")
	}
	return c.hold("schedule of this name", now.Version, scheduleETag(now))
}
