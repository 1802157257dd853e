package archtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// A line fits on the screen, with two files beside each other: it has at most maxColumns, where a tab counts as tabColumns.
// In the folders that are read most, it has at most mostReadColumns.
const maxColumns, mostReadColumns, tabColumns = 140, 120, 4

var mostRead = []string{"engine/backlog/", "engine/journal/", "engine/shard/", "engine/store/", "web/"}

// wideLeft counts the lines that are wider, by folder. A number here only goes down.
var wideLeft = map[string]int{
	"internal/mutate": 4,
}

// Lines stay narrow enough to be read. Tests may be wider: their tables are.
func TestLinesAreNotTooWide(t *testing.T) {
	t.Parallel()
	found := map[string][]string{}
	for _, s := range need(t, sources) {
		if s.test {
			continue
		}
		text, err := os.ReadFile(filepath.Join(need(t, root), filepath.FromSlash(s.path)))
		if err != nil {
			t.Fatal(err)
		}
		found[folder(s.path)] = append(found[folder(s.path)], checkWidth(s.path, string(text))...)
	}
	report(t, checkLeft(found, wideLeft, "wide lines"), "break the line behind a comma or an operator, put the comment above it, or say less; "+
		"where a folder has fewer now, lower its number in wideLeft")
}

func checkWidth(name, text string) (findings []string) {
	most := maxColumns
	if slices.ContainsFunc(mostRead, func(folder string) bool { return strings.HasPrefix(name, folder) }) {
		most = mostReadColumns
	}
	for i, line := range strings.Split(text, "\n") {
		if n := utf8.RuneCountInString(line) + (tabColumns-1)*strings.Count(line, "\t"); n > most {
			findings = append(findings, fmt.Sprintf("%s:%d has %d columns; at most %d", name, i+1, n, most))
		}
	}
	return findings
}

// The rule finds planted violations, and nothing else.
func TestWidthRuleBites(t *testing.T) {
	t.Parallel()
	fits := "\t" + strings.Repeat("é", maxColumns-tabColumns)
	if got := checkWidth("x.go", fits+"\n"+fits+"e\n"); len(got) != 1 || !strings.HasPrefix(got[0], "x.go:2 ") {
		t.Errorf("checkWidth found %q, want line 2", got)
	}
	if got := checkWidth("web/x.go", strings.Repeat("x", mostReadColumns)+"\n"+fits); len(got) != 1 || !strings.HasPrefix(got[0], "web/x.go:2 ") {
		t.Errorf("checkWidth found %q in a folder that is read most, want line 2", got)
	}
}
