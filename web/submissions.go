package web

import (
	"context"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

const (
	listAbout = "Newest first. Filters are `state=STATE` (repeated or comma-separated for several) and " +
		"`meta.KEY=VALUE` (repeated for several keys, all of which must match): " +
		"a whole number is the integer, `s:` before a value makes it a string (`meta.company=123` is the integer, " +
		"`meta.company=s:123` the text). " +
		"`created_before=TIME` and `created_after=TIME` bound when they were inserted: before that time, and at that time or later. " +
		"`schedule=NAME` lists what that schedule inserted, also when it is deleted since. " +
		"`next` is the cursor of the next page and absent on the last."

	defaultListLimit = 100
)

// submissions are the handlers of submissions and their chunks, but for inserts.
type submissions struct{ *Server }

// routes are the part of the table about submissions.
func (x submissions) routes(d *document) {
	s := x.Server
	s.raw(d, operation{id: "insert", brings: true, hot: true, method: "POST", path: "/v1/queues/{queue}/submissions",
		scope: scopeProduce, narrow: inQueue | inHandler, tag: tagSubmissions,
		summary: "Insert a submission", about: insertAbout}, insertShape, x.insert)
	s.raw(d, operation{id: "insert-batch", brings: true, hot: true, method: "POST", path: "/v1/queues/{queue}/submissions:batch",
		scope: scopeProduce, narrow: inQueue | inHandler, tag: tagSubmissions,
		summary: "Insert many submissions in one commit", about: insertManyAbout}, insertManyShape,
		insertingMany{s}.handle)
	registerIn(d, operation{id: "list-submissions", method: "GET", path: "/v1/queues/{queue}/submissions",
		scope: scopeRead, narrow: inQueue | inHandler, tag: tagSubmissions, compress: true, freeform: true,
		summary: "List submissions, newest first", about: listAbout, params: listParams()}, x.list)
	registerIn(d, operation{id: "get-submission", method: "GET", path: "/v1/submissions/{id}", scope: scopeRead,
		narrow: inSub, tag: tagSubmissions, waits: true,
		summary: "Read a submission", about: "With `Prefer: wait=N` (seconds, at most 60) the answer comes when the " +
			"submission leaves the state open, or after N seconds."}, x.get)
	s.raw(d, operation{id: "wait-submissions", method: "POST", path: "/v1/submissions:wait", scope: scopeRead,
		narrow: inHandler, tag: tagSubmissions, compress: true,
		summary: "Wait until one of many submissions ends, or all", about: waitAbout}, waitShape, waiting{s}.many)
	registerIn(d, operation{id: "change-submission", act: act{"submission.change", "submission {id}"},
		method: "PATCH", path: "/v1/submissions/{id}", scope: scopeOperate,
		narrow: inSub, tag: tagSubmissions,
		summary: "Change the priority of an open submission", about: "CustomPriority sees it at its new place from " +
			"the next reservation on. A submission that has ended answers 409. The priority that it has already is " +
			"no mistake."}, x.change)
	registerIn(d, operation{id: "cancel-submission", act: act{"submission.cancel", "submission {id}"},
		method: "POST", path: "/v1/submissions/{id}/cancel",
		scope: scopeOperate, narrow: inSub, tag: tagSubmissions,
		summary: "Cancel a submission", about: "Chunks that are not done are skipped; reservations of it are gone. " +
			"Cancelling what has ended changes nothing and answers with it as it stands."}, x.cancel)
	registerIn(d, operation{id: "list-chunks", method: "GET", path: "/v1/submissions/{id}/chunks", scope: scopeRead,
		narrow: inSub, tag: tagSubmissions, compress: true, freeform: true,
		summary: "List a submission's chunks by index", params: chunkParams()}, x.chunks)
	registerIn(d, operation{id: "get-chunk", method: "GET", path: "/v1/submissions/{id}/chunks/{index}", scope: scopeRead,
		narrow: inSub, tag: tagSubmissions,
		summary: "Read one chunk"}, x.chunk)
	s.raw(d, operation{id: "list-outputs", method: "GET", path: "/v1/submissions/{id}/outputs", scope: scopeRead,
		narrow: inSub, tag: tagSubmissions, compress: true,
		summary: "Stream a submission's outputs in index order", about: "One JSON line per chunk that has an output. " +
			"An answer that is cut off is not whole: the end of the body is the only sign of the last line."}, outputsShape, x.outputs)
	registerIn(d, operation{id: "get-chunk-map", method: "GET", path: "/v1/submissions/{id}/map", scope: scopeRead,
		narrow: inSub, tag: tagSubmissions, compress: true,
		summary: "Count a submission's chunks by state, stretch by stretch", about: mapAbout}, x.chunkMap)
	registerIn(d, operation{id: "list-chunk-attempts", method: "GET",
		path: "/v1/submissions/{id}/chunks/{index}/attempts", scope: scopeRead, narrow: inSub, tag: tagSubmissions,
		summary: "List the ended tries of a chunk", about: attemptsAbout}, x.attempts)
}

type submissionOutput struct {
	Applied    string `header:"Preference-Applied" doc:"The wait that was applied, when one was asked for"`
	Durability string `header:"Quern-Durability" doc:"relaxed: answered before the disk had it"`
	Body       api.Submission
}

type getSubmissionInput struct {
	SubmissionPath
	Prefer string `header:"Prefer" doc:"wait=N: answer when the submission ends, or after N seconds (at most 60)" example:"wait=30"`
}

func (x submissions) get(ctx context.Context, q *engine.Queue, in *getSubmissionInput) (*submissionOutput, error) {
	wait, err := preferredWait(in.Prefer)
	if err != nil {
		return nil, err
	}
	applied := ""
	if wait > 0 {
		applied = "wait=" + strconv.Itoa(int(wait/time.Second))
		ctx, err = waiting{x.Server}.ends(ctx, []queue.SubmissionID{in.id}, wait, false)
		if err != nil {
			return nil, err
		}
	}
	found, err := q.Submissions.Get(ctx, in.id)
	if err != nil {
		return nil, err
	}
	return &submissionOutput{Body: apiSubmission(&found), Applied: applied}, nil
}

// preferredWait finds wait=N among the preferences of RFC 7240. More than the longest wait is granted as the longest.
func preferredWait(header string) (time.Duration, error) {
	for preference := range strings.SplitSeq(header, ",") {
		preference, _, _ = strings.Cut(preference, ";")
		name, value, _ := strings.Cut(strings.TrimSpace(preference), "=")
		if !strings.EqualFold(strings.TrimSpace(name), "wait") {
			continue
		}
		seconds, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 32)
		if err != nil {
			return 0, queue.Invalid("/header/Prefer", "has a wait that is not a whole number of seconds")
		}
		return min(time.Duration(seconds)*time.Second, queue.MaxWait), nil
	}
	return 0, nil
}

func (x submissions) cancel(ctx context.Context, q *engine.Queue, in *SubmissionPath) (*submissionOutput, error) {
	ended, err := q.Submissions.Cancel(ctx, in.id)
	return changedSubmission(q, ended, err)
}

// changedSubmission is the answer to a change of a submission.
func changedSubmission(q *engine.Queue, changed queue.Submission, err error) (*submissionOutput, error) {
	if err != nil {
		return nil, err
	}
	out := &submissionOutput{Body: apiSubmission(&changed)}
	if q.Relaxed() {
		out.Durability = queue.Relaxed.String()
	}
	return out, nil
}

type changeInput struct {
	SubmissionPath
	Body decoded[api.SubmissionChange]
}

func (x submissions) change(ctx context.Context, q *engine.Queue, in *changeInput) (*submissionOutput, error) {
	if in.Body.value.Priority == nil {
		return nil, queue.Invalid("/priority", "is missing: a whole number from %d to %d", -queue.MaxPriority, queue.MaxPriority)
	}
	changed, err := q.Submissions.SetPriority(ctx, in.id, *in.Body.value.Priority)
	return changedSubmission(q, changed, err)
}

func (x submissions) list(ctx context.Context, q *engine.Queue, in *queueQuery) (*output[api.Page[api.Submission]], error) {
	request, err := parseList(in.raw)
	if err != nil {
		return nil, err
	}
	request.Meta = ownMeta(ctx, request.Meta)
	page, err := q.Submissions.List(ctx, request)
	return answeredPage(page, err, apiSubmission)
}

// parseList reads the query of a list of submissions.
func parseList(raw string) (engine.ListRequest, error) {
	out := engine.ListRequest{Limit: defaultListLimit}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return out, queue.Invalid("/query", "is not well formed: escape special characters as %%XX and separate parameters by &")
	}
	for name, given := range values {
		if to := map[string]*time.Time{"created_before": &out.CreatedBefore, "created_after": &out.CreatedAfter}[name]; to != nil {
			if *to, err = queryTime(name, given); err != nil {
				return out, err
			}
			continue
		}
		if name == "schedule" {
			if len(given) != 1 {
				return out, queue.Invalid("/query/schedule", "is given %d times; a submission has one schedule at most", len(given))
			}
			out.Schedule = given[0]
			continue
		}
		if key, isMeta := metaKeyOf(name); isMeta {
			entry, err := metaParameter(key, given)
			if err != nil {
				return out, err
			}
			out.Meta = append(out.Meta, entry)
			continue
		}
		if name == "state" {
			if out.States, err = parseStates(given, queue.ParseSubmissionState); err != nil {
				return out, err
			}
			continue
		}
		if err := pageParameter(name, given, &out.Cursor, &out.Limit); err != nil {
			return out, err
		}
	}
	meta, err := queue.NewMeta(out.Meta)
	out.Meta = meta
	return out, err
}

// metaKeyOf takes the key out of a parameter's name: meta.KEY, or meta[KEY], as generated clients write it (deepObject).
func metaKeyOf(name string) (key string, is bool) {
	if key, is = strings.CutPrefix(name, "meta["); is {
		return strings.CutSuffix(key, "]")
	}
	return strings.CutPrefix(name, "meta.")
}

// metaParameter reads the value of meta.KEY.
func metaParameter(key string, given []string) (entry queue.MetaEntry, err error) {
	name := "meta." + key
	if queue.ValidMetaKey(key) != nil {
		return entry, queue.Invalid("/query/"+api.EscapePointer(name),
			"is not a meta key: 1 to %d letters, digits, '_', '-' and '.'", queue.MaxMetaKeyBytes)
	}
	if len(given) != 1 {
		return entry, queue.Invalid("/query/"+name, "is given %d times; a submission has one value per key", len(given))
	}
	value, err := queryValue("/query/"+name, given[0])
	return queue.MetaEntry{Key: key, Value: value}, err
}

// queryTime reads a time of a query.
func queryTime(name string, given []string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, given[0])
	if err != nil || len(given) != 1 || at.UnixMilli() <= 0 {
		return time.Time{}, queue.Invalid("/query/"+name, "must be one RFC 3339 time after 1970, such as 2026-01-31T12:00:00Z")
	}
	return at, nil
}

// pageParameter reads cursor and limit and refuses every other name.
func pageParameter(name string, given []string, cursor *string, limit *int) error {
	switch {
	case name != "cursor" && name != "limit":
		return noParameter(name, given)
	case len(given) != 1:
		return queue.Invalid("/query/"+name, "is given %d times; give it once", len(given))
	case name == "cursor":
		*cursor = given[0]
		return nil
	}
	n, err := strconv.Atoi(given[0])
	if err != nil || n < 1 || n > queue.MaxListLimit {
		return queue.Invalid("/query/limit", "must be a whole number from 1 to %d", queue.MaxListLimit)
	}
	*limit = n
	return nil
}

// parseStates reads states that are repeated, comma-separated or both.
func parseStates[S comparable](given []string, parse func(string) (S, bool)) ([]S, error) {
	var out []S
	seen := make(map[S]bool)
	for _, list := range given {
		for name := range strings.SplitSeq(list, ",") {
			if name == "" {
				continue // state= means no filter, as a form sends it
			}
			state, ok := parse(name)
			if !ok {
				return nil, queue.Invalid("/query/state", "names a state that does not exist; see the list in the reference")
			}
			if !seen[state] {
				seen[state] = true
				out = append(out, state)
			}
		}
	}
	return out, nil
}

// queryValue reads a meta value: a bare whole number is the integer, what follows "s:" is a string, and so is anything
// else.
func queryValue(pointer, text string) (queue.MetaValue, error) {
	if rest, ok := strings.CutPrefix(text, "s:"); ok {
		return queue.StringValue(rest), nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && strconv.FormatInt(n, 10) == text {
		return queue.IntValue(n), nil
	}
	if looksLikeNumber(text) {
		return queue.MetaValue{}, queue.Invalid(pointer, "looks like a number but is none from %d to %d in its "+
			"shortest form; put s: before it if it is a string", int64(math.MinInt64), int64(math.MaxInt64))
	}
	return queue.StringValue(text), nil
}

// looksLikeNumber says whether text has only digits after an optional sign.
func looksLikeNumber(text string) bool {
	digits := strings.TrimLeft(text, "+-")
	return digits != "" && strings.Trim(digits, "0123456789") == ""
}

// listParams documents the query of a list of submissions.
func listParams() []*huma.Param {
	at := &huma.Schema{Type: huma.TypeString, Format: "date-time"}
	return append([]*huma.Param{
		{Name: "created_before", In: "query", Description: "Only submissions that were inserted before this time", Schema: at},
		{Name: "created_after", In: "query", Description: "Only submissions that were inserted at this time or later", Schema: at},
		stateParam("open", "completed", "completed_with_dead", "failed", "cancelled", "expired"),
		metaParam(),
	}, pageParams()...)
}

// metaParam documents meta.KEY=VALUE and meta[KEY]=VALUE.
func metaParam() *huma.Param {
	explode := true
	return &huma.Param{Name: "meta", In: "query", Style: "deepObject", Explode: &explode, Description: "Filter by meta: written as " +
		"meta.KEY=VALUE or meta[KEY]=VALUE, one parameter per key. A bare whole number is the integer; s:TEXT is a string.",
		Schema:     &huma.Schema{Type: huma.TypeObject, AdditionalProperties: &huma.Schema{Type: huma.TypeString}},
		Extensions: map[string]any{"x-name-prefix": "meta."}}
}

func stateParam(states ...string) *huma.Param {
	enum := make([]any, len(states))
	for i, state := range states {
		enum[i] = state
	}
	return &huma.Param{Name: "state", In: "query",
		Description: "Only these states; repeated or comma-separated. Without it, all.", Explode: new(true),
		Schema: &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString, Enum: enum}}}
}

func pageParams() []*huma.Param {
	least, most := 1.0, float64(queue.MaxListLimit)
	return []*huma.Param{
		{Name: "cursor", In: "query", Description: "The next of the page before", Schema: &huma.Schema{Type: huma.TypeString}},
		{Name: "limit", In: "query", Description: "Most items of one page",
			Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: &least, Maximum: &most, Default: defaultListLimit}},
	}
}
