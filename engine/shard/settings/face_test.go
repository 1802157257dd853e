package settings

import (
	"errors"
	"testing"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell/shelltest"
)

func setting(t *testing.T) (s *shelltest.Shell, face *Settings, synced *int) {
	s, synced = shelltest.New(t), new(int)
	part := New(s.Machine)
	s.Machine.Joined.Parts = []machine.Part{part}
	return s, Face(shelltest.Door(s, part), func() error { *synced++; return nil }), synced
}

// A setting holds from the answer on, each change has the next version, and each time the journal gets the queue's
// durability.
func TestPutHoldsFromItsAnswerOn(t *testing.T) {
	t.Parallel()
	s, face, synced := setting(t)
	if face.Known() {
		t.Fatal("a new queue has settings")
	}
	settings := queue.DefaultSettings()
	for n := range uint16(3) {
		settings.MaxAttempts = 5 + n
		set := &journal.Set{Kind: journal.SetQueue, Settings: settings.Row()}
		if err := face.Put(set, nil, nil); err != nil || set.Version != uint32(n)+1 {
			t.Fatalf("change %d: version %d, %v", n, set.Version, err)
		}
		if got := s.Machine.Settings.MaxAttempts; got != settings.MaxAttempts {
			t.Errorf("change %d: max_attempts is %d, want %d", n, got, settings.MaxAttempts)
		}
	}
	if !face.Known() || *synced != 3 {
		t.Errorf("known %t, synced %d times", face.Known(), *synced)
	}
}

// A change whose commit fails changes nothing: neither the settings nor their version.
func TestFailedPutChangesNothing(t *testing.T) {
	t.Parallel()
	s, face, synced := setting(t)
	settings := queue.DefaultSettings()
	was := s.Machine.Settings.MaxAttempts
	settings.MaxAttempts = was + 1
	for _, fail := range []func(){func() { s.Fail = errors.New("no") }, func() { s.Refuse = &queue.Error{Code: queue.CodeUnavailable} }} {
		fail()
		if err := face.Put(&journal.Set{Kind: journal.SetQueue, Settings: settings.Row()}, nil, nil); err == nil {
			t.Fatal("no error")
		}
	}
	if face.Known() || s.Machine.Settings.MaxAttempts != was || *synced != 0 {
		t.Errorf("known %t, max_attempts %d, synced %d times", face.Known(), s.Machine.Settings.MaxAttempts, *synced)
	}
	s.Refuse = nil
	set := &journal.Set{Kind: journal.SetQueue, Settings: settings.Row()}
	if err := face.Put(set, nil, nil); err != nil || set.Version != 1 {
		t.Errorf("the next change: version %d, %v", set.Version, err)
	}
}

// An act is in the batch of its change, or nowhere.
func TestActIsInTheBatchOfItsChange(t *testing.T) {
	t.Parallel()
	s, face, _ := setting(t)
	put := func() error {
		return face.Put(&journal.Set{Kind: journal.SetStrategy, Name: "fast", Version: 1, Text: "Random"}, nil, "Random",
			queue.Act{Action: "strategy.create", Target: "fast"})
	}
	s.Fail = errors.New("no")
	if put() == nil || len(s.Machine.ActLog.Fresh) != 0 {
		t.Fatalf("after a failed commit the log has %v", s.Machine.ActLog.Fresh)
	}
	if err := put(); err != nil || len(s.Commits) != 1 || len(s.Machine.ActLog.Fresh) != 1 {
		t.Fatalf("%v: %d commits, acts %v", err, len(s.Commits), s.Machine.ActLog.Fresh)
	}
	if set, found := face.Strategy("fast", 1); !found || set.Text != "Random" {
		t.Errorf("the strategy: %+v %t", set, found)
	}
	if _, found := face.Strategy("fast", 2); found {
		t.Error("a version that no one made is found")
	}
}
