package web

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
)

// Any node of a cluster answers any call. It forwards a call for another node's queue to that node, once. A forwarded
// call has the header Quern-Hop, which names the caller, and which only nodes can make.

const (
	headerOwner = "Quern-Owner" // the URL of the node that serves the queue
	headerHop   = "Quern-Hop"
)

// forwarding sends calls on to the nodes that can answer them. transport is for whole calls and for parts of calls
// (spread.go): the nodes share connections for both.
type forwarding struct {
	nodes *engine.Nodes // nil: the server is alone
	auth  *auth
	log   *slog.Logger

	transport http.RoundTripper
	self      http.Handler // answers this node's calls to itself
}

// ownHeaders are about the node that a call came to, or about the connection to it. They must not travel on: this node
// has checked them already, the other one would check them once more, and it needs no secret of the client.
var ownHeaders = []string{"Authorization", "Cookie", "Origin", "Referer", "Sec-Fetch-Site", "Sec-Fetch-Mode",
	"Sec-Fetch-Dest", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

// linkHeaders are about one connection, of a call and of an answer.
var linkHeaders = []string{"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// withoutLink removes the headers about one connection.
func withoutLink(h http.Header) {
	for _, field := range h["Connection"] {
		for name := range strings.SplitSeq(field, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range linkHeaders {
		delete(h, name)
	}
}

// hop is what one node tells another about a call that it sends on.
type hop struct {
	Proof   *access.Proof `json:"proof,omitempty"`   // of the caller; nil: no token was needed
	Subject string        `json:"subject,omitempty"` // of the client's certificate, which stands for a token
	From    string        `json:"from"`              // the client's address
	Times   int           `json:"times,omitempty"`   // how often it was sent on before
	Known   uint64        `json:"known,omitempty"`   // how far the node that sent it on knows the catalogue
}

// hops seal the header by which nodes describe a call to each other, so that only a node can make it. Every node has
// the same key (engine.Nodes.HopKey); clients never see it.
type hops struct {
	key   []byte
	nodes *engine.Nodes // nil: the server is alone
}

// newHops has the key of all nodes. A server that is alone draws one for each start, as only it reads its seals.
func newHops(nodes *engine.Nodes) *hops {
	if nodes != nil {
		return &hops{nodes.HopKey(), nodes}
	}
	key := make([]byte, 32)
	rand.Read(key) // it never fails: the program ends first
	return &hops{key, nil}
}

// smallBody is the most bytes of a body that is read before the call is sent on. The header and such a body are
// one packet, and the other node wakes up once. If an idle connection turns out to be closed, the call still has its
// body and can be sent again.
const smallBody = 64 << 10

func newForwarding(nodes *engine.Nodes, a *auth, log *slog.Logger) *forwarding {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	// Answers pass through as they are, so they are not unpacked between nodes; and a proxy of the environment must
	// not see what nodes tell each other.
	transport.DisableCompression, transport.Proxy = true, nil
	// The default of 2 idle connections would have most calls dial. A node that does not accept within two seconds
	// counts as lost for the call.
	transport.MaxIdleConnsPerHost, transport.DialContext = 256, (&net.Dialer{Timeout: 2 * time.Second}).DialContext
	return &forwarding{nodes: nodes, auth: a, log: log, transport: transport}
}

// elsewhere says which other node is to answer a call; nil: this one does. It refuses a call that was sent on already:
// the node that sent it on did not know yet that the owner changed.
func (f *forwarding) elsewhere(c echo.Context, op *operation) (*engine.Elsewhere, error) {
	if op == nil || f.nodes == nil {
		return nil, nil
	}
	at, err := f.answers(c, op)
	switch {
	case err != nil || at == nil:
		return nil, err
	case at.Node == "":
		return nil, newProblem(queue.CodeMoving, fmt.Sprintf("No node of the cluster can answer for the "+
			"queue %q at this moment. Nothing was done; one of them does within seconds.", at.Queue))
	}
	if c.Request().Header.Get(headerHop) != "" {
		c.Response().Header().Set(headerOwner, at.URL)
		return nil, newProblem(codeElsewhere, fmt.Sprintf("Node %s serves this, at %s.", at.Node, at.URL))
	}
	return at, nil
}

// moveWait is how long a call waits for a queue that is between two nodes.
const (
	moveWait = time.Second
	moveLook = 10 * time.Millisecond
)

// answers says which node is to answer. It waits for a queue that is just moving. It polls, because other nodes write
// the answer. moveLook is short beside the move itself, and only calls that meet a moving queue pay for it.
func (f *forwarding) answers(c echo.Context, op *operation) (*engine.Elsewhere, error) {
	for waited := time.Duration(0); ; waited += moveLook {
		at, err := op.reach(f.nodes, c)
		arriving := at != nil && (at.Node == "" || at.Arriving)
		if err != nil || !arriving || waited >= moveWait {
			return at, err
		}
		timer := time.NewTimer(moveLook)
		select {
		case <-timer.C:
		case <-c.Request().Context().Done():
			timer.Stop()
			return at, c.Request().Context().Err()
		}
	}
}

// still fails if this node may not answer for a queue any more: its answer may be old. A handler that reads for long,
// such as a list, may begin while this node serves the queue and end when it no longer does. A node that lost a queue
// must not answer from memory, as the new owner may know better.
func (f *forwarding) still(c echo.Context, op *operation) error {
	if op == nil || f.nodes == nil {
		return nil
	}
	at, err := op.reach(f.nodes, c)
	if at != nil {
		err = newProblem(queue.CodeMoving, "The queue went to another node while this was answered. Send it again.")
	}
	return err
}

// send lets another node answer a call. reads says that the call changes nothing.
func (f *forwarding) send(c echo.Context, at *engine.Elsewhere, reads bool) error {
	to, err := url.Parse(at.URL)
	if err != nil {
		return internalProblem(err)
	}
	r, header := c.Request(), c.Response().Header()
	h := hop{From: f.auth.fromOf(r), Times: f.times(r)}
	if by := f.auth.credentialOf(r); by != nil {
		h.Proof, h.Subject = &by.proof, by.subject
		// A stream ends with its session, of which the other node does not know.
		if by.session != nil && r.Method == http.MethodGet && f.auth.waits.enter(c.Response(), by, 0) {
			defer f.auth.waits.leave(c.Response())
		}
	}
	// The id of the request survives the hop: both nodes log the call under the same one.
	id := header.Get(headerRequestID)
	for name := range header { // the other node sets them all
		delete(header, name)
	}
	begin := f.patient(c)
	sent := &http.Request{Method: r.Method, URL: forwardedURL(to, r.URL), Host: to.Host, Header: maps.Clone(r.Header),
		Body: r.Body, ContentLength: r.ContentLength}
	withoutLink(sent.Header)
	for _, name := range ownHeaders {
		delete(sent.Header, name)
	}
	if sent.Header["User-Agent"] == nil {
		sent.Header["User-Agent"] = []string{""} // else it would get one of Go
	}
	sent.Header[headerHop], sent.Header[headerRequestID] = []string{f.auth.hops.seal(&h)}, []string{id}
	switch {
	case r.ContentLength == 0:
		sent.Body = http.NoBody
	case r.ContentLength > 0 && r.ContentLength <= smallBody:
		// smallBody says why. A larger body, or one of unknown length, is passed on while it arrives, so that a node
		// needs no memory for calls that it does not serve.
		body := make([]byte, r.ContentLength)
		if _, err := io.ReadFull(r.Body, body); err != nil {
			return err
		}
		sent.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		sent.Body, _ = sent.GetBody()
	}
	defer sent.Body.Close() // the transport may go on reading it after an early answer
	answer, err := f.transport.RoundTrip(sent.WithContext(r.Context()))
	if err != nil {
		return f.failed(r, at, reads, err)
	}
	defer answer.Body.Close()
	withoutLink(answer.Header)
	maps.Copy(header, answer.Header)
	// A client that reads it can send its next call to the owner directly.
	if header[headerOwner] == nil {
		header[headerOwner] = []string{to.Scheme + "://" + to.Host}
	}
	begin()
	c.Response().WriteHeader(answer.StatusCode)
	if err := pass(c.Response(), answer, begin); err != nil {
		return f.failed(r, at, reads, err)
	}
	return nil
}

// times is how often nodes have sent a call on.
func (f *forwarding) times(r *http.Request) int {
	if h := f.auth.hops.of(r); h != nil {
		return h.Times + 1
	}
	return 0
}

// forwardedURL is the URL of a request at another node.
func forwardedURL(node, asked *url.URL) *url.URL {
	return &url.URL{Scheme: node.Scheme, Host: node.Host, Path: asked.Path, RawPath: asked.RawPath,
		RawQuery: asked.RawQuery}
}

// passed are buffers through which answers go.
var passed = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// errClientGone says that an answer could not be written.
var errClientGone = errors.New("the client went away")

// pass writes the body of an answer while it comes. A body without a length is sent at once, as it may be a stream.
func pass(to *echo.Response, answer *http.Response, begin func()) error {
	buffer := passed.Get().(*[32 << 10]byte)
	defer passed.Put(buffer)
	for flushes := answer.ContentLength < 0; ; {
		if flushes {
			if err := http.NewResponseController(to).Flush(); err != nil {
				return errors.Join(errClientGone, err)
			}
		}
		n, err := answer.Body.Read(buffer[:])
		if n > 0 {
			begin()
			if _, err := to.Write(buffer[:n]); err != nil {
				return errors.Join(errClientGone, err)
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// patient gives a call that is sent on its deadlines: one for the whole body, and one for each write of the
// answer, before which begin is called: a client that does not read must not keep an answer for ever. While the other
// node works there is no deadline: that node ends calls that take too long.
func (f *forwarding) patient(c echo.Context) (begin func()) {
	r, clock := c.Request(), f.auth.clock
	control := http.NewResponseController(c.Response())
	until := func(set func(time.Time) error, d time.Duration) {
		at := time.Time{}
		if d > 0 {
			at = clock.wall().Add(d)
		}
		_ = set(at) // a connection without deadlines has no need of them
	}
	until(control.SetWriteDeadline, 0)
	until(control.SetReadDeadline, 0)
	if r.Body != nil && r.Body != http.NoBody {
		until(control.SetReadDeadline, clock.patience.upload)
		r.Body = &endingBody{&arriving{ReadCloser: r.Body, r: r}, func() { until(control.SetReadDeadline, 0) }}
	}
	return func() { until(control.SetWriteDeadline, clock.patience.write) }
}

// endingBody calls ended when all of a body was read.
type endingBody struct {
	io.ReadCloser
	ended func()
}

func (b *endingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.ended()
	}
	return n, err
}

// failed is the answer when another node did not give one. It first checks whether the client went away: that also ends
// the call to the other node, and is no failure of the node.
func (f *forwarding) failed(r *http.Request, at *engine.Elsewhere, reads bool, cause error) error {
	if r.Context().Err() != nil || errors.Is(cause, errClientGone) {
		return newProblem(codeClientGone, "The client went away before the answer.")
	}
	if broken, is := errors.AsType[*problem](cause); is { // the body did not arrive
		return broken
	}
	f.log.Warn("a call could not be sent on to the node that serves it", "node", at.Node, "url", at.URL, "error", cause)
	// A connection that was never made cannot have done anything, nor can a call that only reads: both may be repeated.
	// For all others the client has to decide, with its Idempotency-Key or its tokens.
	dialing, is := errors.AsType[*net.OpError](cause)
	if reads || r.Method == http.MethodGet || is && dialing.Op == "dial" {
		return &queue.Error{Code: queue.CodeMoving, Message: fmt.Sprintf("Node %s, which serves this, does not "+
			"answer. Nothing was done. Send this again in a moment; another node takes over if it is gone.", at.Node)}
	}
	return newProblem(codeUnknownOutcome, fmt.Sprintf("Node %s, which serves this, was lost before its answer: it "+
		"may have done what was asked, or not.", at.Node))
}

// seal writes a hop as a header. A hop has no time in it, so someone who reads it can repeat it, as with a token: links
// between nodes need the same protection as those of clients.
func (x *hops) seal(h *hop) string {
	h.Known = engine.CatalogueOf(x.nodes)
	text, err := json.Marshal(h)
	if err != nil {
		panic(err) // all its fields can be written
	}
	return base64.RawURLEncoding.EncodeToString(text) + "." + base64.RawURLEncoding.EncodeToString(x.mac(text))
}

func (x *hops) mac(text []byte) []byte {
	mac := hmac.New(sha256.New, x.key)
	mac.Write(text)
	return mac.Sum(nil)
}

// catchUp has this node know as much as the node that sent a call on to it: a new token, say, or the new shard of a
// group. A call that this node sends to itself has no address.
func (x *hops) catchUp(r *http.Request) {
	if h := x.of(r); h != nil && r.RemoteAddr != "" {
		engine.CatchUpTo(x.nodes, h.Known)
	}
}

// of reads the hop of a call; nil: no node has sent the call on. Without the right MAC the header counts as absent, not
// as an error: a client that sends one gets no more rights than one that sends none.
func (x *hops) of(r *http.Request) *hop {
	sealed := r.Header[headerHop]
	if x == nil || len(sealed) != 1 {
		return nil
	}
	first, second, _ := strings.Cut(sealed[0], ".")
	text, err := base64.RawURLEncoding.DecodeString(first)
	mac, err2 := base64.RawURLEncoding.DecodeString(second)
	var h hop
	if errors.Join(err, err2) != nil || !hmac.Equal(mac, x.mac(text)) || json.Unmarshal(text, &h) != nil {
		return nil
	}
	return &h
}
