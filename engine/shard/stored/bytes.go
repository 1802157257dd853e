// Package stored reads the contents and attachments of submissions, whichever way the
// store has them: in rows of their own, or in the blobs that their inserts name.
package stored

import (
	"context"

	"github.com/quern-queue/quern/engine/blobs"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/store"
)

// Bytes reads the bytes of a shard's submissions.
type Bytes struct {
	ID    queue.ShardID
	Store *store.Store
}

// Keys are the keys of the parts of a submission. The attachment is the last part, behind those of the list. The
// epoch is in each key, so two owners of one shard that gave out the same seq never share a blob.
func Keys(id queue.ShardID, seq uint32, b *journal.Blobs, attached bool) (keys []string) {
	for part := range b.Firsts {
		keys = append(keys, blobs.Key(id, b.Epoch, seq, part))
	}
	if attached {
		keys = append(keys, blobs.Key(id, b.Epoch, seq, len(b.Firsts)))
	}
	return keys
}

// Chunks reads contents of chunks of a submission, as store.ReadContents does; for a chunk with a replaced content, the
// new one.
func (x Bytes) Chunks(ctx context.Context, r *machine.Record, indexes []uint32, most int) ([][]byte, error) {
	all, err := x.inserted(ctx, r, indexes, most)
	for i := range all {
		all[i] = x.Store.Replaced.Content(r.Seq, indexes[i], all[i])
	}
	return all, err
}

// inserted reads the contents of the insert. The first content comes in any case: otherwise one that is larger than
// `most` could never be handed out.
func (x Bytes) inserted(ctx context.Context, r *machine.Record, indexes []uint32, most int) (all [][]byte, err error) {
	b := r.Details().Blobs
	if b == nil {
		return x.Store.ReadContents(ctx, r.Seq, indexes, most)
	}
	if err := x.Intact(ctx, r); err != nil {
		return nil, err
	}
	for len(indexes) > 0 {
		part, n := b.Part(indexes)
		within := make([]uint32, n)
		for i := range within {
			within[i] = indexes[i] - b.Firsts[part]
		}
		some, err := x.Store.Blobs.ReadChunks(ctx, blobs.Key(x.ID, b.Epoch, r.Seq, part), within, most)
		if err != nil {
			return nil, err
		}
		if len(all) > 0 && len(some[0]) > most {
			break
		}
		for _, chunk := range some {
			most -= len(chunk)
		}
		all = append(all, some...)
		if len(some) < n {
			break
		}
		indexes = indexes[n:]
	}
	return all, nil
}

// Attachment reads the attachment of a submission.
func (x Bytes) Attachment(ctx context.Context, r *machine.Record) ([]byte, error) {
	b := r.Details().Blobs
	if b == nil {
		return x.Store.ReadAttachment(ctx, r.Seq)
	}
	if err := x.Intact(ctx, r); err != nil {
		return nil, err
	}
	return x.Store.Blobs.ReadAll(ctx, blobs.Key(x.ID, b.Epoch, r.Seq, len(b.Firsts)))
}

// Intact finds out whether the store has the blobs of a submission. If not, its error is damage. It compares the size
// too, because another insert may have put parts under the same keys. A submission that was inserted since the start is
// known to be intact, and costs nothing here.
func (x Bytes) Intact(ctx context.Context, r *machine.Record) error {
	b := r.Details().Blobs
	if b == nil || b.Intact {
		return nil
	}
	size := uint64(0)
	for _, key := range Keys(x.ID, r.Seq, &b.Blobs, r.Attached) {
		n, there, err := x.Store.Blobs.Has(ctx, key)
		if err != nil {
			return err
		}
		if !there {
			return x.Store.Lacks("the blob " + key + " of submission " + r.ID.String())
		}
		size += uint64(n)
	}
	if size != b.Size {
		return x.Store.Lacks("the bytes of submission " + r.ID.String() + ", whose blobs have others,")
	}
	return nil
}
