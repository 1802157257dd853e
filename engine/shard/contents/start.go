package contents

//	insert with large contents:   blobs put ─► op that names them
//	                                  │ crash here: nothing names the blobs
//	start:  records name blobs  ─► there and whole?  ─ no ─► copies of a snapshot? ─ no ─► logged
//	        blobs of old epochs ─► named?            ─ no ─► deleted
//
// An epoch is one life of an owner. Only blobs of past epochs may be deleted: those of this one may belong to an
// insert that is just being written.

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/blobs"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/answers"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/stored"
)

// Start compares the existing blobs with those that inserts name: named ones have to be there, and others are deleted.
type Start struct {
	Files
	lacking []*machine.Record // the store lacks copies of their blobs
}

// whole reads the blobs of a submission, and gives them to fn if they are those that its insert names. Else its error
// is damage. The size and the SHA-256 are checked before fn gets anything: a copy that is not whole must not reach the
// store.
func (s *Start) whole(ctx context.Context, from blobs.Blobs, r *machine.Record,
	fn func(key string, b []byte) error) error {
	b, sum, size := r.Details().Blobs, sha256.New(), uint64(0)
	var list []blob
	for _, key := range stored.Keys(s.ID, r.Seq, &b.Blobs, r.Attached) {
		part, err := blobs.All(ctx, from, key)
		if errors.Is(err, blobs.ErrMissing) || errors.Is(err, blobs.ErrDamaged) {
			return s.Store.Lacks("the blob " + key + " of submission " + r.ID.String() + " (" + err.Error() + ")")
		}
		if err != nil {
			return err
		}
		sum.Write(part)
		size += uint64(len(part))
		list = append(list, blob{key, part})
	}
	if size != b.Size || b.Sum != journal.NoBlobSum && [32]byte(sum.Sum(nil)) != b.Sum {
		return s.Store.Lacks("the bytes of submission " + r.ID.String() +
			": its blobs are not those that its insert names, which")
	}
	for _, part := range list {
		if err := fn(part.key, part.bytes); err != nil {
			return err
		}
	}
	return nil
}

// records calls fn for all submissions in memory.
func records(m *machine.Machine, fn func(r *machine.Record) error) (err error) {
	m.Backlog.Each(func(sub *backlog.Submission) bool {
		err = fn(sub.Data.(*machine.Record))
		return err == nil
	})
	for i := 0; i < len(m.Endings.InOrder) && err == nil; i++ {
		err = fn(m.Endings.InOrder[i])
	}
	return err
}

// Check makes sure that the bytes that the inserts in memory name are there. Copies that the store lacks are left to
// Fetch. Missing or different bytes are logged here, and do not keep the queue from opening: each chunk becomes a dead
// letter when it is reserved, as with all contents that cannot be read. kept says that the server kept snapshots
// before.
func (s *Start) Check(ctx context.Context, m *machine.Machine, kept bool) error {
	s.lacking = nil
	return records(m, func(r *machine.Record) error {
		err := s.Bytes().Intact(ctx, r)
		if answers.IsDamage(err) && s.Remote() {
			if err = s.whole(ctx, s.Blobs, r, func(string, []byte) error { return nil }); err == nil {
				s.lacking = append(s.lacking, r)
			}
		}
		switch b := r.Details().Blobs; {
		case !answers.IsDamage(err):
			if b != nil {
				b.Intact = err == nil
			}
			return err
		case !s.Remote() && kept:
			return fmt.Errorf("%w. The server kept snapshots before, whose folder may have them: start it with "+
				"snapshot-dir again", err)
		}
		s.Logger.Error("the bytes of a submission are missing or damaged: its chunks become dead letters when "+
			"they are reserved", "queue", s.Queue, "submission", r.ID, "error", err)
		return nil
	})
}

// Fetch gives the store the copies that it lacks.
func (s *Start) Fetch(ctx context.Context) error {
	for _, r := range s.lacking {
		err := s.whole(ctx, s.Blobs, r, func(key string, b []byte) error {
			return s.Store.Blobs.Put(ctx, key, b)
		})
		if err != nil {
			return fmt.Errorf("shard: the bytes of submission %s cannot be copied into the store: %w", r.ID, err)
		}
		r.Details().Blobs.Intact = true
	}
	s.lacking = nil
	return nil
}

// Sweep deletes blobs that no insert names. It keeps those of this epoch, whose inserts are under way, and those of a
// later one, whose owner has taken the journal over meanwhile. Where the store is a cache, those in journaled have to
// stay too: the newest snapshot has the others. past finds submissions that have ended, by their numbers.
func (s *Start) Sweep(ctx context.Context, m *machine.Machine, epoch uint32, journaled map[string]bool,
	past func(ctx context.Context, seq uint32) (*machine.Past, error)) error {
	var known map[uint32]*machine.Record // made for the first blob: most queues have none
	isNamed := func(key string) (bool, error) {
		of, seq, part, _ := blobs.ParseKey(key)
		if known == nil {
			known = map[uint32]*machine.Record{}
			_ = records(m, func(r *machine.Record) error { known[r.Seq] = r; return nil })
		}
		r := known[seq]
		if r == nil {
			found, err := past(ctx, seq)
			if err != nil || found == nil {
				return false, err
			}
			r = found.Record
		}
		b := r.Details().Blobs
		return b != nil && b.Epoch == of && part < len(b.Firsts)+1, nil
	}
	sweep := func(of blobs.Blobs, stays func(key string) (bool, error)) error {
		return blobs.Each(ctx, of, blobs.Prefix(s.ID), func(b blobs.Blob) error {
			if of, _, _, is := blobs.ParseKey(b.Key); !is || of >= epoch {
				return nil
			}
			if there, err := stays(b.Key); there || err != nil {
				return err
			}
			s.Logger.Info("removed bytes of an insert that was never answered", "queue", s.Queue, "blob", b.Key,
				"bytes", b.Bytes)
			return of.Delete(ctx, b.Key)
		})
	}
	if err := sweep(&s.Store.Blobs, isNamed); err != nil || !s.Remote() {
		return err
	}
	return sweep(s.Blobs, func(key string) (bool, error) {
		there, err := isNamed(key)
		return there && (journaled == nil || journaled[key]), err
	})
}

// NamesIn gives the keys of blobs that batches name to each. It looks at inserts and lets everything else pass.
func NamesIn(id queue.ShardID, each func(key string)) journal.Applier { return namesIn{id, each} }

type namesIn struct {
	id   queue.ShardID
	each func(key string)
}

func (n namesIn) ApplyInsert(s *journal.Insert) error {
	if s.Blobs != nil {
		for _, key := range stored.Keys(n.id, s.Seq, s.Blobs, s.Attachment) {
			n.each(key)
		}
	}
	return nil
}

func (namesIn) ApplyEpoch(uint32) error               { return nil }
func (namesIn) ApplyComplete(journal.Completed) error { return nil }
func (namesIn) ApplyReturn(journal.Returned) error    { return nil }
func (namesIn) ApplyEnd(journal.End) error            { return nil }
func (namesIn) ApplyPriority(journal.Priority) error  { return nil }
func (namesIn) ApplyPart(journal.PartOp) error        { return nil }
