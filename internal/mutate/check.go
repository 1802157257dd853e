package main

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// checker says whether changed code builds, by its types: that takes seconds for all mutants.
type checker struct {
	set   *token.FileSet
	known types.Importer
}

func newChecker() (*checker, error) {
	out, err := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}", "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		exports[name] = file
	}
	set := token.NewFileSet()
	return &checker{set, importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}, nil
}

// checkAll says which mutants do not fit the code or do not build, without running any.
func checkAll(list []mutant) error {
	check, err := newChecker()
	if err != nil {
		return err
	}
	bad := 0
	for i := range list {
		m := &list[i]
		code, err := os.ReadFile(m.file)
		if err != nil {
			return err
		}
		changed, fits := m.apply(string(code))
		if !fits {
			bad++
			fmt.Printf("%s: %s\n", stale, m.name)
			continue
		}
		if err := check.types(m.file, changed); err != nil {
			bad++
			fmt.Printf("%s: %s: %v\n", unbuilt, m.name, err)
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d mutants do not fit the code any more: correct them in internal/mutate/mutants", bad, len(list))
	}
	return nil
}

// types checks the package of a file with other text in its place.
func (c *checker) types(path, changed string) error {
	paths, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*.go"))
	if err != nil {
		return err
	}
	var files []*ast.File
	for _, other := range paths {
		if strings.HasSuffix(other, "_test.go") {
			continue
		}
		var text any
		if filepath.Clean(other) == filepath.Clean(path) {
			text = changed
		}
		file, err := parser.ParseFile(c.set, other, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	config := types.Config{Importer: c.known}
	_, err = config.Check(files[0].Name.Name, c.set, files, nil)
	return err
}
