package pgtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/quern-queue/quern/engine/journal/journaltest"
)

// Proxy is a proxy in front of a server. It reads the traffic, so that it knows which statements append to a journal.
type Proxy struct {
	listener net.Listener
	all      sync.WaitGroup
	way      sync.RWMutex // held for writing while nothing gets through

	mu     sync.Mutex
	server *Server
	links  map[*link]bool
	fault  journaltest.Outcome
	tries  int // the next appends that have the fault
	made   func()
	late   *link // has an append that the server has not got yet
}

// Front starts a proxy. Close ends it.
func (s *Server) Front(t testing.TB) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{server: s, listener: listener, links: map[*link]bool{}}
	p.all.Go(p.accept)
	return p
}

// Lead sends new connections to another server.
func (p *Proxy) Lead(to *Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = to
}

// Close ends the proxy with all its connections.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.Cut()
	p.all.Wait()
	return err
}

// URL is the URL of the proxy for the server's superuser; with others, of all of them.
func (p *Proxy) URL(others ...*Proxy) string {
	at := p.listener.Addr().String()
	for _, other := range others {
		at += "," + other.listener.Addr().String()
	}
	return fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", at)
}

// Fail makes the next appends end without an answer: this many, with this outcome. It calls made in each one, if that is not nil.
func (p *Proxy) Fail(o journaltest.Outcome, tries int, made func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault, p.tries, p.made = o, tries, made
}

// Cut resets all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

// Mute drops all answers on the present connections, like a link that is cut in one direction.
func (p *Proxy) Mute() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.set(func() { l.mute = true })
	}
}

// Hold stops all traffic in both directions until release is called, so that it arrives late.
func (p *Proxy) Hold() (release func()) {
	p.way.Lock()
	return sync.OnceFunc(p.way.Unlock)
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		socket := p.server.Socket()
		p.mu.Unlock()
		server, err := net.Dial("unix", socket)
		if err != nil { // it does not run
			_ = client.Close()
			continue
		}
		l := &link{p: p, client: client, server: server, appends: map[string]bool{}, ready: make(chan struct{}, 1)}
		p.mu.Lock()
		p.links[l] = true
		p.mu.Unlock()
		p.all.Go(l.requests)
		p.all.Go(l.answers)
	}
}

// next is the fault of an append that is about to go through, and the function to call in it.
func (p *Proxy) next() (o journaltest.Outcome, made func(), late *link, is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	late, p.late = p.late, nil
	if p.tries == 0 {
		return 0, nil, late, false
	}
	p.tries--
	if made = p.made; made == nil {
		made = func() {}
	}
	return p.fault, made, late, true
}

// link is a connection of a client, and the one to the server for it.
type link struct {
	p              *Proxy
	client, server net.Conn
	appends        map[string]bool // prepared statements that append
	held           []byte          // an append that is kept back
	ready          chan struct{}   // the server has answered

	mu   sync.Mutex
	mute bool // answers are dropped
	tell bool // then: ready is told of the end of the next one
}

func (l *link) set(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

func (l *link) cut() {
	_ = l.client.Close()
	_ = l.server.Close()
}

// requests forwards the messages of the client, in groups that the server answers as one.
func (l *link) requests() {
	held := false
	defer func() {
		if !held {
			l.cut()
			l.p.mu.Lock()
			defer l.p.mu.Unlock()
			delete(l.p.links, l)
		}
	}()
	if group, err := startup(l.client); err != nil || l.forward(group) != nil {
		return
	}
	for {
		group, appends, err := l.group()
		if err != nil {
			return
		}
		if !appends {
			if l.forward(group) != nil {
				return
			}
			continue
		}
		outcome, made, late, faulty := l.p.next()
		if late != nil && late.ask(late.held) == nil {
			late.cut()
		}
		switch {
		case !faulty:
			if l.forward(group) != nil {
				return
			}
			continue
		case outcome == journaltest.Written:
			_ = l.ask(group)
		case outcome == journaltest.Late:
			held, l.held = true, group
			l.p.mu.Lock()
			l.p.late = l
			l.p.mu.Unlock()
		}
		made()
		_ = l.client.Close()
		return
	}
}

func (l *link) forward(group []byte) error {
	l.p.way.RLock()
	defer l.p.way.RUnlock()
	_, err := l.server.Write(group)
	return err
}

// ask sends a group, and waits until the server has answered it. The client gets no answer.
func (l *link) ask(group []byte) error {
	l.set(func() { l.mute, l.tell = true, true })
	if err := l.forward(group); err != nil {
		return err
	}
	<-l.ready
	return nil
}

// answers forwards the messages of the server.
func (l *link) answers() {
	defer close(l.ready)
	for {
		kind, message, err := message(l.server)
		if err != nil {
			_ = l.client.Close()
			return
		}
		var mute, tell bool
		l.set(func() { mute, tell = l.mute, l.tell })
		if tell && kind == 'Z' {
			l.ready <- struct{}{}
			l.set(func() { l.tell = false })
		}
		if mute {
			continue
		}
		l.p.way.RLock()
		_, err = l.client.Write(message)
		l.p.way.RUnlock()
		if err != nil && !errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

// group reads messages up to one that asks for an answer.
func (l *link) group() (group []byte, appends bool, err error) {
	for {
		kind, m, err := message(l.client)
		if err != nil {
			return nil, false, err
		}
		group = append(group, m...)
		switch texts := bytes.Split(m[5:], []byte{0}); kind {
		case 'P': // Parse: the name of the statement, and its text
			l.appends[string(texts[0])] = bytes.Contains(texts[1], []byte("UPDATE journal SET tail"))
		case 'B': // Bind: the names of the portal and of the statement
			appends = appends || l.appends[string(texts[1])]
		case 'S', 'Q', 'X', 'H': // Sync, Query, Terminate, Flush
			return group, appends, nil
		}
	}
}

// message reads a message: its kind, its length, its content.
func message(from io.Reader) (kind byte, m []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return 0, nil, err
	}
	m, err = rest(from, head[:], binary.BigEndian.Uint32(head[1:])-4)
	return head[0], m, err
}

// startup reads the first message of a connection, which has no kind.
func startup(from io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return nil, err
	}
	return rest(from, head[:], binary.BigEndian.Uint32(head[:])-4)
}

func rest(from io.Reader, head []byte, n uint32) ([]byte, error) {
	const most = 64 << 20
	if n > most {
		return nil, fmt.Errorf("a message of %d bytes", n)
	}
	m := make([]byte, len(head)+int(n))
	copy(m, head)
	_, err := io.ReadFull(from, m[len(head):])
	return m, err
}
