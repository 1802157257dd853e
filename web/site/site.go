// Package site turns documents in Markdown into web pages, with a list of all pages beside each, links
// between them, and a search. It needs no script and no other server.
package site

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

//go:embed page.html
var pageTemplate string

const (
	Root      = "/docs/"     // where the pages are served; each is below it by its name
	Reference = Root + "api" // the page about the HTTP API, which is not made of a document
	first     = "START.md"   // the page that a reader sees first
)

// source is where links to files that are no pages go: the code. The pages of a release link to the newest code,
// because a binary does not know whether its commit was published.
const source = "https://github.com/quern-queue/quern/blob/main/"

//	docs/*.md ─ render ─► html ────────────► page.html with the list of all pages ─► pages, by name
//	              └ split ─► parts: a heading and what follows ─► search (below)
//
// section is a part of the list of pages. A pattern of files stands for all that match.
type section struct {
	title string
	files []string
}

// A document that is in no section fails the start of a test (inOrder): no one finds a page that no list names.
var sections = []section{
	{"Start", []string{first, "CONCEPTS.md", "GLOSSARY.md"}},
	{"Think", []string{"LIFECYCLE.md", "STRATEGIES.md", "GUARANTEES.md"}},
	{"Do", []string{"RECIPES.md", "PLUGINS.md", "GUESTS.md"}},
	{"Run", []string{"OPERATIONS.md", "CLUSTER.md", "SHARDS.md", "SIZING.md", "BACKUP.md", "UPGRADING.md", "ACCESS.md",
		"PLATFORMS.md", "FIGURES.md"}},
	{"Reference", []string{"CLI.md", "METRICS.md", "ARCHITECTURE.md", "BEHAVIOURS.md", "formats/*.md", "STYLE.md",
		"decisions/*.md"}},
	{"Compared", []string{"COMPARED.md"}},
}

// Site is all pages, rendered.
type Site struct {
	pages map[string][]byte // by name
	first *rendered
	list  []group
	parts []Part
	shown *template.Template
	style template.CSS
}

// Part is what a search can find: a page from one heading to the next, or something that
// is shown elsewhere.
type Part struct{ URL, Page, Title, Text string }

// group is a section as the list beside each page shows it.
type group struct {
	Title string
	Pages []link
}

type link struct{ URL, Title string }

// shown is the contents of the template.
type shown struct {
	Title, Query string
	Style        template.CSS
	Groups       []group
	Body         template.HTML
	Found        []Part
	Search       bool
}

// New renders the documents. The style stands in each page; more are parts of other pages
// that a search finds, too.
// All pages are rendered at once, at the first request. A picture that is missing then fails all of them, which a
// test sees.
func New(files fs.FS, style string, more []Part) (*Site, error) {
	parsed, err := template.New("page").Parse(pageTemplate)
	if err != nil {
		return nil, fmt.Errorf("site: %w", err)
	}
	s := &Site{pages: map[string][]byte{}, shown: parsed, style: template.CSS(style), parts: more}
	// All documents are read before the first page is made: each page has the titles of all others.
	listed, err := inOrder(files)
	if err != nil {
		return nil, err
	}
	bodies := map[string]*rendered{}
	for _, sec := range sections {
		g := group{Title: sec.title}
		for _, file := range listed[sec.title] {
			page, err := render(files, file)
			if err != nil {
				return nil, err
			}
			bodies[file] = page
			s.parts = append(s.parts, page.parts...)
			g.Pages = append(g.Pages, link{Root + name(file), page.title})
		}
		if sec.title == "Reference" {
			g.Pages = append([]link{{Reference, "HTTP API"}}, g.Pages...)
		}
		s.list = append(s.list, g)
	}
	s.first = bodies[first]
	for file, page := range bodies {
		out, err := s.page(&shown{Title: page.title, Body: template.HTML(page.html)})
		if err != nil {
			return nil, err
		}
		s.pages[name(file)] = out
	}
	return s, nil
}

// inOrder lists the files of each section.
func inOrder(files fs.FS) (map[string][]string, error) {
	out, seen := map[string][]string{}, map[string]bool{}
	for _, sec := range sections {
		for _, pattern := range sec.files {
			found, err := fs.Glob(files, pattern)
			if err != nil || len(found) == 0 {
				return nil, fmt.Errorf("site: there is no document %s", pattern)
			}
			out[sec.title] = append(out[sec.title], found...)
			for _, file := range found {
				seen[file] = true
			}
		}
	}
	return out, fs.WalkDir(files, ".", func(file string, entry fs.DirEntry, err error) error {
		if err == nil && path.Ext(file) == ".md" && !seen[file] {
			return fmt.Errorf("site: %s is in no section; web/site/site.go lists them", file)
		}
		return err
	})
}

// name is the name of a file in a URL.
func name(file string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimSuffix(file, ".md"), "/", "-"))
}

// Page returns a page by its name.
func (s *Site) Page(name string) (html []byte, ok bool) {
	html, ok = s.pages[name]
	return html, ok
}

// Home returns the first page, with more below it.
func (s *Site) Home(more template.HTML) ([]byte, error) {
	return s.page(&shown{Title: s.first.title, Body: template.HTML(s.first.html) + more})
}

// page fills the template. The style is in the page itself, so a page is one request, and its policy can name the
// hash of the style.
func (s *Site) page(content *shown) ([]byte, error) {
	content.Style, content.Groups = s.style, s.list
	var out bytes.Buffer
	if err := s.shown.Execute(&out, content); err != nil {
		return nil, fmt.Errorf("site: %w", err)
	}
	return out.Bytes(), nil
}

// rendered is one document.
type rendered struct {
	title, html string
	parts       []Part
}

// markdown is GitHub's dialect, as far as the documents use it: the same files are read there.
var markdown = goldmark.New(
	goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)),
		extension.Linkify),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()))

// Links are changed in the tree and not in the text, so that a link in a code block stays as it is.
func render(files fs.FS, file string) (*rendered, error) {
	text, err := fs.ReadFile(files, file)
	if err != nil {
		return nil, fmt.Errorf("site: %w", err)
	}
	tree := markdown.Parser().Parse(reader(text), parser.WithContext(parser.NewContext(parser.WithIDs(&ids{}))))
	out := &rendered{title: file}
	var drawn []*ast.Image
	if err := ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if to, is := n.(*ast.Link); is && entering {
			to.Destination = []byte(target(files, file, string(to.Destination)))
		}
		if image, is := n.(*ast.Image); is && entering {
			drawn = append(drawn, image)
		}
		return ast.WalkContinue, nil
	}); err != nil {
		return nil, fmt.Errorf("site: %s: %w", file, err)
	}
	for _, image := range drawn {
		if err := inline(files, file, image); err != nil {
			return nil, err
		}
	}
	var html bytes.Buffer
	if err := markdown.Renderer().Render(&html, text, tree); err != nil {
		return nil, fmt.Errorf("site: %s: %w", file, err)
	}
	out.html = html.String()
	out.split(tree, text, Root+name(file))
	return out, nil
}

// inline puts an SVG file in the place of the image that names it: the page needs no other
// file, and its style gives the text its colour.
// A picture in another format would be a second request to a path that does not exist.
func inline(files fs.FS, file string, image *ast.Image) error {
	at := path.Join(path.Dir(file), string(image.Destination))
	if path.Ext(at) != ".svg" {
		return fmt.Errorf("site: %s shows %s: only SVG files can stand in a page", file, at)
	}
	svg, err := fs.ReadFile(files, at)
	if err != nil {
		return fmt.Errorf("site: %s shows what docs/embed.go does not name: %w", file, err)
	}
	drawing := ast.NewString(svg)
	drawing.SetCode(true) // as it is
	image.Parent().ReplaceChild(image.Parent(), image, drawing)
	return nil
}

// target is where a link of a document leads.
// A link to another document goes to its page; one to anything else of the repository goes to the code on GitHub,
// from where a reader of the files would have come.
func target(files fs.FS, file, to string) string {
	at, fragment, _ := strings.Cut(to, "#")
	if at == "" || strings.Contains(at, "://") || strings.HasPrefix(at, "mailto:") {
		return to
	}
	if fragment != "" {
		fragment = "#" + fragment
	}
	at = path.Join(path.Dir(file), at)
	if _, err := fs.Stat(files, at); err == nil && path.Ext(at) == ".md" {
		return Root + name(at) + fragment
	}
	return source + path.Join("docs", at) + fragment
}

// split cuts the text of a page at its headings.
// Code blocks are part of the text, so a search finds the name of a command or of an option.
func (p *rendered) split(tree ast.Node, text []byte, url string) {
	for n := tree.FirstChild(); n != nil; n = n.NextSibling() {
		said := strings.Join(strings.Fields(words(n, text)), " ")
		// Each heading begins a part. A search then leads to the place in a long page, not to its top.
		heading, is := n.(*ast.Heading)
		switch {
		case is:
			if heading.Level == 1 && len(p.parts) == 0 {
				p.title = said
			}
			id, _ := heading.AttributeString("id")
			anchor, _ := id.([]byte)
			p.parts = append(p.parts, Part{URL: url + "#" + string(anchor), Page: p.title, Title: said})
		case len(p.parts) > 0:
			last := &p.parts[len(p.parts)-1]
			last.Text += said + " "
		}
	}
}

// words is the text below a node.
func words(n ast.Node, source []byte) string {
	var out strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // nothing in it fails
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				out.Write(n.Segment.Value(source))
			}
			if n.SoftLineBreak() {
				out.WriteByte(' ')
			}
		case *ast.FencedCodeBlock:
			if entering {
				out.Write(n.Lines().Value(source))
			}
		default:
			if n.Type() == ast.TypeBlock {
				out.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return out.String()
}

// ids makes the anchors of headings as GitHub does, so that links hold in both places.
type ids struct{ used []string }

var notInID = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// Two headings of one text get -1, -2 and so on, as on GitHub.
func (i *ids) Generate(value []byte, _ ast.NodeKind) []byte {
	id := strings.ReplaceAll(notInID.ReplaceAllString(strings.Map(unicode.ToLower, strings.TrimSpace(string(value))),
		""), " ", "-")
	for n, base := 1, id; slices.Contains(i.used, id); n++ {
		id = fmt.Sprintf("%s-%d", base, n)
	}
	i.Put([]byte(id))
	return []byte(id)
}

func (i *ids) Put(value []byte) { i.used = append(i.used, string(value)) }

func reader(source []byte) text.Reader { return text.NewReader(source) }

const (
	maxFound   = 40  // parts that a search shows
	maxQuery   = 200 // bytes of a query that are looked at
	excerptHas = 240 // bytes of a part that are shown
	// for a part that has the query's words side by side; single words in a title count 20 each
	phraseRank = 100
)

// Search is the page of results: parts that have all words of the query, those that have
// them together or in their titles first.
func (s *Site) Search(query string) ([]byte, error) {
	// A query is cut before it is shown again: it is in the page's field, and a long one would make a long page.
	query = strings.ToValidUTF8(query[:min(len(query), maxQuery)], "")
	return s.page(&shown{Title: "Search", Query: query, Found: s.find(query), Search: true})
}

// There is no index, as the documents are small. Every word must be there, so more words find fewer parts. A word in
// the title counts twenty times, and one that is repeated in the text at most ten.
func (s *Site) find(query string) (found []Part) {
	words := strings.Fields(strings.ToLower(query))
	if len(words) == 0 {
		return nil
	}
	phrase := strings.Join(words, " ")
	type ranked struct {
		Part
		rank int
	}
	var all []ranked
	for _, p := range s.parts {
		title, text := strings.ToLower(p.Title), strings.ToLower(p.Text)
		rank := 0
		for _, word := range words {
			inTitle, inText := strings.Count(title, word), strings.Count(text, word)
			if inTitle+inText == 0 {
				rank = 0
				break
			}
			rank += 20*inTitle + min(inText, 10)
		}
		if rank > 0 && len(words) > 1 && (strings.Contains(title, phrase) || strings.Contains(text, phrase)) {
			rank += phraseRank
		}
		if rank > 0 {
			p.Text = excerpt(p.Text, max(strings.Index(text, words[0]), 0))
			all = append(all, ranked{p, rank})
		}
	}
	// Stable: parts of one rank stay in the order of the pages, which is the order in which one would read them.
	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Compare(b.rank, a.rank) })
	for _, r := range all[:min(len(all), maxFound)] {
		found = append(found, r.Part)
	}
	return found
}

// excerpt is the text around a place, in whole characters. A third of the room goes before the place, so that a
// reader sees how the sentence begins.
func excerpt(text string, at int) string {
	from := max(min(at, len(text))-excerptHas/3, 0)
	for from > 0 && !utf8.RuneStart(text[from]) {
		from--
	}
	to := min(from+excerptHas, len(text))
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to--
	}
	out := strings.TrimSpace(text[from:to])
	if from > 0 {
		out = "… " + out
	}
	if to < len(text) {
		out += " …"
	}
	return out
}
