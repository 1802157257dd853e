package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/strategy"
)

var (
	blockBegins = regexp.MustCompile(`\b(OrElse|Select(Only|Any)|Except|Max(Simultaneous|Rate)|PreferDistinct|Fair|Score|Plugin)\(`)
	// Arguments that stand for something: a block, a key, a number, or anything. The answers of explain name keys without quotes.
	standsFor = regexp.MustCompile(`\.\.\.|…|[(, ]([XYZkn]|key|name|value|max|per|expression|underlying)[,)]|[(,] *\)|(Fair|Distinct|Simultaneous)\([a-z]`)
)

// Every strategy that a document shows is one that the server takes, unless a name in it stands for something.
func TestShownStrategiesAreTaken(t *testing.T) {
	t.Parallel()
	checked := 0
	for where, text := range documentsOf(t) {
		for rest := text; ; {
			at := blockBegins.FindStringIndex(rest)
			if at == nil {
				break
			}
			shown := balanced(rest[at[0]:])
			rest = rest[max(at[1], at[0]+len(shown)):]
			if shown == "" || standsFor.MatchString(shown) {
				continue
			}
			checked++
			if _, err := strategy.Parse(strings.ReplaceAll(shown, `\"`, `"`)); err != nil {
				t.Errorf("%s shows %s: %v", where, shown, err)
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d strategies were found", checked)
	}
}

// balanced is the text up to the bracket that closes the first one; "": none does.
func balanced(text string) string {
	depth, quoted := 0, false
	for i, c := range text {
		switch {
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '(':
			depth++
		case c == ')':
			if depth--; depth == 0 {
				return text[:i+1]
			}
		}
	}
	return ""
}
