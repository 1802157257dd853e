package engine

import (
	"context"
	"fmt"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
)

// This file keeps one access token from taking all that the server has of submissions, meta values, consumers, rules and bulk operations.
// What a token brought is remembered with its Use, and held against what is still there; rules and bulk operations say themselves whose
// they are.

// insertShare is what an insert adds to the share of its access token when it is committed. The zero insertShare adds nothing.
type insertShare struct {
	submissions *access.Share[queue.SubmissionID] // nil: any number is allowed, and none is counted
	brought     *access.Share[access.ValueAt]
	values      []access.ValueAt // which brought gets
}

// shareOf refuses an insert for which its access token has no room.
func (e *Engine) shareOf(ctx context.Context, q *openQueue, meta queue.Meta) (insertShare, error) {
	share := insertShare{}
	use, limits := access.Of(ctx).Share()
	if use == nil {
		return share, nil
	}
	if limits.Submissions > 0 {
		share.submissions = &use.Submissions
	}
	if !use.Submissions.Room(1, limits.Submissions, e.open) {
		return insertShare{}, &queue.Error{Code: queue.CodeTooManySubmissions, Message: fmt.Sprintf(
			"This access token has %d open submissions, the most that the server's option token-submissions allows. "+
				"Send this again when some have ended, put more chunks into fewer submissions, or "+
				"have the option raised.", limits.Submissions)}
	}
	if limits.Values == 0 {
		return share, nil
	}
	share.brought = &use.Values
	for _, entry := range meta {
		if at := (access.ValueAt{Shard: q.id, MetaEntry: entry}); !e.valued(at) {
			share.values = append(share.values, at)
		}
	}
	if len(share.values) > 0 && !use.Values.Room(len(share.values), limits.Values, e.valued) {
		return insertShare{}, &queue.Error{Code: queue.CodeTooManySubmissions, Message: fmt.Sprintf(
			"Open submissions of this access token brought as many different values of meta keys as the server's "+
				"option token-meta-values allows: %d. Send this again when some have ended, "+
				"keep what differs in every submission out of its meta, or have the option raised.", limits.Values)}
	}
	return share, nil
}

func (s *insertShare) add(id queue.SubmissionID) {
	if s.submissions != nil {
		s.submissions.Add(id)
	}
	for _, at := range s.values {
		s.brought.Add(at)
	}
}

// attach attaches a consumer, if its access token has room for one more.
func (e *Engine) attach(ctx context.Context, q *openQueue, name string) (*Attached, error) {
	use, limits := access.Of(ctx).Share()
	at := access.ConsumerAt{Shard: q.id, Name: name}
	if use == nil || limits.Consumers == 0 {
		return q.shard.Consumers.Attach(name)
	}
	if !use.Consumers.Has(at) && !use.Consumers.Room(1, limits.Consumers, e.attends) {
		return nil, &queue.Error{Code: queue.CodeOverloaded, Message: fmt.Sprintf(
			"This access token has %d attached consumers, the most that the server's option token-consumers allows. "+
				"Attach when some have left, give others a token of their own, or have the option raised. Work goes "+
				"on without: only deadlines count then.", limits.Consumers)}
	}
	attached, err := q.shard.Consumers.Attach(name)
	if err == nil {
		use.Consumers.Add(at)
	}
	return attached, err
}

// ruleShare refuses a rule of an access token that has set as many of the queue's as it may: there is room for those of others, and for
// blocks. One that is there for its action and match is changed, and takes no room.
func ruleShare(ctx context.Context, q *openQueue, r *queue.Rule) error {
	token, limits := bounded(ctx)
	if token == nil || limits.Rules == 0 || q.shard.Rules.Len() < limits.Rules {
		return nil
	}
	list, own := q.shard.Rules.List(), 0
	for i := range list {
		if list[i].Action == r.Action && list[i].Match == r.Match {
			return nil
		}
		if list[i].Actor == token.Name {
			own++
		}
	}
	if own < limits.Rules {
		return nil
	}
	return &queue.Error{Code: queue.CodeOverloaded, Message: fmt.Sprintf("This access token has set %d rules of this queue, the "+
		"most that one may. Lift those that are not needed any more, or set one about the whole queue or a value of a meta key.", own)}
}

// bulkShare refuses a bulk operation of an access token of which as many run in the queue as may.
func bulkShare(ctx context.Context, q *openQueue) error {
	token, limits := bounded(ctx)
	if token == nil || limits.Bulks == 0 {
		return nil
	}
	running := 0
	for _, b := range q.shard.Bulks.List() {
		if b.State == queue.BulkRunning && b.Actor == token.Name {
			running++
		}
	}
	if running < limits.Bulks {
		return nil
	}
	return &queue.Error{Code: queue.CodeOverloaded, Message: fmt.Sprintf("%d bulk operations of this access token run in this "+
		"queue, the most of one token. Wait for one to end, or cancel one.", running)}
}

// bounded is the access token of a request and what it may have of a queue's rules and bulk operations; nil for an admin, who must be
// able to put in order what others did.
func bounded(ctx context.Context) (*access.Token, *access.Limits) {
	caller := access.Of(ctx)
	if use, limits := caller.Share(); use != nil && caller.Token.Scopes&access.Admin == 0 {
		return caller.Token, limits
	}
	return nil, nil
}

// shardOf is the queue of a shard; nil if it was deleted.
func (e *Engine) shardOf(id queue.ShardID) *openQueue {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.shards[id]
}

func (e *Engine) open(id queue.SubmissionID) bool {
	q := e.shardOf(id.Shard())
	return q != nil && q.shard.Submissions.Open(id)
}

func (e *Engine) valued(at access.ValueAt) bool {
	q := e.shardOf(at.Shard)
	return q != nil && q.shard.Values.Get(at.MetaEntry).Submissions > 0
}

func (e *Engine) attends(at access.ConsumerAt) bool {
	q := e.shardOf(at.Shard)
	return q != nil && q.shard.Consumers.Attends(at.Name)
}
