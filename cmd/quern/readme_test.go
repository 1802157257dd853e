//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/quern-queue/quern/internal/loopback"
)

// The shell commands of the README and of the pages that readers start with do what the pages say, one after another in one
// shell. Only the port is another, and the binary is this one.
func TestDocumentCommands(t *testing.T) {
	t.Parallel()
	for file, wanted := range map[string][]string{
		"README.md": {`(?m)^1 +1 +\S+ +[0-9a-f]{16} +`, `(?ms)^action +redrive$.*^done +1$`, `(?m)^match +company=8$`, `(?m)^due +at 03:00 every day, Europe/Amsterdam$`},
		"docs/START.md": {
			`(?m)^ID +STATE +CHUNKS +READY +WAITING +RESERVED +DONE +DEAD +CREATED +META\n\d+ +open +3 +3 +0 +0 +0 +0 +\S+ +company=123$`,
			`(?m)^ASH\nBEECH\nCEDAR$`, `no saw`, `(?m)^state +completed$`, `inserted 3 submissions`,
			`(?m)^\d+ +completed +2 +0 +0 +0 +2 +0 .* company=124 mode=preview$`, `(?m)^\d+ +open +2 +2 +0 +0 +0 +0 .* company=123$`,
			`(?m)^\{"results":\[\{"status":"ok"\}\]\}$`, `"text":"ONE"`, `(?m)^done +\d+$`,
		},
		"docs/PLUGINS.md": {`(?m)^state +active$`, `"text":"is due"`},
		"docs/RECIPES.md": {
			`(?m)^meta +kind=invoice$`, `1 had been inserted before`, `(?m)^due +at 03:00 every day`, `(?m)^\d+ +completed +1 .*chain=7\n\d+ +completed +1 .*chain=7$`,
			`(?m)^\d+ +1 +0 +company=2`, `(?m)^\d+ +completed +1 .*company=3$`, `Not asked for`,
		},
	} {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			out := shellOf(t, file)
			for _, want := range wanted {
				if !regexp.MustCompile(want).Match(out) {
					t.Errorf("the output does not have %s:\n%s", want, out)
				}
			}
		})
	}
}

// shellOf runs the shell blocks of a document and returns what they printed.
func shellOf(t *testing.T, file string) []byte {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("docs/START.md uses curl, which is not here")
	}
	document, err := os.ReadFile(filepath.Join("..", "..", file))
	if err != nil {
		t.Fatal(err)
	}
	script := "set -euo pipefail\nmake() { test \"$*\" = build; }\n"
	for _, block := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(string(document), -1) {
		script += block[1]
	}
	address := freeAddress(t)
	script = strings.ReplaceAll(script, "127.0.0.1:7700", address)
	script = strings.ReplaceAll(script, "quern dev ", "quern dev --listen "+address+" ")
	repository, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	script = strings.ReplaceAll(script, "--sdk .\n", "--sdk "+repository+"\n")
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(quernCopy(t), filepath.Join(dir, "bin", "quern")); err != nil {
		t.Fatal(err)
	}
	shell := exec.Command("bash", "-c", script+"wait\n")
	shell.Dir = dir
	shell.Env = append(os.Environ(), "QUERN_SERVER="+address, "TMPDIR="+dir)
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // with the server that it starts, which must not outlive the test
	shell.WaitDelay = killGrace
	out, err := shell.CombinedOutput()
	_ = syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) // when all went well no process is left
	if err != nil {
		t.Fatalf("%v\n%s\nsaid:\n%s", err, script, out)
	}
	return out
}

// The Go programs of the client's page do what it says. The clients' tests run those in Python and TypeScript.
func TestGoPrograms(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "sdk", "client", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	wants := []string{"ASH\nBEECH\nCEDAR\n", "resized cat.png\n"}
	if len(shown) != len(wants) {
		t.Fatalf("sdk/client/README.md shows %d programs in Go, want %d", len(shown), len(wants))
	}
	s, err := startServer(quernCopy(t), os.Environ(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.end(os.Interrupt)
	for i, want := range wants {
		source := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(source, []byte(strings.ReplaceAll(shown[i][1], "http://127.0.0.1:7700", s.url)), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("go", "run", source).CombinedOutput()
		if err != nil || string(out) != want {
			t.Errorf("the program ended with %v and printed:\n%s\nwant:\n%s", err, out, want)
		}
	}
}

// freeAddress is a loopback address for a server that a test starts several times.
func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := loopback.Free()
	if err != nil {
		t.Fatal(err)
	}
	return address
}
