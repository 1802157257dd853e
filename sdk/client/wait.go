package client

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strconv"

	"github.com/quern-queue/quern/sdk/api"
)

// WaitMany goes through the submissions, of any queues, as they end: those that have ended already come first, and after the last one it
// ends. To wait for the first of them, leave the loop. Of more than 1,000 it waits for the first 1,000 that are open.
// An id that the server does not know comes as a submission with nothing but its id and with the error api.CodeUnknownSubmission, and the
// loop may go on; any other error is the last.
func (c *Client) WaitMany(ctx context.Context, ids []string) iter.Seq2[api.Submission, error] {
	return func(yield func(api.Submission, error) bool) {
		left := waitList(ids)
		for len(left) > 0 {
			found, err := waitOnce(ctx, c, left[:min(len(left), api.MaxWaitIDs)])
			if err != nil {
				yield(api.Submission{}, err)
				return
			}
			over := map[string]bool{}
			for i := range found.Ended {
				over[found.Ended[i].ID] = true
				if !yield(found.Ended[i], nil) {
					return
				}
			}
			for _, id := range found.Unknown {
				over[id] = true
				if !yield(api.Submission{ID: id}, unknownSubmission(id)) {
					return
				}
			}
			left = slices.DeleteFunc(left, func(id string) bool { return over[id] })
			if len(over) > 0 {
				continue
			}
			// A server that does not hold its answers must not be asked in a tight loop.
			if err := pause(ctx, c.random.upTo(backoffBase)); err != nil {
				yield(api.Submission{}, fmt.Errorf("quern: wait: %w", err))
				return
			}
		}
	}
}

// waitList is each id once, spelt as the server spells it. What is no id is left for the server to refuse.
func waitList(ids []string) []string {
	list, seen := make([]string, 0, len(ids)), make(map[string]bool, len(ids))
	for _, id := range ids {
		if n, err := strconv.ParseUint(id, 10, 63); err == nil {
			id = strconv.FormatUint(n, 10)
		}
		if !seen[id] {
			seen[id] = true
			list = append(list, id)
		}
	}
	return list
}

func waitOnce(ctx context.Context, c *Client, ids []string) (*api.WaitResponse, error) {
	q := &request{method: http.MethodPost, path: "/v1/submissions:wait", safe: true, wait: waitSlice}
	return send[api.WaitResponse](ctx, c, "wait", q, api.WaitRequest{IDs: ids, WaitMS: waitSlice.Milliseconds()})
}

// unknownSubmission is what a call for the submission alone is refused with.
func unknownSubmission(id string) error {
	return &Error{Problem: api.Problem{Title: "There is no such submission", Status: http.StatusNotFound, Code: api.CodeUnknownSubmission,
		Detail: "There is no submission " + id + ": it never existed, its retention is over, or it or its queue was deleted."}}
}
