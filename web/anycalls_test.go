//quern:overlapping
package web

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/wasm/manifest"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// anyCalls draws calls from the document of the API. Its values fit their schemas, and often name something that is there.
type anyCalls struct {
	*fixture
	operations []anyOperation
	over       *httptest.Server // over HTTP/2; nil: there are nodes, and each call goes to one of them
	module     string           // of a plugin

	mu   sync.Mutex
	seen map[string][]string // what answers contained, by field: ids and tokens
}

type anyOperation struct {
	method, path string
	*openapi3.Operation
}

// words are values of fields and parameters by their names. The others get numbers, or one of a few short texts.
var words = map[string][]string{
	"queue": {"default", "orders", "mails"}, "strategy": {"Random", "OldestFirst", `MaxSimultaneous("company",3,Random)`,
		`OrElse(Plugin("scorer",CustomPriority),Random)`, `Fair("company",Random)`, `MaxRate("company",50,"1s",Random)`,
		`SelectOnly("company","a",Random)`, `PreferDistinct("company",Random)`},
	"plugin": {"scorer"}, "version": {"1.0.0"}, "key": {"company"}, "company": {"a", "b"}, "group": {"g1", "g2", "g3"}, "spec": {"* * * * *"},
	"consumer": {"w1", "w2"}, "cursor": {""}, "index": {"0", "1"}, "shard": {"1", "2"}, "page": {"START"}, "prefix": {"p/"},
}

// anyBodies are those of calls on which others depend. Half of these calls have them.
var anyBodies = map[string]string{
	"insert":          `{"meta":{"company":"a"},"chunks":{"count":3,"prefix":"p/"},"operations_per_chunk":3}`,
	"insert-batch":    `{"submissions":[{"meta":{"company":"b"},"chunks":{"count":4000000000,"prefix":"p/"}},{"group":"g1","chunks":{"count":2,"prefix":"p/"}}]}`,
	"reserve":         `{"max":3,"strategy":"Random","consumer":"w1"}`,
	"activate-plugin": `{"version":"1.0.0"}`, "canary-plugin": `{"version":"1.0.0","percent":5}`,
	"put-schedule": `{"spec":"* * * * *","template":{"chunks":{"count":2,"prefix":"p/"}}}`,
	"set-rule":     `{"action":"pause","match":{"meta":{"company":"a"}},"reason":"late"}`,
}

// others are operations that need a server of their own: from the first token on, calls need one; and a backup takes all turns.
var others = regexp.MustCompile(`token|session|backup`)

func newAnyCalls(t *testing.T) *anyCalls {
	f := newFixture(t)
	f.do("PUT", "/v1/queues/orders", `{"settings":{"shards":2,"reservation_timeout_ms":3000}}`, http.StatusCreated, nil)
	f.do("PUT", "/v1/queues/mails", `{"settings":{"max_attempts":1}}`, http.StatusCreated, nil)
	module, err := manifest.Pack(wasmtest.Scorer(), []byte(declared("scorer", "1.0.0", "priority", "age_ms")))
	if err != nil {
		t.Fatal(err)
	}
	a := &anyCalls{fixture: f, module: string(module), seen: map[string][]string{}}
	if f.crew == nil {
		a.over = f.overHTTP2()
	}
	for path, item := range loadDocument(t, documentOf(t, f.server)).Paths.Map() {
		for method, op := range item.Operations() {
			if !others.MatchString(op.OperationID) {
				a.operations = append(a.operations, anyOperation{method, path, op})
			}
		}
	}
	slices.SortFunc(a.operations, func(x, y anyOperation) int { return strings.Compare(x.path+x.method, y.path+y.method) })
	return a
}

// keep notes the ids and tokens in an answer.
func (a *anyCalls) keep(name string, v any) {
	switch v := v.(type) {
	case map[string]any:
		if id, is := v["id"].(string); is && v["chunks"] != nil {
			a.keep("submission", id)
		}
		for name, one := range v {
			a.keep(name, one)
		}
	case []any:
		for _, one := range v {
			a.keep(name, one)
		}
	case string:
		if list := a.seen[name]; (name == "id" || name == "submission" || name == "token") && len(list) < 1000 {
			a.seen[name] = append(list, v)
		}
	}
}

func (a *anyCalls) text(r *rand.Rand, name string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, list := range [][]string{words[name], a.seen[name]} {
		if len(list) > 0 {
			return list[r.IntN(len(list))]
		}
	}
	return []string{"a", "b", "s1", "scorer"}[r.IntN(4)]
}

// value draws a value that fits a schema, down to some depth.
func (a *anyCalls) value(r *rand.Rand, s *openapi3.Schema, name string, depth int) any {
	switch {
	case depth > 6:
		return nil
	case len(s.Enum) > 0:
		return s.Enum[r.IntN(len(s.Enum))]
	case len(s.OneOf)+len(s.AnyOf) > 0:
		all := slices.Concat(s.OneOf, s.AnyOf)
		return a.value(r, all[r.IntN(len(all))].Value, name, depth+1)
	case s.Type.Includes("string"):
		return a.text(r, name)
	case s.Type.Includes("integer"), s.Type.Includes("number"):
		return number(r, s)
	case s.Type.Includes("boolean"):
		return r.IntN(2) == 0
	case s.Type.Includes("array"):
		list := []any{}
		for range r.IntN(3) + 1 {
			list = append(list, a.value(r, s.Items.Value, name, depth+1))
		}
		return list
	}
	object := map[string]any{}
	for field, of := range s.Properties {
		if slices.Contains(s.Required, field) || r.IntN(3) == 0 {
			object[field] = a.value(r, of.Value, field, depth+1)
		}
	}
	for _, of := range s.AllOf {
		if part, is := a.value(r, of.Value, name, depth+1).(map[string]any); is {
			for field, v := range part {
				object[field] = v
			}
		}
	}
	if len(object) == 0 && (name == "meta" || name == "match") {
		object["company"] = a.text(r, "company")
	}
	return object
}

// number is mostly a small one, and sometimes the least or the largest.
func number(r *rand.Rand, s *openapi3.Schema) int64 {
	least, most := int64(0), int64(1)<<53
	if s.Min != nil {
		least = int64(*s.Min)
	}
	if s.Max != nil && *s.Max < float64(most) {
		most = int64(*s.Max)
	}
	switch r.IntN(8) {
	case 0:
		return least
	case 1:
		return most
	}
	return min(most, max(0, least)+r.Int64N(100))
}

// call makes one call. It may hang up, and it does from streams.
func (a *anyCalls) call(r *rand.Rand) {
	op := a.operations[r.IntN(len(a.operations))]
	if op.OperationID == "delete-queue" && r.IntN(10) > 0 {
		return
	}
	path, query := op.path, url.Values{}
	for _, of := range op.Parameters {
		p := of.Value
		switch text := fmt.Sprint(a.value(r, p.Schema.Value, p.Name, 0)); {
		case p.In == "path" && p.Name == "name" && r.IntN(10) > 0:
			path = strings.Replace(path, "{name}", "scorer", 1)
		case p.In == "path" && strings.HasPrefix(path, "/v1/submissions/{id}"):
			path = strings.Replace(path, "{id}", a.text(r, "submission"), 1)
		case p.In == "path" && len(words[p.Name]) > 0:
			path = strings.Replace(path, "{"+p.Name+"}", a.text(r, p.Name), 1)
		case p.In == "path":
			path = strings.Replace(path, "{"+p.Name+"}", url.PathEscape(text), 1)
		case p.In == "query" && p.Name != "wait_ms" && r.IntN(4) == 0:
			query.Set(p.Name, text)
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	body, media := "", contentJSON
	if op.RequestBody != nil {
		if of := op.RequestBody.Value.Content[contentJSON]; of != nil {
			text, err := json.Marshal(a.value(r, of.Schema.Value, "", 0))
			if err != nil {
				a.Error(err)
			}
			body = string(text)
			if ready := anyBodies[op.OperationID]; ready != "" && r.IntN(2) == 0 {
				body = ready
			}
		} else {
			media, body = contentWasm, a.module
		}
	}
	patience := 10 * time.Second
	if r.IntN(4) == 0 || regexp.MustCompile(`event|follow|attach|stream|wait`).MatchString(op.OperationID) {
		patience = time.Duration(r.IntN(50)) * time.Millisecond
	}
	a.send(r, op.method, path, body, media, patience)
}

func (a *anyCalls) send(r *rand.Rand, method, path, body, media string, patience time.Duration) {
	ctx, goAway := context.WithTimeout(a.Context(), patience)
	defer goAway()
	client, base := http.DefaultClient, "http://"+a.address
	switch {
	case a.crew != nil:
		base = a.crew.list[r.IntN(len(a.crew.list))].url
	case r.IntN(3) > 0:
		client, base = a.over.Client(), a.over.URL
	}
	request, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(body))
	if err != nil {
		a.Error(err)
		return
	}
	request.Header.Set("Content-Type", media)
	answer, err := client.Do(request)
	if err != nil {
		if ctx.Err() == nil {
			a.Errorf("%s %s %s: %v", method, path, body, err)
		}
		return
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if answer.StatusCode == http.StatusInternalServerError {
		a.Errorf("%s %s %s: %s", method, path, body, text)
	}
	var read any
	if json.Unmarshal(text, &read) == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.keep("", read)
	}
}

// Many clients make any calls at once, with all kinds of values, over HTTP/1 and HTTP/2 or to any node of a cluster, and hang up when they
// like. No call fails in the server, nothing is logged as its failure, and all counters are right in the end. QUERN_ANY_CALLS is how many
// calls each client makes.
func TestAnyCalls(t *testing.T) {
	t.Parallel()
	calls, clients := 150, uint64(8)
	if text := os.Getenv("QUERN_ANY_CALLS"); text != "" {
		var err error
		if calls, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	a := newAnyCalls(t)
	var all sync.WaitGroup
	for client := range clients {
		r := rand.New(rand.NewPCG(seed, client))
		all.Go(func() {
			for range calls {
				a.call(r)
			}
		})
	}
	all.Wait()
	for _, line := range regexp.MustCompile(`.*level=ERROR.*`).FindAllString(a.log.String(), -1) {
		t.Error(line)
	}
	engines := []*engine.Engine{a.engine}
	if a.crew != nil {
		engines = a.crew.engines()
	}
	for _, e := range engines {
		for _, q := range e.Queues() {
			if e.ShardsOf(q.Name) > 1 || a.crew != nil && e.Nodes().Elsewhere(q.Name) != nil { // its shards are in the list, or another node has it
				continue
			}
			if _, err := e.Storage().Verify(t.Context(), q.Name, func(f engine.Fault) { t.Errorf("%+v", f) }); err != nil {
				t.Errorf("queue %s: %v", q.Name, err)
			}
		}
	}
}
