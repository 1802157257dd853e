package client

import (
	"context"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

// A chunk that the server took back is not begun, even if the stream says so before the chunk arrives. Otherwise a handler
// would work on a chunk that another consumer holds, and its room would be lost until its deadline was to be extended.
func TestRevokedBeforeItArrives(t *testing.T) {
	t.Parallel()
	for name, arrive := range map[string]struct {
		ask  func(*worker)
		come func(*worker, wire.ReserveResponse)
	}{
		"by a poll": {func(w *worker) { w.polling = 3 }, func(w *worker, r wire.ReserveResponse) {
			w.polled(&poll{out: Reserved{ReserveResponse: r}})
		}},
		"by a call": {func(w *worker) { w.calling, w.asked = 1, 3 }, func(w *worker, r wire.ReserveResponse) {
			w.called(&call{out: Exchanged{ExchangeResponse: wire.ExchangeResponse{ReserveResponse: r}}})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorker(t.Context(), &Client{}, WorkOptions{Concurrency: 1, Prefetch: 5}, nil, func(context.Context, *Chunk) ([]byte, error) {
				t.Error("the handler began")
				return nil, nil
			})
			revoke := func(token, reason string) {
				w.heard(attachEvent{ConsumerEvent: ConsumerEvent{Name: api.EventRevoked, Revoked: []api.Revoked{{Token: token, Reason: reason}}}})
			}
			arrive.ask(w)
			revoke("a", api.RevokedOperator)
			revoke("b", api.RevokedEnded)
			revoke("other", api.RevokedOperator)
			arrive.come(w, wire.ReserveResponse{Reservations: []wire.Reservation{{Token: []byte("a")}, {Token: []byte("b")}, {Token: []byte("c")}}})
			want := map[string]string{"a": api.StatusLost, "b": api.StatusGone, "c": ""}
			for range 3 {
				h := <-w.ready
				if got := h.result.Status; got != want[string(h.token)] || h.lost.Load() != (got != "") || (h.ctx.Err() != nil) != (got != "") {
					t.Errorf("chunk %s: result %+v, lost %t, its context %v; want %q", h.token, h.result, h.lost.Load(), h.ctx.Err(), want[string(h.token)])
				}
				if h.lost.Load() {
					w.ready <- h
				}
			}
			close(w.ready)
			w.handle() // a lost chunk passes the handler by
			w.draining = true
			w.start()
			if w.attached.early != nil {
				t.Errorf("with no reserve under way %v is remembered, want nothing", w.attached.early)
			}
		})
	}
}

// The first handler that is cancelled makes room for the next chunk, which is revoked too.
func TestAllThatWasRevokedIsMarkedFirst(t *testing.T) {
	t.Parallel()
	w := newWorker(t.Context(), &Client{}, WorkOptions{Concurrency: 1, Prefetch: 1}, nil, nil)
	w.polling = 2
	w.polled(&poll{out: Reserved{ReserveResponse: wire.ReserveResponse{Reservations: []wire.Reservation{{Token: []byte("a")}, {Token: []byte("b")}}}}})
	both := []*held{<-w.ready, <-w.ready}
	cancelled := 0
	for _, h := range both {
		h.cancel = func(error) {
			cancelled++
			for _, other := range both {
				if !other.lost.Load() {
					t.Errorf("chunk %s is not marked when a handler is cancelled", other.token)
				}
			}
		}
	}
	w.revoke([]api.Revoked{{Token: "a"}, {Token: "b"}})
	if cancelled != 2 {
		t.Errorf("%d handlers are cancelled, want 2", cancelled)
	}
}
