package access

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"testing"
)

// always are the names of the functions that a body calls whatever it was given: outside of branches and loops, before the first statement that may
// return, and not on the right of && and ||.
func always(body *ast.BlockStmt) (names []string) {
	leaves := false
	for _, statement := range body.List {
		if leaves {
			break
		}
		ast.Inspect(statement, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ReturnStmt:
				leaves = true
			case *ast.BlockStmt:
				leaves = leaves || returns(n)
				return false
			case *ast.BinaryExpr:
				if n.Op == token.LAND || n.Op == token.LOR {
					names = append(names, always(&ast.BlockStmt{List: []ast.Stmt{&ast.ExprStmt{X: n.X}}})...)
					return false
				}
			case *ast.CallExpr:
				switch called := n.Fun.(type) {
				case *ast.Ident:
					names = append(names, called.Name)
				case *ast.SelectorExpr:
					names = append(names, called.Sel.Name)
				}
			}
			return true
		})
	}
	return names
}

// returns says whether a branch may be the end of the function.
func returns(branch *ast.BlockStmt) (is bool) {
	ast.Inspect(branch, func(n ast.Node) bool {
		_, found := n.(*ast.ReturnStmt)
		is = is || found
		return true
	})
	return is
}

// A guess costs the same work whatever is wrong with it. For an unknown id, a wrong secret, and a secret whose token is over, was revoked or
// rotated, the code makes one hash and the same two comparisons of whole hashes, with no condition before them. The test counts the calls
// in the code, because a duration would depend on the machine.
func TestGuessesCostTheSameWork(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "token.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string][]string{}
	for _, d := range file.Decls {
		if f, is := d.(*ast.FuncDecl); is {
			calls[f.Name.Name] = always(f.Body)
		}
	}
	find := slices.DeleteFunc(slices.Clone(calls["Find"]), func(name string) bool { return name != "proves" })
	if len(find) != 1 || calls["Find"][0] != "proves" {
		t.Errorf("Find always calls %v, want proves, for what is not there too", calls["Find"])
	}
	if got, want := calls["proves"], []string{"ConstantTimeCompare", "ConstantTimeCompare"}; !slices.Equal(got, want) {
		t.Errorf("proves always calls %v, want %v", got, want)
	}
	if got := calls["HashOf"]; !slices.Contains(got, "Sum256") {
		t.Errorf("HashOf always calls %v, want the one hash among them", got)
	}
}
