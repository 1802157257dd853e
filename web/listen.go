package web

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// Reachable says whether other machines can reach a server that listens on address: then
// it needs tokens and TLS. Only "localhost" and literal loopback addresses are this
// machine's alone; any other name counts as reachable, because what it resolves to can
// change after the check. An address without the form HOST:PORT is an error.
func Reachable(address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, fmt.Errorf("must have the form HOST:PORT, such as 127.0.0.1:7700")
	}
	return !isLoopback(host), nil
}

// isLoopback says whether host (without port and brackets) can only mean this machine.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Zone() == "" && addr.Unmap().IsLoopback()
}

// hosts is the set of names that requests may address the server by. A page that rebinds
// its own name to this machine's address sends that name in Host, and is refused by it. A
// literal address cannot be rebound, so all are allowed but those that mean "any address",
// which some browsers connect to this machine.
type hosts map[string]struct{}

func newHosts(names []string) (hosts, error) {
	allowed := make(hosts, len(names))
	for _, name := range names {
		name = strings.ToLower(strings.TrimSpace(name))
		if name == "" || strings.ContainsAny(name, "/ *\t") {
			return nil, fmt.Errorf("web: allowed host %q: give a bare name or address without scheme, port or wildcard",
				name)
		}
		allowed[strings.Trim(name, "[]")] = struct{}{}
	}
	return allowed, nil
}

// allows checks a Host header, with or without port.
func (h hosts) allows(header string) bool {
	host, ok := bareHost(header)
	if !ok {
		return false
	}
	if address, err := netip.ParseAddr(host); err == nil {
		return address.Zone() == "" && !address.Unmap().IsUnspecified()
	}
	if isLoopback(host) {
		return true
	}
	_, ok = h[strings.ToLower(host)]
	return ok
}

// bareHost is a Host header without port, brackets and the dot of the root; false where
// the brackets do not match.
func bareHost(header string) (string, bool) {
	host := header
	if colon := strings.LastIndexByte(host, ':'); colon >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:colon]
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if host, ok = strings.CutSuffix(inner, "]"); !ok {
			return "", false
		}
	}
	return strings.TrimSuffix(host, "."), true
}
