// Package server starts real Quern servers, for the tests of this module.
package server

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// Program is the program quern that Main has found or built.
var Program string

// Main runs the tests of a package with servers of the program that the environment names as QUERN. Without that it builds one:
// compiled into the tests, the server would be compiled again in this module.
func Main(m *testing.M) (code int) {
	if Program = os.Getenv("QUERN"); Program != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "quern")
	if err == nil {
		defer os.RemoveAll(dir)
		Program = filepath.Join(dir, "quern")
		err = build(Program)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func build(at string) error {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/quern-queue/quern").Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	if said, err := exec.Command("go", "build", "-C", strings.TrimSpace(string(root)), "-o", at, "./cmd/quern").CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, said)
	}
	return nil
}

var serving = regexp.MustCompile(`http://\S+`)

// Start starts a server on a loopback address; end ends it in order.
func Start(dir string) (address string, end func() error, err error) {
	server := exec.Command(Program, "serve", "--data", dir, "--listen", "127.0.0.1:0", "--ballast-bytes", "1MiB")
	var said bytes.Buffer
	server.Stderr = &said
	out, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		return "", nil, err
	}
	end = func() error {
		if err := errors.Join(server.Process.Signal(syscall.SIGTERM), server.Wait()); err != nil {
			return fmt.Errorf("%w: %s", err, said.Bytes())
		}
		return nil
	}
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	if address = serving.FindString(line); err != nil || address == "" {
		return "", nil, errors.Join(fmt.Errorf("the server said %q: %w", line, err), end())
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }() // it ends with the server
	return address, end, nil
}
