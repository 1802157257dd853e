package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Files are grouped by top folder and extension; folders, links and other things that are no regular files are left out.
func TestWalkGroups(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, name := range []string{"LICENSE", "go.mod", "a/x.go", "a/y.go", "a/deep/er/z.go", "a/.hidden", "a/.hidden.txt", "b/Makefile", "b/x.tar.gz"} {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("x.go", filepath.Join(root, "a", "link.go")); err != nil {
		t.Fatal(err)
	}
	groups, err := walk(root)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, g := range groups {
		var names []string
		for _, path := range g.paths {
			name, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, filepath.ToSlash(name))
		}
		lines = append(lines, fmt.Sprintf("%s %s: %s", g.top, g.kind, strings.Join(names, " ")))
	}
	want := []string{
		". none: LICENSE",
		"a none: a/.hidden",
		"a txt: a/.hidden.txt",
		"a go: a/deep/er/z.go a/x.go a/y.go",
		"b none: b/Makefile",
		"b gz: b/x.tar.gz",
		". mod: go.mod",
	}
	if got := strings.Join(lines, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
}

// Names that sha256sum escapes are compared by their sum all the same.
func TestStrangeNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var paths []string
	for _, name := range []string{"plain", "two words", `back\slash`, "line\nend", "-dash", "ünï"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	sums, err := direct(t.Context(), paths)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if len(sums[path]) != 64 {
			t.Errorf("sum of %q = %q, want 64 digits", path, sums[path])
		}
	}
	for output, want := range map[string]string{"abc  /x y\n": "abc", "\\abc  /x\\\\y\n": "abc", "": ""} {
		if got := sumOf([]byte(output)); got != want {
			t.Errorf("sumOf(%q) = %q, want %q", output, got, want)
		}
	}
}
