package archtest

import (
	"fmt"
	"go/ast"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// kinds of tests, which internal/kind.sh knows.
var kinds = []string{"pure", "processes", "simulated"}

// What `make test` runs without the race detector has nothing that it could see: no goroutine, no channel, no lock, no atomic. Its tests
// run in parallel, but start nothing and share nothing that changes.
func TestPackagesWithoutRaceDetectorArePure(t *testing.T) {
	t.Parallel()
	var findings []string
	kindOf := map[string]string{}
	for _, s := range need(t, sources) {
		for _, kind := range kindsOf(s) {
			if !slices.Contains(kinds, kind) || kindOf[s.pkg] != "" {
				findings = append(findings, fmt.Sprintf("%s: //quern:tests %s is not the only one of %v in its package", s.path, kind, kinds))
			}
			kindOf[s.pkg] = kind
		}
	}
	pure := 0
	for _, s := range need(t, sources) {
		if kindOf[s.pkg] == "pure" {
			pure++
			findings = append(findings, checkPure(s)...)
		}
	}
	if pure == 0 {
		t.Fatal("no file has the line //quern:tests pure, of the packages that are tested without the race detector")
	}
	report(t, findings, "take the line //quern:tests pure out of the package, so that its tests run under the race detector again")
}

// kindsOf are the kinds of tests that a file names.
func kindsOf(s source) (kinds []string) {
	for _, group := range s.file.Comments {
		for _, comment := range group.List {
			if kind, ok := strings.CutPrefix(comment.Text, "//quern:tests "); ok {
				kinds = append(kinds, kind)
			}
		}
	}
	return kinds
}

const sequential = "//quern:sequential"

// A test that runs without the race detector alone starts no goroutine. Its name is that of no test that runs under it: names are how
// internal/kind.sh tells them apart.
func TestSequentialTestsStartNothing(t *testing.T) {
	t.Parallel()
	kindOf, raced := map[string]string{}, map[string]string{}
	for _, s := range need(t, sources) {
		for _, kind := range kindsOf(s) {
			kindOf[s.pkg] = kind
		}
	}
	var findings []string
	var marked []*ast.FuncDecl
	for _, s := range need(t, sources) {
		for _, f := range tests(s) {
			switch {
			case !isSequential(s.file, f) && kindOf[s.pkg] == "":
				raced[f.Name.Name] = s.at(f)
			case isSequential(s.file, f):
				marked = append(marked, f)
				findings = append(findings, checkStarts(s, f)...)
				if kindOf[s.pkg] != "" {
					findings = append(findings, fmt.Sprintf("%s: no test of its package runs under the race detector", s.at(f)))
				}
			}
		}
	}
	if len(marked) == 0 {
		t.Fatal("no test has the line " + sequential)
	}
	for _, f := range marked {
		if at := raced[f.Name.Name]; at != "" {
			findings = append(findings, fmt.Sprintf("%s: %s has the name of a test with the line %s, and does not run", at, f.Name.Name, sequential))
		}
	}
	report(t, findings, "take the line "+sequential+" away from the test, or give one of two tests another name")
}

// tests are the tests of a file.
func tests(s source) (list []*ast.FuncDecl) {
	for _, d := range s.file.Decls {
		if f, is := d.(*ast.FuncDecl); is && s.test && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
			list = append(list, f)
		}
	}
	return list
}

// isSequential says whether a test has the line that has it run without the race detector, or its file has it before the package clause.
func isSequential(file *ast.File, f *ast.FuncDecl) bool {
	is := func(c *ast.Comment) bool { return c.Text == sequential }
	return f.Doc != nil && slices.ContainsFunc(f.Doc.List, is) || slices.ContainsFunc(file.Comments, func(group *ast.CommentGroup) bool {
		return group.Pos() < file.Package && slices.ContainsFunc(group.List, is)
	})
}

// checkStarts finds where a test starts goroutines.
func checkStarts(s source, f *ast.FuncDecl) (findings []string) {
	ast.Inspect(f, func(node ast.Node) bool {
		if what := starting(node); what != "" {
			findings = append(findings, s.at(node)+" "+what)
		}
		return true
	})
	return findings
}

// starting says whether a node starts a goroutine; "": it does not.
func starting(node ast.Node) string {
	switch n := node.(type) {
	case *ast.GoStmt:
		return "starts a goroutine"
	case *ast.SelectorExpr:
		if n.Sel.Name == "Go" || n.Sel.Name == "RunParallel" {
			return "may start a goroutine with " + n.Sel.Name
		}
	}
	return ""
}

// checkPure finds what the race detector could see the work of. Tests may make a fixture once for all, with sync.OnceValue.
func checkPure(s source) (findings []string) {
	add := func(node ast.Node, what string) { findings = append(findings, s.at(node)+" "+what) }
	for _, spec := range s.file.Imports {
		if name, err := strconv.Unquote(spec.Path.Value); err == nil && (name == "sync/atomic" || name == "sync" && !s.test) {
			add(spec, "imports "+name)
		}
	}
	ast.Inspect(s.file, func(node ast.Node) bool {
		if what := starting(node); what != "" {
			add(node, what)
		}
		switch n := node.(type) {
		case *ast.ChanType:
			add(n, "has a channel")
		case *ast.SelectorExpr:
			if pkg, ok := n.X.(*ast.Ident); ok && pkg.Name == "sync" && !strings.HasPrefix(n.Sel.Name, "OnceValue") {
				add(n, "uses sync."+n.Sel.Name)
			}
		}
		return true
	})
	return findings
}

// The rule sees what it is for, and only that.
func TestPureRuleBites(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		code string
		test bool
		want []string
	}{
		{"package a\n\nvar x = []int{1}\n", false, nil},
		{"package a\n\nimport \"sync\"\n\nvar once = sync.OnceValue(f)\n", true, nil},
		{"package a\n\nimport \"sync\"\n\nvar once = sync.OnceValue(f)\n", false, []string{"x.go:3 imports sync"}},
		{"package a\n\nimport \"sync\"\n\nvar mu sync.Mutex\n", true, []string{"x.go:5 uses sync.Mutex"}},
		{"package a\n\nimport \"sync/atomic\"\n", true, []string{"x.go:3 imports sync/atomic"}},
		{"package a\n\nfunc f() { go f() }\n", true, []string{"x.go:3 starts a goroutine"}},
		{"package a\n\nfunc f(c chan int) {}\n", false, []string{"x.go:3 has a channel"}},
		{"package a\n\nfunc f(g group) { g.Go(nil) }\n", true, []string{"x.go:3 may start a goroutine with Go"}},
	} {
		s := planted(t, "x.go", "x", test.code)
		s.test = test.test
		if got := checkPure(s); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.code, got, test.want)
		}
	}
}
