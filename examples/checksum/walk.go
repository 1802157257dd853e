package main

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// maxChunks is the most chunks that one insert may carry; a larger group becomes several submissions.
const maxChunks = 100_000

// group is the work of one submission: files that share their top folder and their extension.
type group struct {
	top   string // folder directly below the root; "." for files that lie in the root itself
	kind  string // extension without its dot; "none" when there is none
	paths []string
}

// walk finds every regular file below root and groups them. Paths are absolute, because consumers run elsewhere. The
// order is that of the file names, so two walks of the same tree are equal.
func walk(root string) ([]group, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	type name struct{ top, kind string }
	found := map[name][]string{}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		below, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		key := name{topOf(below), kindOf(entry.Name())}
		found[key] = append(found[key], path)
		return nil
	})
	if err != nil {
		return nil, err
	}
	var groups []group
	for key, paths := range found {
		for part := range slices.Chunk(paths, maxChunks) {
			groups = append(groups, group{key.top, key.kind, part})
		}
	}
	slices.SortFunc(groups, func(a, b group) int { return strings.Compare(a.paths[0], b.paths[0]) })
	return groups, nil
}

// topOf is the first folder of a path below the root.
func topOf(below string) string {
	top, _, nested := strings.Cut(filepath.ToSlash(below), "/")
	if !nested {
		return "."
	}
	return top
}

// kindOf is the extension of a file name. A name that only begins with a dot has none.
func kindOf(name string) string {
	kind := strings.TrimPrefix(filepath.Ext(strings.TrimPrefix(name, ".")), ".")
	if kind == "" {
		return "none"
	}
	return kind
}
