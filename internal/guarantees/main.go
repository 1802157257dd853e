// Command guarantees shows the tests behind the promises: `make guarantees` runs every test that docs/GUARANTEES.md and SECURITY.md name,
// and writes into them, between two marks, where each is and what it counted. A test writes its count in a line of its log that begins
// with "counted: "; for the others the cases are counted. It takes as long as the tests take. With -missing only those that have no row
// yet are run; the rows of the others stay.
//
//quern:tests processes
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// documents are those that have promises, below the repository.
var documents = []string{"docs/GUARANTEES.md", "SECURITY.md"}

const (
	begin = "<!-- Made by make guarantees: from here -->"
	end   = "<!-- to here -->"
)

var (
	named    = regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")
	row      = regexp.MustCompile("(?m)^\\| `(Test[A-Za-z0-9_]+)` \\| `([^`]+)` \\| (.*) \\|$")
	declared = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(`)
)

// shown is a test behind a promise.
type shown struct{ test, folder, counted string }

func main() {
	missing := flag.Bool("missing", false, "run only the tests that have no row yet")
	flag.Parse()
	list := documents
	if flag.NArg() > 0 {
		list = flag.Args()
	}
	if err := write(".", list, *missing); err != nil {
		fmt.Fprintln(os.Stderr, "guarantees:", err)
		os.Exit(1)
	}
}

// write runs the tests of documents, and writes their tables.
func write(root string, documents []string, missing bool) error {
	where, err := folders(root)
	if err != nil {
		return err
	}
	for _, name := range documents {
		path := filepath.Join(root, name)
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		tests, err := testsOf(string(text), where)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		old := rows(string(text))
		for i := range tests {
			if missing {
				tests[i].counted = old[tests[i].folder+" "+tests[i].test]
			}
		}
		if err := run(root, tests); err != nil {
			return err
		}
		next, err := replaced(string(text), table(tests))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(path, []byte(next), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// rows has the counts of the tests of a table, by folder and name.
func rows(text string) map[string]string {
	counted := map[string]string{}
	for _, found := range row.FindAllStringSubmatch(text, -1) {
		counted[found[2]+" "+found[1]] = found[3]
	}
	return counted
}

// folders says in which folders there is a test of each name.
func folders(root string) (map[string][]string, error) {
	where := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		folder, inside := filepath.Rel(root, filepath.Dir(path))
		for _, found := range declared.FindAllSubmatch(b, -1) {
			where[string(found[1])] = append(where[string(found[1])], filepath.ToSlash(folder))
		}
		if err == nil {
			err = inside
		}
		return err
	})
	return where, err
}

// testsOf are those that a document names outside of its table, by folder and name, without what they counted.
func testsOf(text string, where map[string][]string) (tests []shown, err error) {
	before, rest, _ := strings.Cut(text, begin)
	_, behind, _ := strings.Cut(rest, end)
	names := map[string]bool{}
	for _, found := range named.FindAllStringSubmatch(before+behind, -1) {
		names[found[1]] = true
	}
	for name := range maps.Keys(names) {
		if len(where[name]) == 0 {
			return nil, fmt.Errorf("names %s, and there is no such test", name)
		}
		for _, folder := range where[name] {
			tests = append(tests, shown{test: name, folder: folder})
		}
	}
	slices.SortFunc(tests, func(a, b shown) int {
		return strings.Compare(a.folder+" "+a.test, b.folder+" "+b.test)
	})
	return tests, nil
}

// run runs the tests folder by folder, except those whose count is known, and notes their counts.
func run(root string, tests []shown) error {
	for i := 0; i < len(tests); {
		folder, n := tests[i].folder, i
		var names []string
		for ; n < len(tests) && tests[n].folder == folder; n++ {
			if tests[n].counted == "" {
				names = append(names, tests[n].test)
			}
		}
		if len(names) == 0 {
			i = n
			continue
		}
		fmt.Fprintln(os.Stderr, "running", strings.Join(names, ", "), "of", folder)
		only := "^(" + strings.Join(names, "|") + ")$"
		test := exec.Command("go", "test", "-count", "1", "-timeout", "1h", "-json", "-run", only, "./"+folder)
		test.Dir = root
		test.Stderr = os.Stderr
		out, err := test.Output()
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", folder, err, tail(out))
		}
		for ; i < n; i++ {
			if tests[i].counted != "" {
				continue
			}
			if tests[i].counted, err = counted(out, tests[i].test); err != nil {
				return fmt.Errorf("%s: %w", folder, err)
			}
		}
	}
	return nil
}

func tail(out []byte) []byte {
	lines := bytes.Split(out, []byte("\n"))
	return bytes.Join(lines[max(len(lines)-40, 0):], []byte("\n"))
}

// event is a line of `go test -json`.
type event struct{ Action, Test, Output string }

// counted is the count of a test that passed, from the output of a run.
func counted(out []byte, test string) (string, error) {
	var counts []string
	cases, passed := 0, false
	for lines := json.NewDecoder(bytes.NewReader(out)); lines.More(); {
		var e event
		if err := lines.Decode(&e); err != nil {
			return "", err
		}
		_, count, is := strings.Cut(e.Output, "counted: ")
		switch {
		case e.Test == test && is:
			count = strings.TrimSpace(count)
			if inside, isMap := strings.CutPrefix(count, "map["); isMap { // printed by Go: "map[failed:84 killed:107]"
				count = strings.NewReplacer(" ", ", ", ":", " ").Replace(strings.TrimSuffix(inside, "]"))
			}
			counts = append(counts, count)
		case e.Test == test && e.Action == "pass":
			passed = true
		case e.Action == "pass" && strings.HasPrefix(e.Test, test+"/"):
			cases++
		}
	}
	switch {
	case !passed:
		return "", fmt.Errorf("%s did not pass: it was skipped, or is not run here", test)
	case cases > 0:
		counts = append(counts, fmt.Sprintf("%d cases", cases))
	case len(counts) == 0:
		return "passed", nil
	}
	return "passed: " + strings.Join(counts, "; "), nil
}

// table is the text between the marks.
func table(tests []shown) string {
	var b strings.Builder
	b.WriteString("\n| test | in | its last run |\n|---|---|---|\n")
	for _, t := range tests {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", t.test, t.folder, t.counted)
	}
	return b.String() + "\n"
}

// replaced is a document with another table.
func replaced(text, table string) (string, error) {
	before, rest, there := strings.Cut(text, begin)
	_, behind, ends := strings.Cut(rest, end)
	if !there || !ends {
		return "", fmt.Errorf("it has no place for the table: %s and %s", begin, end)
	}
	return before + begin + "\n" + table + end + behind, nil
}
