package site

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/quern-queue/quern/docs"
)

func documents(t *testing.T) *Site {
	t.Helper()
	s, err := New(docs.Files, "p { margin: 0 }", []Part{{URL: Reference + "#insert", Page: "HTTP API", Title: "POST /v1/queues/{queue}/submissions", Text: "Insert a submission."}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var (
	hrefs = regexp.MustCompile(`(?:href|src|action)="([^"]*)"`)
	named = regexp.MustCompile(` id="([^"]*)"`)
)

// brokenLinks lists the links within the site that lead nowhere: to a page, or a place of one, that is not there.
func brokenLinks(s *Site) (broken []string) {
	places := map[string]bool{"/": true, Reference: true, "/docs/search": true}
	for name, html := range s.pages {
		places[Root+name] = true
		for _, id := range named.FindAllStringSubmatch(string(html), -1) {
			places[Root+name+"#"+id[1]] = true
		}
	}
	for name, html := range s.pages {
		for _, href := range hrefs.FindAllStringSubmatch(string(html), -1) {
			to := href[1]
			if strings.HasPrefix(to, "#") {
				to = Root + name + to
			}
			if !strings.Contains(to, "://") && !places[to] && !strings.HasPrefix(to, Reference+"#") {
				broken = append(broken, name+" links to "+href[1])
			}
		}
	}
	return broken
}

// Every link of every page leads somewhere.
//
//quern:sequential
func TestLinks(t *testing.T) {
	t.Parallel()
	s := documents(t)
	if broken := brokenLinks(s); len(broken) > 0 {
		t.Errorf("links that lead nowhere:\n%s", strings.Join(broken, "\n"))
	}
	if len(s.pages) < 30 {
		t.Errorf("%d pages, want one for each document", len(s.pages))
	}
}

// Nothing in a page runs, is styled in place, or comes from elsewhere: the policy would refuse it.
//
//quern:sequential
func TestPagesNeedNothing(t *testing.T) {
	t.Parallel()
	for name, html := range documents(t).pages {
		for _, bad := range []string{"<script", "<iframe", "<img", "<link", "javascript:"} {
			if strings.Contains(string(html), bad) {
				t.Errorf("%s has %s", name, bad)
			}
		}
		if found := regexp.MustCompile(`<[^>]* (style|on\w+)="`).FindString(string(html)); found != "" {
			t.Errorf("%s has %s", name, found)
		}
	}
}

// small is a site of its own, with every section.
func small(start string) fs.FS {
	files := fstest.MapFS{}
	for _, sec := range sections {
		for _, file := range sec.files {
			files[strings.ReplaceAll(file, "*", "one")] = &fstest.MapFile{Data: []byte("# " + file + "\n")}
		}
	}
	files["START.md"].Data = []byte(start)
	return files
}

// A page has anchors as GitHub makes them, and links to pages and to the code.
func TestPage(t *testing.T) {
	t.Parallel()
	s, err := New(small("# Two words, `code`!\n\n## Two words, code\n\n| a |\n|--:|\n| [b](formats/one.md#x-y) |\n\n[c](../web/doc.go) [d](#two-words-code-1) <b onclick=\"x\">e</b>\n"), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	html, ok := s.Page("start")
	for _, want := range []string{
		`<h1 id="two-words-code">Two words, <code>code</code>!</h1>`, `<h2 id="two-words-code-1">`, `<td align="right"><a href="/docs/formats-one#x-y">b</a></td>`,
		`<a href="https://github.com/quern-queue/quern/blob/main/web/doc.go">c</a>`, `<title>Two words, code! · Quern</title>`,
	} {
		if !ok || !strings.Contains(string(html), want) {
			t.Errorf("the page does not have %s:\n%s", want, html)
		}
	}
	if strings.Contains(string(html), "onclick") {
		t.Errorf("raw HTML of a document got through:\n%s", html)
	}
	if broken := brokenLinks(s); len(broken) != 1 || broken[0] != "start links to /docs/formats-one#x-y" {
		t.Errorf("broken links: got %v, want the one anchor that is not there", broken)
	}
}

// An SVG file of a document is put into its page. Another image, or one that is not there, is an error.
func TestPicturesStandInPages(t *testing.T) {
	t.Parallel()
	files := small("# Start\n\n![A <picture>](img/one.svg)\n").(fstest.MapFS)
	files["img/one.svg"] = &fstest.MapFile{Data: []byte(`<svg role="img"></svg>`)}
	s, err := New(files, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if html, _ := s.Page("start"); !strings.Contains(string(html), `<p><svg role="img"></svg></p>`) {
		t.Errorf("the picture is not in the page:\n%s", html)
	}
	for _, bad := range []string{"img/one.png", "img/two.svg"} {
		files["START.md"].Data = []byte("# Start\n\n![x](" + bad + ")\n")
		if _, err := New(files, "", nil); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: got %v, want an error that names it", bad, err)
		}
	}
	if page, _ := documents(t).Page("strategies"); strings.Count(string(page), "<svg ") < 9 {
		t.Error("the page on strategies does not have a picture for each block")
	}
}

// A document that no section lists, or a section whose document is gone, is an error.
func TestEveryDocumentIsListed(t *testing.T) {
	t.Parallel()
	files := small("# Start\n").(fstest.MapFS)
	files["NEW.md"] = &fstest.MapFile{Data: []byte("# New\n")}
	if _, err := New(files, "", nil); err == nil || !strings.Contains(err.Error(), "NEW.md is in no section") {
		t.Errorf("a document that is not listed: got %v", err)
	}
	delete(files, "NEW.md")
	delete(files, "START.md")
	if _, err := New(files, "", nil); err == nil || !strings.Contains(err.Error(), "START.md") {
		t.Errorf("a document that is gone: got %v", err)
	}
}

// A search finds parts with all words, those with them in the title first, operations too; and shows the query as text.
func TestSearch(t *testing.T) {
	t.Parallel()
	s := documents(t)
	for query, first := range map[string]string{
		"dead letters":     "/docs/lifecycle#dead-letters",
		"INSERT a sub":     "/docs/api#insert",
		"frobnicate queue": "",
		"":                 "",
	} {
		found := s.find(query)
		switch {
		case first == "" && len(found) > 0:
			t.Errorf("%q finds %v, want nothing", query, found)
		case first != "" && (len(found) == 0 || !anyIs(found, first)):
			t.Errorf("%q finds %v, want %s among them", query, found, first)
		case len(found) > maxFound:
			t.Errorf("%q finds %d parts, want at most %d", query, len(found), maxFound)
		}
	}
	html, err := s.Search(`"><script>` + strings.Repeat("é", 300))
	if err != nil || strings.Contains(string(html), "<script") {
		t.Errorf("the query is in the page as it came (%v):\n%.3000s", err, html)
	}
}

// Readers search for the words of the queue that they know. The glossary is the first answer to each.
//
//quern:sequential
func TestSearchKnowsOtherQueuesWords(t *testing.T) {
	t.Parallel()
	s := documents(t)
	for query, want := range map[string]string{
		"retry": "retry", "job": "job-task-message", "task": "job-task-message", "message": "job-task-message", "cron": "cron",
		"deduplication": "deduplication", "unique job": "deduplication", "visibility timeout": "visibility-timeout-lease",
		"lease": "visibility-timeout-lease", "sizing": "sizing", "heartbeat": "ack-nack-heartbeat", "ack": "ack-nack-heartbeat",
		"topic": "topic-routing-key-tags", "concurrency": "concurrency-rate-limit", "rate limit": "concurrency-rate-limit",
		"delay": "delay-eta", "callback": "callback-chord", "chord": "callback-chord", "workflow": "workflow-chain",
		"payload": "payload-arguments", "exactly once": "exactly-once", "upgrade": "upgrade", "backoff": "backoff",
	} {
		at := Root + "glossary#" + want
		if found := s.find(query); !anyIs(found[:min(len(found), 3)], at) {
			t.Errorf("%q does not find %s among the first 3: %+v", query, at, found[:min(len(found), 3)])
		}
	}
}

func anyIs(found []Part, url string) bool {
	for _, p := range found {
		if p.URL == url {
			return true
		}
	}
	return false
}
