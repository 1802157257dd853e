package plugins

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/quern-queue/quern/engine/queue"
)

// rejections remember what was refused last, so that asking for it again and again costs no compilation and no start.
type rejections struct {
	most int

	mu    sync.Mutex
	errs  map[queue.SHA256]rejection
	order []queue.SHA256
	bytes int // of all texts
}

// rejection is why something was refused, and how long its text is.
type rejection struct {
	err   error
	bytes int
}

// maxRejectionBytes bounds the texts of those that are remembered: one may list thousands of mistakes.
const maxRejectionBytes = 1 << 20

func newRejections(most int) *rejections {
	return &rejections{most: most, errs: map[queue.SHA256]rejection{}}
}

// add remembers why something was refused, which it will be again.
func (r *rejections) add(sum queue.SHA256, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.errs[sum]; known {
		return
	}
	bytes := len(messageOf(err))
	r.errs[sum] = rejection{err, bytes}
	r.order = append(r.order, sum)
	r.bytes += bytes
	for len(r.order) > r.most || r.bytes > maxRejectionBytes {
		oldest := r.order[0]
		r.bytes -= r.errs[oldest].bytes
		delete(r.errs, oldest)
		r.order = slices.Delete(r.order, 0, 1)
	}
}

// of is why something was refused; nil: it was not, or that is forgotten.
func (r *rejections) of(sum queue.SHA256) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.errs[sum].err
}

const maxRejections = 64 // modules

// lasting says whether an error is the module's fault, so that the module will be refused again.
func lasting(err error) bool {
	var refused *queue.Error
	return errors.As(err, &refused) && refused.Code == queue.CodeInvalid &&
		!slices.ContainsFunc(refused.Problems, func(p queue.Problem) bool {
			return strings.HasPrefix(p.Pointer, "/config") // another configuration may do
		})
}
