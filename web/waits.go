package web

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// waits are the requests that wait for something, so that they can be ended when the
// server stops. It is a set and not a tree of contexts, because ten thousand contexts that
// can be cancelled from above cost megabytes.
//
//	enter ─► wait ─► leave        the usual way
//	stop  ─► read deadline in the past ─► net/http ends the request's context ─► the handler answers ─► leave
//	end   ─► the same, for those whose token or session is over
//
// The answer of a wait that is ended still goes out: only reading ends. multiplexed does the same for HTTP/2. The
// key is the writer of the answer: no two requests that run share one.
type waits struct {
	clock *clock

	mu   sync.Mutex
	set  map[http.ResponseWriter]*credential // nil: it needed none
	over bool
}

// enter adds a request before it waits. It says no when the server stops: then there is no
// waiting any more. Before that the deadlines of the request are moved, as stopping sets
// one too: reading only serves to notice that the client went away, so it has no limit,
// and the time for the answer starts when the wait ends.
func (w *waits) enter(writer http.ResponseWriter, by *credential, wait time.Duration) bool {
	control := http.NewResponseController(writer)
	// A writer that knows no deadlines (a test's recorder) has none to move.
	_ = control.SetReadDeadline(time.Time{})
	_ = control.SetWriteDeadline(w.clock.wall().Add(wait + w.clock.patience.write))
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return false
	}
	if w.set == nil {
		w.set = make(map[http.ResponseWriter]*credential)
	}
	w.set[writer] = by
	return true
}

// leave takes a request out. Its connection may carry the next one.
func (w *waits) leave(writer http.ResponseWriter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.set, writer)
}

func (w *waits) stopped() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.over
}

// stop ends all waits: while a handler runs, net/http reads ahead to notice that the client went away, and takes a
// read that fails for that, which ends the request's context. Writing is not touched, so the answer still goes out.
// over is set under the lock that enter takes, so no request begins to wait after the loop.
func (w *waits) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	for writer := range w.set {
		_ = http.NewResponseController(writer).SetReadDeadline(longAgo)
	}
}

// end ends, as stop does for all, the waits of those whose credential is not good any more.
func (w *waits) end(good func(*credential) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for writer, by := range w.set {
		if by != nil && !good(by) {
			_ = http.NewResponseController(writer).SetReadDeadline(longAgo)
		}
	}
}

// each calls fn with the credential of every wait that has one. fn runs under the lock, so it must not enter, leave
// or end a wait.
func (w *waits) each(fn func(*credential)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, by := range w.set {
		if by != nil {
			fn(by)
		}
	}
}

// forgetHeaders drops what a waiting request holds for nothing: its headers, but the one
// that its answer repeats. net/http reads none once a handler runs.
func forgetHeaders(r *http.Request) {
	id := r.Header[headerRequestID]
	r.Header = nil
	if len(id) > 0 {
		r.Header = http.Header{headerRequestID: id}
	}
}

// longAgo is the read deadline that ends a wait, see waits.
var longAgo = time.Unix(1, 0)

// multiplexed makes waits end over HTTP/2 as they do over HTTP/1.1. There a read deadline
// that has passed ends the request's context, because the server reads ahead to notice
// that the client went away. Over HTTP/2 many requests share a connection and nothing is
// read ahead for one of them: its context has to be ended by itself. HTTP/1.1, which has
// the long polls by the ten thousand, pays nothing.
func multiplexed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor < 2 {
			next.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		next.ServeHTTP(&endable{w, cancel}, r.WithContext(ctx))
	})
}

// endable is a writer whose request ends when its read deadline is longAgo.
type endable struct {
	http.ResponseWriter
	cancel context.CancelFunc
}

func (w *endable) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// SetReadDeadline is what http.ResponseController finds first.
func (w *endable) SetReadDeadline(at time.Time) error {
	if at.Equal(longAgo) {
		w.cancel()
		return nil
	}
	return http.NewResponseController(w.ResponseWriter).SetReadDeadline(at)
}
