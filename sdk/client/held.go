package client

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

// held is one reservation in a worker's hands. Until it is sent to finished the fields of the second part belong to its
// handler, those of the third always to the loop.
type held struct {
	chunk  Chunk
	token  []byte
	ctx    context.Context
	cancel context.CancelCauseFunc
	lost   atomic.Bool

	output  []byte
	failed  bool
	fatal   bool
	delay   time.Duration // negative: none named
	snooze  time.Duration // of one that goes back: how long it waits
	reason  string
	back    bool   // to be given back
	err     error  // the handler's error
	stack   []byte // of a panic
	refused bool   // the server refused the handler's result, and the failure says so

	age       int // quarters of the timeout since it was reserved or extended
	extending bool
	worker    *worker
	progress  progress   // guarded by the worker's progresses
	result    api.Result // why it was lost
}

func newHeld(w *worker, r *wire.Reservation) (*held, error) {
	meta, err := w.metas.read(r.Meta)
	h := &held{worker: w, token: r.Token, delay: -1, chunk: Chunk{
		Submission: strconv.FormatUint(r.Submission, 10), Index: r.Index, Attempt: r.Attempt, Deadline: time.UnixMilli(r.Deadline).UTC(),
		CreatedAt: time.UnixMilli(wire.InsertedAt(r.Submission)).UTC(), ReadyAt: time.UnixMilli(r.ReadyAt).UTC(),
		Content: r.Content, Meta: meta, Priority: r.Priority, Attachment: r.Attachment, Trace: r.Trace,
	}}
	if r.IsKey {
		h.chunk.Content, h.chunk.Key = nil, string(r.Content)
	}
	h.chunk.held = h
	h.ctx, h.cancel = context.WithCancelCause(WithTraceContext(w.base, r.Trace))
	return h, err
}

// handle is one handler's goroutine. When a handler ends it (runtime.Goexit), another one goes on.
func (w *worker) handle() {
	through := false
	defer func() {
		if !through {
			go w.handle()
		}
	}()
	for h := range w.ready {
		w.one(h)
	}
	through = true
}

// one has a chunk handled, and gives it to the loop however the handler ends.
func (w *worker) one(h *held) {
	defer func() {
		h.cancel(nil)
		w.finished <- h
	}()
	if !h.lost.Load() {
		h.run(w.handler)
	}
}

var errGoexit = errors.New("the handler ended its goroutine (runtime.Goexit)")

func (h *held) run(handler Handler) {
	returned := false
	defer func() {
		if r := recover(); r != nil {
			h.stack = debug.Stack()
			h.fail(fmt.Errorf("panic: %v", r), framesOfPanic())
		} else if !returned {
			h.fail(errGoexit, "")
		}
	}()
	output, err := handler(h.ctx, &h.chunk)
	returned = true
	if err == nil {
		h.output = output
		return
	}
	var snoozed *snoozeError
	if errors.As(err, &snoozed) {
		h.back, h.snooze = true, snoozed.delay
	} else {
		h.back = errors.Is(err, ErrDraining) || errors.Is(context.Cause(h.ctx), ErrDraining)
	}
	h.fail(err, "")
}

// maxErrorBytes is how much of an error the server keeps.
const maxErrorBytes = 1000

// fail notes why a try failed: with the type of the error, and where it came from if that is known.
func (h *held) fail(err error, frames string) {
	h.failed, h.err = true, err
	h.reason = clip(textOf(err)+frames, maxErrorBytes)
	var permanent *permanentError
	h.fatal = errors.As(err, &permanent)
	var retry *retryError
	if errors.As(err, &retry) {
		h.delay = retry.after
	}
}

// textOf is the text of an error for the server. Errors of packages that note their stack print it by %+v.
func textOf(err error) string {
	text := fmt.Sprintf("%+v", unmarked(err))
	if name := typeOf(err); name != "" {
		text = name + ": " + text
	}
	return text
}

// unmarked is an error without the marks of Permanent and RetryAfter around it.
func unmarked(err error) error {
	for {
		switch marked := err.(type) {
		case *permanentError:
			err = marked.err
		case *retryError:
			err = marked.err
		default:
			return err
		}
	}
}

// typeOf is the type of an error, or of the first that it wraps, which says more than that it is one; "" if there is none.
func typeOf(err error) string {
	for ; err != nil; err = errors.Unwrap(unmarked(err)) {
		name := fmt.Sprintf("%T", unmarked(err))
		if !strings.HasPrefix(name, "*errors.") && !strings.HasPrefix(name, "*fmt.") {
			return name
		}
	}
	return ""
}

// maxFrames is how many frames of a panic go to the server.
const maxFrames = 10

// framesOfPanic are the frames from the panic that is being recovered up to the handler, innermost first.
func framesOfPanic() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs)])
	var text strings.Builder
	panicked, n := false, 0
	for more := true; more && n < maxFrames; {
		var frame runtime.Frame
		frame, more = frames.Next()
		switch {
		case strings.HasSuffix(frame.Function, "client.(*held).run"):
			return text.String()
		case frame.Function == "runtime.gopanic":
			panicked = true
		case panicked && !strings.HasPrefix(frame.Function, "runtime."):
			fmt.Fprintf(&text, "\n\tat %s (%s:%d)", frame.Function, frame.File, frame.Line)
			n++
		}
	}
	return text.String()
}

// clip is the beginning of a text, cut between characters.
func clip(text string, most int) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// call is one round trip that reports, extends, gives back and reserves.
type call struct {
	outcomes []*held
	extends  []*held
	releases []*held
	request  wire.ExchangeRequest
	out      Exchanged
	err      error
	hellos   int // of the attach stream before it began
	began    time.Time
}

// startCall takes the results, extensions and releases that fit into one call, and starts it.
func (w *worker) startCall() {
	n := &call{hellos: w.attached.hellos, began: time.Now()}
	cost, inserts := 0, 0
	for _, h := range w.outcomes {
		cost += outputCost(h.output) + len(h.reason) + 100
		for _, next := range h.chunk.then {
			cost += len(next)
		}
		inserts += len(h.chunk.then)
		if len(n.outcomes) > 0 && (cost > w.budget || inserts > api.MaxInsertions || len(n.outcomes) == batchItems) {
			break
		}
		n.outcomes = append(n.outcomes, h)
	}
	for _, h := range w.extends[:min(len(w.extends), batchItems)] {
		if _, still := w.held[h]; still {
			n.extends = append(n.extends, h)
		}
	}
	w.extends = append(w.extends[:0], w.extends[min(len(w.extends), batchItems):]...)
	most := min(len(w.releases), batchItems)
	n.releases, w.releases = w.releases[:most:most], w.releases[most:]
	if w.polling == 0 {
		w.asked = w.room(len(n.outcomes))
	}
	w.outcomes = w.outcomes[len(n.outcomes):]
	if len(n.outcomes)+len(n.extends)+len(n.releases) == 0 {
		w.asked = 0
		return // only extensions of chunks that have ended since
	}
	n.fill(w)
	w.calling = 1
	go w.call(n, w.failures)
}

// fill writes the request.
func (n *call) fill(w *worker) {
	for _, h := range n.outcomes {
		if !h.failed {
			n.request.Complete = append(n.request.Complete, wire.CompleteItem{Token: h.token, Output: h.output,
				Insert: h.chunk.then})
			continue
		}
		item := wire.FailItem{Token: h.token, Error: []byte(h.reason), Fatal: h.fatal}
		if h.delay >= 0 {
			item.HasRetryAfter, item.RetryAfterMS = true, h.delay.Milliseconds()
		}
		n.request.Fail = append(n.request.Fail, item)
	}
	if len(n.extends) > 0 {
		n.request.Consumer = []byte(w.o.Consumer)
	}
	for _, h := range n.extends {
		item := wire.ExtendItem{Token: h.token, TimeoutMS: w.o.Timeout.Milliseconds()}
		w.progress.fill(h, &item)
		n.request.Extend = append(n.request.Extend, item)
	}
	if w.asked > 0 {
		n.request.HasReserve = true
		n.request.Reserve = w.reserve
		n.request.Reserve.Max = w.asked
	}
}

// call makes the round trip. After a failure it waits before it reports to the loop, which then tries again.
func (w *worker) call(n *call, failures int) {
	n.err = w.releaseAll(n)
	if n.err == nil && len(n.outcomes)+len(n.extends) > 0 || n.err == nil && n.request.HasReserve {
		n.err = w.client.ExchangeInto(w.base, w.o.Queue, &n.request, &n.out)
		if n.err == nil {
			n.err = sameResults(&n.request, &n.out)
		}
	}
	if n.err != nil {
		w.rest(w.base, n.err, failures)
	}
	w.calls <- n
}

// releaseAll gives chunks back. Nothing depends on the results: a chunk that is not ours any more needs no giving back.
func (w *worker) releaseAll(n *call) error {
	if len(n.releases) == 0 {
		return nil
	}
	var request wire.ReleaseRequest
	for _, h := range n.releases {
		request.Items = append(request.Items, wire.ReleaseItem{Token: h.token, DelayMS: h.snooze.Milliseconds()})
	}
	var out Finished
	if err := w.client.post(w.base, "release", w.o.Queue, "/reservations/release", 0, &request, &out, &out.body); err != nil {
		return err
	}
	n.releases = nil
	return nil
}

// poll is one call that waits for work.
type poll struct {
	out    Reserved
	err    error
	hellos int // of the attach stream before it began
}

func (w *worker) startPoll(room int) {
	request := w.reserve
	request.Max = room
	request.WaitMS = w.o.Wait.Milliseconds()
	failures := w.poll.failures
	p := &poll{hellos: w.attached.hellos}
	go func() {
		p.err = w.client.ReserveInto(w.poll.ctx, w.o.Queue, &request, &p.out)
		switch {
		case p.err != nil:
			w.rest(w.poll.ctx, p.err, failures)
		case len(p.out.Reservations) == 0:
			w.idle(&p.out)
		}
		w.polls <- p
	}()
}

// idle is the pause after a poll that brought nothing, so that a server that does not wait is not asked in a tight loop.
func (w *worker) idle(out *Reserved) {
	const most = time.Second
	d := w.client.random.upTo(backoffBase)
	if out.HasRetryAfter {
		d += min(milliseconds(out.RetryAfterMS), most)
	}
	_ = pause(w.poll.ctx, d) // ended early is fine
}

// rest is the pause after a failed call, whose own tries are over. A refusal for good is not waited for.
func (w *worker) rest(ctx context.Context, err error, failures int) {
	if final(err) {
		return
	}
	var refused *Error
	_ = errors.As(err, &refused)
	_ = pause(ctx, w.client.backoff(failures+3, refused)) // ended early is fine
}

// outputCost is about how many bytes the output takes in a request: all that needs escaping counts as its longest escape.
func outputCost(output []byte) int {
	cost := 12 + len(output)
	for _, c := range output {
		switch {
		case c < ' ':
			cost += 5
		case c == '"' || c == '\\':
			cost++
		case c >= utf8.RuneSelf:
			cost += 1 // base64 adds a third, U+2028 doubles
		}
	}
	return cost
}
