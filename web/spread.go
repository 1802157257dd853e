package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

//	client ─► node A ─┬─ own part (inProcess, without a connection)
//	                  ├─ node B  Quern-Hop: the caller's proof ─► its part
//	                  └─ node C  does not answer within askMost ─► `missing`, or 503
//	          joined ◄┘
//
// The node that gets a call about queues of several nodes answers it: it asks each of them for its part, with the
// rights of the caller, and joins the parts. A node that is asked for a part looks only at its own queues. This node's
// own part is made in the same way, without a connection. A list can do without a node and says which is missing. A
// wait or a batch of changes cannot: there a missing part fails the call.

// askMost is how long a node may take for its part, beside the time that the call itself waits.
const askMost = 2 * time.Second

// headerServed has the queues that a node served all the time while it made its part, so that a queue that moved
// meanwhile is noticed.
const headerServed = "Quern-Served"

// spreading answers a call by the parts of several nodes; false: one node answers it by itself.
type spreading func(c echo.Context) (answered bool, err error)

// part is the question to one node, and its answer.
type part struct {
	at     engine.Elsewhere // this node, if URL is ""
	method string           // instead of the call's own
	path   string           // escaped, instead of the call's own
	query  url.Values       // instead of the call's own; nil: none
	header http.Header      // first further headers of the request; then those of the answer
	body   []byte
	status int
	text   []byte
	err    error // it did not answer
}

// name is the node's, for a text.
func (p *part) name() string {
	if p.at.Node == "" {
		return "this node"
	}
	return "node " + p.at.Node
}

// failure is why there is no part, as the answer to the call. A node that refuses has not failed: its refusal is passed
// on (relay) as that of the whole call.
func (p *part) failure(f *forwarding, c echo.Context) error {
	switch {
	case c.Request().Context().Err() != nil:
		return newProblem(codeClientGone, "The client went away before the answer.")
	case p.err != nil:
		f.warn(p)
		return &queue.Error{Code: queue.CodeMoving, Message: fmt.Sprintf("This is about queues of several nodes, "+
			"and %s does not answer. Send it again in a moment; another node takes over if it is gone.", p.name())}
	}
	return nil
}

// warn logs that a node did not answer for its part.
func (f *forwarding) warn(p *part) {
	f.log.Warn("a node did not answer for its part of a call", "node", p.at.Node, "url", p.at.URL,
		"error", p.err)
}

// relay answers a call with the answer of a node.
func (p *part) relay(c echo.Context) error {
	for _, name := range []string{"Content-Type", "Retry-After", headerOwner} {
		if value := p.header.Get(name); value != "" {
			c.Response().Header().Set(name, value)
		}
	}
	c.Response().WriteHeader(p.status)
	return p.write(c)
}

// write sends the text on. An answer without a text, such as 204, may not even write none: HTTP/2 refuses that.
func (p *part) write(c echo.Context) error {
	if len(p.text) == 0 {
		return nil
	}
	_, err := c.Response().Write(p.text)
	return err
}

// asker asks nodes for parts of a call. It has a copy of everything that they need to know of the call, because it may
// still be asking when the call is over. By then the echo.Context belongs to another call.
type asker struct {
	f            *forwarding
	method, path string
	header       http.Header
}

// asker copies what nodes need to know of a call.
// Only the headers that a part depends on are sent. The caller's own credential stays here; the hop has its proof.
func (f *forwarding) asker(c echo.Context) *asker {
	in := c.Request()
	a := &asker{f: f, method: in.Method, path: in.URL.EscapedPath(), header: http.Header{}}
	if a.method == http.MethodHead {
		a.method = http.MethodGet // the parts are joined as for a GET, and the server leaves out the result
	}
	for _, name := range []string{"Accept", "Content-Type", headerOnBehalfOf} {
		if value := in.Header.Get(name); value != "" {
			a.header.Set(name, value)
		}
	}
	h := hop{From: f.auth.fromOf(in), Times: f.times(in)}
	if by := f.auth.credentialOf(in); by != nil {
		h.Proof, h.Subject = &by.proof, by.subject
	}
	a.header.Set(headerHop, f.auth.hops.seal(&h))
	a.header.Set(headerRequestID, c.Response().Header().Get(headerRequestID))
	return a
}

// open asks a node for its part of a call.
func (a *asker) open(ctx context.Context, p *part) (*http.Response, error) {
	to := cmp.Or(p.at.URL, "http://localhost")
	to += cmp.Or(p.path, a.path) + "?" + p.query.Encode()
	r, err := http.NewRequestWithContext(ctx, cmp.Or(p.method, a.method), to, bytes.NewReader(p.body))
	if err != nil {
		return nil, err
	}
	maps.Copy(r.Header, p.header)
	maps.Copy(r.Header, a.header)
	if p.at.URL == "" {
		return inProcess{a.f.self}.RoundTrip(r)
	}
	return a.f.transport.RoundTrip(r)
}

// maxPart bounds the bytes of a part: those of an answer, with room for how they are written.
const maxPart = 4 * queue.MaxAnswerBytes

// ask asks a node for its part, and reads it. Its result is in the part, so that several can be asked at once and
// looked at in one place.
func (a *asker) ask(ctx context.Context, p *part) {
	answer, err := a.open(ctx, p)
	if p.err = err; err != nil {
		return
	}
	defer answer.Body.Close()
	p.status, p.header = answer.StatusCode, answer.Header
	p.text, p.err = io.ReadAll(http.MaxBytesReader(nil, answer.Body, maxPart))
}

// askAll asks all nodes at once. It returns when each has answered, or has had its time. refused is this node's
// part, if that is an error: the others refuse the same, or do not serve.
// All are asked at once, so the call takes as long as the slowest, and at most askMost.
func (f *forwarding) askAll(c echo.Context, parts []*part) (refused *part) {
	ctx, done := context.WithTimeout(c.Request().Context(), askMost)
	defer done()
	by := f.asker(c)
	var asked sync.WaitGroup
	for _, p := range parts {
		asked.Go(func() { by.ask(ctx, p) })
	}
	asked.Wait()
	for _, p := range parts {
		if p.err != nil {
			f.warn(p)
		} else if p.at.URL == "" && p.status != http.StatusOK {
			refused = p
		}
	}
	return refused
}

// askOthers are the answers of the other nodes at a path that only nodes call, and the names of those that do not
// answer in time.
func askOthers[T any](ctx context.Context, f *forwarding, method, path string) (said []T, silent []string) {
	ctx, done := context.WithTimeout(ctx, askMost)
	defer done()
	others := f.nodes.Others()
	answers := make([]*T, len(others))
	var asked sync.WaitGroup
	for i, at := range others {
		asked.Go(func() {
			one := new(T)
			text, err := farLetterbox{f, ""}.call(ctx, method, at.URL+path, nil)
			if err == nil {
				err = json.Unmarshal(text, one)
			}
			if err != nil {
				f.warn(&part{at: at, err: err})
				return
			}
			answers[i] = one
		})
	}
	asked.Wait()
	for i, one := range answers {
		if one == nil {
			silent = append(silent, others[i].Node)
		} else {
			said = append(said, *one)
		}
	}
	return said, silent
}

// whole says that a call came from a client, so that its answer is about the queues of all nodes, and not only a
// part for another node.
// Without this a node that is asked for a part would ask all others again, without end.
func (f *forwarding) whole(c echo.Context) bool {
	return f.nodes != nil && f.auth.hops.of(c.Request()) == nil
}

// name is this node's; empty: the server is alone.
func (f *forwarding) name() string {
	if f.nodes == nil {
		return ""
	}
	return f.nodes.Self()
}

// everywhere are the parts of all nodes of the cluster that live, this one first.
func (f *forwarding) everywhere(c echo.Context) (parts []*part) {
	query := c.QueryParams()
	parts = append(parts, &part{query: query})
	for _, at := range f.nodes.Others() {
		parts = append(parts, &part{at: at, query: query})
	}
	return parts
}

// sharedOut are the parts of a call about some queues, each with its things; nil: one node answers for all, or refuses
// the call. It waits for queues that just move. of says where a thing is.
func sharedOut(c echo.Context, things []string, of func(string) *engine.Elsewhere) (
	map[string][]string, map[string]*part, error) {
	if len(things) < 2 {
		return nil, nil, nil
	}
	places, err := placesOf(c, things, of)
	if err != nil {
		return nil, nil, err
	}
	about, parts := map[string][]string{}, map[string]*part{}
	for _, thing := range things {
		at := places[thing]
		if parts[at.URL] == nil {
			parts[at.URL] = &part{at: at}
		}
		about[at.URL] = append(about[at.URL], thing)
	}
	if len(parts) < 2 {
		return nil, nil, nil
	}
	return about, parts, nil
}

// placesOf says at which nodes things are; a URL of "" is this node. It waits for those that just move.
func placesOf(c echo.Context, things []string, of func(string) *engine.Elsewhere) (map[string]engine.Elsewhere, error) {
	for waited := time.Duration(0); ; waited += moveLook {
		places, moving := map[string]engine.Elsewhere{}, ""
		for _, thing := range things {
			at := of(thing)
			if at == nil {
				at = &engine.Elsewhere{}
			} else if at.Node == "" || at.Arriving {
				moving = at.Queue
			}
			places[thing] = *at
		}
		switch {
		case moving == "":
			return places, nil
		case waited >= moveWait:
			return nil, newProblem(queue.CodeMoving, fmt.Sprintf("No node of the cluster can answer for the "+
				"queue %q at this moment. Nothing was done; one of them does within seconds.", moving))
		}
		timer := time.NewTimer(moveLook)
		select {
		case <-timer.C:
		case <-c.Request().Context().Done():
			timer.Stop()
			return nil, c.Request().Context().Err()
		}
	}
}

// noteServed tells the node that asks for a part which queues this one has served since before its handler ran. A queue
// counts only if it was there before and after. One that moved away in between may be missing in this part, and one
// that arrived may be in two.
func (f *forwarding) noteServed(c echo.Context) {
	before := f.nodes.Served()
	c.Response().Before(func() {
		after := f.nodes.Served()
		c.Response().Header().Set(headerServed, strings.Join(slices.DeleteFunc(before, func(name string) bool {
			return !slices.Contains(after, name)
		}), ","))
	})
}

// missing are the nodes whose queues the parts lack, with these queues as far as the caller may see them.
// Queues are compared, not nodes: a node that answered may have lost a queue that no other has taken yet.
func (f *forwarding) missing(ctx context.Context, parts []*part) []api.MissingNode {
	served := map[string]bool{}
	for _, p := range parts {
		if p.err == nil && p.status == http.StatusOK {
			for name := range strings.SplitSeq(p.header.Get(headerServed), ",") {
				served[name] = true
			}
		}
	}
	var list []api.MissingNode
	for _, at := range f.nodes.Places() {
		if token := boundTo(ctx); served[at.Queue] || token != nil && !token.CoversQueue(at.Queue) {
			continue
		}
		i := slices.IndexFunc(list, func(m api.MissingNode) bool { return m.Node == at.Node })
		if i < 0 {
			i, list = len(list), append(list, api.MissingNode{Node: at.Node})
		}
		list[i].Queues = append(list[i].Queues, at.Queue)
	}
	return list
}

// joinPages joins the pages of nodes into one. at says where an item stands: the places of a list ascend. A page that
// was cut hides the items behind its end, so the joined one ends there too.
//
//	node A:  1  4  6 │ next 6         joined:  1 2 4 5 6 │ next 6
//	node B:  2  5  9   (last page)    9 stays behind: A may have a 7
func joinPages[T any](parts []*part, at placing[T]) (items []T, next string, err error) {
	end, cut := "", false
	for _, p := range parts {
		if p.err != nil || p.status != http.StatusOK {
			continue
		}
		var page api.Page[T]
		if err := json.Unmarshal(p.text, &page); err != nil {
			return nil, "", fmt.Errorf("web: the page of %s: %w", p.name(), err)
		}
		if page.Next != "" && (!cut || page.Next < end) {
			end, cut = page.Next, true
		}
		items = append(items, page.Items...)
	}
	arrange(items, at)
	// If a queue moved meanwhile, its items may be in two pages.
	items = slices.CompactFunc(items, func(a, b T) bool { return at(&a) == at(&b) })
	if cut {
		items = slices.DeleteFunc(items, func(one T) bool { return at(&one) > end })
	}
	return pageOf(items, end, at, func(one *T) T { return *one })
}

// inProcess lets a handler answer requests without a connection. It saves a connection to itself, which could run out
// of ports or need a certificate, and it keeps the path the same: the own part goes through the same checks as another
// node's.
type inProcess struct{ handler http.Handler }

// RoundTrip returns when the handler begins to answer.
// A handler that gives up in the middle panics with http.ErrAbortHandler. The reader then gets an error and not an
// end, so half a part is not taken for a whole one.
func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	reader, writer := io.Pipe()
	w := &pipedAnswer{header: http.Header{}, to: writer, begun: make(chan struct{})}
	go func() {
		defer func() {
			err, _ := recover().(error) // http.ErrAbortHandler: the answer is not whole
			w.WriteHeader(http.StatusOK)
			_ = writer.CloseWithError(err)
		}()
		p.handler.ServeHTTP(w, r)
	}()
	select {
	case <-w.begun:
	case <-r.Context().Done():
		_ = reader.Close()
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: w.status, Header: w.sent, Body: reader, Request: r}, nil
}

// pipedAnswer is an answer on its way to its reader.
type pipedAnswer struct {
	header, sent http.Header
	status       int
	to           *io.PipeWriter
	begun        chan struct{}
	once         sync.Once
}

func (w *pipedAnswer) Header() http.Header { return w.header }

// WriteHeader begins the answer.
func (w *pipedAnswer) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.begun)
	})
}

func (w *pipedAnswer) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.to.Write(b)
}

// Flush is for handlers that stream. The reader has all written bytes already.
func (w *pipedAnswer) Flush() {}
