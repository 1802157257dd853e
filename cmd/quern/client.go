package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/sdk/client"
)

// quickRetries is how often a command that a person waits for tries again: often enough for a server that restarts,
// seldom enough to say soon that none is there.
const quickRetries = 2

// How long one try of a request may take, if --request-timeout does not say so.
const (
	usualTimeout = 10 * time.Second          // a person waits for the answer
	longTimeout  = client.DefaultCallTimeout // much is sent, or the server compiles a plugin
)

// client connects to the server that the flags and the environment name.
func (a *app) client(options ...client.Option) (*client.Client, error) {
	token, err := a.token()
	if err != nil {
		return nil, err
	}
	secure, err := a.trusted().config()
	if err != nil {
		return nil, usageError{err}
	}
	options = append([]client.Option{client.WithRetries(quickRetries), client.WithTLS(secure), client.WithToken(token),
		client.WithCallTimeout(usualTimeout)}, options...)
	switch {
	case a.timeout != 0 && (a.timeout < time.Millisecond || a.timeout > time.Hour):
		return nil, usageError{fmt.Errorf("--request-timeout is %s; it must be from 1ms to 1h, or 0 for the default", a.timeout)}
	case a.timeout > 0:
		options = append(options, client.WithCallTimeout(a.timeout))
	}
	servers := a.serverURLs()
	c, err := client.New(servers[0], append(options, client.WithAddresses(servers[1:]...))...)
	if err != nil {
		return nil, usageError{err}
	}
	a.asked = true
	return c, nil
}

// answers returns an error if no server answers. Commands call it before a request that the server may answer late: a server that is
// silent would be noticed no sooner than one that works.
func answers(ctx context.Context, c *client.Client) error {
	if _, err := client.Ready(ctx, c, false); err != nil && client.CodeOf(err) == "" && unreachable(err) {
		return err
	}
	return nil
}

// token is the access token to show: from the file of --token-file, else from QUERN_TOKEN, else from the file of QUERN_TOKEN_FILE; "" if
// none is given. A flag never has the token itself: other users of the machine see the command lines.
func (a *app) token() (string, error) {
	path, from := a.tokenFile, "--token-file"
	if path == "" {
		if token := a.getenv("QUERN_TOKEN"); token != "" {
			a.tokenFrom = "QUERN_TOKEN"
			return strings.TrimSpace(token), nil
		}
		path, from = a.getenv("QUERN_TOKEN_FILE"), "QUERN_TOKEN_FILE"
	}
	if path == "" {
		return "", nil
	}
	text, err := readAtMost(path, 4<<10)
	if err != nil {
		return "", usageError{fmt.Errorf("%s: %w", from, err)}
	}
	a.tokenFrom = from
	return strings.TrimSpace(string(text)), nil
}

// each makes the RunE of a command that does the same with each of its arguments, until that fails with one.
func (a *app) each(do func(ctx context.Context, c *client.Client, arg string) error) func(*cobra.Command, []string) error {
	return a.asking(func(ctx context.Context, c *client.Client, args []string) error {
		return eachOf(args, func(arg string) error { return do(ctx, c, arg) })
	})
}

// eachOf does the same with each argument, until that fails with one. The error then says which are done.
func eachOf(args []string, do func(arg string) error) error {
	for i, arg := range args {
		if err := do(arg); err != nil {
			return partlyError{error: err, done: args[:i], failed: arg, left: args[i+1:]}
		}
	}
	return nil
}

// asking makes the RunE of a command that asks a server: run is given a client of the server that the flags and the environment name.
func (a *app) asking(run func(ctx context.Context, c *client.Client, args []string) error,
	options ...client.Option) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.client(options...)
		if err != nil {
			return err
		}
		return run(cmd.Context(), c, args)
	}
}

// trust is how a server over TLS is known, and how the client makes itself known to it. Zero: by the system's authorities, and
// by no certificate.
type trust struct {
	ca          string // file
	fingerprint string // SHA-256 in hexadecimal
	cert, key   string // files
}

func (t *trust) flags(c *cobra.Command) {
	c.Flags().StringVar(&t.ca, "server-ca", "",
		"PEM file with the authorities to trust, instead of the system's (environment QUERN_SERVER_CA)")
	c.Flags().StringVar(&t.fingerprint, "server-fingerprint", "",
		"SHA-256 fingerprint of the certificate to trust, instead of any authority (environment QUERN_SERVER_FINGERPRINT)")
	c.Flags().StringVar(&t.cert, "client-cert", "",
		"PEM file with a client certificate, for a server that identifies clients by it (environment QUERN_CLIENT_CERT)")
	c.Flags().StringVar(&t.key, "client-key", "",
		"PEM file with the private key of --client-cert (environment QUERN_CLIENT_KEY; default the file of --client-cert)")
}

// trusted is the trust that the flags set, or else the environment.
func (a *app) trusted() trust {
	t := trust{
		ca:          cmp.Or(a.trust.ca, a.getenv("QUERN_SERVER_CA")),
		fingerprint: cmp.Or(a.trust.fingerprint, a.getenv("QUERN_SERVER_FINGERPRINT")),
		cert:        cmp.Or(a.trust.cert, a.getenv("QUERN_CLIENT_CERT")),
	}
	if t.cert != "" {
		t.key = cmp.Or(a.trust.key, a.getenv("QUERN_CLIENT_KEY"), t.cert)
	}
	return t
}

// config is t for connections.
func (t trust) config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	switch {
	case t.ca != "" && t.fingerprint != "":
		return nil, errors.New("the server is known by its authority (--server-ca) or by its fingerprint " +
			"(--server-fingerprint): give only one of them")
	case t.ca != "":
		bundle, err := os.ReadFile(t.ca)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(bundle) {
			return nil, fmt.Errorf("%s holds no certificate in PEM", t.ca)
		}
	case t.fingerprint != "":
		want, err := hex.DecodeString(strings.ReplaceAll(t.fingerprint, ":", ""))
		if err != nil || len(want) != sha256.Size {
			return nil, fmt.Errorf("the fingerprint %q is not a SHA-256 in hexadecimal: it has 64 digits, with or "+
				"without colons", t.fingerprint)
		}
		pin(config, want)
	}
	if t.cert != "" {
		pair, err := tls.LoadX509KeyPair(t.cert, t.key)
		if err != nil {
			return nil, fmt.Errorf("the client's certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// errFingerprint is the error of a server whose certificate is not the pinned one.
var errFingerprint = errors.New("its certificate is not the one of --server-fingerprint: this is another server, one " +
	"in between, or the certificate was replaced")

// pin has connections know the server by the SHA-256 of its certificate, and by nothing else.
func pin(config *tls.Config, want []byte) {
	config.InsecureSkipVerify = true // VerifyConnection does more: it lets one single certificate through
	config.VerifyConnection = func(state tls.ConnectionState) error {
		got := sha256.Sum256(state.PeerCertificates[0].Raw)
		if subtle.ConstantTimeCompare(got[:], want) == 1 {
			return nil
		}
		return fmt.Errorf("%w: it has %s", errFingerprint, hex.EncodeToString(got[:]))
	}
}
