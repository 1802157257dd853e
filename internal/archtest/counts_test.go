package archtest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// wide is the width from which a line counts as wide: two files stand beside each other on a screen of 240 columns.
const wide = 120

// counts are the lines of a folder outside tests: all, those that are comments from their first character on, and those
// over 120 columns.
type counts struct{ lines, comments, wide int }

func (c counts) String() string {
	return fmt.Sprintf("%6d lines, %5d comments (%4.1f %%), %4d over %d columns", c.lines, c.comments, c.share(), c.wide, wide)
}

// share is how many of 100 lines are comments.
func (c counts) share() float64 { return 100 * float64(c.comments) / float64(max(1, c.lines)) }

// A number of leastExplained only goes up, one of mostWide only down. Three went down once, when all comments were written again: sentences
// that name their subjects turned out shorter.
//
// These folders are read most. Their comments give the reasons that the code cannot show: invariants, orders, and dangers.
var (
	leastExplained = map[string]float64{
		"engine/shard": 13, "engine/backlog": 14, "engine/journal": 13, "engine/store": 13, "web": 14,
	}
	mostWide = map[string]int{
		"engine/shard": 0, "engine/backlog": 0, "engine/journal": 0, "engine/store": 0, "web": 11,
	}
)

// The folders that are read most keep their comments and their width. With -v it prints the figures of all folders: make count.
func TestCounts(t *testing.T) {
	t.Parallel()
	found := map[string]counts{}
	for _, s := range need(t, sources) {
		if s.test {
			continue
		}
		text, err := os.ReadFile(filepath.Join(need(t, root), filepath.FromSlash(s.path)))
		if err != nil {
			t.Fatal(err)
		}
		c := countLines(string(text))
		for name := range counted(s.path) {
			sum := found[name]
			found[name] = counts{sum.lines + c.lines, sum.comments + c.comments, sum.wide + c.wide}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		t.Logf("%-24s %v", name, found[name])
	}
	for name, least := range leastExplained {
		if c := found[name]; c.share() < least {
			t.Errorf("%s: %.1f %% of the lines are comments, at least %g %% were: say why the new code is as it is", name, c.share(), least)
		}
	}
	for name, most := range mostWide {
		if c := found[name]; c.wide > most {
			t.Errorf("%s: %d lines have more than %d columns, at most %d may: break them behind a comma or an operator", name, c.wide, wide, most)
		}
	}
}

// counted yields the folders that a file counts for: the first, the first two, and one of its own for the whole.
func counted(path string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		parts := strings.Split(path, "/")
		if !yield("all") || !yield(parts[0]) || len(parts) < 3 {
			return
		}
		yield(parts[0] + "/" + parts[1])
	}
}

func countLines(text string) (c counts) {
	block := false
	for line := range strings.Lines(text) {
		c.lines++
		trimmed := strings.TrimSpace(line)
		if block || strings.HasPrefix(trimmed, "//") || strings.HasPrefix(trimmed, "/*") {
			c.comments++
		}
		if strings.HasPrefix(trimmed, "/*") {
			block = true
		}
		block = block && !strings.Contains(trimmed, "*/")
		if utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))+(tabColumns-1)*strings.Count(line, "\t") > wide {
			c.wide++
		}
	}
	return c
}

// The count finds comments and wide lines, and only them.
func TestCountsBite(t *testing.T) {
	t.Parallel()
	text := "// one\n\nx := 1 // no\n/* two\nthree */\n\t// four\n" + strings.Repeat("é", wide) + "\n\t" + strings.Repeat("x", wide-3) + "\n"
	if got, want := countLines(text), (counts{lines: 8, comments: 4, wide: 1}); got != want {
		t.Errorf("countLines has %+v, want %+v", got, want)
	}
}
