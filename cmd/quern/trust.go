package main

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

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

// trusted is what the flags say, else the environment.
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

// errFingerprint is what a server with another certificate than the pinned one gives.
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
