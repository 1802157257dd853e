package web

// Values of meta keys, with the limit and the weight that an operator set for them. A value stands
// in the path: bare digits are the integer, and `s:` makes any text a string. So `values/7` and
// `values/s:7` are two values, as they are two in strategies.
//
//	path element      value
//	7                 the integer 7
//	s:7              the text "7"
//	s:               the empty text
//	a%2Fb            the text "a/b"
//	007              refused: neither an integer in its shortest form nor marked as a text

import (
	"context"
	"math"
	"reflect"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

const (
	listKeysAbout = "Keys of open submissions, and keys with a setting."
	valueAbout    = "Write the value in the path as in the filter `meta.KEY=VALUE`: a whole number is the integer, " +
		"and `s:` before a value makes it a string (`values/7` is the integer, `values/s:7` the text, `values/s:` " +
		"the empty text). Percent-encode characters that are special in a path (`a%2Fb`)."
	putValueAbout = "Replaces all settings: one that is absent or null becomes unset. `limit` holds for every " +
		"reservation of the queue, with any strategy; MaxSimultaneous can only be tighter. With the limit 0, the " +
		"server hands out no chunk of the value. Chunks in flight stay. `weight` is the value's share under Fair. " +
		"`rate` takes the place of the number in every MaxRate of the key over the same time, and may be larger or " +
		"smaller. The server refuses an insert that would exceed `quota`, with `limit_reached`. All take effect " +
		"with the next call, and you can set them before any submission has the " +
		"value. The same settings again change nothing. With If-Match, the server replaces only settings with this " +
		"ETag; with `If-None-Match: *` it only sets the first ones; else the answer is 412. The first settings " +
		"answer 201. " +
		valueAbout
	putKeyAbout = "Sets the default for all values of the key that have no such setting of their own, also for those " +
		"that come later. It replaces all settings: one that is absent or null becomes unset. A value's own `limit`, " +
		"`weight`, `rate` or number of `quota` takes the place of the default, so the limit 2,147,483,647 frees one " +
		"value. All take effect with the next reservation. The server does a step for each value of open " +
		"submissions. If-Match and " +
		"If-None-Match work as for a value. The first default answers 201."
)

// metaValues are the handlers of values of meta keys, and of their settings.
type metaValues struct{}

// routes are the part of the table about values of meta keys.
func (x metaValues) routes(r *router) {
	// A token that is bound to a value may read that value alone (get, checked in the handler). Lists would show
	// the other tenants, and a limit that a tenant could raise would limit nothing, so the rest is not for bound
	// tokens.
	registerIn(r, operation{id: "list-meta-keys",
		shards: joinedList(keysOverShards),
		method: "GET", path: "/v1/queues/{queue}/meta-keys", scope: scopeRead,
		narrow: inQueue | noTenants, tag: tagQueues, compress: true,
		summary: "List the meta keys with the number of their values", about: listKeysAbout}, x.keys)
	registerIn(r, operation{id: "get-meta-key",
		shards: summed(addKey, nil),
		method: "GET", path: "/v1/queues/{queue}/meta-keys/{key}",
		scope: scopeRead, narrow: inQueue | noTenants, tag: tagQueues,
		summary: "Read a meta key, with the default of its values"}, x.getKey)
	registerIn(r, operation{id: "put-meta-key",
		shards: settingsInAll(addKey, false),
		act:    act{"key.set", "{key}"}, brings: true, method: "PUT",
		path: "/v1/queues/{queue}/meta-keys/{key}", scope: scopeOperate, narrow: inQueue | noTenants,
		tag:     tagQueues,
		creates: reflect.TypeFor[api.MetaKey](),
		summary: "Set a default limit, weight, rate and quota for all values of a meta key",
		about:   putKeyAbout}, x.putKey)
	registerIn(r, operation{id: "delete-meta-key",
		shards: settingsInAll(addKey, true),
		act:    act{"key.delete", "{key}"}, method: "DELETE",
		path: "/v1/queues/{queue}/meta-keys/{key}", scope: scopeOperate, narrow: inQueue | noTenants,
		tag:     tagQueues,
		summary: "Remove the default limit, weight, rate and quota of all values of a meta key",
		about: "From the next reservation on, only a value's own settings apply to it. If-Match works as for " +
			"PUT."}, x.deleteKey)
	registerIn(r, operation{id: "list-meta-values",
		shards: valuesOverShards,
		method: "GET", path: "/v1/queues/{queue}/meta-keys/{key}/values",
		scope: scopeRead, narrow: inQueue | noTenants, tag: tagQueues, compress: true,
		summary: "List the values of a meta key with their chunks and settings",
		about: "The largest by `sort` come first; by `oldest`, the values whose ready chunks were inserted " +
			"longest ago. The server looks at each value of the key, and at each open submission for the numbers " +
			"that it does not keep: `waiting`, `dead`, `done` and `oldest_ready_at`."}, x.list)
	registerIn(r, operation{id: "get-meta-value", shards: summed(addValue, nil), method: "GET",
		path: "/v1/queues/{queue}/meta-keys/{key}/values/{value}", scope: scopeRead, narrow: inQueue | inHandler,
		tag:     tagQueues,
		summary: "Read a value of a meta key, with its chunks and settings", about: valueAbout}, x.get)
	registerIn(r, operation{id: "put-meta-value",
		shards: settingsInAll(addValue, false),
		act:    act{"value.set", "{key}={value}"}, brings: true, method: "PUT",
		path: "/v1/queues/{queue}/meta-keys/{key}/values/{value}", scope: scopeOperate, narrow: inQueue | noTenants,
		tag: tagQueues, creates: reflect.TypeFor[api.ValueCount](),
		summary: "Set a limit, a weight, a rate and a quota for a value of a meta key", about: putValueAbout}, x.put)
	registerIn(r, operation{id: "delete-meta-value",
		shards: settingsInAll(addValue, true),
		act:    act{"value.delete", "{key}={value}"}, method: "DELETE",
		path: "/v1/queues/{queue}/meta-keys/{key}/values/{value}", scope: scopeOperate, narrow: inQueue | noTenants,
		tag:     tagQueues,
		summary: "Remove the limit, weight, rate and quota of a value of a meta key",
		about: "From the next reservation on, the value has no limit and no rate, and its weight is 1. If-Match " +
			"works as for PUT."},
		x.delete)
}

// keys lists the keys of open submissions, and those with a setting: a limit for a value that no submission has now
// is still in effect.
func (x metaValues) keys(ctx context.Context, q *engine.Queue, in *queuePage) (*output[api.Page[api.MetaKey]], error) {
	page, err := q.Values.Keys(ctx, in.Cursor, in.Limit)
	return answeredPage(page, err, asIs)
}

// The limit, the weight and the rate of a value are looked for in this order, each by itself:
//
//	a rule           the value is paused or blocked, so its limit is 0
//	its own          PUT /meta-keys/{key}/values/{value}
//	the default      PUT /meta-keys/{key}
//	nothing is set   no limit, the weight 1, and the rates that strategies name
//
// KeyPath names a meta key. It is exported because huma only looks into exported fields. A key needs no
// escapes: its letters are all plain in a path.
type KeyPath struct {
	QueuePath
	Key string `path:"key" maxLength:"64" doc:"The meta key"`
}

// A key with a default is known, also when no open submission has it: otherwise no one would find the default again.
func (x metaValues) getKey(ctx context.Context, q *engine.Queue,
	in *KeyPath) (*tagged[api.MetaKey], error) {
	k, err := q.Values.Key(ctx, in.Key)
	return answeredTagged(k, k.ETag, err)
}

// putKeyInput has the same body as a value, as a default has the same fields.
type putKeyInput struct {
	KeyPath
	Conditions
	Body decoded[api.ValueSettings]
}

func (x metaValues) putKey(ctx context.Context, q *engine.Queue,
	in *putKeyInput) (*taggedCreation[api.MetaKey], error) {
	settings, err := valueSettings(&in.Body.value)
	if err != nil {
		return nil, err
	}
	put, created, err := q.Values.PutDefault(ctx, in.Key, settings, in.keyGuard)
	return answeredTaggedCreation(put, put.ETag, created, "/v1/queues/"+in.Queue+"/meta-keys/"+in.Key, err)
}

// deleteKeyInput has no body: a default is removed whole, as PUT replaces it whole.
// A default is removed on a condition, too: another operator may have changed it meanwhile.
type deleteKeyInput struct {
	KeyPath
	Conditions
}

func (x metaValues) deleteKey(ctx context.Context, q *engine.Queue, in *deleteKeyInput) (*struct{}, error) {
	return nil, q.Values.DeleteDefault(ctx, in.Key, in.keyGuard)
}

type listValuesInput struct {
	QueuePath
	Key   string    `path:"key" maxLength:"64" doc:"The meta key"`
	Sort  valueSort `query:"sort" default:"in_flight" doc:"Order"`
	Limit int       `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Most items"`
}

// valueSort is one of engine.ValueSorts.
type valueSort string

func (valueSort) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, sort := range engine.ValueSorts {
		s.Enum = append(s.Enum, sort)
	}
	return s
}

// The key is checked here, because the engine answers an empty list for a key that no submission has, and a
// misspelled key should not look like one.
func (x metaValues) list(ctx context.Context, q *engine.Queue,
	in *listValuesInput) (*output[api.Page[api.ValueCount]], error) {
	if queue.ValidMetaKey(in.Key) != nil {
		return nil, queue.Invalid("/path/key", "is not a meta key: 1 to %d letters, digits, '_', '-' and '.'",
			queue.MaxMetaKeyBytes)
	}
	list, err := q.Values.List(ctx, in.Key, string(in.Sort), in.Limit)
	return answeredShort(list, err, asIs)
}

// ValuePath names a value of a meta key. It is exported because huma only looks into exported fields.
type ValuePath struct {
	QueuePath
	Key   string `path:"key" maxLength:"64" doc:"The meta key"`
	Value string `path:"value" doc:"The value: a whole number is the integer, s:TEXT is a string"`

	entry queue.MetaEntry
}

func (p *ValuePath) locate(e *engine.Engine) (q *engine.Queue, err error) {
	if !utf8.ValidString(p.Value) {
		return nil, queue.Invalid("/path/value", "is not UTF-8")
	}
	p.entry.Key = p.Key
	if p.entry.Value, err = queue.ReadValue("/path/value", p.Value); err != nil {
		return nil, err
	}
	return p.QueuePath.locate(e)
}

// A value of another tenant gets the same answer as one that does not exist.
func (x metaValues) get(ctx context.Context, q *engine.Queue, in *ValuePath) (*tagged[api.ValueCount], error) {
	if token := tenantOf(ctx); token != nil && token.Entry != in.entry {
		return nil, &queue.Error{Code: queue.CodeUnknownValue,
			Message: "There is no such value that this token covers."}
	}
	// The body has the chunks of the value and the settings, but the ETag is of the settings alone: counts change all
	// the time, and an ETag over them would make every If-Match fail.
	v, err := q.Values.Get(ctx, in.entry)
	return answeredTagged(v, v.ETag, err)
}

type putValueInput struct {
	ValuePath
	Conditions
	Body decoded[api.ValueSettings]
}

func (x metaValues) put(ctx context.Context, q *engine.Queue,
	in *putValueInput) (*taggedCreation[api.ValueCount], error) {
	settings, err := valueSettings(&in.Body.value)
	if err != nil {
		return nil, err
	}
	put, created, err := q.Values.Put(ctx, in.entry, settings, in.valueGuard)
	return answeredTaggedCreation(put, put.ETag, created, queue.ValueAddress(in.Queue, in.entry), err)
}

type deleteValueInput struct {
	ValuePath
	Conditions
}

func (x metaValues) delete(ctx context.Context, q *engine.Queue, in *deleteValueInput) (*struct{}, error) {
	return nil, q.Values.Delete(ctx, in.entry, in.valueGuard)
}

// valueSettings reads the settings as JSON has them: null for none, and the weight with up
// to three decimals.
func valueSettings(in *api.ValueSettings) (queue.ValueSettings, error) {
	out := queue.NoSettings()
	if in.Limit != nil {
		if *in.Limit > queue.MaxValueLimit { // the largest numbers would mean "none" to the engine
			return out, queue.Invalid("/limit", "is %d; 0 to %d are allowed, or null for none", *in.Limit,
				queue.MaxValueLimit)
		}
		out.Limit = *in.Limit
	}
	if in.Weight != nil {
		// Weights are whole thousandths in the engine. A value that the rounding would change is refused, so that a
		// reader gets back what was written. NaN fails both comparisons, hence the negated form.
		thousandths := math.Round(*in.Weight * queue.DefaultWeight)
		if !(thousandths >= 1 && thousandths <= queue.MaxWeight) || thousandths/queue.DefaultWeight != *in.Weight {
			return out, queue.Invalid("/weight", "is %g; 0.001 to %d with at most three decimals are allowed, or "+
				"null for none", *in.Weight, queue.MaxWeight/queue.DefaultWeight)
		}
		out.Weight = uint32(thousandths)
	}
	// A zero Rate means "none" to the engine, so the numbers are checked where it is known that there is one.
	// Milliseconds become nanoseconds only within the bounds: more would overflow, and look like another time.
	if in.Rate != nil {
		var err error
		if out.Rate, err = queue.RateOf(in.Rate.Max, in.Rate.PerMS); err != nil {
			return out, err
		}
	}
	if in.Quota != nil {
		var err error
		if out.Quota, err = quotaOf("/quota", in.Quota); err != nil {
			return out, err
		}
	}
	return out, nil
}

// valueGuard is the engine's question before it changes the settings of a value.
func (c *Conditions) valueGuard(now engine.ValueSettings) error {
	return c.hold("setting for this value", now.Version, now.ETag)
}

// keyGuard is valueGuard for a default, which its sentences name. It runs while nothing else can change the default,
// so it compares exactly the default that the change replaces.
func (c *Conditions) keyGuard(now engine.ValueSettings) error {
	return c.hold("default for this key", now.Version, now.ETag)
}
