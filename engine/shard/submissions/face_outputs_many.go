package submissions

// Outputs of many submissions, in pages: those of the newest submission first, and of one by index.
//
// A submission can have more outputs than a page, and lost outputs show only in the counts of all of them. So a page
// that ends within a submission has in OutputsFrom the outputs found so far, and the counts from when its first page
// began. Its last page compares the two, as the stream of one submission does.

import (
	"context"
	"errors"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/sdk/api"
)

// OutputsFrom is where a page of outputs begins; zero: with the newest submission.
type OutputsFrom struct {
	Before  queue.SubmissionID  // submissions below this id; 0: all
	Index   uint32              // of the first of them, the chunks from here on
	Found   machine.OutputCount // outputs of that one on earlier pages
	Counted machine.OutputCount // the count of all its outputs when its first page began; zero: that is now
}

// outputsLook is how many submissions a page of outputs asks for at once: one may fill it.
const outputsLook = 100

// ManyOutputs returns up to `limit` outputs of the submissions that a filter matches, and where to go on: nil when
// there are no more. A page that would have to look at too many submissions ends before the limit, perhaps with no
// output. It fails if a submission lacks an output that the journal counted.
func (s *Submissions) ManyOutputs(ctx context.Context, f machine.Filter, from OutputsFrom,
	limit int) (list []api.SubmissionOutput, next *OutputsFrom, err error) {
	page := outputsPage{limit: limit, answer: access.Gather(ctx)}
	for looked, before := 0, from.Before; looked < limit; looked += outputsLook {
		subs, to, err := s.List(ctx, f, before, outputsLook)
		if err != nil {
			return nil, nil, err
		}
		for i := range subs {
			at := OutputsFrom{Before: subs[i].ID + 1}
			if at.Before == from.Before {
				at = from // it began on an earlier page
			}
			err := page.add(ctx, s, subs[i].ID, at)
			switch {
			case queue.CodeOf(err) == queue.CodeUnknownSubmission: // it was removed meanwhile
			case err != nil:
				return nil, nil, err
			case page.next != nil:
				return page.list, page.next, nil
			}
		}
		if to == 0 {
			return page.list, nil, nil
		}
		if before = to; len(subs) < outputsLook {
			looked = limit // it has looked at many
		}
		next = &OutputsFrom{Before: before}
	}
	return page.list, next, nil
}

// outputsPage is a page under construction.
type outputsPage struct {
	limit  int
	answer access.Gathering
	list   []api.SubmissionOutput
	next   *OutputsFrom // set when the page is full: where the next one begins
}

// add adds the outputs of a submission, from one on, until the page is full.
func (p *outputsPage) add(ctx context.Context, s *Submissions, id queue.SubmissionID, at OutputsFrom) (err error) {
	name := id.String()
	p.next, err = s.SomeOutputs(ctx, id, at, func(index uint32, output []byte) error {
		if len(p.list) == p.limit || !p.answer.Fits(len(output)) && len(p.list) > 0 {
			return ErrPageFull
		}
		p.list = append(p.list, api.SubmissionOutput{Submission: name, Index: index,
			Output: append([]byte{}, output...)})
		return nil
	})
	return err
}

// ErrPageFull is returned by a function that does not take the output that it is given: the next page begins with it.
var ErrPageFull = errors.New("the page is full")

// outputReaders is how many callers read outputs at the same time. Each has all outputs of the submission in memory
// that the store has not sorted yet, up to store.compactBytes.
const outputReaders = 4

// Outputs calls fn for all outputs of a submission, as SomeOutputs does.
func (s *Submissions) Outputs(ctx context.Context, id queue.SubmissionID,
	fn func(index uint32, output []byte) error) error {
	_, err := s.SomeOutputs(ctx, id, OutputsFrom{}, fn)
	return err
}

// SomeOutputs calls fn for the outputs of done chunks in index order, from one on, until fn returns ErrPageFull. next
// is where to go on: nil when there are no more. If outputs that the journal counted are missing, it returns an error
// at the end. fn must not wait for a client: others wait for their turn to read.
func (s *Submissions) SomeOutputs(ctx context.Context, id queue.SubmissionID, at OutputsFrom,
	fn func(index uint32, output []byte) error) (next *OutputsFrom, err error) {
	o, err := s.outcome(ctx, id)
	if err != nil {
		return nil, err
	}
	select {
	case s.reading <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.reading }()
	if at.Counted == (machine.OutputCount{}) {
		_, at.Counted = o.outputs()
	}
	err = s.Store().Outputs(ctx, o.seq, at.Index, func(index uint32, output []byte) error {
		done, err := o.isDone(ctx, index)
		if err != nil || !done {
			return err // written, but its completion is not committed
		}
		if err = fn(index, output); err == nil {
			at.Found.Add(index)
		} else {
			at.Index = index
		}
		return err
	})
	if errors.Is(err, ErrPageFull) {
		return &at, nil
	}
	if err != nil {
		return nil, err
	}
	_, now := o.outputs()
	return nil, o.missed(ctx, at.Counted.Missing(at.Found, id, now == at.Counted))
}
