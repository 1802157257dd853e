package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every Go program that a document shows (a fence marked "go" that begins with its package clause) compiles and is formatted.
func TestDocumentedGoCompiles(t *testing.T) {
	t.Parallel()
	shown := 0
	for name, text := range documents(t) {
		for _, program := range fences(text, "go") {
			if strings.HasPrefix(program, "package ") {
				shown++
				if finding := checkProgram(t, program); finding != "" {
					t.Errorf("%s shows a program that does not hold:\n%s\nwhat to do: correct the document; if the client's API changed, also CHANGELOG.md", name, finding)
				}
			}
		}
	}
	if shown < 2 {
		t.Errorf("found %d programs in the documents, want at least those of sdk/client/README.md and docs/GUESTS.md", shown)
	}
}

// checkProgram says what the compiler, or gofmt, has against the program, or "".
func checkProgram(t *testing.T, program string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(program+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := run("go", "build", "-o", os.DevNull, file); err != nil {
		return err.Error()
	}
	unformatted, err := run("gofmt", "-l", file)
	if err != nil {
		return err.Error()
	}
	if len(unformatted) > 0 {
		return "gofmt would change it"
	}
	return ""
}

// The rule finds planted violations.
func TestProgramRuleBites(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		program string
		wrong   bool
	}{
		{"package main\n\nfunc main() {}", false},
		{"package main\n\nfunc main() { undefined() }", true},
		{"package main\n\nfunc main()  {}", true},
	} {
		if got := checkProgram(t, c.program); (got != "") != c.wrong {
			t.Errorf("checkProgram(%q) = %q, want wrong = %v", c.program, got, c.wrong)
		}
	}
}
