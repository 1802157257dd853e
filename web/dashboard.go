package web

// The dashboard's files, embedded in the binary and served with a policy that lets the page load
// its own files and talk to this server only. They need no token, because they have no data: the
// page asks for its data over the API like any client.

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"
)

//go:embed dashboard/dist
var dashboardFiles embed.FS

// dashboardPolicy lets the page load its own script, style and icon and talk to this
// server, and nothing else: nothing inline, nothing from elsewhere.
const dashboardPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src " +
	"'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// dashboard is the page, its files by name.
type dashboard map[string]asset

// routes are the part of the table about the dashboard.
func (d dashboard) routes(r *router) {
	r.raw(operation{id: "dashboard", method: "GET", path: "/", public: true, tag: tagServer, compress: true,
		summary: "The dashboard"}, textShape("text/html"),
		func(c echo.Context) error { return d.send(c, "index.html") })
	r.raw(operation{id: "dashboard-asset", method: "GET", path: "/assets/{file}", public: true, tag: tagServer,
		compress: true,
		summary:  "A file of the dashboard"}, assetShape,
		func(c echo.Context) error { return d.send(c, c.Param("file")) })
}

// asset is one file of the dashboard.
type asset struct {
	body        []byte
	contentType string
	etag        string
}

// loadDashboard reads the built dashboard, whose files have fixed names: index.html is the
// page, the others are beside it.
func loadDashboard() (dashboard, error) {
	types := map[string]string{".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
		".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
	files, err := fs.Sub(dashboardFiles, "dashboard/dist")
	if err != nil {
		return nil, fmt.Errorf("web: dashboard: %w", err)
	}
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return nil, fmt.Errorf("web: dashboard: %w", err)
	}
	out := dashboard{}
	for _, entry := range entries {
		body, err := fs.ReadFile(files, entry.Name())
		if err != nil {
			return nil, fmt.Errorf("web: dashboard: %w", err)
		}
		// A file of another type fails the start, not a browser: nosniff would make it refuse the file.
		kind := types[path.Ext(entry.Name())]
		if kind == "" {
			return nil, fmt.Errorf("web: dashboard: %s is of a kind that is not served", entry.Name())
		}
		sum := sha256.Sum256(body)
		out[entry.Name()] = asset{body: body, contentType: kind, etag: `"` + hex.EncodeToString(sum[:12]) + `"`}
	}
	if _, ok := out["index.html"]; !ok {
		return nil, fmt.Errorf("web: dashboard: index.html is missing; make dashboard builds it")
	}
	return out, nil
}

// send answers 304 to a browser that has the file already. A new server has other ETags, so no window keeps running
// an old page against it after a reload.
func (d dashboard) send(c echo.Context, name string) error {
	file, ok := d[name]
	if !ok {
		return newProblem(codeNotFound, "The dashboard has no such file.")
	}
	header := c.Response().Header()
	header.Set("Content-Security-Policy", dashboardPolicy)
	header.Set("Cache-Control", "no-cache") // kept, but asked about every time: a new server brings new files
	header.Set("ETag", file.etag)
	if matchesETag(c.Request().Header.Get("If-None-Match"), file.etag) {
		return c.NoContent(http.StatusNotModified)
	}
	return c.Blob(http.StatusOK, file.contentType, file.body)
}

// assetShape documents the files of the dashboard.
func assetShape(_ *document, op *huma.Operation) {
	text := &huma.Schema{Type: huma.TypeString}
	op.Parameters = append(op.Parameters,
		&huma.Param{Name: "file", In: "path", Required: true, Description: "Name of the file", Schema: text})
	content := make(map[string]*huma.MediaType)
	for _, media := range []string{"text/javascript", "text/css", "image/svg+xml", "text/html"} {
		content[media] = &huma.MediaType{Schema: text}
	}
	op.Responses["200"] = &huma.Response{Description: http.StatusText(http.StatusOK), Content: content}
}
