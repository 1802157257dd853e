package shard

import (
	"context"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/deadletters"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// at calls act with the dead letters of a submission, once, under the mutex, and returns what the caller has to wait for. act
// encodes. The caller holds aging for reading until the commit. CodeUnknownSubmission: there is no such submission.
func (p *DeadLetters) at(ctx context.Context, id queue.SubmissionID,
	act func(g *deadletters.Holder, now queue.Time) error) (waits commit.Set, err error) {
	s := p.s
	var ended *machine.Record
	var row *checkpoint.Ended
	var rows uint64 // how many history rows had been written when this one was read
	for {
		now := s.now()
		s.mu.Lock()
		if err := s.usable(); err != nil {
			s.mu.Unlock()
			return waits, err
		}
		if rows != s.m.Rows {
			row = nil
		}
		if g := s.parts.letters.Holder(id, ended, row); g != nil {
			err := act(g, now)
			waits.Add(s.writer.pending())
			s.mu.Unlock()
			return waits, err
		}
		rows = s.m.Rows
		s.mu.Unlock()
		read, found, err := s.store.History.Ended(ctx, id)
		if err == nil && !found {
			err = unknownSubmission(id)
		}
		if err != nil {
			return waits, err
		}
		if ended, _, err = machine.EndedRecord(&read); err != nil {
			return waits, err
		}
		row = &read
	}
}

// settle does one thing with dead letters of a submission, and says with how many: those of the indexes that are not dead
// stay as they are. It returns after the commit. The indexes ascend; there are at most journal.MaxRedrive.
func (p *DeadLetters) settle(ctx context.Context, id queue.SubmissionID, indexes []uint32, f deadletters.Fate,
	acts ...queue.Act) (n int, err error) {
	s := p.s
	s.aging.RLock()
	defer s.aging.RUnlock()
	n, waits, err := p.begin(ctx, id, indexes, f, acts...)
	if err == nil && n > 0 {
		err = s.writer.wait(waits)
	}
	if err != nil {
		return 0, err
	}
	return n, nil
}

// begin is settle without the wait for the commit, until which the caller holds aging for reading.
func (p *DeadLetters) begin(ctx context.Context, id queue.SubmissionID, indexes []uint32, f deadletters.Fate,
	acts ...queue.Act) (n int, waits commit.Set, err error) {
	waits, err = p.at(ctx, id, func(g *deadletters.Holder, now queue.Time) error {
		if why := g.Refusal(f.Action, now); why != "" {
			return refusedLetters(id, why)
		}
		taken := g.Take(indexes)
		if n = len(taken); n > 0 {
			g.Decide(f, taken, now)
			p.s.m.ActLog.Tell(now, acts, nil, nil)
		}
		return nil
	})
	return n, waits, err
}

func refusedLetters(id queue.SubmissionID, why string) error {
	return &queue.Error{Code: queue.CodeConflict, Message: "Submission " + id.String() + " " + why +
		": nothing can become of its dead chunks. Insert the work again."}
}

// Redrive offers dead chunks of a submission again, with no try counted, and says how many: those of the indexes that are
// not dead stay as they are. A submission that completed with dead chunks is open again. It returns after the commit. The
// indexes ascend; there are at most journal.MaxRedrive.
func (p *DeadLetters) Redrive(ctx context.Context, id queue.SubmissionID, indexes []uint32, acts ...queue.Act) (n int, err error) {
	return p.settle(ctx, id, indexes, deadletters.Fate{Action: queue.BulkRedrive}, acts...)
}

// Delete gives dead chunks of a submission up for good: they count as skipped from then on. Otherwise it is as Redrive.
func (p *DeadLetters) Delete(ctx context.Context, id queue.SubmissionID, indexes []uint32, acts ...queue.Act) (n int, err error) {
	return p.settle(ctx, id, indexes, deadletters.Fate{Action: queue.BulkDelete}, acts...)
}

// Forward has dead chunks of a submission leave for another queue: they count as skipped from then on. Otherwise it is as Redrive.
func (p *DeadLetters) Forward(ctx context.Context, id queue.SubmissionID, indexes []uint32, to string,
	acts ...queue.Act) (n int, err error) {
	return p.settle(ctx, id, indexes, deadletters.Fate{Action: queue.BulkForward, To: to}, acts...)
}
