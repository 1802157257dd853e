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
var kinds = []string{"pure", "mixed", "processes"}

// A package that `make test` runs without the race detector has nothing that it could see: no goroutine, no channel, no lock, no atomic.
// Its tests run in parallel, but start nothing and share nothing that changes.
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

// The lines that have a test run without the race detector, under it, or on the disk, where the others of its package do not.
const sequential, overlapping, killing = "//quern:sequential", "//quern:overlapping", "//quern:killing"

// A test that runs without the race detector alone starts no goroutine. Tests of the same name run in the same way, because
// internal/kind.sh distinguishes them by name.
func TestSequentialTestsStartNothing(t *testing.T) {
	t.Parallel()
	kindOf := map[string]string{}
	for _, s := range need(t, sources) {
		for _, kind := range kindsOf(s) {
			kindOf[s.pkg] = kind
		}
	}
	type test struct {
		at    string
		raced bool
	}
	var findings []string
	others := map[[2]string]test{}
	marked := map[bool]int{}
	for _, s := range need(t, sources) {
		kind := kindOf[s.pkg]
		for _, f := range tests(s) {
			alone, overlaps := hasLine(s.file, f, sequential), hasLine(s.file, f, overlapping)
			if alone && kind != "" || overlaps && kind != "mixed" || hasLine(s.file, f, killing) && kind != "processes" {
				findings = append(findings, s.at(f)+": the line changes nothing in its package, which is of the kind "+strconv.Quote(kind))
			}
			if kind != "" && kind != "mixed" {
				continue
			}
			this := test{s.at(f), kind == "" && !alone || overlaps}
			if !this.raced {
				findings = append(findings, checkStarts(s, f)...)
			}
			if other, is := others[[2]string{kind, f.Name.Name}]; is && other.raced != this.raced {
				findings = append(findings, fmt.Sprintf("%s: %s is also at %s, and only one of them has the line", this.at, f.Name.Name, other.at))
			}
			others[[2]string{kind, f.Name.Name}] = this
			if alone || overlaps {
				marked[this.raced]++
			}
		}
	}
	if marked[false] == 0 || marked[true] == 0 {
		t.Fatalf("no test has the line %s, or none has %s", sequential, overlapping)
	}
	report(t, findings, "take the line "+sequential+" away from the test, add "+overlapping+", or give one of two tests another name")
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

// hasLine says whether a test has a line, or its file has it before the package clause.
func hasLine(file *ast.File, f *ast.FuncDecl, line string) bool {
	is := func(c *ast.Comment) bool { return c.Text == line }
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

// checkPure finds code that could give the race detector something to see. Tests may make a fixture once for all, with sync.OnceValue.
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

// The rule finds planted violations, and nothing else.
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
