package client

import (
	"context"
	"fmt"
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
