package shard

import (
	"context"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/contents"
	"github.com/quern-queue/quern/engine/shard/deadletters"
)

// InsertMany makes submissions exist, see inserts.Inserts.Many.
func (s *Shard) InsertMany(ctx context.Context, list []queue.Insertion, atomic bool) error {
	return s.inserts.Many(ctx, list, atomic)
}

// Insert makes a submission exist and returns it as it was at that moment. A repeated idempotency key returns the first
// insert's submission as it is now, and replayed = true, so that a caller that repeats an insert learns its state.
// Another request under the same key is refused. CodeUnknownSubmission: the retention of the first submission is over.
func (s *Shard) Insert(ctx context.Context, n *queue.NewSubmission) (sub queue.Submission, replayed bool, err error) {
	one := []queue.Insertion{{New: n}}
	if err := s.InsertMany(ctx, one, false); err != nil {
		return sub, false, err
	}
	return one[0].Submission, one[0].Replayed, one[0].Err
}

// Repeated answers an insert that came before, see inserts.Inserts.Repeated.
func (s *Shard) Repeated(ctx context.Context, in *queue.Insertion) { s.inserts.Repeated(ctx, in) }

// intake is how dead letters of other queues come in.
func (s *Shard) intake() deadletters.Intake {
	return deadletters.Intake{
		Room: func(list []queue.Delivery) error {
			if s.full.Load() {
				return commit.Failed(journal.ErrFull)
			}
			bytes := 0
			for i := range list {
				bytes += contents.Size(&list[i].Submission)
			}
			return s.contents.Room(bytes)
		},
		Admit: s.options.Live.Admit, Release: s.options.Live.Release, Pack: s.contents.Pack,
		Blobs: contents.Emitted{Contents: &s.contents}, Bytes: s.contents.Bytes(),
	}
}

// countLive tells the server how many submissions the shard has open now. The mutex is held.
func (s *Shard) countLive() {
	n := int64(s.m.Backlog.Len())
	s.options.Live.Opened(n - s.live)
	s.live = n
}
