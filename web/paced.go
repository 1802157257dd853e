package web

// Speed limits for clients: large bodies must keep coming, and long answers must keep being read.
// Go's deadlines are per connection and absolute, so each read and write moves them.
//
//	deadline of a read  = min(now + pause, began + grace + received / leastRate, began + upload)
//	budget of an answer = left − time waited for the reader + bytes / leastRate, at most answerAhead
//
// A reader's credit is capped: otherwise a reader that was fast for an hour could then hold its
// place for a day. Only time that the client costs is counted: a slow disk of ours must not end a
// fast reader's answer.

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/labstack/echo/v4"
)

// The least pace for the sender of a large body and for the reader of a long answer. Both
// hold memory and a place. So a client that announces or asks for much and then does
// nothing would keep others out.
const (
	leastRate = 16 << 10         // bytes a second, on the whole
	bodyGrace = 10 * time.Second // for the first packets of a slow line
	// a fast reader saves up time, up to this: more than for the 4 MiB that a socket takes at once
	answerAhead = 5 * time.Minute
	answerPiece = 32 << 10 // bytes that are written at once, so that taken bytes count soon
)

// paced is a large body that must keep coming: a pause of patience.pause, or less than
// leastRate on the whole, ends the read.
type paced struct {
	io.Reader
	control  *http.ResponseController
	clock    *clock
	began    time.Time
	received int64
}

// paced reads a large body, whose whole time is patience.upload.
func (b *bodies) paced(w http.ResponseWriter, body io.Reader) *paced {
	p := &paced{Reader: body, control: http.NewResponseController(w), clock: b.clock, began: b.clock.wall()}
	_ = p.control.SetReadDeadline(p.began.Add(b.clock.patience.upload))
	_ = p.control.SetWriteDeadline(p.began.Add(b.clock.patience.upload + b.clock.patience.write))
	return p
}

// finish says that the body was read: the handler then has the time of an upload for its work. A
// body that was not read to its end keeps its deadline, so that net/http does not wait for the
// rest of it either.
func (p *paced) finish() {
	if p != nil {
		_ = p.control.SetReadDeadline(p.clock.wall().Add(p.clock.patience.upload))
	}
}

// Read moves the deadline of the connection before it waits. A writer that knows no
// deadlines (a test's recorder) has none to move.
func (p *paced) Read(b []byte) (int, error) {
	_ = p.control.SetReadDeadline(p.deadline(p.clock.wall()))
	n, err := p.Reader.Read(b)
	p.received += int64(n)
	return n, err
}

// deadline is until when something must come.
func (p *paced) deadline(now time.Time) time.Time {
	earliest := p.began.Add(p.clock.patience.upload)
	for _, other := range []time.Time{now.Add(p.clock.patience.pause),
		p.began.Add(bodyGrace + time.Duration(float64(p.received)/leastRate*float64(time.Second)))} {
		if other.Before(earliest) {
			earliest = other
		}
	}
	return earliest
}

// lines answers with the lines that write makes. They go out as fast as the client takes
// them, through one buffer. When write fails the connection is cut.
func (s *streams) lines(c echo.Context, write func(*bufio.Writer) error) error {
	return s.content(c, contentLines, write)
}

// content is lines for content of any type.
func (s *streams) content(c echo.Context, media string, write func(*bufio.Writer) error) error {
	response := c.Response()
	response.Header().Set("Content-Type", media)
	response.WriteHeader(http.StatusOK)
	answer := &pacedAnswer{Writer: response, control: http.NewResponseController(response), auth: s.auth,
		clock: s.clock, by: s.auth.credentialOf(c.Request()), left: s.clock.patience.write}
	defer answer.finish()
	_ = answer.control.SetReadDeadline(time.Time{}) // reading only serves to notice that the client went away
	writer := bufio.NewWriterSize(answer, answerPiece)
	if err := write(writer); err != nil {
		return err
	}
	return writer.Flush()
}

// pacedAnswer is a long answer that its reader must keep taking: a pause of patience.write,
// or less than leastRate on the whole, ends it, and so does the end of the token or session
// that asked for it. Only the time for which the reader keeps the server waiting counts,
// and never the time that the server needs to make the answer. Bytes count before
// compression.
type pacedAnswer struct {
	io.Writer
	control *http.ResponseController
	auth    *auth
	clock   *clock
	by      *credential   // nil: none was needed
	left    time.Duration // how long the reader may still keep the server waiting
}

// Write moves the deadline of the connection before it waits, and takes it away
// afterwards: over HTTP/2 it would end the answer even while nothing is being
// written.
func (p *pacedAnswer) Write(b []byte) (written int, err error) {
	for piece := range slices.Chunk(b, answerPiece) {
		if !p.mayGoOn() {
			return written, noLongerGood()
		}
		began := p.clock.wall()
		_ = p.control.SetWriteDeadline(began.Add(min(p.left, p.clock.patience.write)))
		n, err := p.Writer.Write(piece)
		written += n
		if err != nil {
			return written, err
		}
		if p.took(n, p.clock.wall().Sub(began)); p.left <= 0 {
			return written, fmt.Errorf("web: the answer is taken too slowly: %w", os.ErrDeadlineExceeded)
		}
	}
	_ = p.control.SetWriteDeadline(time.Time{})
	return written, nil
}

// mayGoOn says whether the server would still let the answered request in now. Taking an
// answer counts as use of the session.
func (p *pacedAnswer) mayGoOn() bool {
	if p.by == nil {
		return true
	}
	if p.by.session != nil {
		p.by.session.use(p.clock.now())
	}
	return p.auth.good(p.by)
}

// took counts bytes that the reader took, and for how long the server waited for that.
func (p *pacedAnswer) took(n int, waited time.Duration) {
	p.left = min(p.left-waited+time.Duration(n)*time.Second/leastRate, answerAhead)
}

// finish gives what is still in buffers the time of an ordinary answer.
func (p *pacedAnswer) finish() {
	_ = p.control.SetWriteDeadline(p.clock.wall().Add(p.clock.patience.write))
}
