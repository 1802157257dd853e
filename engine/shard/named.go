package shard

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

// This file holds the blobs that there are against those that inserts name, at a start:
// what is named has to be there, and what is not named goes.

// whole reads the blobs of a submission, and gives them to fn if they are what its insert
// names. Else its error is damage.
// The size and the SHA-256 are checked before fn gets anything: a copy that is not whole must not reach the store.
func (o *Options) whole(ctx context.Context, from blobs.Blobs, r *machine.Record,
	fn func(key string, b []byte) error) error {
	b, sum, size := r.Details().Blobs, sha256.New(), uint64(0)
	var list []blob
	for _, key := range stored.Keys(o.ID, r.Seq, &b.Blobs, r.Attached) {
		part, err := blobs.All(ctx, from, key)
		if errors.Is(err, blobs.ErrMissing) || errors.Is(err, blobs.ErrDamaged) {
			return o.Store.Lacks("the blob " + key + " of submission " + r.ID.String() + " (" + err.Error() + ")")
		}
		if err != nil {
			return err
		}
		sum.Write(part)
		size += uint64(len(part))
		list = append(list, blob{key, part})
	}
	if size != b.Size || b.Sum != journal.NoBlobSum && [32]byte(sum.Sum(nil)) != b.Sum {
		return o.Store.Lacks("the bytes of submission " + r.ID.String() +
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
func (p *Prepared) records(fn func(r *machine.Record) error) (err error) {
	p.m.Backlog.Each(func(sub *backlog.Submission) bool {
		err = fn(sub.Data.(*machine.Record))
		return err == nil
	})
	for i := 0; i < len(p.m.Endings.InOrder) && err == nil; i++ {
		err = fn(p.m.Endings.InOrder[i])
	}
	return err
}

// checkBlobs makes sure that the bytes are there that the inserts in memory name. Copies
// that the store lacks are fetched by Claim. What is missing or different is logged here,
// and becomes a dead letter when it is reserved, as all contents are that cannot be read.
// A submission whose bytes are missing does not keep the queue from opening. Its chunks become dead letters one by
// one, and everything else goes on.
func (p *Prepared) checkBlobs(ctx context.Context) error {
	o := &p.options
	return p.records(func(r *machine.Record) error {
		err := o.bytes().Intact(ctx, r)
		if answers.IsDamage(err) && o.remote() {
			if err = o.whole(ctx, o.Copies.Blobs, r, func(string, []byte) error { return nil }); err == nil {
				p.lacking = append(p.lacking, r)
			}
		}
		switch b := r.Details().Blobs; {
		case !answers.IsDamage(err):
			if b != nil {
				b.Intact = err == nil
			}
			return err
		case !o.remote() && p.parts.snapshots.Newest().Kept:
			return fmt.Errorf("%w. The server kept snapshots before, whose folder may have them: start it with "+
				"snapshot-dir again", err)
		}
		o.Logger.Error("the bytes of a submission are missing or damaged: its chunks become dead letters when "+
			"they are reserved", "queue", o.Queue, "submission", r.ID, "error", err)
		return nil
	})
}

// fetchBlobs gives the store the copies that it lacks.
func (p *Prepared) fetchBlobs(ctx context.Context) error {
	o := &p.options
	for _, r := range p.lacking {
		err := o.whole(ctx, o.Copies.Blobs, r, func(key string, b []byte) error {
			return o.Store.Blobs.Put(ctx, key, b)
		})
		if err != nil {
			return fmt.Errorf("shard: the bytes of submission %s cannot be copied into the store: %w", r.ID, err)
		}
		r.Details().Blobs.Intact = true
	}
	p.lacking = nil
	return nil
}

// sweepBlobs deletes blobs that no insert names. Those of this epoch are of inserts that are under
// way, those of a later one of an owner that has taken the journal over meanwhile. journaled are
// those that have to stay where the store is a cache: the newest snapshot has the others.
// The map of records is made for the first blob only: most queues have none, and it is as large as all that is
// open.
func (p *Prepared) sweepBlobs(ctx context.Context, journaled map[string]bool) error {
	o := &p.options
	var known map[uint32]*machine.Record // made for the first blob: most queues have none
	past := pastRows{store: o.Store}
	isNamed := func(key string) (bool, error) {
		epoch, seq, part, _ := blobs.ParseKey(key)
		if known == nil {
			known = map[uint32]*machine.Record{}
			_ = p.records(func(r *machine.Record) error { known[r.Seq] = r; return nil })
		}
		r := known[seq]
		if r == nil {
			found, err := past.find(ctx, seq)
			if err != nil || found == nil {
				return false, err
			}
			r = found.Record
		}
		b := r.Details().Blobs
		return b != nil && b.Epoch == epoch && part < len(b.Firsts)+1, nil
	}
	sweep := func(of blobs.Blobs, stays func(key string) (bool, error)) error {
		return blobs.Each(ctx, of, blobs.Prefix(o.ID), func(b blobs.Blob) error {
			if epoch, _, _, is := blobs.ParseKey(b.Key); !is || epoch >= p.own.epoch {
				return nil
			}
			if there, err := stays(b.Key); there || err != nil {
				return err
			}
			o.Logger.Info("removed bytes of an insert that was never answered", "queue", o.Queue, "blob", b.Key,
				"bytes", b.Bytes)
			return of.Delete(ctx, b.Key)
		})
	}
	if err := sweep(&o.Store.Blobs, isNamed); err != nil || !o.remote() {
		return err
	}
	return sweep(o.Copies.Blobs, func(key string) (bool, error) {
		there, err := isNamed(key)
		return there && (journaled == nil || journaled[key]), err
	})
}

// namesIn collects the keys of blobs that batches name.
// It is an Applier that looks at inserts and lets everything else pass: reading the journal needs one.
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
