//go:build unix

package main

import (
	"context"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// socketDir is a folder whose path is short enough for sockets.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "quern")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// A Unix socket serves all that the address serves: single calls, streams, the worker's loop. Only the server's user may open it. It is
// gone when the server ends, and a socket left by a kill does not keep the next server from starting.
func TestUnixSocket(t *testing.T) {
	t.Parallel()
	program, dir := quernProgram(t), socketDir(t)
	path := filepath.Join(dir, "quern.sock")
	address := "unix:" + path
	serve := func(listen string) *launched {
		return launch(t, dir, program, "serve", "--data", filepath.Join(dir, "data"), "--listen", listen)
	}
	server := serve("127.0.0.1:0," + address)
	url := server.url()
	if line := server.line(); !strings.HasSuffix(line, address) {
		t.Errorf("the server said %q, want that it is also at %s", line, address)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("the socket is %v %v, want a socket with mode 0600", info.Mode(), err)
	}
	c, err := client.New(address)
	if err != nil {
		t.Fatal(err)
	}
	submitted(t, url, 3)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	n := 0
	err = c.Work(ctx, client.WorkOptions{}, func(context.Context, *client.Chunk) ([]byte, error) {
		if n++; n == 3 {
			stop()
		}
		return nil, nil
	})
	if err != nil {
		t.Errorf("work: %v", err)
	}
	statsUntil(t, program, address, func(s api.Stats) bool { return s.DoneTotal == 3 })
	server.tell(syscall.SIGKILL)
	_ = server.Wait()
	server = serve(address)
	if line := server.line(); !strings.Contains(line, "serving "+address) {
		t.Errorf("after a kill the server said %q, want that it is at %s", line, address)
	}
	statsUntil(t, program, address, func(s api.Stats) bool { return s.DoneTotal == 3 || s.SubmissionsOpen == 0 })
	server.tell(syscall.SIGTERM)
	server.ends(exitOK)
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("when the server has ended the socket is still there (%v)", err)
	}
}

// Anything at the path stays as it is, unless it is the socket of a server that is gone.
func TestUnixSocketIsRefused(t *testing.T) {
	t.Parallel()
	dir := socketDir(t)
	file, taken := filepath.Join(dir, "file"), filepath.Join(dir, "taken")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("unix", taken)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for path, want := range map[string]string{file: "not a socket", taken: "another process listens there", filepath.Join(dir, "no", "folder"): "no such file"} {
		if l, err := listenSocket(t.Context(), path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, %v; want an error that says %q", path, l, err, want)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "precious" {
		t.Errorf("the file holds %q (%v) now", text, err)
	}
	for text, want := range map[string]string{
		"unix:": "must have 1 to 100", "unix:" + strings.Repeat("x", 101): "must have 1 to 100", "unix:/a,unix:/b": "two Unix sockets",
		"127.0.0.1:1,127.0.0.1:2": "two addresses", "/run/quern.sock": "HOST:PORT",
	} {
		if err := setListens(&Config{}, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--listen %.20s: got %v, want an error that says %q", text, err, want)
		}
	}
	if err := (&Config{Socket: "/x", TLSSelfSigned: true}).checkListening(); err == nil || !strings.Contains(err.Error(), "only a Unix socket") {
		t.Errorf("a certificate for a socket alone: got %v", err)
	}
}
