//go:build linux

package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/quern-queue/quern/engine/cluster/pg/pgtest"
)

// link is a program that passes on what comes to a TCP port, to a Unix socket and back. It prints its address.
func link() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr())
	for {
		client, err := listener.Accept()
		if err != nil {
			panic(err)
		}
		server, err := net.Dial("unix", os.Args[1])
		if err != nil { // it has ended
			_ = client.Close()
			continue
		}
		for from, to := range map[net.Conn]net.Conn{client: server, server: client} {
			go func() {
				_, _ = io.Copy(to, from)
				_ = to.Close()
			}()
		}
	}
}

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
	for _, port := range []string{"7801", "7802", "7803", "7804", "7805"} {
		script = strings.ReplaceAll(script, "127.0.0.1:"+port, freeAddress(t))
	}
	dir := t.TempDir()
	if err := os.Rename(quernCopy(t), filepath.Join(dir, "quern")); err != nil {
		t.Fatal(err)
	}
	primary := pgtest.Begin(t)
	standby := primary.Standby(t)
	if err := primary.Synchronous(t.Context(), "*"); err != nil {
		t.Fatal(err)
	}
	primary.Until(t, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')")
	pid, address := startLink(t, filepath.Join(primary.Dir(), ".s.PGSQL.5432"))
	shell := exec.Command("bash", "-c", script)
	shell.Dir = dir
	shell.Env = append(os.Environ(), "DATABASE="+primary.URL(standby), "LINKED=postgres://postgres@"+address+"/postgres?sslmode=disable",
		"LINK="+strconv.Itoa(pid), "PRIMARY="+filepath.Join(primary.Dir(), "data"), "STANDBY="+standby.URL(),
		"PATH="+dir+":"+os.Getenv("PATH"), "TMPDIR="+dir)
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
	for _, want := range []string{`this node serves a queue.*took`, `(?s)restored 1 queue.*restored 1 queue.*\nready +5\n`} {
		if !regexp.MustCompile(want).MatchString(said.String()) {
			t.Errorf("the output does not have %s:\n%s", want, said.String())
		}
	}
}

// startLink starts a link that ends with the test: its process and its address.
func startLink(t *testing.T, socket string) (pid int, address string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	p := launch(t, t.TempDir(), program, socket)
	return p.Process.Pid, p.line()
}
