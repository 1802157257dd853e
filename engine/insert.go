package engine

import (
	"context"

	"github.com/quern-queue/quern/engine/queue"
)

// Insert makes a submission exist; it is durable and visible when Insert returns. With an idempotency key that came before (within
// queue.IdempotencyWindow), it returns the submission of the first insert as it is now, and replayed = true. queue.CodeUnknownSubmission:
// the retention of that submission is over.
func (q *Queue) Insert(ctx context.Context, n queue.NewSubmission) (s queue.Submission, replayed bool, err error) {
	one := []queue.Insertion{{New: &n}}
	if err := q.InsertMany(ctx, one, false); err != nil {
		return s, false, err
	}
	return one[0].Submission, one[0].Replayed, one[0].Err
}

// InsertMany makes submissions exist, in one commit, and puts the result of each into the list, like that of Insert. An entry that has an
// Err already is not inserted. An atomic call inserts all, or none if one is invalid or refused. If the call returns an error, the outcome
// of each is unknown: with idempotency keys the call can be repeated. The engine keeps the data that the list points to.
func (q *Queue) InsertMany(ctx context.Context, list []queue.Insertion, atomic bool) error {
	if err := validInsertions(list); err != nil {
		return err
	}
	fitSettings(q.config.Load(), list)
	q.splitting.RLock()
	defer q.splitting.RUnlock()
	if many := q.many.Load(); many != nil {
		many.fit(q, list)
	}
	return q.insertMany(ctx, list, atomic)
}

// validInsertions checks each of them, and all together.
func validInsertions(list []queue.Insertion) error {
	for i := range list {
		if in := &list[i]; in.Err == nil {
			in.Err = validInsert(in.New)
		}
	}
	return queue.ValidInsertions(list)
}

// insertMany inserts submissions that are checked and belong to this queue.
func (q *Queue) insertMany(ctx context.Context, list []queue.Insertion, atomic bool) error {
	if many := q.many.Load(); many != nil {
		answerRepeated(ctx, many, many.number(q), list)
	}
	share := shareOf(ctx, q)
	for i := range list {
		if in := &list[i]; in.Err == nil {
			q.takeShare(ctx, &share, in)
		}
	}
	if atomic && queue.RefuseAll(list) {
		return nil
	}
	if err := q.shard.InsertMany(ctx, list, atomic); err != nil {
		return err
	}
	share.add(list)
	return nil
}

// takeShare refuses an insert for which the caller's access token has no room. A repeated insert is answered all the same.
func (q *Queue) takeShare(ctx context.Context, share *insertShare, in *queue.Insertion) {
	if refused := share.take(in.New); refused != nil {
		if q.shard.Repeated(ctx, in); !in.Decided() {
			in.Err = refused
		}
	}
}
