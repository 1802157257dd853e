package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	maxNodes  = 64   // owners that were not given as addresses; a cluster has no more nodes
	maxQueues = 256  // queues whose owners are remembered
	maxURL    = 2048 // bytes of the URL of an owner
)

// addresses are where calls go: to those that the client was given, in an order of its own, and to owners of queues that answers name.
type addresses struct {
	all    []*endpoint
	at     atomic.Uint32                       // which of all calls go to
	direct bool                                // calls of a queue go to its owner
	open   func(url string) (*endpoint, error) // prepares connections to an owner

	mu     sync.Mutex
	nodes  map[string]*endpoint // owners that are not in all, by their URL; nil: one that is not trusted
	owners map[string]*endpoint // by the name of a queue, as paths spell it
}

// of is where a call goes now.
func (a *addresses) of(q *request) *endpoint {
	if a.direct {
		a.mu.Lock()
		owner := a.owners[queueOf(q.path)]
		a.mu.Unlock()
		if owner != nil {
			return owner
		}
	}
	return a.all[int(a.at.Load())%len(a.all)]
}

// others is how many other addresses a call may try before it pauses.
func (a *addresses) others() int {
	if a.direct {
		return len(a.all)
	}
	return len(a.all) - 1
}

// leave sends the next calls elsewhere, if the error shows that the address of this one does not serve. It says whether they go elsewhere.
func (a *addresses) leave(q *request, err error) bool {
	distrusted := errors.Is(err, ErrNotTrusted) && a.distrust(q.endpoint)
	if !distrusted && !away(err) {
		return false
	}
	if forgotten := a.direct && a.forget(queueOf(q.path), q.endpoint); forgotten || distrusted {
		return true
	}
	if at := a.at.Load(); a.all[int(at)%len(a.all)] == q.endpoint {
		next := (slices.Index(a.all, q.endpoint) + 1) % len(a.all)
		a.at.CompareAndSwap(at, uint32(next))
	}
	return len(a.all) > 1
}

// forget drops what is known of the owner of a queue, if it is still this one.
func (a *addresses) forget(queue string, owner *endpoint) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.owners[queue] != owner {
		return false
	}
	delete(a.owners, queue)
	return true
}

// distrust keeps calls from an owner that the client was not given and does not trust. It says whether the address is one.
func (a *addresses) distrust(owner *endpoint) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.nodes[owner.base] != owner {
		return false
	}
	a.nodes[owner.base] = nil
	return true
}

// heard takes in which owner the answer to a call names, and returns its address; nil: none, or none that calls may go to.
func (a *addresses) heard(q *request, r *reply) *endpoint {
	owner := a.named(q.endpoint, r.owner)
	if owner == nil || !a.direct {
		return owner
	}
	if queue := queueOf(q.path); queue != "" {
		a.mu.Lock()
		put(&a.owners, maxQueues, queue, owner)
		a.mu.Unlock()
	}
	return owner
}

// named is the address of an owner that an answer from an address names. A token goes only to addresses that the client was given, and to
// others of the same scheme: an answer over https leads to no call without it, and one from a socket not into the network.
func (a *addresses) named(from *endpoint, url string) *endpoint {
	url = strings.TrimRight(url, "/")
	if url == "" || len(url) > maxURL {
		return nil
	}
	if i := slices.IndexFunc(a.all, func(e *endpoint) bool { return e.base == url }); i >= 0 {
		return a.all[i]
	}
	if scheme, _, _ := strings.Cut(from.base, "://"); from.socket || !strings.HasPrefix(url, scheme+"://") {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if node, known := a.nodes[url]; known {
		return node
	}
	node, err := a.open(url)
	if err != nil {
		return nil
	}
	put(&a.nodes, maxNodes, url, node)
	return node
}

// put adds to a map of bounded size, in the place of any other entry when it is full.
func put[V any](into *map[string]V, most int, key string, value V) {
	if *into == nil {
		*into = make(map[string]V)
	}
	if _, known := (*into)[key]; !known && len(*into) >= most {
		for other := range *into {
			delete(*into, other)
			break
		}
	}
	(*into)[key] = value
}

// closeIdle closes the connections of hot calls that are not in use.
func (a *addresses) closeIdle() {
	a.mu.Lock()
	list := slices.Clone(a.all)
	for _, node := range a.nodes {
		list = append(list, node)
	}
	a.mu.Unlock()
	for _, e := range list {
		if e != nil && e.lean != nil {
			e.lean.closeIdle()
		}
	}
}

// queueOf is the queue that a path is about, as the path spells it; "" if there is none.
func queueOf(path string) string {
	name, is := strings.CutPrefix(path, "/v1/queues/")
	if !is {
		return ""
	}
	if end := strings.IndexAny(name, "/?"); end >= 0 {
		name = name[:end]
	}
	return name
}

// away says whether a try shows that an address does not serve now, so that another may: there was no answer, or the answer was
// 502, 503 or 504, or that a queue has moved. A server that is only busy (429) would be as busy by another way.
func away(err error) bool {
	var refused *Error
	if errors.As(err, &refused) {
		return refused.passing() && refused.Status != http.StatusTooManyRequests
	}
	return !errors.Is(err, context.Canceled) && !errors.Is(err, ErrNotTrusted)
}

// endpoint is an address that calls go to.
type endpoint struct {
	base   string    // scheme://host/prefix, without a slash at the end
	hot    transport // for hot calls: our own connections, or net/http
	lean   *lean     // hot, when that is our own
	socket bool      // base stands for a Unix socket
}

// newEndpoint reads an address and prepares its connections.
func newEndpoint(c *Client, address string, s *settings) (*endpoint, error) {
	u, socket, err := locate(address, c.cold.sockets, s)
	if err != nil {
		return nil, err
	}
	h := &endpoint{base: strings.TrimRight(u.Scheme+"://"+u.Host+u.EscapedPath(), "/"), hot: c.cold, socket: socket != ""}
	if s.httpClient == nil && (h.socket || !proxied(u)) {
		h.lean = newLean(c, u, h.base, socket, s)
		h.hot = h.lean
	}
	return h, nil
}

// locate reads an address: of a server, or of a Unix socket, whose path is in socket then.
func locate(address string, known sockets, s *settings) (u *url.URL, socket string, err error) {
	if strings.HasPrefix(address, socketScheme) {
		return known.add(address, s)
	}
	if u, err = url.Parse(address); err != nil {
		return nil, "", fmt.Errorf("client: %q is not an address: %w", address, err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, "", fmt.Errorf("client: %q is not an address of a server: write it as http://host:port, https://host:port or "+
			"unix:path", address)
	}
	return u, "", nil
}

// hot makes hot calls at the address of the request.
type hot struct{}

func (hot) roundTrip(ctx context.Context, q *request, r *reply) error {
	return q.endpoint.hot.roundTrip(ctx, q, r)
}

const (
	socketScheme = "unix:"     // before the path of a Unix socket
	socketHost   = "localhost" // the host name in requests
)

// sockets are the paths of Unix sockets, by the host names that stand for them where net/http wants one.
type sockets map[string]string

// add makes a URL that stands for a socket.
func (k sockets) add(address string, s *settings) (u *url.URL, path string, err error) {
	path = strings.TrimPrefix(strings.TrimPrefix(address, socketScheme), "//")
	if path == "" {
		return nil, "", fmt.Errorf("client: %q is not an address of a server: write unix: and the path of the socket", address)
	}
	if s.httpClient != nil {
		return nil, "", errors.New("client: an HTTP client of your own does not know Unix sockets: give it a dialer for the socket and " +
			"an address such as http://localhost")
	}
	host := fmt.Sprintf("socket-%d.invalid", len(k))
	k[host] = path
	return &url.URL{Scheme: "http", Host: host}, path, nil
}

// use has a transport of net/http connect to sockets by their paths, and leave proxies out of it.
func (k sockets) use(t *http.Transport) {
	dial, proxy := t.DialContext, t.Proxy
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, _ := net.SplitHostPort(address)
		if path, is := k[host]; is {
			network, address = "unix", path
		}
		return dial(ctx, network, address)
	}
	t.Proxy = func(r *http.Request) (*url.URL, error) {
		if _, is := k[r.URL.Hostname()]; is || proxy == nil {
			return nil, nil
		}
		return proxy(r)
	}
}
