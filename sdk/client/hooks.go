package client

import (
	"context"
	"errors"
	"fmt"
)

// hooks are the calls of a worker's hook.
type hooks struct {
	failed  func(context.Context, *Chunk, error) error // for failures that the server has recorded; nil: there is none
	running int
	ended   chan error // each with its error
}

// hook calls the hook for a failure that the server has recorded, beside the loop. A worker whose hooks are slow reserves less: at most
// twice as many hooks run as the worker holds chunks.
func (w *worker) hook(h *held) {
	if w.hooks.failed == nil {
		return
	}
	w.hooks.running++
	go func() {
		var err error
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("quern: a hook failed for the chunk %s/%d: panic: %v", h.chunk.Submission, h.chunk.Index, r)
			}
			w.hooks.ended <- err
		}()
		failure := h.err
		if failure == nil { // what the handler returned was refused
			failure = errors.New(h.reason)
		}
		err = w.hooks.failed(WithTraceContext(w.base, h.chunk.Trace), &h.chunk, failure)
	}()
}

// hookEnded takes the end of a hook.
func (w *worker) hookEnded(err error) {
	w.hooks.running--
	if err != nil {
		w.report(err)
	}
}
