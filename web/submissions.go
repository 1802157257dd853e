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

// SubmissionPath names the submission that an operation is about; exported like QueuePath.
type SubmissionPath struct {
	ID string `path:"id" maxLength:"20" doc:"Id of the submission, as the insert returned it"`
}

// parse reads the id. A wrong one points at its place.
func (p SubmissionPath) parse() (queue.SubmissionID, error) {
	id, err := queue.ParseSubmissionID(p.ID)
	if err != nil {
		return 0, queue.Invalid("/path/id", "must be a decimal number of at most 63 bits, as the insert returned it")
	}
	return id, nil
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

func (s *Server) getSubmission(ctx context.Context, in *getSubmissionInput) (*submissionOutput, error) {
	id, err := in.parse()
	if err != nil {
		return nil, err
	}
	wait, err := preferredWait(in.Prefer)
	if err != nil {
		return nil, err
	}
	applied := ""
	if wait > 0 {
		applied = "wait=" + strconv.Itoa(int(wait/time.Second))
		ctx, err = waiting{s}.ends(ctx, []queue.SubmissionID{id}, wait, false)
		if err != nil {
			return nil, err
		}
	}
	found, err := s.engine.Submission(ctx, id)
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

func (s *Server) cancelSubmission(ctx context.Context, in *SubmissionPath) (*submissionOutput, error) {
	id, err := in.parse()
	if err != nil {
		return nil, err
	}
	ended, err := s.engine.Cancel(ctx, id)
	if err != nil {
		return nil, err
	}
	out := &submissionOutput{Body: apiSubmission(&ended)}
	if s.relaxed(ended.Queue) {
		out.Durability = queue.Relaxed.String()
	}
	return out, nil
}

type changeInput struct {
	SubmissionPath
	Body decoded[api.SubmissionChange]
}

func (s *Server) changeSubmission(ctx context.Context, in *changeInput) (*submissionOutput, error) {
	if in.Body.failed != nil {
		return nil, s.wireProblem(in.Body.failed, in.Body.body, contentJSON)
	}
	id, err := in.parse()
	if err != nil {
		return nil, err
	}
	if in.Body.value.Priority == nil {
		return nil, queue.Invalid("/priority", "is missing: a whole number from %d to %d", -queue.MaxPriority, queue.MaxPriority)
	}
	changed, err := s.engine.SetPriority(ctx, id, *in.Body.value.Priority)
	if err != nil {
		return nil, err
	}
	out := &submissionOutput{Body: apiSubmission(&changed)}
	if s.relaxed(changed.Queue) {
		out.Durability = queue.Relaxed.String()
	}
	return out, nil
}

// RawQuery keeps the query for parameters that huma cannot take apart; exported like QueuePath.
type RawQuery struct{ raw string }

// Resolve is called by huma with the request; it refuses nothing, the handler does.
func (q *RawQuery) Resolve(ctx huma.Context) []error {
	at := ctx.URL()
	q.raw = at.RawQuery
	return nil
}

var _ huma.Resolver = (*RawQuery)(nil)

type listSubmissionsInput struct {
	QueuePath
	RawQuery
}

type listSubmissionsOutput struct{ Body api.Page[api.Submission] }

func (s *Server) listSubmissions(ctx context.Context, in *listSubmissionsInput) (*listSubmissionsOutput, error) {
	request, err := parseList(in.raw)
	if err != nil {
		return nil, err
	}
	request.Meta = ownMeta(ctx, request.Meta)
	page, err := s.engine.List(ctx, in.Queue, request)
	if err != nil {
		return nil, err
	}
	out := &listSubmissionsOutput{Body: api.Page[api.Submission]{Items: make([]api.Submission, len(page.Items)), Next: page.Next}}
	for i := range page.Items {
		out.Body.Items[i] = apiSubmission(&page.Items[i])
	}
	return out, nil
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
