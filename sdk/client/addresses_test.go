package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
)

// node is a server that answers as a test says, and notes which calls it got.
type node struct {
	*httptest.Server
	mu     sync.Mutex
	answer http.HandlerFunc
	calls  []string
}

func newNode(t *testing.T, answer http.HandlerFunc) *node {
	t.Helper()
	n := &node{answer: answer}
	n.Server = httptest.NewServer(n)
	t.Cleanup(n.Close)
	return n
}

func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // a body that is cut off is short
	n.mu.Lock()
	n.calls = append(n.calls, fmt.Sprintf("%s %s %s", r.Method, r.URL.Path, body))
	answer := n.answer
	n.mu.Unlock()
	answer(w, r)
}

func (n *node) does(answer http.HandlerFunc) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answer = answer
}

// count is how many calls the node has got.
func (n *node) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.calls)
}

// serves answers every call of these tests with success. owner is the URL that answers name; "": none.
func serves(owner string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if owner != "" {
			w.Header().Set("Quern-Owner", owner)
		}
		switch {
		case strings.HasSuffix(r.URL.Path, "/attach"):
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "event: hello\ndata: {\"heartbeat_ms\":1000}\n\n")
		case strings.HasSuffix(r.URL.Path, "/outputs"):
			io.WriteString(w, `{"index":0,"output":"x"}`)
		case strings.HasSuffix(r.URL.Path, "/submissions"), strings.HasSuffix(r.URL.Path, "/trigger"):
			w.WriteHeader(http.StatusCreated)
			io.WriteString(w, `{"id":"5","queue":"default","state":"open","chunks":1,"ready":1}`)
		default:
			io.WriteString(w, okResults)
		}
	}
}

// refuses answers every call with a problem.
func refuses(status int, code, owner string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if owner != "" {
			w.Header().Set("Quern-Owner", owner)
		}
		writeProblem(w, api.Problem{Title: "No", Status: status, Code: code})
	}
}

// breaks ends the connection without an answer.
func breaks(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// kinds are calls of each way through the client: on its own connections, through net/http, tried once, and streams.
var kinds = map[string]func(ctx context.Context, c *Client) error{
	"hot": release,
	"cold": func(ctx context.Context, c *Client) error {
		_, err := c.ResumeSchedule(ctx, "default", "s")
		return err
	},
	"insert": func(ctx context.Context, c *Client) error {
		_, err := c.Insert(ctx, "default", &api.NewSubmission{Chunks: api.Chunks{Count: 1, Prefix: "x"}})
		return err
	},
	"outputs": func(ctx context.Context, c *Client) error {
		for _, err := range c.Outputs(ctx, "5") {
			return err
		}
		return errors.New("there is no output")
	},
}

// once are calls that are never made again by themselves.
var once = map[string]func(ctx context.Context, c *Client) error{
	"trigger": func(ctx context.Context, c *Client) error {
		_, err := c.TriggerSchedule(ctx, "default", "s", "")
		return err
	},
	"insert stream": func(ctx context.Context, c *Client) error {
		chunks := func(yield func([]byte, error) bool) { yield([]byte("x"), nil) }
		_, err := c.InsertStream(ctx, "default", &api.NewSubmission{}, iter.Seq2[[]byte, error](chunks))
		return err
	},
	"attach": attachOnce,
}

func attachOnce(ctx context.Context, c *Client) error {
	hello := errors.New("there is no hello")
	if err := c.Attach(ctx, "default", "me", "", func(ConsumerEvent) { hello = nil }); err != nil {
		return err
	}
	return hello
}

// A client keeps to the address that serves: dead ones, and those whose queue is moving, are left without a pause and without a try more.
func TestAddressesThatDoNotServeAreLeft(t *testing.T) {
	t.Parallel()
	for name, call := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			moving, good := newNode(t, refuses(503, api.CodeMoving, "")), newNode(t, serves(""))
			c := mustNew(t, "http://127.0.0.1:1", WithAddresses(moving.URL, good.URL), WithRetries(0))
			for range 4 {
				if err := call(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
			if moving.count() > 1 || good.count() != 4 {
				t.Errorf("the node whose queue moves got %d calls and the other %d; want at most 1, and 4", moving.count(), good.count())
			}
			good.Close()
			moving.does(serves(""))
			if err := call(t.Context(), c); err != nil {
				t.Errorf("after the node that served died: %v", err)
			}
		})
	}
}

// A call that may not be made twice is made once, however it ends, and the next call goes to another address.
func TestWhatMayNotBeMadeTwiceIsMadeOnce(t *testing.T) {
	t.Parallel()
	for name, call := range once {
		for fault, answer := range map[string]http.HandlerFunc{"lost": breaks, "outcome unknown": refuses(502, "outcome_unknown", ""),
			"moving": refuses(503, api.CodeMoving, "")} {
			t.Run(name+" "+fault, func(t *testing.T) {
				t.Parallel()
				nodes := []*node{newNode(t, answer), newNode(t, answer), newNode(t, answer)}
				c := mustNew(t, nodes[0].URL, WithAddresses(nodes[1].URL, nodes[2].URL))
				for range nodes {
					if err := call(t.Context(), c); err == nil {
						t.Error("got no error")
					}
				}
				for i, n := range nodes {
					if n.count() != 1 {
						t.Errorf("of three calls node %d got %d, want one each: %q", i, n.count(), n.calls)
					}
				}
			})
		}
	}
}

// A call that a node refused because it does not own the queue any more goes on to the owner at once, whatever it is: nothing has happened.
func TestACallFollowsTheQueueOnce(t *testing.T) {
	t.Parallel()
	calls := maps.Clone(kinds)
	maps.Copy(calls, once)
	delete(calls, "insert stream") // its chunks are gone
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			owner := newNode(t, serves(""))
			stale := newNode(t, refuses(421, api.CodeMoved, owner.URL+"/"))
			c := mustNew(t, stale.URL, WithRetries(0))
			for range 2 {
				if err := call(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
			if stale.count() != 2 || owner.count() != 2 || stale.calls[0] != owner.calls[0] {
				t.Errorf("the node got %q and the owner %q; want twice the same", stale.calls, owner.calls)
			}
			owner.does(refuses(421, api.CodeMoving, stale.URL))
			if err := call(t.Context(), c); CodeOf(err) != api.CodeMoving || stale.count() != 3 || owner.count() != 3 {
				t.Errorf("when the owner refuses too: %v after %d and %d calls; want the refusal after one each", err, stale.count()-2, owner.count()-2)
			}
		})
	}
}

// A node that refuses a queue without a place to go to is like one whose queue is moving; one that does not know the name by which it was
// addressed will not know it the next time.
func TestMisdirectedWithoutAnOwner(t *testing.T) {
	t.Parallel()
	for code, tries := range map[string]int{api.CodeMoved: 3, api.CodeMoving: 3, api.CodeElsewhere: 3, "unknown_host": 1, "": 1} {
		n := newNode(t, refuses(421, code, ""))
		err := release(t.Context(), mustNew(t, n.URL, WithRetries(2)))
		var refused *Error
		if !errors.As(err, &refused) || refused.Status != 421 || n.count() != tries {
			t.Errorf("code %q: %v after %d calls, want 421 after %d", code, err, n.count(), tries)
		}
	}
}

// A token goes to no address of another scheme that the client was not given, and to nothing that is no address of a server.
func TestOwnersThatAreNotFollowed(t *testing.T) {
	t.Parallel()
	plain := newNode(t, serves(""))
	for _, url := range []string{plain.URL, "unix:/tmp/x", "https://", "https://u:p@x", "https://x?y", "https://x/" + strings.Repeat("x", maxURL), "x", "https://[x"} {
		tls := httptest.NewTLSServer(refuses(421, api.CodeMoved, url))
		t.Cleanup(tls.Close)
		c := mustNew(t, tls.URL, WithHTTPClient(tls.Client()), WithToken("secret"), WithRetries(0), WithDirect())
		for range 2 {
			if err := release(t.Context(), c); CodeOf(err) != api.CodeMoved {
				t.Errorf("%.40s: got %v, want the refusal", url, err)
			}
		}
		given := mustNew(t, tls.URL, WithHTTPClient(tls.Client()), WithRetries(1), WithAddresses(plain.URL))
		if err := release(t.Context(), given); url == plain.URL && err != nil {
			t.Errorf("to an address that was given: %v", err)
		}
	}
	before := plain.count()
	if err := release(t.Context(), mustNew(t, newNode(t, refuses(421, api.CodeMoved, "https"+plain.URL[4:])).URL, WithRetries(0))); CodeOf(err) != api.CodeMoved {
		t.Errorf("from http to https: got %v, want the refusal", err)
	}
	if plain.count() != before {
		t.Error("a call over http went to an address of https")
	}
}

// An owner that the client was not given and does not trust gets no call, and keeps none from an address that serves.
func TestAnOwnerThatIsNotTrusted(t *testing.T) {
	t.Parallel()
	owner := newSecure(t, nil)
	front := httptest.NewTLSServer(serves(strings.Replace(owner.URL, "127.0.0.1", "localhost", 1))) // which its certificate does not name
	t.Cleanup(front.Close)
	c := mustNew(t, front.URL, WithTLS(owner.trusting()), WithDirect(), WithRetries(0))
	for range 3 {
		if err := release(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if len(owner.paths) != 0 || owner.opened.Load() != 1 {
		t.Errorf("the owner got %d calls on %d connections; want none on 1", len(owner.paths), owner.opened.Load())
	}
}

// In direct mode the calls of a queue go to the owner that an answer named, and back to the addresses when it fails. By default they do not.
func TestDirect(t *testing.T) {
	t.Parallel()
	owner := newNode(t, serves(""))
	front := newNode(t, serves(owner.URL))
	usual, c := mustNew(t, front.URL, WithRetries(0)), mustNew(t, front.URL, WithDirect(), WithRetries(0))
	call := func(c *Client, atFront, atOwner int) {
		t.Helper()
		f, o := front.count(), owner.count()
		if err := release(t.Context(), c); err != nil || front.count()-f != atFront || owner.count()-o != atOwner {
			t.Errorf("%v, with %d calls of the front and %d of the owner; want %d and %d", err, front.count()-f, owner.count()-o, atFront, atOwner)
		}
	}
	call(usual, 1, 0)
	call(usual, 1, 0)
	call(c, 1, 0)
	call(c, 0, 1)
	if err := attachOnce(t.Context(), c); err != nil || owner.count() != 2 {
		t.Errorf("attach: %v, with %d calls of the owner, want 2", err, owner.count())
	}
	if _, err := c.Release(t.Context(), "other", []api.ReleaseItem{{Token: "t"}}); err != nil || owner.count() != 2 {
		t.Errorf("another queue: %v, with %d calls of the owner, want 2", err, owner.count())
	}
	owner.does(refuses(503, api.CodeMoving, ""))
	call(c, 1, 1) // at once, without a try more
	owner.does(serves(""))
	call(c, 0, 1)
	owner.does(refuses(421, api.CodeMoved, front.URL))
	front.does(serves(""))
	call(c, 1, 1)
	front.does(serves(owner.URL))
	call(c, 1, 0)
	owner.Close()
	call(c, 1, 0)
}

// A client remembers a bounded number of queues and owners.
func TestOwnersAreBounded(t *testing.T) {
	t.Parallel()
	calls := 0
	n := newNode(t, nil)
	n.does(func(w http.ResponseWriter, r *http.Request) {
		calls++
		serves(fmt.Sprintf("http://127.0.0.1:1/%d", calls))(w, r)
	})
	c := mustNew(t, n.URL, WithDirect())
	for i := range maxQueues + 10 {
		if _, err := c.Release(t.Context(), fmt.Sprint("queue-", i), []api.ReleaseItem{{Token: "t"}}); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.addresses.owners) != maxQueues || len(c.addresses.nodes) != maxNodes {
		t.Errorf("%d queues and %d owners are remembered, want %d and %d", len(c.addresses.owners), len(c.addresses.nodes), maxQueues, maxNodes)
	}
}

// Clients begin with different addresses, and each tries all of them.
func TestClientsSpreadOverTheAddresses(t *testing.T) {
	t.Parallel()
	first := map[string]int{}
	for range 100 {
		c := mustNew(t, "http://a", WithAddresses("http://b", "http://c"))
		first[c.addresses.all[0].base]++
	}
	if len(first) != 3 { // 3 * (2/3)^100: never
		t.Errorf("100 clients begin with %v, want with each of three", first)
	}
}
