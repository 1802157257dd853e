package engine

import (
	"context"
	"fmt"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
)

// This file keeps one access token from using up the server's room for submissions, meta values, consumers, rules and bulk operations. A
// token's Use remembers the things that it brought, and is compared with those that still exist. Rules and bulk operations name their
// owners themselves.

// insertShare is what a call's inserts add to the shares of its access token when they are committed. The zero insertShare adds nothing.
type insertShare struct {
	e      *Engine
	shard  queue.ShardID
	use    *access.Use // nil: nothing is bounded
	limits *access.Limits

	submissions int                         // that the call may add
	values      map[access.ValueAt]struct{} // likewise
	keys        map[string]struct{}         // of those submissions: another insert with one of these keys adds nothing
}

// shareOf is the room that the caller's access token has for inserts into a queue.
func shareOf(ctx context.Context, q *Queue) insertShare {
	use, limits := access.Of(ctx).Share()
	return insertShare{e: q.e, shard: q.id, use: use, limits: limits}
}

// take refuses an insert for which the access token has no room beside those that were taken before.
func (s *insertShare) take(n *queue.NewSubmission) error {
	if s.use == nil {
		return nil
	}
	if _, again := s.keys[n.IdempotencyKey]; again {
		return nil
	}
	if !s.use.Submissions.Room(s.submissions+1, s.limits.Submissions, s.e.open) {
		return &queue.Error{Code: queue.CodeTooManySubmissions, Message: fmt.Sprintf(
			"This access token has %s, the most that the server's option token-submissions allows. "+
				"Send this again when some have ended, put more chunks into fewer submissions, or "+
				"have the option raised.", queue.Exactly(uint64(s.limits.Submissions), "open submission"))}
	}
	if err := s.takeValues(n.Meta); err != nil {
		return err
	}
	s.submissions++
	if n.IdempotencyKey != "" {
		if s.keys == nil {
			s.keys = map[string]struct{}{}
		}
		s.keys[n.IdempotencyKey] = struct{}{}
	}
	return nil
}

func (s *insertShare) takeValues(meta queue.Meta) error {
	if s.limits.Values == 0 {
		return nil
	}
	fresh := make([]access.ValueAt, 0, len(meta))
	for _, entry := range meta {
		at := access.ValueAt{Shard: s.shard, MetaEntry: entry}
		if _, taken := s.values[at]; !taken && !s.e.valued(at) {
			fresh = append(fresh, at)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	if !s.use.Values.Room(len(s.values)+len(fresh), s.limits.Values, s.e.valued) {
		return &queue.Error{Code: queue.CodeTooManySubmissions, Message: fmt.Sprintf(
			"Open submissions of this access token brought as many different values of meta keys as the server's "+
				"option token-meta-values allows: %d. Send this again when some have ended, "+
				"keep what differs in every submission out of its meta, or have the option raised.", s.limits.Values)}
	}
	if s.values == nil {
		s.values = map[access.ValueAt]struct{}{}
	}
	for _, at := range fresh {
		s.values[at] = struct{}{}
	}
	return nil
}

// add notes what was inserted.
func (s *insertShare) add(list []queue.Insertion) {
	if s.use == nil {
		return
	}
	for i := range list {
		if list[i].Decided() {
			continue
		}
		if s.limits.Submissions > 0 {
			s.use.Submissions.Add(list[i].Submission.ID)
		}
		for _, entry := range list[i].New.Meta {
			at := access.ValueAt{Shard: s.shard, MetaEntry: entry}
			if _, brought := s.values[at]; brought {
				s.use.Values.Add(at)
			}
		}
	}
}

// attach attaches a consumer, if its access token has room for one more.
func (q *Queue) attach(ctx context.Context, name, incarnation string) (*Attached, error) {
	use, limits := access.Of(ctx).Share()
	at := access.ConsumerAt{Shard: q.id, Name: name}
	if use == nil || limits.Consumers == 0 {
		return q.shard.Consumers.Attach(name, incarnation)
	}
	if !use.Consumers.Has(at) && !use.Consumers.Room(1, limits.Consumers, q.e.attends) {
		return nil, &queue.Error{Code: queue.CodeOverloaded, Message: fmt.Sprintf(
			"This access token has %d attached consumers, the most that the server's option token-consumers allows. "+
				"Attach when some have left, give others a token of their own, or have the option raised. Work goes "+
				"on without: only deadlines count then.", limits.Consumers)}
	}
	attached, err := q.shard.Consumers.Attach(name, incarnation)
	if err == nil {
		use.Consumers.Add(at)
	}
	return attached, err
}

// ruleShare refuses a rule of an access token that has set as many rules of the queue as it may, so that others have room for theirs, and
// for blocks. If a rule with its action and match is there, that one is changed, and no room is taken.
func ruleShare(ctx context.Context, q *Queue, r *queue.Rule) error {
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

// bulkShare refuses a bulk operation if the access token has as many running in the queue as it may.
func bulkShare(ctx context.Context, q *Queue) error {
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

// bounded is the access token of a request, and its limits on a queue's rules and bulk operations; nil for an admin, who must be able to
// repair what others did.
func bounded(ctx context.Context) (*access.Token, *access.Limits) {
	caller := access.Of(ctx)
	if use, limits := caller.Share(); use != nil && caller.Token.Scopes&access.Admin == 0 {
		return caller.Token, limits
	}
	return nil, nil
}

// shardOf is the queue of a shard; nil if it was deleted.
func (e *Engine) shardOf(id queue.ShardID) *Queue {
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
