package web

// These rules decide which TCP connections may stay open when there are too many. The number of
// files that the server may open is limited, and a connection takes one. Without them, any client
// could open connections, say nothing, and shut all others out, even if it has no token.
//
//	              enter                   first request that is let in
//	new socket ─────────► unproven list ─────────────────────────────► proven: stays
//	                       │  front: silent for longest
//	                       ├── no room (more than `most`, or the unproven above 3/4 of it): the front is closed
//	                       └── silent for freshIdle and not busy: closed by endIdle, once a second
//
// Invariants, under connections.mu: every open connection is in `open`; it is in `unproven` exactly
// while its `at` is not nil; the list is ordered by `silent`, because a change of state moves its
// connection to the back. That is why endIdle may stop at the first that is not idle.

import (
	"container/list"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine/access"
)

// This file keeps clients without a token from holding all files that the server may open.
// A connection is proven by its first request that is let in. The unproven connection that
// was silent for longest makes room for a new one. A quarter of all connections is kept
// for proven ones.

// freshIdle is how long an unproven connection may be open without a request.
const freshIdle = 15 * time.Second

// connections are those of all listeners.
type connections struct {
	most   int // 0: as many as there are
	now    func() time.Time
	closed *prometheus.CounterVec

	mu       sync.Mutex
	open     map[net.Conn]*connection
	unproven list.List // of *connection, the one that was silent for longest first
}

// connection is one of them. A request finds it in its context.
type connection struct {
	conn    net.Conn
	subject atomic.Pointer[string] // of the client's certificate, once it was asked for
	proven  atomic.Bool

	// The mutex of connections guards the rest.
	at     *list.Element // in unproven; nil: it is proven, or closed
	silent time.Time     // since then
	busy   bool          // a request is being read or answered
}

type connectionKey struct{}

func newConnections(registerer prometheus.Registerer, most int, now func() time.Time) (*connections, error) {
	c := &connections{most: most, now: now, open: map[net.Conn]*connection{}}
	c.closed = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "quern_http_connections_closed_total",
		Help: "Total number of connections without an accepted request that the server closed, by reason: idle " +
			"(the connection was silent) or room (another connection needed the place).",
	}, []string{"reason"})
	for _, reason := range []string{"idle", "room"} {
		c.closed.WithLabelValues(reason) // shown before there is one
	}
	gauge := func(name, help string, value func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			c.mu.Lock()
			defer c.mu.Unlock()
			return float64(value())
		})
	}
	for _, m := range []prometheus.Collector{
		c.closed,
		gauge("quern_http_connections", "Number of open connections.", func() int { return len(c.open) }),
		gauge("quern_http_connections_unproven",
			"Number of open connections on which the server has not accepted a request yet.",
			c.unproven.Len),
		gauge("quern_http_connections_limit", "Maximum number of open connections; 0 if there is no limit.",
			func() int { return c.most }),
	} {
		if err := registerer.Register(m); err != nil {
			return nil, fmt.Errorf("web: metrics of connections: %w", err)
		}
	}
	return c, nil
}

// enter puts a new connection into the context of its requests, and makes room for it. The new one
// is at the back of the list, so that it is the last to go. If all other connections are proven, it
// is closed at once: then the server is really full.
func (c *connections) enter(ctx context.Context, conn net.Conn) context.Context {
	made := &connection{conn: conn}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[conn] = made
	made.silent, made.at = c.now(), c.unproven.PushBack(made)
	for c.most > 0 && (len(c.open) > c.most || c.unproven.Len() > c.most-c.most/4) && c.unproven.Len() > 0 {
		c.end(c.unproven.Front().Value.(*connection), "room")
	}
	return context.WithValue(withConn(ctx, conn), connectionKey{}, made)
}

// changed follows the state of a connection, as net/http reports it.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.open[conn]
	if of == nil {
		return
	}
	if state == http.StateClosed || state == http.StateHijacked {
		c.forget(of)
		return
	}
	of.busy, of.silent = state == http.StateActive, c.now()
	if of.at != nil {
		c.unproven.MoveToBack(of.at)
	}
}

// prove notes that a request of the connection was let in.
func (c *connections) prove(ctx context.Context) {
	of, _ := ctx.Value(connectionKey{}).(*connection)
	if of == nil || of.proven.Swap(true) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if of.at != nil {
		c.unproven.Remove(of.at)
		of.at = nil
	}
}

// endIdle closes unproven connections that were silent for too long.
func (c *connections) endIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at := c.unproven.Front(); at != nil; {
		of := at.Value.(*connection)
		at = at.Next()
		if c.now().Sub(of.silent) < freshIdle {
			return
		}
		if !of.busy { // else the time limits of its request hold
			c.end(of, "idle")
		}
	}
}

// end closes a connection. The mutex is held.
func (c *connections) end(of *connection, reason string) {
	c.forget(of)
	c.closed.WithLabelValues(reason).Inc()
	under := of.conn
	if secure, ok := under.(*tls.Conn); ok {
		under = secure.NetConn() // a farewell could wait for the client
	}
	_ = under.Close() // there is no one to tell
}

func (c *connections) forget(of *connection) {
	delete(c.open, of.conn)
	if of.at != nil {
		c.unproven.Remove(of.at)
		of.at = nil
	}
}

// subjectOf is the subject of the client's certificate. It is read once for a connection.
func subjectOf(r *http.Request, certificate *x509.Certificate) string {
	of, _ := r.Context().Value(connectionKey{}).(*connection)
	if of != nil {
		if known := of.subject.Load(); known != nil {
			return *known
		}
	}
	subject, err := access.SubjectOf(certificate.RawSubject)
	if err != nil {
		return "" // of which there is no token
	}
	if of != nil {
		of.subject.Store(&subject)
	}
	return subject
}

// Reachable says whether other machines can reach a server that listens on address: then
// it needs tokens and TLS. Only "localhost" and literal loopback addresses are this
// machine's alone; any other name counts as reachable, because its addresses can change
// after the check. An address without the form HOST:PORT is an error.
func Reachable(address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, fmt.Errorf("must have the form HOST:PORT, such as 127.0.0.1:7700")
	}
	return !isLoopback(host), nil
}

// isLoopback says whether host (without port and brackets) can only mean this machine.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Zone() == "" && addr.Unmap().IsLoopback()
}

// hosts is the set of names that requests may address the server by. A page that rebinds
// its own name to this machine's address sends that name in Host, and so it is refused. A
// literal address cannot be rebound, so all are allowed except those that mean "any
// address", which some browsers connect to this machine.
type hosts map[string]struct{}

func newHosts(names []string) (hosts, error) {
	allowed := make(hosts, len(names))
	for _, name := range names {
		name = strings.ToLower(strings.TrimSpace(name))
		if name == "" || strings.ContainsAny(name, "/ *\t") {
			return nil, fmt.Errorf("web: allowed host %q: give a bare name or address without scheme, port or wildcard",
				name)
		}
		allowed[strings.Trim(name, "[]")] = struct{}{}
	}
	return allowed, nil
}

// allows checks a Host header, with or without port.
func (h hosts) allows(header string) bool {
	host, ok := bareHost(header)
	if !ok {
		return false
	}
	if address, err := netip.ParseAddr(host); err == nil {
		return address.Zone() == "" && !address.Unmap().IsUnspecified()
	}
	if isLoopback(host) {
		return true
	}
	_, ok = h[strings.ToLower(host)]
	return ok
}

// bareHost is a Host header without port, brackets and the dot of the root; false where
// the brackets do not match.
func bareHost(header string) (string, bool) {
	host := header
	if colon := strings.LastIndexByte(host, ':'); colon >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:colon]
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if host, ok = strings.CutSuffix(inner, "]"); !ok {
			return "", false
		}
	}
	return strings.TrimSuffix(host, "."), true
}
