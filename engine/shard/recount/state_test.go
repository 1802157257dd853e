package recount

import (
	"encoding/json"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// Drifts appear in the answer under the names of their counters.
func TestDriftsInAnswers(t *testing.T) {
	t.Parallel()
	of := func(scope, name string) Counter {
		for c := range Counters {
			if c.Scope().String() == scope && c.String() == name {
				return c
			}
		}
		t.Fatalf("there is no counter %s of a %s", name, scope)
		return 0
	}
	value := of("value", "in_flight")
	r := State{Every: 60_000, Rounds: 2, Progress: 0.5, Newest: &Drift{
		Counter: value, Entry: queue.MetaEntry{Key: "company", Value: queue.IntValue(7)}, Kept: 5, Found: 4, Corrected: true, At: 1_700_000_000_000,
	}}
	r.Drifts[value], r.Drifts[of("queue", "dead")], r.Skipped[0], r.Skipped[1], r.Checked[OfValue] = 2, 1, 3, 4, 9
	got, err := json.Marshal(r.API())
	want := `{"every_ms":60000,"rounds_total":2,"progress":0.5,"submissions_checked_total":0,"values_checked_total":9,"queue_counters_checked_total":0,` +
		`"skipped_total":7,"suspected_total":0,"drifts_total":3,"drifts_by_counter":[{"scope":"value","counter":"in_flight","drifts_total":2},{"scope":"queue","counter":"dead","drifts_total":1}],` +
		`"newest_drift":{"scope":"value","counter":"in_flight","meta_key":"company","value":7,"kept":5,"recounted":4,"corrected":true,"at":"2023-11-14T22:13:20.000Z"},"stopped":false}`
	if err != nil || string(got) != want {
		t.Errorf("%v\n got %s\nwant %s", err, got, want)
	}
}
