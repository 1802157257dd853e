package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// usedBy are declarations that no code but tests names, each with its real user.
var usedBy = map[string]string{
	"engine/queue.NotEmpty":          "the zero value: an answer that has something",
	"engine/queue.OutcomeInvalid":    "the zero value: no item may be left without an outcome",
	"engine/shard/shell.MostLooks":   "tests of simtest: what one hold of the mutex looks at is bounded",
	"engine/shard.SetFull":           "tests of simtest: a disk that is full, and has room again",
	"engine/store.Less":              "container/heap",
	"engine/store.Push":              "container/heap",
	"plugins/score.firstLocal":       "the zero value of the locals that follow it",
	"web/site.Generate":              "goldmark: the anchors of headings",
	"web/site.Put":                   "goldmark: the same",
	"wasm/host.Allocate":             "wazero: the allocator of linear memories",
	"wasm/host.Reallocate":           "wazero: the allocator of linear memories",
	"wasm/instrument.DefaultOptions": "tests of plugins and examples, which instrument without a server",
	"wasm/manifest.Extract":          "tests of plugins and examples: what pack put in comes out",
	"wasm/scan.Structure":            "tests of the instrumentation, on modules that are no plugins",
	"web.ContentType":                "huma: the media type of an error",
	"web.Document":                   "tests of other packages: the OpenAPI document without a request",
	"web.GetStatus":                  "huma: the status of an error",
}

// Every function, type, variable and constant is used by code that is not a test.
func TestNothingIsDead(t *testing.T) {
	t.Parallel()
	report(t, checkDead(need(t, sources), usedBy), "take it out, or move it to the test that uses it; what only the outside uses goes into usedBy")
}

// checkDead finds declarations whose name no other place has: of an unexported one in its package, of an exported one in the module. It
// goes by names, so it misses a dead one that shares its name with a living one.
func checkDead(all []source, usedBy map[string]string) (findings []string) {
	type name struct{ pkg, name string }
	uses, declared := map[name]int{}, map[*ast.Ident]source{}
	for _, s := range all {
		if s.test || strings.HasSuffix(s.pkg, "test") || isGuest(s.pkg) {
			continue
		}
		for _, id := range declares(s.file) {
			declared[id] = s
		}
		ast.Inspect(s.file, func(node ast.Node) bool {
			if id, ok := node.(*ast.Ident); ok {
				uses[name{s.pkg, id.Name}]++
				uses[name{"", id.Name}]++
			}
			return true
		})
	}
	for id, s := range declared {
		pkg := s.pkg
		if id.IsExported() {
			if strings.HasPrefix(pkg, "sdk") {
				continue // others use it
			}
			pkg = ""
		}
		if uses[name{pkg, id.Name}] == 1 && usedBy[s.pkg+"."+id.Name] == "" {
			findings = append(findings, fmt.Sprintf("%s declares %s, which nothing uses but tests", s.at(id), id.Name))
		}
	}
	return findings
}

// isGuest says that a package becomes a plugin: the sandbox calls its functions by their exported names.
func isGuest(pkg string) bool {
	return strings.HasPrefix(pkg, "examples/plugins/") || pkg == "sdk/plugin"
}

// The rule finds planted violations.
func TestDeadRuleBites(t *testing.T) {
	t.Parallel()
	of := func(pkg, name, text string) source {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		return source{path: name, pkg: pkg, file: file, fset: fset}
	}
	all := []source{
		of("a", "a.go", "package a\nfunc used() { Shared() }\nfunc unused() {}\nfunc (t T) method() {}\ntype T struct{}\nvar _ = used\nconst kept = 1\n"),
		of("b", "b.go", "package b\nfunc Shared() {}\nfunc Alone() {}\n"),
		of("sdk/c", "c.go", "package c\nfunc Offered() {}\n"),
	}
	got := checkDead(all, map[string]string{"a.kept": "for another time"})
	if len(got) != 3 {
		t.Errorf("checkDead found %q, want unused, method and Alone", got)
	}
}

// declares are the names that a file declares at its top, with methods.
func declares(file *ast.File) (ids []*ast.Ident) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && (d.Name.Name == "main" || d.Name.Name == "init") {
				continue
			}
			ids = append(ids, d.Name)
		case *ast.GenDecl:
			if d.Tok == token.IMPORT {
				continue
			}
			for _, spec := range d.Specs {
				switch x := spec.(type) {
				case *ast.TypeSpec:
					ids = append(ids, x.Name)
				case *ast.ValueSpec:
					for _, id := range x.Names {
						if id.Name != "_" {
							ids = append(ids, id)
						}
					}
				}
			}
		}
	}
	return ids
}

// mostBytes is how large a file of the repository may be.
const mostBytes = 256 << 10

// larger are the files that are larger, with the reason.
var larger = map[string]string{
	"docs/img/plugin-light.png": "a picture of the page",
	"web/dashboard/dist/app.js": "the page as it is embedded, so that a build needs no Node.js (decision 18)",
	"web/testdata/openapi.json": "the OpenAPI document as it is served: a change of it is looked at",
}

// No file of the repository is larger than a reader, or a clone, wants.
func TestNoLargeFiles(t *testing.T) {
	t.Parallel()
	var findings []string
	for _, name := range need(t, tracked) {
		info, err := os.Stat(filepath.Join(need(t, root), name))
		if err != nil {
			continue // deleted, and not committed yet
		}
		if info.Size() > mostBytes && larger[name] == "" {
			findings = append(findings, fmt.Sprintf("%s has %d bytes, at most %d", name, info.Size(), mostBytes))
		}
	}
	report(t, findings, "make it when it is needed; where it has to be there, give the reason in larger")
}
