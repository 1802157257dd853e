package web

// Inserts and results for a queue whose shards are on several nodes. Results go to the engine, which gives the other
// nodes their parts by errands. Other calls, and results that need a decision at the node of the shard (finishing), go
// to the nodes of their shards:
//
//	all about shards of this node    ─► the engine, as always
//	all about shards of another node ─► the call is sent on as it is
//	about shards of several nodes    ─► divided by its items; each node gets its part, this one the last,
//	                                    and the answers are put together in the order of the items
//
// The handler has decoded the call by then, so it knows the shard of each item. Only a call that is divided is read
// again, as JSON whose items stay as they are: nodes of different versions may divide for each other.
//
// This node's own part comes last, because an exchange reserves in it: then the chunks that other nodes finish for the
// call no longer count against limits.
//
// Each part is a public call with the rights of the caller. So the node of a shard checks tenants, counts quotas and
// writes the audit log, and no second way is needed for that.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// sharedMost is how long another node may take for its part. It is more than for lists (askMost), as a part may wait
// for a large commit, or for a database that has just lost its primary. If no one knows whether a call was done, that
// costs the client more than waiting does.
const sharedMost = 30 * time.Second

// sharedList is a list in the body of a call, and the list in the answer that has a result for each item. An exchange
// has three of them, every other call one.
type sharedList struct {
	field, results string
	homes          []string // the shard of each item; "": this node refuses it
}

// away is the error of a call that other nodes have to do, in whole or in part. The places of shards were looked up for
// all items at one moment. If a shard moves before its part arrives, the node that gave it away sends the part on.
type away struct {
	lists []sharedList
	at    map[string]engine.Elsewhere // the nodes of the shards; those of this node are not in it
	lines [][]byte                    // the items of the only list, of a body of JSON lines
}

func (a *away) Error() string { return "other nodes serve a part of this" }

// tokensOf are the homes of tokens. The id in a token tells its shard, so nothing is looked up.
func tokensOf(s *engine.Sharded, n int, token func(int) *queue.Token) []string {
	homes := make([]string, n)
	for i := range homes {
		homes[i] = s.HomeOf(token(i).Submission)
	}
	return homes
}

// mostTimes is how often a call, or a part of it, is sent on. The node that gave a shard away knows its new node, so it
// sends late calls on. If two nodes each believe that the other one has a shard, this bound ends it.
const mostTimes = 3

// dispersed is the queue of a call, if its shards are on several nodes; nil: the engine does all of it. Most servers
// are alone and most queues have one shard: for them this costs only a look at a type.
func (f *forwarding) dispersed(c echo.Context, q engine.Work) *engine.Sharded {
	s, several := q.(*engine.Sharded)
	if !several || !s.Spread() || f.times(c.Request()) >= mostTimes {
		return nil
	}
	return s
}

// finishing says which nodes have to do a call that finishes chunks; nil: the engine of this node does it, and has
// other nodes do their parts by one errand each. Two kinds of calls are divided as public calls, because the nodes of
// the shards have to decide something: whether a restricted access token covers the chunks, and whether submissions
// that completions insert are within the caller's quotas.
func (f *forwarding) finishing(c echo.Context, s *engine.Sharded, asked *engine.Finishing,
	lists func() []sharedList) error {
	if boundTo(c.Request().Context()) != nil || engine.Bring(asked.Complete) {
		return f.share(c, lists()...)
	}
	_, err := placesOf(c, asked.Homes(s), f.nodes.Lookup().Queue) // it waits for shards that just move
	return err
}

// share says which nodes have to do a call; nil: this node does all of it. It waits for shards that just move. The
// error away is no failure: the handler stops and lets other nodes do the call (do).
func (f *forwarding) share(c echo.Context, lists ...sharedList) error {
	var names []string
	for _, l := range lists {
		names = append(names, l.homes...)
	}
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
	places, err := placesOf(c, names, f.nodes.Lookup().Queue)
	if err != nil {
		return err
	}
	a := &away{lists: lists, at: map[string]engine.Elsewhere{}}
	for name, at := range places {
		if at.URL != "" {
			a.at[name] = at
		}
	}
	if len(a.at) == 0 {
		return nil
	}
	return a
}

// home is the other node that has the shard of a submission; nil: this one does, or refuses it. A new group gets its
// shard here, before its first submission is sent to that shard.
func (f *forwarding) home(c echo.Context, s *engine.Sharded, one []queue.Insertion) (*engine.Elsewhere, error) {
	homes, err := s.Homes(one, false)
	if err == nil {
		err = f.share(c, sharedList{"", "", homes})
	}
	if others, is := errors.AsType[*away](err); is {
		return others.only(), nil
	}
	return nil, err
}

// only is the one other node that has to do all of a call; nil: several do. That is the usual case of inserts, and of
// workers of one group, and such a call is not decoded and written again.
func (a *away) only() *engine.Elsewhere {
	var one *engine.Elsewhere
	for _, l := range a.lists {
		for _, home := range l.homes {
			at, other := a.at[home]
			if !other || one != nil && one.URL != at.URL {
				return nil
			}
			one = &at
		}
	}
	return one
}

// do answers a call that other nodes have to do, in whole or in part. rest says that this node has something to do even
// without items.
//
// If one part fails, so does the call, though other parts may be done. For results that is safe: sent again, they
// answer "already". For inserts an idempotency key makes it safe, as it does when an answer is lost.
func (f *forwarding) do(c echo.Context, a *away, body []byte, bodies *bodies, rest bool) error {
	if at := a.only(); at != nil && !rest {
		return f.sendBody(c, at, body)
	}
	done, err := bodies.holdDecoded(c.Request(), int64(len(body)))
	if err != nil {
		return err
	}
	defer done()
	// The deadlines of this connection are for a call that is answered at once. Parts take longer, and may wait for
	// work.
	if f.auth.waits.enter(c.Response(), f.auth.credentialOf(c.Request()), queue.MaxWait+sharedMost) {
		defer f.auth.waits.leave(c.Response())
	}
	parts, err := a.divide(body, rest)
	if err != nil {
		return err
	}
	own := f.askShared(c, parts)
	for _, p := range parts {
		switch {
		case p.err != nil:
			return partly(p.failure(f, c))
		case p.status == http.StatusServiceUnavailable && len(parts) > 1:
			return partly(&queue.Error{Code: queue.CodeMoving, Message: p.name() + " cannot do its part."})
		case p.status != http.StatusOK:
			return a.refused(p).relay(c)
		}
	}
	if own != nil {
		f.asker(c).ask(c.Request().Context(), &own.part)
		switch {
		case own.err != nil:
			return partly(own.failure(f, c))
		case own.status != http.StatusOK && own.items() > 0:
			return a.refused(own).relay(c)
		case own.status != http.StatusOK: // results of other nodes are facts, and are sent
			reason := queue.Nothing.String()
			own.text, _ = json.Marshal(api.ReserveResponse{Reservations: []api.Reservation{}, Reason: &reason})
		}
		parts[""] = own
	}
	text, err := a.join(parts)
	if err != nil {
		return err
	}
	c.Response().Header().Set("Content-Length", strconv.Itoa(len(text))) // as the engine's own answers have it
	return c.JSONBlob(http.StatusOK, text)
}

// partly is the error of a divided call of which other parts may be done. CodeMoving would say that nothing was done,
// and clients repeat a call after that by themselves.
func partly(err error) error {
	if queue.CodeOf(err) != queue.CodeMoving {
		return err
	}
	return &queue.Error{Code: queue.CodeCommitFailed, Message: "A part of this call failed, and others may be done: " +
		err.Error()}
}

// askShared asks the other nodes for their parts, at once, and takes this node's part out of them. This node does its
// part later, as it may wait for work. Meanwhile this node holds the body of the call and the other nodes' answers.
// Both are bounded: a body by the limit of its operation, an answer by maxPart.
func (f *forwarding) askShared(c echo.Context, parts map[string]*sharedPart) (own *sharedPart) {
	ctx, stop := context.WithTimeout(c.Request().Context(), sharedMost)
	defer stop()
	own = parts[""]
	delete(parts, "")
	by := f.asker(c)
	var asked sync.WaitGroup
	for _, p := range parts {
		asked.Go(func() { by.ask(ctx, &p.part) })
	}
	asked.Wait()
	return own
}

// sharedPart is one node's part of a call. Its body has the items as the client wrote them, so that outputs and
// contents are neither decoded nor encoded on the way.
type sharedPart struct {
	part
	places [][]int // of its items in each list of the call
}

// items is the number of items in the part. A part without any only reserves.
func (p *sharedPart) items() (n int) {
	for _, places := range p.places {
		n += len(places)
	}
	return n
}

// divide makes the parts of a call, by the URLs of their nodes. Fields that are no list go to all of them, such as the
// consumer; only this node reserves, so `reserve` is not in the other parts.
func (a *away) divide(body []byte, rest bool) (map[string]*sharedPart, error) {
	if a.lines != nil {
		return a.divideLines(), nil
	}
	var whole map[string]json.RawMessage
	if err := json.Unmarshal(body, &whole); err != nil {
		return nil, newProblem(codeMalformed, "The body cannot be read: "+err.Error())
	}
	parts, items := map[string]*sharedPart{}, map[string]map[string][]json.RawMessage{}
	partOf := func(at engine.Elsewhere) *sharedPart {
		if parts[at.URL] == nil {
			parts[at.URL] = &sharedPart{part: part{at: at}, places: make([][]int, len(a.lists))}
			items[at.URL] = map[string][]json.RawMessage{}
		}
		return parts[at.URL]
	}
	for n, l := range a.lists {
		var list []json.RawMessage
		if whole[l.field] != nil {
			if err := json.Unmarshal(whole[l.field], &list); err != nil || len(list) != len(l.homes) {
				return nil, newProblem(codeMalformed, "The body cannot be read.")
			}
		}
		for i, one := range list {
			at := a.at[l.homes[i]] // this node, if it is not there
			p := partOf(at)
			p.places[n] = append(p.places[n], i)
			items[at.URL][l.field] = append(items[at.URL][l.field], one)
		}
	}
	if rest {
		partOf(engine.Elsewhere{})
	}
	for url, p := range parts {
		own := map[string]any{}
		for field, value := range whole {
			if field != "reserve" || url == "" {
				own[field] = value
			}
		}
		for _, l := range a.lists {
			delete(own, l.field)
			if list := items[url][l.field]; list != nil {
				own[l.field] = list
			}
		}
		var err error
		if p.body, err = json.Marshal(own); err != nil {
			return nil, fmt.Errorf("web: a part of a call: %w", err)
		}
	}
	return parts, nil
}

// divideLines is divide for a body of JSON lines. A line that is no JSON has no home, so it is in this node's part,
// which refuses it in the same way as a call to one node.
func (a *away) divideLines() map[string]*sharedPart {
	parts := map[string]*sharedPart{}
	for i, line := range a.lines {
		at := a.at[a.lists[0].homes[i]] // this node, if it is not there
		if parts[at.URL] == nil {
			parts[at.URL] = &sharedPart{part: part{at: at}, places: make([][]int, 1)}
		}
		p := parts[at.URL]
		p.places[0] = append(p.places[0], i)
		p.body = append(append(p.body, line...), '\n')
	}
	return parts
}

// join puts the answers of the parts together. Fields other than the lists of results come from this node's part.
// Results go out as their nodes wrote them, so that fields that only newer nodes know are not lost.
func (a *away) join(parts map[string]*sharedPart) ([]byte, error) {
	whole := map[string]any{}
	results := make([][]json.RawMessage, len(a.lists))
	for n, l := range a.lists {
		results[n] = make([]json.RawMessage, len(l.homes))
		whole[l.results] = results[n]
	}
	for url, p := range parts {
		var said map[string]json.RawMessage
		if err := json.Unmarshal(p.text, &said); err != nil {
			return nil, fmt.Errorf("web: the answer of %s: %w", p.name(), err)
		}
		for n, l := range a.lists {
			var list []json.RawMessage
			if said[l.results] != nil {
				if err := json.Unmarshal(said[l.results], &list); err != nil {
					return nil, fmt.Errorf("web: the answer of %s: %w", p.name(), err)
				}
			}
			if len(list) != len(p.places[n]) {
				return nil, fmt.Errorf("web: %s has %d results of %d items", p.name(), len(list), len(p.places[n]))
			}
			for k, i := range p.places[n] {
				results[n][i] = repointed(&a.lists[n], p.places[n], k, list[k])
			}
			delete(said, l.results)
		}
		for field, value := range said {
			if url == "" {
				whole[field] = value
			}
		}
	}
	return json.Marshal(whole)
}

// repointed is a result whose pointer counts the items of the call, and not those of the part. It changes the text, so
// that the order of the fields, and fields that this node does not know, stay.
func repointed(l *sharedList, places []int, k int, result json.RawMessage) json.RawMessage {
	mine, theirs := `"pointer":"/`+l.field+"/"+strconv.Itoa(k), `"pointer":"/`+l.field+"/"+strconv.Itoa(places[k])
	for _, end := range []string{`"`, "/"} {
		result = bytes.Replace(result, []byte(mine+end), []byte(theirs+end), 1)
	}
	return result
}

// pointer turns a pointer into a part into a pointer into the call. A pointer that is not about an item stays as it is:
// it is about a field that all parts have.
func (l *sharedList) pointer(pointer string, places []int) string {
	rest, ours := strings.CutPrefix(pointer, "/"+l.field+"/")
	number, below, deeper := strings.Cut(rest, "/")
	k, err := strconv.Atoi(number)
	if !ours || err != nil || k < 0 || k >= len(places) {
		return pointer
	}
	pointer = "/" + l.field + "/" + strconv.Itoa(places[k])
	if deeper {
		pointer += "/" + below
	}
	return pointer
}

// refused is the refusal of a part as a refusal of the call. Its pointers count the items of the part, and the client
// knows only those of its call.
func (a *away) refused(p *sharedPart) *part {
	var said api.Problem
	if json.Unmarshal(p.text, &said) != nil || said.Code == "" {
		return &p.part
	}
	for i := range said.Errors {
		for n := range a.lists {
			said.Errors[i].Pointer = a.lists[n].pointer(said.Errors[i].Pointer, p.places[n])
		}
	}
	if text, err := json.Marshal(said); err == nil {
		p.text = text
	}
	return &p.part
}

// sendBody lets another node answer a call whose body was read. The answer goes to the client as it is.
func (f *forwarding) sendBody(c echo.Context, at *engine.Elsewhere, body []byte) error {
	read := &readBody{rest: bytes.NewReader(body)}
	c.Request().Body, c.Request().ContentLength = read, int64(len(body))
	return f.send(c, at, false)
}

// readBody is a body that was read. Its memory is reused as soon as it is closed. The transport may go on reading a
// body after an early answer, so Close has to prevent that.
type readBody struct {
	mu   sync.Mutex
	rest *bytes.Reader // nil: it is closed
}

func (b *readBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rest == nil {
		return 0, io.ErrClosedPipe
	}
	return b.rest.Read(p)
}

// Close returns when nothing is read from the memory any more.
func (b *readBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest = nil
	return nil
}
