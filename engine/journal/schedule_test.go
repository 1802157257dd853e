package journal

import (
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quern-queue/quern/engine/queue"
)

func anyCounts(t *rapid.T) queue.ScheduleCounts {
	return queue.ScheduleCounts{Emitted: anyUint64(t, "emitted"), Missed: anyUint64(t, "missed"), Late: anyUint64(t, "late"), Overlapped: anyUint64(t, "overlapped")}
}

// anySchedule has the fields of its change, and no others.
func anySchedule(t *rapid.T) *Schedule {
	s := &Schedule{Change: ScheduleChange(rapid.IntRange(0, int(endOfScheduleChanges)-1).Draw(t, "change")), Name: anyText(t, "name")}
	if s.Change == SchedulePut || s.Change == ScheduleSwitch {
		s.Version, s.Enabled, s.Reason = anyUint32(t, "version"), rapid.Bool().Draw(t, "enabled"), anyText(t, "reason")
	}
	if s.Change == SchedulePut || s.Change == ScheduleTick {
		s.Next, s.Waiting = anyTime(t, "next"), anyTime(t, "waiting")
	}
	if s.Change == SchedulePut {
		s.Definition = anyText(t, "definition")
	}
	if s.Change == ScheduleTick {
		s.Last, s.LastID, s.Counts = anyTime(t, "last"), queue.SubmissionID(anyUint64(t, "last id")), anyCounts(t)
	}
	return s
}

// The row of a schedule comes back as it went in, and nothing may be left over or missing.
func TestScheduleRow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := &ScheduleRow{
			Position: Position(anyUint64(t, "position")), Created: anyTime(t, "created"), Changed: anyTime(t, "changed"),
			Schedule: Schedule{
				Name: anyText(t, "name"), Version: anyUint32(t, "version"), Definition: anyText(t, "definition"), Enabled: rapid.Bool().Draw(t, "enabled"),
				Reason: anyText(t, "reason"), Next: anyTime(t, "next"), Waiting: anyTime(t, "waiting"), Last: anyTime(t, "last"),
				LastID: queue.SubmissionID(anyUint64(t, "last id")), Counts: anyCounts(t),
			},
		}
		row := AppendScheduleRow(nil, want)
		got, err := DecodeScheduleRow(row)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("DecodeScheduleRow(%x) = %+v, %v\nwant %+v", row, got, err, want)
		}
		if got, err := DecodeScheduleRow(append(row, 0)); err == nil {
			t.Fatalf("a row with a byte too many is read: %+v", got)
		}
		cut := rapid.IntRange(0, len(row)-1).Draw(t, "cut")
		if got, err := DecodeScheduleRow(row[:cut]); err == nil {
			t.Fatalf("%d of %d bytes of a row are read: %+v", cut, len(row), got)
		}
	})
}

// A definition comes back as it went in.
func TestDefinition(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ms := func(name string) time.Duration {
			return time.Duration(rapid.Int64Range(0, 1<<40).Draw(t, name)) * time.Millisecond
		}
		want := &queue.Schedule{
			Spec: rapid.String().Draw(t, "spec"), Seconds: rapid.Bool().Draw(t, "seconds"), Zone: rapid.String().Draw(t, "zone"), Anchor: anyTime(t, "anchor"),
			DeadAfter: ms("dead after"), Missed: queue.Missed(rapid.IntRange(0, 2).Draw(t, "missed")), CatchUp: anyUint32(t, "catch up"), CatchUpWindow: ms("window"),
			Overlap: queue.Overlap(rapid.IntRange(0, 2).Draw(t, "overlap")), Jitter: ms("jitter"), Start: anyTime(t, "start"), End: anyTime(t, "end"),
			PauseOnFailure: rapid.Bool().Draw(t, "pause"), RunOnCreate: rapid.Bool().Draw(t, "run"),
			Template: queue.NewSubmission{
				Group: rapid.String().Draw(t, "group"), Priority: rapid.Int64().Draw(t, "priority"), OperationsPerChunk: anyUint32(t, "operations"),
				Chunks:      queue.Chunks{Count: anyUint32(t, "count"), Prefix: rapid.String().Draw(t, "prefix"), Template: rapid.String().Draw(t, "template")},
				MaxAttempts: rapid.Uint16().Draw(t, "attempts"), OnExhausted: queue.OnExhausted(rapid.IntRange(0, 3).Draw(t, "on exhausted")), MaxFailedChunks: anyUint32(t, "max failed"),
				AttemptTimeout: ms("timeout"),
			},
		}
		if meta := anyMeta(t); len(meta) > 0 {
			want.Template.Meta = meta
		}
		if rapid.Bool().Draw(t, "bytes") {
			want.Template.Attachment = rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "attachment")
			want.Template.Chunks.Inline = [][]byte{{}, {0, 255}}
		}
		text, err := EncodeDefinition(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeDefinition(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("DecodeDefinition(%s) = %+v, %v\nwant %+v", text, got, err, want)
		}
	})
	for _, text := range []string{"", "{}", `{"missed":"never","overlap":"allow"}`, `{"missed":"once","overlap":"allow","submission":{"on_exhausted":4}}`} {
		if got, err := DecodeDefinition(text); err == nil {
			t.Errorf("DecodeDefinition(%s) = %+v; want an error", text, got)
		}
	}
}

// The definition in the journal keeps every field of a schedule that is declared, but whether it is enabled: that is beside it.
func TestDefinitionKeepsEveryField(t *testing.T) {
	t.Parallel()
	var all queue.Schedule
	for _, d := range queue.ScheduleFields() {
		switch v := reflect.ValueOf(d.Pointer(&all)).Elem(); v.Kind() {
		case reflect.String:
			v.SetString("text")
		case reflect.Bool:
			v.SetBool(d.Name != "enabled")
		case reflect.Int64:
			v.SetInt(int64(time.Second))
		default:
			v.SetUint(1)
		}
	}
	text, err := EncodeDefinition(&all)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeDefinition(text)
	if err != nil || !reflect.DeepEqual(got, &all) {
		t.Errorf("got %+v, %v, want %+v; is there a field without its place in definition?", got, err, all)
	}
}
