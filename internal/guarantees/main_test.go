package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// explained are the beginnings of paragraphs of docs/GUARANTEES.md that promise nothing by themselves: they say what others mean, or what is
// not promised.
var explained = []string{
	"After reading this page", "- Data: ", "- Work: ", "- Reference: ", "[BACKUP](",
	"The table lists the tests", "- Exactly-once work", "- Order between concurrent", "- Anything about disks",
	"- One server is one machine",
}

// Each promise names the tests that hold it: every paragraph and every item of a list of docs/GUARANTEES.md has one.
func TestEveryPromiseNamesATest(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../docs/GUARANTEES.md")
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(string(b), begin)
	promises, section := 0, ""
	for _, part := range strings.Split(strings.ReplaceAll(text, "\n- ", "\n\n- "), "\n\n") {
		part = strings.TrimSpace(part)
		if heading, is := strings.CutPrefix(part, "#"); is {
			section = strings.TrimLeft(heading, "# ")
			continue
		}
		is := func(begins string) bool { return strings.HasPrefix(part, begins) }
		if part == "" || is("| ") || slices.ContainsFunc(explained, is) { // the text before a table says the same
			continue
		}
		if promises++; !named.MatchString(part) {
			t.Errorf("%s: %q names no test that holds it", section, part[:min(len(part), 80)])
		}
	}
	if promises < 35 {
		t.Errorf("only %d promises were found", promises)
	}
}

// Each document has the table that would be made of it, but for the counts, which are from an earlier run; and each test passed then.
func TestTablesAreOfTheDocuments(t *testing.T) {
	t.Parallel()
	where, err := folders("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range documents {
		b, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		tests, err := testsOf(string(b), where)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(tests) == 0 {
			t.Errorf("%s names no test", name)
		}
		before := rows(string(b))
		for i := range tests {
			if tests[i].counted = before[tests[i].folder+" "+tests[i].test]; !strings.HasPrefix(tests[i].counted, "passed") {
				t.Errorf("%s: %s has not been run: make guarantees", name, tests[i].test)
			}
		}
		if next, err := replaced(string(b), table(tests)); err != nil || next != string(b) {
			t.Errorf("%s: the table is not of the tests that it names, %v: make guarantees", name, err)
		}
	}
}

// The count of a test is read from the test's own lines. A test that did not run did not pass.
func TestCounted(t *testing.T) {
	t.Parallel()
	out := []byte(`{"Action":"run","Test":"TestA"}
{"Action":"output","Test":"TestA","Output":"    a_test.go:1: counted: 7 states\n"}
{"Action":"pass","Test":"TestA/one"}
{"Action":"pass","Test":"TestA/two"}
{"Action":"pass","Test":"TestA"}
{"Action":"output","Test":"TestB","Output":"    b_test.go:1: counted: map[failed:84 killed:107]\n"}
{"Action":"pass","Test":"TestB"}
{"Action":"skip","Test":"TestC"}
{"Action":"pass","Test":"TestE"}
`)
	for test, want := range map[string]string{"TestA": "passed: 7 states; 2 cases", "TestB": "passed: failed 84, killed 107", "TestC": "", "TestD": "", "TestE": "passed"} {
		if got, err := counted(out, test); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", test, got, err, want)
		}
	}
	if _, err := testsOf("`TestNone`", map[string][]string{}); err == nil {
		t.Error("a test that there is not was taken")
	}
	if _, err := replaced("no marks", ""); err == nil {
		t.Error("a document without a place was taken")
	}
}
