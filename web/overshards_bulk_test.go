//quern:overlapping
package web

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// A bulk operation on a queue of several shards works in all of them, and is one operation for its caller.
func TestShardsBulkInAll(t *testing.T) {
	t.Parallel()
	s := newOrders(t, api.QueueSettingsInput{})
	made := s.spread(12, 3)
	held := s.reserve("orders", request("OldestFirst", 36)).Reservations
	s.failing("orders", "no such file", true, held...)
	s.settle()
	dry := s.bulk(api.BulkRequest{Queue: "orders", Action: api.BulkRedrive, DryRun: true})
	s.wantBulk(dry, 36, 0, 0)
	got := s.bulk(api.BulkRequest{Queue: "orders", Action: api.BulkRedrive})
	s.wantBulk(got, 36, 0, 0)
	if got.Queue != "orders" || len(bulkIDs(got.ID)) != 4 || *got.Percent != 100 || *got.Examined != 36 ||
		got.FinishedAt.IsZero() {
		t.Errorf("the operation: %+v", got)
	}
	s.wantCounts("orders", "ready 36")
	s.wantBulk(s.bulk(api.BulkRequest{Queue: "orders", Action: api.BulkCancel, Filter: api.BulkFilter{Submission: made[3].ID}}), 1, 0, 0)
	s.wantCounts("orders", "ready 33")
	var list api.PageBulkOperation
	s.do("GET", "/v1/bulk-operations?queue=orders", nil, http.StatusOK, &list)
	if len(list.Items) != 9 || len(list.MissingShards) > 0 {
		t.Errorf("%d operations are listed, want 9", len(list.Items))
	}
	for i := 1; i < len(list.Items); i++ {
		if list.Items[i-1].ID <= list.Items[i].ID {
			t.Errorf("%s is listed before %s", list.Items[i-1].ID, list.Items[i].ID)
		}
	}
	slow := s.call("POST", "/v1/bulk-operations", `{"queue":"orders","action":"cancel","rate_per_second":4}`)
	var running api.BulkOperation
	slow.decode(t, &running)
	if at := slow.header.Get("Location"); slow.status != http.StatusAccepted || at != bulkPath+"/"+running.ID || running.RatePerSecond != 4 {
		t.Errorf("%d at %q", slow.status, at)
	}
	s.do("POST", bulkPath+"/"+running.ID+"/cancel", nil, http.StatusOK, &running)
	if running.State != api.BulkCancelled && running.State != api.BulkCompleted {
		t.Errorf("the cancelled operation: %+v", running)
	}
	for body, pointer := range map[string]string{`{"queue":"orders","action":"redrive","limit":5}`: "/limit",
		`{"queue":"orders","action":"redrive","filter":{"oldest":5}}`: "/filter/oldest", `{"queue":"orders","action":"x"}`: "/action"} {
		if p := s.refused("POST", bulkPath, body, http.StatusUnprocessableEntity); p.Errors[0].Pointer != pointer {
			t.Errorf("%s: %+v", body, p.Errors)
		}
	}
	s.refused("GET", bulkPath+"/b1.b2", nil, http.StatusNotFound)
}

// A stream of the events of a queue has those of all its shards, and says which it cannot follow.
func TestShardsEvents(t *testing.T) {
	t.Parallel()
	s := newOrders(t, api.QueueSettingsInput{})
	s.spread(8, 1)
	s.setAside()
	ctx, done := context.WithCancel(t.Context())
	defer done()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+"/v1/events?queue=orders&topics=stats", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("the stream: %s", answer.Status)
	}
	seen := map[string]string{}
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, maxEventBytes)
	for event := ""; len(seen) < 4 && lines.Scan(); {
		name, is := strings.CutPrefix(lines.Text(), "event: ")
		if is {
			event = name
		}
		data, is := strings.CutPrefix(lines.Text(), "data: ")
		var of struct{ Queue string }
		if is && (event == api.EventStats || event == api.EventClosed) && json.Unmarshal([]byte(data), &of) == nil {
			seen[of.Queue] = event
		}
		s.ahead.Add(int64(time.Millisecond))
	}
	if len(seen) != 4 || seen["orders~1"] != api.EventStats || seen["orders~2"] != api.EventStats || seen["orders~3"] != api.EventClosed ||
		seen["orders~4"] != api.EventStats {
		t.Errorf("the stream has %v (%v)", seen, lines.Err())
	}
}
