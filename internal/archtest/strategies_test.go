package archtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/strategy"
)

// Every strategy that a document shows in a fence marked "strategy" compiles to the plan below its "---".
func TestDocumentedStrategies(t *testing.T) {
	t.Parallel()
	shown := 0
	var findings []string
	for name, text := range documents(t) {
		for _, block := range fences(text, "strategy") {
			shown++
			if finding := checkStrategy(block); finding != "" {
				findings = append(findings, name+": "+finding)
			}
		}
	}
	report(t, findings, "correct the document; if the language changed, also docs/STRATEGIES.md and CHANGELOG.md")
	if shown < 9 {
		t.Errorf("found %d documented strategies, want at least one per block (9)", shown)
	}
}

// fences are the contents of the fenced blocks that are marked with this word.
func fences(text, mark string) (blocks []string) {
	for _, part := range strings.Split("\n"+text, "\n```"+mark+"\n")[1:] {
		block, _, _ := strings.Cut(part, "\n```")
		blocks = append(blocks, block)
	}
	return blocks
}

func checkStrategy(block string) string {
	text, plan, found := strings.Cut(block, "\n---\n")
	if !found {
		return fmt.Sprintf("the strategy %q has no plan below a line of three dashes", block)
	}
	s, err := strategy.Parse(text)
	if err != nil {
		return fmt.Sprintf("the strategy %s is refused: %v", text, err)
	}
	if s.String() != text {
		return fmt.Sprintf("the strategy %s is not in canonical form, which is %s", text, s)
	}
	if got := s.Plan().String(); got != plan {
		return fmt.Sprintf("the strategy %s compiles to\n%s\nand the document says\n%s", text, got, plan)
	}
	return ""
}

// The rule finds planted violations.
func TestStrategyRuleBites(t *testing.T) {
	t.Parallel()
	text := "x\n```strategy\nRandom\n---\n1 Random\n```\n\n```strategy\nRandom\n---\n1 OldestFirst\n```\n```strategy\nRandom( )\n---\n1 Random\n```\n"
	blocks := fences(text, "strategy")
	if len(blocks) != 3 {
		t.Fatalf("fences found %q, want three", blocks)
	}
	for i, wrong := range []bool{false, true, true} {
		if got := checkStrategy(blocks[i]); (got != "") != wrong {
			t.Errorf("checkStrategy(%q) = %q, want wrong = %v", blocks[i], got, wrong)
		}
	}
}
