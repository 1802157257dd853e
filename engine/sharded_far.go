package engine

// The questions that a node asks another one about shards that the other one serves. Package web carries them as bytes, and knows nothing
// of their content. Each question is one line of the table below, which both sides use.
//
//	node A: reserve, complete ─► errand ──► node B: the shards that it serves      (sharded_errand.go)
//	        wait              ─► listen ──► answers when one of them may have something
//
// An errand that hands out chunks is done even if the caller has gone, so that its chunks can be given back.

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
	// Carry has the node at a URL answer a question about a queue (Nodes.Answer), in the name of the caller in ctx.
	Carry(ctx context.Context, url, queue, question string, body []byte) ([]byte, error)
}

const (
	// farMost is how long another node may take to answer a question that waits for nothing.
	farMost = 2 * time.Second
	// finishMost is how long another node may take to finish chunks. It may wait for a large commit, or for a database that has just lost
	// its primary. A call of unknown outcome costs the client more than waiting does.
	finishMost = 30 * time.Second
)

// The names of questions.
const (
	askErrand   = "errand"
	askListen   = "listen"
	askLoads    = "loads"
	askNamed    = "named"
	askSettings = "settings"
	askDelete   = "delete"
	askAdopt    = "adopt"
	askKnown    = "known"
)

// answering answers a question about a queue. An answer begins with isAnswer.
type answering func(ctx context.Context, s *Sharded, body []byte) ([]byte, error)

// answersTo has all questions.
func answersTo(question string) answering {
	return map[string]answering{
		askErrand:   answerErrand,
		askListen:   answer(answerListen),
		askLoads:    answer(answerLoads),
		askNamed:    answer(answerNamed),
		askSettings: answer(answerSettings),
		askDelete:   answer(answerDelete),
		askAdopt:    answer(answerAdopt),
		askKnown:    answer(answerKnown),
	}[question]
}

// answer makes an answering, which reads and writes JSON, of a function.
func answer[I, O any](do func(ctx context.Context, s *Sharded, in *I) (O, error)) answering {
	return func(ctx context.Context, s *Sharded, body []byte) ([]byte, error) {
		in := new(I)
		if err := json.Unmarshal(body, in); err != nil {
			return nil, queue.Invalid("", "is no question that this node understands: %s", err.Error())
		}
		out, err := do(ctx, s, in)
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(out)
		return append([]byte{isAnswer}, text...), err
	}
}

// The first byte of an answer says whether it is a result, or a refusal of the engine.
const (
	isAnswer = iota
	isRefusal
)

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
	out, err := do(ctx, s, body)
	if _, is := errors.AsType[*queue.Error](err); is {
		return appendRefusal([]byte{isRefusal}, err), nil
	}
	return out, err
}

// ask asks the node at a URL, and returns its answer.
func (s *Sharded) ask(ctx context.Context, most time.Duration, url, question string, body []byte) ([]byte, error) {
	ctx, done := context.WithTimeout(ctx, most)
	defer done()
	text, err := s.e.nodes.neighbours.Carry(ctx, url, s.name, question, body)
	switch {
	case err != nil:
		return nil, err
	case len(text) > 0 && text[0] == isAnswer:
		return text[1:], nil
	case len(text) > 0 && text[0] == isRefusal:
		return nil, readRefusal(text[1:])
	}
	return nil, fmt.Errorf("node at %s does not answer %s in a form that this version understands", url, question)
}

// askJSON asks a question whose answer is JSON.
func (s *Sharded) askJSON(ctx context.Context, most time.Duration, url, question string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	text, err := s.ask(ctx, most, url, question, body)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, out)
}

// runAt has the node at a URL do an errand, even if the caller goes away.
func (in *errand) runAt(ctx context.Context, s *Sharded, url string) (out errandDone, err error) {
	most := in.wait + farMost
	if !in.finish.Empty() {
		most = in.wait + finishMost
	}
	text, err := s.ask(context.WithoutCancel(ctx), most, url, askErrand, appendErrand(nil, in))
	if err == nil {
		err = readErrandDone(text, &out)
	}
	return out, err
}

func answerErrand(ctx context.Context, s *Sharded, body []byte) ([]byte, error) {
	var in errand
	if err := readErrand(body, &in); err != nil {
		return nil, err
	}
	out, err := in.run(ctx, s)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil { // the node that asks waits no longer
		for i := range out.took {
			GiveBack(ctx, s, out.took[i].Reservations)
		}
	}
	return appendErrandDone([]byte{isAnswer}, &out), nil
}

// farShard is a shard that another node serves.
type farShard struct {
	of     *Sharded
	number int
	url    string
}

// planFrom is the plan of a strategy that travelled as text.
func planFrom(e *Engine, text string) (*strategy.Plan, error) {
	parsed, err := strategy.Parse(text)
	if err != nil {
		return nil, err
	}
	return e.plans.plan(parsed), nil
}

func (f farShard) heads(ctx context.Context, plan *strategy.Plan) ([]backlog.Head, error) {
	in := errands{s: f.of, asked: errand{strategy: plan.Text(), looks: []int{f.number}}}
	if err := in.do(ctx); err != nil {
		return nil, err
	}
	l := &in.done.looked[0]
	if l.err == nil && len(l.heads) != len(plan.Branches) {
		return nil, fmt.Errorf("node at %s has %d heads of %d branches", f.url, len(l.heads), len(plan.Branches))
	}
	return l.heads, l.err
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

// take reserves in the shard.
func (f farShard) take(ctx context.Context, asked *ReserveRequest, branch int, request machine.Request,
	dst []queue.Reservation) (machine.Reserved, []backlog.Head, error) {
	in := errands{s: f.of, asked: errandOf(asked)}
	in.asked.takes = []taking{{shard: f.number, branch: branch, most: request.Max, answered: request.Answered}}
	if request.Turn != nil {
		in.asked.takes[0].Turn = *request.Turn
	}
	if err := in.do(ctx); err != nil {
		return machine.Reserved{Reservations: dst}, nil, err
	}
	got := &in.done.took[0]
	got.Reservations = append(dst, got.Reservations...)
	return got.Reserved, got.heads, got.err
}

// errandOf is an errand for a reserve. It takes nothing yet.
func errandOf(r *ReserveRequest) errand {
	return errand{strategy: r.Plan.Text(), named: r.Strategy, consumer: r.Consumer, context: r.Context, timeout: r.Timeout,
		limited: min(max(r.Limited, 0), queue.MaxLimited)}
}

// whole has the node of the shard answer a reserve that is about this shard alone. The node waits if the call does.
func (f farShard) whole(ctx context.Context, r *ReserveRequest, dst []queue.Reservation) (ReserveResult, error) {
	in := errandOf(r)
	in.wait, in.takes = r.Wait, []taking{{shard: f.number, branch: -1, most: r.Max, whole: true}}
	out, err := in.runAt(ctx, f.of, f.url)
	if err == nil && len(out.took) != 1 {
		err = fmt.Errorf("node at %s has %d answers to a reserve", f.url, len(out.took))
	}
	if err != nil {
		return ReserveResult{Reservations: dst}, err
	}
	got := &out.took[0]
	return ReserveResult{Reservations: append(dst, got.Reservations...), Reason: got.Reason, RetryAfter: got.RetryAfter,
		Limited: got.Limited, Unusable: r.Unusable}, got.err
}

// release gives chunks of the shard back.
func (f farShard) release(ctx context.Context, items []queue.ReleaseItem) error {
	in := errands{s: f.of, asked: errand{finish: Finishing{Release: items}}}
	return in.do(ctx)
}

// listenAsked waits in several shards of one node.
type listenAsked struct {
	Strategy string
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
	err = s.askJSON(ctx, in.Wait+farMost, url, askListen, in, &out)
	return out, err
}

func answerListen(ctx context.Context, s *Sharded, in *listenAsked) (out heard, err error) {
	plan, err := planFrom(s.e, in.Strategy)
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

// farLoads are how many submissions are open in the shards of other nodes, by their numbers less one. Nodes that do not answer are left
// out. own are the shards that this node serves.
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
			if s.askJSON(context.Background(), farMost, url, askLoads, struct{}{}, &some) != nil {
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
	if err := f.of.askJSON(ctx, farMost, f.url, askNamed, namedAsked{name}, &out); err != nil {
		return Asked{}, err
	}
	e := f.of.e
	plan, err := planFrom(e, out.Strategy)
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

// answerSettings gives the shards of this node the settings that the catalogue has now.
func answerSettings(ctx context.Context, s *Sharded, _ *struct{}) (struct{}, error) {
	err := s.e.nodes.catchUp()
	all, _ := s.shards()
	for i, q := range all {
		if q != nil && i > 0 {
			err = errors.Join(err, s.e.nodes.takeSettings(ctx, q))
		}
	}
	return struct{}{}, err
}

// tellSettings has all nodes that serve shards take over the settings that the first shard has now. A node that does not
// answer does so later by itself.
func (s *Sharded) tellSettings(ctx context.Context) {
	all, _ := s.shards()
	seen := map[string]bool{}
	for i, q := range all {
		at := s.farAt(i + 1)
		if q != nil || at == nil || seen[at.URL] {
			continue
		}
		seen[at.URL] = true
		if err := s.askJSON(ctx, farMost, at.URL, askSettings, struct{}{}, &struct{}{}); err != nil {
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
