package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// ErrDrained is the error that WorkOptions.OnError gets when an operator ordered this consumer to finish its chunks and leave. Work then
// ends as if its context had ended.
var ErrDrained = errors.New("quern: an operator told this consumer to finish what it holds and leave")

// attaching is the part of a worker that keeps it known to the server. Its goroutine speaks to the loop through events.
type attaching struct {
	events chan attachEvent
	ended  chan struct{} // closed when the goroutine has ended
	stop   context.CancelFunc
	last   atomic.Bool // the stream must not be opened again
	hellos int         // how often the server said hello

	// The worker reserves nothing before the server's first hello, or firstHello. Chunks that its name holds until then are its
	// predecessor's. The server ends those reservations because the incarnation is new. A worker that had to begin without a hello no
	// longer says which process it is.
	awaited     bool
	patience    <-chan time.Time
	incarnation atomic.Pointer[string]

	// The server refuses to know the worker. In all other cases a worker says that it leaves, even without a hello: the server may know
	// it.
	unknown atomic.Bool

	// Revocations, by token, that came before the worker knew that it has the chunk: the stream may overtake the answer of a reserve.
	early map[string]api.Result
}

// attachEvent is an event of the stream, or an error that Work goes on after.
type attachEvent struct {
	ConsumerEvent
	err error
}

// firstHello is how long a worker waits for the server's first hello before it reserves.
const firstHello = 10 * time.Second

// attach starts to keep the consumer known. The goroutine may wait for the loop, which never waits for it while it runs.
func (w *worker) attach() {
	w.attached.awaited, w.attached.patience = true, time.After(firstHello)
	w.attached.incarnation.Store(&w.client.random.incarnation)
	w.attached.events = make(chan attachEvent)
	w.attached.ended = make(chan struct{})
	ctx, stop := context.WithCancel(w.base)
	w.attached.stop = stop
	go func() {
		defer close(w.attached.ended)
		w.stayAttached(ctx)
	}()
}

// stayAttached comes back whenever the stream ends, with growing pauses as long as that leads to nothing. A server that does not
// know the operation, or refuses it for good, is left alone: work goes on, and only deadlines count.
func (w *worker) stayAttached(ctx context.Context) {
	tell := func(e attachEvent) {
		select {
		case w.attached.events <- e:
		case <-ctx.Done():
		}
	}
	for failures := 0; ; failures++ {
		err := w.client.Attach(ctx, w.o.Queue, w.o.Consumer, *w.attached.incarnation.Load(), func(e ConsumerEvent) {
			failures = 0
			tell(attachEvent{ConsumerEvent: e})
		})
		var refused *Error
		switch {
		case ctx.Err() != nil || w.attached.last.Load():
			return
		case errors.As(err, &refused) && refused.Code == api.CodeUnknownQueue:
			w.attached.unknown.Store(true)
			tell(attachEvent{}) // the reserves will say why
			return
		case final(err):
			w.attached.unknown.Store(true)
			tell(attachEvent{err: fmt.Errorf("quern: this consumer cannot attach, so that only deadlines tell of its end: %w", err)})
			return
		case err != nil:
			tell(attachEvent{err: err})
		}
		if pause(ctx, w.client.backoff(failures, refused)) != nil {
			return
		}
	}
}

// heard takes an event of the stream.
func (w *worker) heard(e attachEvent) {
	if e.Name == api.EventHello || w.attached.unknown.Load() {
		w.attached.awaited = false
	}
	switch {
	case e.err != nil:
		if !final(e.err) {
			w.contact.away = e.err
		}
		w.report(e.err)
	case e.Name == api.EventHello:
		// In another epoch the server may have forgotten our chunks, and after a gap we may have missed that some were taken from us. So
		// the server hears of all our chunks, and we hear which are still ours. The first hello is no exception: another server may have
		// given us chunks before our stream stood.
		w.attached.hellos++
		w.extendAll()
	case e.Name == api.EventDrain:
		w.leave()
	case e.Name == api.EventRevoked:
		w.revoke(e.Revoked)
	}
}

// unheard lets the worker begin without a hello.
func (w *worker) unheard() {
	if w.attached.awaited {
		w.attached.awaited = false
		w.attached.incarnation.Store(new(string))
	}
}

// leave follows an operator's order to drain the consumer.
func (w *worker) leave() {
	if !w.draining {
		w.report(ErrDrained)
		w.drain()
	}
}

func (w *worker) extendAll() {
	for h := range w.held {
		w.extend(h)
	}
}

// extendSince extends all when the server said hello since a call began: the server that answered the call may have forgotten by now the
// chunks that the call brought and those that it extended.
func (w *worker) extendSince(hellos int) {
	if w.attached.hellos > hellos {
		w.extendAll()
	}
}

// revoke ends the handlers of the chunks that the server took back.
func (w *worker) revoke(list []api.Revoked) {
	results := make(map[string]api.Result, len(list))
	for _, r := range list {
		results[r.Token] = takenAs(r.Reason)
	}
	var taken []*held
	for h := range w.held {
		result, is := results[string(h.token)]
		if !is {
			continue
		}
		delete(results, string(h.token))
		if h.lost.Load() {
			continue
		}
		h.result, taken = result, append(taken, h)
	}
	if w.reserving() {
		w.attached.early = merged(w.attached.early, results)
	}
	w.lose(taken)
}

// takenAs is the result of a reservation that was taken for a reason.
func takenAs(reason string) api.Result {
	if reason == api.RevokedEnded {
		return api.Result{Status: api.StatusGone, Code: reason,
			Detail: "the submission ended (cancelled or failed), or the chunk is out of attempts"}
	}
	return api.Result{Status: api.StatusLost, Code: "revoked", Detail: "the reservation was taken: " + reason}
}

func merged(into, more map[string]api.Result) map[string]api.Result {
	if into == nil {
		return more
	}
	maps.Copy(into, more)
	return into
}

// detachWait bounds how long a worker that is done tries to say so.
const detachWait = 2 * time.Second

// detach ends the stream, after it has sent the server that we leave. When that fails the server misses us, and finds that we
// hold nothing.
func (w *worker) detach() {
	if w.attached.stop == nil {
		return
	}
	w.attached.last.Store(true)
	if !w.attached.unknown.Load() {
		ctx, cancel := context.WithTimeout(w.base, detachWait)
		_, _ = w.client.Detach(ctx, w.o.Queue, w.o.Consumer)
		cancel()
	}
	w.attached.stop()
	<-w.attached.ended
}
