package plugins_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// smallest is the arithmetic of the plugins that docs/GUESTS.md shows.
func smallest(b table, i int) float64 {
	priority, _ := b.i64("priority", i)
	due, dated := b.i64("meta_i64:deadline_ms", i)
	if !dated {
		return float64(priority)
	}
	return float64(priority) + 1e6/float64(max(1, due-b.Now))
}

// The smallest plugins that the document shows, one per language, do what it says they do. `make plugins` builds those that are not in Go.
func TestDocumentedPlugins(t *testing.T) {
	t.Parallel()
	t.Run("go", func(t *testing.T) {
		text, err := os.ReadFile("../../docs/GUESTS.md")
		if err != nil {
			t.Fatal(err)
		}
		_, program, found := strings.Cut(string(text), "\n```go\n")
		program, _, closed := strings.Cut(program, "```\n")
		if !found || !closed {
			t.Fatal("docs/GUESTS.md shows no plugin in Go")
		}
		file := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
			t.Fatal(err)
		}
		agree(t, load(t, goModule(t, file), `{}`, still), smallest)
	})
	for _, language := range []string{"rust", "c", "assemblyscript"} {
		t.Run(language, func(t *testing.T) {
			agree(t, load(t, built(t, "smallest-"+language), `{}`, still), smallest)
		})
	}
}
