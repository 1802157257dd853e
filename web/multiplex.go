package web

import (
	"context"
	"net/http"
	"time"
)

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
