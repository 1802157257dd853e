package web

// How the bodies of requests get into memory, and how much of it they may take.
//
//	body up to maxBodyBytes  ─► pooled buffer, counted nowhere: the limits of requests at once bound them
//	larger                   ─► paced reader (paced.go) ─► buffer that doubles with what arrives
//	                             each growth counts: in bodies.held for all, in Use.Bodies for the token
//
// A buffer grows with what has arrived and not with what Content-Length announces. Else a client could
// take 64 MiB of memory with one header. The caller that takes a buffer gives it back with free, which
// takes its count back too. Until then, decoded values may point into it.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/wire"
)

const (
	contentJSON  = "application/json"
	contentLines = "application/x-ndjson"

	firstBody = 4 << 10 // size of a fresh buffer: most calls fit
	keepBody  = 1 << 20 // larger buffers are not kept for reuse
)

// buffer is bytes that live in a pool. The caller that takes one gives it back, and keeps
// nothing that points into it.
type buffer struct {
	b  []byte
	of *access.Use // whose share a large one counts in; nil: it counts in none
}

// buffers are those that are free.
type buffers struct{ pool pool[buffer] }

func (p *buffers) take() *buffer {
	b := p.pool.take()
	if b.b == nil {
		b.b = make([]byte, 0, firstBody)
	}
	return b
}

func (p *buffers) free(b *buffer) {
	if cap(b.b) <= keepBody {
		b.b = b.b[:0]
		p.pool.Put(b)
	}
}

// bodies reads the bodies of requests, and counts their memory.
type bodies struct {
	auth    *auth // whose share a large one counts in
	clock   *clock
	buffers *buffers
	held    atomic.Int64 // bytes held by bodies over maxBodyBytes
	uploads atomic.Int64 // bytes held by modules that are being uploaded
}

// mediaType checks that the request carries one of the accepted types, uncompressed, and
// returns which. The requirement is also a defence: no HTML form can send it.
func mediaType(r *http.Request, accepted ...string) (string, error) {
	header := r.Header.Get("Content-Type")
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return "", newProblem(codeMediaType, "Compressed bodies are not accepted: send it without Content-Encoding.")
	}
	for _, kind := range accepted {
		if header == kind {
			return kind, nil
		}
	}
	parsed, parameters, err := mime.ParseMediaType(header)
	if charset, ok := parameters["charset"]; ok && !equalFold(charset, "utf-8") {
		err = errors.New("charset")
	}
	for _, kind := range accepted {
		if err == nil && parsed == kind {
			return kind, nil
		}
	}
	want := accepted[0]
	for _, kind := range accepted[1:] {
		want += " or " + kind
	}
	return "", newProblem(codeMediaType, "This operation reads Content-Type "+want+" in UTF-8.")
}

// equalFold compares ASCII without regard to case.
func equalFold(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if a[i]|0x20 != b[i]|0x20 {
			return false
		}
	}
	return true
}

// read is readBytes for text. Text that is not UTF-8 is refused: the decoders would put U+FFFD in its place, and a
// consumer would get something else than the producer sent.
func (b *bodies) read(c echo.Context, limit int64) (*buffer, error) {
	body, err := b.readBytes(c, limit)
	if err != nil {
		return nil, err
	}
	if err := asText(body.b); err != nil {
		b.free(body)
		return nil, err
	}
	return body, nil
}

// asText refuses a body that is not UTF-8.
func asText(body []byte) error {
	if utf8.Valid(body) {
		return nil
	}
	return newProblem(codeMalformed, "The body is not UTF-8. Send bytes that are not text as {\"base64\":\"...\"}.")
}

// readBytes reads the whole body of at most limit bytes into a pooled buffer, which the caller
// gives back with free. The buffer grows with the bytes that arrive, not with Content-Length,
// and its bytes beyond an ordinary body count against maxHeldBytes.
func (b *bodies) readBytes(c echo.Context, limit int64) (*buffer, error) {
	r := c.Request()
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	from := io.Reader(r.Body)
	var large *paced
	if r.ContentLength < 0 || r.ContentLength > maxBodyBytes {
		large = b.paced(c.Response(), r.Body)
		from = large
	}
	body, began := b.buffers.take(), b.clock.wall()
	for {
		if len(body.b) == cap(body.b) {
			if err := b.grow(r, body, limit); err != nil {
				b.free(body)
				return nil, err
			}
		}
		n, err := from.Read(body.b[len(body.b):cap(body.b)])
		body.b = body.b[:len(body.b)+n]
		switch {
		case int64(len(body.b)) > limit:
			b.free(body)
			return nil, &http.MaxBytesError{Limit: limit}
		case err == io.EOF:
			large.finish()
			if b.clock.wall().Sub(began) > swiftBody && b.auth.ended(r) {
				b.free(body)
				return nil, noLongerGood()
			}
			return body, nil
		case err != nil:
			b.free(body)
			return nil, unread(r, err)
		case r.ContentLength == int64(len(body.b)):
			// net/http reports the end together with the last bytes or on the next read;
			// after a body of the announced length there is nothing left that could fail.
			continue
		}
	}
}

// swiftBody is how long the body of a hot call may take before its token is looked up again.
const swiftBody = 100 * time.Millisecond

// grow makes room for more: twice as much, or all that is still announced when that is less.
func (b *bodies) grow(r *http.Request, body *buffer, limit int64) error {
	announced := r.ContentLength
	size := 2 * int64(cap(body.b))
	if announced >= 0 {
		size = min(size, announced+1)
	}
	size = min(size, limit+1)
	if err := b.hold(r, body, size); err != nil {
		return err
	}
	larger := make([]byte, len(body.b), size)
	copy(larger, body.b)
	body.b = larger
	return nil
}

// hold counts a buffer that grows to size bytes against the limit of all large bodies.
//
// Both counts go up before the memory is allocated and down again if either is over its limit: no
// moment has more memory than is counted.
func (b *bodies) hold(r *http.Request, body *buffer, size int64) error {
	more := size - heldBy(int64(cap(body.b)))
	if size <= maxBodyBytes+1 {
		return nil
	}
	if err := b.holdShare(r, body, more); err != nil {
		return err
	}
	if b.held.Add(more) > maxHeldBytes {
		b.held.Add(-more)
		if body.of != nil {
			body.of.Bodies.Add(-more)
		}
		return &queue.Error{Code: queue.CodeOverloaded,
			Message: "Too many large requests are being read at once; send this one again in a moment."}
	}
	return nil
}

// holdShare counts as much against the limit of the large bodies of one access token.
func (b *bodies) holdShare(r *http.Request, body *buffer, more int64) error {
	if body.of == nil {
		token := b.auth.tokenOf(r)
		if token == nil || b.auth.limits.Bodies == 0 {
			return nil
		}
		body.of = token.Use
	}
	if now := body.of.Bodies.Add(more); now > b.auth.limits.Bodies {
		body.of.Bodies.Add(-more)
		return &queue.Error{Code: queue.CodeOverloaded, Message: fmt.Sprintf(
			"Large requests of this access token that are being read hold %d MiB, and with this one they would hold "+
				"more than the %d MiB that the server's option token-body-memory allows. Send it again in a moment, "+
				"or send fewer at once.", (now-more)>>20, b.auth.limits.Bodies>>20)}
	}
	return nil
}

// heldBy is the number of bytes that a buffer of this capacity counts as.
func heldBy(capacity int64) int64 {
	if capacity <= maxBodyBytes+1 {
		return 0
	}
	return capacity
}

// freeBody gives a buffer back.
func (b *bodies) free(body *buffer) {
	b.drop(body, heldBy(int64(cap(body.b))))
	b.buffers.free(body)
}

// drop no longer counts the bytes of a buffer.
func (b *bodies) drop(body *buffer, held int64) {
	if held > 0 {
		b.held.Add(-held)
		if body.of != nil {
			body.of.Bodies.Add(-held)
		}
	}
	body.of = nil
}

// holdDecoded counts memory that a decoded request takes, like that of large bodies, until
// the function that it returns is called.
func (b *bodies) holdDecoded(r *http.Request, size int64) (done func(), err error) {
	var decoded buffer
	if err := b.hold(r, &decoded, size); err != nil {
		return nil, err
	}
	return func() { b.drop(&decoded, heldBy(size)) }, nil
}

// The hot calls share this code: it reads bodies, writes answers, and makes the problem of a body
// that the hand-written decoders refused. Such a problem must read like those that huma's decoder
// finds for the other calls: same code, same pointer, same words.

// readJSON reads the body of a hot call, which is JSON.
func (b *bodies) readJSON(c echo.Context, limit int64) (*buffer, error) {
	if _, err := mediaType(c.Request(), contentJSON); err != nil {
		return nil, err
	}
	if err := plainPath(c.Request()); err != nil {
		return nil, err
	}
	return b.read(c, limit)
}

// plainPath refuses query parameters where an operation knows none: a misspelt option must not be ignored.
func plainPath(r *http.Request) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	return queue.Invalid("/query", "has parameters, but this operation knows none; its options go into the body")
}

// json writes an answer that is already encoded. An error means that the client is gone.
func (a *answers) json(c echo.Context, status int, body []byte) error {
	a.setHeaders(c)
	response := c.Response()
	header := response.Header()
	header["Content-Type"] = a.constant.json
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	response.WriteHeader(status)
	_, err := response.Write(body)
	return err
}

// sayDurability marks the answer to a write where the queue answers before the disk has it.
func sayDurability(c echo.Context, q engine.Work) {
	if q.Relaxed() {
		c.Response().Header().Set(headerDurability, queue.Relaxed.String())
	}
}

// wireProblem is the problem of a body that wire refused. It tells a body that is not
// JSON from one with a wrong value. R is the request, of package api.
func wireProblem[R any](err error, body []byte, media string) error {
	var refused *wire.Error
	if !errors.As(err, &refused) {
		return err
	}
	at := queue.Problem{Pointer: refused.Pointer, Detail: refused.Detail}
	if number := refused.Number(); number != "" {
		if allowed := allowedAt(reflect.TypeFor[R](), refused.Pointer); allowed != "" {
			at.Detail = "must be " + number + "; " + allowed + " are allowed"
		}
	}
	if media == contentJSON && !json.Valid(body) {
		return newProblem(codeMalformed, "The body is not one complete JSON value.", at)
	}
	return newProblem(queue.CodeInvalid, "The request is not valid.", at)
}

// prefixed moves the pointers of err below prefix, where that part of the body stands.
// Pointers into the path stay.
func prefixed(err error, prefix string) error {
	return queue.Repointed(err, func(pointer string) string {
		if strings.HasPrefix(pointer, "/path/") {
			return pointer
		}
		return prefix + pointer
	})
}

// renamed moves the pointers of an error from one field to another.
func renamed(err error, from, to string) error {
	return queue.Repointed(err, func(pointer string) string {
		if rest, ok := strings.CutPrefix(pointer, from); ok {
			return to + rest
		}
		return pointer
	})
}

// pool keeps memory that hot calls would otherwise allocate every time. It does not
// keep memory that grew beyond the needs of an ordinary call.
type pool[T any] struct{ sync.Pool }

func (p *pool[T]) take() *T {
	if held, ok := p.Get().(*T); ok {
		return held
	}
	return new(T)
}

// keepItems is the longest list whose memory is kept for the next call.
const keepItems = 1024
