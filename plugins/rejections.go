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
	errs  map[queue.SHA256]error
	order []queue.SHA256
}

func newRejections(most int) *rejections {
	return &rejections{most: most, errs: map[queue.SHA256]error{}}
}

// add remembers why something was refused, which it will be again.
func (r *rejections) add(sum queue.SHA256, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.errs[sum]; !known {
		r.order = append(r.order, sum)
	}
	r.errs[sum] = err
	if len(r.order) > r.most {
		delete(r.errs, r.order[0])
		r.order = slices.Delete(r.order, 0, 1)
	}
}

// of is why something was refused; nil: it was not, or that is forgotten.
func (r *rejections) of(sum queue.SHA256) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.errs[sum]
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
