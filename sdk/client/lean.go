package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"
)

// lean is a pool of HTTP/1.1 keep-alive connections to one server, plain or over TLS. A connection is used by one call at a
// time; the one that was used last is taken first, so that the others may grow old and go.
type lean struct {
	client  *Client
	network string      // to connect by: tcp or unix
	address string      // host:port to connect to, or the path of a Unix socket
	host    string      // for the Host header
	prefix  string      // path of the base address
	tls     *tls.Config // nil: plain
	dialer  net.Dialer
	idleFor time.Duration // how long an unused connection is kept
	maxIdle int

	mu   sync.Mutex
	idle []*conn
}

const dialTimeout = 10 * time.Second

// newLean makes the pool for the server at u, or at a Unix socket.
func newLean(c *Client, u *url.URL, base, socket string, s *settings) *lean {
	l := &lean{client: c, network: "tcp", host: u.Host, tls: leanTLS(u, s.tls), dialer: net.Dialer{Timeout: dialTimeout},
		idleFor: s.idleTimeout, maxIdle: s.maxIdle}
	_, l.prefix, _ = cutHost(base)
	if socket != "" {
		l.network, l.address, l.host = "unix", socket, socketHost
		return l
	}
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	l.address = net.JoinHostPort(u.Hostname(), port)
	return l
}

// leanTLS is how connections to u are secured: as base says, for the host of u, and with HTTP/1.1, as a connection that is
// used by one call at a time gains nothing from HTTP/2. It is nil where u is not https.
func leanTLS(u *url.URL, base *tls.Config) *tls.Config {
	if u.Scheme != "https" {
		return nil
	}
	config := base.Clone()
	config.ServerName = cmp.Or(config.ServerName, u.Hostname())
	if config.ClientSessionCache == nil {
		config.ClientSessionCache = tls.NewLRUClientSessionCache(0) // a new connection of the pool resumes the session of an older one
	}
	config.NextProtos = []string{"http/1.1"}
	return config
}

// cutHost splits scheme://host/path before the path.
func cutHost(base string) (host, path string, ok bool) {
	scheme := strings.Index(base, "://") + len("://")
	if i := strings.IndexByte(base[scheme:], '/'); i >= 0 {
		return base[:scheme+i], base[scheme+i:], true
	}
	return base, "", false
}

// roundTrip makes one call. A kept connection may have been closed by the server in the meantime, which shows only when it
// is used: such a call is made again on the next connection, at the latest on a new one, when it may be made twice.
func (l *lean) roundTrip(ctx context.Context, q *request, r *reply) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		c, reused, err := l.take(ctx)
		if err != nil {
			return err
		}
		started, err := c.roundTrip(ctx, q, r)
		if err == nil || !reused || started || !q.safe || !stale(err) {
			return err
		}
	}
}

// stale says whether err is how a connection that the server closed looks: not a deadline, not the end of the context.
func stale(err error) bool {
	var timeout net.Error
	return !errors.Is(err, errEnded) && !(errors.As(err, &timeout) && timeout.Timeout())
}

// take lends an idle connection or makes a new one.
func (l *lean) take(ctx context.Context) (c *conn, reused bool, err error) {
	for {
		l.mu.Lock()
		n := len(l.idle)
		if n == 0 {
			l.mu.Unlock()
			break
		}
		c := l.idle[n-1]
		l.idle[n-1] = nil
		l.idle = l.idle[:n-1]
		c.idle = false
		l.mu.Unlock()
		if c.timer.Stop() {
			return c, true, nil
		}
		c.close() // its time was over in this very moment
	}
	raw, err := l.dial(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("connect: %w", err)
	}
	return newConn(l, raw), false, nil
}

// dial makes a connection, within dialTimeout, the handshake included.
func (l *lean) dial(ctx context.Context) (net.Conn, error) {
	if l.tls == nil {
		return l.dialer.DialContext(ctx, l.network, l.address)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	secure := tls.Dialer{NetDialer: &l.dialer, Config: l.tls}
	return secure.DialContext(ctx, l.network, l.address)
}

// give takes a connection back after a call, unless enough are idle.
func (l *lean) give(c *conn) {
	l.mu.Lock()
	if len(l.idle) >= l.maxIdle {
		l.mu.Unlock()
		c.close()
		return
	}
	c.idle = true
	l.idle = append(l.idle, c)
	c.timer.Reset(l.idleFor)
	l.mu.Unlock()
}

// expire runs when a connection's timer fires: an idle one is closed, the call of a busy one ends.
func (l *lean) expire(c *conn) {
	l.mu.Lock()
	if c.idle {
		for i := range l.idle {
			if l.idle[i] == c {
				l.idle = append(l.idle[:i], l.idle[i+1:]...)
				break
			}
		}
		c.idle = false
		l.mu.Unlock()
		c.close()
		return
	}
	l.mu.Unlock()
	c.abort(errTimeout)
}

func (l *lean) closeIdle() {
	l.mu.Lock()
	idle := l.idle
	l.idle = nil
	for _, c := range idle {
		c.idle = false
	}
	l.mu.Unlock()
	for _, c := range idle {
		c.timer.Stop()
		c.close()
	}
}
