package web

// Pages for people: the OpenAPI document, the reference that is made of it, and the documents of
// docs/ with their search (web/site).
//
// They are made when they are first asked for, because most servers are never asked. They need no
// script, and their Content-Security-Policy allows none but the hashed style: a script that
// someone pasted into a document must not run in the origin of the dashboard, where it would have
// the session of an operator.
//
//	web/testdata/openapi.json ◄─ huma.OpenAPI ─► docsPage ─► /docs/api      (docs.html)
//	                                                └─ parts ─┐
//	docs/*.md ───────────────────────────► site.Site ◄────────┘ ─► /docs, /docs/{page}, /docs/search

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/docs"
	"github.com/quern-queue/quern/web/site"
)

//go:embed docs.html
var docsTemplate string

//go:embed docs.css
var docsStyle string

const contentOpenAPI = "application/openapi+json"

// docsPages are the document, and the pages for people. Each is made when it is first asked
// for: most servers are never asked, and making them takes longer than the rest of a start.
type docsPages struct {
	document  func() ([]byte, error)     // the OpenAPI document
	home      func() ([]byte, error)     // the page Start, with the problems: their types are /docs#CODE
	reference func() ([]byte, error)     // made of the OpenAPI document
	policy    string                     // Content-Security-Policy of all of them
	site      func() (*site.Site, error) // the documents
}

// routes are the part of the table about them.
func (p *docsPages) routes(r *router) {
	r.raw(operation{id: "openapi", method: "GET", path: "/openapi.json", scope: scopeRead, narrow: free, tag: tagServer,
		compress: true, summary: "This document"}, textShape(contentOpenAPI), p.getDocument)
	r.raw(operation{id: "docs", method: "GET", path: "/docs", scope: scopeRead, narrow: free, tag: tagServer,
		compress: true,
		summary:  "The first page of the documents, and the codes of problems"}, textShape("text/html"), p.getHome)
	r.raw(operation{id: "docs-page", method: "GET", path: "/docs/{page}", scope: scopeRead, narrow: free,
		tag: tagServer, compress: true,
		summary: "A page of the documents, or a search in them"}, docsPageShape, p.getPage)
}

// docsPage has the contents of docs.html.
type docsPage struct {
	Title, About string
	Style        template.CSS
	Groups       []docsGroup
	Schemas      []docsSchema
	Problems     []docsProblem
}

// docsGroup is a section of the reference: the operations of one tag, in the order of their paths.
type docsGroup struct {
	Name, About string
	Operations  []docsOperation
}

// docsOperation has only texts. The template decides nothing, so the page can be tested as a value.
type docsOperation struct {
	ID, Method, Path, Scope, Summary, About string
	Parameters                              []docsField
	Bodies, Answers                         []docsBody
}

// docsBody is one media type of a request, or one status of an answer with one media type.
type docsBody struct{ Status, Media, Schema, About string }

// docsField is a parameter of an operation or a field of a schema; Where is empty for the second.
type docsField struct {
	Name, Where, Type, Schema, About string
	Required                         bool
}

// docsSchema has either fields, or the forms of which a value has exactly one (oneOf).
type docsSchema struct {
	Name, About string
	Fields      []docsField
	Forms       []string
}

// docsProblem is one row of kinds that a client can meet; those without advice never reach a client.
type docsProblem struct {
	Code, Title, Advice string
	Status              int
}

// newDocsPages are made of the document, once it is complete, and of the files in docs.
func newDocsPages(from *huma.OpenAPI) *docsPages {
	// Everything below is lazy and made once. sync.OnceValues also keeps an error: a broken template fails each
	// request in the same way, and a test finds it with the first one.
	page := sync.OnceValue(func() *docsPage { return docsPageOf(from) })
	documents := sync.OnceValues(func() (*site.Site, error) { return site.New(docs.Files, docsStyle, page().parts()) })
	sum := sha256.Sum256([]byte(docsStyle))
	return &docsPages{
		document: sync.OnceValues(func() ([]byte, error) {
			text, err := json.MarshalIndent(from, "", "  ")
			if err != nil {
				return nil, fmt.Errorf("web: openapi: %w", err)
			}
			return append(text, '\n'), nil
		}),
		home: sync.OnceValues(func() ([]byte, error) {
			made, err := documents()
			if err != nil {
				return nil, err
			}
			problems, err := page().render("problems")
			if err != nil {
				return nil, err
			}
			return made.Home(template.HTML(problems))
		}),
		reference: sync.OnceValues(func() ([]byte, error) { return page().render("docs") }),
		// The search is a plain HTML form, so a form may go to this origin, and to no other. The style is allowed
		// by its hash and not by 'self', because a page must not load a file that someone could replace.
		policy: strings.Replace(strictPolicy, "form-action 'none'", "form-action 'self'", 1) + // of the search
			"; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'",
		site: documents,
	}
}

// docsPageOf makes the reference page of a document.
func docsPageOf(from *huma.OpenAPI) *docsPage {
	page := &docsPage{Title: from.Info.Title, About: from.Info.Description, Style: template.CSS(docsStyle)}
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
			page.Problems = append(page.Problems, docsProblem{Code: string(k.code), Title: k.title, Advice: k.advice,
				Status: k.status})
		}
	}
	return page
}

// render makes the reference page ("docs"), or only its table of problems. It needs no script,
// so that it works under a policy that allows none; its one style sheet is allowed by its hash.
func (p *docsPage) render(part string) ([]byte, error) {
	parsed, err := template.New("docs").Parse(docsTemplate)
	if err != nil {
		return nil, fmt.Errorf("web: docs: %w", err)
	}
	var out bytes.Buffer
	if err := parsed.ExecuteTemplate(&out, part, p); err != nil {
		return nil, fmt.Errorf("web: docs: %w", err)
	}
	return out.Bytes(), nil
}

// parts are the parts of the reference page that a search can find.
func (p *docsPage) parts() (out []site.Part) {
	for _, g := range p.Groups {
		for _, op := range g.Operations {
			out = append(out, site.Part{URL: site.Reference + "#" + op.ID, Page: "HTTP API",
				Title: op.Method + " " + op.Path, Text: op.Summary + ". " + op.About})
		}
	}
	for _, problem := range p.Problems {
		out = append(out, site.Part{URL: site.Reference + "#" + problem.Code, Page: "Problems",
			Title: problem.Code, Text: problem.Title + ". " + problem.Advice})
	}
	return out
}

// docsPageShape documents the pages.
func docsPageShape(d *document, op *huma.Operation) {
	text := &huma.Schema{Type: huma.TypeString}
	op.Parameters = append(op.Parameters,
		&huma.Param{Name: "page", In: "path", Required: true, Schema: text,
			Description: "Name of the page, such as start; api for the reference; or search"},
		&huma.Param{Name: "q", In: "query", Description: "For search: words that one part of a page must all have",
			Schema: text})
	textShape("text/html")(d, op)
}

// getDocument is GET /openapi.json.
func (p *docsPages) getDocument(c echo.Context) error {
	text, err := p.document()
	if err != nil {
		return err
	}
	return c.Blob(http.StatusOK, contentOpenAPI, text)
}

// getHome is GET /docs.
func (p *docsPages) getHome(c echo.Context) error {
	html, err := p.home()
	return p.send(c, html, err)
}

// getPage is GET /docs/{page}.
// getPage serves three kinds of names: the reference, the search, and the documents. The first two come first: a
// document named api or search could not be reached.
func (p *docsPages) getPage(c echo.Context) error {
	made, err := p.site()
	if err != nil {
		return err
	}
	if c.Param("page") == path.Base(site.Reference) {
		html, err := p.reference()
		return p.send(c, html, err)
	}
	if c.Param("page") == "search" {
		html, err := made.Search(c.QueryParam("q"))
		return p.send(c, html, err)
	}
	html, ok := made.Page(c.Param("page"))
	if !ok {
		return newProblem(codeNotFound, "There is no such page; the first one is /docs.")
	}
	return p.send(c, html, nil)
}

// send sets the policy of these pages in place of the one that middleware set for answers with data.
func (p *docsPages) send(c echo.Context, html []byte, err error) error {
	if err != nil {
		return err
	}
	c.Response().Header().Set("Content-Security-Policy", p.policy)
	return c.Blob(http.StatusOK, "text/html; charset=utf-8", html)
}

// operationsOf lists the operations by path, then by method. Go's maps have no order, so only
// the sorting makes the reference the same at each start.
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

// docsOperationOf leaves out the parts that are the same for all operations. A reader of the whole
// page would skip them anyway.
func docsOperationOf(op *huma.Operation) docsOperation {
	scope, _ := op.Extensions["x-scope"].(string)
	out := docsOperation{ID: op.OperationID, Method: op.Method, Path: op.Path, Scope: scope, Summary: op.Summary,
		About: op.Description}
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
	// An answer without content, such as 204, has a row as well: its reader wants to know that it has no body.
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		response := op.Responses[status]
		if status == "default" || status == anyRefusal {
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

// docsSchemaOf lists the fields by name, and not in the order of the type: a reader looks one up.
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
// It is not JSON Schema: a reader wants to know what to write, not how a validator sees it.
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

// rangeName shows a limit only where the schema has one. Limits that depend on other fields stand in the
// description.
func rangeName(s *huma.Schema) string {
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		return fmt.Sprintf(" %.0f to %.0f", *s.Minimum, *s.Maximum)
	case s.MaxLength != nil:
		return fmt.Sprintf(", at most %d bytes", *s.MaxLength)
	}
	return ""
}

// formName names one of several forms of a value, by the field that tells it from the others.
func formName(s *huma.Schema) string {
	if len(s.Required) == 0 {
		return s.Type
	}
	return `{"` + s.Required[0] + `": ...}`
}
