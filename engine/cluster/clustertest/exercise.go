// Package clustertest is the conformance suite of cluster.Backend. It tests the behaviour that nodes rely on, and that every implementation
// must have.
package clustertest

import (
	"errors"
	"testing"

	"github.com/quern-queue/quern/engine/blobs"
	"github.com/quern-queue/quern/engine/blobs/blobtest"
	"github.com/quern-queue/quern/engine/cluster"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/journaltest"
)

// Journal is the name of the journal that Medium.Rewind is about.
const Journal = "0001"

// Medium is an implementation under test. It keeps its backends.
type Medium struct {
	// Open opens a backend. Backends of one dir share all data; the first one is empty. The function closes it.
	Open func(t *testing.T, dir string) (b cluster.Backend, close func() error)
	// Rewind and Fail are as in journaltest.Medium, for the journal with the name Journal.
	Rewind func(t *testing.T, dir string, to journal.Position)
	Fail   func(j journal.Journal, o journaltest.Outcome, tries int, made func())
	// Damage is as in blobtest.Medium.
	Damage func(t *testing.T, dir, key string)
}

// Exercise runs the suites of all that a backend has.
func Exercise(t *testing.T, m Medium) {
	t.Run("journal", func(t *testing.T) {
		t.Parallel()
		journaltest.Exercise(t, journaltest.Medium{Open: m.journal, Beside: m.journal, Rewind: m.Rewind,
			Fail: func(j journal.Journal, o journaltest.Outcome, tries int, made func()) {
				m.Fail(j.(owned).Journal, o, tries, made)
			}})
	})
	t.Run("blobs", func(t *testing.T) {
		t.Parallel()
		blobtest.Exercise(t, blobtest.Medium{
			Open: func(t *testing.T, dir string) (blobs.Blobs, func() error) {
				b, closeIt := m.Open(t, dir)
				return b.Blobs(), closeIt
			},
			Damage: m.Damage,
		})
	})
	t.Run("leases", func(t *testing.T) {
		t.Parallel()
		exerciseLeases(t, m)
	})
	ExerciseJournals(t, m)
}

// ExerciseJournals tests the journals of a backend, beyond what journaltest tests of each. Of m it needs only Open.
func ExerciseJournals(t *testing.T, m Medium) {
	t.Run("journals", func(t *testing.T) {
		t.Parallel()
		exerciseJournals(t, m)
	})
	t.Run("deleted journals", func(t *testing.T) {
		t.Parallel()
		exerciseDeleted(t, m)
	})
	t.Run("journals that are kept", func(t *testing.T) {
		t.Parallel()
		exerciseKept(t, m)
	})
}

// owned is a journal with its own backend.
type owned struct {
	journal.Journal
	close func() error
}

func (o owned) Close() error { return errors.Join(o.Journal.Close(), o.close()) }

// journal opens a handle through a backend that only it uses.
func (m Medium) journal(t *testing.T, dir string) journal.Journal {
	t.Helper()
	b, closeIt := m.Open(t, dir)
	return owned{open(t, b, Journal), closeIt}
}

func open(t *testing.T, b cluster.Backend, name string) journal.Journal {
	t.Helper()
	if err := b.MakeJournal(ctx, name, 0); err != nil {
		t.Fatalf("MakeJournal(%s): %v", name, err)
	}
	j, err := b.Journal(ctx, name)
	if err != nil {
		t.Fatalf("Journal(%s): %v", name, err)
	}
	return j
}
