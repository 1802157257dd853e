package web

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// Each call responds to a token as the table of docs/GUARANTEES.md says.
func TestWhatATokenIsWorth(t *testing.T) {
	t.Parallel()
	minute := &api.Backoff{BaseMS: 60_000, Factor: 1, CapMS: 60_000}
	slow, retryLater := api.QueueSettingsInput{ExpiryBackoff: minute}, api.QueueSettingsInput{RetryBackoff: minute}
	rows := []struct {
		begins   string
		settings api.QueueSettingsInput
		bring    func(s *scene, queue string, of api.Submission, held *api.Reservation)
	}{
		{"holds the chunk", atOnce(), func(*scene, string, api.Submission, *api.Reservation) {}},
		{"is genuine, no one holds the chunk, and the chunk is ready", atOnce(), func(s *scene, queue string, _ api.Submission, _ *api.Reservation) {
			s.advance(time.Hour)
			s.wantCounts(queue, "ready 1")
		}},
		{"last held a chunk that now waits", slow, func(s *scene, queue string, _ api.Submission, _ *api.Reservation) {
			s.advance(time.Hour)
			s.wantCounts(queue, "waiting 1")
		}},
		{"has failed the chunk", retryLater, func(s *scene, queue string, _ api.Submission, held *api.Reservation) {
			s.wantStatuses(s.failing(queue, "no", false, *held), 1, api.StatusOK)
			s.wantCounts(queue, "waiting 1")
		}},
		{"has completed the chunk", atOnce(), func(s *scene, queue string, _ api.Submission, held *api.Reservation) {
			s.wantStatuses(s.completing(queue, *held), 1, api.StatusOK)
		}},
		{"another token holds", atOnce(), func(s *scene, queue string, _ api.Submission, _ *api.Reservation) {
			s.advance(time.Hour)
			s.wantOne(queue, 2)
		}},
		{"the submission failed or was cancelled", atOnce(), func(s *scene, _ string, of api.Submission, _ *api.Reservation) { s.cancel(of.ID) }},
		{"is forged", atOnce(), func(_ *scene, _ string, _ api.Submission, held *api.Reservation) {
			middle := "A"
			if held.Token[20:21] == middle {
				middle = "B"
			}
			held.Token = held.Token[:20] + middle + held.Token[21:]
		}},
	}
	verbs := []func(s *scene, queue string, held api.Reservation) []string{
		func(s *scene, queue string, held api.Reservation) []string { return s.completing(queue, held) },
		func(s *scene, queue string, held api.Reservation) []string {
			return s.failing(queue, "no", false, held)
		},
		func(s *scene, queue string, held api.Reservation) []string {
			return s.extending(queue, time.Minute, held)
		},
		func(s *scene, queue string, held api.Reservation) []string { return s.releasing(queue, held) },
	}
	s := newScene(t)
	for n, row := range rows {
		wanted := answersTo(t, row.begins)
		for verb, act := range verbs {
			name := fmt.Sprintf("q%d-%d", n, verb)
			s.queue(name, row.settings)
			made := s.insert(name, submission(1))
			held := s.wantOne(name, 1)
			row.bring(s, name, made, &held)
			if got := act(s, name, held); len(got) != 1 || got[0] != wanted[verb] {
				t.Errorf("a token that %s, verb %d: got %v, want %s", row.begins, verb, got, wanted[verb])
			}
		}
	}
}

// answersTo are the answers to the four verbs in the row of the table that begins so.
func answersTo(t *testing.T, begins string) (answers []string) {
	t.Helper()
	text, err := os.ReadFile("../docs/GUARANTEES.md")
	if err != nil {
		t.Fatal(err)
	}
	_, row, _ := strings.Cut(string(text), "\n| "+begins)
	row, _, _ = strings.Cut(row, "\n")
	for _, cell := range strings.Split(strings.TrimSuffix(begins+row, " |"), " | ")[1:] {
		answers = append(answers, regexp.MustCompile("^`([a-z]+)`").FindStringSubmatch(cell)[1])
	}
	if len(answers) != 4 {
		t.Fatalf("the row that begins with %q has the answers %v, want 4", begins, answers)
	}
	return answers
}

// A queue changes while a client walks its list. Items that were there before and do not change are
// listed, once.
//
//quern:overlapping
func TestListUnderChange(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const n = 40
	unchanged := map[string]int{}
	var changing []string
	for i := range n {
		id := f.insert(`{"chunks":{"count":1,"prefix":"a/"}}`).ID
		if i%2 == 0 {
			unchanged[id] = 0
		} else {
			changing = append(changing, id)
		}
	}
	for cursor, page := "", 0; ; page++ {
		var got api.Page[api.Submission]
		f.do("GET", insertPath+"?limit=4&cursor="+cursor, "", 200, &got)
		for _, item := range got.Items {
			if _, is := unchanged[item.ID]; is {
				unchanged[item.ID]++
			}
		}
		f.insert(`{"chunks":{"count":1,"prefix":"new/"}}`)
		if len(changing) > 1 { // one that was listed, or will be, from either end
			f.do("POST", "/v1/submissions/"+changing[0]+"/cancel", "", 200, nil)
			f.do("POST", "/v1/submissions/"+changing[len(changing)-1]+"/cancel", "", 200, nil)
			changing = changing[1 : len(changing)-1]
		}
		if cursor = got.Next; cursor == "" {
			break
		}
		if page > 3*n {
			t.Fatal("the list has no end")
		}
	}
	for id, times := range unchanged {
		if times != 1 {
			t.Errorf("submission %s was listed %d times, want once", id, times)
		}
	}
}
