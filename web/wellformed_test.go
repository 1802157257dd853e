package web

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// Every operation with a JSON body refuses one that is declared as something else, is compressed or is not UTF-8, also
// in a queue of several shards, and names a field that it cannot read. Otherwise, it could read something else than the client sent. Every operation with
// a query refuses one that it cannot read, and a parameter that comes twice.
func TestEveryOperationRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if got := f.send(call{method: "PUT", path: "/v1/queues/orders", body: `{"settings":{"shards":2}}`}); got.status != http.StatusCreated {
		t.Fatalf("a queue of 2 shards: got %d %s", got.status, got.body)
	}
	var document struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Name, In string
				Schema   struct{ Type any }
			}
			RequestBody struct {
				Content map[string]struct{ Schema *jsonSchema }
			}
		}
		Components struct{ Schemas map[string]*jsonSchema }
	}
	if err := json.Unmarshal(documentOf(t, f.server), &document); err != nil {
		t.Fatal(err)
	}
	// refused sends a field with a value that no field has: the answer must name the field, or another one that
	// the call needs.
	refused := func(method, at, name, field string, all map[string]bool) {
		body := fmt.Sprintf(`{%q:[[{"zz":[]}]]}`, field)
		if all["queue"] && field != "queue" {
			body = fmt.Sprintf(`{"queue":%q,%s`, name, body[1:])
		}
		got := f.send(call{method: method, path: at, body: body})
		named := strings.Contains(string(got.body), `"/`+field) || strings.Contains(string(got.body), "is required") || got.status == http.StatusNotFound
		if got.status >= http.StatusInternalServerError || !named {
			t.Errorf("%s %s with %s: got %d %s, want a refusal that names the field", method, at, body, got.status, got.body)
		}
	}
	bodies, queries, fields := 0, 0, 0
	for _, name := range []string{"default", "orders"} {
		fill := strings.NewReplacer("{queue}", name, "{id}", "7", "{submission}", "7", "{index}", "0", "{version}", "1", "{shard}", "1",
			"{page}", "START", "{", "", "}", "")
		for path, methods := range document.Paths {
			for method, op := range methods {
				method, at := strings.ToUpper(method), fill.Replace(path)
				check := func(what string, one call, status int, code queue.Code) {
					one.method = method
					if got := f.send(one); got.status != status || got.problem(t).Code != string(code) {
						t.Errorf("%s %s with %s: got %d %s, want %d %s", method, at, what, got.status, got.body, status, code)
					}
				}
				if content, reads := op.RequestBody.Content[contentJSON]; reads {
					bodies++
					body := `{"queue":"` + name + `"}`
					for what, header := range map[string]map[string]string{
						"no type": {"Content-Type": ""}, "text": {"Content-Type": "text/plain"},
						"UTF-16": {"Content-Type": "application/json; charset=utf-16"},
						"gzip":   {"Content-Type": contentJSON, "Content-Encoding": "gzip"},
					} {
						check(what, call{path: at, body: body, header: header}, http.StatusUnsupportedMediaType, codeMediaType)
					}
					check("Latin-1", call{path: at, body: "{\"queue\":\"" + name + "\",\"zz\":\"caf\xe9\"}"}, http.StatusBadRequest, codeMalformed)
					all := content.Schema.fields(document.Components.Schemas)
					for field := range all {
						fields++
						refused(method, at, name, field, all)
					}
				}
				for _, p := range op.Parameters {
					if p.In != "query" || p.Name == "meta" {
						continue
					}
					queries++
					check("an escape that is none", call{path: at + "?" + p.Name + "=%zz", body: "{}"}, http.StatusUnprocessableEntity, queue.CodeInvalid)
					if p.Schema.Type != "array" {
						check(p.Name+" twice", call{path: at + "?" + p.Name + "=1&" + p.Name + "=2", body: "{}"}, http.StatusUnprocessableEntity, queue.CodeInvalid)
					}
				}
			}
		}
	}
	if bodies < 70 || queries < 200 || fields < 200 {
		t.Errorf("%d bodies, %d of their fields and %d parameters were tried; want those of all operations", bodies, fields, queries)
	}
}

// jsonSchema is the part of a schema of the document that says which fields an object has.
type jsonSchema struct {
	Ref        string `json:"$ref"`
	Properties map[string]any
	AllOf      []*jsonSchema
}

// fields are those of an object, and one that it does not have.
func (s *jsonSchema) fields(all map[string]*jsonSchema) map[string]bool {
	list := map[string]bool{"zz": true}
	if s.Ref != "" {
		s = all[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
	}
	for name := range s.Properties {
		list[name] = true
	}
	for _, part := range s.AllOf {
		maps.Copy(list, part.fields(all))
	}
	return list
}
