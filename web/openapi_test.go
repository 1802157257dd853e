package web

import (
	"bytes"
	"context"
	"flag"
	"os"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

const goldenDocument = "testdata/openapi.json"

// The document that the code makes is the one under version control: a change of the interface is seen in a review.
func TestDocumentIsGolden(t *testing.T) {
	t.Parallel()
	got := documentOf(t, bareServer(t))
	if *rewrite {
		if err := os.WriteFile(goldenDocument, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(goldenDocument)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the document differs from %s from line %d on; if that is meant: go test ./web -run Golden -rewrite", goldenDocument, firstDifference(got, want))
	}
}

// documentOf is the document of a server.
func documentOf(t testing.TB, s *Server) []byte {
	t.Helper()
	document, err := s.Document()
	if err != nil {
		t.Fatal(err)
	}
	return document
}

func firstDifference(a, b []byte) int {
	left, right := bytes.Split(a, []byte("\n")), bytes.Split(b, []byte("\n"))
	for i := range min(len(left), len(right)) {
		if !bytes.Equal(left[i], right[i]) {
			return i + 1
		}
	}
	return min(len(left), len(right)) + 1
}

func loadDocument(t testing.TB, text []byte) *openapi3.T {
	t.Helper()
	loader := openapi3.NewLoader()
	doc, err := loader.LoadFromData(text)
	if err != nil {
		t.Fatalf("load the document: %v", err)
	}
	return doc
}

// The document is valid OpenAPI 3.1, and every operation has its scope and its description.
func TestDocumentIsComplete(t *testing.T) {
	t.Parallel()
	s := bareServer(t)
	doc := loadDocument(t, documentOf(t, s))
	if err := doc.Validate(context.Background()); err != nil {
		t.Errorf("validate the document: %v", err)
	}
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("openapi: got %q, want 3.1.0", doc.OpenAPI)
	}
	documented := 0
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			documented++
			if op.Security == nil || len(*op.Security) == 0 {
				t.Errorf("%s %s says nothing of who may do it", method, path)
			}
			if op.OperationID == "" || op.Summary == "" || len(op.Tags) != 1 {
				t.Errorf("%s %s: operationId %q, summary %q, tags %v: all must be set", method, path, op.OperationID, op.Summary, op.Tags)
			}
			if op.Responses.Default() == nil || op.Responses.Default().Value.Content[contentProblem] == nil {
				t.Errorf("%s %s: no problem+json as the default answer", method, path)
			}
			known := s.operations[echoPath(path)][method]
			if known != nil && op.Extensions["x-scope"] != scopeText(*known) {
				t.Errorf("%s %s: x-scope is %v, want %q", method, path, op.Extensions["x-scope"], scopeText(*known))
			}
			if known == nil || known.id != op.OperationID {
				t.Errorf("%s %s: the route table has %+v, the document %s", method, path, known, op.OperationID)
			}
		}
	}
	routed := 0
	for _, route := range s.echo.Routes() {
		if route.Method != "HEAD" {
			routed++
		}
	}
	if documented != routed {
		t.Errorf("%d operations are documented, %d are routed", documented, routed)
	}
}
