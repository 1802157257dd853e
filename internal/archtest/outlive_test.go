package archtest

import (
	"go/ast"
	"strings"
	"testing"
)

// A goroutine of a handler may still run when the call is over. By then its echo.Context, which every handler calls c, belongs to another call:
// the goroutine would read the headers and the rights of another client.
func TestGoroutinesLeaveTheCallAlone(t *testing.T) {
	t.Parallel()
	var findings []string
	for _, s := range need(t, sources) {
		if s.test || !strings.HasPrefix(s.pkg+"/", "web/") {
			continue
		}
		ast.Inspect(s.file, func(node ast.Node) bool {
			call, is := node.(*ast.CallExpr)
			if begin, starts := node.(*ast.GoStmt); starts {
				call, is = begin.Call, true
			} else if is {
				method, of := call.Fun.(*ast.SelectorExpr)
				is = of && method.Sel.Name == "Go"
			}
			if is {
				ast.Inspect(call, func(inner ast.Node) bool {
					if name, is := inner.(*ast.Ident); is && name.Name == "c" {
						findings = append(findings, s.at(name)+" a goroutine uses the echo.Context of a call")
					}
					return true
				})
			}
			return true
		})
	}
	report(t, findings, "read what the goroutine needs from the call before it starts, as forwarding.asker does")
}
