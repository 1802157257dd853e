package web

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

func (s *scene) bulkNow(id string) (got api.BulkOperation) {
	s.Helper()
	s.do("GET", "/v1/bulk-operations/"+id, nil, http.StatusOK, &got)
	return got
}

// walked is the progress of an operation, in one line.
func walked(b api.BulkOperation) string {
	if b.Examined == nil || b.ToExamine == nil || b.Percent == nil {
		return b.State + ", unknown"
	}
	text := fmt.Sprintf("%s, %d of %d, %d %%", b.State, *b.Examined, *b.ToExamine, *b.Percent)
	if b.RemainingMS != 0 {
		text += ", " + (time.Duration(b.RemainingMS) * time.Millisecond).String()
	}
	return text
}

func (s *scene) wantWalked(when, id, want string) {
	s.Helper()
	if got := walked(s.bulkNow(id)); got != want {
		s.Errorf("%s: got %q, want %q", when, got, want)
	}
}

// Given a bulk operation at a rate, then it tells how many of the items that existed at its start it has walked over,
// and how long it still takes. It does not count items that come later, and does not wait for items that others take
// away. All of this is there after a restart.
func TestBulkTellsItsPartOfTheWhole(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.deadLetters(1, "")
	a, b := s.dying(10, "no such row"), s.dying(30, "no such row")
	s.advance(time.Second)
	var op api.BulkOperation
	s.do("POST", "/v1/bulk-operations", api.BulkRequest{Queue: "work", Action: api.BulkDelete, RatePerSecond: 2}, http.StatusAccepted, &op)
	if got, want := walked(op), "running, 0 of 40, 0 %"; got != want {
		t.Errorf("the answer to the start: got %q, want %q", got, want)
	}
	s.settle()
	for range 4 {
		s.advance(time.Second)
	}
	s.wantWalked("9 were taken at 2 a second", op.ID, "running, 9 of 40, 22 %, 13.778s")
	s.dying(50, "no such column")
	s.wantWalked("50 more died", op.ID, "running, 9 of 40, 22 %, 13.778s")

	for index := 20; index < 30; index++ {
		s.do("DELETE", queuePath("work", "/dead-letters/"+b.ID+"/"+fmt.Sprint(index)), nil, http.StatusNoContent, nil)
	}
	s.reopen(time.Hour)
	got := s.bulkNow(op.ID)
	if *got.Examined < 9 || *got.Examined > 12 || *got.ToExamine != 40 || got.RemainingMS == 0 {
		t.Errorf("after a restart: got %q, want it to go on from 9 of 40, and to foresee its end", walked(got))
	}
	for index := range 10 {
		s.do("DELETE", queuePath("work", "/dead-letters/"+a.ID+"/"+fmt.Sprint(index)), nil, http.StatusNoContent, nil)
	}
	last := 0
	for rounds := 0; got.State == api.BulkRunning; rounds++ {
		if rounds > 100 {
			t.Fatalf("it does not end: %s", walked(got))
		}
		s.advance(500 * time.Millisecond)
		got = s.bulkNow(op.ID)
		if *got.Examined > *got.ToExamine || *got.Percent < last || *got.Percent == 100 && got.State == api.BulkRunning {
			t.Fatalf("got %q after %d %%, want it to go forward and be at 100 %% at its end only", walked(got), last)
		}
		last = *got.Percent
	}
	if got := walked(got); got != "completed, 20 of 20, 100 %" {
		t.Errorf("at the end: got %q, want the 20 that were left to it", got)
	}
	if n := s.statsOf("work").DeadLetters; n != 50 {
		t.Errorf("got %d dead letters, want the 50 of later", n)
	}
}

// Given that items disappear during the walk, then the total falls as soon as fewer items are left than there were to
// walk over.
func TestBulkWholeFallsWithWhatGoes(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.queue("work", api.QueueSettingsInput{})
	for i := range 10 {
		s.insert("work", submission(1, "n", fmt.Sprint(i)))
		s.advance(time.Millisecond)
	}
	var op, first api.BulkOperation
	s.do("POST", "/v1/bulk-operations", api.BulkRequest{Queue: "work", Action: api.BulkCancel, RatePerSecond: 1}, http.StatusAccepted, &op)
	s.settle()
	s.wantWalked("at first", op.ID, "running, 1 of 10, 10 %, 9s")
	s.do("POST", "/v1/bulk-operations", api.BulkRequest{Queue: "work", Action: api.BulkCancel, Filter: api.BulkFilter{Meta: api.Meta{"n": api.Text("3")}}, DryRun: true}, http.StatusAccepted, &first)
	s.settle()
	s.wantWalked("one that means little walks over all", first.ID, "completed, 9 of 9, 100 %")
	s.bulk(api.BulkRequest{Queue: "work", Action: api.BulkCancel, Filter: api.BulkFilter{CreatedBefore: op.CreatedAt}})
	s.advance(time.Second)
	s.wantWalked("when nothing is left", op.ID, "completed, 1 of 1, 100 %")
}

// Given nothing to do, or one submission in the filter, then the whole is that.
func TestBulkWholeOfOneSubmissionAndOfNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.deadLetters(1, "")
	if got := walked(s.bulk(api.BulkRequest{Queue: "work", Action: api.BulkRedrive})); got != "completed, 0 of 0, 100 %" {
		t.Errorf("of nothing: got %q", got)
	}
	a := s.dying(7, "no such row")
	s.dying(9, "no such row")
	s.advance(time.Second)
	for _, test := range []struct{ action, want string }{
		{api.BulkRedrive, "completed, 7 of 7, 100 %"}, {api.BulkRetry, "completed, 0 of 0, 100 %"}, {api.BulkCancel, "completed, 0 of 0, 100 %"},
	} {
		got := s.bulk(api.BulkRequest{Queue: "work", Action: test.action, Filter: api.BulkFilter{Submission: a.ID}, DryRun: true})
		if walked(got) != test.want {
			t.Errorf("%s of %s, which has ended with 7 dead letters: got %q, want %q", test.action, a.ID, walked(got), test.want)
		}
	}
}

// A bulk operation names the operator who cancelled it, also after a restart. A later cancel changes nothing.
func TestBulkTellsWhoCancelled(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.deadLetters(1, "")
	s.dying(40, "no such row")
	s.advance(time.Second)
	var op api.BulkOperation
	s.do("POST", "/v1/bulk-operations", api.BulkRequest{Queue: "work", Action: api.BulkRedrive, RatePerSecond: 1, Actor: "ana"}, http.StatusAccepted, &op)
	s.settle()
	if p := s.refused("POST", "/v1/bulk-operations/"+op.ID+"/cancel?actor="+strings.Repeat("a", 129), nil, http.StatusUnprocessableEntity); p.Code == "" {
		t.Errorf("an actor of 129 bytes: got %+v, want a problem with a code", p)
	}
	s.do("POST", "/v1/bulk-operations/"+op.ID+"/cancel?actor=bo", nil, http.StatusOK, nil)
	s.do("POST", "/v1/bulk-operations/"+op.ID+"/cancel?actor=eve", nil, http.StatusOK, nil)
	for _, when := range []string{"at once", "after a restart"} {
		got := s.bulkNow(op.ID)
		if got.State != api.BulkCancelled || got.Actor != "ana" || got.CancelledBy != "bo" || walked(got) != "cancelled, 1 of 40, 2 %" {
			t.Errorf("%s: got %+v (%s), want it started by ana and cancelled by bo at 1 of 40", when, got, walked(got))
		}
		s.reopen(time.Minute)
	}
}
