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
