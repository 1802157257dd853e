package submissions

// `quern check` reads everything that is kept of one submission, each item once, through the same code as a client's
// reads: other code could find a content that the server does not find.
//
//	attachment ─► contents, by 1,000 ─► outputs ─► compared with the journal's count of outputs
//	                    └ one of them fails: each by itself, so that the others are still checked

import (
	"context"
	"fmt"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/store"
)

// Kept counts how much of the stored data of submissions was read.
type Kept struct {
	Contents, Attachments, Outputs uint64
	Bytes                          uint64
	Lost                           uint64 // losses that a repair has noted before

	known map[uint32][]store.Loss // the losses that it noted, by submission; nil: not read yet
}

// NoChunk stands for damage that is not about one chunk.
const NoChunk = -1

// Wrong is something of a submission that is damaged or missing.
type Wrong struct {
	Chunk  int64      // NoChunk: all of the submission, or none of its chunks
	Chunks []uint32   // of lost outputs: their chunks, as far as these are known
	Loss   store.Loss // the form in which a repair notes it; Kind 0: a repair cannot note it
	What   string
}

// verifying is the reading of one submission.
type verifying struct {
	s    *Submissions
	r    *machine.Record
	seq  uint32
	kept *Kept
	tell func(Wrong)
}

// Verify reads everything that is kept of a submission, and calls tell for all that is damaged or missing, unless a
// repair has noted it. It returns an error if it could not look. An error of the submission itself is reported like any
// other damage, and the check goes on with the next one.
func (s *Submissions) Verify(ctx context.Context, id queue.SubmissionID, kept *Kept, tell func(Wrong)) error {
	if err := kept.load(ctx, s.Store()); err != nil {
		tell(Wrong{Chunk: NoChunk, What: err.Error()})
		return ctx.Err()
	}
	o, err := s.outcome(ctx, id)
	if err != nil {
		tell(Wrong{Chunk: NoChunk, What: err.Error()})
		return ctx.Err()
	}
	r := o.record()
	v := verifying{s: s, r: r, seq: o.seq, kept: kept, tell: tell}
	if r.Attached {
		b, err := s.bytes.Attachment(ctx, r)
		if err != nil {
			v.wrong(Wrong{Chunk: NoChunk, Loss: store.Loss{Kind: store.LostAttachment},
				What: "its attachment: " + err.Error()})
		}
		kept.Attachments++
		kept.Bytes += uint64(len(b))
	}
	if r.Inline {
		for first := uint32(0); first < r.Chunks && ctx.Err() == nil; first += verifySlice {
			v.contents(ctx, first, min(verifySlice, r.Chunks-first))
		}
	}
	v.outputs(ctx, o)
	return ctx.Err()
}

// Missing outputs can only be found by counting: the journal has only the number of outputs and the sum of their
// indexes.
func (v *verifying) outputs(ctx context.Context, o *outcome) {
	found := map[uint32]bool{}
	missing, err := o.read(ctx, func(index uint32, output []byte) error {
		found[index] = true
		v.kept.Outputs++
		v.kept.Bytes += uint64(len(output))
		return nil
	})
	w := Wrong{Chunk: NoChunk}
	if err == nil && missing.what != "" {
		w.Loss = store.Loss{Kind: store.LostOutputs, First: missing.sum, Count: missing.number}
		w.Chunks = o.without(ctx, found, &missing)
		err = o.missed(ctx, missing.what)
	}
	if err != nil && ctx.Err() == nil {
		w.What = fmt.Sprintf("its outputs: %v", err)
		v.wrong(w)
	}
}

// without are the chunks whose outputs are missing; nil when they cannot be known, because other chunks never had one.
// The sum names a single missing output. Several can only be named if each done chunk had an output: then they are the
// done chunks without one, and the sum has to agree.
func (o *outcome) without(ctx context.Context, found map[uint32]bool, missing *missingOutputs) (list []uint32) {
	if missing.number == 1 {
		return []uint32{missing.sum}
	}
	r := o.record()
	sum := uint32(0)
	for index := uint32(0); index < r.Chunks; index++ {
		if done, err := o.isDone(ctx, index); err == nil && done && !found[index] {
			list = append(list, index)
			sum += index
		}
	}
	if uint32(len(list)) != missing.number || sum != missing.sum {
		return nil
	}
	return list
}

// wrong reports damage, unless a repair has noted it. A repair notes the losses that it could not avoid, so that a
// later check does not report them as new damage.
func (v *verifying) wrong(w Wrong) {
	if w.Loss.Kind != 0 {
		w.Loss.Seq = v.seq
	}
	if slices.ContainsFunc(v.kept.known[v.seq], func(known store.Loss) bool { return known.Covers(w.Loss) }) {
		v.kept.Lost += uint64(max(w.Loss.Count, 1))
		return
	}
	v.tell(w)
}

// verifySlice is how many contents are read at once, when they are small.
const verifySlice = 1000

// contents reads a slice of contents together, and one by one if one of them cannot be read: the batch reader stops at
// the first bad page, and would leave the others unread.
func (v *verifying) contents(ctx context.Context, first, n uint32) {
	indexes := make([]uint32, n)
	for i := range indexes {
		indexes[i] = first + uint32(i)
	}
	all, err := v.s.bytes.Chunks(ctx, v.r, indexes, queue.MaxAnswerBytes)
	if err != nil && n > 1 {
		for _, index := range indexes {
			v.contents(ctx, index, 1)
		}
		return
	}
	if err != nil && ctx.Err() == nil {
		v.wrong(Wrong{Chunk: int64(first), Loss: store.Loss{Kind: store.LostContent, First: first, Count: 1},
			What: "its content: " + err.Error()})
	}
	v.kept.Contents += uint64(len(all))
	for _, b := range all {
		v.kept.Bytes += uint64(len(b))
	}
	if got := uint32(len(all)); err == nil && got < n { // large ones
		v.contents(ctx, first+got, n-got)
	}
}

// load reads the losses that a repair has noted, once.
func (k *Kept) load(ctx context.Context, s *store.Store) error {
	if k.known != nil {
		return nil
	}
	list, err := store.Losses(ctx, s)
	if err != nil {
		return err
	}
	k.known = map[uint32][]store.Loss{}
	for _, l := range list {
		k.known[l.Seq] = append(k.known[l.Seq], l)
	}
	return nil
}
