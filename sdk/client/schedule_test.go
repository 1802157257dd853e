package client_test

import (
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// Everything that can be done with a schedule, on a real server.
func TestSchedulesOnServer(t *testing.T) {
	t.Parallel()
	ctx, c := t.Context(), connect(t, serve(t))
	d := &api.ScheduleDefinition{
		Spec: "30 2 * * MON", TZ: "Europe/Amsterdam", Start: api.At(time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)),
		Template: api.ScheduleTemplate{Meta: api.Meta{"company": api.Int(7)}, Chunks: api.Chunks{Inline: []api.Bytes{[]byte("a"), {0xff}}}},
	}
	made, err := c.PutSchedule(ctx, "default", "nightly", d, client.Condition{Absent: true})
	if err != nil || made.Description != "at 02:30 every Monday, Europe/Amsterdam" || made.Version != 1 {
		t.Fatalf("got %+v, %v; want version 1 in plain words", made, err)
	}
	if _, err := c.PutSchedule(ctx, "default", "nightly", d, client.Condition{Absent: true}); client.CodeOf(err) != api.CodePrecondition {
		t.Errorf("made twice: got %v, want %s", err, api.CodePrecondition)
	}
	again, err := c.PutSchedule(ctx, "default", "nightly", &made.Definition, client.Condition{ETag: made.ETag})
	if err != nil || again.Version != 1 || again.ETag != made.ETag {
		t.Errorf("put back as it was answered: got %+v, %v; want no new version", again, err)
	}
	if paused, err := c.PauseSchedule(ctx, "default", "nightly", "why & what for"); err != nil || paused.State != api.SchedulePaused || paused.Reason != "why & what for" {
		t.Errorf("paused: got %+v, %v", paused, err)
	}
	if resumed, err := c.ResumeSchedule(ctx, "default", "nightly"); err != nil || resumed.State != api.ScheduleActive {
		t.Errorf("resumed: got %+v, %v", resumed, err)
	}
	first, err := c.TriggerSchedule(ctx, "default", "nightly", "key")
	if err != nil || first.Schedule != "nightly" || first.Chunks != 2 || first.ScheduledAt.IsZero() {
		t.Fatalf("triggered: got %+v, %v", first, err)
	}
	if second, err := c.TriggerSchedule(ctx, "default", "nightly", "key"); err != nil || second.ID != first.ID {
		t.Errorf("triggered again with the key: got %+v, %v; want %s", second, err, first.ID)
	}
	span := &api.BackfillRequest{From: api.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), To: api.At(time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC))}
	filled, err := c.BackfillSchedule(ctx, "default", "nightly", span, "key")
	if err != nil || len(filled.Submissions) != 4 {
		t.Fatalf("backfilled: got %+v, %v; want the four Mondays of January 2026", filled, err)
	}
	twice, err := c.BackfillSchedule(ctx, "default", "nightly", span, "key")
	if err != nil || len(twice.Submissions) != 4 || twice.Submissions[3] != filled.Submissions[3] {
		t.Errorf("backfilled again with the key: got %+v, %v; want %+v", twice, err, filled)
	}
	if got, err := c.Get(ctx, filled.Submissions[0]); err != nil || !got.ScheduledAt.Equal(time.Date(2026, 1, 5, 1, 30, 0, 0, time.UTC)) {
		t.Errorf("the first of them: got %+v, %v; want that of Monday 5 January, 02:30", got, err)
	}
	if ticks, err := c.ScheduleTicks(ctx, "default", "nightly", 2); err != nil || len(ticks.Ticks) != 2 || ticks.Ticks[0].Local != "Monday 5 January 2099 02:30:00 +01:00" {
		t.Errorf("ticks: got %+v, %v", ticks, err)
	}
	if p, err := c.PreviewSchedule(ctx, "default", &api.SchedulePreviewRequest{Spec: "@hourly"}); err != nil || len(p.Ticks) != 5 {
		t.Errorf("preview: got %+v, %v; want five ticks", p, err)
	}
	n := 0
	for s, err := range c.Schedules(ctx, "default") {
		if n++; err != nil || s.Name != "nightly" {
			t.Errorf("listed: got %+v, %v", s, err)
		}
	}
	now, err := c.Schedule(ctx, "default", "nightly")
	if err != nil || n != 1 || now.Emitted != 0 {
		t.Errorf("%d are listed; it is %+v, %v; want one that emitted no tick", n, now, err)
	}
	if err := c.DeleteSchedule(ctx, "default", "nightly", client.Condition{ETag: now.ETag}); err != nil {
		t.Error(err)
	}
	if _, err := c.Schedule(ctx, "default", "nightly"); client.CodeOf(err) != api.CodeUnknownSchedule {
		t.Errorf("after its deletion: got %v, want %s", err, api.CodeUnknownSchedule)
	}
}
