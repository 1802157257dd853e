package api

import (
	"testing"
	"time"
)

func TestReservationKnowsTheInsert(t *testing.T) {
	t.Parallel()
	want := time.Date(2026, 11, 29, 23, 52, 39, 679_000_000, time.UTC)
	for id, want := range map[string]time.Time{"7532954715387068416": want, "": {}, "-1": {}} {
		if got := (&Reservation{Submission: id}).CreatedAt(); !got.Equal(want) {
			t.Errorf("submission %q was inserted %v, want %v", id, got, want)
		}
	}
}
