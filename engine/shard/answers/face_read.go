package answers

import (
	"context"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// read reads inline bytes and attachments, in one query for each run of chunks of one
// submission. n is how many of the picks, from the first on, fit into the answer: at least one,
// unless the answer has bytes of reservations before them, from other shards of the queue.
func (a *Answers) read(ctx context.Context, picks []machine.Pick, before int,
	dst []queue.Reservation) (n int, err error) {
	answer := tally{Gathering: access.Gather(ctx)}
	if before > 0 {
		answer.Fits(before)
	}
	for n < len(picks) {
		read, err := a.readRun(ctx, picks[n:], dst[n:], answer.Left()-answer.most)
		if err != nil {
			return n, err
		}
		for range read {
			if !answer.add(dst[:n+1]) && n+before > 0 {
				return n, nil
			}
			n++
		}
	}
	return n, nil
}

// tally counts the bytes of an answer. A pick does not touch the metadata of its
// reservation, which is often in no cache. So the tally looks at metadata only when the
// reservations might need more than an answer may have without being counted.
type tally struct {
	access.Gathering
	most    int // bytes that the reservations might need while none is counted; 0 afterwards
	counted int // reservations
}

// add takes one more reservation, the last of all, and says whether there was room for it.
func (t *tally) add(all []queue.Reservation) (fits bool) {
	if t.counted == 0 {
		last := &all[len(all)-1]
		t.most += len(last.Meta)*queue.MaxMetaEntryBytes + contentBytes(last)
		if t.most <= t.Left() {
			return true
		}
		t.most = 0
	}
	for fits = true; fits && t.counted < len(all); t.counted++ {
		fits = t.Fits(all[t.counted].Meta.Bytes() + contentBytes(&all[t.counted]))
	}
	return fits
}

func contentBytes(r *queue.Reservation) int { return len(r.Content.Bytes) + len(r.Attachment) }

// readRun reads for the first run of picks: for as many of it as there is room for in
// `left` bytes, and for one in any case.
func (a *Answers) readRun(ctx context.Context, picks []machine.Pick, dst []queue.Reservation,
	left int) (read int, err error) {
	if n := firstOnly(picks); n > 1 {
		return a.readFirst(ctx, picks[:n], dst[:n], left)
	}
	r, run := picks[0].R, 1
	for run < len(picks) && picks[run].R == r {
		run++
	}
	if r.Attached {
		b, err := a.Bytes.Attachment(ctx, r)
		if err != nil {
			return 0, err
		}
		for i := range run {
			dst[i].Attachment = b
		}
	}
	if !r.Inline {
		return run, nil
	}
	return a.readInline(ctx, picks[:run], dst[:run], left)
}

// firstOnly is how many picks, from the first on, are the first inline chunk of their
// submission, which has no attachment and no blobs.
func firstOnly(picks []machine.Pick) (n int) {
	for n < len(picks) && picks[n].R.Inline && !picks[n].R.Attached && picks[n].Token.Index == 0 &&
		picks[n].R.Details().Blobs == nil {
		n++
	}
	return n
}

// readFirst reads the first chunks of several submissions.
func (a *Answers) readFirst(ctx context.Context, picks []machine.Pick, dst []queue.Reservation, left int) (int, error) {
	seqs := make([]uint32, len(picks))
	for i := range picks {
		seqs[i] = picks[i].R.Seq
	}
	return a.Store().Singles.ReadFirst(ctx, seqs, left, func(i int, content []byte) {
		dst[i].Content.Bytes = a.Store().Replaced.Content(seqs[i], 0, content)
	})
}

// readInline reads the inline bytes of chunks of one submission.
func (a *Answers) readInline(ctx context.Context, picks []machine.Pick, dst []queue.Reservation,
	left int) (int, error) {
	indexes := make([]uint32, len(picks))
	for i := range picks {
		indexes[i] = picks[i].Token.Index
	}
	contents, err := a.Bytes.Chunks(ctx, picks[0].R, indexes, left)
	for i := range contents {
		dst[i].Content.Bytes = contents[i]
	}
	return len(contents), err
}
