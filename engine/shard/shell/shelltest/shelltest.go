// Package shelltest is a shell around a real machine and a real store, for tests of parts.
// It has no goroutines, no journal and no engine. A batch is committed in one step when
// a caller waits for it, or fails if the test says so.
package shelltest

import (
	"cmp"
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/store"
)

// Start is the time at which a shell's clock begins.
const Start = queue.Time(1_700_000_000_000)

// key signs the tokens.
var key = reserver.Key{K0: 1, K1: 2}

// Shell is a shell.Shell of one goroutine: calls do not overlap.
type Shell struct {
	T       *testing.T
	Machine *machine.Machine
	Clock   queue.Time

	Refuse  error // why the shard cannot work; nil: it can
	Fail    error // of the next commit, which changes nothing; nil: it succeeds
	Woken   int   // how often Wake was called
	Broken  error // the cause that Distrust got
	Commits [][]byte
	// Reload calls it after the replay, before anything is offered; may be nil
	Resume func(now queue.Time)

	sealed []*machine.Batch
	rows   *store.Store
}

var _ shell.Shell = (*Shell)(nil)

// New is the shell of an empty machine, which the test gives its parts.
func New(t *testing.T) *Shell {
	t.Helper()
	rows, err := store.Open(context.Background(), filepath.Join(t.TempDir(), "store.db"),
		store.Options{Durability: queue.Relaxed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rows.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &Shell{T: t, Clock: Start, rows: rows}
	s.Machine = s.empty()
	s.Machine.Epoch = 1
	return s
}

func (s *Shell) empty() *machine.Machine {
	m := machine.New(1, key, queue.DefaultSettings(), Start)
	m.Storage = machine.Storage{Contents: s.rows.Memtable.KeepContents, Output: s.rows.Memtable.KeepOutput}
	return m
}

// Reload makes the machine again, from all that was committed, as a shard does after an append of unknown outcome. join
// gives it its parts. Tests call it to check that a part is the same after a replay as before.
func (s *Shell) Reload(join func(m *machine.Machine)) {
	s.T.Helper()
	m := s.empty()
	join(m)
	m.Replay = true
	m.Recovery.History.Holds = func(queue.SubmissionID) (bool, error) { return false, nil }
	m.Recovery.History.Past = func(uint32) (*machine.Past, error) { return nil, nil }
	for _, batch := range s.Commits {
		m.AppliedAt++
		if err := journal.Decode(batch, func(at queue.Time) { m.Now = at }, m); err != nil {
			s.T.Fatal(err)
		}
	}
	if s.Resume != nil {
		s.Resume(s.Clock)
	}
	m.Recovery.Replayed(s.Clock)
	if err := m.ApplyEpoch(s.Machine.Epoch + 1); err != nil {
		s.T.Fatal(err)
	}
	s.Machine = m
}

// Queue has the name and the log of the shard for a door.
func (s *Shell) Queue() shell.Queue {
	seed := uint64(0)
	return shell.Queue{Name: "q", Logger: slog.New(slog.DiscardHandler), Seed: func() uint64 { seed++; return seed }}
}

// Door is the door of a part.
func Door[P any](s *Shell, part P) shell.Door[P] {
	return shell.Door[P]{Shell: s, Queue: s.Queue(), Part: func() P { return part }}
}

// Insert makes a submission exist.
func (s *Shell) Insert(n *queue.NewSubmission) queue.SubmissionID {
	s.T.Helper()
	var id queue.SubmissionID
	if err := shell.Change(s, func(m *machine.Machine, now queue.Time) error {
		op := m.Draw(n, now)
		id = op.ID
		m.Insert(op, nil, now)
		return nil
	}); err != nil {
		s.T.Fatal(err)
	}
	return id
}

// Checkpoint moves the ended submissions into the history. It calls written for each.
func (s *Shell) Checkpoint(written func(r *machine.Record)) error {
	m := s.Machine
	var ended []checkpoint.Ended
	records := m.Endings.InOrder
	for _, r := range records {
		ended = append(ended, r.EndedRow())
	}
	if err := s.rows.Checkpoint(s.T.Context(), nil, ended); err != nil {
		return err
	}
	for _, r := range records {
		m.Rows++
		delete(m.Endings.ByID, r.ID)
		written(r)
		m.Order.Remove(r)
		r.Checkpointed = true
		m.Endings.Rowed(r)
	}
	m.Endings.InOrder = nil
	return nil
}

// Take hands a chunk to a consumer.
func (s *Shell) Take(id queue.SubmissionID, index uint32) queue.Token {
	s.T.Helper()
	m := s.Machine
	r := m.Live(id)
	if r == nil || !m.Backlog.TakeChunk(r.Sub, index) {
		s.T.Fatalf("chunk %d of %s cannot be taken", index, id)
	}
	token := m.Hold(r, index, backlog.Charge{}, "c", s.Clock, s.Clock.Add(time.Minute)).Token
	token.MAC = key.MAC(&token)
	return token
}

// Failed makes a consumer take chunks and report each as failed, as `item` says.
func (s *Shell) Failed(id queue.SubmissionID, item queue.FailItem, indexes ...uint32) {
	s.T.Helper()
	var items []queue.FailItem
	for _, index := range indexes {
		item.Token = s.Take(id, index)
		items = append(items, item)
	}
	if err := shell.Change(s, func(m *machine.Machine, now queue.Time) error {
		for _, result := range m.Fails(items, now, nil) {
			if result.Outcome != queue.OutcomeOK {
				s.T.Fatalf("failing chunks %v of %s: %+v", indexes, id, result)
			}
		}
		return nil
	}); err != nil {
		s.T.Fatal(err)
	}
}

// Look is shell.Shell's.
func (s *Shell) Look(fn func(m *machine.Machine)) { fn(s.Machine) }

// Locked is shell.Shell's.
func (s *Shell) Locked(fn func(m *machine.Machine, now queue.Time) error) error {
	if s.Refuse != nil {
		return s.Refuse
	}
	return fn(s.Machine, s.Clock)
}

// Begin is shell.Shell's.
func (s *Shell) Begin(fn func(m *machine.Machine, now queue.Time) error) (*commit.Commit, error) {
	if err := s.Locked(fn); err != nil {
		return nil, err
	}
	switch n := len(s.sealed); {
	case s.Machine.Batch.Begun:
		return s.Machine.Batch.Commit, nil
	case n > 0:
		return s.sealed[n-1].Commit, nil
	}
	return nil, nil
}

// Wait is shell.Shell's: it commits the sealed batches, then the open one. Nothing is committed before a call waits, so
// a test can look at decisions that are not on the disk yet.
func (s *Shell) Wait(waits commit.Set) error {
	s.T.Helper()
	s.Seal()
	all := s.sealed
	s.sealed = nil
	for i, b := range all {
		if s.Fail != nil || b.Refused != nil {
			s.refuse(all[i:], cmp.Or(s.Fail, b.Refused))
			break
		}
		s.commit(b)
	}
	_, err := waits.Wait()
	return err
}

// commit applies a batch as the writer of a shard does.
func (s *Shell) commit(b *machine.Batch) {
	s.T.Helper()
	m := s.Machine
	s.Commits = append(s.Commits, append([]byte(nil), b.Enc.Bytes()...))
	m.AppliedAt++
	decoder := journal.NewDecoder(b.Enc.Bytes())
	m.Now = decoder.At()
	for ops, more := 1, true; more; ops++ {
		var err error
		if more, err = decoder.Step(m); err != nil {
			s.T.Fatal(err)
		}
		b.Intents.Applied(m, ops)
	}
	close(b.Done)
}

// refuse undoes batches that fail. The youngest goes first, as later batches build on earlier ones.
func (s *Shell) refuse(all []*machine.Batch, cause error) {
	s.Fail = nil
	for _, b := range slices.Backward(all) {
		b.Undo(s.Machine)
		b.Err = cause
		close(b.Done)
	}
}

// Seal is shell.Shell's.
func (s *Shell) Seal() {
	if b := s.Machine.Batch; b.Begun {
		s.sealed = append(s.sealed, b)
		s.Machine.Batch = machine.NewBatch()
	}
}

// Wake is shell.Shell's.
func (s *Shell) Wake(queue.Time) { s.Woken++ }

// Distrust is shell.Shell's. It begins the batch, so that there is a commit that can fail.
func (s *Shell) Distrust(cause error, now queue.Time) *commit.Commit {
	s.Broken = cause
	s.Machine.Encode(now)
	s.Machine.Batch.Refused, s.Fail = cause, cause
	return s.Machine.Batch.Commit
}

// Store is shell.Shell's.
func (s *Shell) Store() *store.Store { return s.rows }

// Now is shell.Shell's.
func (s *Shell) Now() queue.Time { return s.Clock }
