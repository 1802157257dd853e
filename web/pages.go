package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"slices"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// This file cuts lists that are kept whole in memory into pages that are bounded in bytes.
// Lists that are read from somewhere, such as those of submissions, are cut where they are
// read: see access.Gather.

// Cursor says where a list goes on; exported like QueuePath.
type Cursor struct {
	Cursor string `query:"cursor" maxLength:"64" pattern:"^[0-9A-Za-z_.-]*$" doc:"Cursor from the previous page"`
}

// Paging is Cursor of lists that are asked for so many items; exported like QueuePath.
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

// behind is what a list has behind a cursor. An item that is still where it was is found by its place
// alone: then it does not matter when the clock that the places have their times from was set back.
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

// pageOf shows the items of a list until they have as many bytes as an answer may have, at least
// one. next is the cursor of what is left; the list itself goes on at more, "" if it does not.
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

// counter counts what is written to it.
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
