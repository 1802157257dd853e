package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
)

// The command line gives the server's advice in commands. No error text of the server is printed with a method, a header, a query or a path
// of the HTTP API in it.
func TestMessagesNameCommands(t *testing.T) {
	t.Parallel()
	http := regexp.MustCompile(`\b(GET|POST|PUT|PATCH|DELETE|Authorization|Bearer|If-Match|If-None-Match|Idempotency-Key)\b|/v1/|\?[a-z]+`)
	advice := 0
	for _, text := range serverMessages(t) {
		if http.MatchString(text) {
			advice++
		}
		var out strings.Builder
		a := &app{err: &out}
		a.printProblem(api.Problem{Title: "No", Detail: text, Errors: []api.ProblemError{{Pointer: text, Detail: text}}})
		out.WriteString(strings.Join(shardRow(api.Shard{Reason: text}), " "))
		if found := http.FindString(out.String()); found != "" {
			t.Errorf("%q is printed with %s in it: add it to inCommands", text, found)
		}
	}
	if advice < 4 {
		t.Errorf("%d messages of the server have a method of HTTP; the test does not find them any more", advice)
	}
}

// serverMessages are the texts in the errors that the server's code makes: of queue.Error, queue.Invalid and web's newProblem.
func serverMessages(t *testing.T) (found []string) {
	t.Helper()
	for _, folder := range []string{"engine", "plugins", "wasm", "web"} {
		err := filepath.WalkDir(filepath.Join("../..", folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.KeyValueExpr:
					if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Message" {
						found = append(found, texts(n.Value)...)
					}
				case *ast.CallExpr:
					if strings.Contains("Invalid newProblem", calledName(n.Fun)) {
						for _, argument := range n.Args {
							found = append(found, texts(argument)...)
						}
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

func calledName(fun ast.Expr) string {
	switch f := fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return "no name"
}

// texts are the literals in an expression, those with a plus between them as one.
func texts(e ast.Expr) (found []string) {
	var whole func(e ast.Expr) (string, bool)
	whole = func(e ast.Expr) (string, bool) {
		switch e := e.(type) {
		case *ast.BasicLit:
			text, err := strconv.Unquote(e.Value)
			return text, err == nil && e.Kind == token.STRING
		case *ast.BinaryExpr:
			left, first := whole(e.X)
			right, second := whole(e.Y)
			return left + right, first || second
		}
		return "", false
	}
	ast.Inspect(e, func(n ast.Node) bool {
		if inner, ok := n.(ast.Expr); ok {
			if text, ok := whole(inner); ok {
				found = append(found, text)
				return false
			}
		}
		return true
	})
	return found
}
