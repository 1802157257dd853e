package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	"github.com/quern-queue/quern/sdk/api"
)

// Ends says which ends of submissions to follow.
type Ends struct {
	Queue    string
	States   []string
	Meta     api.Meta
	Schedule string // that inserted them
	// After is where to begin: behind the Place of an End that is known, "0" for all that the queue's retention has kept, and "" for
	// what ends from now on.
	After string
}

// End is that a submission ended. Keep its Place where the work that it leads to is kept, to go on there.
type End struct {
	Place      string
	Submission api.Submission
	// Gap says, in the place of a submission, that ends are missing before the next one: the queue's retention has removed them, or the
	// server was restored from an older backup.
	Gap *api.EndsGap
}

// Follow goes through the ends as they come, in their order, until ctx ends. When the stream is cut, or the server restarts, it tries
// until it can go on where it was: no end is missed, and none comes twice. A submission that a redrive opened again ends again. It ends
// after the first error, which is one that trying again does not fix: the server cannot be reached at the start, or refuses, or the
// queue was deleted.
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
	begun bool   // the server has told a place
}

func (f *follower) at() (id string, begun bool) { return f.last, f.begun }

// take says what an event tells, and whether that is for the caller.
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
