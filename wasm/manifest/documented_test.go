package manifest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/PLUGINS.md lists the fields that a manifest may have, all of them and no others.
func TestFieldsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "PLUGINS.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## The manifest\n")
	table, _, _ = strings.Cut(table, "\n## ")
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_.\\[\\]]+)`").FindAllStringSubmatch(table, -1) {
		listed = append(listed, row[1])
	}
	want := slices.Clone(known)
	for object, keys := range map[string][]string{"window.": knownWindow, "needs.": knownNeeds, "context[].": knownContext} {
		for _, key := range keys {
			want = append(want, object+key)
		}
	}
	slices.Sort(want)
	slices.Sort(listed)
	if !slices.Equal(listed, want) {
		t.Errorf("docs/PLUGINS.md lists the fields %v, want %v", listed, want)
	}
}
