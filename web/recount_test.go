package web

import (
	"testing"
	"time"
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
