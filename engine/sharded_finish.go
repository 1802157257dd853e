package engine

// Finishing chunks of several shards. Ids name their shards, so the items of a call go to the shards that have them, all
// at once, and the results come back in the order of the items. If a shard fails, so does the call: the client sends it again, and items
// that were finished before answer "already".

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/quern-queue/quern/engine/queue"
)

// Complete finishes chunks. One result per item is appended to dst, in order.
func (s *Sharded) Complete(ctx context.Context, items []queue.CompleteItem, dst []queue.Result) ([]queue.Result, error) {
	if err := validCompletes(items); err != nil {
		return dst, err
	}
	return s.complete(ctx, items, dst)
}

// complete refuses submissions that a completion inserts if their group is in another shard, because both are one commit.
func (s *Sharded) complete(ctx context.Context, items []queue.CompleteItem, dst []queue.Result) ([]queue.Result, error) {
	for i := range items {
		if len(items[i].Insert) == 0 {
			continue
		}
		if q := s.e.shardOf(items[i].Token.Submission.Shard()); q != nil && s.has(q) {
			if err := s.brought(q, i, items[i].Insert); err != nil {
				return dst, err
			}
		}
	}
	if s.Spread() && !Bring(items) {
		done, err := (&Finishing{Complete: items}).runAll(ctx, s)
		return append(dst, done.Complete...), err
	}
	return spread(ctx, s, items, dst, tokenOfComplete, (*Queue).complete)
}

// runAll finishes chunks in shards of several nodes.
func (f *Finishing) runAll(ctx context.Context, s *Sharded) (Finished, error) {
	in := errands{s: s, asked: errand{finish: *f}}
	if err := in.do(ctx); err != nil {
		return Finished{}, err
	}
	return in.done.finished, nil
}

// Bring says that completions insert submissions. Only the nodes of their shards can do them, because they know what may be inserted there.
func Bring(items []queue.CompleteItem) bool {
	return slices.ContainsFunc(items, func(i queue.CompleteItem) bool { return len(i.Insert) > 0 })
}

// Finishing has the items that a call finishes.
type Finishing struct {
	Complete []queue.CompleteItem
	Fail     []queue.FailItem
	Extend   []queue.ExtendItem
	Release  []queue.ReleaseItem
}

// Finishable refuses items that no shard would finish, before any shard has done its part.
func (s *Sharded) Finishable(f *Finishing) error {
	for _, err := range []error{validCompletes(f.Complete), validFails(f.Fail, queue.At(s.e.options.Now())),
		validExtends(f.Extend), validReleases(f.Release), s.mayBring(f.Complete)} {
		if err != nil {
			return err
		}
	}
	return nil
}

// mayBring refuses submissions that completions insert if their group is in another shard than the completed chunk. A new group may get
// that shard.
func (s *Sharded) mayBring(items []queue.CompleteItem) error {
	for i := range items {
		if len(items[i].Insert) == 0 {
			continue
		}
		number := max(1, s.e.NumberIn(s.name, items[i].Token.Submission))
		for n := range items[i].Insert {
			if err := apart(s, i, n, number, items[i].Insert[n].New); err != nil {
				return err
			}
		}
	}
	return nil
}

// apart refuses submission n of completion i if its group is in another shard than the chunk.
func apart(s *Sharded, i, n, number int, of *queue.NewSubmission) error {
	name := of.Meta.GroupOf()
	if at := s.groups.of(name); at != 0 && at != number {
		return queue.Invalid(fmt.Sprintf("/items/%d/insert/%d/group", i, n), "is %q, which belongs to shard %d of the queue, and the "+
			"chunk is in shard %d: insert the submission with a call of its own", clip(name, 80), at, number)
	}
	return nil
}

// brought checks the submissions that the completion of item i inserts into a shard.
func (s *Sharded) brought(q *Queue, i int, list []queue.Insertion) error {
	for n := range list {
		if err := apart(s, i, n, s.number(q), list[n].New); err != nil {
			return err
		}
		if err := s.belongs(q, list[n].New); err != nil {
			return queue.Repointed(err, func(pointer string) string { return fmt.Sprintf("/items/%d/insert/%d%s", i, n, pointer) })
		}
	}
	return nil
}

// Fail reports tries that did not succeed. One result per item is appended to dst, in order.
func (s *Sharded) Fail(ctx context.Context, items []queue.FailItem, dst []queue.Result) ([]queue.Result, error) {
	if err := validFails(items, queue.At(s.e.options.Now())); err != nil {
		return dst, err
	}
	return s.fail(ctx, items, dst)
}

func (s *Sharded) fail(ctx context.Context, items []queue.FailItem, dst []queue.Result) ([]queue.Result, error) {
	if s.Spread() {
		done, err := (&Finishing{Fail: items}).runAll(ctx, s)
		return append(dst, done.Fail...), err
	}
	return spread(ctx, s, items, dst, tokenOfFail, (*Queue).fail)
}

// Extend moves deadlines. One result per item is appended to dst, in order.
func (s *Sharded) Extend(ctx context.Context, items []queue.ExtendItem, dst []queue.Result) ([]queue.Result, error) {
	if err := validExtends(items); err != nil {
		return dst, err
	}
	return s.extend(ctx, items, dst)
}

func (s *Sharded) extend(ctx context.Context, items []queue.ExtendItem, dst []queue.Result) ([]queue.Result, error) {
	if s.Spread() {
		done, err := (&Finishing{Extend: items}).runAll(ctx, s)
		return append(dst, done.Extend...), err
	}
	return spread(ctx, s, items, dst, tokenOfExtend, (*Queue).extend)
}

// Release gives chunks back unworked. One result per item is appended to dst, in order.
func (s *Sharded) Release(ctx context.Context, items []queue.ReleaseItem, dst []queue.Result) ([]queue.Result, error) {
	if err := validReleases(items); err != nil {
		return dst, err
	}
	if s.Spread() {
		done, err := (&Finishing{Release: items}).runAll(ctx, s)
		return append(dst, done.Release...), err
	}
	return spread(ctx, s, items, dst, tokenOfRelease, (*Queue).Release)
}

// GiveBack releases chunks of a queue whose consumer went away before it heard of them, in the shards of all nodes. Chunks that cannot be
// reached go back at their deadlines.
func GiveBack(ctx context.Context, w Work, list []queue.Reservation) {
	_, _ = w.Release(context.WithoutCancel(ctx), releases(list), nil)
}

func releases(list []queue.Reservation) []queue.ReleaseItem {
	items := make([]queue.ReleaseItem, len(list))
	for i := range list {
		items[i].Token = list[i].Token
	}
	return items
}

// Exchange finishes first, waits for the commits, and then reserves, as Queue.Exchange does. With shards on several nodes, each node
// finishes the chunks of its shards, all nodes at the same time, and then chunks are taken. That is exact, because one shard has all of a
// group, and nothing else is counted over several shards.
func (s *Sharded) Exchange(ctx context.Context, x Exchange, out *Exchanged) error {
	settings, err := s.settings()
	if err != nil {
		return err
	}
	now := queue.At(s.e.options.Now())
	w := &errands{s: s, asked: errand{finish: Finishing{Complete: x.Complete, Fail: x.Fail, Extend: x.Extend}}}
	if w.asked.finish.Empty() || !s.Spread() || Bring(x.Complete) {
		return exchange(ctx, s, settings, now, x, out)
	}
	out.Complete, out.Fail, out.Extend = out.Complete[:0], out.Fail[:0], out.Extend[:0]
	out.Reserve = ReserveResult{Reservations: out.Reserve.Reservations[:0]}
	if err := x.check(settings, now); err != nil {
		return err
	}
	m := lookBeside(ctx, w, x.Reserve, out.Reserve.Reservations)
	if err := w.do(ctx); err != nil {
		return err
	}
	done := &w.done.finished
	out.Complete = append(out.Complete, done.Complete...)
	out.Fail, out.Extend = append(out.Fail, done.Fail...), append(out.Extend, done.Extend...)
	switch {
	case x.Reserve == nil:
	case m != nil && (m.takeLooked(w) || x.Reserve.Wait == 0):
		out.Reserve, err = m.result()
	default:
		out.Reserve, err = s.reserve(ctx, x.Reserve, out.Reserve.Reservations)
	}
	return err
}

// lookBeside has the errands of an exchange look at the next chunks, if several shards may give some. nil: they do not. Nothing is taken
// yet: if the results failed at one node, a failed call would hold chunks that another consumer wants.
func lookBeside(ctx context.Context, w *errands, r *ReserveRequest, dst []queue.Reservation) *merging {
	if r == nil || r.Plan.Percents() || w.s.mergeable(r.Plan) != nil {
		return nil
	}
	of := w.s.serving(r.Plan)
	if len(of.shards) < 2 || of.few {
		return nil
	}
	m := newMerging(ctx, w.s, of.shards, r, dst)
	finish := w.asked.finish
	w.asked = m.errands().asked
	w.asked.finish = finish
	w.asked.looks = m.numbers()
	return m
}

// Check refuses an exchange that no shard would do.
func (s *Sharded) Check(x *Exchange) error {
	settings, err := s.settings()
	if err != nil {
		return err
	}
	if err := x.check(settings, queue.At(s.e.options.Now())); err != nil {
		return err
	}
	return below("/complete", s.mayBring(x.Complete))
}

// spread has each shard do its part of the items of a call, and puts the results together. A token of no shard of the
// queue goes to the first one, which does not know it.
func spread[T any](ctx context.Context, s *Sharded, items []T, dst []queue.Result, token func(*T) *queue.Token,
	do func(q *Queue, ctx context.Context, part []T, dst []queue.Result) ([]queue.Result, error)) ([]queue.Result, error) {
	if q := onlyShard(s, items, token); q != nil {
		return do(q, ctx, items, dst)
	}
	parts, err := partsOf(s, items, token)
	if err != nil {
		return dst, err
	}
	from := len(dst)
	dst = append(dst, make([]queue.Result, len(items))...)
	failed := make([]error, len(parts))
	var group sync.WaitGroup
	for n := range parts {
		group.Go(func() {
			p := &parts[n]
			results, err := do(p.q, ctx, p.items, nil)
			if failed[n] = err; err != nil {
				return
			}
			for k, i := range p.places {
				dst[from+i] = results[k]
			}
		})
	}
	group.Wait()
	if err := errors.Join(failed...); err != nil {
		return dst[:from], err
	}
	return dst, nil
}

// onlyShard is the shard that has all items; nil: there are several, or it does not serve.
func onlyShard[T any](s *Sharded, items []T, token func(*T) *queue.Token) *Queue {
	for i := range items {
		if token(&items[i]).Submission.Shard() != token(&items[0]).Submission.Shard() {
			return nil
		}
	}
	if len(items) > 0 {
		if q := s.e.shardOf(token(&items[0]).Submission.Shard()); q != nil && s.has(q) {
			return q
		}
	}
	return nil
}

// part is the part of a call that one shard does.
type part[T any] struct {
	q      *Queue
	items  []T
	places []int // of the items in the call
}

func partsOf[T any](s *Sharded, items []T, token func(*T) *queue.Token) (parts []part[T], err error) {
	first, err := s.one()
	if err != nil {
		return nil, err
	}
	at := map[*Queue]int{}
	for i := range items {
		q := s.e.shardOf(token(&items[i]).Submission.Shard())
		if q == nil {
			if err := s.absent(token(&items[i]).Submission); err != nil {
				return nil, err
			}
		}
		if q == nil || !s.has(q) {
			q = first
		}
		n, known := at[q]
		if !known {
			n = len(parts)
			at[q], parts = n, append(parts, part[T]{q: q})
		}
		parts[n].items, parts[n].places = append(parts[n].items, items[i]), append(parts[n].places, i)
	}
	return parts, nil
}

// absent says why the shard of a submission does not serve; nil: it is no shard of this queue.
func (s *Sharded) absent(id queue.SubmissionID) error {
	s.e.mu.RLock()
	defer s.e.mu.RUnlock()
	for i := range s.e.quarantine {
		aside := &s.e.quarantine[i]
		if name, _ := queue.CutShard(aside.Name); name == s.name && aside.Shard == id.Shard() {
			return aside.refusal()
		}
	}
	if known := s.e.nodes.queues(); known != nil && known.byShard[id.Shard()] != nil {
		row := known.byShard[id.Shard()]
		if name, _ := queue.CutShard(row.Name); name == s.name { // it was not here a moment ago
			return s.e.nodes.refusal(row)
		}
	}
	return nil
}

func tokenOfComplete(i *queue.CompleteItem) *queue.Token { return &i.Token }
func tokenOfFail(i *queue.FailItem) *queue.Token         { return &i.Token }
func tokenOfExtend(i *queue.ExtendItem) *queue.Token     { return &i.Token }
func tokenOfRelease(i *queue.ReleaseItem) *queue.Token   { return &i.Token }
