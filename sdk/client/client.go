package client

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

// Defaults of the options.
const (
	DefaultRetries     = 5
	DefaultCallTimeout = 30 * time.Second
	DefaultMaxIdle     = 64
)

// Client calls one server, or several that serve the same queues. Many goroutines may use it at once.
type Client struct {
	addresses addresses
	token     string
	hot       hot
	cold      *standard
	retries   int
	timeout   time.Duration
	random    *random
	buffers   wire.Buffers
	notices   notices
	shared    shared
}

// Option changes a Client while New makes it.
type Option func(*settings)

type settings struct {
	more        []string
	direct      bool
	token       string
	httpClient  *http.Client
	tls         *tls.Config
	retries     int
	timeout     time.Duration
	maxIdle     int
	random      io.Reader
	idleTimeout time.Duration
	log         *slog.Logger
}

// WithToken sends an access token with every call.
func WithToken(token string) Option { return func(s *settings) { s.token = token } }

// WithAddresses adds addresses, in the form that New takes, of servers that serve the same queues. Each client puts
// them into a random order, so clients spread over the servers. Calls go to one server. If it does not answer, or
// answers 502, 503 or 504, they go to the next. The client sends the token to all of them.
func WithAddresses(more ...string) Option { return func(s *settings) { s.more = more } }

// WithDirect sends the calls of a queue straight to the node of a cluster that owns it, as soon as an answer has
// named the owner. This saves the way through another node. If the owner does not serve, calls go to the client's
// addresses again. The client remembers the owners of up to 256 queues. It calls an owner that is not one of its
// addresses only if the owner's URL has the scheme of the address that named it.
func WithDirect() Option { return func(s *settings) { s.direct = true } }

// WithTLS configures TLS for https addresses: the authorities to trust, and the client's certificate. Without it, the
// client trusts the system's authorities. WithTLS copies the config.
func WithTLS(config *tls.Config) Option { return func(s *settings) { s.tls = config.Clone() } }

// WithHTTPClient sends every call, including the frequent ones, through h (its transport, proxies, certificates).
// WithTLS has no effect beside it. Without this option the client follows no redirect; with it, h decides.
func WithHTTPClient(h *http.Client) Option { return func(s *settings) { s.httpClient = h } }

// WithRetries sets how many further attempts a call may have. The default is DefaultRetries; 0 is none.
func WithRetries(n int) Option { return func(s *settings) { s.retries = max(n, 0) } }

// WithCallTimeout sets how long one attempt of a call may take, without the time that it asks the server to wait. The
// default is DefaultCallTimeout.
func WithCallTimeout(d time.Duration) Option { return func(s *settings) { s.timeout = d } }

// WithMaxIdle sets how many idle connections the client keeps for its frequent calls. The default is DefaultMaxIdle.
func WithMaxIdle(n int) Option { return func(s *settings) { s.maxIdle = max(n, 0) } }

// WithRandom draws idempotency keys and the jitter of pauses from r instead of crypto/rand.
func WithRandom(r io.Reader) Option { return func(s *settings) { s.random = r } }

// WithLogger sets the logger for problems that the client handles by itself and reports nowhere else: those of
// workers without an OnError, and of streams that it follows. It logs each kind at most once a minute. The default is
// slog.Default().
func WithLogger(log *slog.Logger) Option { return func(s *settings) { s.log = log } }

// New makes a client for the server at baseURL, such as "http://127.0.0.1:7700", or "unix:/run/quern.sock" for a Unix
// socket of this machine. It does not connect yet.
func New(baseURL string, options ...Option) (*Client, error) {
	s := settings{retries: DefaultRetries, timeout: DefaultCallTimeout, maxIdle: DefaultMaxIdle, random: rand.Reader,
		idleTimeout: 60 * time.Second}
	for _, option := range options {
		option(&s)
	}
	if !validHeader(s.token) {
		return nil, errors.New("client: the token has characters that no token has (spaces, line breaks or others outside ASCII)")
	}
	if s.timeout <= 0 {
		return nil, fmt.Errorf("client: the call timeout is %v; it must be positive", s.timeout)
	}
	seeded, err := newRandom(s.random)
	if err != nil {
		return nil, err
	}
	c := &Client{
		token:   s.token,
		retries: s.retries,
		timeout: s.timeout,
		random:  seeded,
		notices: notices{log: s.log},
	}
	if s.tls == nil {
		s.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	c.cold = newStandard(c, s.httpClient, s.tls)
	c.addresses.direct = s.direct
	c.addresses.open = func(address string) (*endpoint, error) { return newEndpoint(c, address, &s) }
	for _, address := range append([]string{baseURL}, s.more...) {
		h, err := c.addresses.open(address)
		if err != nil {
			return nil, err
		}
		c.addresses.all = append(c.addresses.all, h)
	}
	all := c.addresses.all
	seeded.jitter.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return c, nil
}

// Close closes idle connections. The client still works afterwards, with new connections.
func (c *Client) Close() {
	c.addresses.closeIdle()
	c.cold.http.CloseIdleConnections()
}

// proxied says whether the environment asks for a proxy to u; our own connections know none.
func proxied(u *url.URL) bool {
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u})
	return proxy != nil || err != nil
}

// validHeader refuses what could end a header line or change its meaning.
func validHeader(value string) bool {
	for i := range len(value) {
		if c := value[i]; c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}

// queuePath is the path below a queue; suffix begins with a slash or is empty.
func queuePath(queue, suffix string) string {
	return "/v1/queues/" + url.PathEscape(queue) + suffix
}

func submissionPath(id, suffix string) string {
	return "/v1/submissions/" + url.PathEscape(id) + suffix
}

// random draws keys from a source of good randomness, and jitter from a cheap one that it seeded.
type random struct {
	mu     sync.Mutex
	source io.Reader
	jitter *mathrand.Rand

	incarnation string // distinguishes this process from others that work under the same name
}

func newRandom(source io.Reader) (*random, error) {
	var seed [16]byte
	if _, err := io.ReadFull(source, seed[:]); err != nil {
		return nil, fmt.Errorf("client: draw a seed: %w", err)
	}
	pcg := mathrand.NewPCG(binary.LittleEndian.Uint64(seed[:]), binary.LittleEndian.Uint64(seed[8:]))
	r := &random{source: source, jitter: mathrand.New(pcg)}
	var err error
	r.incarnation, err = r.key()
	return r, err
}

// key draws 128 bits as hexadecimal text.
func (r *random) key() (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b [16]byte
	if _, err := io.ReadFull(r.source, b[:]); err != nil {
		return "", fmt.Errorf("client: draw a key: %w", err)
	}
	var text [2 * len(b)]byte
	hex.Encode(text[:], b[:])
	return string(text[:]), nil
}

// upTo draws a duration from 0 to d.
func (r *random) upTo(d time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Duration(r.jitter.Int64N(int64(d) + 1))
}

// Ready returns nil if all parts of the server work, and otherwise an error with api.CodeNotReady. With checks, it
// lists every part by name. If the server requires tokens, checks needs one with the scope read.
func Ready(ctx context.Context, c *Client, checks bool) (*api.Readiness, error) {
	path := "/readyz"
	if checks {
		path += "?verbose"
	}
	return get[api.Readiness](ctx, c, "ready", path)
}
