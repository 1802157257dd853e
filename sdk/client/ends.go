package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/quern-queue/quern/sdk/api"
)

// Ends selects ends of submissions to follow.
type Ends struct {
	Queue    string
	States   []string
	Meta     api.Meta
	Schedule string // that inserted them
	// After is the place to begin after: the Place of an earlier End, "0" for all ends that the queue's retention has
	// kept, or "" for new ends.
	After string
}

// End is the end of a submission. Save its Place together with the work that follows from it, to continue there
// later.
type End struct {
	Place      string
	Submission api.Submission
	// If Gap is set, there is no Submission, and ends are missing before the next one: the queue's retention has
	// removed them, or the server was restored from an older backup.
	Gap *api.EndsGap
}

// Follow returns the ends as they come, in their order, until ctx ends. If the stream breaks or the server restarts,
// it reconnects and continues, and returns each end once. A submission that a redrive opened ends again. Follow ends
// after an error that a repetition does not fix: it cannot reach the server at the start, the server refuses the
// call, or the queue was deleted.
func (e Ends) Follow(ctx context.Context, c *Client) iter.Seq2[End, error] {
	return func(yield func(End, error) bool) {
		follow(ctx, c, "follow ends", e.path(), &follower{last: e.After})(yield)
	}
}

func (e Ends) path() string {
	query := given("state", strings.Join(e.States, ","), "schedule", e.Schedule)
	addMeta(query, e.Meta)
	return queried(queuePath(e.Queue, "/ends"), query)
}

// follower is how far a stream of ends has come.
type follower struct {
	last  string // the last id, or where the caller wants to begin
	begun bool   // the server has sent a place
}

func (f *follower) at() (id string, begun bool) { return f.last, f.begun }

// take returns the submission of an event, and says whether it is for the caller.
func (f *follower) take(got event) (end End, fresh bool, err error) {
	switch got.name {
	case api.EventProblem:
		return end, false, problemIn(got)
	case api.EventGap:
		end.Gap = new(api.EndsGap)
		err = json.Unmarshal([]byte(got.data), end.Gap)
	case api.EventEnd:
		end.Place = got.id
		err = json.Unmarshal([]byte(got.data), &end.Submission)
	case "":
	default:
		return end, false, nil // of a later version
	}
	if err != nil {
		return end, false, fmt.Errorf("%w: %s: %w", errUnreadable, got.id, err)
	}
	if got.id != "" {
		f.last, f.begun = got.id, true
	}
	return end, got.name != "", nil
}

// WaitMany returns the submissions, of any queues, as they end. Those that have ended already come first. After the
// last one the loop ends. To wait for the first end only, leave the loop. If there are more than 1,000, it waits for
// the first 1,000 that are open. For an id that the server does not know, it returns a submission with only its id
// and the error api.CodeUnknownSubmission, and continues. Any other error ends the loop.
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

// waitList is each id once, spelt as the server spells it. The server refuses texts that are no ids.
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

// unknownSubmission is the error of a call for a submission that does not exist.
func unknownSubmission(id string) error {
	return &Error{Problem: api.Problem{Title: "There is no such submission", Status: http.StatusNotFound, Code: api.CodeUnknownSubmission,
		Detail: "There is no submission " + id + ": it never existed, its retention is over, or it or its queue was deleted."}}
}
