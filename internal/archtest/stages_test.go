package archtest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// `make test` goes on after a stage that fails, says so at the end, and ends with an error.
func TestLaterStagesRunAfterAFailure(t *testing.T) {
	t.Parallel()
	extra := filepath.Join(t.TempDir(), "extra.mk")
	if err := os.WriteFile(extra, []byte("first last:\n\t@echo ran $@\nbroken:\n\t@echo ran $@; exit 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for stages, want := range map[string]struct {
		code int
		last string
	}{
		"first broken last": {2, "1 of 3 stages failed"},
		"first last":        {0, "all 2 stages passed"},
		"first+broken last": {2, "1 of 3 stages failed"},
		"broken+last first": {2, "1 of 3 stages failed"},
		"first+last":        {0, "all 2 stages passed"},
		"first+broken+last": {2, "1 of 3 stages failed"},
	} {
		program := exec.Command("make", "test", "STAGES="+stages)
		program.Dir = need(t, root)
		program.Env = append(os.Environ(), "MAKEFILES="+extra, "MAKEFLAGS=", "MAKELEVEL=0")
		out, err := program.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		text := string(out)
		if code := program.ProcessState.ExitCode(); code != want.code || !strings.Contains(text, want.last) {
			t.Errorf("stages %s: exit code %d, want %d and %q in\n%s", stages, code, want.code, want.last, text)
		}
		for _, stage := range targets(stages) {
			outcome := "passed"
			if stage == "broken" {
				outcome = "FAILED"
			}
			for _, line := range []string{"^== stage . of .: " + stage + "$", "^ran " + stage + "$", "^" + outcome + "  " + stage + " "} {
				if !regexp.MustCompile("(?m)" + line).MatchString(text) {
					t.Errorf("stages %s: no line %q in\n%s", stages, line, text)
				}
			}
		}
	}
}

// targets are those of a list of stages, in which one+two run at the same time.
func targets(stages string) []string {
	return strings.FieldsFunc(stages, func(r rune) bool { return strings.ContainsRune(" +", r) })
}

var stagesLine = regexp.MustCompile(`(?m)^STAGES\s*:=(.*)$`)

// Each stage of `make test` is a target, and each target that runs Go tests is a stage.
func TestStagesAreTargets(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join(need(t, root), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	match := stagesLine.FindSubmatch(makefile)
	if match == nil {
		t.Fatal("the Makefile has no line STAGES := ..., of what `make test` runs")
	}
	stages := targets(string(match[1]))
	for _, stage := range stages {
		if !strings.Contains(string(makefile), "\n"+stage+":") {
			t.Errorf("Makefile: the stage %s is no target", stage)
		}
	}
	for _, target := range regexp.MustCompile(`(?m)^test-[a-z]+:`).FindAllString(string(makefile), -1) {
		if name := strings.TrimSuffix(target, ":"); !slices.Contains(stages, name) {
			t.Errorf("Makefile: the target %s is no stage of `make test`", name)
		}
	}
}
