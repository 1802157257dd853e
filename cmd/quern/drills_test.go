//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/quern-queue/quern/engine/cluster/pg/pgtest"
)

// The drills of docs/CLUSTER.md do what the page says. Only the ports are others.
func TestDrills(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "CLUSTER.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, drills, _ := strings.Cut(string(page), "\n## Drills\n")
	shown := regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindStringSubmatch(drills)
	if shown == nil {
		t.Fatal("docs/CLUSTER.md shows no drills")
	}
	script := "set -euo pipefail\n" + shown[1]
	for _, port := range []string{"127.0.0.1:7801", "127.0.0.1:7802", "127.0.0.1:7803"} {
		script = strings.ReplaceAll(script, port, freeAddress(t))
	}
	dir := t.TempDir()
	if err := os.Rename(quernCopy(t), filepath.Join(dir, "quern")); err != nil {
		t.Fatal(err)
	}
	shell := exec.Command("bash", "-c", script)
	shell.Dir = dir
	shell.Env = append(os.Environ(), "DATABASE="+pgtest.Begin(t).URL(), "PATH="+dir+":"+os.Getenv("PATH"), "TMPDIR="+dir)
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // with the nodes that it starts, which must not outlive the test
	shell.WaitDelay = killGrace
	var said strings.Builder
	shell.Stdout, shell.Stderr = &said, &said
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	state, err := shell.Process.Wait()
	_ = syscall.Kill(-shell.Process.Pid, syscall.SIGKILL)
	_ = shell.Wait()
	if err != nil || !state.Success() {
		t.Fatalf("%v, %v; it said:\n%s", state, err, said.String())
	}
	for _, want := range []string{`this node serves a queue.*took`, `restored 1 queue`, `(?m)^ready +3$`} {
		if !regexp.MustCompile(want).MatchString(said.String()) {
			t.Errorf("the output does not have %s:\n%s", want, said.String())
		}
	}
}
