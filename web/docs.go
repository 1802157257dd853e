package web

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"
)

//go:embed docs.html
var docsTemplate string

//go:embed docs.css
var docsStyle string

// docsPage is what docs.html shows.
type docsPage struct {
	Title, About string
	Style        template.CSS
	Groups       []docsGroup
	Schemas      []docsSchema
	Problems     []docsProblem
}

type docsGroup struct {
	Name, About string
	Operations  []docsOperation
}

type docsOperation struct {
	ID, Method, Path, Scope, Summary, About string
	Parameters                              []docsField
	Bodies, Answers                         []docsBody
}

// docsBody is one media type of a request, or one status of an answer with one media type.
type docsBody struct{ Status, Media, Schema, About string }

type docsField struct {
	Name, Where, Type, Schema, About string
	Required                         bool
}

type docsSchema struct {
	Name, About string
	Fields      []docsField
	Forms       []string
}

type docsProblem struct {
	Code, Title, Advice string
	Status              int
}

// renderDocs makes the reference page from the document, once. It needs no script, so that it works under a policy that
// allows none; its one style sheet is allowed by its hash.
func (s *Server) renderDocs(from *huma.OpenAPI) error {
	page := docsPage{Title: from.Info.Title, About: from.Info.Description, Style: template.CSS(docsStyle)}
	operations := operationsOf(from)
	for _, tag := range from.Tags {
		group := docsGroup{Name: tag.Name, About: tag.Description}
		for _, op := range operations {
			if op.Tags[0] == tag.Name {
				group.Operations = append(group.Operations, docsOperationOf(op))
			}
		}
		page.Groups = append(page.Groups, group)
	}
	for _, name := range slices.Sorted(maps.Keys(from.Components.Schemas.Map())) {
		page.Schemas = append(page.Schemas, docsSchemaOf(name, from.Components.Schemas.Map()[name]))
	}
	for _, k := range kinds() {
		if k.advice != "" {
			page.Problems = append(page.Problems, docsProblem{Code: string(k.code), Title: k.title, Advice: k.advice, Status: k.status})
		}
	}
	parsed, err := template.New("docs").Parse(docsTemplate)
	if err != nil {
		return fmt.Errorf("web: docs: %w", err)
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, page); err != nil {
		return fmt.Errorf("web: docs: %w", err)
	}
	s.docs = out.Bytes()
	sum := sha256.Sum256([]byte(docsStyle))
	s.docsPolicy = strictPolicy + "; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	return nil
}

// operationsOf lists the operations by path, then by method.
func operationsOf(from *huma.OpenAPI) []*huma.Operation {
	var all []*huma.Operation
	for _, item := range from.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if op != nil {
				all = append(all, op)
			}
		}
	}
	slices.SortFunc(all, func(a, b *huma.Operation) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Method, b.Method))
	})
	return all
}

func docsOperationOf(op *huma.Operation) docsOperation {
	scope, _ := op.Extensions["x-scope"].(string)
	out := docsOperation{ID: op.OperationID, Method: op.Method, Path: op.Path, Scope: scope, Summary: op.Summary, About: op.Description}
	for _, p := range op.Parameters {
		out.Parameters = append(out.Parameters,
			docsField{Name: p.Name, Where: p.In, Type: typeName(p.Schema), About: p.Description, Required: p.Required})
	}
	if op.RequestBody != nil {
		for _, media := range slices.Sorted(maps.Keys(op.RequestBody.Content)) {
			s := op.RequestBody.Content[media].Schema
			out.Bodies = append(out.Bodies, docsBody{Media: media, Schema: refName(s), About: s.Description})
		}
	}
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		response := op.Responses[status]
		if status == "default" {
			continue // the same everywhere: the page says it once
		}
		if len(response.Content) == 0 {
			out.Answers = append(out.Answers, docsBody{Status: status, About: response.Description})
		}
		for _, media := range slices.Sorted(maps.Keys(response.Content)) {
			out.Answers = append(out.Answers, docsBody{Status: status, Media: media,
				Schema: refName(response.Content[media].Schema), About: response.Description})
		}
	}
	return out
}

func docsSchemaOf(name string, s *huma.Schema) docsSchema {
	out := docsSchema{Name: name, About: s.Description}
	for _, property := range slices.Sorted(maps.Keys(s.Properties)) {
		at := s.Properties[property]
		out.Fields = append(out.Fields, docsField{Name: property, Type: typeName(at), Schema: refName(at),
			About: at.Description, Required: slices.Contains(s.Required, property)})
	}
	for _, form := range s.OneOf {
		out.Forms = append(out.Forms, formName(form))
	}
	return out
}

// refName is the component that a schema or the items of a list refer to, or "".
func refName(s *huma.Schema) string {
	if s == nil {
		return ""
	}
	if s.Items != nil {
		s = s.Items
	}
	return strings.TrimPrefix(s.Ref, "#/components/schemas/")
}

// typeName is a type in a few characters.
func typeName(s *huma.Schema) string {
	switch {
	case s.Items != nil:
		return "list of " + typeName(s.Items)
	case s.Ref != "":
		return refName(s)
	case len(s.Enum) > 0:
		names := make([]string, len(s.Enum))
		for i, value := range s.Enum {
			names[i] = fmt.Sprint(value)
		}
		return strings.Join(names, " | ")
	case s.Format == "date-time":
		return "time"
	}
	return s.Type + rangeName(s)
}

func rangeName(s *huma.Schema) string {
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		return fmt.Sprintf(" %.0f to %.0f", *s.Minimum, *s.Maximum)
	case s.MaxLength != nil:
		return fmt.Sprintf(", at most %d bytes", *s.MaxLength)
	}
	return ""
}

func formName(s *huma.Schema) string {
	if len(s.Required) == 0 {
		return s.Type
	}
	return `{"` + s.Required[0] + `": ...}`
}

// getDocs is GET /docs.
func (s *Server) getDocs(c echo.Context) error {
	c.Response().Header().Set("Content-Security-Policy", s.docsPolicy)
	return c.Blob(http.StatusOK, "text/html; charset=utf-8", s.docs)
}
