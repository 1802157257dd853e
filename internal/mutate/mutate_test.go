package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const code = "package x\n\nfunc f(a, b int) bool {\n\tif a < b {\n\t\tg(a, b)\n\t}\n\treturn a < b\n}\n"

// A list is read as it is meant, and a mutant changes the code where its old text stands, whole lines, once.
func TestMutants(t *testing.T) {
	t.Parallel()
	list, err := parseList("# why\nfile x.go\ntests ./x ./y:TestF\n\nmutant one\n-\treturn a < b\n+\treturn a <= b\n\nmutant two\nequivalent it is\ntests ./z\n-\tif a < b {\n-\t\tg(a, b)\n+\tif a < b {\n")
	if err != nil || len(list) != 2 {
		t.Fatalf("got %d mutants and %v, want 2", len(list), err)
	}
	one, two := list[0], list[1]
	if one.file != "x.go" || len(one.tests) != 2 || one.equivalent != "" || two.equivalent != "it is" || two.tests[0] != "./z" {
		t.Errorf("got %+v", list)
	}
	if got, fits := one.apply(code); !fits || got != strings.Replace(code, "return a < b", "return a <= b", 1) {
		t.Errorf("one: %v\n%s", fits, got)
	}
	if got, fits := two.apply(code); !fits || strings.Contains(got, "g(a, b)") {
		t.Errorf("two: %v\n%s", fits, got)
	}
	for _, old := range []string{"\treturn a < c\n", "return a < b\n"} {
		if _, fits := (&mutant{old: old}).apply(code); fits {
			t.Errorf("%q fits: it is not in the code as whole lines, exactly once", old)
		}
	}
	for _, bad := range []string{"mutant one\n-x\n", "file x.go\nmutant one\ntests ./x\n", "mutant\nnonsense\n"} {
		if _, err := parseList(bad); err == nil {
			t.Errorf("%q is read as a list", bad)
		}
	}
}

// Every mutant fits the code as it is, exactly once, and its tests exist. A mutant that does not fit is no longer run.
func TestListsFit(t *testing.T) {
	t.Parallel()
	list, err := readLists("mutants")
	if err != nil || len(list) < 150 {
		t.Fatalf("%d mutants, %v; want at least 150", len(list), err)
	}
	root := filepath.Join("..", "..")
	names := map[string][]string{}
	for _, m := range list {
		code, err := os.ReadFile(filepath.Join(root, m.file))
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		if _, fits := m.apply(string(code)); !fits {
			t.Errorf("%s: its old text is not in %s exactly once; change the mutant as the code was changed:\n%s", m.name, m.file, m.difference())
		}
		for _, tests := range m.tests {
			pkg, pattern, _ := strings.Cut(tests, ":")
			if names[pkg] == nil {
				names[pkg] = testsOf(t, filepath.Join(root, pkg))
			}
			for name := range strings.SplitSeq(pattern, "|") {
				if !slices.ContainsFunc(names[pkg], regexp.MustCompile(name).MatchString) {
					t.Errorf("%s: no test in %s has the name %q", m.name, pkg, name)
				}
			}
		}
	}
}

var testName = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// testsOf are the names of the tests of a package.
func testsOf(t *testing.T, dir string) (names []string) {
	paths, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range testName.FindAllSubmatch(text, -1) {
			names = append(names, string(found[1]))
		}
	}
	return names
}
