package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/quern-queue/quern/web"
	"github.com/quern-queue/quern/web/certificate"
)

// tlsFolder is where in the data directory the certificate of the server's own making is.
const tlsFolder = "tls"

// listenOptions are about how the server can be reached; checkListening says what goes together.
func listenOptions() []option {
	return []option{
		{
			"listen", "127.0.0.1:7700", "HOST:PORT, unix:PATH, or both separated by a comma; port 0 picks a free one; " +
				"an address that other machines can reach needs TLS or insecure-behind-proxy",
			"address on which to serve HTTP, and optionally a Unix socket, which only the server's user can open",
			setListens,
		},
		{
			"auth", "false", "true or false",
			"require an access token for every request, even before you create the first one; if false, requests " +
				"need a token only after you create the first one, or if other machines can reach the address",
			func(c *Config, text string) error { return setSwitch(&c.Auth, text) },
		},
		{
			"tls-cert", "", "a PEM file, with tls-key",
			"the server's certificate, followed by any intermediate ones; read again when the file changes",
			func(c *Config, text string) error { c.TLS.Certificate = text; return nil },
		},
		{
			"tls-key", "", "a PEM file, with tls-cert",
			"private key of the certificate; read again when the file changes",
			func(c *Config, text string) error { c.TLS.Key = text; return nil },
		},
		{
			"tls-client-ca", "", "a PEM file; needs TLS",
			"authorities whose client certificates the server accepts in place of tokens; the subject of a " +
				"certificate names the client; read again when the file changes",
			func(c *Config, text string) error { c.TLS.ClientCA = text; return nil },
		},
		{
			"tls-self-signed", "false", "true or false",
			"use TLS with a certificate that the server creates below the data directory, for a first try; the " +
				"server prints its fingerprint",
			func(c *Config, text string) error { return setSwitch(&c.TLSSelfSigned, text) },
		},
		{
			"insecure-behind-proxy", "false", "true or false",
			"serve plain HTTP at an address that other machines can reach, because a proxy in front of the server ends TLS",
			func(c *Config, text string) error { return setSwitch(&c.BehindProxy, text) },
		},
		{
			"metrics-listen", "", "HOST:PORT, or empty for none; port 0 picks a free one",
			"second address, which serves only /livez, /readyz and /metrics, over plain HTTP and without a token",
			func(c *Config, text string) error {
				if text == "" {
					return nil
				}
				return setListen(&c.MetricsListen, text)
			},
		},
		{
			"allowed-hosts", "", "host names separated by commas, at most 32",
			"names that the Host header of a request may carry, besides literal addresses, localhost and the " +
				"names in the server's certificate",
			setHosts,
		},
	}
}

// secure says whether the server speaks TLS.
func (c *Config) secure() bool { return c.TLSSelfSigned || c.TLS.Certificate != "" }

// checkListening refuses options about listening that contradict each other, or that would let other machines reach a server
// without TLS by oversight.
func (c *Config) checkListening() error {
	reachable, err := c.reachable()
	switch {
	case err != nil:
		return fmt.Errorf("listen %w", err) // its own check has reported it
	case c.Listen == "" && c.secure():
		return errors.New("listen is only a Unix socket, which speaks plain HTTP: give an address too, or no certificate")
	case (c.TLS.Certificate == "") != (c.TLS.Key == ""):
		return errors.New("tls-cert and tls-key belong together: give both or none")
	case c.TLSSelfSigned && c.TLS.Certificate != "":
		return errors.New("tls-self-signed makes a certificate, and tls-cert names one: give only one of them")
	case c.TLS.ClientCA != "" && !c.secure():
		return errors.New("tls-client-ca is about certificates of clients, which are shown over TLS only: give tls-cert and tls-key too")
	case c.BehindProxy && c.secure():
		return errors.New("insecure-behind-proxy says that a proxy ends TLS, and tls-cert or tls-self-signed that " +
			"this server does: give only one of them")
	case reachable && !c.secure() && !c.BehindProxy:
		return fmt.Errorf("listen is %s, which other machines can reach, and tokens would pass the network in the "+
			"clear: give tls-cert and tls-key, or tls-self-signed for a first try; "+
			"if a proxy in front of the server ends TLS, on a network that you trust, set insecure-behind-proxy", c.Listen)
	}
	return nil
}

// reachable says whether other machines can reach the server.
func (c *Config) reachable() (bool, error) {
	if c.Listen == "" {
		return false, nil
	}
	return web.Reachable(c.Listen)
}

// guarded says whether requests need a token from the first start on: where others than those on this machine can make them.
func (c *Config) guarded() bool {
	reachable, err := c.reachable()
	return c.Auth || c.BehindProxy || reachable || err != nil
}

// openCertificate reads the certificate that the options name, or makes one; nil if the server speaks plain HTTP. The data
// directory must be open: two servers that make a certificate at once would each get half of the other's.
func openCertificate(config Config, o certificate.Options) (*certificate.Source, error) {
	if !config.secure() {
		return nil, nil
	}
	o.Files = config.TLS
	if config.TLSSelfSigned {
		made, err := certificate.SelfSigned(filepath.Join(config.Data, tlsFolder), selfSignedNames(config), o.Now())
		if err != nil {
			return nil, err
		}
		o.Files.Certificate, o.Files.Key = made.Certificate, made.Key
	}
	return certificate.Open(o)
}

// selfSignedNames are the names by which clients may address this machine, as far as it knows them.
func selfSignedNames(config Config) []string {
	names := []string{"localhost", "127.0.0.1", "::1"}
	if host, err := os.Hostname(); err == nil && validDNSName(host) {
		names = append(names, host)
	}
	host, _, _ := net.SplitHostPort(config.Listen)
	switch ip := net.ParseIP(host); {
	case ip != nil && !ip.IsUnspecified(), ip == nil && validDNSName(host):
		names = append(names, host)
	default:
		names = append(names, machineAddresses()...)
	}
	names = append(names, config.AllowedHosts...)
	slices.Sort(names)
	return slices.Compact(names)
}

// machineAddresses are those by which other machines can reach this one.
func machineAddresses() (out []string) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil // then clients compare the fingerprint
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			out = append(out, n.IP.String())
		}
	}
	return out
}

// validDNSName says whether a certificate can be for name.
func validDNSName(name string) bool {
	return name != "" && len(name) <= 253 && strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789-.") == ""
}

// setListen takes an address, and checks the port, which net.Listen would only refuse after the data directory is open.
func setListen(to *string, text string) error {
	if _, err := web.Reachable(text); err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return err
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("has the port %q; it must be a number from 0 to 65535, where 0 picks a free one", port)
	}
	*to = text
	return nil
}

// setListens takes an address, the path of a Unix socket, or both.
func setListens(c *Config, text string) error {
	var listen, socket string
	for part := range strings.SplitSeq(text, ",") {
		path, isSocket := strings.CutPrefix(part, socketScheme)
		switch {
		case isSocket && socket != "":
			return errors.New("names two Unix sockets; there can be one")
		case isSocket && (path == "" || len(path) > maxSocketPath):
			return fmt.Errorf("has a socket's path of %d bytes; it must have 1 to %d", len(path), maxSocketPath)
		case isSocket:
			socket = path
		case listen != "":
			return errors.New("names two addresses; there can be one, and a Unix socket beside it")
		default:
			if err := setListen(&listen, part); err != nil {
				return err
			}
		}
	}
	c.Listen, c.Socket = listen, socket
	return nil
}

// trueOrFalse is the limit of an option that is a switch; as a flag it may stand without a value.
const trueOrFalse = "true or false"

func setSwitch(to *bool, text string) error {
	switch text {
	case "true":
		*to = true
	case "false":
		*to = false
	default:
		return errors.New("must be " + trueOrFalse)
	}
	return nil
}

const (
	socketScheme = "unix:" // before the path of a Unix socket

	maxSocketPath = 100 // the kernel takes 108 bytes, with room for a suffix and an end
)

// listenSocket opens a Unix socket that only this process's user may connect to. It replaces the socket of an earlier server that was
// killed, and refuses anything else at the path.
func listenSocket(ctx context.Context, path string) (net.Listener, error) {
	if err := clearSocket(ctx, path); err != nil {
		return nil, err
	}
	// It is made beside its place and moved there, so that no one can connect before its mode is set.
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", fresh)
	if err != nil {
		return nil, err
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false) // it would remove the path that it was made at
	err = os.Chmod(fresh, 0o600)
	if err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		return nil, errors.Join(err, listener.Close(), os.Remove(fresh))
	}
	return &socketListener{listener, path}, nil
}

// clearSocket removes a socket on which no one listens.
func clearSocket(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSocket == 0:
		return errors.New("there is something at this path that is not a socket: move it away, or give another path")
	}
	if c, err := new(net.Dialer).DialContext(ctx, "unix", path); err == nil {
		c.Close()
		return errors.New("another process listens there")
	}
	return os.Remove(path)
}

// socketListener removes its file when it is closed.
type socketListener struct {
	net.Listener
	path string
}

// Addr is where clients find it.
func (l *socketListener) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: l.path} }

// Close stops listening.
func (l *socketListener) Close() error {
	err := l.Listener.Close()
	if err == nil {
		err = os.Remove(l.path)
	}
	if err != nil {
		return fmt.Errorf("close the socket %s: %w", l.path, err)
	}
	return nil
}
