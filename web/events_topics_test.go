//quern:overlapping
package web

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
)

// A subscriber to the topic consumers hears each second how much each consumer holds, those with most first. Other
// subscribers do not.
func TestEventsTellOfConsumers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.subscribe("?topics=stats,consumers", "")
	f.insert(`{"chunks":{"count":500,"prefix":"x"}}`)
	for i := range 120 {
		f.reserve(fmt.Sprintf(`{"max":%d,"consumer":"c%03d"}`, 1+i/40, i))
	}
	got, e := until(s, api.EventConsumers, func(f api.ConsumersFrame) bool { return f.Consumers == 120 })
	if !got.Whole || got.Left != 20 || len(got.Top) != 100 || got.Top[0].Consumer != "c080" || got.Top[0].Reserved != 3 || got.Top[99].Reserved != 1 || got.Queue != "default" {
		t.Errorf("got %+v, want the 100 of 120 that hold most, c080 first", got)
	}
	other := f.subscribe("?topics=stats,keys&topics=consumers", "")
	for _, same := until(other, api.EventConsumers, func(api.ConsumersFrame) bool { return true }); e.data != same.data; {
		if e.name == same.name && e.id == same.id {
			t.Fatalf("two subscribers got different bytes for one frame:\n%s\n%s", e.data, same.data)
		}
		e = s.next()
	}
	plain := f.subscribe("", "")
	for range 6 {
		if e := plain.next(); e.name == api.EventConsumers || e.name == api.EventSchedules {
			t.Errorf("one who named no topic got %s", e.name)
		}
	}
}

// The topic schedules sends an event only when something changed: between changes, the subscriber has the same bytes
// already.
func TestEventsTellOfSchedulesWhenTheyChange(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.subscribe("?topics=stats,schedules", "")
	first, _ := until(s, api.EventSchedules, func(api.SchedulesFrame) bool { return true })
	if len(first.Items) != 0 || first.Left != 0 {
		t.Errorf("without schedules got %+v", first)
	}
	const template = `"template":{"chunks":{"count":1,"prefix":"x"}}`
	f.do("PUT", "/v1/queues/default/schedules/late", `{"spec":"@at 2099-01-01T00:00:00Z",`+template+`}`, 201, nil)
	f.do("PUT", "/v1/queues/default/schedules/soon", `{"spec":"@at 2098-01-01T00:00:00Z",`+template+`}`, 201, nil)
	seen := 0
	two, _ := until(s, api.EventSchedules, func(f api.SchedulesFrame) bool { seen++; return len(f.Items) == 2 })
	if two.Items[0].Name != "soon" || two.Items[0].State != api.ScheduleActive || two.Items[0].Newest != "" {
		t.Errorf("got %+v, want the one that is due next first", two.Items)
	}
	for frames := 0; frames < 3; { // of stats: as many seconds
		switch e := s.next(); e.name {
		case api.EventStats:
			frames++
		case api.EventSchedules:
			t.Errorf("nothing changed, and it says %s", e.data)
		}
	}
	var made api.Submission
	f.do("POST", "/v1/queues/default/schedules/late/trigger", "", 201, &made)
	after, _ := until(s, api.EventSchedules, func(f api.SchedulesFrame) bool { return true })
	if late := after.Items[1]; late.Newest != made.ID || late.NewestState != "open" || late.Open != 1 {
		t.Errorf("after a trigger got %+v, want its submission, open", late)
	}
	f.do("POST", "/v1/submissions/"+made.ID+"/cancel", "", 200, nil)
	after, e := until(s, api.EventSchedules, func(f api.SchedulesFrame) bool { return true })
	if late := after.Items[1]; late.NewestState != "cancelled" || late.Open != 0 || strings.Contains(e.data, `"template"`) {
		t.Errorf("after it was cancelled got %s, want that, and no definition", e.data)
	}
}
