package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// endpoint is one of the client's addresses.
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

// current is the address that calls go to.
func (c *Client) current() *endpoint {
	return c.addresses.all[int(c.addresses.at.Load())%len(c.addresses.all)]
}

// leave sends the next calls to the next address, if calls still went to this one and there is another. It says whether they now
// go elsewhere.
func (c *Client) leave(from *endpoint) bool {
	if len(c.addresses.all) == 1 {
		return false
	}
	if at := c.addresses.at.Load(); c.addresses.all[int(at)%len(c.addresses.all)] == from {
		next := (slices.Index(c.addresses.all, from) + 1) % len(c.addresses.all)
		c.addresses.at.CompareAndSwap(at, uint32(next))
	}
	return true
}

// away says whether a try shows that an address does not serve now, so that another may: there was no answer, or the answer was
// 502, 503 (such as that a queue has moved) or 504. A server that is only busy (429) would be as busy by another way.
func away(err error) bool {
	var refused *Error
	if errors.As(err, &refused) {
		return passing(refused.Status) && refused.Status != http.StatusTooManyRequests
	}
	return !errors.Is(err, context.Canceled) && !errors.Is(err, ErrNotTrusted)
}

// hot makes hot calls at the address of the request.
type hot struct{}

func (hot) roundTrip(ctx context.Context, q *request, r *reply) error {
	return q.endpoint.hot.roundTrip(ctx, q, r)
}
