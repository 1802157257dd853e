//go:build linux

package main

import (
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// wire is a way to a server on which what both sides send may be lost or late.
type wire struct {
	listener net.Listener
	to       string
	all      sync.WaitGroup

	mu    sync.Mutex
	fault wireFault
	conns map[net.Conn]bool
}

type wireFault int

const (
	noFault      wireFault = iota
	lostRequests           // data to the server is dropped
	lostAnswers            // data from the server is dropped
	slowWire
	wireFaults
)

// wireDelay is how late all comes that goes over a slow wire.
const wireDelay = 100 * time.Millisecond

// newWire begins one that ends with the test.
func newWire(t *testing.T, to string) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: listener, to: to, conns: map[net.Conn]bool{}}
	w.all.Go(w.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		w.reset()
		w.all.Wait()
	})
	return w
}

func (w *wire) url() string { return "http://" + w.listener.Addr().String() }

func (w *wire) set(f wireFault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = f
}

// reset cuts all connections.
func (w *wire) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		if link, is := c.(*net.TCPConn); is {
			_ = link.SetLinger(0)
		}
		_ = c.Close()
	}
	clear(w.conns)
}

func (w *wire) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		network := "tcp"
		if filepath.IsAbs(w.to) {
			network = "unix"
		}
		server, err := net.Dial(network, w.to)
		if err != nil {
			_ = client.Close()
			continue
		}
		w.mu.Lock()
		w.conns[client], w.conns[server] = true, true
		w.mu.Unlock()
		w.all.Go(func() { w.pass(client, server, lostRequests) })
		w.all.Go(func() { w.pass(server, client, lostAnswers) })
	}
}

// pass forwards what one side sends. A connection that has lost something is of no use any more: it is silent from then on.
func (w *wire) pass(from, to net.Conn, lost wireFault) {
	defer from.Close()
	defer to.Close()
	silent, buffer := false, make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		w.mu.Lock()
		fault := w.fault
		w.mu.Unlock()
		if fault == slowWire {
			<-time.After(wireDelay)
		}
		if silent = silent || fault == lost; silent {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}
