package web

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// mostFirstLoad is how many bytes a browser may have to fetch before the dashboard shows, compressed.
const mostFirstLoad = 150_000

// The dashboard is served with a policy that allows nothing inline and nothing from elsewhere. It loads only embedded
// files, and few bytes of them. A file that the browser already has is not sent again.
func TestDashboardIsServed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	page := f.send(call{method: "GET", path: "/"})
	if page.status != 200 || page.header.Get("Content-Security-Policy") != dashboardPolicy || strings.Contains(dashboardPolicy, "unsafe") {
		t.Fatalf("GET /: %d with policy %q, want 200 with %q", page.status, page.header.Get("Content-Security-Policy"), dashboardPolicy)
	}
	if inline := regexp.MustCompile(`(?i)<style|<script[^>]*>[^<]|\s(style|on\w+)=|https?://`).Find(page.body); inline != nil {
		t.Errorf("the page has %q: inline, or from elsewhere", inline)
	}
	total := compressed(t, page.body)
	loaded := regexp.MustCompile(`(?:src|href)="(assets/[^"]+)"`).FindAllSubmatch(page.body, -1)
	if len(loaded) < 3 {
		t.Errorf("the page loads %q, want script, style and icon", loaded)
	}
	for _, match := range loaded {
		path := "/" + string(match[1])
		file := f.send(call{method: "GET", path: path})
		if file.status != 200 || file.header.Get("ETag") == "" || file.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("GET %s: %d, ETag %q", path, file.status, file.header.Get("ETag"))
		}
		total += compressed(t, file.body)
		known := sendRaw(t, f, path, file.header.Get("ETag"))
		if known.StatusCode != http.StatusNotModified {
			t.Errorf("GET %s again: got %d, want 304", path, known.StatusCode)
		}
	}
	t.Logf("first load: %d bytes compressed", total)
	if total > mostFirstLoad {
		t.Errorf("first load: %d bytes compressed, at most %d are allowed", total, mostFirstLoad)
	}
	for _, path := range []string{"/assets/none.js", "/assets/..%2findex.html", "/assets/../server.go"} {
		if got := sendRaw(t, f, path, ""); got.StatusCode != 404 {
			t.Errorf("GET %s: got %d, want 404", path, got.StatusCode)
		}
	}
}

// sendRaw asks without the check against the document, which has no 304.
func sendRaw(t *testing.T, f *fixture, path, etag string) *http.Response {
	t.Helper()
	request, err := http.NewRequest("GET", "http://"+f.address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if etag != "" {
		request.Header.Set("If-None-Match", etag)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	return response
}

func compressed(t *testing.T, body []byte) int {
	t.Helper()
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.DefaultCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Len()
}
