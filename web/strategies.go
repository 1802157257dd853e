package web

// Named strategies: versions of a text under a name, which reservations refer to. A name is
// resolved at each reserve, so a change needs no restart of a consumer.
//
//	PUT name ─► version 3, in the journal            a reserve with {"name": "fair"}
//	                  └ the next reserve uses it ◄──── resolves the name to the newest version
//
// Older versions are kept for reading and for going back; a reserve cannot ask for one. No consumer can pin a
// version, so that all consumers of a name follow a change at once.

import (
	"context"
	"reflect"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

const (
	putStrategyAbout = "The same strategy as before, in any spelling, changes nothing. Another one becomes " +
		"the next version, and the next reservation uses it. With If-Match, the server replaces only a version with " +
		"this ETag; with `If-None-Match: *` it only creates a new name; else the answer is 412. A new name answers " +
		"201."
	validateAbout = "Answers with the canonical forms, the compiled branches, and a warning for each part " +
		"without effect. It stores and reserves nothing. An invalid strategy answers 422, as in a reserve."
)

// strategies are the handlers of named strategies.
type strategies struct{ engine *engine.Engine }

// routes are the part of the table about named strategies.
func (x strategies) routes(r *router) {
	registerIn(r, operation{id: "list-strategies",
		shards: inFirst,
		method: "GET", path: "/v1/queues/{queue}/strategies",
		scope: scopeRead, narrow: inQueue | noTenants, tag: tagStrategies, compress: true,
		summary: "List a queue's named strategies by name"}, x.list)
	registerIn(r, operation{id: "get-strategy",
		shards: inFirst,
		method: "GET", path: "/v1/queues/{queue}/strategies/{name}",
		scope: scopeRead, narrow: inQueue | noTenants, tag: tagStrategies,
		summary: "Read a named strategy, or an older version of it"}, x.get)
	registerIn(r, operation{id: "put-strategy", shards: inFirst, act: act{"strategy.set", "strategy {name}"},
		brings: true, method: "PUT", path: "/v1/queues/{queue}/strategies/{name}",
		scope: scopeOperate, narrow: inQueue | noTenants, tag: tagStrategies,
		creates: reflect.TypeFor[api.NamedStrategy](),
		summary: "Store a strategy under a name, or change it", about: putStrategyAbout}, x.put)
	registerIn(r, operation{id: "delete-strategy", shards: inFirst, act: act{"strategy.delete", "strategy {name}"},
		method: "DELETE", path: "/v1/queues/{queue}/strategies/{name}",
		scope: scopeOperate, narrow: inQueue | noTenants, tag: tagStrategies,
		summary: "Delete a named strategy with all its versions",
		about:   "From then on, the server refuses reserves that name it. If-Match works as for PUT."}, x.delete)
	registerIn(r, operation{id: "validate-strategy",
		shards: validOverShards,
		method: "POST", path: "/v1/queues/{queue}/strategies/validate",
		scope: scopeRead, narrow: inQueue | noTenants, tag: tagStrategies,
		summary: "Validate a strategy", about: validateAbout}, x.validate)
}

func (x strategies) list(_ context.Context, q *engine.Queue,
	in *queuePage) (*output[api.Page[api.NamedStrategy]], error) {
	page, err := q.Strategies.List(in.Cursor, in.Limit)
	return answeredPage(page, err, asIs)
}

// StrategyPath names a strategy of a queue. It is exported because huma only looks into exported fields.
type StrategyPath struct {
	QueuePath
	Name string `path:"name" maxLength:"64" doc:"Name of the strategy: letters, digits, '.', '_' and '-'"`
}

type getStrategyInput struct {
	StrategyPath
	Version uint32 `query:"version" doc:"Version; absent or 0: the newest. The server keeps the last 100"`
}

// Version 0 is the newest, as an absent parameter reads as 0.
func (x strategies) get(_ context.Context, q *engine.Queue, in *getStrategyInput) (*tagged[api.NamedStrategy], error) {
	found, err := q.Strategies.Get(in.Name, in.Version)
	return answeredTagged(found, found.ETag, err)
}

type putStrategyInput struct {
	StrategyPath
	Conditions
	Body decoded[api.StrategyRequest]
}

// The engine compares canonical forms, so another spelling of the same strategy makes no version, and with it no
// new view.
func (x strategies) put(ctx context.Context, q *engine.Queue,
	in *putStrategyInput) (*taggedCreation[api.NamedStrategy], error) {
	if operationName(in.Name) {
		return nil, queue.Invalid("/path/name",
			"is the name of an operation on strategies (validate, explain, preview, compare); choose another")
	}
	put, created, err := q.Strategies.Put(ctx, in.Name, in.Body.value.Strategy, in.strategyGuard)
	return answeredTaggedCreation(put, put.ETag, created, "/v1/queues/"+in.Queue+"/strategies/"+put.Name, err)
}

// operationName says whether the path of a strategy of this name is that of a present or
// future operation.
func operationName(name string) bool {
	return name == "validate" || name == "explain" || name == "preview" || name == "compare" || name == "in-use"
}

type deleteStrategyInput struct {
	StrategyPath
	Conditions
}

func (x strategies) delete(ctx context.Context, q *engine.Queue, in *deleteStrategyInput) (*struct{}, error) {
	return nil, q.Strategies.Delete(ctx, in.Name, in.strategyGuard)
}

// A block that cannot score at present (its plugin is not active) is a warning and not an error: the strategy is
// valid, and may be stored before its plugin is activated.
func (x strategies) validate(ctx context.Context, q *engine.Queue,
	in *queueBody[api.StrategyRequest]) (*output[api.ValidStrategy], error) {
	read, err := q.Strategies.Read(in.Body.value.Strategy)
	if err != nil {
		return nil, err
	}
	warnings, err := read.Warnings()
	if err != nil {
		return nil, err
	}
	tree, err := read.MarshalJSON()
	if err != nil {
		return nil, err
	}
	out := &output[api.ValidStrategy]{Body: api.ValidStrategy{Strategy: read.String(), Tree: tree, Branches: []string{},
		Warnings: []api.StrategyWarning{}}}
	plan := read.Plan()
	for i := range plan.Branches {
		out.Body.Branches = append(out.Body.Branches, plan.Branches[i].Key())
	}
	for _, why := range x.engine.Unusable(ctx, plan) {
		out.Body.Warnings = append(out.Body.Warnings, api.StrategyWarning(strategy.WarningOf(why)))
	}
	for _, w := range warnings {
		out.Body.Warnings = append(out.Body.Warnings, api.StrategyWarning(w))
	}
	return out, nil
}

// strategyGuard is the engine's question before it changes a strategy.
func (c *Conditions) strategyGuard(now api.NamedStrategy, _ bool) error {
	return c.hold("strategy of this name", now.Version, now.ETag)
}
