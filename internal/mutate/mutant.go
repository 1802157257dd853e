package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// mutant is one change of the code and the tests that should notice it.
type mutant struct {
	name, file string
	tests      []string // packages, each with an optional ":REGEXP" for go test -run; in this order, until one fails
	old, new   string
	equivalent string // why no test can distinguish it from the code; "": one should
}

// verdict is the kind of a mutant's outcome.
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
