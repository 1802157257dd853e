package client

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/quern-queue/quern/sdk/api"
)

// refused takes a refusal that is about items of a call, or about its size, and has the rest of the call made again. It reports whether it
// was one: any other is about all calls of the worker.
func (w *worker) refused(n *call) bool {
	var refused *Error
	if !errors.As(n.err, &refused) {
		return false
	}
	if refused.Status == http.StatusRequestEntityTooLarge && len(n.outcomes) > 0 {
		w.shrink(n, refused)
		return true
	}
	return w.settleNamed(n, refused)
}

// shrink answers a refusal for size: with smaller calls, and in the end by failing the one chunk whose output is too large. A server takes
// more than the largest output. So a proxy before it has refused the call, or the output is larger by far.
func (w *worker) shrink(n *call, refused *Error) {
	w.releases = append(n.releases, w.releases...)
	if len(n.outcomes) > 1 {
		w.budget = max(w.budget/2, 1)
		w.outcomes = append(n.outcomes, w.outcomes...)
		return
	}
	h := n.outcomes[0]
	if h.failed {
		w.undelivered++
		w.report(refused)
		return
	}
	reason := fmt.Sprintf("the output of %d bytes is more than the server takes (1 MiB at most): put it into object storage "+
		"and return its key", len(h.output))
	if len(h.chunk.then) > 0 {
		reason = "the server refused the output and the submissions that follow: " + cmp.Or(refused.Detail, "they are too large")
	}
	w.refuse(h, refused, reason)
	w.outcomes = append(n.outcomes, w.outcomes...)
}

// settleNamed settles the items of a call that a refusal names, and sends the others again, so that one bad chunk costs no other its
// result. It reports whether the refusal points at an item.
func (w *worker) settleNamed(n *call, refused *Error) bool {
	bad := n.pointedAt(refused)
	if len(bad) == 0 {
		return false
	}
	again := make([]*held, 0, len(n.outcomes)+len(w.outcomes))
	for _, h := range n.outcomes {
		problem, is := bad[h]
		switch {
		case !is:
			again = append(again, h)
		case h.refused || problem.field == "token":
			w.reportResult(h, problem.result(refused)) // a failure would be refused, too
		default:
			w.refuse(h, refused, "the server refused the "+problem.field+": it "+problem.detail)
			again = append(again, h)
		}
	}
	w.outcomes = append(again, w.outcomes...)
	for _, h := range n.releases {
		if _, is := bad[h]; !is {
			w.releases = append(w.releases, h)
		}
	}
	var lost []*held
	for _, h := range n.extends {
		_, still := w.held[h]
		problem, is := bad[h]
		switch {
		case !still:
		case !is:
			w.extend(h)
		case problem.field == "token":
			h.result, lost = problem.result(refused), append(lost, h)
		default:
			w.reportResult(h, problem.result(refused)) // the next tick asks again
		}
	}
	w.lose(lost)
	return true
}

// refuse turns a chunk's result into a failure for good, which says why the server did not take the result.
func (w *worker) refuse(h *held, refused *Error, reason string) {
	if h.failed {
		reason += "; the handler's error was: " + h.reason
	}
	h.output, h.failed, h.fatal, h.delay, h.refused = nil, true, true, -1, true
	h.reason = clip(reason, maxErrorBytes)
	w.reportResult(h, api.Result{Status: api.StatusInvalid, Code: refused.Code, Detail: reason})
}

// itemProblem is a fault of one item of a call.
type itemProblem struct{ field, detail string }

func (p itemProblem) result(refused *Error) api.Result {
	return api.Result{Status: api.StatusInvalid, Code: refused.Code, Detail: "the " + p.field + " " + p.detail}
}

// pointedAt has the items of a call that a refusal points at: none when it is about the call as a whole.
func (n *call) pointedAt(refused *Error) map[*held]itemProblem {
	found := map[*held]itemProblem{}
	for _, problem := range refused.Errors {
		if h, field := n.item(problem.Pointer); h != nil {
			found[h] = itemProblem{field, problem.Detail}
		}
	}
	return found
}

// item is the item that a pointer such as /complete/3/output leads to, and the field of it.
func (n *call) item(pointer string) (h *held, field string) {
	parts := strings.SplitN(strings.TrimPrefix(pointer, "/"), "/", 3)
	if len(parts) < 2 {
		return nil, ""
	}
	at, err := strconv.Atoi(parts[1])
	if err != nil {
		return nil, ""
	}
	list := map[string][]*held{"complete": n.reported(false), "fail": n.reported(true), "extend": n.extends, "items": n.releases}[parts[0]]
	if at < 0 || at >= len(list) {
		return nil, ""
	}
	if field = "result"; len(parts) == 3 {
		field = parts[2]
	}
	return list[at], field
}

// reported are the outcomes that a call reports as completions or as failures, in their order in the request.
func (n *call) reported(failed bool) (list []*held) {
	for _, h := range n.outcomes {
		if h.failed == failed {
			list = append(list, h)
		}
	}
	return list
}
