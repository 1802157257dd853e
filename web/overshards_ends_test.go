//quern:overlapping
package web

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// joinedEnds follows the ends of "orders" from an id on until there are n of them, and returns them with the last id.
func (s *scene) joinedEnds(from string, n int) (ended []string, last string) {
	s.Helper()
	ctx, done := context.WithTimeout(s.Context(), 20*time.Second)
	defer done()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+queuePath("orders", "/ends?after="+url.QueryEscape(from)), nil)
	if err != nil {
		s.Fatal(err)
	}
	answer, err := s.client.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		s.Fatalf("the stream: %s", answer.Status)
	}
	last = from
	lines, event, id := bufio.NewScanner(answer.Body), "", ""
	lines.Buffer(nil, maxEventBytes)
	for lines.Scan() {
		switch text := lines.Text(); {
		case strings.HasPrefix(text, "id: "):
			id = text[4:]
		case strings.HasPrefix(text, "event: "):
			event = text[7:]
		case strings.HasPrefix(text, "data: ") && event == api.EventEnd:
			var one api.Submission
			if err := json.Unmarshal([]byte(text[6:]), &one); err != nil {
				s.Fatal(err)
			}
			ended = append(ended, one.ID)
		case text == "":
			if id != "" {
				last = id
			}
			if event = ""; len(ended) == n {
				return ended, last
			}
		}
	}
	s.Fatalf("the stream ended after %d of %d ends: %v", len(ended), n, lines.Err())
	return nil, ""
}

// A client that follows the ends of a queue of several shards, and returns with its last id, gets each end once.
func TestShardsEndsEachOnce(t *testing.T) {
	t.Parallel()
	s := newOrders(t, api.QueueSettingsInput{})
	made := s.spread(16, 1)
	for i := range 12 {
		s.cancel(made[i].ID)
	}
	seen := map[string]int{}
	from := "0"
	for _, n := range []int{1, 4, 2, 5} {
		var ended []string
		ended, from = s.joinedEnds(from, n)
		for _, id := range ended {
			seen[id]++
		}
	}
	for i := 12; i < 16; i++ {
		s.cancel(made[i].ID)
	}
	s.killed(time.Second)
	ended, _ := s.joinedEnds(from, 4)
	for _, id := range ended {
		seen[id]++
	}
	for i := range made {
		if seen[made[i].ID] != 1 {
			t.Errorf("the end of submission %d came %d times", i, seen[made[i].ID])
		}
	}
	for _, after := range []string{"x", "W10", "1234-56"} {
		s.refused("GET", queuePath("orders", "/ends?after="+after), nil, http.StatusUnprocessableEntity)
	}
	s.setAside()
	s.refused("GET", queuePath("orders", "/ends?after=0"), nil, http.StatusServiceUnavailable)
}

// An id from the time in which the queue had fewer shards goes on in these, and begins at the first end of the others.
func TestEndsOfMoreShards(t *testing.T) {
	t.Parallel()
	for from, want := range map[string]string{
		"": "  ", "now": "now now now", "0": "0 0 0", "1-1-5-3": "1-1-5-3 0 0", "1-1-5-3.0-2-1-7": "1-1-5-3 0-2-1-7 0", "a.b.c": "a b c",
	} {
		if ids, err := endsAt("/query/after", from, 3); err != nil || strings.Join(ids, " ") != want {
			t.Errorf("%q means %q (%v), want %q", from, ids, err, want)
		}
	}
	if ids, err := endsAt("/query/after", "a.b.c.d", 3); err == nil {
		t.Errorf("an id of four shards means %q in three", ids)
	}
}
