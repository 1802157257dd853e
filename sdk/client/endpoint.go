package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
)

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
	socketHost   = "localhost" // what the server is told that it was addressed as
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
