package web

import (
	"maps"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

func scheduleNotes() map[string]note {
	out := map[string]note{
		"ScheduleDefinition.template": {text: "What each tick inserts: at most 64 KiB of attachment, template and inline bytes"},

		"ScheduleTemplate.meta": {text: "What strategies see"},
		"ScheduleTemplate.chunks": {text: "The work, in exactly one of three forms; in prefix and " +
			"template {scheduled_at} is replaced by the tick's time (RFC 3339, UTC)"},
		"ScheduleTemplate.attachment": {text: "Goes out with every reservation"},

		"Schedule.name":        {text: "Its name in the queue"},
		"Schedule.definition":  {text: "What PUT takes, with the defaults filled in"},
		"Schedule.description": {text: "When it is due, in plain words"},
		"Schedule.state": oneOf("held: due, but a rule keeps it from inserting; finished: no tick is left; "+
			"broken: this server cannot read its spec or time zone", "active", "paused", "held", "finished", "broken"),
		"Schedule.reason": {text: "Why it is paused or broken"},
		"Schedule.next_at": {text: "The next tick, jitter not counted; absent while it is paused. It may be past " +
			"while nothing is emitted"},
		"Schedule.last_at":         {text: "The last tick that was emitted"},
		"Schedule.last_submission": {text: "What it inserted"},
		"Schedule.waiting_at": {text: "A tick that is still to be emitted, apart from next_at: of " +
			"run_on_create, or kept by buffer_one"},
		"Schedule.emitted":         {text: "Ticks emitted since it was made; triggers and backfills are not counted"},
		"Schedule.skipped_missed":  {text: "Ticks dropped by missed skip or once"},
		"Schedule.skipped_late":    {text: "Ticks dropped by missed all: beyond its limit or window"},
		"Schedule.skipped_overlap": {text: "Ticks dropped because the submission before was open"},
		"Schedule.version":         {text: "From 1; each change of the definition, a pause and a resume too, makes the next"},
		"Schedule.etag":            {text: "As in the header ETag, quotes included"},
		"Schedule.created_at":      {text: "When it was made"},
		"Schedule.changed_at":      {text: "When it was last defined, paused or resumed"},
		"PageSchedule.items":       {text: "The schedules, by name"},
		"PageSchedule.next":        {text: "Cursor of the next page; absent on the last"},

		"SchedulePreviewRequest.after": {text: "Ticks after this; default now"},
		"SchedulePreviewRequest.n":     between(1, queue.MaxPreview, "How many; default 5"),
		"SchedulePreview.description":  {text: "When it is due, in plain words"},
		"SchedulePreview.tz":           {text: "The time zone"},
		"SchedulePreview.ticks":        {text: "The next ticks"},
		"ScheduleTick.at":              {text: "When"},
		"ScheduleTick.local":           {text: "The same on the clocks of the time zone"},
	}
	maps.Copy(out, emissionNotes())
	noteFields(out, queue.ScheduleFields(), new(api.ScheduleDefinition), true)
	noteFields(out, queue.ScheduleFields(), new(api.SchedulePreviewRequest), true)
	noteFields(out, queue.SubmissionFields(), new(api.ScheduleTemplate), true)
	return out
}

// emissionNotes are about what schedules inserted, and what a backfill inserts.
func emissionNotes() map[string]note {
	return map[string]note{
		"BackfillRequest.from":    {text: "Ticks from this time"},
		"BackfillRequest.to":      {text: "Ticks up to this time, which must be in the past"},
		"BackfillRequest.limit":   between(1, queue.MaxBackfill, "More ticks than this are refused; default 100"),
		"BackfillRequest.dry_run": {text: "Only count the ticks, however many they are; nothing is inserted"},
		"Backfilled.submissions":  {text: "Their ids, by the time of their ticks; none of a dry run"},
		"Backfilled.ticks":        {text: "Ticks that lie in the time that was asked for"},
		"Backfilled.first_at":     {text: "Of a dry run, the first of them"},
		"Schedule.recent": {text: "The last submissions that it inserted, by ticks, triggers and backfills, " +
			"the oldest first; as far as they are known since the server's start", items: 24},
		"Emission.at":         {text: "The tick that it is for"},
		"Emission.submission": {text: "Its id"},
		"Emission.state":      oneOf("How it stands", "open", "completed", "completed_with_dead", "failed", "cancelled", "expired"),
	}
}
