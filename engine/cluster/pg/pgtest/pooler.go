package pgtest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Pooled starts PgBouncer in front of the server, in a pool_mode and with this many connections, and returns its URL. PgBouncer ends with
// the test.
func (s *Server) Pooled(t testing.TB, mode string, size int) string {
	t.Helper()
	id, err := account()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "quern-pool")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	settings := fmt.Sprintf(`[databases]
postgres = host=%s user=postgres
[pgbouncer]
listen_addr =
unix_socket_dir = %s
auth_type = any
pool_mode = %s
default_pool_size = %d
`, s.dir, dir, mode, size)
	file := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	if id != nil {
		if err := os.Chown(dir, int(id.Uid), int(id.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	var output bytes.Buffer
	command := exec.Command("/usr/sbin/pgbouncer", file)
	command.Stdout, command.Stderr = &output, &output
	command.SysProcAttr = &syscall.SysProcAttr{Credential: id}
	if err := command.Start(); err != nil {
		t.Fatalf("PgBouncer is not installed, internal/install.sh postgresql does it: %v", err)
	}
	ended := make(chan struct{})
	go func() {
		_ = command.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill()
		<-ended
	})
	url := "postgres://postgres@/postgres?sslmode=disable&port=6432&host=" + dir
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(context.Background(), url)
		if err == nil {
			_ = conn.Close(context.Background())
			return url
		}
		select {
		case <-ended:
			t.Fatalf("PgBouncer has ended:\n%s", output.String())
		case <-tick.C:
		}
	}
}
