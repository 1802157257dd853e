package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strconv"
	"sync/atomic"
	"time"
)

// conn is one connection of lean. Its timer bounds the call that it is used for, and between calls how long it is kept.
type conn struct {
	pool    *lean
	raw     net.Conn
	reader  *bufio.Reader
	timer   *time.Timer
	idle    bool // guarded by pool.mu
	aborted atomic.Pointer[error]
	head    []byte
	date    [40]byte
	keep    bool // the connection can be used again after this answer
}

const (
	readBuffer   = 16 << 10
	maxHeadBytes = 64 << 10 // of an answer
)

var (
	errEnded   = errors.New("the context ended")
	errTimeout = fmt.Errorf("no answer in time: %w", context.DeadlineExceeded)
)

func newConn(l *lean, raw net.Conn) *conn {
	c := &conn{pool: l, raw: raw, reader: bufio.NewReaderSize(raw, readBuffer)}
	c.timer = time.AfterFunc(math.MaxInt64, func() { l.expire(c) })
	c.timer.Stop()
	return c
}

func (c *conn) close() { c.raw.Close() }

// abort ends the running call with the cause. The deadline is in the past, so reads and writes return at once.
func (c *conn) abort(cause error) {
	c.aborted.CompareAndSwap(nil, &cause)
	c.raw.SetDeadline(time.Unix(1, 0))
}

// roundTrip makes one call and gives the connection back or closes it. started says whether any byte of the answer came.
func (c *conn) roundTrip(ctx context.Context, q *request, r *reply) (started bool, err error) {
	c.timer.Reset(c.pool.client.timeout + q.wait)
	var detach func() bool
	if ctx.Done() != nil {
		detach = context.AfterFunc(ctx, func() { c.abort(errEnded) })
	}
	started, err = c.converse(q, r)
	inTime := c.timer.Stop()
	undisturbed := detach == nil || detach()
	if cause := c.aborted.Load(); cause != nil && err != nil {
		err = *cause
	}
	// Bytes behind this answer would be taken for the answer to the next call.
	if err == nil && inTime && undisturbed && c.keep && c.reader.Buffered() == 0 {
		c.pool.give(c)
	} else {
		c.close()
	}
	return started, err
}

func (c *conn) converse(q *request, r *reply) (started bool, err error) {
	written := c.write(q)
	if _, err := c.reader.Peek(1); err != nil {
		if written != nil {
			err = written
		}
		return false, fmt.Errorf("no answer: %w", err)
	}
	if err := c.readHead(r); err != nil {
		return true, err
	}
	if written != nil {
		c.keep = false // answered before all of it was read, such as a body over the limit
	}
	return true, nil
}

// write sends head and body in one piece where the head fits into the gap before the body.
func (c *conn) write(q *request) error {
	body := q.body()
	h := append(c.head[:0], q.method...)
	h = append(h, ' ')
	h = append(h, c.pool.prefix...)
	h = append(h, q.path...)
	h = append(h, " HTTP/1.1\r\nHost: "...)
	h = append(h, c.pool.host...)
	h = append(h, "\r\nUser-Agent: "+userAgent+"\r\n"...)
	h = appendHeader(h, "Content-Type: ", q.media)
	h = appendHeader(h, "Idempotency-Key: ", q.key)
	h = appendHeader(h, "Traceparent: ", q.trace)
	h = appendHeader(h, "Tracestate: ", q.state)
	h = appendHeader(h, "Prefer: ", q.prefer)
	h = appendHeader(h, "Authorization: Bearer ", c.pool.client.token)
	h = append(h, "Content-Length: "...)
	h = strconv.AppendInt(h, int64(len(body)), 10)
	h = append(h, "\r\n\r\n"...)
	c.head = h
	if len(h) <= gap && len(body) > 0 {
		start := gap - len(h)
		copy(q.buffer[start:], h)
		_, err := c.raw.Write(q.buffer[start:])
		return err
	}
	if _, err := c.raw.Write(h); err != nil {
		return err
	}
	_, err := c.raw.Write(body)
	return err
}

func appendHeader(h []byte, name, value string) []byte {
	if value == "" {
		return h
	}
	h = append(h, name...)
	h = append(h, value...)
	return append(h, '\r', '\n')
}

// head is the head of an answer.
type head struct {
	length     int64 // -1: not said
	chunked    bool
	retryAfter []byte
	owner      string
	date       []byte
	left       int // bytes that the head may still have
}

// readHead reads the head of the answer, skipping interim ones, and then its body.
func (c *conn) readHead(r *reply) error {
	for {
		h := head{length: -1, left: maxHeadBytes, date: c.date[:0]}
		line, err := c.line(&h)
		if err != nil {
			return err
		}
		r.status, c.keep, err = parseStatus(line)
		if err != nil {
			return err
		}
		if err := c.readFields(&h); err != nil {
			return err
		}
		if r.status < 200 {
			if r.status == 101 {
				return errors.New("the server switched protocols")
			}
			continue
		}
		r.retryAfter, r.owner = 0, h.owner
		if h.retryAfter != nil {
			r.retryAfter = parseRetryAfter(string(h.retryAfter), string(h.date))
		}
		return c.readBody(&h, r)
	}
}

// parseStatus reads "HTTP/1.1 200 OK".
func parseStatus(line []byte) (status int, keep bool, err error) {
	if len(line) < 12 || string(line[:7]) != "HTTP/1." || line[8] != ' ' || len(line) > 12 && line[12] != ' ' {
		return 0, false, fmt.Errorf("not an answer in HTTP/1.1: %.40q", line)
	}
	for _, c := range line[9:12] {
		if c < '0' || c > '9' {
			return 0, false, fmt.Errorf("not an answer in HTTP/1.1: %.40q", line)
		}
		status = status*10 + int(c-'0')
	}
	if status < 100 {
		return 0, false, fmt.Errorf("not an answer in HTTP/1.1: %.40q", line)
	}
	return status, line[7] == '1', nil
}

// line reads one line without its end; it is valid until the next read.
func (c *conn) line(h *head) ([]byte, error) {
	line, err := c.reader.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("the head of the answer: %w", unexpected(err))
	}
	if h.left -= len(line); h.left < 0 {
		return nil, fmt.Errorf("the head of the answer is longer than %d bytes", maxHeadBytes)
	}
	line = line[:len(line)-1]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, nil
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (c *conn) readFields(h *head) error {
	for {
		line, err := c.line(h)
		if err != nil {
			return err
		}
		if len(line) == 0 {
			return nil
		}
		colon := bytes.IndexByte(line, ':')
		if colon <= 0 || line[0] == ' ' || line[0] == '\t' {
			return fmt.Errorf("a line of the answer's head is broken: %.60q", line)
		}
		name, value := line[:colon], bytes.Trim(line[colon+1:], " \t")
		switch {
		case is(name, "content-length"):
			n, err := strconv.ParseUint(string(value), 10, 62)
			if err != nil || h.length >= 0 && h.length != int64(n) {
				return fmt.Errorf("the answer's Content-Length is broken: %.60q", value)
			}
			h.length = int64(n)
		case is(name, "transfer-encoding"):
			if !is(value, "chunked") {
				return fmt.Errorf("the answer's Transfer-Encoding is not known: %.60q", value)
			}
			h.chunked = true
		case is(name, "connection"):
			if is(value, "close") {
				c.keep = false
			}
		case is(name, "retry-after"):
			h.retryAfter = bytes.Clone(value)
		case is(name, "quern-owner"):
			h.owner = string(value)
		case is(name, "date"):
			h.date = append(h.date[:0], value...)
		}
	}
}

// is compares without regard to the case of ASCII letters; lower is in lower case.
func is(name []byte, lower string) bool {
	if len(name) != len(lower) {
		return false
	}
	for i := range name {
		c := name[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

func (c *conn) readBody(h *head, r *reply) error {
	r.body = r.body[:0]
	var err error
	switch {
	case r.status == 204 || r.status == 304:
		return nil
	case h.chunked:
		if h.length >= 0 {
			c.keep = false // two lengths are none to build the next answer's start on
		}
		r.body, err = c.readChunks(h, r.body)
	case h.length >= 0:
		r.body, err = c.readBytes(r.body, h.length)
	default:
		c.keep = false
		r.body, err = c.readAll(r.body)
	}
	if err != nil {
		return fmt.Errorf("the body of the answer: %w", err)
	}
	return nil
}

// readBytes appends n bytes to dst. It grows dst by the bytes that have come, not by the announced length.
func (c *conn) readBytes(dst []byte, n int64) ([]byte, error) {
	const most = 4 << 20
	if int64(len(dst))+n > maxAnswer {
		return dst, errTooLong
	}
	for n > 0 {
		step := int(min(n, most))
		start := len(dst)
		if cap(dst)-start < step {
			dst = append(make([]byte, 0, max(start+step, min(2*cap(dst), start+int(n)))), dst...)
		}
		dst = dst[:start+step]
		if got, err := io.ReadFull(c.reader, dst[start:]); err != nil {
			return dst[:start+got], unexpected(err)
		}
		n -= int64(step)
	}
	return dst, nil
}

func (c *conn) readAll(dst []byte) ([]byte, error) {
	body := bytes.NewBuffer(dst)
	n, err := body.ReadFrom(io.LimitReader(c.reader, maxAnswer+1))
	if err == nil && n > maxAnswer {
		err = errTooLong
	}
	return body.Bytes(), err
}

// readChunks reads a body in chunked coding, with its trailer.
func (c *conn) readChunks(h *head, dst []byte) ([]byte, error) {
	for {
		h.left = maxHeadBytes
		line, err := c.line(h)
		if err != nil {
			return dst, err
		}
		if i := bytes.IndexByte(line, ';'); i >= 0 {
			line = line[:i]
		}
		size, err := strconv.ParseUint(string(bytes.TrimRight(line, " \t")), 16, 40)
		if err != nil {
			return dst, fmt.Errorf("a chunk's size is broken: %.40q", line)
		}
		if size == 0 {
			break
		}
		if dst, err = c.readBytes(dst, int64(size)); err != nil {
			return dst, err
		}
		if line, err = c.line(h); err != nil || len(line) > 0 {
			return dst, errors.Join(errors.New("a chunk is longer than it says"), err)
		}
	}
	for {
		line, err := c.line(h)
		if err != nil || len(line) == 0 {
			return dst, err
		}
	}
}
