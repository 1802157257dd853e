package cuts

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell/shelltest"
)

// cutting is a shell with a journal of its own, and its cuts.
func cutting(t *testing.T) (*shelltest.Shell, *sqlitelog.Log, Cuts) {
	t.Helper()
	log, err := sqlitelog.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"), sqlitelog.Options{Durability: queue.Relaxed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	s := shelltest.New(t)
	return s, log, Cuts{Shell: s, Journal: func() journal.Journal { return log }}
}

// append appends batches behind the tail, which are applied.
func appendTo(t *testing.T, s *shelltest.Shell, log *sqlitelog.Log, batches ...string) {
	t.Helper()
	for _, batch := range batches {
		tail, err := log.Tail(t.Context())
		if err == nil {
			tail, err = log.Append(t.Context(), tail, []byte(batch))
		}
		if err != nil {
			t.Fatal(err)
		}
		s.Look(func(m *machine.Machine) { m.AppliedAt = tail })
	}
}

func batchesOf(t *testing.T, c *Cut) (list []string, err error) {
	t.Helper()
	err = c.Batches(t.Context(), func(_ journal.Position, batch []byte) error {
		list = append(list, string(batch))
		return nil
	})
	return list, err
}

// A cut ends at the moment at which it was taken. Until it is closed its batches stay, whatever is trimmed meanwhile, and commits go on.
func TestCutIsOfOneMoment(t *testing.T) {
	t.Parallel()
	s, log, cuts := cutting(t)
	appendTo(t, s, log, "one", "two")
	cut, err := cuts.Prepare()
	if err != nil {
		t.Fatal(err)
	}
	appendTo(t, s, log, "three")
	if err := cut.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	appendTo(t, s, log, "four")
	if err := log.Trim(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	if got, err := batchesOf(t, cut); err != nil || !slices.Equal(got, []string{"one", "two", "three"}) || cut.UpTo != 3 || cut.After() != 0 {
		t.Errorf("the cut has %v, up to %d behind %d, %v", got, cut.UpTo, cut.After(), err)
	}
	stop := errors.New("stop")
	if err := cut.Batches(t.Context(), func(journal.Position, []byte) error { return stop }); err != stop {
		t.Errorf("a reader that stops: %v", err)
	}
	if err := cut.Close(); err != nil {
		t.Fatal(err)
	}
	if err := log.Read(t.Context(), 0, func(journal.Position, []byte) error { return nil }); !errors.Is(err, journal.ErrTrimmed) {
		t.Errorf("after the cut is closed its batches can be trimmed: %v", err)
	}
}

// A journal that ends before the cut is not the journal of the cut. A shard that cannot work is not cut.
func TestCutRefuses(t *testing.T) {
	t.Parallel()
	s, log, cuts := cutting(t)
	appendTo(t, s, log, "one")
	cut, err := cuts.Prepare()
	if err != nil {
		t.Fatal(err)
	}
	if err := cut.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	cut.UpTo++ // as if the batch had been taken back
	if _, err := batchesOf(t, cut); err == nil || !strings.Contains(err.Error(), "up to batch 1, not 2") {
		t.Errorf("a journal that ends too early: %v", err)
	}
	if err := cut.Close(); err != nil {
		t.Error(err)
	}
	s.Refuse = &queue.Error{Code: queue.CodeUnavailable}
	if _, err := cuts.Prepare(); queue.CodeOf(err) != queue.CodeUnavailable {
		t.Errorf("a shard that cannot work: %v", err)
	}
}
