package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// mutant is one change of the code and the tests that should notice it.
type mutant struct {
	name, file string
	tests      []string // packages, each with an optional ":REGEXP" for go test -run; in this order, until one fails
	old, new   string
	equivalent string // why no test can tell it from the code; "": one should
}

// verdict is what a mutant came to.
type verdict string

const (
	caught     verdict = "caught"
	byTime     verdict = "caught by time" // its tests did not end: look whether it is the mutant that hangs, or the machine that is slow
	survived   verdict = "survived"
	equivalent verdict = "equivalent"
	stale      verdict = "stale" // its old text is not in the file, or more than once
	unbuilt    verdict = "does not build"
	notRun     verdict = "not run"
)

// readLists reads all lists of a folder.
func readLists(folder string) (list []mutant, err error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("no lists in %s: run it in the root of the repository (%w)", folder, errors.Join(err, fs.ErrNotExist))
	}
	names := map[string]bool{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		of, err := parseList(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, m := range of {
			if names[m.name] {
				return nil, fmt.Errorf("%s: mutant %s is there twice", path, m.name)
			}
			names[m.name] = true
		}
		list = append(list, of...)
	}
	return list, nil
}

// parseList reads a list. A line that begins with "file", "tests" or "equivalent" holds for the mutant it stands in, or, before the first
// "mutant" line or between two, for all that follow (but for "equivalent"). Lines of code begin with "-" or "+", as in a diff.
func parseList(text string) (list []mutant, err error) {
	var shared mutant
	var m *mutant
	for number, line := range strings.Split(text, "\n") {
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.TrimSpace(line) == "":
			m = nil
		case strings.HasPrefix(line, "-") && m != nil:
			m.old += line[1:] + "\n"
		case strings.HasPrefix(line, "+") && m != nil:
			m.new += line[1:] + "\n"
		case word == "mutant":
			list = append(list, shared)
			m = &list[len(list)-1]
			m.name = rest
		case word == "equivalent" && m != nil:
			m.equivalent = rest
		case word == "file" || word == "tests":
			to := &shared
			if m != nil {
				to = m
			}
			if word == "file" {
				to.file = rest
			} else {
				to.tests = strings.Fields(rest)
			}
		default:
			return nil, fmt.Errorf("line %d: %q is not part of a mutant", number+1, line)
		}
	}
	for _, m := range list {
		if m.name == "" || m.file == "" || m.old == "" || len(m.tests) == 0 {
			return nil, fmt.Errorf("mutant %q lacks its name, file, tests or old text", m.name)
		}
	}
	return list, nil
}

func (m *mutant) difference() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %s, tests %s\n", m.file, strings.Join(m.tests, " "))
	for _, part := range []struct{ sign, text string }{{"  -", m.old}, {"  +", m.new}} {
		for line := range strings.Lines(part.text) {
			b.WriteString(part.sign + line)
		}
	}
	return b.String()
}

// apply is the file with the change in it; false: the old text is not there exactly once.
func (m *mutant) apply(code string) (changed string, fits bool) {
	if strings.Count("\n"+code, "\n"+m.old) != 1 {
		return "", false
	}
	return strings.Replace("\n"+code, "\n"+m.old, "\n"+m.new, 1)[1:], true
}

// run builds the mutant and runs its tests until one fails.
func (m *mutant) run(short bool, limit time.Duration) (verdict, error) {
	code, err := os.ReadFile(m.file)
	if errors.Is(err, fs.ErrNotExist) {
		return stale, nil
	}
	if err != nil {
		return "", err
	}
	changed, fits := m.apply(string(code))
	if !fits {
		return stale, nil
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	mutated, overlay := filepath.Join(dir, filepath.Base(m.file)), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: mutated}})
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.WriteFile(mutated, []byte(changed), 0o600), os.WriteFile(overlay, replace, 0o600)); err != nil {
		return "", err
	}
	for _, tests := range m.tests {
		if v, err := runTests(tests, overlay, short, limit); v != survived || err != nil {
			return v, err
		}
	}
	return survived, nil
}

func runTests(tests, overlay string, short bool, limit time.Duration) (verdict, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit+time.Minute)
	defer cancel()
	pkg, pattern, _ := strings.Cut(tests, ":")
	out, err := exec.CommandContext(ctx, "go", "test", "-overlay", overlay, fmt.Sprintf("-short=%v", short), "-failfast", "-count", "1", "-timeout", limit.String(), "-run", pattern, pkg).CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil && bytes.Contains(out, []byte("no tests to run")):
		return "", fmt.Errorf("%s: no test has that name", tests)
	case err == nil:
		return survived, nil
	case bytes.Contains(out, []byte("[build failed]")) || bytes.Contains(out, []byte("[setup failed]")):
		return unbuilt, nil
	case bytes.Contains(out, []byte("panic: test timed out")):
		return byTime, nil
	case errors.As(err, &exit):
		return caught, nil
	}
	return "", fmt.Errorf("go test %s: %w\n%s", tests, err, out)
}

// book is the results file.
type book struct {
	path string
	all  map[string]verdict // by key
}

func openBook(path string) (*book, error) {
	b := &book{path: path, all: map[string]verdict{}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &b.all)
	}
	if err != nil {
		return nil, fmt.Errorf("the results: %w; remove the file to begin again", err)
	}
	return b, nil
}

// key is the mutant's name and what it changes, so that a changed one is run again.
func (m *mutant) key() string {
	sum := sha256.Sum256([]byte(m.file + "\x00" + m.old + "\x00" + m.new + "\x00" + strings.Join(m.tests, " ")))
	return m.name + " " + hex.EncodeToString(sum[:6])
}

func (b *book) find(m mutant) (verdict, bool) {
	v, known := b.all[m.key()]
	return v, known
}

func (b *book) note(m mutant, v verdict) error {
	b.all[m.key()] = v
	text, err := json.MarshalIndent(b.all, "", "\t")
	if err != nil {
		return err
	}
	if err := os.WriteFile(b.path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(b.path+".new", b.path)
}
