package web

// Submissions that completions bring, of a complete and of an exchange. Each is read and checked as in an insert of
// many. If one is wrong, the whole call is refused, as for an output that is too large, and the pointer says which
// it is.

import (
	"errors"
	"slices"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/wire"
)

// bringing are the completions of a call that bring something. The zero value is for a call in which none does.
type bringing struct {
	items []queue.CompleteItem
	done  func() // lets go of the memory that counts for it
}

// bring reads the submissions that completions bring, in the name of the caller. pointer leads to the list of
// completions.
func (x *consuming) bring(c echo.Context, pointer string, in []wire.CompleteItem,
	items []queue.CompleteItem) (b bringing, err error) {
	// Nearly all calls bring nothing, and must not pay for it: they end here, without a lock or an allocation.
	count := 0
	for i := range in {
		count += len(in[i].Insert)
	}
	if count == 0 {
		return b, nil
	}
	// The route asks for the scope consume. The submissions need produce as well, as in an insert of their own.
	if token := x.auth.tokenOf(c.Request()); token != nil && !token.Scopes.Allow(scopeProduce) {
		return b, missingScope(token, scopeProduce)
	}
	b.items = items
	// An insert call counts the memory of its submissions. Here they come in another call's body, and
	// take as much.
	if b.done, err = x.bodies.holdDecoded(c.Request(), int64(count)*insertionBytes); err != nil {
		return bringing{}, err
	}
	for i := range in {
		items[i].Insert = x.inserts.list(c, in[i].Insert, new(insertManyCall))
		for n := range items[i].Insert {
			if err := items[i].Insert[n].Err; err != nil {
				b.end()
				return bringing{}, belowItem(err, pointer, i, n)
			}
		}
	}
	return b, nil
}

// end lets go of all submissions. The memory of the items is kept for another call: a list of submissions that
// stayed in it would be inserted by the next caller that completes a chunk at that place.
func (b *bringing) end() {
	if b.done == nil {
		return
	}
	b.done()
	for i := range b.items {
		b.items[i].Insert = nil
	}
	*b = bringing{}
}

// answer adds the ids of the inserted submissions to the results.
func (b *bringing) answer(c echo.Context, results []wire.Result) {
	for i := range b.items {
		list := b.items[i].Insert
		for n := range list {
			switch err := narrowRefusal(c.Request().Context(), list[n].Err); {
			case results[i].Status == queue.OutcomeOK.String():
				results[i].Inserted = append(results[i].Inserted, uint64(list[n].Submission.ID))
			case err != list[n].Err: // the rule is about more than the token covers
				results[i].Detail = err.Error()
			}
		}
	}
}

// belowItem moves the pointers of an error about submission n of item i to its place in the request.
func belowItem(err error, pointer string, i, n int) error {
	pointer += "/" + strconv.Itoa(i) + "/insert/" + strconv.Itoa(n)
	var p *problem
	if !errors.As(err, &p) {
		return prefixed(err, pointer)
	}
	// A copy: the insertion keeps its own error, whose pointers begin at the submission.
	moved := *p
	moved.Errors = slices.Clone(p.Errors)
	for i := range moved.Errors {
		moved.Errors[i].Pointer = pointer + moved.Errors[i].Pointer
	}
	return &moved
}
