package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/quern-queue/quern"

// listed is the part of `go list -json` that the rules read.
type listed struct {
	ImportPath, Dir                                              string
	GoFiles, CgoFiles, IgnoredGoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports                           []string
	Error                                                        *struct{ Err string }
}

// name is the import path below the module, "." for the module's root.
func (p listed) name() string {
	if p.ImportPath == module {
		return "."
	}
	return strings.TrimPrefix(p.ImportPath, module+"/")
}

// source is one parsed Go file.
type source struct {
	path  string // relative to the repository, with forward slashes
	pkg   string // listed.name of its package
	test  bool
	lines int
	file  *ast.File
	fset  *token.FileSet
}

// at says where node stands, as path:line.
func (s source) at(node ast.Node) string {
	return fmt.Sprintf("%s:%d", s.path, s.fset.Position(node.Pos()).Line)
}

var (
	root     = sync.OnceValues(findRoot)
	packages = sync.OnceValues(listPackages)
	sources  = sync.OnceValues(parseAll)
	tracked  = sync.OnceValues(listTracked)
)

// need unwraps one of the four above, or ends the test with its error.
func need[T any](t *testing.T, get func() (T, error)) T {
	t.Helper()
	value, err := get()
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// report fails the test once per finding, with the advice under them.
func report(t *testing.T, findings []string, advice string) {
	t.Helper()
	for _, finding := range findings {
		t.Error(finding)
	}
	if len(findings) > 0 {
		t.Log("what to do: " + advice)
	}
}

func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("archtest: no go.mod above the working directory")
		}
		dir = parent
	}
}

func run(name string, args ...string) ([]byte, error) {
	dir, err := root()
	if err != nil {
		return nil, err
	}
	var out, problem bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &problem
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("archtest: %s %s: %w: %s", name, strings.Join(args, " "), err, problem.String())
	}
	return out.Bytes(), nil
}

func listPackages() ([]listed, error) {
	out, err := run("go", "list", "-e", "-json=ImportPath,Dir,GoFiles,CgoFiles,IgnoredGoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports,Error", "./...")
	if err != nil {
		return nil, err
	}
	var all []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("archtest: reading the answer of go list: %w", err)
		}
		if p.Error != nil {
			return nil, fmt.Errorf("archtest: package %s does not load: %s", p.ImportPath, p.Error.Err)
		}
		all = append(all, p)
	}
}

func parseAll() ([]source, error) {
	all, err := packages()
	if err != nil {
		return nil, err
	}
	top, err := root()
	if err != nil {
		return nil, err
	}
	var parsed []source
	for _, p := range all {
		for _, name := range slices.Concat(p.GoFiles, p.CgoFiles, p.IgnoredGoFiles, p.TestGoFiles, p.XTestGoFiles) {
			full := filepath.Join(p.Dir, name)
			text, err := os.ReadFile(full)
			if err != nil {
				return nil, err
			}
			rel, err := filepath.Rel(top, full)
			if err != nil {
				return nil, err
			}
			one, err := parse(filepath.ToSlash(rel), p.name(), text)
			if err != nil {
				return nil, err
			}
			if !ast.IsGenerated(one.file) {
				parsed = append(parsed, one)
			}
		}
	}
	return parsed, nil
}

func parse(name, pkg string, text []byte) (source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return source{}, err
	}
	lines := bytes.Count(text, []byte("\n"))
	return source{path: name, pkg: pkg, test: strings.HasSuffix(name, "_test.go"), lines: lines, file: file, fset: fset}, nil
}

// planted parses a piece of source that a rule is tried on.
func planted(t *testing.T, name, pkg, text string) source {
	t.Helper()
	s, err := parse(name, pkg, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// listTracked lists what git tracks or would track, relative to the repository. In an unpacked release, which has no git, it
// is every file below the root but for hidden folders.
func listTracked() ([]string, error) {
	top, err := root()
	if err != nil {
		return nil, err
	}
	var names []string
	if out, err := run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"); err == nil {
		names = strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	} else {
		err := fs.WalkDir(os.DirFS(top), ".", func(name string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() && name != "." && strings.HasPrefix(path.Base(name), ".") && name != ".ci" {
				return fs.SkipDir
			}
			if err == nil && !entry.IsDir() {
				names = append(names, name)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return slices.DeleteFunc(names, func(name string) bool { // deleted, but not yet committed so
		_, err := os.Stat(filepath.Join(top, name))
		return err != nil
	}), nil
}
