package web

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
)

// The life-cycle worker recounts everything about hourly, a minute after the start for the first time, and says over HTTP how far it
// has come; beside work that changes the counters all the time it finds nothing wrong.
func TestRecountIsShown(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for range 30 {
		s.insert("", submission(4))
	}
	s.advance(30 * time.Second)
	if r := s.lifecycle("").Recount; r.EveryMS != 3_600_000 || r.Rounds != 0 || r.LastRoundAt != nil || r.Submissions != 0 {
		t.Errorf("half a minute after the start: %+v, want none done yet of one each hour", r)
	}
	s.advance(40 * time.Second)
	first := s.lifecycle("").Recount
	if first.Rounds != 1 || first.Submissions != 30 || first.QueueTotals == 0 || first.LastRoundAt == nil || first.Drifts != 0 || first.Suspected != 0 {
		t.Errorf("after the first minute: %+v, want one round over 30 submissions", first)
	}
	for range 12 {
		s.reserve("", briefly("Random", 7))
		s.advance(11 * time.Minute)
	}
	if r := s.lifecycle("").Recount; r.Rounds != 3 || r.Drifts != 0 || r.Suspected != 0 || r.Newest != nil || len(r.ByCounter) != 0 || r.Stopped {
		t.Errorf("after two hours more of work: %+v, want three rounds and no drift", r)
	}
}

// What a drift looks like in the answer.
func TestDriftsInAnswers(t *testing.T) {
	t.Parallel()
	var counters []engine.Counter
	for c := engine.Counter(0); int(c) < len(engine.Recount{}.Drifts); c++ {
		counters = append(counters, c)
	}
	of := func(scope, name string) engine.Counter {
		for _, c := range counters {
			if c.Scope().String() == scope && c.String() == name {
				return c
			}
		}
		t.Fatalf("there is no counter %s of a %s", name, scope)
		return 0
	}
	value := of("value", "in_flight")
	r := engine.Recount{Every: 60_000, Rounds: 2, Progress: 0.5, Newest: &engine.Drift{
		Counter: value, Entry: queue.MetaEntry{Key: "company", Value: queue.IntValue(7)}, Kept: 5, Found: 4, Corrected: true, At: 1_700_000_000_000,
	}}
	r.Drifts[value], r.Drifts[of("queue", "dead")], r.Skipped[0], r.Skipped[1], r.Checked[engine.OfValue] = 2, 1, 3, 4, 9
	got, err := json.Marshal(apiRecount(&r))
	want := `{"every_ms":60000,"rounds_total":2,"progress":0.5,"submissions_checked_total":0,"values_checked_total":9,"queue_counters_checked_total":0,` +
		`"skipped_total":7,"suspected_total":0,"drifts_total":3,"drifts_by_counter":[{"scope":"value","counter":"in_flight","drifts_total":2},{"scope":"queue","counter":"dead","drifts_total":1}],` +
		`"newest_drift":{"scope":"value","counter":"in_flight","meta_key":"company","value":7,"kept":5,"recounted":4,"corrected":true,"at":"2023-11-14T22:13:20.000Z"},"stopped":false}`
	if err != nil || string(got) != want {
		t.Errorf("%v\n got %s\nwant %s", err, got, want)
	}
}
