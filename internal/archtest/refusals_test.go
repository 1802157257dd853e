package archtest

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// refusing are the folders whose refusals are about strategies.
var refusing = []string{"engine/strategy", "engine/backlog", "engine/shard/views", "engine/shard/scoring"}

// refuses are the functions that make a refusal from a format.
var refuses = []string{"invalid", "Invalid", "problem", "fail", "Sprintf"}

// says matches the words that a refusal with a number must contain, about what the field must be or what to do instead.
var says = regexp.MustCompile(`(?i)\b(must (be|have)|expected|may be at most)\b|(^|[;:.,] |, or |and )(use|give|put|nest|make|lower|raise|` +
	`delete|reserve|send|leave|keep|ask|have|shorten|wait)\b|: %s|\. %s`)

// A refusal of a strategy that contains a number says what the number is of, and what to do: a number alone, as in "has 70000 bytes;
// 65536 are allowed", leaves the caller to guess both.
func TestRefusalsOfStrategiesSayWhatToDo(t *testing.T) {
	t.Parallel()
	var wrong []string
	looked := 0
	for _, s := range need(t, sources) {
		if !slices.Contains(refusing, folder(s.path)) || strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, is := n.(*ast.CallExpr)
			if !is || !slices.Contains(refuses, called(call)) {
				return true
			}
			for _, arg := range call.Args {
				text := literal(arg)
				if !strings.Contains(text, "%d") || !strings.Contains(text, " ") || strings.HasPrefix(text, "backlog: ") {
					continue // the last is a broken invariant, which no caller sees
				}
				looked++
				if !says.MatchString(text) {
					wrong = append(wrong, s.at(call)+" refuses with "+strconv.Quote(text))
				}
			}
			return true
		})
	}
	if looked < 15 {
		t.Errorf("only %d refusals were looked at: they are made in another way now", looked)
	}
	report(t, wrong, "name the field, its limit with a unit, and what to do instead, as in \"; use fewer blocks\"")
}

// called is the name of the function that a call is of.
func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// literal is the text of an expression of string literals; other parts count as empty.
func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); e.Kind == token.STRING && err == nil {
			return text
		}
	case *ast.BinaryExpr:
		return literal(e.X) + literal(e.Y)
	}
	return ""
}
