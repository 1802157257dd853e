package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

const (
	listKeysAbout = "Of the submissions that are open; a key for which something is set is listed also when no submission has it."
	valueAbout    = "The value stands in the path as `meta.KEY=VALUE` has it in filters: a whole number is the " +
		"integer, `s:` before a value makes it a string " +
		"(`values/7` is the integer, `values/s:7` the text, `values/s:` the empty text); what else is not unreserved " +
		"is percent-encoded (`a%2Fb`)."
	putValueAbout = "Both settings are replaced: one that is left out or null is not set any more. `limit` holds for " +
		"every reservation of the queue, whatever its strategy; MaxSimultaneous can only be tighter. " +
		"0 hands out nothing of the value. What is in flight stays. `weight` is the value's share under Fair. Both " +
		"hold from the next reservation on, and before any submission has the value. " +
		"The same settings as before change nothing. With If-Match only settings with this ETag are replaced, with " +
		"`If-None-Match: *` only where nothing is set; else 412. Where nothing was set it answers 201. " + valueAbout
)

type listKeysInput struct {
	QueuePath
	Cursor string `query:"cursor" maxLength:"64" doc:"The next of the page before"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Most items"`
}

type listKeysOutput struct{ Body api.Page[api.MetaKey] }

func (s *Server) listKeys(ctx context.Context, in *listKeysInput) (*listKeysOutput, error) {
	page, err := s.engine.Keys(ctx, in.Queue, in.Cursor, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &listKeysOutput{Body: api.Page[api.MetaKey]{Items: make([]api.MetaKey, len(page.Items)), Next: page.Next}}
	for i, key := range page.Items {
		out.Body.Items[i] = api.MetaKey{Key: key.Key, Values: uint64(key.Values), ValuesSet: uint64(key.Set)}
	}
	return out, nil
}

type listValuesInput struct {
	QueuePath
	Key   string `path:"key" maxLength:"64" doc:"The meta key"`
	Sort  string `query:"sort" enum:"in_flight,ready" default:"in_flight" doc:"Largest first"`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Most items"`
}

type listValuesOutput struct{ Body api.Page[api.ValueCount] }

func (s *Server) listValues(ctx context.Context, in *listValuesInput) (*listValuesOutput, error) {
	if queue.ValidMetaKey(in.Key) != nil {
		return nil, queue.Invalid("/path/key", "is not a meta key: 1 to %d letters, digits, '_', '-' and '.'", queue.MaxMetaKeyBytes)
	}
	list, err := s.engine.Values(ctx, in.Queue, in.Key, in.Sort, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &listValuesOutput{Body: api.Page[api.ValueCount]{Items: make([]api.ValueCount, len(list))}}
	for i := range list {
		out.Body.Items[i] = apiValueCount(&list[i])
	}
	return out, nil
}

// ValuePath names a value of a meta key. It is exported because huma only looks into exported fields.
type ValuePath struct {
	QueuePath
	Key   string `path:"key" maxLength:"64" doc:"The meta key"`
	Value string `path:"value" doc:"The value: a whole number is the integer, s:TEXT is a string"`

	escaped bool // the path was cut into its parts before its escapes were undone
}

var _ huma.Resolver = (*ValuePath)(nil)

// Resolve notes which form of the path the parts were cut from: echo takes the escaped one where a part has an escaped '/'.
func (p *ValuePath) Resolve(ctx huma.Context) []error {
	address := ctx.URL()
	p.escaped = address.RawPath != ""
	return nil
}

// entry is the key and the value; it also undoes the escapes of the queue's name.
func (p *ValuePath) entry() (entry queue.MetaEntry, err error) {
	if p.escaped {
		for _, part := range []*string{&p.Queue, &p.Key, &p.Value} {
			if *part, err = url.PathUnescape(*part); err != nil {
				return entry, queue.Invalid("/path", "has an escape that is none: %% and two hexadecimal digits")
			}
		}
		p.escaped = false
	}
	if !utf8.ValidString(p.Value) {
		return entry, queue.Invalid("/path/value", "is not UTF-8")
	}
	entry.Key = p.Key
	entry.Value, err = queryValue("/path/value", p.Value)
	return entry, err
}

// location is the path of a value.
func (p *ValuePath) location(entry queue.MetaEntry) string {
	text := entry.Value.Text()
	if entry.Value.IsInt() {
		text = strconv.FormatInt(entry.Value.Int(), 10)
	} else if again, err := queryValue("", text); err != nil || again != entry.Value || strings.Trim(text, ".") == "" {
		text = "s:" + text // also "", "." and "..", which are not themselves in a path
	}
	return "/v1/queues/" + p.Queue + "/meta-keys/" + entry.Key + "/values/" + url.PathEscape(text)
}

type valueOutput struct {
	ETag string `header:"ETag" doc:"Names what is set; absent when nothing is"`
	Body api.ValueCount
}

func (s *Server) getValue(ctx context.Context, in *ValuePath) (*valueOutput, error) {
	entry, err := in.entry()
	if err != nil {
		return nil, err
	}
	if token := tenantOf(ctx); token != nil && token.Entry != entry {
		return nil, &queue.Error{Code: queue.CodeUnknownValue, Message: "There is no such value that this token covers."}
	}
	v, err := s.engine.Value(ctx, in.Queue, entry)
	if err != nil {
		return nil, err
	}
	return &valueOutput{ETag: valueETag(&v.Settings), Body: apiValueCount(&v)}, nil
}

type putValueInput struct {
	ValuePath
	Conditions
	Body decoded[api.ValueSettings]
}

type putValueOutput struct {
	Status   int
	Location string `header:"Location" doc:"Path of the value, when nothing was set for it before"`
	ETag     string `header:"ETag" doc:"Names what is set"`
	Body     api.ValueCount
}

func (s *Server) putValue(ctx context.Context, in *putValueInput) (*putValueOutput, error) {
	if in.Body.failed != nil {
		return nil, s.wireProblem(in.Body.failed, in.Body.body, contentJSON)
	}
	entry, err := in.entry()
	if err != nil {
		return nil, err
	}
	settings, err := valueSettings(&in.Body.value)
	if err != nil {
		return nil, err
	}
	guard, err := s.valueGuard(&in.Conditions)
	if err != nil {
		return nil, err
	}
	put, created, err := s.engine.PutValue(ctx, in.Queue, entry, settings, guard)
	if err != nil {
		return nil, err
	}
	out := &putValueOutput{Status: http.StatusOK, ETag: valueETag(&put.Settings), Body: apiValueCount(&put)}
	if created {
		out.Status, out.Location = http.StatusCreated, in.location(entry)
	}
	return out, nil
}

type deleteValueInput struct {
	ValuePath
	Conditions
}

func (s *Server) deleteValue(ctx context.Context, in *deleteValueInput) (*struct{}, error) {
	entry, err := in.entry()
	if err != nil {
		return nil, err
	}
	guard, err := s.valueGuard(&in.Conditions)
	if err != nil {
		return nil, err
	}
	return nil, s.engine.DeleteValue(ctx, in.Queue, entry, guard)
}

// valueSettings reads the settings as JSON has them: null for none, and the weight with up to three decimals.
func valueSettings(in *api.ValueSettings) (queue.ValueSettings, error) {
	out := queue.NoSettings()
	if in.Limit != nil {
		if *in.Limit > queue.MaxValueLimit { // the largest numbers would mean "none" to the engine
			return out, queue.Invalid("/limit", "is %d; 0 to %d are allowed, or null for none", *in.Limit, queue.MaxValueLimit)
		}
		out.Limit = *in.Limit
	}
	if in.Weight != nil {
		thousandths := math.Round(*in.Weight * queue.DefaultWeight)
		if !(thousandths >= 1 && thousandths <= queue.MaxWeight) || thousandths/queue.DefaultWeight != *in.Weight {
			return out, queue.Invalid("/weight", "is %g; 0.001 to %d with at most three decimals are allowed, or "+
				"null for none", *in.Weight, queue.MaxWeight/queue.DefaultWeight)
		}
		out.Weight = uint32(thousandths)
	}
	return out, nil
}

func apiValueCount(in *engine.Value) api.ValueCount {
	out := api.ValueCount{
		Value: apiValue(in.Value), Ready: in.Available, Paused: in.Paused, Blocked: in.Blocked, InFlight: in.InFlight,
		Submissions: uint64(in.Submissions),
		Saturated:   in.Saturated(), ETag: valueETag(&in.Settings), ChangedAt: apiTime(in.Settings.Changed),
	}
	if in.SaturatedSince != 0 {
		out.SaturatedSince = new(apiTime(in.SaturatedSince))
	}
	if in.Settings.Limit != queue.NoLimit {
		out.Limit = &in.Settings.Limit
	}
	if in.Settings.Weight != 0 {
		out.Weight = new(float64(in.Settings.Weight) / queue.DefaultWeight)
	}
	return out
}

// valueETag is the ETag of what is set for a value, "" when nothing is. The digest keeps apart settings and those of the same
// version after they were deleted and set again.
func valueETag(in *engine.ValueSettings) string {
	if in.Version == 0 {
		return ""
	}
	digest := sha256.Sum256(fmt.Appendf(nil, "%d %d", in.Limit, in.Weight))
	return `"` + strconv.FormatUint(uint64(in.Version), 10) + "-" + hex.EncodeToString(digest[:8]) + `"`
}

// valueGuard turns the conditions of a request into what the engine asks. There is none without conditions.
func (s *Server) valueGuard(c *Conditions) (engine.ValueGuard, error) {
	if c.IfNoneMatch != "" && strings.TrimSpace(c.IfNoneMatch) != "*" {
		return nil, queue.Invalid("/header/If-None-Match",
			"must be *, which sets only where nothing is set; to replace known settings send their ETag in If-Match")
	}
	if c.IfMatch == "" && c.IfNoneMatch == "" {
		return nil, nil
	}
	return func(now engine.ValueSettings) error {
		version := strconv.FormatUint(uint64(now.Version), 10)
		switch {
		case now.Version != 0 && c.IfNoneMatch != "":
			return s.newProblem(codePrecondition, "The value has settings already, in version "+version+".")
		case now.Version == 0 && c.IfMatch != "":
			return s.newProblem(codePrecondition, "Nothing is set for the value, so nothing that If-Match could name.")
		case now.Version != 0 && !matchesETag(c.IfMatch, valueETag(&now)):
			return s.newProblem(codePrecondition, "The settings are in version "+version+
				", which is not one that If-Match names. Read them again, then retry with their new ETag.")
		}
		return nil
	}, nil
}
