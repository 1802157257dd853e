package contents

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"slices"
	"sync"

	"github.com/quern-queue/quern/engine/blobs"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/stored"
	"github.com/quern-queue/quern/engine/store"
)

// Bytes of a submission that are too many for a batch are blobs. They are durable before the batch with the insert that
// names them, so an insert is never without its bytes. After a crash or a failed insert no insert names them: they are
// garbage, which the next start finds by listing the keys. Keys have the epoch, so garbage is never taken for the blob
// of a later owner.
//
// The blobs are in the store. Where the store is a cache they are in Files.Blobs, and
// the store gets a copy with its next checkpoint.

// Named is an insert with the bytes that its blobs are to have.
type Named struct {
	Op *journal.Insert
	Of *queue.NewSubmission
}

// Put stores the bytes of inserts, and sets their names in the inserts. After an error, or if the inserts are not made,
// the caller discards the blobs.
func (c *Contents) Put(ctx context.Context, list []Named) error {
	w := wave{c: c, ctx: ctx}
	var err error
	for i := 0; i < len(list) && err == nil; i++ {
		err = w.submission(list[i])
	}
	if err == nil {
		err = w.flush()
	}
	return commit.StoreFailed(err)
}

// Discard deletes the blobs of inserts that failed. Blobs that it cannot delete are
// garbage until the next start.
func (c *Contents) Discard(list []Named) {
	for i := range list {
		for _, key := range stored.Keys(c.ID, list[i].Op.Seq, list[i].Op.Blobs, list[i].Op.Attachment) {
			err := c.Disk.Roomy(func() error { return c.Store.Blobs.Delete(context.Background(), key) })
			if c.Remote() {
				err = errors.Join(err, c.Blobs.Delete(context.Background(), key))
			}
			if err != nil {
				c.Logger.Warn("a blob of an insert that failed is left to the next start", "queue", c.Queue, "key", key,
					"error", err)
				return
			}
		}
	}
}

// wave puts blobs at the same time, as many as one commit of the store has room for.
type wave struct {
	c     *Contents
	ctx   context.Context
	parts []blob
	bytes int
}

// spaces reuses the memory of parts that are already in the store: without it, large inserts would keep the garbage
// collector busy.
var spaces = sync.Pool{New: func() any { return new([]byte) }}

type blob struct {
	key   string
	bytes []byte
}

// submission cuts the bytes of a submission into parts. The sum over all parts is for those that copy them: in the
// store, each row has a sum of its own.
func (w *wave) submission(n Named) error {
	b, sum, first := n.Op.Blobs, hash.Hash(nil), 0
	if w.c.Remote() {
		sum = sha256.New()
	}
	for chunks := n.Of.Chunks.Inline; len(chunks) > 0; {
		space := spaces.Get().(*[]byte)
		packed, fit := store.PackBlob((*space)[:0], chunks)
		if err := w.part(n.Op, len(b.Firsts), packed, sum); err != nil {
			return err
		}
		b.Firsts = append(b.Firsts, uint32(first))
		first, chunks = first+fit, chunks[fit:]
	}
	if len(n.Of.Attachment) > 0 {
		if err := w.part(n.Op, len(b.Firsts), slices.Clone(n.Of.Attachment), sum); err != nil {
			return err
		}
	}
	if sum != nil {
		sum.Sum(b.Sum[:0])
	}
	return nil
}

// part adds a part to the wave. Its bytes are the wave's.
func (w *wave) part(op *journal.Insert, number int, b []byte, sum hash.Hash) error {
	if w.bytes+len(b) > blobs.MaxBytes {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if sum != nil {
		sum.Write(b) // never fails
	}
	op.Blobs.Size += uint64(len(b))
	w.parts = append(w.parts, blob{blobs.Key(w.c.ID, op.Blobs.Epoch, op.Seq, number), b})
	w.bytes += len(b)
	return nil
}

func (w *wave) flush() error {
	errs := make([]error, len(w.parts))
	var group sync.WaitGroup
	for i, part := range w.parts {
		group.Go(func() { errs[i] = w.c.putOne(w.ctx, part) })
	}
	group.Wait()
	w.parts, w.bytes = nil, 0
	return errors.Join(errs...)
}

func (c *Contents) putOne(ctx context.Context, b blob) error {
	err := c.Blobs.Put(ctx, b.key, b.bytes)
	switch {
	case !c.Remote():
		spaces.Put(&b.bytes)
		return c.Disk.Wrote(err)
	case err == nil:
		c.Store.Memtable.KeepBlob(b.key, b.bytes)
		c.Kept(len(b.bytes)) // they wait in memory as the bytes of a batch do
	}
	return err
}

// Emitted stores the blobs of submissions that schedules insert, and of dead letters that arrive.
type Emitted struct{ *Contents }

// Begin begins such inserts, as Naming does.
func (e Emitted) Begin() (end func()) { return e.Naming() }

// Put stores the same bytes for each of the inserts.
func (e Emitted) Put(ctx context.Context, inserts []*journal.Insert, of *queue.NewSubmission) error {
	return e.Contents.Put(ctx, namedAlike(inserts, of))
}

// Discard deletes the blobs of such inserts.
func (e Emitted) Discard(inserts []*journal.Insert) { e.Contents.Discard(namedAlike(inserts, nil)) }

func namedAlike(inserts []*journal.Insert, of *queue.NewSubmission) (list []Named) {
	for _, op := range inserts {
		list = append(list, Named{op, of})
	}
	return list
}
