package simtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// call is one call that was begun. run goes on in a goroutine of its own; check is called when it has been answered and everything waits.
type call struct {
	number    int
	what      string
	run       func(ctx context.Context)
	check     func() (answer string)
	first     bool // its answer frees chunks that other calls of the step may have got: it is checked first
	outputs   bool // it writes outputs
	alone     string
	completes []completing
	done      atomic.Bool // looked at before and after the call has it set
	cancel    context.CancelFunc
}

// begin starts a call.
func (o *overlap) begin(c *call) {
	if c.alone != "" && slices.ContainsFunc(o.calls, func(other *call) bool { return other.alone == c.alone }) {
		return // it would wait for a lock, which a bubble does not see
	}
	o.begun++
	c.number = o.begun
	o.note("c%d %s", c.number, c.what)
	o.calls = append(o.calls, c)
	ctx, cancel := context.WithCancel(o.t.Context())
	c.cancel = cancel
	go func() {
		c.run(ctx)
		c.done.Store(true)
	}()
}

// collect checks what has been answered.
func (o *overlap) collect() {
	for _, first := range []bool{true, false} {
		for _, c := range o.calls {
			if c.done.Load() && c.first == first {
				o.note("c%d: %s", c.number, c.check())
				c.cancel()
			}
		}
	}
	o.calls = slices.DeleteFunc(o.calls, func(c *call) bool { return c.done.Load() })
}

const mostCalls = 9

// beginCall draws a call.
func (o *overlap) beginCall() {
	if len(o.calls) >= mostCalls {
		o.goOn()
		return
	}
	inserts := 16
	if o.afterReload {
		inserts = 60 // new inserts must not get content that is still being written for older ones
	}
	choices := []struct {
		weight int
		draw   func() *call
	}{
		{inserts, o.insert}, {20, o.reserve}, {26, o.complete}, {9, o.failSome}, {4, o.extend}, {4, o.release}, {2, o.cancelSub}, {6, o.prioritise},
		{4, o.setRule}, {3, o.liftRule}, {4, o.letters}, {2, o.bulk}, {4, o.stepBulk}, {2, o.detach}, {8, o.fold}, {5, o.tick},
	}
	all := 0
	for i := range choices {
		all += choices[i].weight
	}
	n := o.r.IntN(all)
	for i := range choices {
		if n -= choices[i].weight; n < 0 {
			if c := choices[i].draw(); c != nil {
				o.begin(c)
			}
			return
		}
	}
}

// asking is an insert as its producer knows it. It may be asked for several times, with its key.
type asking struct {
	number  int
	n       queue.NewSubmission
	open    int // calls that are not answered
	maybe   bool
	refused bool // and never to be on the disk
}

func (o *overlap) insert() *call {
	var a *asking
	if n := len(o.asked); n > 0 && o.chance(25) {
		a = o.asked[max(0, n-1-o.r.IntN(4))]
	}
	if a == nil || a.n.IdempotencyKey == "" {
		a = o.newAsking()
	}
	a.open++
	a.refused = false
	var sub queue.Submission
	var again bool
	var err error
	kind := "prefix"
	if len(a.n.Chunks.Inline) > 0 {
		kind = "inline"
	}
	return &call{
		what: fmt.Sprintf("insert %d, %d chunks, %s, key %q", a.number, a.n.Chunks.Count, kind, a.n.IdempotencyKey),
		run: func(ctx context.Context) {
			n := a.n
			sub, again, err = o.shard.Insert(ctx, &n)
		},
		check: func() string { return o.inserted(a, &sub, again, err) },
	}
}

func (o *overlap) newAsking() *asking {
	a := &asking{number: len(o.asked)}
	o.asked = append(o.asked, a)
	a.n = prefixed(uint32(1+o.r.IntN(4)), number("a", o.r.IntN(3)), number("b", o.r.IntN(2)))
	a.n.Group = fmt.Sprint(a.number)
	a.n.Priority = int64(o.r.IntN(3))
	a.n.Fingerprint[0] = byte(a.number)
	a.n.Chunks.Prefix = fmt.Sprintf("dir%d/", a.number)
	if o.chance(60) {
		a.n.Chunks.Prefix = ""
		for i := range a.n.Chunks.Count {
			a.n.Chunks.Inline = append(a.n.Chunks.Inline, fmt.Appendf(nil, "content %d/%d", a.number, i))
		}
	}
	if o.chance(40) {
		a.n.Attachment = fmt.Appendf(nil, "attachment %d", a.number)
	}
	if o.chance(40) {
		a.n.IdempotencyKey = fmt.Sprint("key", a.number)
	}
	if o.chance(10) {
		a.n.RunAt = queue.At(time.Now()).Add(pickFrom(o.r, time.Second, time.Minute))
	}
	return a
}

// token is a reservation as its consumer knows it.
type token struct {
	queue.Token
	value     int64 // of meta key "a"
	returns   int   // tries of the chunk that the disk had counted when it was handed out
	deadline  queue.Time
	life      int
	consumer  string
	calls     int  // that name it and are not answered
	disturbed bool // a call that may take it away was made
	outputs   []string
	replaced  bool // a later one was handed out for the chunk
	raced     bool // a call that named it had an end that is not known, or gave it back

	acceptedOnce bool
	accepted     *string // the output that came with it
}

const overlapLimit = 2

func (o *overlap) reserve() *call {
	text := pickFrom(o.r, "OldestFirst", "NewestFirst", "Random", "CustomPriority", `Fair("a", OldestFirst)`)
	limited := o.chance(50)
	if limited {
		text = fmt.Sprintf(`MaxSimultaneous("a", %d, %s)`, overlapLimit, text)
	}
	q := machine.Request{
		Plan: plan(o.t, text), Max: 1 + o.r.IntN(4), Consumer: fmt.Sprint("w", o.r.IntN(3)),
		Timeout: pickFrom(o.r, time.Second, time.Minute, time.Hour),
	}
	if o.chance(30) {
		q.Wait = pickFrom(o.r, time.Second, 30*time.Second, 10*time.Minute)
	}
	var got machine.Reserved
	var err error
	return &call{
		what:  fmt.Sprintf("reserve %d by %s for %s, waits %s", q.Max, text, q.Consumer, q.Wait),
		run:   func(ctx context.Context) { got, err = o.shard.Reserve(ctx, q, nil) },
		check: func() string { return o.reserved(&q, got.Reservations, limited, err) },
	}
}

// cancelWait has a consumer leave that waits for work.
func (o *overlap) cancelWait() {
	if len(o.calls) > 0 {
		c := o.calls[o.r.IntN(len(o.calls))]
		o.note("c%d is cancelled", c.number)
		c.cancel()
	}
}

// someTokens draws tokens for a call: mostly those that hold a chunk or did a moment ago.
func (o *overlap) someTokens(most int) (list []*token) {
	if len(o.tokens) == 0 {
		return nil
	}
	for range 1 + o.r.IntN(most) {
		back := o.r.IntN(6)
		if o.chance(15) {
			back = o.r.IntN(len(o.tokens))
		}
		list = append(list, o.tokens[max(0, len(o.tokens)-1-back)])
	}
	return list
}

// strict says that the token certainly holds its chunk now, so that the outcome of a call is known.
func (o *overlap) strict(t *token) bool {
	return o.holding[chunkOf(&t.Token)] == t && t.calls == 0 && !t.disturbed && t.deadline > queue.At(time.Now())
}

// naming is a token in a call.
type naming struct {
	*token
	strict bool
	gone   bool // when the call began, as far as the disk says
	life   int
}

type completing struct {
	naming
	output *string // nil: none
}

func (o *overlap) name(t *token) naming {
	x := o.disk.byID[t.Submission]
	n := naming{t, o.strict(t), !o.answered() || x.state != queue.Open || x.chunks[t.Index].state != queue.ChunkReady, o.life}
	t.calls++
	return n
}

func (n naming) String() string {
	return fmt.Sprintf("%s/%d#%d.%d", n.Submission, n.Index, n.Epoch, n.Sequence)
}

func (o *overlap) complete() *call {
	c := &call{outputs: o.chance(55)}
	var items []queue.CompleteItem
	for _, t := range o.someTokens(3) {
		x := completing{naming: o.name(t)}
		item := queue.CompleteItem{Token: t.Token}
		if c.outputs {
			text := fmt.Sprintf("output %d of %s", o.begun+1, x)
			x.output, item.Output = &text, []byte(text)
			t.outputs = append(t.outputs, text)
		}
		c.completes, items = append(c.completes, x), append(items, item)
	}
	if len(items) == 0 {
		return nil
	}
	var got []queue.Result
	var err error
	c.what = fmt.Sprintf("complete %v, outputs %v", c.completes, c.outputs)
	c.run = func(ctx context.Context) { got, err = o.shard.Complete(ctx, items, nil) }
	c.check = func() string { return o.completed(c.completes, got, err) }
	return c
}

func (o *overlap) failSome() *call {
	var items []queue.FailItem
	var list []naming
	for _, t := range o.someTokens(2) {
		item := queue.FailItem{Token: t.Token, Error: "no"}
		if o.chance(30) {
			item.HasRetry, item.RetryAfter = true, 100
		}
		list, items = append(list, o.name(t)), append(items, item)
	}
	if len(items) == 0 {
		return nil
	}
	var got []queue.Result
	var err error
	return &call{
		what:  fmt.Sprintf("fail %v", list),
		run:   func(ctx context.Context) { got, err = o.shard.Fail(ctx, items, nil) },
		check: func() string { return o.failedSome(list, got, err) },
	}
}

func (o *overlap) extend() *call {
	list := o.someTokens(1)
	if len(list) == 0 {
		return nil
	}
	n := o.name(list[0])
	var got []queue.Result
	var err error
	return &call{
		what:  fmt.Sprintf("extend %v", n),
		first: true,
		run: func(ctx context.Context) {
			got, err = o.shard.Extend(ctx, []queue.ExtendItem{{Token: n.Token, Timeout: 60_000, Consumer: "w0"}}, nil)
		},
		check: func() string { return o.extended(n, got, err) },
	}
}

func (o *overlap) release() *call {
	list := o.someTokens(1)
	if len(list) == 0 {
		return nil
	}
	n := o.name(list[0])
	var got []queue.Result
	var err error
	return &call{
		what:  fmt.Sprintf("release %v", n),
		first: true,
		run:   func(ctx context.Context) { got, err = o.shard.Release(ctx, []queue.ReleaseItem{{Token: n.Token}}, nil) },
		check: func() string { return o.released(n, got, err) },
	}
}

// detach has a consumer go: its chunks go back.
func (o *overlap) detach() *call {
	name := fmt.Sprint("w", o.r.IntN(3))
	for _, t := range o.tokens {
		t.disturbed = t.disturbed || t.consumer == name
	}
	var err error
	return &call{
		what: "detach " + name, first: true,
		run: func(context.Context) { _, err = o.shard.Consumers.Detach(name) },
		check: func() string {
			maps.DeleteFunc(o.holding, func(_ queue.ChunkID, t *token) bool { return err == nil && t.consumer == name })
			return o.erred(err)
		},
	}
}

// someSub draws a submission that an outsider may know: its insert was answered, so it is on the disk.
func (o *overlap) someSub() *diskSub {
	var known []*diskSub
	for _, a := range o.asked {
		if x := o.disk.byGroup[a.n.Group]; x != nil && a.maybe {
			known = append(known, x)
		}
	}
	if len(known) == 0 {
		return nil
	}
	return known[max(0, len(known)-1-o.r.IntN(8))]
}

func (o *overlap) cancelSub() *call {
	x := o.someSub()
	if x == nil {
		return nil
	}
	var sub queue.Submission
	var err error
	return &call{
		what: "cancel " + x.ID.String(),
		run:  func(ctx context.Context) { sub, err = o.shard.Submissions.Cancel(ctx, x.ID) },
		check: func() string {
			// if it had ended, a redrive or a complete that is written but not answered yet may come behind the cancel
			if err == nil && (o.answered() || sub.State == queue.Cancelled) && (x.state == queue.Open || sub.State != x.state) {
				o.fail("cancel is answered with %s, on the disk submission %s is %s", sub.State, x.ID, x.state)
			}
			return o.erred(err)
		},
	}
}

func (o *overlap) prioritise() *call {
	x := o.someSub()
	if x == nil {
		return nil
	}
	priority := int64(10 + o.r.IntN(1000))
	before := slices.Clone(x.priorities)
	var err error
	return &call{
		what: fmt.Sprintf("priority of %s: %d", x.ID, priority),
		run:  func(ctx context.Context) { _, err = o.shard.Submissions.SetPriority(ctx, x.ID, priority, nil) },
		check: func() string {
			if err == nil && !slices.Contains(x.priorities[len(before):], priority) {
				o.fail("submission %s is answered to have priority %d; on the disk it has been given %v since", x.ID, priority, x.priorities[len(before):])
			}
			return o.erred(err)
		},
	}
}
