package engine

// What a node asks another one about shards of a queue that the other one serves: by a call of package web, which carries
// JSON and knows nothing of it. Each question is one line of the table below, which both sides go by.
//
//	node A: reserve ─► heads, take ──► node B: the shards that it serves
//	        wait    ─► listen ───────► answers when one of them may have something
//
// A question that hands out chunks is answered even if the caller has gone, so that its chunks can be given back.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// Neighbours carries what the nodes of a cluster ask each other.
type Neighbours interface {
	// Letterbox is where dead letters of other queues go to reach a queue at the URL of its node.
	Letterbox(url, queue string) Letterbox
	// Ask has the node at a URL answer a question about a queue (Nodes.Answer), in the name of the caller in ctx.
	Ask(ctx context.Context, url, queue, question string, in, out any) error
}

// farMost is how long another node may take for an answer that waits for nothing.
const farMost = 2 * time.Second

// The names of questions.
const (
	askHeads   = "heads"
	askTake    = "take"
	askListen  = "listen"
	askRelease = "release"
	askLoads   = "loads"
	askNamed   = "named"
	askSettle  = "settle"
	askDelete  = "delete"
)

// answering answers a question about a queue; read decodes what was asked.
type answering func(ctx context.Context, s *Sharded, read func(any) error) (any, error)

// answersTo says which questions there are.
func answersTo(question string) answering {
	return map[string]answering{
		askHeads:   answer(answerHeads),
		askTake:    answer(answerTake),
		askListen:  answer(answerListen),
		askRelease: answer(answerRelease),
		askLoads:   answer(answerLoads),
		askNamed:   answer(answerNamed),
		askSettle:  answer(answerSettle),
		askDelete:  answer(answerDelete),
	}[question]
}

// answer makes an answering of a function that is asked with an I.
func answer[I, O any](do func(ctx context.Context, s *Sharded, in *I) (O, error)) answering {
	return func(ctx context.Context, s *Sharded, read func(any) error) (any, error) {
		in := new(I)
		if err := read(in); err != nil {
			return nil, queue.Invalid("", "is no question that this node understands: %s", err.Error())
		}
		return do(ctx, s, in)
	}
}

// farAnswer is how an answer travels. A refusal of the engine is an answer, too.
type farAnswer struct {
	Out     json.RawMessage `json:",omitempty"`
	Refused *queue.Error    `json:",omitempty"`
	At      *Elsewhere      `json:",omitempty"` // who serves the shard by now
}

// Answer answers a question of another node about a queue of several shards. Errors that the caller can act on are in the
// answer.
func (n *Nodes) Answer(ctx context.Context, name, question string, body []byte) ([]byte, error) {
	do := answersTo(question)
	if do == nil {
		return nil, queue.Invalid("/path/question", "is %q, which this version does not know", clip(question, 40))
	}
	n.e.mu.RLock()
	s := n.e.sharded[name]
	n.e.mu.RUnlock()
	if s == nil {
		return nil, unknownQueue(name)
	}
	out, err := do(ctx, s, func(in any) error { return json.Unmarshal(body, in) })
	var said farAnswer
	if refused, is := errors.AsType[*queue.Error](err); is {
		plain := *refused
		plain.Err, said.Refused = nil, &plain
		said.At, _ = errors.AsType[*Elsewhere](err)
	} else if err != nil {
		return nil, err
	} else if said.Out, err = json.Marshal(out); err != nil {
		return nil, fmt.Errorf("answer to %s: %w", question, err)
	}
	return json.Marshal(said)
}

// ReadAnswer reads what Answer has written.
func ReadAnswer(text []byte, out any) error {
	var said farAnswer
	if err := json.Unmarshal(text, &said); err != nil {
		return fmt.Errorf("answer of a node: %w", err)
	}
	if said.Refused != nil {
		if said.At != nil {
			said.Refused.Err = said.At
		}
		return said.Refused
	}
	return json.Unmarshal(said.Out, out)
}

// farShard is a shard that another node serves.
type farShard struct {
	of     *Sharded
	number int
	url    string
}

// ask asks the node of the shard. It does not wait for long.
func (f farShard) ask(ctx context.Context, question string, in, out any) error {
	ctx, done := context.WithTimeout(ctx, farMost)
	defer done()
	return f.of.e.nodes.neighbours.Ask(ctx, f.url, f.of.name, question, in, out)
}

// farPlan is a plan as it travels: the text of its strategy, and one branch of it; -1: all.
type farPlan struct {
	Strategy string
	Branch   int
}

// plan is what a farPlan stands for.
func (f *farPlan) plan(e *Engine) (*strategy.Plan, error) {
	parsed, err := strategy.Parse(f.Strategy)
	if err != nil {
		return nil, err
	}
	plan := e.plans.plan(parsed)
	switch {
	case f.Branch < 0:
		return plan, nil
	case f.Branch >= len(plan.Branches):
		return nil, queue.Invalid("/strategy", "has no branch %d", f.Branch)
	case len(plan.Branches) == 1:
		return plan, nil
	}
	return &strategy.Plan{Branches: plan.Branches[f.Branch : f.Branch+1]}, nil
}

type headsAsked struct {
	farPlan
	Shard int
}

func (f farShard) heads(ctx context.Context, plan *strategy.Plan) (heads []backlog.Head, err error) {
	err = f.ask(ctx, askHeads, headsAsked{farPlan{plan.Text(), -1}, f.number}, &heads)
	if err == nil && len(heads) != len(plan.Branches) {
		err = fmt.Errorf("node at %s has %d heads of %d branches", f.url, len(heads), len(plan.Branches))
	}
	return heads, err
}

func answerHeads(ctx context.Context, s *Sharded, in *headsAsked) ([]backlog.Head, error) {
	plan, err := in.plan(s.e)
	if err != nil {
		return nil, err
	}
	q, err := s.own(in.Shard)
	if err != nil {
		return nil, err
	}
	return ownShard{q}.heads(ctx, plan)
}

// own is a shard that this node serves and owns.
func (s *Sharded) own(number int) (*Queue, error) {
	if number < 1 || number > len(s.rows) {
		return nil, queue.Invalid("/shard", "is %d; there are %d", number, s.count.Load())
	}
	q, err := s.shard(number)
	if err == nil && !s.e.nodes.node.Own(q.id) { // another node may have it by now
		row := q.row()
		err = s.e.nodes.refusal(&row)
	}
	return q, err
}

// takeAsked is a reserve of one shard as it travels.
type takeAsked struct {
	farPlan
	Shard    int
	Named    string // the name that the strategy was asked for by
	Max      int
	Consumer string
	Context  queue.Meta
	Timeout  time.Duration
	Wait     time.Duration
	Limited  int
	Answered int
	Whole    bool // the shard is all that the call is about
	Bound    *backlog.Head
	Weight   uint64
}

type tookFar struct {
	machine.Reserved
	Heads []backlog.Head // what is next, by the branch; none: it was not looked
}

// take reserves in the shard. The caller's going away does not end it.
func (f farShard) take(ctx context.Context, asked *ReserveRequest, branch int, request machine.Request,
	dst []queue.Reservation) (machine.Reserved, []backlog.Head, error) {
	in := takeAsked{farPlan: farPlan{asked.Plan.Text(), branch}, Shard: f.number, Named: asked.Strategy, Max: request.Max,
		Consumer: request.Consumer, Context: request.Context, Timeout: request.Timeout, Limited: request.Limited,
		Answered: request.Answered}
	if request.Turn != nil {
		in.Bound, in.Weight = request.Turn.Bound, request.Turn.Weight
	}
	var out tookFar
	err := f.ask(context.WithoutCancel(ctx), askTake, &in, &out)
	out.Reservations = append(dst, out.Reservations...)
	return out.Reserved, out.Heads, err
}

// whole has the node of the shard answer a reserve that is about this shard alone, and wait if the call does.
func (f farShard) whole(ctx context.Context, r *ReserveRequest, dst []queue.Reservation) (ReserveResult, error) {
	in := takeAsked{farPlan: farPlan{r.Plan.Text(), -1}, Shard: f.number, Named: r.Strategy, Max: r.Max, Consumer: r.Consumer,
		Context: r.Context, Timeout: r.Timeout, Wait: r.Wait, Limited: r.Limited, Whole: true}
	ctx, done := context.WithTimeout(ctx, r.Wait+farMost)
	defer done()
	var out tookFar
	err := f.of.e.nodes.neighbours.Ask(ctx, f.url, f.of.name, askTake, &in, &out)
	return ReserveResult{Reservations: append(dst, out.Reservations...), Reason: out.Reason, RetryAfter: out.RetryAfter,
		Limited: out.Limited, Unusable: r.Unusable}, err
}

func answerTake(ctx context.Context, s *Sharded, in *takeAsked) (out tookFar, err error) {
	plan, err := in.plan(s.e)
	if err != nil {
		return out, err
	}
	q, err := s.own(in.Shard)
	if err != nil {
		return out, err
	}
	asked := ReserveRequest{Max: in.Max, Plan: plan, Consumer: in.Consumer, Context: in.Context, Wait: in.Wait,
		Timeout: in.Timeout, Strategy: in.Named, Limited: in.Limited}
	if in.Whole {
		got, err := q.Reserve(ctx, asked, nil)
		out.Reserved = machine.Reserved{Reservations: got.Reservations, Reason: got.Reason, RetryAfter: got.RetryAfter,
			Limited: got.Limited}
		if ctx.Err() != nil && len(got.Reservations) > 0 {
			GiveBack(ctx, q, got.Reservations)
		}
		return out, err
	}
	request := machine.Request{Plan: plan, Max: in.Max, Consumer: in.Consumer, Context: in.Context, Timeout: in.Timeout,
		Limited: in.Limited, Answered: in.Answered}
	if in.Bound != nil || in.Weight > 0 {
		request.Turn = &machine.Turn{Bound: in.Bound, Weight: in.Weight}
	}
	out.Reserved, _, err = ownShard{q}.take(ctx, &asked, in.Branch, request, nil)
	if err == nil && in.Branch >= 0 {
		out.Heads, err = ownShard{q}.heads(ctx, plan)
	}
	return out, err
}

// release gives chunks of the shard back.
func (f farShard) release(ctx context.Context, items []queue.ReleaseItem, dst []queue.Result) ([]queue.Result, error) {
	var out []queue.Result
	err := f.ask(ctx, askRelease, releaseAsked{f.number, items}, &out)
	if err == nil && len(out) != len(items) {
		err = fmt.Errorf("node at %s has %d results of %d releases", f.url, len(out), len(items))
	}
	return append(dst, out...), err
}

type releaseAsked struct {
	Shard int
	Items []queue.ReleaseItem
}

func answerRelease(ctx context.Context, s *Sharded, in *releaseAsked) ([]queue.Result, error) {
	q, err := s.own(in.Shard)
	if err != nil {
		return nil, err
	}
	return q.Release(ctx, in.Items, nil)
}

// listenAsked waits in several shards of one node.
type listenAsked struct {
	farPlan
	Shards   []int
	Max      int
	Consumer string
	Wait     time.Duration
}

// heard is how a wait in several shards ended.
type heard struct {
	AtOnce bool // one of them has something already
	Over   bool // nothing came
}

// listen returns when one of some shards of a node may have something for a reserve, or the wait is over.
func (s *Sharded) listen(ctx context.Context, url string, in *listenAsked) (out heard, err error) {
	ctx, done := context.WithTimeout(ctx, in.Wait+farMost)
	defer done()
	err = s.e.nodes.neighbours.Ask(ctx, url, s.name, askListen, in, &out)
	return out, err
}

func answerListen(ctx context.Context, s *Sharded, in *listenAsked) (out heard, err error) {
	plan, err := in.plan(s.e)
	if err != nil {
		return out, err
	}
	listening := shard.Listening{Request: machine.Request{Plan: plan, Max: in.Max, Consumer: in.Consumer},
		Signs: make(chan []machine.Pick, len(in.Shards))}
	defer listening.Stop()
	for _, number := range in.Shards {
		q, err := s.own(number)
		if err != nil {
			return out, err
		}
		heads, err := q.shard.Heads(ctx, plan, &listening)
		if err != nil || !nothing(heads) {
			return heard{AtOnce: true}, err
		}
	}
	timer := time.NewTimer(in.Wait)
	defer timer.Stop()
	select {
	case <-listening.Signs:
	case <-timer.C:
		out.Over = true
	case <-ctx.Done():
		out.Over = true
	}
	return out, nil
}

// farLoads are how many submissions are open in the shards of other nodes, by their numbers less one. What does not answer
// is left out. own are the shards that this node serves.
func (s *Sharded) farLoads(own []*Queue) map[int]uint64 {
	urls := map[string]bool{}
	for i, q := range own {
		if q != nil {
			continue
		}
		if at := s.farAt(i + 1); at != nil {
			urls[at.URL] = true
		}
	}
	var (
		all   = map[int]uint64{}
		mu    sync.Mutex
		asked sync.WaitGroup
	)
	for url := range urls {
		asked.Go(func() {
			var some map[int]uint64
			if (farShard{of: s, url: url}).ask(context.Background(), askLoads, struct{}{}, &some) != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for number, open := range some {
				if i := number - 1; i >= 0 && i < len(own) && own[i] == nil {
					all[i] = open
				}
			}
		})
	}
	asked.Wait()
	return all
}

func answerLoads(_ context.Context, s *Sharded, _ *struct{}) (map[int]uint64, error) {
	all, _ := s.shards()
	loads := map[int]uint64{}
	for i, q := range all {
		if q != nil {
			loads[i+1] = q.shard.Stats().SubmissionsOpen
		}
	}
	return loads, nil
}

type namedAsked struct{ Name string }

type namedPlan struct{ Strategy string }

// named is a strategy that the first shard keeps under a name.
func (f farShard) named(ctx context.Context, name string) (Asked, error) {
	var out namedPlan
	if err := f.ask(ctx, askNamed, namedAsked{name}, &out); err != nil {
		return Asked{}, err
	}
	e := f.of.e
	plan, err := (&farPlan{out.Strategy, -1}).plan(e)
	if err != nil {
		return Asked{}, err
	}
	return Asked{plan, name, e.Unusable(context.Background(), plan)}, nil
}

func answerNamed(_ context.Context, s *Sharded, in *namedAsked) (namedPlan, error) {
	q, err := s.own(1)
	if err != nil {
		return namedPlan{}, err
	}
	asked, err := q.Strategies.asked(in.Name)
	if err != nil {
		return namedPlan{}, err
	}
	return namedPlan{asked.Plan.Text()}, nil
}

// answerSettle has the shards of this node go by the settings that the catalogue has now.
func answerSettle(ctx context.Context, s *Sharded, _ *struct{}) (struct{}, error) {
	err := s.e.nodes.catchUp()
	all, _ := s.shards()
	for i, q := range all {
		if q != nil && i > 0 {
			err = errors.Join(err, s.e.nodes.settle(ctx, q))
		}
	}
	return struct{}{}, err
}

// settleOthers has all nodes that serve shards take over the settings that the first shard has now. A node that does not
// answer does so later by itself.
func (s *Sharded) settleOthers(ctx context.Context) {
	all, _ := s.shards()
	seen := map[string]bool{}
	for i, q := range all {
		at := s.farAt(i + 1)
		if q != nil || at == nil || seen[at.URL] {
			continue
		}
		seen[at.URL] = true
		if err := (farShard{of: s, url: at.URL}).ask(ctx, askSettle, struct{}{}, &struct{}{}); err != nil {
			s.e.options.Logger.Warn("a node did not take over the settings of a queue at once; it does so later",
				"queue", s.name, "node", at.Node, "error", err)
		}
	}
}

type deleteAsked struct{ Shard int }

func answerDelete(ctx context.Context, s *Sharded, in *deleteAsked) (struct{}, error) {
	if _, err := s.own(in.Shard); err != nil {
		return struct{}{}, err
	}
	return struct{}{}, deleteQueue(ctx, s.e, rowName(s.name, in.Shard), false)
}
