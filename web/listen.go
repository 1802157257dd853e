package web

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// CheckListen refuses addresses that other machines could reach: until there are tokens and TLS, whoever reaches the
// port may do everything. It accepts "localhost" and literal loopback addresses, with a port; a name is not resolved,
// because what it resolves to can change after the check.
func CheckListen(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("web: listen address %q: it must have the form HOST:PORT, such as 127.0.0.1:7700", address)
	}
	if isLoopback(host) {
		return nil
	}
	return fmt.Errorf("web: listen address %q: only loopback addresses (127.0.0.1, [::1], localhost) are allowed, because this version has neither tokens nor TLS; put an authenticating proxy on this machine in front of it instead", address)
}

// isLoopback says whether host (without port and brackets) can only mean this machine.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Zone() == "" && addr.Unmap().IsLoopback()
}

// hosts is the set of names that requests may address the server by. A page that rebinds its own name to 127.0.0.1
// sends that name in Host, and is refused by it.
type hosts map[string]struct{}

func newHosts(names []string) (hosts, error) {
	allowed := make(hosts, len(names))
	for _, name := range names {
		name = strings.ToLower(strings.TrimSpace(name))
		if name == "" || strings.ContainsAny(name, "/ *\t") {
			return nil, fmt.Errorf("web: allowed host %q: give a bare name or address without scheme, port or wildcard", name)
		}
		allowed[strings.Trim(name, "[]")] = struct{}{}
	}
	return allowed, nil
}

// allows checks a Host header, with or without port.
func (h hosts) allows(header string) bool {
	host := header
	if colon := strings.LastIndexByte(host, ':'); colon >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:colon]
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if host, ok = strings.CutSuffix(inner, "]"); !ok {
			return false
		}
	}
	host = strings.TrimSuffix(host, ".")
	if isLoopback(host) {
		return true
	}
	_, ok := h[strings.ToLower(host)]
	return ok
}
