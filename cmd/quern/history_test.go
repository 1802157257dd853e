//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/quern-queue/quern/sdk/api"
)

// history records what clients asked of a cluster and the answers that they got, with the times of both, and checks that there is an order of all
// calls, each at one moment between its two times, in which one server would have answered as the cluster did. A call without an answer may
// have been done at any time after it was made, or never.
type history struct {
	t     *testing.T
	began time.Time

	mu     sync.Mutex
	rnd    *rand.Rand
	nodes  []string              // URLs of those that are to be asked
	ops    []porcupine.Operation // of deeds
	ids    map[string]string     // of submissions, by name
	names  []string              // of those that have an id
	tokens []heldToken           // that clients hold, the newest last
	given  []heldToken           // all that were given out
	counts map[string]int        // of answers, by verb and outcome
	over   bool                  // clients are to end
	taken  []porcupine.Operation // takeovers: they are in the history of every submission
}

type heldToken struct {
	token, name string
	index       int
}

// deed is the effect of a call on one submission: a call for several chunks is several deeds at the same time.
type deed struct {
	verb  string // insert, reserve, complete, release, read; takeover: an owner is gone, with all reservations
	name  string // of the submission: its idempotency key
	index int
	token string
}

// outcome is the answer that the client got; "": nothing.
type outcome struct {
	said string // an id of an insert, or the status of a result
	done int    // of a read
}

// Bounds of a history: a check is fast while few calls are about one submission.
const (
	historyChunks  = 3
	historyClients = 6
	historyRecent  = 12 // submissions and tokens that clients look at again
	openEnd        = int64(1) << 60
	historyPause   = 3 * time.Millisecond // without one, clients that are refused meanwhile take all processors
)

// submissionLife is the model's state of a submission: for each chunk the token that holds or has completed it.
type submissionLife struct {
	id     string
	exists bool
	chunks [historyChunks]chunkLife
}

type chunkLife struct {
	done  bool
	token string // "": it is free
}

// historyModel is a submission on one server whose consumers may lose what they hold.
var historyModel = porcupine.Model{
	Init:              func() any { return submissionLife{} },
	Step:              func(state, d, o any) (bool, any) { return lives(state.(submissionLife), d.(deed), o.(outcome)) },
	DescribeOperation: func(d, o any) string { return fmt.Sprintf("%+v -> %+v", d, o) },
}

// lives says whether a deed may have this outcome in a state, and returns the next state.
func lives(s submissionLife, d deed, o outcome) (bool, submissionLife) {
	switch d.verb {
	case "takeover":
		for i := range s.chunks {
			if !s.chunks[i].done {
				s.chunks[i].token = ""
			}
		}
		return true, s
	case "insert":
		fits := !s.exists || s.id == "" || o.said == "" || s.id == o.said
		if s.exists = true; o.said != "" {
			s.id = o.said
		}
		return fits, s
	case "read":
		done := 0
		for _, c := range s.chunks {
			if c.done {
				done++
			}
		}
		return s.exists && done == o.done, s
	}
	c := &s.chunks[d.index]
	fits := c.step(d, o.said, *c)
	return s.exists && fits, s
}

// step is lives for a chunk. The caller's answer "lost" is right for any token that does not hold the chunk: a consumer whose answer never
// came may hold it.
func (c *chunkLife) step(d deed, said string, before chunkLife) bool {
	mine, unknown := before.token == d.token, said == ""
	switch {
	case d.verb == "reserve":
		*c = chunkLife{token: d.token}
		return before == chunkLife{}
	case before.done:
		return unknown || said == api.StatusLost || mine && said == api.StatusAlready
	case before.token != "" && !mine:
		return unknown || said == api.StatusLost
	case d.verb == "release" && !mine:
		return unknown || said == api.StatusAlready || said == api.StatusLost
	case !mine && said == api.StatusLost:
		return true
	case d.verb == "release":
		*c = chunkLife{}
	default:
		*c = chunkLife{true, d.token}
	}
	return unknown || said == api.StatusOK
}

func newHistory(t *testing.T, rnd *rand.Rand) *history {
	return &history{t: t, began: time.Now(), rnd: rnd, ids: map[string]string{}, counts: map[string]int{}}
}

func (h *history) now() int64 { return int64(time.Since(h.began)) }

// locked runs f with the mutex held.
func (h *history) locked(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

func (h *history) draw(n int) (drawn int) {
	h.locked(func() { drawn = h.rnd.IntN(n) })
	return drawn
}

// note records deeds of one call, which is over.
func (h *history) note(client int, call int64, o outcome, deeds ...deed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	end := h.now()
	if o == (outcome{}) {
		end = openEnd
	}
	for _, d := range deeds {
		h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: d, Call: call, Output: o, Return: end})
		said := o.said
		switch {
		case end == openEnd:
			said = "unknown"
		case d.verb == "insert" || d.verb == "read":
			said = "answered"
		}
		h.counts[d.verb+" "+said]++
	}
}

// takeover records that the owners of all shards were lost between a moment and now.
func (h *history) takeover(from int64) { h.takenOver(from, h.now()) }

// maybeTakeover records that an owner may have been lost, at any time after this one.
func (h *history) maybeTakeover(from int64) { h.takenOver(from, openEnd) }

func (h *history) takenOver(from, until int64) {
	h.locked(func() {
		h.taken = append(h.taken, porcupine.Operation{ClientId: 1000, Input: deed{verb: "takeover"}, Call: from, Output: outcome{}, Return: until})
	})
}

// reported is the outcome of a call: the server says that it was done, it says that it was not, or there is no answer.
type reported int

const (
	isDone reported = iota
	isNot
	isUnknown
)

// ask makes one call of a node.
func (h *history) ask(ctx context.Context, method, url, key, body string, into any) reported {
	q, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader([]byte(body)))
	if err != nil {
		h.t.Error(err)
		return isNot
	}
	q.Header.Set("Content-Type", "application/json")
	if key != "" {
		q.Header.Set("Idempotency-Key", key)
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return isUnknown
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return isUnknown
	}
	var problem api.Problem
	if r.StatusCode >= 400 {
		_ = json.Unmarshal(text, &problem)
	}
	switch {
	case r.StatusCode < 300 && json.Unmarshal(text, into) == nil:
		return isDone
	case problem.Code == "moving" || problem.Code == "moved" || problem.Code == "elsewhere":
		h.locked(func() { h.counts[problem.Code]++ })
		return isNot
	case r.StatusCode >= 500:
		h.locked(func() { h.counts[problem.Code]++ })
		return isUnknown
	}
	h.t.Errorf("%s %s %s: %d %s", method, url, body, r.StatusCode, text)
	return isNot
}

// act has a client do one thing at a node. An empty verb means a random one.
func (h *history) act(ctx context.Context, client int, node, verb string) {
	if verb == "" {
		verb = []string{"insert", "reserve", "reserve", "reserve", "complete", "complete", "complete", "again", "release", "read", "read"}[h.draw(11)]
	}
	queue := node + "/v1/queues/default"
	switch verb {
	case "insert":
		h.insert(ctx, client, node, fmt.Sprintf("s%d-%d", client, h.now()))
	case "reserve":
		h.reserve(ctx, client, queue, 1+h.draw(2))
	case "read":
		h.read(ctx, client, node, "")
	default:
		h.finish(ctx, client, queue, verb)
	}
}

// insert repeats an insert until there is an answer, at any node. Its key makes this safe.
func (h *history) insert(ctx context.Context, client int, node, name string) {
	for maybe := false; ctx.Err() == nil; {
		call := h.now()
		within, stop := context.WithTimeout(ctx, patienceOfClients)
		var s api.Submission
		got := h.ask(within, "POST", node+"/v1/queues/default/submissions", name,
			fmt.Sprintf(`{"group":%[1]q,"meta":{"name":%[1]q},"chunks":{"count":%[2]d,"prefix":"x/"}}`, name, historyChunks), &s)
		stop()
		switch got {
		case isDone:
			h.note(client, call, outcome{said: s.ID}, deed{verb: "insert", name: name})
			h.locked(func() {
				h.ids[name] = s.ID
				h.names = append(h.names, name)
			})
			return
		case isUnknown:
			if !maybe { // one that may come at any time stands for those after it
				h.note(client, call, outcome{}, deed{verb: "insert", name: name})
			}
			maybe = true
		case isNot:
			time.Sleep(historyPause)
		}
		node = h.anyNode()
	}
}

func (h *history) reserve(ctx context.Context, client int, queue string, most int) (n int) {
	call := h.now()
	var got api.ReserveResponse
	switch h.ask(ctx, "POST", queue+"/reservations", "", fmt.Sprintf(`{"max":%d,"timeout_ms":3600000,"strategy":"Random"}`, most), &got) {
	case isUnknown:
		h.locked(func() { h.counts["reserve unknown"]++ })
	case isNot:
	case isDone:
		for _, r := range got.Reservations {
			held := heldToken{r.Token, r.Meta["name"].Text(), int(r.Index)}
			h.note(client, call, outcome{said: api.StatusOK}, deed{"reserve", held.name, held.index, held.token})
			h.locked(func() { h.tokens, h.given = append(h.tokens, held), append(h.given, held) })
		}
	}
	return len(got.Reservations)
}

// finish completes or releases a chunk with a token; again: with any that was ever given out.
func (h *history) finish(ctx context.Context, client int, queue, verb string) {
	var held heldToken
	h.locked(func() {
		from := &h.tokens
		if verb == "again" {
			from = &h.given
		}
		if oldest := max(0, len(*from)-2*historyRecent); len(*from) > 0 {
			at := oldest + h.rnd.IntN(len(*from)-oldest)
			if held = (*from)[at]; verb != "again" {
				*from = slices.Delete(*from, at, at+1)
			}
		}
	})
	if held.token == "" {
		return
	}
	if verb == "again" {
		verb = "complete"
	}
	h.end(ctx, client, queue, verb, held)
}

func (h *history) end(ctx context.Context, client int, queue, verb string, held heldToken) {
	call := h.now()
	var got api.ResultsResponse
	d := deed{verb, held.name, held.index, held.token}
	switch h.ask(ctx, "POST", queue+"/reservations/"+verb, "", fmt.Sprintf(`{"items":[{"token":%q}]}`, held.token), &got) {
	case isDone:
		h.note(client, call, outcome{said: got.Results[0].Status}, d)
		return
	case isUnknown: // it is not tried again: a check takes long when much about one chunk may come at any time
		h.note(client, call, outcome{}, d)
		h.locked(func() {
			h.given = slices.DeleteFunc(h.given, func(of heldToken) bool { return of == held })
			h.tokens = slices.DeleteFunc(h.tokens, func(of heldToken) bool { return of == held })
		})
	case isNot:
		h.locked(func() { h.tokens = append(h.tokens, held) })
	}
}

// read reads how many chunks of a submission are done; name "": of a recent one.
func (h *history) read(ctx context.Context, client int, node, name string) {
	var id string
	h.locked(func() {
		if recent := h.names[max(0, len(h.names)-historyRecent):]; name == "" && len(recent) > 0 {
			name = recent[h.rnd.IntN(len(recent))]
		}
		id = h.ids[name]
	})
	if id == "" {
		return
	}
	call := h.now()
	var s api.Submission
	if h.ask(ctx, "GET", node+"/v1/submissions/"+id, "", "", &s) == isDone {
		h.note(client, call, outcome{said: string(s.State), done: int(s.Done)}, deed{verb: "read", name: name})
	}
}

func (h *history) anyNode() (url string) {
	h.locked(func() { url = h.nodes[h.rnd.IntN(len(h.nodes))] })
	return url
}

// patienceOfClients is how long a client waits. Then the outcome of its call is unknown.
const patienceOfClients = 1500 * time.Millisecond

// client asks any node for one thing after another until the history is over.
func (h *history) client(number int) {
	for over := false; !over && h.t.Context().Err() == nil; h.locked(func() { over = h.over }) {
		time.Sleep(historyPause)
		ctx, stop := context.WithTimeout(h.t.Context(), patienceOfClients)
		h.act(ctx, number, h.anyNode(), "")
		stop()
	}
}

// late makes calls to a node that stands still. They are in its socket when late returns; wait waits for their answers.
func (h *history) late(node string, calls int) (wait func()) {
	var all, sent sync.WaitGroup
	for i := range calls {
		sent.Add(1)
		written := sync.OnceFunc(sent.Done)
		ctx := httptrace.WithClientTrace(h.t.Context(), &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { written() }})
		all.Go(func() {
			defer written() // there may be nothing to ask
			h.act(ctx, 100+i, node, []string{"reserve", "reserve", "again", "read"}[i%4])
		})
	}
	sent.Wait()
	return all.Wait
}

// check fails the test if there is no such order for the history of a submission.
func (h *history) check() {
	parts := map[string][]porcupine.Operation{}
	for _, op := range h.ops {
		name := op.Input.(deed).name
		parts[name] = append(parts[name], op)
	}
	longest := 0
	for name, part := range parts {
		longest = max(longest, len(part))
		part = append(part, h.taken...)
		if result := porcupine.CheckOperationsTimeout(historyModel, part, time.Minute); result != porcupine.Ok {
			slices.SortFunc(part, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
			var text strings.Builder
			for _, op := range part {
				fmt.Fprintf(&text, "  %d..%d %s\n", op.Call, op.Return, historyModel.DescribeOperation(op.Input, op.Output))
			}
			h.t.Errorf("the history of submission %s is not linearizable (%s):\n%s", name, result, &text)
			return
		}
	}
	h.t.Logf("%d deeds on %d submissions, %d on one of them, %d takeovers: %v", len(h.ops), len(parts), longest, len(h.taken), h.counts)
}
