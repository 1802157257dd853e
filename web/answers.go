package web

// Answers that are not streams: how they are sent, and how their memory is counted.
//
//	handler ─► collected (Writer) ─► counted in access.Answer ─► all of it made? ─► client
//	                                      │ no room
//	                                      └► 429, and nothing of the answer was sent
//
// An answer is sent when all of it is made. So it can be refused until its last byte is made,
// compression sees all of it, and the engine's data is free while a slow client reads.

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// Answers over access.SmallAnswer count for the memory that they take, from when the engine
// gathers them until the client has taken them: a client that asks for much and reads nothing
// must not fill the memory of all. An answer for which there is no room is refused before its
// first byte.

// maxAnswers bounds the memory of all large answers together. Those of one access token
// may hold Limits.Answers.
const maxAnswers = 128 << 20

// answers writes answers that go out in one piece.
type answers struct {
	constant constant
	ids      requestIDs
	buffers  *buffers
	waits    *waits // which the server's stop ends
}

// collected is an answer that is sent when all of it is made. Then its sources are no longer in memory. It holds an
// answer back that may still be refused. Streams do not go through it.
type collected struct {
	http.ResponseWriter
	answer *access.Answer
	parts  int64 // bytes that count for its sources
	status int
	body   *buffer
	failed error // there was no room for it
}

// Unwrap is for http.ResponseController.
func (a *collected) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader keeps the status.
func (a *collected) WriteHeader(status int) { a.status = status }

// At the first byte, what the answer is made of is still in memory (parts), so both count together.
// The buffer counts by its capacity, as append grows it in steps.
func (a *collected) Write(b []byte) (int, error) {
	if len(a.body.b) == 0 {
		a.parts = a.answer.Holds()
	}
	if a.failed == nil {
		a.failed = a.answer.Hold(a.parts + max(int64(cap(a.body.b)), int64(len(a.body.b)+len(b))))
	}
	if a.failed != nil {
		return 0, a.failed
	}
	a.body.b = append(a.body.b, b...)
	return len(b), nil
}

// inTurn runs read when it is the turn of its token: lists of one token must not take
// the processor from the calls of others.
func inTurn(clock *clock, c echo.Context, read func() error) error {
	ctx := c.Request().Context()
	use, _ := access.Of(ctx).Share()
	if use == nil {
		return read()
	}
	leave, ok, err := use.Reads.Take(ctx, clock.elapsed)
	switch {
	case err != nil:
		return err
	case !ok:
		return tooMuch("More reads of this access token wait for their turn than may.", 0)
	}
	defer leave()
	return read()
}

// collect lets make answer into memory, and sends that answer unless still fails. It returns the error of make, of
// still, or that there was no room. still is asked last: while make read, the queue may have moved to another node,
// and the answer may be old.
func (a *answers) collect(c echo.Context, make, still func() error) error {
	response := c.Response()
	in := &collected{ResponseWriter: response.Writer, answer: access.Of(c.Request().Context()).Answer,
		body: a.buffers.take()}
	defer func() {
		response.Writer = in.ResponseWriter
		a.buffers.free(in.body)
		_ = in.answer.Hold(0) // less always fits
	}()
	response.Writer = in
	err := make()
	response.Writer = in.ResponseWriter
	if err == nil && in.failed == nil && still != nil {
		in.failed = still()
	}
	if in.failed != nil { // whatever make made of it
		header := response.Header()
		header.Del("Content-Encoding")
		header.Del("Content-Length")
		response.Committed, response.Status, response.Size = false, http.StatusOK, 0
		return in.failed
	}
	if in.status == 0 || err != nil && response.Committed {
		return err // nothing was answered, or half an answer
	}
	_ = in.answer.Hold(int64(cap(in.body.b)))
	in.ResponseWriter.WriteHeader(in.status)
	if len(in.body.b) == 0 {
		return err
	}
	if _, wrong := in.ResponseWriter.Write(in.body.b); wrong != nil {
		return newProblem(codeClientGone, "The client went away before the answer.")
	}
	return err
}

// Lists that are kept whole in memory are cut into pages that are bounded in bytes.
// Lists that are read from somewhere, such as those of submissions, are cut where they are
// read: see access.Gather.

// Cursor says where a list goes on; exported like QueuePath.
type Cursor struct {
	Cursor string `query:"cursor" maxLength:"64" pattern:"^[0-9A-Za-z_.-]*$" doc:"Cursor from the previous page"`
}

// Paging is a Cursor with the number of items to list; exported like QueuePath.
type Paging struct {
	Cursor string `query:"cursor" maxLength:"64" doc:"Cursor from the previous page"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Most items"`
}

// queuePage asks for a page of a list of a queue.
type queuePage struct {
	QueuePath
	Paging
}

// placing says where an item stands in its list. The places of a list ascend: the next
// page begins behind a place also when its item is gone.
type placing[T any] func(*T) string

// downwards is a number within a place, of a list that has the largest first.
func downwards(n uint64) string { return fmt.Sprintf("%020d", math.MaxUint64-n) }

// hashed is a text within a place: a strategy may be longer than a query.
func hashed(text string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // never fails
	return fmt.Sprintf("%016x", h.Sum64())
}

// arrange sorts a list by the places of its items: they must ascend, and those that are
// made of hashes do not by themselves.
func arrange[T any](list []T, at placing[T]) {
	slices.SortFunc(list, func(a, b T) int { return cmp.Compare(at(&a), at(&b)) })
}

// behind is the rest of a list behind a cursor. If the item at the cursor is still there, its place
// alone finds it. Places contain times, so this still works after the clock was set back.
func behind[T any](list []T, cursor string, at placing[T]) []T {
	if cursor == "" {
		return list
	}
	first := len(list)
	for i := range list {
		switch here := at(&list[i]); {
		case here == cursor:
			return list[i+1:]
		case here > cursor:
			first = min(first, i)
		}
	}
	return list[first:]
}

// pageOf shows the items of a list, at least one, until they have as many bytes as an answer may
// have. next is the cursor of the rest. The list itself goes on at more; "": it does not.
func pageOf[T, A any](list []T, more string, at placing[T], show func(*T) A) (items []A, next string, err error) {
	items = []A{}
	var encoded counter
	encoder := json.NewEncoder(&encoded)
	for i := range list {
		item := show(&list[i])
		if err := encoder.Encode(item); err != nil {
			return nil, "", fmt.Errorf("web: item of a page: %w", err)
		}
		if encoded > queue.MaxAnswerBytes && i > 0 {
			return items, at(&list[i-1]), nil
		}
		items = append(items, item)
	}
	return items, more, nil
}

// counter counts the bytes that are written to it.
type counter int

func (n *counter) Write(b []byte) (int, error) {
	*n += counter(len(b))
	return len(b), nil
}

// answeredList is the answer of a handler that shows a list which is kept whole, page by page.
func answeredList[T, A any](list []T, from Cursor, at placing[T], show func(*T) A) (*output[api.Page[A]], error) {
	items, next, err := pageOf(behind(list, from.Cursor, at), "", at, show)
	if err != nil {
		return nil, err
	}
	return &output[api.Page[A]]{api.Page[A]{Items: items, Next: next}}, nil
}

// answeredShort is the answer of a handler that shows all of a list whose items and their
// number are bounded, or fails.
func answeredShort[T, A any](list []T, err error, show func(*T) A) (*output[api.Page[A]], error) {
	return answeredPage(engine.Page[T]{Items: list}, err, show)
}
