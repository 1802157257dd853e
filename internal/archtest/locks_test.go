package archtest

import (
	"go/ast"
	"go/printer"
	"strings"
	"testing"
)

// A function that gives a lock back has taken it. So a reader of a call need not know that it gives up, or takes, a lock of the caller.
func TestLocksAreGivenBackWhereTaken(t *testing.T) {
	t.Parallel()
	var findings []string
	for _, s := range need(t, sources) {
		if s.test || s.pkg == "engine/locks" {
			continue
		}
		for _, decl := range s.file.Decls {
			if fn, is := decl.(*ast.FuncDecl); is && fn.Body != nil && fn.Name.Name != "Unlock" {
				findings = append(findings, checkGivenBack(s, fn)...)
			}
		}
	}
	report(t, findings, "take the lock and give it back in one function, and hand what is done under it to another")
}

// checkGivenBack compares which locks a function takes and gives back, by how they are written there.
func checkGivenBack(s source, fn *ast.FuncDecl) (findings []string) {
	taken, given := map[string]bool{}, map[string]ast.Node{}
	ast.Inspect(fn.Body, func(node ast.Node) bool {
		call, is := node.(*ast.CallExpr)
		if !is {
			return true
		}
		method, is := call.Fun.(*ast.SelectorExpr)
		if !is {
			return true
		}
		var lock strings.Builder
		if err := printer.Fprint(&lock, s.fset, method.X); err != nil {
			findings = append(findings, s.at(call)+" "+err.Error())
		}
		switch method.Sel.Name {
		case "Lock", "RLock", "TryLock":
			taken[lock.String()] = true
		case "Unlock", "RUnlock":
			given[lock.String()] = call
		}
		return true
	})
	for lock, call := range given {
		if !taken[lock] {
			findings = append(findings, s.at(call)+" gives "+lock+" back, which "+fn.Name.Name+" has not taken")
		}
	}
	return findings
}
