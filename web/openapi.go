package web

// The OpenAPI document is made of the code at the start: huma derives it from the input and output
// structs, and shapes below describe what handlers do by themselves. It is kept as a golden file,
// testdata/openapi.json, from which the clients in Python and TypeScript are generated. A change of
// the document therefore changes the clients.
//
// huma's own reading of JSON is not strict: it takes unknown fields and compares names without
// case. So every body is `decoded`, which the strict reader of package wire reads. And huma's
// errors are not our problems: transform turns each into one on its way out.

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"
	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

// document is the OpenAPI document while it is being made.
// huma derives most of it. The aliases below replace types that write their own JSON: by reflection they would look
// like structs with private fields.
//
//	routes ─ register ─► huma: types, tags, limits ┐
//	       └ raw ──────► shapes below ─────────────┴─► document ─► testdata/openapi.json ─► sdk/python, sdk/typescript
//
// Raw operations are those that are too hot for reflection, or stream.
type document struct {
	api    huma.API
	schema huma.Registry
}

// Tags are the sections of the reference, in this order.
func newDocument(e *echo.Echo) *document {
	registry := huma.NewMapRegistry("#/components/schemas/", schemaName)
	for _, alias := range [][2]reflect.Type{
		{reflect.TypeFor[api.Bytes](), reflect.TypeFor[bytesSchema]()},
		{reflect.TypeFor[api.Content](), reflect.TypeFor[contentSchema]()},
		{reflect.TypeFor[api.MetaValue](), reflect.TypeFor[metaValueSchema]()},
		{reflect.TypeFor[api.Meta](), reflect.TypeFor[metaSchema]()},
		{reflect.TypeFor[api.Time](), reflect.TypeFor[timeSchema]()},
		// huma documents its own errors; they leave as ours.
		{reflect.TypeFor[huma.ErrorModel](), reflect.TypeFor[api.Problem]()},
	} {
		registry.RegisterTypeAlias(alias[0], alias[1])
	}
	format := huma.Format{Marshal: marshalJSON, Unmarshal: unmarshalJSON}
	config := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Servers: []*huma.Server{{URL: "/", Description: "The server that this document comes from"}},
			Info: &huma.Info{Title: "Quern", Version: "1",
				License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
				Description: "A queue server for very large batches of work. Errors are application/problem+json. " +
					"Ids and tokens are strings, times are RFC 3339 in UTC with milliseconds, durations are integers " +
					"with the unit in their name."},
			Components: &huma.Components{Schemas: registry, SecuritySchemes: securitySchemes()},
			Tags: []*huma.Tag{
				{Name: tagSubmissions, Description: "Work inserted at once, made of chunks"},
				{Name: tagReservations, Description: "Chunks that consumers hold"},
				{Name: tagRules,
					Description: "Pauses and blocks: work that operators withhold from every strategy"},
				{Name: tagSchedules, Description: "Submissions that the server inserts at set times"},
				{Name: tagConsumers, Description: "Consumers and their chunks, their streams, and operators' " +
					"orders to them"},
				{Name: tagDeadLetters,
					Description: "Chunks out of attempts that can be redriven, forwarded or deleted"},
				{Name: tagBulk, Description: "Actions on many dead letters, retries or submissions, in the " +
					"background"},
				{Name: tagStrategies, Description: "Named strategies, and questions about what any strategy would " +
					"hand out"},
				{Name: tagPlugins, Description: "Uploaded WebAssembly that decides the order"},
				{Name: tagQueues, Description: "Named configurations with their own backlog"},
				{Name: tagAccess, Description: "Access tokens and their scopes"},
				{Name: tagServer, Description: "The server itself"},
			},
		},
		// huma finds the second for every type that ends in +json.
		Formats:       map[string]huma.Format{contentJSON: format, "json": format},
		DefaultFormat: contentJSON,
		Transformers:  []huma.Transformer{transform},
	}
	return &document{api: humaecho.New(e, config), schema: registry}
}

// schemaName names a component. Generators call the answer of an operation by its id
// and "Response", so no component has such a name.
func schemaName(t reflect.Type, hint string) string {
	return answerName(huma.DefaultSchemaNamer(t, hint))
}

// InsertResponse becomes InsertAnswer in the document, since a generator calls the whole answer of the operation
// `insert` InsertResponse already.
func answerName(name string) string {
	if kept, is := strings.CutSuffix(name, "Response"); is {
		return kept + "Answer"
	}
	return name
}

// marshalJSON writes an answer; <, > and & stay as they are, because nothing here is put into HTML.
func marshalJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// decoded is a body that is read by the strict reader instead of huma's: unknown and repeated
// fields are refused with their pointers, names are compared exactly, depth is bounded.
// The failure is kept and returned later by the handler's frame (problem), because huma would turn an error here
// into one of its own, without the pointer.
type decoded[T any] struct {
	value  T
	failed error
	body   []byte // of a failed read
}

func (d *decoded[T]) decode(data []byte) {
	if d.failed = asText(data); d.failed != nil {
		return
	}
	if d.failed = wire.Decode(data, &d.value); d.failed != nil {
		d.body = append([]byte(nil), data...)
	}
}

// problem is why the body could not be read; nil: it could.
func (d *decoded[T]) problem() error {
	if d.body == nil {
		return d.failed
	}
	return wireProblem[T](d.failed, d.body, contentJSON)
}

// Schema is that of the value.
func (d *decoded[T]) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[T](), true, "")
}

// It fails for a body that is not `decoded`. A test of all operations finds such a body, so none can be read less
// strictly by mistake.
func unmarshalJSON(data []byte, v any) error {
	strict, ok := v.(interface{ decode(data []byte) })
	if !ok {
		return fmt.Errorf("web: %T is not read strictly: wrap the body in decoded", v)
	}
	strict.decode(data)
	return nil
}

// transform sees every answer of huma's and makes its errors ours.
func transform(ctx huma.Context, _ string, v any) (any, error) {
	var p *problem
	switch v := v.(type) {
	case *huma.ErrorModel:
		p = fromHuma(v)
	case *problem:
		p = v
	default:
		return v, nil
	}
	c := unwrap(ctx)
	if body, is := c.Get(brokenKey).(*arriving); is && body.broken != nil {
		p = body.broken // huma knows only that the body could not be read
		ctx.SetStatus(p.Status)
	}
	p.RequestID = c.Response().Header().Get(headerRequestID)
	c.Set(problemKey, p)
	return p, nil
}

// unwrap is the only place that turns huma's context into echo's.
func unwrap(ctx huma.Context) echo.Context { return humaecho.Unwrap(ctx) }

// describe starts the description of an operation with the parts that all operations have. Every
// refusal is a Problem, so generated clients need one error type and not one for each operation.
func (d *document) describe(op operation) huma.Operation {
	problem := &huma.Response{
		Description: "The problem, and what to do",
		Content:     map[string]*huma.MediaType{contentProblem: {Schema: d.ref(reflect.TypeFor[api.Problem]())}},
	}
	return huma.Operation{
		OperationID: op.id, Method: op.method, Path: op.path, Tags: []string{op.tag}, Summary: op.summary,
		Description: op.about,
		Parameters:  op.params, Extensions: map[string]any{"x-scope": scopeText(op)}, Security: securityOf(op),
		Responses: map[string]*huma.Response{anyRefusal: problem, "default": problem},
	}
}

// anyRefusal stands for every status of a refusal, for generators that look for one.
const anyRefusal = "4XX"

// lines documents a text body, whose lines or events are each JSON of one of these
// types. In JSON Schema, contentSchema is the schema of the JSON inside a string.
func (d *document) lines(about string, types ...reflect.Type) *huma.MediaType {
	refs := make([]*huma.Schema, len(types))
	for i, t := range types {
		refs[i] = d.ref(t)
	}
	item := refs[0]
	if len(refs) > 1 {
		item = &huma.Schema{OneOf: refs}
	}
	return &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Description: about,
		Extensions: map[string]any{"contentMediaType": contentJSON, "contentSchema": item}}}
}

func (d *document) ref(t reflect.Type) *huma.Schema { return d.schema.Schema(t, true, "") }

func (d *document) body(t reflect.Type) *huma.RequestBody {
	return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{contentJSON: {Schema: d.ref(t)}}}
}

func (d *document) answer(t reflect.Type, status int) *huma.Response {
	return &huma.Response{Description: http.StatusText(status),
		Content: map[string]*huma.MediaType{contentJSON: {Schema: d.ref(t)}}}
}

// queueParam is the path parameter of operations that huma does not see.
func queueParam() *huma.Param {
	most := queue.MaxQueueNameBytes
	return &huma.Param{Name: "queue", In: "path", Required: true, Description: "Name of the queue",
		Schema: &huma.Schema{Type: huma.TypeString, MaxLength: &most}}
}

func durabilityHeader() map[string]*huma.Param {
	return map[string]*huma.Param{headerDurability: {
		Description: "relaxed: the answer came before the data was on disk",
		Schema:      &huma.Schema{Type: huma.TypeString}}}
}

func insertShape(d *document, op *huma.Operation) {
	text := &huma.Schema{Type: huma.TypeString}
	op.Parameters = append(op.Parameters, queueParam(),
		&huma.Param{Name: "Idempotency-Key", In: "header", Description: "1 to " +
			strconv.Itoa(queue.MaxIdempotencyKey) +
			" printable ASCII characters, kept for 24 hours. It stands for what the request " +
			"means, however it is written", Schema: text},
		&huma.Param{Name: "traceparent", In: "header",
			Description: "W3C trace context, handed on with every reservation", Schema: text},
		&huma.Param{Name: "tracestate", In: "header", Schema: text})
	op.RequestBody = d.body(reflect.TypeFor[api.NewSubmission]())
	op.RequestBody.Content[contentLines] = d.lines("JSON lines: first NewSubmissionHead, then Bytes per chunk",
		reflect.TypeFor[api.NewSubmissionHead](), reflect.TypeFor[api.Bytes]())
	for _, status := range []int{http.StatusCreated, http.StatusOK} {
		answer := d.answer(reflect.TypeFor[api.Submission](), status)
		answer.Headers = durabilityHeader()
		answer.Headers["Location"] = &huma.Param{Description: "Path of the submission", Schema: text}
		if status == http.StatusOK {
			answer.Description = "Inserted before by a request with the same Idempotency-Key, or holding the " +
				"unique key: the submission as it is now"
			answer.Headers[headerExisting] = &huma.Param{Description: "true: it holds the unique key", Schema: text}
			answer.Headers[headerReplayed] = &huma.Param{Description: "true", Schema: text}
		}
		op.Responses[strconv.Itoa(status)] = answer
	}
}

func insertManyShape(d *document, op *huma.Operation) {
	text := &huma.Schema{Type: huma.TypeString}
	op.Parameters = append(op.Parameters, queueParam(),
		&huma.Param{Name: "traceparent", In: "header", Schema: text,
			Description: "W3C trace context of the submissions that have no trace of their own"},
		&huma.Param{Name: "tracestate", In: "header", Schema: text})
	op.RequestBody = d.body(reflect.TypeFor[api.InsertManyRequest]())
	op.RequestBody.Content[contentLines] = d.lines("JSON lines: one BatchSubmission per line",
		reflect.TypeFor[api.BatchSubmission]())
	op.Responses["200"] = d.answer(reflect.TypeFor[api.InsertManyResponse](), http.StatusOK)
	op.Responses["200"].Headers = durabilityHeader()
}

func reserveShape(d *document, op *huma.Operation) {
	op.Parameters = append(op.Parameters, queueParam())
	op.RequestBody = d.body(reflect.TypeFor[api.ReserveRequest]())
	op.Responses["200"] = d.answer(reflect.TypeFor[api.ReserveResponse](), http.StatusOK)
}

// Complete, fail, extend and release differ only in their bodies: each answers with a result per item, in their order.
func finishShape[T any]() func(*document, *huma.Operation) {
	return func(d *document, op *huma.Operation) {
		op.Parameters = append(op.Parameters, queueParam())
		op.RequestBody = d.body(reflect.TypeFor[T]())
		op.Responses["200"] = d.answer(reflect.TypeFor[api.ResultsResponse](), http.StatusOK)
		op.Responses["200"].Headers = durabilityHeader()
	}
}

func exchangeShape(d *document, op *huma.Operation) {
	op.Parameters = append(op.Parameters, queueParam())
	op.RequestBody = d.body(reflect.TypeFor[api.ExchangeRequest]())
	op.Responses["200"] = d.answer(reflect.TypeFor[api.ExchangeResponse](), http.StatusOK)
	op.Responses["200"].Headers = durabilityHeader()
}

func outputsShape(d *document, op *huma.Operation) {
	op.Parameters = append(op.Parameters, &huma.Param{Name: "id", In: "path", Required: true,
		Description: "Id of the submission", Schema: &huma.Schema{Type: huma.TypeString}})
	op.Responses["200"] = &huma.Response{Description: "JSON lines of Output", Content: map[string]*huma.MediaType{
		contentLines: d.lines("One Output per line", reflect.TypeFor[api.Output]())}}
}

func textShape(media string) func(*document, *huma.Operation) {
	return func(_ *document, op *huma.Operation) {
		op.Responses["200"] = &huma.Response{Description: http.StatusText(http.StatusOK),
			Content: map[string]*huma.MediaType{
				media: {Schema: &huma.Schema{Type: huma.TypeString}}}}
	}
}
