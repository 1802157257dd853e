package client

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

// worker is one run of Work. Its loop (run) is one goroutine that owns everything below; handlers and calls run beside it
// and speak to it through channels, which have room for all that can be under way, so that none of them ever blocks on the loop.
type worker struct {
	client  *Client
	o       WorkOptions
	handler Handler
	reserve wire.ReserveRequest
	warned  []wire.Warning  // of the last answer
	base    context.Context // of handlers and of calls that finish: has ctx's values, not its end

	ready    chan *held // reserved, for handlers
	finished chan *held // from handlers
	calls    chan *call // calls that ended
	polls    chan *poll
	poll     struct {
		ctx      context.Context
		stop     context.CancelFunc
		failures int // in a row
	}

	held     map[*held]struct{} // reserved and not yet finished
	outcomes []*held            // finished, to be reported
	extends  []*held            // to be extended
	releases []*held            // to be given back

	hooks hooks

	attached attaching
	progress progresses

	ahead       ahead
	answered    time.Time // when the last call ended
	metas       metaReader
	calling     int   // 1 while a call is under way
	asked       int   // chunks that the call under way may bring
	polling     int   // chunks that the poll under way may bring; 0: none
	budget      int   // bytes of outputs in one call
	failures    int   // calls in a row that failed
	draining    bool  // no more reserving
	fatal       error // why Work ends by itself
	undelivered int
	contact     struct {
		reached bool  // a call succeeded
		away    error // the last failure to reach the server
	}
}

// batchBytes is how much output goes into one call: well below the server's default limit of 1 MiB for a body.
const batchBytes = 700 << 10

// batchItems is how many results go into one call.
const batchItems = 5000

func newWorker(ctx context.Context, c *Client, o WorkOptions, strategy []byte, handler Handler) *worker {
	ahead := newAhead(&o)
	capacity := o.Concurrency + ahead.room()
	w := &worker{
		client:   c,
		o:        o,
		handler:  handler,
		base:     context.WithoutCancel(ctx),
		ahead:    ahead,
		ready:    make(chan *held, capacity),
		finished: make(chan *held, capacity),
		calls:    make(chan *call, 1),
		polls:    make(chan *poll, 1),
		hooks:    hooks{ended: make(chan error)},
		held:     make(map[*held]struct{}, capacity),
		budget:   batchBytes,
		progress: progresses{wake: make(chan struct{}, 1)},
	}
	w.reserve.FromReserve(&api.ReserveRequest{Strategy: strategy, Consumer: o.Consumer,
		TimeoutMS: o.Timeout.Milliseconds(), Context: o.Context})
	w.poll.ctx, w.poll.stop = context.WithCancel(w.base)
	return w
}

// run is the loop: it waits for something to happen and then starts what has become possible.
func (w *worker) run(ctx context.Context) error {
	defer w.poll.stop()
	if !w.o.NoAttach {
		w.attach()
		defer w.detach()
	}
	for range w.o.Concurrency {
		go w.handle()
	}
	ticker := time.NewTicker(w.o.Timeout / 4)
	defer ticker.Stop()
	ended := ctx.Done()
	var grace <-chan time.Time
	for {
		w.gather()
		w.start()
		if w.draining && len(w.held) == 0 && len(w.outcomes)+len(w.releases)+w.calling+w.hooks.running == 0 {
			if w.polling == 0 {
				return w.result()
			}
			w.poll.stop()
		}
		select {
		case h := <-w.finished:
			w.finish(h)
		case call := <-w.calls:
			w.called(call)
		case p := <-w.polls:
			w.polled(p)
		case e := <-w.attached.events:
			w.heard(e)
		case <-w.attached.patience:
			w.unheard()
		case err := <-w.hooks.ended:
			w.hookEnded(err)
		case <-ticker.C:
			w.tick()
		case <-w.progress.wake:
			w.progress.schedule()
		case <-w.progress.due:
			w.sendProgress()
		case <-ended:
			ended = nil
			w.drain()
			if w.o.Grace > 0 {
				timer := time.NewTimer(w.o.Grace)
				defer timer.Stop()
				grace = timer.C
			}
		case <-grace:
			for h := range w.held {
				h.cancel(ErrDraining)
			}
		}
	}
}

func (w *worker) result() error {
	if w.fatal == nil && w.undelivered > 0 {
		return fmt.Errorf("quern: work: results that were not delivered: %d; the server offers their chunks again after the deadline",
			w.undelivered)
	}
	if w.fatal == nil && !w.contact.reached && w.attached.hellos == 0 && w.contact.away != nil {
		return fmt.Errorf("quern: work: the server never answered: %w", w.contact.away)
	}
	return w.fatal
}

// drain stops reserving and collects the chunks that no handler has begun, to give them back. A poll that is under way goes on until
// nothing else is left to wait for, and its chunks go back. If it were broken off now, the server might just have answered, and would
// hold chunks for us that we do not know of, until the last handler ends. At the very end Detach gives such chunks back.
func (w *worker) drain() {
	if w.draining {
		return
	}
	w.draining = true
	for {
		select {
		case h := <-w.ready:
			delete(w.held, h)
			w.release(h)
			continue
		default:
		}
		break
	}
	close(w.ready) // only the loop sends
}

// stop ends Work because of an error.
func (w *worker) stop(err error) {
	if w.fatal == nil {
		w.fatal = err
	}
	w.drain()
}

// report gives an error to OnError, or to the log.
func (w *worker) report(err error) {
	if w.o.OnError != nil {
		w.o.OnError(err)
	} else {
		w.client.notices.warn(err, "queue", w.o.Queue, "consumer", w.o.Consumer)
	}
}

// reportResult reports a result that does not count.
func (w *worker) reportResult(h *held, result api.Result) {
	w.report(&ChunkError{Submission: h.chunk.Submission, Index: h.chunk.Index, Result: result})
}

// lose ends the handlers of chunks that are not ours any more; their results say why. A handler that ends makes room for the next
// chunk, which may be one of them: so all are marked before the first handler hears of it.
func (w *worker) lose(taken []*held) {
	for _, h := range taken {
		h.lost.Store(true)
	}
	for _, h := range taken {
		h.cancel(ErrLost)
	}
}

// room is how many chunks may be asked for. Results that were not reported yet still count, so that a server that takes no results gives
// no work either.
func (w *worker) room(reported int) int {
	if w.draining || w.attached.awaited {
		return 0
	}
	free := w.o.Concurrency + w.ahead.n - len(w.held) - (len(w.outcomes) - reported) - w.asked - w.polling - w.hooks.running
	return min(max(free, 0), api.MaxReserve)
}

// reserving says that an answer with reservations may be under way.
func (w *worker) reserving() bool { return w.asked > 0 || w.polling > 0 }

// start starts a call when there is something to report, which brings new work in the same round trip; and otherwise,
// when there is room, a poll that waits for work. A poll and calls go on beside each other, so that results never wait for
// work; while one polls the calls do not reserve, because there was nothing.
func (w *worker) start() {
	if !w.reserving() {
		w.attached.early = nil
	}
	if w.calling > 0 {
		return
	}
	if len(w.outcomes)+len(w.extends)+len(w.releases) > 0 {
		w.startCall()
		return
	}
	if room := w.room(0); room > 0 && w.polling == 0 {
		w.polling = room
		w.startPoll(room)
	}
}

// tick counts the age of reservations in quarters of their timeout and extends those that have seen two: at the latest
// when half of it is over.
func (w *worker) tick() {
	for h := range w.held {
		if h.age++; h.age >= 2 {
			w.extend(h)
		}
	}
}

func (w *worker) extend(h *held) {
	if !h.extending && !h.lost.Load() {
		h.extending = true
		w.extends = append(w.extends, h)
	}
}

// gather lets handlers run for as long as some of them end at once, so that their results share a call and a commit. Without it, calls of
// one chunk and calls of all others take turns when handlers are quick. Half of the chunks that can be held are enough for a call: while
// it is under way handlers work on the other half.
func (w *worker) gather() {
	enough := (w.o.Concurrency + w.ahead.n + 1) / 2
	for before := -1; len(w.held) > 0 && len(w.held) != before && len(w.outcomes) < enough; {
		before = len(w.held)
		runtime.Gosched()
		for more := true; more; {
			select {
			case h := <-w.finished:
				w.finish(h)
			default:
				more = false
			}
		}
	}
}

// finish takes the result of a handler.
func (w *worker) finish(h *held) {
	delete(w.held, h)
	if h.failed && (h.stack != nil || !h.back && !h.lost.Load()) {
		w.report(&HandlerError{Submission: h.chunk.Submission, Index: h.chunk.Index, Err: h.err, Stack: h.stack})
	}
	switch {
	case h.lost.Load():
		w.reportResult(h, h.result)
	case h.back:
		w.release(h)
	default:
		w.outcomes = append(w.outcomes, h)
	}
}

func (w *worker) release(h *held) {
	if !h.lost.Load() {
		w.releases = append(w.releases, h)
	}
}

// warn reports the parts of the strategy without effect: once, until they change.
func (w *worker) warn(warnings []wire.Warning) {
	for i, warning := range warnings {
		if i >= len(w.warned) || w.warned[i] != warning {
			w.report(&StrategyError{api.StrategyWarning(warning)})
		}
	}
	w.warned = append(w.warned[:0], warnings...)
}

// accept takes new reservations; after the beginning of the drain they go back at once. If the server took some of them back, the
// stream may have said so first.
func (w *worker) accept(r *wire.ReserveResponse, hellos int) {
	if r.Reason == api.ReasonDraining {
		w.leave()
	}
	for i := range r.Reservations {
		h, err := newHeld(w, &r.Reservations[i])
		if err != nil {
			w.stop(err)
		}
		if w.draining || len(w.held) == cap(w.ready) { // a server that gives more than was asked for must not block the loop
			w.releases = append(w.releases, h)
			continue
		}
		w.held[h] = struct{}{}
		if result, is := w.attached.early[string(h.token)]; is {
			h.result = result
			w.lose([]*held{h}) // no handler begins with it
		}
		w.ready <- h
	}
	w.extendSince(hellos)
}

// waited says whether a handler waits for calls a sixteenth of its time or more: how long the call took, by how long a handler works on a
// chunk, which follows from how many chunks ended since the call before.
func (w *worker) waited(call *call) bool {
	now := time.Now()
	took, since := now.Sub(call.began), now.Sub(w.answered)
	w.answered = now
	return 16*took.Seconds()*float64(len(call.outcomes)) >= since.Seconds()*float64(w.o.Concurrency)
}

// called takes the end of a call.
func (w *worker) called(call *call) {
	asked, waited := w.asked, w.waited(call)
	w.calling, w.asked = 0, 0
	if call.err == nil {
		w.failures, w.contact.reached = 0, true
		if asked > 0 {
			w.ahead.answered(len(w.ready), len(call.out.Reservations) == asked, len(call.out.body), waited)
			w.warn(call.out.Warnings) // an answer to a call that asked for nothing has none, and takes back none
		}
		w.settle(call)
		w.accept(&call.out.ReserveResponse, call.hellos)
		return
	}
	for _, h := range call.extends {
		h.extending = false // the next tick asks again
	}
	w.extendSince(call.hellos)
	isRefusal := final(call.err)
	switch {
	case isRefusal && w.refused(call):
	case isRefusal && !w.draining:
		w.outcomes = append(call.outcomes, w.outcomes...)
		w.releases = append(call.releases, w.releases...)
		w.stop(call.err)
	case isRefusal || w.draining && w.failures > 0:
		w.undelivered += len(call.outcomes)
		w.report(call.err)
	default:
		w.failures++
		w.outcomes = append(call.outcomes, w.outcomes...)
		w.releases = append(call.releases, w.releases...)
		w.report(call.err)
	}
}

// settle takes the results of a call.
func (w *worker) settle(call *call) {
	completes, fails := 0, 0
	for _, h := range call.outcomes {
		var result wire.Result
		if h.failed {
			result = call.out.Fail[fails]
			fails++
		} else {
			result = call.out.Complete[completes]
			completes++
		}
		switch {
		case result.Status != api.StatusOK && result.Status != api.StatusAlready:
			w.reportResult(h, resultOf(&result))
		case h.failed:
			w.hook(h)
		}
		if result.Status == api.StatusRefused { // the chunk is still ours, and fails: its output may find room at another try
			h.failed, h.reason = true, clip(result.Detail, maxErrorBytes)
			w.outcomes = append(w.outcomes, h)
		}
	}
	var lost []*held
	for i, h := range call.extends {
		h.extending = false
		switch result := call.out.Extend[i]; result.Status {
		case api.StatusOK, api.StatusAlready:
			h.age = 0
		case api.StatusInvalid:
			w.reportResult(h, resultOf(&result))
		default:
			if _, still := w.held[h]; still {
				h.result, lost = resultOf(&result), append(lost, h)
			}
		}
	}
	w.lose(lost)
}

// polled takes the end of a poll.
func (w *worker) polled(p *poll) {
	w.polling = 0
	if p.err == nil {
		w.poll.failures, w.contact.reached = 0, true
		w.warn(p.out.Warnings)
		w.accept(&p.out.ReserveResponse, p.hellos)
		return
	}
	switch {
	case w.draining:
	case final(p.err):
		w.stop(p.err)
	default:
		w.poll.failures = min(w.poll.failures+1, math.MaxInt16)
		w.contact.away = p.err
		w.report(p.err)
	}
}
