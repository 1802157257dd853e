package engine

import (
	"context"
	"io"
	"time"
)

// copyPace slows a copy down for the sake of clients: after each piece it rests for as long as the piece took, so that calls find the disk
// and a processor free half of the time. The more the disk has to do, the longer a piece takes, and the rest after it.
type copyPace struct {
	ctx   context.Context // ends a rest
	now   func() time.Time
	began time.Time // when the piece did
	bytes int       // of it so far
}

const (
	copyPiece = 512 << 10
	copyRest  = time.Second // the longest
)

func newCopyPace(ctx context.Context, now func() time.Time) *copyPace {
	return &copyPace{ctx: ctx, now: now, began: now()}
}

// done says that so many more bytes are copied, and rests when that makes a piece.
func (p *copyPace) done(bytes int) error {
	if p.bytes += bytes; p.bytes < copyPiece {
		return p.ctx.Err()
	}
	rest := time.NewTimer(min(max(p.now().Sub(p.began), 0), copyRest))
	defer rest.Stop()
	select {
	case <-p.ctx.Done():
	case <-rest.C:
	}
	p.bytes, p.began = 0, p.now()
	return p.ctx.Err()
}

// reader is r at the same pace.
func (p *copyPace) reader(r io.Reader) io.Reader { return pacedReader{r, p} }

type pacedReader struct {
	io.Reader
	pace *copyPace
}

func (r pacedReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if pausing := r.pace.done(n); pausing != nil {
		return n, pausing
	}
	return n, err
}
