package api

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Each word that the document of the interface allows in a place has a constant, so that no program has to spell it.
func TestEveryWordHasAConstant(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "web", "testdata", "openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	var document any
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	document = document.(map[string]any)["components"]
	constants, words := texts(t), 0
	eachEnum("", document, func(where string, list []any) {
		if strings.Contains(where, "Block/") {
			return // strategies are written as text
		}
		for _, one := range list {
			word, is := one.(string)
			if words++; is && word != "" && !slices.Contains(constants, word) {
				t.Errorf("%s: %q has no constant in sdk/api", where, word)
			}
		}
	})
	if words < 100 {
		t.Errorf("the document has %d words: the test looks at the wrong place", words)
	}
}

// eachEnum calls fn for the enumerations below a place of a document.
func eachEnum(where string, at any, fn func(where string, list []any)) {
	switch at := at.(type) {
	case map[string]any:
		for name, below := range at {
			if list, is := below.([]any); is && name == "enum" {
				fn(where, list)
				continue
			}
			eachEnum(where+"/"+name, below, fn)
		}
	case []any:
		for i, below := range at {
			eachEnum(where+"/"+strconv.Itoa(i), below, fn)
		}
	}
}

// texts are the values of the package's exported constants that are texts.
func texts(t *testing.T) (list []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, is := n.(*ast.ValueSpec)
			if !is || !ast.IsExported(spec.Names[0].Name) {
				return true
			}
			for _, value := range spec.Values {
				if literal, is := value.(*ast.BasicLit); is && literal.Kind == token.STRING {
					word, err := strconv.Unquote(literal.Value)
					if err != nil {
						t.Fatal(err)
					}
					list = append(list, word)
				}
			}
			return true
		})
	}
	return list
}

// A list of words that a tag names has constants only: one word may stand in several lists, with a constant for each meaning.
func TestListsHaveNoLiterals(t *testing.T) {
	t.Parallel()
	parsed, err := parser.ParseFile(token.NewFileSet(), "limits.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	lists := 0
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is || spec.Names[0].Name != "names" {
			return true
		}
		for _, pair := range spec.Values[0].(*ast.CompositeLit).Elts {
			pair := pair.(*ast.KeyValueExpr)
			lists++
			for _, word := range pair.Value.(*ast.CompositeLit).Elts {
				if literal, is := word.(*ast.BasicLit); is {
					t.Errorf("the list %s has %s, which needs a constant", pair.Key.(*ast.BasicLit).Value, literal.Value)
				}
			}
		}
		return false
	})
	if lists == 0 {
		t.Error("there are no lists: the test looks at the wrong place")
	}
}
