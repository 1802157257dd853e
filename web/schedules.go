package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

const (
	putScheduleAbout = "What a tick inserts is committed together with the note that the tick is done: also over " +
		"crashes each tick is emitted once, or dropped by `missed` or `overlap` and counted. " +
		"The same definition as before changes nothing. As long as spec, seconds, tz, start and end stay, a schedule " +
		"goes on where it was; otherwise its ticks begin after now. " +
		"With If-Match only a version with this ETag is replaced, with `If-None-Match: *` only a new name is made; " +
		"else 412. A new name answers 201."
	triggerAbout = "Inserts what a tick would insert, at once: whatever the state of the schedule, its overlap and " +
		"its ticks, which stay as they are. The submission's scheduled_at is now."
	pauseAbout    = "Ticks that pass meanwhile are missed ones when it is resumed. A paused schedule stays as it is."
	resumeAbout   = "What was missed meanwhile is emitted or dropped as `missed` says. A schedule that is not paused stays as it is."
	backfillAbout = "Inserts what ticks of the past would have inserted, whatever became of them then. With " +
		"`dry_run` they are only counted. With an `Idempotency-Key` each tick's submission is inserted once for 24 " +
		"hours, however often the request is sent."
	previewAbout = "Nothing is stored. `@every` counts from `start`, or from now."
)

// scheduleRoutes are the part of the table about schedules.
func (s *Server) scheduleRoutes(d *document) {
	const all, one = "/v1/queues/{queue}/schedules", "/v1/queues/{queue}/schedules/{name}"
	register(d, operation{id: "list-schedules", method: "GET", path: all, scope: scopeRead, narrow: inQueue | noTenants,
		tag: tagSchedules, compress: true,
		summary: "List a queue's schedules by name"}, s.listSchedules)
	register(d, operation{id: "preview-schedule", method: "POST", path: all + "/preview", scope: scopeRead,
		narrow: inQueue | noTenants, tag: tagSchedules,
		summary: "Say in plain words when a spec is due, with its next ticks", about: previewAbout}, s.previewSchedule)
	register(d, operation{id: "get-schedule", method: "GET", path: one, scope: scopeRead, narrow: inQueue | noTenants, tag: tagSchedules,
		summary: "Read a schedule and how it stands"}, s.getSchedule)
	register(d, operation{id: "put-schedule", act: act{"schedule.set", "schedule {name}"},
		brings: true, method: "PUT", path: one, scope: scopeOperate,
		narrow: inQueue | noTenants, tag: tagSchedules, creates: reflect.TypeFor[api.Schedule](),
		summary: "Create a schedule, or redefine it", about: putScheduleAbout}, s.putSchedule)
	register(d, operation{id: "delete-schedule", act: act{"schedule.delete", "schedule {name}"},
		method: "DELETE", path: one, scope: scopeOperate,
		narrow: inQueue | noTenants, tag: tagSchedules,
		summary: "Delete a schedule", about: "What it inserted stays. If-Match as for PUT."}, s.deleteSchedule)
	register(d, operation{id: "list-schedule-ticks", method: "GET", path: one + "/ticks", scope: scopeRead,
		narrow: inQueue | noTenants, tag: tagSchedules,
		summary: "List the next ticks of a schedule"}, s.listTicks)
	register(d, operation{id: "trigger-schedule", act: act{"schedule.trigger", "schedule {name}"},
		brings: true, method: "POST", path: one + "/trigger",
		scope: scopeOperate, narrow: inQueue | noTenants, tag: tagSchedules, creates: reflect.TypeFor[api.Submission](),
		summary: "Insert once, now", about: triggerAbout}, s.triggerSchedule)
	register(d, operation{id: "pause-schedule", act: act{"schedule.pause", "schedule {name}"},
		method: "POST", path: one + "/pause", scope: scopeOperate,
		narrow: inQueue | noTenants, tag: tagSchedules,
		summary: "Pause a schedule", about: pauseAbout}, s.pauseSchedule)
	register(d, operation{id: "resume-schedule", act: act{"schedule.resume", "schedule {name}"},
		method: "POST", path: one + "/resume", scope: scopeOperate,
		narrow: inQueue | noTenants, tag: tagSchedules,
		summary: "Resume a paused schedule", about: resumeAbout}, s.resumeSchedule)
	register(d, operation{id: "backfill-schedule", act: act{"schedule.backfill", "schedule {name}"},
		brings: true, method: "POST", path: one + "/backfill",
		scope: scopeOperate, narrow: inQueue | noTenants, tag: tagSchedules,
		summary: "Insert for ticks of the past", about: backfillAbout}, s.backfillSchedule)
}

type listSchedulesInput struct {
	QueuePath
	Cursor string `query:"cursor" maxLength:"64" doc:"The next of the page before"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Most items"`
}

type listSchedulesOutput struct{ Body api.Page[api.Schedule] }

func (s *Server) listSchedules(_ context.Context, in *listSchedulesInput) (*listSchedulesOutput, error) {
	page, err := s.engine.Schedules(in.Queue, in.Cursor, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &listSchedulesOutput{Body: api.Page[api.Schedule]{Items: make([]api.Schedule, len(page.Items)), Next: page.Next}}
	for i := range page.Items {
		out.Body.Items[i] = apiSchedule(&page.Items[i])
	}
	return out, nil
}

// SchedulePath names a schedule of a queue. It is exported because huma only looks into exported fields.
type SchedulePath struct {
	QueuePath
	Name string `path:"name" maxLength:"64" doc:"Name of the schedule: letters, digits, '.', '_' and '-'"`
}

type scheduleOutput struct {
	ETag string `header:"ETag" doc:"Names this version"`
	Body api.Schedule
}

func newScheduleOutput(info queue.ScheduleInfo, err error) (*scheduleOutput, error) {
	if err != nil {
		return nil, err
	}
	return &scheduleOutput{ETag: scheduleETag(&info), Body: apiSchedule(&info)}, nil
}

func (s *Server) getSchedule(_ context.Context, in *SchedulePath) (*scheduleOutput, error) {
	return newScheduleOutput(s.engine.Schedule(in.Queue, in.Name))
}

type putScheduleInput struct {
	SchedulePath
	Conditions
	Body decoded[api.ScheduleDefinition]
}

type putScheduleOutput struct {
	Status   int
	Location string `header:"Location" doc:"Path of the schedule, when it was created"`
	ETag     string `header:"ETag" doc:"Names this version"`
	Body     api.Schedule
}

func (s *Server) putSchedule(ctx context.Context, in *putScheduleInput) (*putScheduleOutput, error) {
	if in.Body.failed != nil {
		return nil, s.wireProblem(in.Body.failed, in.Body.body, contentJSON)
	}
	if in.Name == "preview" {
		return nil, queue.Invalid("/path/name", "is the name of an operation on schedules; choose another")
	}
	def, err := scheduleOf(&in.Body.value)
	if err != nil {
		return nil, err
	}
	guard, err := s.scheduleGuard(&in.Conditions)
	if err != nil {
		return nil, err
	}
	info, created, err := s.engine.PutSchedule(ctx, in.Queue, in.Name, def, guard)
	if err != nil {
		return nil, err
	}
	out := &putScheduleOutput{Status: http.StatusOK, ETag: scheduleETag(&info), Body: apiSchedule(&info)}
	if created {
		out.Status, out.Location = http.StatusCreated, "/v1/queues/"+in.Queue+"/schedules/"+info.Name
	}
	return out, nil
}

type deleteScheduleInput struct {
	SchedulePath
	Conditions
}

func (s *Server) deleteSchedule(ctx context.Context, in *deleteScheduleInput) (*struct{}, error) {
	guard, err := s.scheduleGuard(&in.Conditions)
	if err != nil {
		return nil, err
	}
	return nil, s.engine.DeleteSchedule(ctx, in.Queue, in.Name, guard)
}

type triggerScheduleInput struct {
	SchedulePath
	Key string `header:"Idempotency-Key" doc:"1 to 255 printable ASCII characters, kept for 24 hours"`
}

type triggerScheduleOutput struct {
	Status   int
	Location string `header:"Location" doc:"Path of the submission"`
	Replayed string `header:"Idempotency-Replayed" doc:"true: inserted before by a request with the same Idempotency-Key"`
	Body     api.Submission
}

func (s *Server) triggerSchedule(ctx context.Context, in *triggerScheduleInput) (*triggerScheduleOutput, error) {
	if err := validKey(in.Key); err != nil {
		return nil, err
	}
	made, replayed, err := s.engine.TriggerSchedule(ctx, in.Queue, in.Name, in.Key)
	if err != nil {
		return nil, err
	}
	out := &triggerScheduleOutput{Status: http.StatusCreated, Location: "/v1/submissions/" + made.ID.String(), Body: apiSubmission(&made)}
	if replayed {
		out.Status, out.Replayed = http.StatusOK, "true"
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
	Reason string `query:"reason" maxLength:"500" doc:"Why, for those who look at it later"`
}

func (s *Server) pauseSchedule(ctx context.Context, in *pauseScheduleInput) (*scheduleOutput, error) {
	return newScheduleOutput(s.engine.SwitchSchedule(ctx, in.Queue, in.Name, false, in.Reason))
}

func (s *Server) resumeSchedule(ctx context.Context, in *SchedulePath) (*scheduleOutput, error) {
	return newScheduleOutput(s.engine.SwitchSchedule(ctx, in.Queue, in.Name, true, ""))
}

type backfillScheduleInput struct {
	SchedulePath
	Key  string `header:"Idempotency-Key" doc:"1 to 255 printable ASCII characters, kept for 24 hours"`
	Body decoded[api.BackfillRequest]
}

type backfillScheduleOutput struct{ Body api.Backfilled }

func (s *Server) backfillSchedule(ctx context.Context, in *backfillScheduleInput) (*backfillScheduleOutput, error) {
	if in.Body.failed != nil {
		return nil, s.wireProblem(in.Body.failed, in.Body.body, contentJSON)
	}
	if err := validKey(in.Key); err != nil {
		return nil, err
	}
	asked := &in.Body.value
	limit := int(asked.Limit)
	if limit == 0 {
		limit = queue.DefaultBackfill
	}
	made, err := s.engine.BackfillSchedule(ctx, in.Queue, in.Name, engine.BackfillRequest{
		From: queue.At(asked.From.Time), To: queue.At(asked.To.Time), Limit: limit, Key: in.Key, DryRun: asked.DryRun,
	})
	if err != nil {
		return nil, err
	}
	out := &backfillScheduleOutput{Body: api.Backfilled{Submissions: []string{}, Ticks: made.Ticks, FirstAt: apiTime(made.First)}}
	for _, id := range made.IDs {
		out.Body.Submissions = append(out.Body.Submissions, id.String())
	}
	return out, nil
}

type previewScheduleInput struct {
	QueuePath
	Body decoded[api.SchedulePreviewRequest]
}

type previewScheduleOutput struct{ Body api.SchedulePreview }

const defaultTicks = 5

func (s *Server) previewSchedule(_ context.Context, in *previewScheduleInput) (*previewScheduleOutput, error) {
	if in.Body.failed != nil {
		return nil, s.wireProblem(in.Body.failed, in.Body.body, contentJSON)
	}
	asked := &in.Body.value
	n := int(asked.N)
	if n == 0 {
		n = defaultTicks
	}
	var def queue.Schedule
	if err := readFields(queue.ScheduleFields(), asked, &def); err != nil {
		return nil, err
	}
	return s.ticksOf(in.Queue, def, queue.At(asked.After.Time), n)
}

type listTicksInput struct {
	SchedulePath
	N int `query:"n" minimum:"1" maximum:"100" default:"5" doc:"How many"`
}

func (s *Server) listTicks(_ context.Context, in *listTicksInput) (*previewScheduleOutput, error) {
	info, err := s.engine.Schedule(in.Queue, in.Name)
	if err != nil {
		return nil, err
	}
	return s.ticksOf(in.Queue, info.Schedule, 0, in.N)
}

func (s *Server) ticksOf(queueName string, def queue.Schedule, after queue.Time, n int) (*previewScheduleOutput, error) {
	preview, err := s.engine.PreviewSchedule(queueName, def, after, n)
	if err != nil {
		return nil, err
	}
	out := &previewScheduleOutput{Body: api.SchedulePreview{Description: preview.Words, TZ: preview.Zone.String(),
		Ticks: []api.ScheduleTick{}}}
	for _, tick := range preview.Ticks {
		local := tick.Std().In(preview.Zone).Format("Monday 2 January 2006 15:04:05 -07:00")
		out.Body.Ticks = append(out.Body.Ticks, api.ScheduleTick{At: apiTime(tick), Local: local})
	}
	return out, nil
}

func apiSchedule(in *queue.ScheduleInfo) api.Schedule {
	out := api.Schedule{
		Name: in.Name, Description: in.Words, State: in.State.String(), Reason: in.Reason, NextAt: apiTime(in.Next),
		LastAt:    apiTime(in.Last),
		WaitingAt: apiTime(in.Waiting), Emitted: in.Emitted, SkippedMissed: in.Missed, SkippedLate: in.Late, SkippedOverlap: in.Overlapped,
		Version: in.Version, ETag: scheduleETag(in), CreatedAt: apiTime(in.Created), ChangedAt: apiTime(in.Changed),
		Definition: apiDefinition(in),
	}
	if in.LastID != 0 {
		out.LastSubmission = in.LastID.String()
	}
	out.Recent = make([]api.Emission, len(in.Recent))
	for i, e := range in.Recent {
		out.Recent[i] = api.Emission{At: apiTime(e.Tick), Submission: e.ID.String(), State: e.State.String()}
	}
	return out
}

func apiDefinition(in *queue.ScheduleInfo) api.ScheduleDefinition {
	t := &in.Schedule.Template
	out := api.ScheduleDefinition{Template: api.ScheduleTemplate{
		Meta: apiMeta(t.Meta), Attachment: t.Attachment,
		Chunks: api.Chunks{Count: t.Chunks.Count, Prefix: t.Chunks.Prefix, Template: t.Chunks.Template},
	}}
	showFields(queue.ScheduleFields(), &in.Schedule, &out)
	showFields(queue.SubmissionFields(), t, &out.Template)
	if len(t.Chunks.Inline) > 0 {
		out.Template.Chunks.Count = 0
		for _, b := range t.Chunks.Inline {
			out.Template.Chunks.Inline = append(out.Template.Chunks.Inline, append(api.Bytes{}, b...))
		}
	}
	if out.TZ == "" {
		out.TZ = "UTC"
	}
	return out
}

// scheduleOf turns a definition into the engine's words, with the defaults. Whether it makes sense is the engine's to say.
func scheduleOf(in *api.ScheduleDefinition) (out queue.Schedule, err error) {
	out = queue.DefaultSchedule()
	if err := readFields(queue.ScheduleFields(), in, &out); err != nil {
		return out, err
	}
	if out.Zone == "UTC" {
		out.Zone = ""
	}
	out.Template, err = templateOf(&in.Template)
	return out, prefixed(err, "/template")
}

func templateOf(in *api.ScheduleTemplate) (queue.NewSubmission, error) {
	out := queue.NewSubmission{
		Attachment: in.Attachment, Chunks: queue.Chunks{Count: in.Chunks.Count, Prefix: in.Chunks.Prefix, Template: in.Chunks.Template},
	}
	if err := readFields(queue.SubmissionFields(), in, &out); err != nil {
		return out, err
	}
	for key, value := range in.Meta {
		entry := queue.MetaEntry{Key: key, Value: queue.StringValue(value.Text())}
		if value.IsInt() {
			entry.Value = queue.IntValue(value.Int())
		}
		out.Meta = append(out.Meta, entry)
	}
	forms := 0
	for _, given := range []bool{in.Chunks.Prefix != "", in.Chunks.Template != "", len(in.Chunks.Inline) > 0} {
		if given {
			forms++
		}
	}
	switch {
	case forms != 1:
		return out, queue.Invalid("/chunks", `must have exactly one of "prefix" (with "count"), "template" (with "count") and "inline"`)
	case len(in.Chunks.Inline) > 0 && in.Chunks.Count != 0:
		return out, queue.Invalid("/chunks/count", `must be left out beside "inline", whose entries are counted`)
	}
	for _, b := range in.Chunks.Inline {
		out.Chunks.Inline = append(out.Chunks.Inline, b)
	}
	return out, nil
}

// scheduleETag is the ETag of a version. The digest keeps apart a version and the one of the same number after the name was deleted
// and created again with another definition.
func scheduleETag(in *queue.ScheduleInfo) string {
	def, err := json.Marshal(apiDefinition(in))
	if err != nil {
		def = []byte(err.Error()) // cannot be: all of it came in as JSON
	}
	digest := sha256.Sum256(def)
	return `"` + strconv.FormatUint(uint64(in.Version), 10) + "-" + hex.EncodeToString(digest[:8]) + `"`
}

// scheduleGuard turns the conditions of a request into what the engine asks. There is none without conditions.
func (s *Server) scheduleGuard(c *Conditions) (engine.ScheduleGuard, error) {
	if c.IfNoneMatch != "" && strings.TrimSpace(c.IfNoneMatch) != "*" {
		return nil, queue.Invalid("/header/If-None-Match",
			"must be *, which makes only a new name; to replace a known version send its ETag in If-Match")
	}
	if c.IfMatch == "" && c.IfNoneMatch == "" {
		return nil, nil
	}
	return func(now *queue.ScheduleInfo, exists bool) error {
		switch {
		case exists && c.IfNoneMatch != "":
			return s.newProblem(codePrecondition, "There is a schedule of this name already, in version "+
				strconv.FormatUint(uint64(now.Version), 10)+".")
		case !exists && c.IfMatch != "":
			return s.newProblem(codePrecondition, "There is no schedule of this name, so none that If-Match could name.")
		case exists && !matchesETag(c.IfMatch, scheduleETag(now)):
			return s.newProblem(codePrecondition, "The schedule is in version "+
				strconv.FormatUint(uint64(now.Version), 10)+
				", which is not one that If-Match names. Read it again, then retry with its new ETag.")
		}
		return nil
	}, nil
}
