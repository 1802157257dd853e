package archtest

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// A function fits on a screen, a file in a sitting. Tests are allowed more: tables and histories are long but flat.
const (
	maxFileLines, maxFuncLines         = 600, 70
	maxTestFileLines, maxTestFuncLines = 900, 150
)

// ownWords are method names whose meaning the standard library fixes: a sentence over each would say nothing.
var ownWords = []string{
	"Error", "Unwrap", "Is", "As", "String", "GoString", "Format", "Len", "Less", "Swap", "Read", "Write", "ReadFrom", "WriteTo", "ServeHTTP",
	"MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText", "AppendText", "MarshalBinary", "UnmarshalBinary", "LogValue",
}

// Files and functions stay small.
func TestShape(t *testing.T) {
	t.Parallel()
	var findings []string
	for _, s := range need(t, sources) {
		findings = append(findings, checkShape(s)...)
	}
	report(t, findings, "split it where it changes subject, and give the halves better names; never by numbering parts")
}

// Every package says what it is for, and every exported name has a sentence.
func TestExportedNamesAreExplained(t *testing.T) {
	t.Parallel()
	var findings []string
	explained := map[string]bool{}
	for _, s := range need(t, sources) {
		if s.test {
			continue
		}
		findings = append(findings, checkDocs(s)...)
		explained[s.pkg] = explained[s.pkg] || s.file.Doc != nil
	}
	for pkg, ok := range explained {
		if !ok {
			findings = append(findings, "package "+pkg+" has no package comment")
		}
	}
	slices.Sort(findings)
	report(t, findings, "write above it what it is for, with units, ranges and errors: the reason, not a repetition of the name")
}

func checkShape(s source) (findings []string) {
	fileLimit, funcLimit := maxFileLines, maxFuncLines
	if s.test {
		fileLimit, funcLimit = maxTestFileLines, maxTestFuncLines
	}
	if s.lines > fileLimit {
		findings = append(findings, fmt.Sprintf("%s has %d lines; at most %d", s.path, s.lines, fileLimit))
	}
	for _, decl := range s.file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		lines := s.fset.Position(fn.Body.Rbrace).Line - s.fset.Position(fn.Pos()).Line + 1
		if lines > funcLimit {
			findings = append(findings, fmt.Sprintf("%s: %s has %d lines; at most %d", s.at(fn), fn.Name.Name, lines, funcLimit))
		}
	}
	return findings
}

func checkDocs(s source) (findings []string) {
	missing := func(node ast.Node, name string) {
		findings = append(findings, fmt.Sprintf("%s: %s has no comment", s.at(node), name))
	}
	for _, decl := range s.file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Doc == nil && d.Name.IsExported() && (d.Recv == nil || exportedReceiver(d) && !slices.Contains(ownWords, d.Name.Name)) {
				missing(d, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch x := spec.(type) {
				case *ast.TypeSpec:
					if x.Name.IsExported() && d.Doc == nil && x.Doc == nil && x.Comment == nil {
						missing(x, x.Name.Name)
					}
				case *ast.ValueSpec:
					for _, name := range x.Names {
						if name.IsExported() && d.Doc == nil && x.Doc == nil && x.Comment == nil {
							missing(x, name.Name)
						}
					}
				}
			}
		}
	}
	return findings
}

func exportedReceiver(fn *ast.FuncDecl) bool {
	exported := false
	ast.Inspect(fn.Recv.List[0].Type, func(node ast.Node) bool {
		if name, ok := node.(*ast.Ident); ok {
			exported = name.IsExported()
			return false
		}
		return true
	})
	return exported
}

// The rules see what they are for.
func TestShapeRulesBite(t *testing.T) {
	t.Parallel()
	long := planted(t, "x.go", "x", "package x\nfunc f() {\n"+strings.Repeat("\n", maxFuncLines-1)+"}\n"+strings.Repeat("\n", maxFileLines))
	if got := checkShape(long); len(got) != 2 {
		t.Errorf("checkShape found %q, want a long file and a long function", got)
	}
	bare := planted(t, "x.go", "x", `package x
type T struct{}
type u struct{}
func (T) M() {}
func (*T) String() string { return "" }
func (u) Silent() {}
// Said is said.
func Said() {}
const A = 1
// The group has a word.
var ( B = 1; c = 2 )
`)
	if got := checkDocs(bare); len(got) != 3 {
		t.Errorf("checkDocs found %q, want T, M and A", got)
	}
}
