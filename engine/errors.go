package engine

import (
	"errors"
	"strings"

	"github.com/quern-queue/quern/engine/queue"
)

// below moves the pointers of an error about a part of a request to where that part is: "/items/3" under "/complete"
// becomes "/complete/3", anything else is put behind.
func below(part string, err error) error {
	if err == nil {
		return nil // before e, which is on the heap
	}
	var e *queue.Error
	if !errors.As(err, &e) || len(e.Problems) == 0 {
		return err
	}
	moved := *e
	moved.Problems = make([]queue.Problem, len(e.Problems))
	for i, p := range e.Problems {
		moved.Problems[i] = queue.Problem{Pointer: part + strings.TrimPrefix(p.Pointer, "/items"), Detail: p.Detail}
	}
	return &moved
}
