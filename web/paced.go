package web

import (
	"io"
	"net/http"
	"time"
)

// The least that the sender of a large body must do. Bodies hold memory while they are read, so that one who announces
// much and sends nothing keeps others out.
const (
	leastBodyRate = 16 << 10         // bytes a second, on the whole, after the first bodyGrace
	bodyGrace     = 10 * time.Second // for the first packets of a slow line
)

// paced is a large body that must keep coming: a pause of patience.pause, or less than leastBodyRate on the whole, ends the read.
type paced struct {
	io.Reader
	control  *http.ResponseController
	server   *Server
	began    time.Time
	received int64
}

// paced reads a large body, whose whole time is patience.upload.
func (s *Server) paced(w http.ResponseWriter, body io.Reader) *paced {
	s.uploadLonger(w)
	return &paced{Reader: body, control: http.NewResponseController(w), server: s, began: s.wall()}
}

// finish says that the body was read: the handler has the time of one for what it does with it. One that was not keeps
// its deadline, so that net/http does not wait for the rest of it either.
func (p *paced) finish() {
	if p != nil {
		_ = p.control.SetReadDeadline(p.server.wall().Add(p.server.patience.upload))
	}
}

// Read moves the deadline of the connection before it waits. A writer that knows no deadlines (a test's recorder) has none to move.
func (p *paced) Read(b []byte) (int, error) {
	_ = p.control.SetReadDeadline(p.deadline(p.server.wall()))
	n, err := p.Reader.Read(b)
	p.received += int64(n)
	return n, err
}

// deadline is until when something must come.
func (p *paced) deadline(now time.Time) time.Time {
	earliest := p.began.Add(p.server.patience.upload)
	for _, other := range []time.Time{now.Add(p.server.patience.pause),
		p.began.Add(bodyGrace + time.Duration(float64(p.received)/leastBodyRate*float64(time.Second)))} {
		if other.Before(earliest) {
			earliest = other
		}
	}
	return earliest
}
