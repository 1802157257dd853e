package engine

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/inspect"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/submissions"
	"github.com/quern-queue/quern/sdk/api"
)

// Page is a part of a list. Next is the cursor of the following part, "" at the end.
type Page[T any] struct {
	Items []T
	Next  string
}

// OutputsFrom is where a page of outputs begins.
type OutputsFrom = submissions.OutputsFrom

// ErrPageFull ends a page: the next one begins with the output that was not taken.
var ErrPageFull = submissions.ErrPageFull

// Submission tells what is known about a submission of any queue, open or ended.
func (e *Engine) Submission(ctx context.Context, id queue.SubmissionID) (queue.Submission, error) {
	q, err := e.QueueOf(id)
	if err != nil {
		return queue.Submission{}, err
	}
	return q.Submissions.Get(ctx, id)
}

// Trace is the trace context that a submission carries, or "": it carries none, or is not in memory any more.
func (p Submissions) Trace(id queue.SubmissionID) string {
	return p.q.shard.Submissions.Trace(id)
}

// Cancel ends a submission. Consumers lose the chunks of it that they hold. Cancelling twice is cancelling once.
func (p Submissions) Cancel(ctx context.Context, id queue.SubmissionID) (queue.Submission, error) {
	return p.q.shard.Submissions.Cancel(ctx, id, p.q.act(ctx, "", "submission.cancel", "submission "+id.String()))
}

// CancelChunk gives up a chunk, which counts as skipped: its holder loses it. One that is done, dead or skipped, or of a
// submission that has ended, stays as it is. It returns the chunk as it is then.
func (p Submissions) CancelChunk(ctx context.Context, id queue.ChunkID) (queue.Chunk, error) {
	return p.q.shard.Submissions.CancelChunk(ctx, id.Submission, id.Index,
		p.q.act(ctx, "", "chunk.cancel", fmt.Sprintf("submission %s chunk %d", id.Submission, id.Index)))
}

// Delete removes an ended submission with its contents, outputs, attempts and dead letters. With cancel, it first ends an open one;
// without, an open one is CodeConflict.
func (p Submissions) Delete(ctx context.Context, id queue.SubmissionID, cancel bool) error {
	return p.q.shard.Deletions.Delete(ctx, id, cancel, p.q.act(ctx, "", "submission.delete", "submission "+id.String()))
}

// SetPriority changes the priority (-queue.MaxPriority to queue.MaxPriority) of an open submission: strategies of order
// CustomPriority take it at its new place from the next reservation on. allow is asked with the priority that it replaces, in the same
// hold of the lock; nil: always.
func (p Submissions) SetPriority(ctx context.Context, id queue.SubmissionID, priority int64,
	allow func(now int64) error) (queue.Submission, error) {
	if err := validPriority(priority); err != nil {
		return queue.Submission{}, err
	}
	return p.q.shard.Submissions.SetPriority(ctx, id, priority, allow,
		p.q.act(ctx, "", "submission.change", "submission "+id.String()))
}

// ListRequest says which submissions of a queue to list. Empty States are all; every entry of Meta has to match.
type ListRequest struct {
	States   []queue.SubmissionState
	Meta     queue.Meta
	Schedule string // only submissions that this schedule inserted; "": any caller

	CreatedBefore queue.Time // 0: at any time
	CreatedAfter  queue.Time // at this time or later

	Largest bool // those with most chunks left first: open ones, one page

	Cursor string // Next of the page before; "" for the newest
	Limit  int    // 1 to queue.MaxListLimit; 0: 100
}

func (r *ListRequest) filter() machine.Filter {
	return machine.Filter{
		States: r.States, Meta: r.Meta, Schedule: r.Schedule, Before: firstID(r.CreatedBefore), From: firstID(r.CreatedAfter),
	}
}

// firstID is the smallest id that is drawn at a time; 0 for none. Ids grow with time.
func firstID(at queue.Time) queue.SubmissionID {
	if at == 0 {
		return 0
	}
	const last = queue.Time(math.MaxInt64 >> 22) // the last millisecond that an id has room for
	return queue.MakeSubmissionID(min(max(at, 1), last), 0, 0)
}

// defaultLimit is the length of a page that names none.
const defaultLimit = 100

// List returns a queue's submissions, newest first. A page may be short, or empty, before the end: go on while Next is not empty.
func (p Submissions) List(ctx context.Context, r ListRequest) (page Page[queue.Submission], err error) {
	limit, err := validLimit(r.Limit)
	if err != nil {
		return page, err
	}
	before, err := readCursor("s", r.Cursor)
	if err != nil {
		return page, err
	}
	filter := r.filter()
	if r.Largest {
		if r.Cursor != "" || slices.ContainsFunc(r.States, func(s queue.SubmissionState) bool { return s != queue.Open }) {
			return page, queue.Invalid("/query/sort", "largest lists open submissions, and has one page: ask for a limit of up to %d, "+
				"without a cursor and without other states", queue.MaxListLimit)
		}
		page.Items, err = p.q.shard.Submissions.Largest(ctx, filter, limit)
		return page, err
	}
	items, next, err := p.q.shard.Submissions.List(ctx, filter, queue.SubmissionID(before), limit)
	if page.Items = items; next != 0 {
		page.Next = cursor("s", uint64(next))
	}
	return page, err
}

// Failing groups the chunks that failed and wait for their next try by the kind of their last error.
func (p Submissions) Failing(ctx context.Context, meta queue.Meta) (api.RetryGroups, error) {
	return p.q.shard.Submissions.Failing(ctx, machine.Filter{Meta: meta})
}

// RetryRequest says which chunks that failed and wait for their next try to list.
type RetryRequest struct {
	Meta        queue.Meta
	Fingerprint string // of the last error; "": any
	Cursor      string // Next of the page before; "" for the first
	Limit       int    // 1 to queue.MaxListLimit; 0: 100
}

// Retries lists the chunks that failed and wait for their next try: those of the newest submission first, and of one submission by
// index. A page may be short, or empty, before the end: go on while Next is not empty.
func (p Submissions) Retries(ctx context.Context, r RetryRequest) (page Page[api.Retry], err error) {
	limit, err := validLimit(r.Limit)
	if err != nil {
		return page, err
	}
	from, err := readCursorOf("t", r.Cursor, 63, 32)
	if err != nil {
		return page, err
	}
	var next queue.ChunkID
	page.Items, next, err = p.q.shard.Submissions.Retries(ctx, machine.Filter{Meta: r.Meta}, r.Fingerprint,
		queue.ChunkID{Submission: queue.SubmissionID(from[0]), Index: uint32(from[1])}, limit)
	if next.Submission != 0 {
		page.Next = cursor("t", uint64(next.Submission), uint64(next.Index))
	}
	return page, err
}

// ManyOutputs lists the outputs of the submissions that match a request: those of the newest submission first, and of one by
// index. A page may be short, or empty, before the end: go on while Next is not empty.
func (p Submissions) ManyOutputs(ctx context.Context, r ListRequest) (page Page[api.SubmissionOutput], err error) {
	limit, err := validLimit(r.Limit)
	if err != nil {
		return page, err
	}
	n, err := readCursorOf("o", r.Cursor, 63, 32, 32, 32, 32, 32)
	if err != nil {
		return page, err
	}
	from := submissions.OutputsFrom{Before: queue.SubmissionID(n[0]), Index: uint32(n[1]),
		Found:   machine.OutputCount{Chunks: uint32(n[2]), Sum: uint32(n[3])},
		Counted: machine.OutputCount{Chunks: uint32(n[4]), Sum: uint32(n[5])}}
	list, next, err := p.q.shard.Submissions.ManyOutputs(ctx, r.filter(), from, limit)
	if page.Items = list; next != nil {
		page.Next = cursor("o", uint64(next.Before), uint64(next.Index), uint64(next.Found.Chunks), uint64(next.Found.Sum),
			uint64(next.Counted.Chunks), uint64(next.Counted.Sum))
	}
	return page, err
}

// Chunks returns a submission's chunks by index. With a sparse state a page may be short before the end: go on while Next
// is not empty.
func (p Submissions) Chunks(ctx context.Context, id queue.SubmissionID, states []queue.ChunkState, from string,
	limit int) (page Page[queue.Chunk], err error) {
	if limit, err = validLimit(limit); err != nil {
		return page, err
	}
	first, err := readCursor("c", from)
	if err != nil {
		return page, err
	}
	sub, err := p.q.shard.Submissions.Get(ctx, id)
	if err != nil {
		return page, err
	}
	if first >= uint64(sub.Chunks) {
		return page, nil
	}
	list, next, err := p.q.shard.Submissions.Chunks(ctx, id, states, uint32(first), limit)
	page.Items = list
	if err == nil && next < sub.Chunks {
		page.Next = cursor("c", uint64(next))
	}
	return page, err
}

func validLimit(limit int) (int, error) {
	switch {
	case limit == 0:
		return defaultLimit, nil
	case limit < 0 || limit > queue.MaxListLimit:
		return 0, queue.Invalid("/query/limit", "is %d; 1 to %d are allowed", limit, queue.MaxListLimit)
	}
	return limit, nil
}

// Cursors are opaque to clients: a letter for the list, and numbers in base 36 with points between.
func cursor(list string, numbers ...uint64) string {
	parts := make([]string, len(numbers))
	for i, n := range numbers {
		parts[i] = strconv.FormatUint(n, 36)
	}
	return list + strings.Join(parts, ".")
}

// readCursor reads a cursor of one number. Where there is none it is 0.
func readCursor(list, text string) (uint64, error) {
	numbers, err := readCursorOf(list, text, 63)
	return numbers[0], err
}

// readCursorOf reads a cursor of numbers that have this many bits.
func readCursorOf(list, text string, bits ...int) (numbers []uint64, err error) {
	numbers = make([]uint64, len(bits))
	if text == "" {
		return numbers, nil
	}
	rest, ours := strings.CutPrefix(text, list)
	parts := strings.Split(rest, ".")
	if !ours || len(parts) != len(bits) {
		return numbers, badCursor()
	}
	for i, part := range parts {
		if numbers[i], err = strconv.ParseUint(part, 36, bits[i]); err != nil {
			return make([]uint64, len(bits)), badCursor()
		}
	}
	return numbers, nil
}

// pageByName is the page of a list by name that begins behind `after`: at most limit items, and no more once they have
// this many bytes. Its Next is the `after` of the following page.
func pageByName[T any](list []T, after string, limit, most int,
	of func(*T) (name string, bytes int)) (page Page[T], err error) {
	if limit, err = validLimit(limit); err != nil {
		return page, err
	}
	if after != "" && !strategyName(after) {
		return page, badCursor()
	}
	taken := 0
	for i := range list {
		name, bytes := of(&list[i])
		if name <= after {
			continue
		}
		if len(page.Items) == limit || taken >= most {
			page.Next, _ = of(&page.Items[len(page.Items)-1])
			break
		}
		page.Items = append(page.Items, list[i])
		taken += bytes
	}
	return page, nil
}

func badCursor() error {
	return queue.Invalid("/query/cursor", "is not a cursor of this list; take it from `next` of the page before, unchanged")
}

// MaxCells is the most cells of a map, MaxMapped the most chunks that it looks at.
const (
	MaxCells  = api.MaxCells
	MaxMapped = inspect.MaxMapped
)

// Map says where the chunks of a submission from index `from` up to `to` (not included; 0: the end) stand, in at most `cells` (1 to
// MaxCells; 0: 500) cells of one size. It looks at MaxMapped chunks at most: if there are more, at one in every few.
func (p Submissions) Map(ctx context.Context, id queue.SubmissionID, from, to uint32, cells int) (m api.ChunkMap, err error) {
	cells = cmp.Or(cells, 500)
	if cells < 1 || cells > MaxCells {
		return m, queue.Invalid("/query/cells", "is %d; 1 to %d are allowed", cells, MaxCells)
	}
	sub, err := p.q.shard.Submissions.Get(ctx, id)
	if err != nil {
		return m, err
	}
	if from >= sub.Chunks {
		return m, queue.Invalid("/query/from", "is %d; the last chunk of the submission is %d", from, sub.Chunks-1)
	}
	if to == 0 || to > sub.Chunks {
		to = sub.Chunks
	}
	if to <= from {
		return m, queue.Invalid("/query/to", "is %d; it has to be more than from, which is %d", to, from)
	}
	m, err = p.q.shard.Inspect.Map(ctx, id, from, to, (to-from-1)/uint32(cells)+1)
	m.Chunks = sub.Chunks
	switch { // a rule covers a submission as a whole
	case sub.Blocked > 0:
		m.Ruling = queue.BlockedByRule.String()
	case sub.Paused > 0:
		m.Ruling = queue.PausedByRule.String()
	}
	return m, err
}

// Attempts are the ended tries of a chunk that are remembered, oldest first; none once it is done.
func (p Submissions) Attempts(ctx context.Context, id queue.SubmissionID, index uint32) ([]queue.Attempt, error) {
	return p.q.shard.Inspect.Attempts(ctx, id, index)
}
