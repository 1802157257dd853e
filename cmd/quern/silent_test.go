package main

import (
	"io"
	"net"
	"os"
	"strings"
	"testing"
)

// A server that accepts connections and says nothing holds up no command for longer than its request timeout lets it. A move gives the server
// 30 seconds more, in each of three attempts: QUERN_SILENT=yes tries it too, as `make soak` does.
func TestNoCommandWaitsForASilentServer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, c) }()
		}
	}()
	root := (&app{out: io.Discard, err: io.Discard, env: func() []string { return nil }}).newRoot()
	for _, c := range serverCommands(root) {
		t.Run(strings.ReplaceAll(c.CommandPath(), " ", "_"), func(t *testing.T) {
			t.Parallel()
			if c.Name() == "move" && c.Parent() == root && os.Getenv("QUERN_SILENT") == "" {
				t.Skip("it waits 30 s in each of three attempts: make soak runs it, and QUERN_SILENT=yes does")
			}
			line := commandLine(c)
			words := strings.Count(c.CommandPath(), " ")
			line = append(append(line[:words:words], "--request-timeout", "10ms"), line[words:]...)
			var said syncBuffer
			a := &app{in: strings.NewReader("7529572615950696448\n"), out: io.Discard, err: &said,
				env: func() []string { return []string{"QUERN_SERVER=" + listener.Addr().String(), "TMPDIR=" + os.TempDir()} }}
			if code := a.run(t.Context(), line); code != exitUnreachable || !strings.Contains(said.String(), "no server answers at ") {
				t.Errorf("quern %s: exit code %d, want %d; it said: %s", strings.Join(line, " "), code, exitUnreachable, said.String())
			}
		})
	}
}
