package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// errandValues fills errands and answers with random values. Empty lists are nil, as after reading.
type errandValues struct{ *rand.Rand }

func (r errandValues) text() string { return fmt.Sprintf("%x", r.Uint64())[:r.IntN(9)] }

func (r errandValues) bytes() []byte {
	if r.IntN(3) == 0 {
		return nil
	}
	return []byte(r.text())
}

func (r errandValues) token() queue.Token {
	return queue.Token{Submission: queue.SubmissionID(r.Uint64()), Index: r.Uint32(), Epoch: r.Uint32N(200), Sequence: r.Uint64N(1 << 48),
		Slot: r.Uint32(), MAC: r.Uint64N(1 << 48)}
}

func (r errandValues) meta() (m queue.Meta) {
	for i := range r.IntN(3) {
		value := queue.StringValue(r.text())
		if r.IntN(2) == 0 {
			value = queue.IntValue(r.Int64() - r.Int64())
		}
		m = append(m, queue.MetaEntry{Key: fmt.Sprint("k", i), Value: value})
	}
	return m
}

func (r errandValues) heads() (heads []backlog.Head) {
	for range r.IntN(3) {
		heads = append(heads, backlog.Head{Flight: r.Uint32(), Priority: -r.Int64N(9), ID: queue.SubmissionID(r.Uint64()), Weight: r.Uint64()})
	}
	return heads
}

func (r errandValues) err() error {
	switch r.IntN(3) {
	case 0:
		return nil
	case 1:
		return &queue.Error{Code: queue.CodeInvalid, Message: r.text()}
	}
	return &queue.Error{Code: queue.CodeMoving, Message: r.text(), Err: &Elsewhere{Queue: "orders", Node: "b", URL: "http://b"}}
}

func (r errandValues) results() (list []queue.Result) {
	for range r.IntN(4) {
		list = append(list, queue.Result{Outcome: queue.Outcome(r.IntN(7)), Code: r.text(), Detail: r.text(), Deadline: queue.Time(r.Int64N(1 << 45))})
	}
	return list
}

func (r errandValues) errand() (in errand) {
	for range r.IntN(3) {
		in.finish.Complete = append(in.finish.Complete, queue.CompleteItem{Token: r.token(), Output: r.bytes()})
		in.finish.Fail = append(in.finish.Fail, queue.FailItem{Token: r.token(), Error: r.text(), Fatal: r.IntN(2) == 0,
			HasRetry: r.IntN(2) == 0, RetryAfter: queue.Time(r.IntN(9)), RetryAt: queue.Time(r.IntN(9))})
		in.finish.Extend = append(in.finish.Extend, queue.ExtendItem{Token: r.token(), Timeout: queue.Time(r.IntN(9)), Consumer: r.text(),
			Reported: queue.Reported{Progress: r.Float64(), HasProgress: r.IntN(2) == 0, Note: r.text()}})
		in.finish.Release = append(in.finish.Release, queue.ReleaseItem{Token: r.token(), Delay: queue.Time(r.IntN(9))})
	}
	in.strategy, in.named, in.consumer, in.context = r.text(), r.text(), r.text(), r.meta()
	in.timeout, in.wait, in.limited = time.Duration(r.Int64()), time.Duration(r.Int64()), r.IntN(9)
	for range r.IntN(3) {
		t := taking{shard: r.IntN(16), branch: r.IntN(3) - 1, most: r.IntN(9), answered: r.IntN(9), whole: r.IntN(2) == 0}
		if t.Weight = r.Uint64(); r.IntN(2) == 0 {
			t.Bound = &backlog.Head{ID: queue.SubmissionID(r.Uint64())}
		}
		in.takes, in.looks = append(in.takes, t), append(in.looks, r.IntN(16))
	}
	return in
}

func (r errandValues) done() (out errandDone) {
	out.finished = Finished{r.results(), r.results(), r.results(), r.results()}
	for range r.IntN(3) {
		t := took{Reserved: machine.Reserved{Reason: queue.EmptyReason(r.IntN(queue.EmptyReasons)), RetryAfter: time.Duration(r.Int64())},
			heads: r.heads(), err: r.err()}
		meta := r.meta()
		for range r.IntN(4) {
			if r.IntN(2) == 0 {
				meta = r.meta()
			}
			t.Reservations = append(t.Reservations, queue.Reservation{Token: r.token(), Attempt: uint16(r.IntN(9)),
				Deadline: queue.Time(r.Int64()), Ready: queue.Time(r.Int64()), Content: queue.Content{Bytes: []byte(r.text()), IsKey: r.IntN(2) == 0},
				Meta: meta, Priority: r.Int64() - r.Int64(), Attachment: r.bytes(), Trace: r.text()})
			t.Limited = append(t.Limited, queue.Saturated{MetaEntry: queue.MetaEntry{Key: "k", Value: queue.IntValue(1)}, InFlight: r.Uint32(), Limit: 3})
		}
		out.took, out.looked = append(out.took, t), append(out.looked, looking{r.heads(), r.err()})
	}
	return out
}

// Errands and answers are read as they were written. One that is cut short, or of another version, is refused.
func TestErrandsTravel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		r := errandValues{rand.New(rand.NewPCG(seed, 7))}
		var (
			in, inRead   = r.errand(), errand{}
			out, outRead = r.done(), errandDone{}
		)
		text, answer := appendErrand(nil, &in), appendErrandDone(nil, &out)
		if err := errors.Join(readErrand(text, &inRead), readErrandDone(answer, &outRead)); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !reflect.DeepEqual(in, inRead) {
			t.Fatalf("seed %d: read %+v\nof %+v", seed, inRead, in)
		}
		if !reflect.DeepEqual(out, outRead) {
			t.Fatalf("seed %d: read %+v\nof %+v", seed, outRead, out)
		}
		cut, cutDone := r.IntN(len(text)), r.IntN(len(answer))
		if readErrand(text[:cut], &errand{}) == nil || readErrandDone(answer[:cutDone], &errandDone{}) == nil {
			t.Fatalf("seed %d: %d and %d bytes of %d and %d were read as if they were whole", seed, cut, cutDone, len(text), len(answer))
		}
		text[0]++
		if readErrand(text, &errand{}) == nil {
			t.Fatalf("seed %d: an errand of another version was read", seed)
		}
	}
}

// crossed makes three nodes with one shard each, and submissions in all of them. It returns `held` reservations.
func crossed(t *testing.T, held int) (f *fellows, nodes map[string]*testNode, list []queue.Reservation) {
	f, nodes = newFellows(t, 3, "a", "b", "c")
	nodes["a"].moved(t, 2, nodes["b"])
	nodes["a"].moved(t, 3, nodes["c"])
	for i, n := range []*testNode{nodes["a"], nodes["b"], nodes["c"]} {
		put1(t, queueAt(n.Engine, queue.ShardName(shardedName, i+1)), queue.NewSubmission{Group: fmt.Sprint("g", i),
			Meta: queue.Meta{{Key: "group", Value: queue.StringValue(fmt.Sprint("g", i))}}, Chunks: queue.Chunks{Count: 500, Prefix: "x"}})
	}
	if held > 0 {
		list = takenBy(t, workAt(t, nodes["a"].Engine), "Random", held)
	}
	return f, nodes, list
}

func completes(list []queue.Reservation) (items []queue.CompleteItem) {
	for i := range list {
		items = append(items, queue.CompleteItem{Token: list[i].Token, Output: fmt.Append(nil, "out ", i)})
	}
	return items
}

// asksFor is a reserve of an exchange.
func asksFor(t *testing.T, w Work, strategy string, most int) *ReserveRequest {
	t.Helper()
	asked, err := w.Asked(t.Context(), fmt.Appendf(nil, "%q", strategy))
	if err != nil {
		t.Fatal(err)
	}
	return &ReserveRequest{Plan: asked.Plan, Max: most, Consumer: "worker"}
}

// An exchange over shards of three nodes has all results, in order, and as many chunks as it asked for. By Random it costs two errands
// for each of the other nodes.
func TestExchangeOverNodes(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"Random", "OldestFirst", "NewestFirst", `MaxSimultaneous("group", 400, Random)`, `PreferDistinct("group", Random)`} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			f, nodes, held := crossed(t, 90)
			w := workAt(t, nodes["a"].Engine)
			x := Exchange{Complete: completes(held[:30]), Reserve: asksFor(t, w, strategy, 60),
				Fail:   []queue.FailItem{{Token: held[30].Token, Error: "no"}, {Token: held[31].Token, Error: "no"}},
				Extend: []queue.ExtendItem{{Token: held[32].Token, Consumer: "worker"}, {Token: held[33].Token, Consumer: "worker"}}}
			x.Complete = append(x.Complete, queue.CompleteItem{Token: queue.Token{Submission: 77}})
			var out Exchanged
			if err := w.Exchange(t.Context(), x, &out); err != nil {
				t.Fatal(err)
			}
			if strategy == "Random" {
				f.cheapest(t, w, asksFor(t, w, strategy, 16), held[70:])
			}
			for i, r := range out.Complete {
				if want := queue.OutcomeOK; i < 30 && r.Outcome != want || i == 30 && r.Outcome != queue.OutcomeUnknown {
					t.Errorf("completion %d: %v", i, r.Outcome)
				}
			}
			if len(out.Complete) != 31 || len(out.Fail) != 2 || len(out.Extend) != 2 || out.Fail[1].Outcome != queue.OutcomeOK || out.Extend[1].Deadline == 0 {
				t.Errorf("the results are %+v", out)
			}
			if n := len(out.Reserve.Reservations); n != 60 {
				t.Errorf("%d chunks came, want 60", n)
			}
			seen := map[queue.Token]bool{}
			for _, r := range append(held[34:70:70], out.Reserve.Reservations...) {
				if seen[r.Token] {
					t.Errorf("%s was given twice", r.Token)
				}
				seen[r.Token] = true
			}
			again, err := w.Complete(t.Context(), x.Complete[:30], nil)
			for i := range again {
				if again[i].Outcome != queue.OutcomeAlready {
					t.Errorf("completion %d, sent again: %v", i, again[i].Outcome)
				}
			}
			if err != nil || len(again) != 30 {
				t.Errorf("%d results and %v, want 30", len(again), err)
			}
		})
	}
}

// done is how many errands nodes have done for others.
func (f *fellows) done() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.errands
}

// cheapest completes chunks one by one, until the weights of the shards are known and an exchange costs only two errands for each of the
// other nodes.
func (f *fellows) cheapest(t *testing.T, w Work, asked *ReserveRequest, held []queue.Reservation) {
	t.Helper()
	least := 0
	for i := range held {
		before := f.done()
		var out Exchanged
		if err := w.Exchange(t.Context(), Exchange{Complete: completes(held[i : i+1]), Reserve: asked}, &out); err != nil {
			t.Fatal(err)
		}
		if cost := f.done() - before; least == 0 || cost < least {
			least = cost
		}
	}
	if least > 4 {
		t.Errorf("an exchange cost %d errands at least, want one for the results and one for the chunks, for each of two nodes", least)
	}
}

// A shard that moves while an errand is on its way is found where it is, and the errand is done once.
func TestErrandFollowsShard(t *testing.T) {
	t.Parallel()
	f, nodes, held := crossed(t, 60)
	w := workAt(t, nodes["a"].Engine)
	var moved sync.Once
	f.before = func(question string) {
		if question == askErrand {
			moved.Do(func() { nodes["b"].moved(t, 2, nodes["c"]) })
		}
	}
	results, err := w.Complete(t.Context(), completes(held), nil)
	if err != nil {
		t.Fatalf("a completion while a shard moves: %v", err)
	}
	for i := range results {
		if results[i].Outcome != queue.OutcomeOK {
			t.Errorf("completion %d: %v", i, results[i].Outcome)
		}
	}
}

// If a node does not answer, an exchange about its chunks fails, and no one keeps chunks that it took elsewhere. Sent again, it answers
// with the results. An exchange about other chunks takes from the nodes that answer.
func TestExchangeWithoutNode(t *testing.T) {
	t.Parallel()
	f, nodes, held := crossed(t, 60)
	w := workAt(t, nodes["a"].Engine)
	takenBy(t, w, "Random", 1)
	f.lose("http://b")
	x := Exchange{Complete: completes(held), Reserve: asksFor(t, w, "Random", 30)}
	var out Exchanged
	if err := w.Exchange(t.Context(), x, &out); queue.CodeOf(err) != queue.CodeCommitFailed {
		t.Fatalf("an exchange with a node that does not answer: %v", err)
	}
	inFlight := 0
	for _, name := range []string{"a", "c"} {
		for _, q := range nodes[name].all() {
			inFlight += int(q.shard.Stats().Reserved)
		}
	}
	if inFlight > 1 { // of takenBy
		t.Errorf("%d chunks are in flight at the nodes that answered, at most one was reserved by another call", inFlight)
	}
	own := Exchange{Reserve: asksFor(t, w, "Random", 30)}
	if err := w.Exchange(t.Context(), own, &out); err != nil || len(out.Reserve.Reservations) != 30 {
		t.Errorf("an exchange about other chunks: %d chunks, %v", len(out.Reserve.Reservations), err)
	}
	f.mu.Lock()
	f.nodes["http://b"] = nodes["b"]
	f.mu.Unlock()
	results, err := w.Complete(context.WithoutCancel(t.Context()), x.Complete, nil)
	counts := map[queue.Outcome]int{}
	for i := range results {
		counts[results[i].Outcome]++
	}
	if err != nil || counts[queue.OutcomeOK]+counts[queue.OutcomeAlready] != 60 || counts[queue.OutcomeOK] == 0 || counts[queue.OutcomeAlready] == 0 {
		t.Errorf("sent again: %v, %v", counts, err)
	}
}

// Nodes that are asked at once keep to the bound of one answer together.
//
//quern:sequential
func TestErrandsShareAnswer(t *testing.T) {
	t.Parallel()
	_, nodes, _ := crossed(t, 0)
	large := make([][]byte, 12)
	for i := range large {
		large[i] = make([]byte, 512<<10)
	}
	for i, n := range []*testNode{nodes["a"], nodes["b"], nodes["c"]} {
		put1(t, queueAt(n.Engine, queue.ShardName(shardedName, i+1)), queue.NewSubmission{Group: fmt.Sprint("g", i),
			Meta:   queue.Meta{{Key: "group", Value: queue.StringValue(fmt.Sprint("g", i))}, {Key: "kind", Value: queue.StringValue("large")}},
			Chunks: queue.Chunks{Count: 12, Inline: large}})
	}
	w := workAt(t, nodes["a"].Engine)
	for range 3 {
		var out Exchanged
		if err := w.Exchange(t.Context(), Exchange{Reserve: asksFor(t, w, `SelectOnly("kind", "large", Random)`, 36)}, &out); err != nil {
			t.Fatal(err)
		}
		bytes := 0
		for i := range out.Reserve.Reservations {
			bytes += out.Reserve.Reservations[i].Bytes()
		}
		if bytes == 0 || bytes > queue.MaxAnswerBytes {
			t.Errorf("%d chunks have %d bytes; an answer has %d at most", len(out.Reserve.Reservations), bytes, queue.MaxAnswerBytes)
		}
	}
}

// An errand that fails after it began is not done again elsewhere.
func TestErrandThatBeganIsNotRepeated(t *testing.T) {
	t.Parallel()
	moved := &queue.Error{Code: queue.CodeMoving, Message: "moved", Err: &Elsewhere{Queue: "orders~2", Node: "b", URL: "http://b"}}
	e := errands{parts: []*errandPart{{at: things{{0}}, err: begun(moved)}}, places: map[int]string{}}
	if left, refused, failed := e.collect(); refused != nil || queue.CodeOf(failed) != queue.CodeMoving || len(left[0]) > 0 {
		t.Errorf("%v is left, %v and %v", left[0], refused, failed)
	}
	e.parts[0].err = moved
	if left, refused, failed := e.collect(); refused == nil || failed != nil || len(left[0]) != 1 || e.places[2] != "http://b" {
		t.Errorf("one that did not begin: %v is left, %v and %v", left[0], refused, failed)
	}
}

// rendezvous makes each call wait until another one is there. It fails if none comes.
type rendezvous struct {
	t       *testing.T
	mu      sync.Mutex
	waiting chan struct{} // nil: none waits
	met     int
}

func (r *rendezvous) meet() {
	r.mu.Lock()
	if r.waiting != nil {
		close(r.waiting)
		r.waiting = nil
		r.met++
		r.mu.Unlock()
		return
	}
	wait := make(chan struct{})
	r.waiting = wait
	r.mu.Unlock()
	select {
	case <-wait:
	case <-time.After(30 * time.Second):
		r.t.Error("a node is asked alone")
		r.mu.Lock()
		r.waiting = nil
		r.mu.Unlock()
	}
}

// When there is nothing, the nodes are asked for their reasons at once. A chunk that has just come is handed out, and no more than were
// asked for.
func TestReasonsAreAskedAtOnce(t *testing.T) {
	t.Parallel()
	f, nodes := newFellows(t, 3, "a", "b", "c")
	a := nodes["a"]
	a.moved(t, 2, nodes["b"])
	a.moved(t, 3, nodes["c"])
	w := workAt(t, a.Engine).(*Sharded)
	if err := errors.Join(w.place([]string{"two"}, 2), w.place([]string{"three"}, 3)); err != nil {
		t.Fatal(err)
	}
	for name, number := range map[string]int{"b": 2, "c": 3} {
		far := workAt(t, nodes[name].Engine).(*Sharded)
		nodes[name].serves(t, func() bool { return far.groups.of([]string{"two", "three"}[number-2]) == number })
	}
	r := &rendezvous{t: t}
	f.before = func(question string) {
		if question == askErrand {
			r.meet()
		}
	}
	got, err := reserveBy(t, w, "OldestFirst", 1, 0)
	if err != nil || len(got.Reservations) > 0 || got.Reason != queue.Nothing {
		t.Errorf("an empty queue answers %+v, %v", got, err)
	}
	if r.met != 2 {
		t.Errorf("two nodes were asked at once %d times, want for what comes first, and why there is nothing", r.met)
	}
	var mu sync.Mutex
	asked := 0
	f.before = func(question string) {
		mu.Lock()
		defer mu.Unlock()
		if asked++; question != askErrand || asked != 3 { // two look, and then comes the first that says why
			return
		}
		put1(t, workAt(t, nodes["b"].Engine), queue.NewSubmission{Group: "two"})
		put1(t, workAt(t, nodes["c"].Engine), queue.NewSubmission{Group: "three"})
	}
	got, err = reserveBy(t, w, "OldestFirst", 1, 0)
	f.before = nil
	if err != nil || len(got.Reservations) != 1 {
		t.Fatalf("what has just come: %+v, %v", got, err)
	}
	if rest := takenBy(t, w, "OldestFirst", 10); len(rest) != 1 {
		t.Errorf("%d of the other chunks are left, want 1", len(rest))
	}
	got, err = reserveBy(t, w, `MaxSimultaneous("group", 1, OldestFirst)`, 1, 0)
	if err != nil || got.Reason != queue.Nothing {
		t.Errorf("all is in flight: %+v, %v", got, err)
	}
	put1(t, workAt(t, nodes["b"].Engine), queue.NewSubmission{Group: "two"})
	put1(t, workAt(t, nodes["c"].Engine), queue.NewSubmission{Group: "three"})
	got, err = reserveBy(t, w, `MaxSimultaneous("group", 1, OldestFirst)`, 1, 0)
	if err != nil || got.Reason != queue.AllLimited || len(got.Limited) != 2 {
		t.Errorf("both groups are at their limit: %+v, %v", got, err)
	}
}
