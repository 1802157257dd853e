package engine

// An errand is the part of a call that one node does in the shards that it serves. It finishes chunks, waits for the commits, takes chunks,
// and looks at the next ones. So a call about shards of several nodes costs one round trip to each of them, all at once:
//
//	exchange ─► errands ─┬─► this node: its shards
//	                     ├─► node B: finish, look ──► results, what is next
//	                     └─► node C: finish, look ──► results, what is next
//	then     ─► errands ─── to the nodes whose turn it is: take ──► reservations
//
// If one of the shards is elsewhere by now, the node refuses the errand before it does any of it, and says where the shard is. Then the
// errands are made again. If a node does not answer, no one knows what it has done, and the call fails. The client sends it again, and
// finished items answer "already".

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// errand is the request to a node.
type errand struct {
	finish Finishing

	strategy string         // of what is taken and looked at
	plan     *strategy.Plan // of the strategy; nil: it was not parsed yet
	named    string         // the name that the strategy was asked for by
	consumer string
	context  queue.Meta
	timeout  time.Duration
	wait     time.Duration // of a take that is the whole call
	limited  int
	takes    []taking
	looks    []int // shards whose heads the caller wants
}

// taking is a take from one shard.
type taking struct {
	shard    int
	branch   int // of the plan; -1: all of them
	most     int
	answered int
	whole    bool // the shard is all that the call is about
	machine.Turn
}

// errandDone is the answer. It has a result for each item, take and look of the errand.
type errandDone struct {
	finished Finished
	took     []took
	looked   []looking
}

// Finished are the results of the items that a call finishes.
type Finished struct{ Complete, Fail, Extend, Release []queue.Result }

// took is the result of a take. If one shard refuses, others still give.
type took struct {
	machine.Reserved
	heads []backlog.Head // the next chunks of the branch; none: no one looked
	err   error
}

type looking struct {
	heads []backlog.Head
	err   error
}

// run does an errand in shards of this node.
func (in *errand) run(ctx context.Context, s *Sharded) (out errandDone, err error) {
	if err := in.isHere(s); err != nil {
		return out, err
	}
	if out.finished, err = in.finish.run(ctx, s); err != nil {
		return out, begun(err)
	}
	if len(in.takes)+len(in.looks) == 0 {
		return out, nil
	}
	plan := in.plan
	if plan == nil {
		if plan, err = planFrom(s.e, in.strategy); err != nil {
			return out, err
		}
	}
	asked := ReserveRequest{Plan: plan, Consumer: in.consumer, Context: in.context, Wait: in.wait, Timeout: in.timeout,
		Strategy: in.named, Limited: in.limited}
	for i := range in.takes {
		out.took = append(out.took, in.takes[i].run(ctx, s, &asked))
	}
	for _, number := range in.looks {
		var l looking
		q, err := s.own(number)
		if l.err = err; err == nil {
			l.heads, l.err = ownShard{q, number}.heads(ctx, plan)
		}
		out.looked = append(out.looked, l)
	}
	return out, nil
}

// begun is the error of an errand that may be partly done. It does not say where the shard is by now: the errand would be done again there,
// and the first answer that the client gets would say "already".
func begun(err error) error {
	if refused, is := errors.AsType[*queue.Error](err); is {
		plain := *refused
		plain.Err = nil
		return &plain
	}
	return err
}

// isHere refuses an errand about shards that are at another node. A take from a shard that no node serves is refused by itself.
func (in *errand) isHere(s *Sharded) error {
	for _, number := range in.finish.numbers(s) {
		if _, err := s.own(number); err != nil {
			return err
		}
	}
	numbers := slices.Clone(in.looks)
	for i := range in.takes {
		numbers = append(numbers, in.takes[i].shard)
	}
	for _, number := range numbers {
		_, err := s.own(number)
		if at, elsewhere := errors.AsType[*Elsewhere](err); elsewhere && at.URL != "" {
			return err
		}
	}
	return nil
}

// Homes are the names of the shards in which something is finished, as they are asked: "orders~2".
func (f *Finishing) Homes(s *Sharded) (names []string) {
	for _, number := range f.numbers(s) {
		names = append(names, queue.ShardName(s.name, number))
	}
	return names
}

// numbers are the numbers of the shards in which something is finished.
func (f *Finishing) numbers(s *Sharded) (numbers []int) {
	of := numbering{s: s}
	for token := range f.tokens {
		if number := of.number(token.Submission); !slices.Contains(numbers, number) {
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// numbering finds the numbers of the shards of submissions, for one call, most of whose items are in few shards. A submission of no shard
// of the queue goes to the first one, which does not know it.
type numbering struct {
	s     *Sharded
	known map[queue.ShardID]int
	last  queue.ShardID // of the number before
	is    int
}

func (n *numbering) number(id queue.SubmissionID) int {
	shard := id.Shard()
	if n.is != 0 && shard == n.last {
		return n.is
	}
	number, known := n.known[shard]
	if !known {
		if n.known == nil {
			n.known = map[queue.ShardID]int{}
		}
		number = max(1, n.s.e.NumberIn(n.s.name, id))
		n.known[shard] = number
	}
	n.last, n.is = shard, number
	return number
}

// Empty says that there is nothing to finish.
func (f *Finishing) Empty() bool {
	return len(f.Complete)+len(f.Fail)+len(f.Extend)+len(f.Release) == 0
}

// tokens goes through the tokens of all items.
func (f *Finishing) tokens(yield func(*queue.Token) bool) {
	for i := range f.Complete {
		if !yield(&f.Complete[i].Token) {
			return
		}
	}
	for i := range f.Fail {
		if !yield(&f.Fail[i].Token) {
			return
		}
	}
	for i := range f.Extend {
		if !yield(&f.Extend[i].Token) {
			return
		}
	}
	for i := range f.Release {
		if !yield(&f.Release[i].Token) {
			return
		}
	}
}

// run finishes chunks of shards that this node serves.
func (f *Finishing) run(ctx context.Context, s *Sharded) (out Finished, err error) {
	if len(f.Complete) > 0 {
		out.Complete, err = spread(ctx, s, f.Complete, nil, tokenOfComplete, (*Queue).complete)
	}
	if err == nil && len(f.Fail) > 0 {
		out.Fail, err = spread(ctx, s, f.Fail, nil, tokenOfFail, (*Queue).fail)
	}
	if err == nil && len(f.Extend) > 0 {
		out.Extend, err = spread(ctx, s, f.Extend, nil, tokenOfExtend, (*Queue).extend)
	}
	if err == nil && len(f.Release) > 0 {
		out.Release, err = spread(ctx, s, f.Release, nil, tokenOfRelease, (*Queue).Release)
	}
	return out, err
}

// run takes from a shard of this node.
func (t *taking) run(ctx context.Context, s *Sharded, asked *ReserveRequest) (out took) {
	q, err := s.own(t.shard)
	if err != nil {
		return took{err: err}
	}
	one := *asked
	if one.Max = t.most; t.whole {
		got, err := q.Reserve(ctx, one, nil)
		return took{Reserved: machine.Reserved{Reservations: got.Reservations, Reason: got.Reason, RetryAfter: got.RetryAfter,
			Limited: got.Limited}, err: err}
	}
	if t.branch >= len(one.Plan.Branches) {
		return took{err: queue.Invalid("/strategy", "has no branch %d", t.branch)}
	}
	if t.branch >= 0 {
		one.Plan = branchOf(one.Plan, t.branch)
	}
	request := machine.Request{Plan: one.Plan, Max: one.Max, Consumer: one.Consumer, Context: one.Context, Timeout: one.Timeout,
		Limited: one.Limited, Answered: t.answered}
	if t.Bound != nil || t.Weight > 0 {
		request.Turn = &t.Turn
	}
	out.Reserved, _, out.err = ownShard{q, t.shard}.take(ctx, &one, t.branch, request, nil)
	if out.err == nil && t.branch >= 0 {
		out.heads, out.err = ownShard{q, t.shard}.heads(ctx, one.Plan)
	}
	return out
}

// errands are the parts of one call: asked has its items, and done the results.
type errands struct {
	s      *Sharded
	asked  errand
	done   errandDone
	places map[int]string // URLs of the nodes of shards, by their numbers; "": this node
	parts  []*errandPart
	number numbering
}

// errandPart is the part of the call that one node does.
type errandPart struct {
	url  string
	at   things
	done errandDone
	err  error
}

// things are places in the lists of an errand: of complete, fail, extend, release, takes and looks.
type things [6][]int

// firstTake is where the takes are in things. The items before them must be done, or the call fails.
const firstTake = 4

// onlyTake says that there is nothing to finish.
func (at *things) onlyTake() bool {
	return !slices.ContainsFunc(at[:firstTake], func(places []int) bool { return len(places) > 0 })
}

// all are the places of everything that an errand asks for.
func (in *errand) all() (all things) {
	for kind, n := range [6]int{len(in.finish.Complete), len(in.finish.Fail), len(in.finish.Extend), len(in.finish.Release),
		len(in.takes), len(in.looks)} {
		for i := range n {
			all[kind] = append(all[kind], i)
		}
	}
	return all
}

// some is the part of an errand that is at some places.
func (in *errand) some(at *things) errand {
	part := *in
	part.finish = Finishing{pick(in.finish.Complete, at[0]), pick(in.finish.Fail, at[1]), pick(in.finish.Extend, at[2]),
		pick(in.finish.Release, at[3])}
	part.takes, part.looks = pick(in.takes, at[4]), pick(in.looks, at[5])
	return part
}

// room makes room for the results of an errand.
func (in *errand) room() errandDone {
	f := &in.finish
	return errandDone{Finished{make([]queue.Result, len(f.Complete)), make([]queue.Result, len(f.Fail)),
		make([]queue.Result, len(f.Extend)), make([]queue.Result, len(f.Release))},
		make([]took, len(in.takes)), make([]looking, len(in.looks))}
}

// put puts the results of a part into their places in the call. It fails if there is not one for each thing.
func (out *errandDone) put(part *errandDone, at *things) bool {
	whole, some := &out.finished, &part.finished
	return scatter(whole.Complete, some.Complete, at[0]) && scatter(whole.Fail, some.Fail, at[1]) &&
		scatter(whole.Extend, some.Extend, at[2]) && scatter(whole.Release, some.Release, at[3]) &&
		scatter(out.took, part.took, at[4]) && scatter(out.looked, part.looked, at[5])
}

func pick[T any](list []T, at []int) (some []T) {
	if len(at) == len(list) { // the places ascend
		return list
	}
	some = make([]T, len(at))
	for k, i := range at {
		some[k] = list[i]
	}
	return some
}

func scatter[T any](whole, some []T, at []int) bool {
	if len(some) != len(at) {
		return false
	}
	for k, i := range at {
		whole[i] = some[k]
	}
	return true
}

// shardOf is the number of the shard that a thing is about. A token of no shard goes to the first one, which does not know it.
func (e *errands) shardOf(kind, i int) int {
	f, token := &e.asked.finish, (*queue.Token)(nil)
	switch kind {
	case 0:
		token = &f.Complete[i].Token
	case 1:
		token = &f.Fail[i].Token
	case 2:
		token = &f.Extend[i].Token
	case 3:
		token = &f.Release[i].Token
	case 4:
		return e.asked.takes[i].shard
	default:
		return e.asked.looks[i]
	}
	return e.number.number(token.Submission)
}

// errandRounds is how often a call is divided. It is divided again if shards were elsewhere by the time that their nodes were asked.
const errandRounds = 3

// do has the nodes do their parts. It fails with CodeCommitFailed if a part that finishes chunks failed, because other parts may be done.
func (e *errands) do(ctx context.Context) error {
	e.places, e.done, e.number = map[int]string{}, e.asked.room(), numbering{s: e.s}
	left := e.asked.all()
	for round := 1; ; round++ {
		if err := e.divide(&left); err != nil {
			return err
		}
		e.carry(ctx)
		var refused, failed error
		if left, refused, failed = e.collect(); failed == nil && refused != nil && round == errandRounds {
			failed = refused
		}
		if failed != nil && !e.asked.finish.Empty() { // other parts may be done: this is no refusal of the whole call
			return &queue.Error{Code: queue.CodeCommitFailed, Message: "A part of the call failed, and others may be done. " +
				"Send it again: what is done answers \"already\". " + failed.Error()}
		}
		if failed != nil || refused == nil {
			return failed
		}
	}
}

// refuse notes that a take or a look has failed.
func (e *errands) refuse(kind, i int, err error) {
	if kind == firstTake {
		e.done.took[i].err = err
	} else {
		e.done.looked[i].err = err
	}
}

// divide makes parts of the items that are left. It fails if a shard with items to finish has no node.
func (e *errands) divide(left *things) error {
	e.parts = nil
	for kind, places := range left {
		for _, i := range places {
			number := e.shardOf(kind, i)
			url, known := e.places[number]
			if !known {
				if _, err := e.s.shard(number); err != nil {
					at := e.s.farAt(number)
					if at == nil && kind < firstTake {
						return err
					} else if at == nil {
						e.refuse(kind, i, err)
						continue
					}
					url = at.URL
				}
				e.places[number] = url
			}
			p := e.partAt(url)
			p.at[kind] = append(p.at[kind], i)
		}
	}
	return nil
}

func (e *errands) partAt(url string) *errandPart {
	for _, p := range e.parts {
		if p.url == url {
			return p
		}
	}
	e.parts = append(e.parts, &errandPart{url: url})
	return e.parts[len(e.parts)-1]
}

// carry has all nodes do their parts at once.
func (e *errands) carry(ctx context.Context) {
	var others sync.WaitGroup
	for _, p := range e.parts {
		if p.url != "" {
			some := e.asked.some(&p.at)
			others.Go(func() { p.done, p.err = some.runAt(ctx, e.s, p.url) })
		}
	}
	for _, p := range e.parts {
		if p.url == "" {
			some := e.asked.some(&p.at)
			p.done, p.err = some.run(ctx, e.s)
		}
	}
	others.Wait()
}

// collect puts the results of the parts together. left has the items that were not done, because their shard is elsewhere (refused).
func (e *errands) collect() (left things, refused, failed error) {
	for _, p := range e.parts {
		at, elsewhere := errors.AsType[*Elsewhere](p.err)
		switch {
		case p.err == nil && !e.done.put(&p.done, &p.at):
			failed = fmt.Errorf("the node at %q has other results than it was asked for", p.url)
		case p.err == nil:
		case elsewhere && at.URL != "" && at.URL != p.url:
			_, number := queue.CutShard(at.Queue)
			e.places[max(1, number)], refused = at.URL, p.err
			for kind, places := range p.at {
				left[kind] = append(left[kind], places...)
			}
		case p.at.onlyTake():
			for kind := firstTake; kind < len(p.at); kind++ {
				for _, i := range p.at[kind] {
					e.refuse(kind, i, p.err)
				}
			}
		default:
			failed = p.err
		}
	}
	for _, places := range left {
		slices.Sort(places)
	}
	return left, refused, failed
}
