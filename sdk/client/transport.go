package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/quern-queue/quern/sdk/wire"
)

// request is one call. The body stands behind gap free bytes of buffer, into which our own connections write the head, so
// that head and body leave in one write.
type request struct {
	method string
	path   string // escaped, with the query
	buffer []byte
	media  string // of the body
	key    string // Idempotency-Key
	trace  string // traceparent
	state  string // tracestate
	prefer string
	wait   time.Duration // how long the server was asked to wait
	safe   bool          // may be made twice
	traced bool          // the body of an insert has a trace context, which goes before that of the headers
	pauses func()        // called before it is tried again; nil: no one waits for that

	ifMatch, ifNoneMatch string // of cold calls only
	accept, last         string // of streams of events only: the last is the event to go on after

	endpoint *endpoint // where this try goes
}

const gap = 768

func (r *request) body() []byte {
	if len(r.buffer) <= gap {
		return nil
	}
	return r.buffer[gap:]
}

// reply is an answer; body is reused from call to call.
type reply struct {
	status     int
	retryAfter time.Duration
	owner      string // URL of the node that owns the queue, if the answer names it
	body       []byte
}

// transport makes one try of a call. An error means that there is no answer.
type transport interface {
	roundTrip(ctx context.Context, q *request, r *reply) error
}

// maxAnswer is the largest answer that is read: 1,000 chunks of 1 MiB, in base64, and change.
const maxAnswer = 1500 << 20

// do makes a call, again where that is safe and may help.
func (c *Client) do(ctx context.Context, t transport, what string, q *request, r *reply) error {
	if err := q.join(ctx); err != nil {
		return fmt.Errorf("quern: %s: %w", what, err)
	}
	elsewhere := c.addresses.others()
	for try := 0; ; try++ {
		moved, err := c.once(ctx, t, what, q, r)
		if err == nil {
			return nil
		}
		if ended := ctx.Err(); ended != nil {
			if cause := context.Cause(ctx); errors.Is(cause, ended) || cause == nil {
				return fmt.Errorf("quern: %s: %w", what, ended)
			}
			return fmt.Errorf("quern: %s: %w (%w)", what, ended, context.Cause(ctx))
		}
		if !q.safe || final(err) && !moved {
			return err
		}
		if q.pauses != nil {
			q.pauses()
		}
		if moved && elsewhere > 0 {
			elsewhere--
			try-- // another address is no second try
			continue
		}
		if elsewhere = c.addresses.others(); try >= c.retries {
			return err
		}
		var refused *Error
		_ = errors.As(err, &refused)
		if pause(ctx, c.backoff(try, refused)) != nil {
			return err
		}
	}
}

// once makes one try. A node that does not own the queue any more has done nothing (421), so that the call goes on to the owner that it
// names. moved says that the next try goes elsewhere.
func (c *Client) once(ctx context.Context, t transport, what string, q *request, r *reply) (moved bool, err error) {
	q.endpoint = c.addresses.of(q)
	for hops := 0; ; hops++ {
		if err = t.roundTrip(ctx, q, r); err != nil {
			err = trouble(what, err)
			break
		}
		owner := c.addresses.heard(q, r)
		if r.status < 300 {
			return false, nil
		}
		if r.status != http.StatusMisdirectedRequest || owner == nil || owner == q.endpoint || hops > 0 {
			err = refusal(r)
			break
		}
		q.endpoint = owner
	}
	return ctx.Err() == nil && c.addresses.leave(q, err), err
}

const (
	backoffBase   = 100 * time.Millisecond
	backoffCap    = 5 * time.Second
	maxRetryAfter = time.Minute // a server that asks for more gets its answer as an error, or a try after this
)

// backoff is the pause after the given try: a draw from 0 to base*2^try, on top of the pause that the server asked for.
func (c *Client) backoff(try int, refused *Error) time.Duration {
	d := c.random.upTo(min(backoffBase<<min(try, 10), backoffCap))
	if refused != nil {
		d += min(refused.RetryAfter, maxRetryAfter)
	}
	return d
}

// pause waits for d or the end of ctx, whose error it returns.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// parseRetryAfter reads seconds or a date, which counts from the answer's own Date: the clocks need not agree.
func parseRetryAfter(value, date string) time.Duration {
	if value == "" {
		return 0
	}
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(date)
	if err != nil {
		return 0
	}
	return max(at.Sub(now), 0)
}

// standard is net/http.
type standard struct {
	client  *Client
	http    *http.Client
	sockets sockets
}

func newStandard(c *Client, h *http.Client, secure *tls.Config) *standard {
	known := sockets{}
	if h == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConnsPerHost = DefaultMaxIdle
		t.TLSClientConfig = secure.Clone()
		t.DisableCompression = true // an answer of a megabyte would become one of gigabytes
		known.use(t)
		// net/http would send the token on to other ports of the host, and from https to http. Our own connections follow no redirect,
		// either.
		h = &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return &standard{client: c, http: h, sockets: known}
}

// build makes the net/http form of q with the given body.
func (s *standard) build(ctx context.Context, q *request, body io.Reader) (*http.Request, error) {
	if err := q.join(ctx); err != nil { // streams come here by themselves
		return nil, err
	}
	h, err := http.NewRequestWithContext(ctx, q.method, q.endpoint.base+q.path, body)
	if err != nil {
		return nil, err
	}
	if q.endpoint.socket {
		h.Host = socketHost
	}
	for _, field := range [...][2]string{{"Content-Type", q.media}, {"Idempotency-Key", q.key},
		{"Traceparent", q.trace}, {"Tracestate", q.state}, {"Prefer", q.prefer}, {"If-Match", q.ifMatch},
		{"If-None-Match", q.ifNoneMatch}, {"Accept", q.accept}, {"Last-Event-ID", q.last}, {"User-Agent", userAgent}} {
		if field[1] != "" {
			h.Header.Set(field[0], field[1])
		}
	}
	if s.client.token != "" {
		h.Header.Set("Authorization", "Bearer "+s.client.token)
	}
	return h, nil
}

const headerOwner = "Quern-Owner"

const userAgent = "quern-go"

func (s *standard) roundTrip(ctx context.Context, q *request, r *reply) error {
	ctx, cancel := context.WithTimeout(ctx, s.client.timeout+q.wait)
	defer cancel()
	h, err := s.build(ctx, q, bytes.NewReader(q.body()))
	if err != nil {
		return err
	}
	answer, err := s.http.Do(h)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	return r.read(answer)
}

func (r *reply) read(answer *http.Response) error {
	r.status = answer.StatusCode
	r.retryAfter = parseRetryAfter(answer.Header.Get("Retry-After"), answer.Header.Get("Date"))
	r.owner = answer.Header.Get(headerOwner)
	body := bytes.NewBuffer(r.body[:0])
	n, err := body.ReadFrom(io.LimitReader(answer.Body, maxAnswer+1))
	if err == nil && n > maxAnswer {
		err = errTooLong
	}
	r.body = body.Bytes()
	return err
}

var errTooLong = errors.New("the answer is longer than a server's can be")

// appender and decoder are the methods of sdk/wire's types that the client uses.
type appender interface{ Append(dst []byte) []byte }
type decoder interface{ Decode(data []byte) error }

// lend prepares the buffer of a request.
func (c *Client) lend() *wire.Buffer {
	b := c.buffers.Get()
	b.B = slices.Grow(b.B, gap)[:gap]
	return b
}
