package web

// Lists of a queue of several shards, page by page. Every shard has the list of its own work already, with pages and
// cursors of its own. This file merges their pages, so that a client sees one list:
//
//	shard 1:  9  6  5 │ next          joined:  9 8 6 5 │ next: shard 1 behind its page, shard 2 behind 8, which is
//	shard 2:  8  3  2 │ next          in the middle of its page: its page is read again, without what was given
//
// The joined page ends with the last item of a shard's page if that shard has more: its next item may come before those
// of the other shards. So a page may have fewer items than its limit, as the pages of one shard may.

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// listOrder says how the lists of shards are joined. An operation needs to say no more about its list: pages, cursors
// and missing shards are handled in the same way for every list.
type listOrder[T any] struct {
	// at is where an item stands. Places ascend within the list of each shard; several items may have one.
	at placing[T]
	// add joins items of one place, such as a consumer that is known in several shards. nil: they are different items.
	add func(sum, one *T)
	// head joins the fields beside the list; nil: there are none.
	head func(good []*shardPart) (any, error)
	// whole says that the list has no further pages: the first items of the shards, up to the limit, are all of it.
	whole bool
	// all says that the list has no limit: a page has as much as fits into an answer.
	all bool
}

// sharedCursor is where a joined list goes on. It contains the cursors of the shards, as only the shard that made a
// cursor can read it. A shard that was added after the first page has no entry: its list begins at the start, without
// the items before At.
type sharedCursor struct {
	At     string        `json:"a"` // the place of the last item that was given
	Shards []shardCursor `json:"s"`
}

// shardCursor is where the list of one shard goes on.
type shardCursor struct {
	Cursor string `json:"c,omitempty"` // of the page that was not given to its end
	// Given counts the items of this page that are at sharedCursor.At and were given. Places need not differ: many
	// chunks are reserved in the same millisecond.
	Given int  `json:"n,omitempty"`
	Ended bool `json:"e,omitempty"`
}

func (c *sharedCursor) String() string {
	text, _ := json.Marshal(c) // texts and numbers
	return base64.RawURLEncoding.EncodeToString(text)
}

// maxSharedCursor bounds what is read as a cursor: 16 shards, each with a cursor of its own and a name as the place.
const maxSharedCursor = 16 << 10

func parseSharedCursor(text string) (c sharedCursor, err error) {
	if text == "" {
		return c, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.DisallowUnknownFields()
		err = decoder.Decode(&c)
	}
	if err != nil || len(text) > maxSharedCursor || len(c.Shards) > queue.MaxQueueShards {
		return c, queue.Invalid("/query/cursor",
			"is not a cursor of this list; take it from `next` of the page before, unchanged")
	}
	return c, nil
}

// shardPage is a shard's page on its way into the joined one.
type shardPage[T any] struct {
	*shardPart
	from  shardCursor
	raw   []json.RawMessage
	items []T
	next  string
	used  int // items that were given, now or before
}

// read takes in the answer of a shard, and passes over items that were given before.
func (p *shardPage[T]) read(at placing[T], last string) error {
	var page struct {
		Items []json.RawMessage
		Next  string
	}
	if err := p.decode(&page); err != nil {
		return err
	}
	if p.from.Ended {
		return nil // its list was given before
	}
	p.raw, p.next, p.items = page.Items, page.Next, make([]T, len(page.Items))
	for i := range p.raw {
		if err := json.Unmarshal(p.raw[i], &p.items[i]); err != nil {
			return err
		}
	}
	for given := p.from.Given; p.used < len(p.items); p.used++ {
		if here := at(&p.items[p.used]); here > last || here == last && given == 0 {
			break
		} else if here == last {
			given--
		}
	}
	return nil
}

// rest is where the list of the shard goes on behind the items that were given. In the middle of a page it is the same
// page once more. So no list has to give a cursor for each item: for outputs, that would take more than the item shows.
func (p *shardPage[T]) rest(at placing[T], last string) shardCursor {
	switch {
	case p.used < len(p.items):
		c := shardCursor{Cursor: p.from.Cursor}
		for i := range p.items[:p.used] {
			if at(&p.items[i]) == last {
				c.Given++
			}
		}
		return c
	case p.next == "":
		return shardCursor{Ended: true}
	}
	return shardCursor{Cursor: p.next}
}

// joinedList is a list of all shards, page by page. order may depend on the query.
// Items go out as the shards wrote them, so that fields that only newer nodes know are not lost.
func joinedList[T any](order func(url.Values) listOrder[T]) joining {
	return func(x *shardCall) error {
		query := x.c.QueryParams()
		by := order(query)
		from, err := parseSharedCursor(query.Get("cursor"))
		if err != nil {
			return err
		}
		pages, parts := askedPages(x, &from, &by)
		if len(parts) == 0 {
			return x.c.JSON(http.StatusOK, api.Page[T]{Items: []T{}})
		}
		if err := x.ask(parts); err != nil {
			return err
		}
		good, missing, refused := found(parts)
		if refused != nil {
			return refused
		}
		for _, p := range pages {
			if p.good() {
				if err := p.read(by.at, from.At); err != nil {
					return err
				}
			}
		}
		items, last, err := mergePages(pages, &by, limitOf(query), from.At)
		if err != nil {
			return err
		}
		out := struct {
			Items   []json.RawMessage  `json:"items"`
			Next    string             `json:"next,omitempty"`
			Missing []api.MissingShard `json:"missing_shards,omitempty"`
		}{items, "", missing}
		if !by.whole {
			out.Next = x.nextOf(from, behindPages(pages, by.at, last), last)
		}
		x.lacks(missing)
		if by.head == nil {
			return x.c.JSON(http.StatusOK, &out)
		}
		head, err := by.head(good)
		if err != nil {
			return err
		}
		return x.together(head, &out)
	}
}

// together answers with the fields of two objects. A struct that embeds both would need a type for each list.
func (x *shardCall) together(a, b any) error {
	first, err := json.Marshal(a)
	if err != nil {
		return err
	}
	second, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return x.c.JSONBlob(http.StatusOK, append(append(first[:len(first)-1], ','), second[1:]...))
}

// askedPages are the parts of the shards whose list is not at its end. If the answer has fields beside the list (head),
// every page asks all shards.
func askedPages[T any](x *shardCall, from *sharedCursor, by *listOrder[T]) (pages []*shardPage[T], parts []*shardPart) {
	for _, p := range x.askable() {
		page := &shardPage[T]{shardPart: p}
		if len(from.Shards) >= p.number {
			page.from = from.Shards[p.number-1]
		}
		if page.from.Ended && by.head == nil {
			continue
		}
		if p.query.Del("cursor"); page.from.Cursor != "" {
			p.query.Set("cursor", page.from.Cursor)
		}
		pages, parts = append(pages, page), append(parts, p)
	}
	return pages, parts
}

// limitOf is how many items a page is to have at most. The shards refuse an invalid limit. Each shard is asked for as
// many items as the whole page may have, because they may all be in one shard.
func limitOf(query url.Values) int {
	if n, err := strconv.Atoi(query.Get("limit")); err == nil && n > 0 {
		return n
	}
	return defaultListLimit
}

// mergePages takes items from the pages in their order. last is the place of the last one.
// Of items at one place, those of the first shard come first. There are 16 shards at most, so the first of their heads
// is looked for one by one.
func mergePages[T any](pages []*shardPage[T], by *listOrder[T], limit int,
	last string) ([]json.RawMessage, string, error) {
	items, bytes := []json.RawMessage{}, 0
	for by.all || len(items) < limit {
		first := -1
		for i, p := range pages {
			switch {
			case !p.good():
			case p.used == len(p.items) && p.next != "":
				return items, last, nil // what it has next may come before all others
			case p.used == len(p.items):
			case first < 0 || by.at(&p.items[p.used]) < by.at(&pages[first].items[pages[first].used]):
				first = i
			}
		}
		if first < 0 {
			return items, last, nil
		}
		p := pages[first]
		item, here := p.raw[p.used], by.at(&p.items[p.used])
		if bytes += len(item); bytes > queue.MaxAnswerBytes && len(items) > 0 {
			return items, last, nil
		}
		p.used++
		if by.add != nil {
			sum := p.items[p.used-1]
			for _, other := range pages[first+1:] {
				if other.good() && other.used < len(other.items) && by.at(&other.items[other.used]) == here {
					by.add(&sum, &other.items[other.used])
					other.used++
				}
			}
			text, err := json.Marshal(&sum)
			if err != nil {
				return nil, "", err
			}
			item = text
		}
		items, last = append(items, item), here
	}
	return items, last, nil
}

// behindPages says where the lists of the shards go on; nil: all of those that answered are at their end.
func behindPages[T any](pages []*shardPage[T], at placing[T], last string) map[int]shardCursor {
	rest, more := map[int]shardCursor{}, false
	for _, p := range pages {
		if p.good() {
			rest[p.number] = p.rest(at, last)
			more = more || !rest[p.number].Ended
		} else {
			rest[p.number] = p.from // it may be back for the next page
		}
	}
	if !more {
		return nil
	}
	return rest
}

// nextOf is the cursor of the next page; "": there is none. A shard that the list was not about is at its end.
func (x *shardCall) nextOf(from sharedCursor, rest map[int]shardCursor, last string) string {
	if rest == nil {
		return ""
	}
	next := sharedCursor{At: last, Shards: make([]shardCursor, x.count)}
	for i := range next.Shards {
		if c, asked := rest[i+1]; asked {
			next.Shards[i] = c
		} else {
			next.Shards[i].Ended = true
		}
	}
	return next.String()
}

// The orders of the lists. Each is the order that the list of one shard has.

// newestChunks is the order of lists of chunks: the newest submission first, and within one by index.
func newestChunks[T any](of func(*T) (submission string, index uint32)) joining {
	return joinedList(func(url.Values) listOrder[T] {
		return listOrder[T]{at: func(one *T) string {
			submission, index := of(one)
			return newestFirst(submission) + "." + decimals(uint64(index))
		}}
	})
}

// newestFirst is the place of a submission in a list that has the newest first: ids grow with time over all shards.
func newestFirst(id string) string {
	n, _ := queue.ParseSubmissionID(id)
	return downwards(uint64(n))
}

// decimals is a number within a place, of a list that has the smallest first.
func decimals(n uint64) string { return fmt.Sprintf("%020d", n) }

// upTo is a time within a place, of a list that has the earliest first; none comes last.
func upTo(t api.Time) string {
	if t.IsZero() {
		return "~"
	}
	return decimals(uint64(t.UnixMilli()))
}

// submissionsOverShards is the list of submissions: the newest first, or those with most chunks left.
func submissionsOverShards(query url.Values) listOrder[api.Submission] {
	newest := func(s *api.Submission) string { return newestFirst(s.ID) }
	if query.Get("sort") != "largest" {
		return listOrder[api.Submission]{at: newest}
	}
	return listOrder[api.Submission]{whole: true, at: func(s *api.Submission) string {
		left := uint64(s.Ready) + uint64(s.Paused) + uint64(s.Blocked) + uint64(s.Waiting) + uint64(s.Reserved)
		return downwards(left) + "." + newest(s)
	}}
}

// heldOverShards is the list of reservations.
func heldOverShards(query url.Values) listOrder[api.HeldReservation] {
	if query.Get("sort") == "deadline" {
		return listOrder[api.HeldReservation]{at: func(h *api.HeldReservation) string { return upTo(h.Deadline) }}
	}
	return listOrder[api.HeldReservation]{at: func(h *api.HeldReservation) string { return upTo(h.Since) }}
}

func retryPlace(r *api.Retry) (string, uint32)             { return r.Submission, r.Index }
func letterPlace(d *api.DeadLetter) (string, uint32)       { return d.Submission, d.Index }
func outputPlace(o *api.SubmissionOutput) (string, uint32) { return o.Submission, o.Index }
