package client

import (
	"context"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

// Every hello, the first one too, has all held chunks extended. This includes chunks that are being extended when it comes, and chunks
// that come with the answer to an earlier call. The server that answered may have been another one, which is gone.
func TestHelloExtendsAll(t *testing.T) {
	t.Parallel()
	ok := func(n int) (list []wire.Result) {
		for range n {
			list = append(list, wire.Result{Status: api.StatusOK})
		}
		return list
	}
	w := newWorker(t.Context(), &Client{}, WorkOptions{Concurrency: 1, Prefetch: 5}, nil, nil)
	bring := func(token string, hellos int) {
		w.polling = 1
		w.polled(&poll{hellos: hellos, out: Reserved{ReserveResponse: wire.ReserveResponse{
			Reservations: []wire.Reservation{{Token: []byte(token)}}}}})
	}
	hello := func() { w.heard(attachEvent{ConsumerEvent: ConsumerEvent{Name: api.EventHello}}) }
	// sent takes the chunks to extend, as a call does that began after so many hellos.
	sent := func(want int) *call {
		n := &call{hellos: w.attached.hellos, extends: w.extends}
		if len(n.extends) != want {
			t.Errorf("after %d hellos %d chunks are to be extended, want %d", n.hellos, len(n.extends), want)
		}
		w.extends = nil
		return n
	}
	answer := func(n *call) {
		n.out.Extend = ok(len(n.extends))
		w.called(n)
	}
	bring("a", 0)
	sent(0)
	hello()
	first := sent(1)
	bring("b", 0) // asked for before the hello
	second := sent(1)
	hello()
	sent(0) // both are being extended
	answer(first)
	answer(second)
	third := sent(2)
	answer(third)
	sent(0)
	bring("c", w.attached.hellos)
	sent(0)
	hello()
	fourth := sent(3)
	fourth.err = context.DeadlineExceeded
	w.failures = 0
	w.called(fourth)
	sent(0) // no hello came since it began: the next tick asks again
}
