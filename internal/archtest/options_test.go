package archtest

import (
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// docs/OPERATIONS.md has a row for every option of the server and no other, with its default, its limits and its sentence as the code has them.
func TestOptionsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(need(t, root), "docs/OPERATIONS.md"))
	if err != nil {
		t.Fatal(err)
	}
	options := 0
	var findings []string
	for _, s := range need(t, sources) {
		if s.pkg == "cmd/quern" && !s.test {
			found, missing := checkOptions(s, string(text))
			options += found
			findings = append(findings, missing...)
		}
	}
	_, table, _ := strings.Cut(string(text), "\n| option |")
	table, _, _ = strings.Cut(table, "\n\n")
	if rows := strings.Count(table, "\n| `"); rows > options {
		findings = append(findings, fmt.Sprintf("docs/OPERATIONS.md has %d rows of options; cmd/quern has %d options", rows, options))
	}
	report(t, findings, "put the row into the table of docs/OPERATIONS.md, Configuration")
	if options == 0 {
		t.Error("found no options: where the functions of cmd/quern that return []option went, internal/archtest/options_test.go must look")
	}
}

// checkOptions reads the lists that functions of options return: each element begins with name, default, limit and help.
func checkOptions(s source, table string) (found int, missing []string) {
	for _, decl := range s.file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || !returnsOptions(fn) {
			continue
		}
		ast.Inspect(fn.Body, func(node ast.Node) bool {
			element, ok := node.(*ast.CompositeLit)
			if !ok || len(element.Elts) < 5 || element.Type != nil {
				return true
			}
			cells := make([]string, 4)
			for i := range cells {
				cells[i] = textOf(element.Elts[i])
			}
			shown := ""
			if cells[1] != "" {
				shown = "`" + cells[1] + "` "
			}
			row := fmt.Sprintf("| `%s` | %s| %s | %s |", cells[0], shown, cells[2], cells[3])
			found++
			if !strings.Contains(table, "\n"+row+"\n") {
				missing = append(missing, s.at(element)+": this row is missing:\n"+row)
			}
			return false
		})
	}
	return found, missing
}

// textOf is the text of a string literal, or of several that are added up; "" of anything else.
func textOf(expr ast.Expr) string {
	switch x := expr.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(x.Value)
		return text
	case *ast.BinaryExpr:
		return textOf(x.X) + textOf(x.Y)
	}
	return ""
}

// returnsOptions says whether the one result of a function is a list of options.
func returnsOptions(fn *ast.FuncDecl) bool {
	if fn.Recv != nil || fn.Type.Results.NumFields() != 1 {
		return false
	}
	list, ok := fn.Type.Results.List[0].Type.(*ast.ArrayType)
	if !ok {
		return false
	}
	of, ok := list.Elt.(*ast.Ident)
	return ok && of.Name == "option"
}

// The rule finds planted violations.
func TestOptionRuleBites(t *testing.T) {
	t.Parallel()
	s := planted(t, "cmd/quern/options.go", "cmd/quern", `package main
func options() []option {
	return []option{
		{"data", "here", "a " + "directory", "where", nil},
		{"hosts", "", "names", "who", nil},
	}
}`)
	found, missing := checkOptions(s, "\n| `data` | `here` | a directory | where |\n| `hosts` | | other | who |\n")
	if found != 2 || len(missing) != 1 {
		t.Errorf("checkOptions found %d options and missed %q, want 2 options and the row of hosts missing", found, missing)
	}
}
