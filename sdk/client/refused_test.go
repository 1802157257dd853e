package client

import (
	"fmt"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
)

// item finds the item that a refusal points at, by the lists that the request had. A pointer to anything else is about the call
// as a whole.
func TestRefusalsPointAtItems(t *testing.T) {
	t.Parallel()
	h := make([]*held, 7)
	for i := range h {
		h[i] = &held{failed: i == 1 || i == 2}
	}
	n := &call{outcomes: h[:4], extends: h[4:5], releases: h[5:]} // completed: 0 and 3; failed: 1 and 2
	for pointer, want := range map[string]struct {
		at    int
		field string
	}{
		"/complete/1/output": {3, "output"}, "/fail/0/retry_after_ms": {1, "retry_after_ms"}, "/fail/1": {2, "result"}, "/extend/0/token": {4, "token"},
		"/items/1/token": {6, "token"}, "/complete/2/output": {-1, ""}, "/complete/-1/output": {-1, ""}, "/complete/x": {-1, ""},
		"/reserve/strategy": {-1, ""}, "/complete": {-1, ""}, "": {-1, ""}, "/": {-1, ""},
	} {
		got, field := n.item(pointer)
		at := -1
		for i := range h {
			if got == h[i] {
				at = i
			}
		}
		if at != want.at || at >= 0 && field != want.field {
			t.Errorf("%q: got item %d and the field %q, want %d and %q", pointer, at, field, want.at, want.field)
		}
	}
}

// A failure that is refused as well is reported and given up, so that no item is sent for ever.
func TestRefusedFailureIsGivenUp(t *testing.T) {
	t.Parallel()
	var seen errorsSeen
	w := newWorker(t.Context(), &Client{}, WorkOptions{Concurrency: 1, OnError: seen.add}, nil, nil)
	h := &held{chunk: Chunk{Submission: "7", Index: 3}, output: make([]byte, 10), delay: -1}
	refusal := func(pointer string) *Error {
		return &Error{Problem: api.Problem{Status: 422, Code: api.CodeInvalid, Errors: []api.ProblemError{{Pointer: pointer, Detail: "has 10 bytes"}}}}
	}
	for tries, pointer := range []string{"/complete/0/output", "/fail/0/error"} {
		w.outcomes = nil
		w.called(&call{outcomes: []*held{h}, err: fmt.Errorf("wrapped: %w", refusal(pointer))})
		if again := len(w.outcomes); again != 1-tries || !h.failed || !h.fatal || h.output != nil || w.fatal != nil || w.draining {
			t.Errorf("refused %d times: %d results are sent again, the worker ends with %v; got %+v", tries+1, again, w.fatal, h)
		}
		if got := len(seen.all); got != tries+1 {
			t.Errorf("refused %d times: OnError heard %v", tries+1, &seen)
		}
	}
	if want := "the server refused the output: it has 10 bytes"; h.reason != want {
		t.Errorf("the failure says %q, want %q", h.reason, want)
	}
	w.called(&call{outcomes: []*held{h}, err: refusal("/reserve/strategy")})
	if CodeOf(w.fatal) != api.CodeInvalid {
		t.Errorf("a strategy that is refused: the worker ends with %v, want the refusal", w.fatal)
	}
}
