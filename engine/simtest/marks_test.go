package simtest

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/quern-queue/quern/engine/marks"
)

var markLine = regexp.MustCompile(`(?m)^# mark: (.+)$`)

// Every marked branch of the engine is reached by the one script that has its mark. It runs alone, so that no other test reaches one
// meanwhile.
func TestMarks(t *testing.T) {
	paths, err := filepath.Glob("testdata/scripts/*.txt")
	must(t, err)
	scriptOf := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		must(t, err)
		named := markLine.FindAllStringSubmatch(string(text), -1)
		if len(named) == 0 {
			continue
		}
		reached := reachedBy(func() {
			_, _, err = playScript(t, path, string(text))
		})
		must(t, err)
		for _, m := range named {
			name := m[1]
			switch {
			case scriptOf[name] != "":
				t.Errorf("%s and %s have the mark %q; want one", scriptOf[name], path, name)
			case !reached[name]:
				t.Errorf("%s does not reach the mark %q", path, name)
			}
			scriptOf[name] = path
		}
	}
	for name, at := range marked(t) {
		if scriptOf[name] == "" {
			t.Errorf("%s: no script has the line \"# mark: %s\"", at, name)
		}
		delete(scriptOf, name)
	}
	for name, path := range scriptOf {
		t.Errorf("%s has the mark %q, which nothing in the engine has", path, name)
	}
}

// reachedBy are the marks that are reached while fn runs.
func reachedBy(fn func()) map[string]bool {
	var mu sync.Mutex
	reached := map[string]bool{}
	stop := marks.Observe(func(name string) {
		mu.Lock()
		defer mu.Unlock()
		reached[name] = true
	})
	defer stop()
	fn()
	mu.Lock()
	defer mu.Unlock()
	return reached
}

// marked are the marks in the engine's code, each with its place.
func marked(t *testing.T) map[string]string {
	found := map[string]string{}
	files := gotoken.NewFileSet()
	must(t, filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			if name, is := markOf(node); is {
				if found[name] != "" {
					t.Errorf("%s and %s have the mark %q; want one", found[name], files.Position(node.Pos()), name)
				}
				found[name] = files.Position(node.Pos()).String()
			}
			return true
		})
		return nil
	}))
	if len(found) == 0 {
		t.Error("no mark is in the engine's code: the search is wrong")
	}
	return found
}

// markOf is the name in a call of marks.Hit.
func markOf(node ast.Node) (name string, is bool) {
	call, is := node.(*ast.CallExpr)
	if !is {
		return "", false
	}
	fn, is := call.Fun.(*ast.SelectorExpr)
	if !is || fn.Sel.Name != "Hit" {
		return "", false
	}
	if pkg, is := fn.X.(*ast.Ident); !is || pkg.Name != "marks" {
		return "", false
	}
	literal, is := call.Args[0].(*ast.BasicLit)
	if !is {
		return "", false
	}
	name, err := strconv.Unquote(literal.Value)
	return name, err == nil
}
