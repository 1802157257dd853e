package web

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// links are connections to other nodes for calls with small bodies. The goroutine of a call writes and reads by itself.
// http.Transport has two more goroutines for each connection, and to wake them up takes longer than the rest of a short
// hop.
//
//	get ─► one that is idle and was not closed meanwhile, else a new one ─► write the call ─► read the answer
//	  ▲                                                                                           │
//	  └──────────────── idle ◄── the answer was read to its end ◄─────────────────────────────────┘
type links struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu   sync.Mutex
	idle map[string][]*nodeLink // by address; the one that was used last is the last
}

// nodeLink is one connection. One call at a time has it.
type nodeLink struct {
	net.Conn
	of      *links
	address string
	in      *bufio.Reader
	out     *bufio.Writer
	since   time.Time // when it became idle
}

// Bounds of links: those that are idle for one node, and for how long one is kept. The other node keeps it for longer.
const (
	linksMost = 256
	linkIdle  = 30 * time.Second
)

// call has a node answer a call whose body, if there is one, is in memory. The body of the answer has to be closed.
func (l *links) call(ctx context.Context, sent *http.Request) (*http.Response, error) {
	c, err := l.get(ctx, sent.URL.Host)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	err = sent.Write(c.out)
	if err == nil {
		err = c.out.Flush()
	}
	var answer *http.Response
	if err == nil {
		answer, err = http.ReadResponse(c.in, sent)
	}
	if err != nil {
		stop()
		return nil, errors.Join(err, c.Close())
	}
	answer.Body = &linkBody{ReadCloser: answer.Body, link: c, stop: stop, last: answer.Close}
	return answer, nil
}

// get is a connection that no other call has.
func (l *links) get(ctx context.Context, address string) (*nodeLink, error) {
	for c := l.take(address); c != nil; c = l.take(address) {
		if time.Since(c.since) < linkIdle && c.open() {
			return c, nil
		}
		_ = c.Close()
	}
	conn, err := l.dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &nodeLink{Conn: conn, of: l, address: address, in: bufio.NewReader(conn), out: bufio.NewWriter(conn)}, nil
}

func (l *links) take(address string) *nodeLink {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.idle[address]
	if len(list) == 0 {
		return nil
	}
	c := list[len(list)-1]
	l.idle[address] = list[:len(list)-1]
	return c
}

// open says that the other node has neither closed the connection nor sent anything. A node that ended has closed it:
// a call that is sent on it would be lost, and its outcome unknown. A read of net.Conn would wait, or not look at all.
func (c *nodeLink) open() bool {
	conn, is := c.Conn.(syscall.Conn)
	if !is {
		return false
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	var n int
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		n, failed = syscall.Read(int(fd), make([]byte, 1))
		return true
	})
	return err == nil && n <= 0 && (failed == syscall.EAGAIN || failed == syscall.EWOULDBLOCK)
}

// put keeps a connection for the next call, unless there are enough.
func (c *nodeLink) put() error {
	c.since = time.Now()
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if len(c.of.idle[c.address]) >= linksMost {
		return c.Close()
	}
	c.of.idle[c.address] = append(c.of.idle[c.address], c)
	return nil
}

// linkBody is the body of an answer. Its end frees the connection.
type linkBody struct {
	io.ReadCloser
	link  *nodeLink
	stop  func() bool // the call's end ends the connection no more
	last  bool        // the other node closes the connection
	ended bool
}

func (b *linkBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.ended = b.ended || err == io.EOF
	return n, err
}

func (b *linkBody) Close() error {
	if b.stop() && b.ended && !b.last {
		return b.link.put()
	}
	return b.link.Close()
}
