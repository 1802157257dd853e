package shard

import (
	"context"
	"fmt"

	"github.com/quern-queue/quern/engine/queue"
)

// Kept is how much was read of what is kept for submissions.
type Kept struct {
	Contents, Attachments, Outputs uint64
	Bytes                          uint64
}

// NoChunk stands for what is not about one chunk.
const NoChunk = -1

// Verify reads everything that is kept of a submission, and tells what is damaged or missing: of a chunk, or of all of it (NoChunk). The
// error is one that kept it from looking.
func (p *Submissions) Verify(ctx context.Context, id queue.SubmissionID, kept *Kept, tell func(chunk int64, what string)) error {
	o, err := p.outcome(ctx, id)
	if err != nil {
		tell(NoChunk, err.Error())
		return ctx.Err()
	}
	r := o.live
	if r == nil {
		r = o.ended
	}
	s := p.s
	if r.Attached {
		b, err := s.store.ReadAttachment(ctx, o.seq)
		if err != nil {
			tell(NoChunk, "its attachment: "+err.Error())
		}
		kept.Attachments++
		kept.Bytes += uint64(len(b))
	}
	if r.Inline {
		for first := uint32(0); first < r.Chunks && ctx.Err() == nil; first += verifySlice {
			p.contents(ctx, o.seq, first, min(verifySlice, r.Chunks-first), kept, tell)
		}
	}
	err = o.each(ctx, func(_ uint32, output []byte) error {
		kept.Outputs++
		kept.Bytes += uint64(len(output))
		return nil
	})
	if err != nil && ctx.Err() == nil {
		tell(NoChunk, fmt.Sprintf("its outputs: %v", err))
	}
	return ctx.Err()
}

// verifySlice is how many contents are read at once.
const verifySlice = 1000

// contents reads contents together, and one by one when one of them cannot be read.
func (p *Submissions) contents(ctx context.Context, seq, first, n uint32, kept *Kept, tell func(chunk int64, what string)) {
	indexes := make([]uint32, n)
	for i := range indexes {
		indexes[i] = first + uint32(i)
	}
	all, err := p.s.store.ReadContents(ctx, seq, indexes)
	if err != nil && n > 1 {
		for _, index := range indexes {
			p.contents(ctx, seq, index, 1, kept, tell)
		}
		return
	}
	if err != nil && ctx.Err() == nil {
		tell(int64(first), "its content: "+err.Error())
	}
	kept.Contents += uint64(len(all))
	for _, b := range all {
		kept.Bytes += uint64(len(b))
	}
}
