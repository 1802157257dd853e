package api

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write web/sentences.txt")

// The server's document describes each property by the comment of its field. A program does not know its comments, so
// web/sentences.txt has them.
func TestSentences(t *testing.T) {
	t.Parallel()
	const file = "../../web/sentences.txt"
	got := "# The comments of the fields of package api, written by its tests: see CONTRIBUTING.md.\n" + strings.Join(sentences(t), "\n") + "\n"
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is not what the comments of this package say; write it with `make golden`", file)
	}
}

// sentences are lines "TYPE.PROPERTY sentence", by name.
func sentences(t *testing.T) (lines []string) {
	names, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	structs := map[string]*ast.StructType{}
	files := token.NewFileSet()
	for _, name := range names {
		if !strings.HasSuffix(name.Name(), ".go") || strings.HasSuffix(name.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(files, name.Name(), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if spec, is := n.(*ast.TypeSpec); is {
				if fields, is := spec.Type.(*ast.StructType); is {
					structs[spec.Name.Name] = fields
				}
			}
			return true
		})
	}
	for name, fields := range structs {
		for _, line := range sentencesOf(structs, fields) {
			lines = append(lines, name+"."+line)
		}
	}
	slices.Sort(lines)
	return lines
}

// sentencesOf are lines "PROPERTY sentence" about the fields of a struct that have a comment, also those of structs
// that it embeds.
func sentencesOf(structs map[string]*ast.StructType, of *ast.StructType) (lines []string) {
	for _, field := range of.Fields.List {
		if name, is := field.Type.(*ast.Ident); is && field.Names == nil && structs[name.Name] != nil {
			lines = append(lines, sentencesOf(structs, structs[name.Name])...)
			continue
		}
		text := strings.Join(strings.Fields(field.Doc.Text()+" "+field.Comment.Text()), " ")
		if field.Tag == nil || text == "" {
			continue
		}
		property, _, _ := strings.Cut(reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("json"), ",")
		lines = append(lines, property+" "+text)
	}
	return lines
}
