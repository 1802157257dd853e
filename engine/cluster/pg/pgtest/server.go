// Package pgtest starts PostgreSQL servers for tests, and has a proxy that cuts their connections where it hurts.
//
//quern:tests processes
package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Server is a PostgreSQL server with a data directory of its own, which listens on a Unix socket in it.
type Server struct {
	parent   string // of dir
	dir      string
	settings []string

	mu      sync.Mutex
	process *os.Process
	ended   chan struct{}
	output  *bytes.Buffer // of the process that runs
}

// Start makes a database and starts a server on it, with settings as "fsync=off" besides those that tests need. Stop ends it.
func Start(settings ...string) (*Server, error) { return StartIn("", settings...) }

// StartIn is Start with a folder for the data directory, which PostgreSQL's account can enter; "" is the system's temporary folder.
func StartIn(parent string, settings ...string) (*Server, error) {
	s := &Server{parent: parent, settings: settings}
	// In this locale texts sort as people expect, and not as bytes.
	return s, s.start("initdb", "-D", "data", "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8",
		"--locale-provider=icu", "--icu-locale=en-US")
}

// Follow starts a standby of the server, which follows it from now on. Stop ends it.
func (s *Server) Follow() (*Server, error) { return s.FollowAt(s.dir, "5432") }

// FollowAt is Follow by way of a host and a port.
func (s *Server) FollowAt(host, port string) (*Server, error) {
	standby := &Server{parent: s.parent, settings: s.settings}
	return standby, standby.start("pg_basebackup", "-D", "data", "-h", host, "-p", port, "-U", "postgres", "-R",
		"-X", "stream", "-c", "fast", "--no-sync")
}

// Standby is Follow for one test, which stops the standby.
func (s *Server) Standby(t testing.TB) *Server {
	t.Helper()
	standby, err := s.Follow()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(standby.Stop)
	return standby
}

// Begin is Start for one test, which stops the server.
func Begin(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := Start(settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// start has a program make the data directory, and runs the server on it.
func (s *Server) start(program string, args ...string) (err error) {
	if s.dir, err = os.MkdirTemp(s.parent, "quern-pg"); err != nil {
		return err
	}
	if err = s.make(program, args...); err == nil {
		err = s.Run()
	}
	if err != nil {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

func (s *Server) make(program string, args ...string) error {
	command, err := s.command(program, args...)
	if err != nil {
		return err
	}
	if id := command.SysProcAttr.Credential; id != nil {
		if err := os.Chown(s.dir, int(id.Uid), int(id.Gid)); err != nil {
			return err
		}
	}
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, out)
	}
	return nil
}

// account is the user that the servers run as, because PostgreSQL refuses to run as root. nil: the present user.
func account() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres") // Debian's package has made it
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}

// command is a program of PostgreSQL. The system ends it when the test's process ends.
func (s *Server) command(program string, args ...string) (*exec.Cmd, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + program)
	slices.SortFunc(found, func(a, b string) int { return version(b) - version(a) })
	if len(found) == 0 {
		path, err := exec.LookPath(program)
		if err != nil {
			return nil, fmt.Errorf("PostgreSQL is not installed, internal/install.sh postgresql does it: %w", err)
		}
		found = []string{path}
	}
	id, err := account()
	if err != nil {
		return nil, err
	}
	command := exec.Command(found[0], args...)
	command.Dir = s.dir
	command.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	command.SysProcAttr = &syscall.SysProcAttr{Credential: id, Pdeathsig: syscall.SIGQUIT}
	return command, nil
}

func version(path string) int {
	n, _ := strconv.Atoi(strings.Split(path, "/")[4])
	return n
}

// Run starts the server on its data directory, and waits until it answers. After a Kill it may have to wait for the last processes of the
// server.
func (s *Server) Run() error {
	const most = 30 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	for {
		err := s.run()
		if err == nil {
			err = s.answers(ctx)
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		<-s.ended
	}
}

func (s *Server) run() error {
	args := []string{"-D", "data", "-k", s.dir}
	basic := []string{"listen_addresses=", "max_connections=600", "shared_buffers=64MB", "max_wal_senders=4"}
	for _, setting := range slices.Concat(basic, s.settings) {
		args = append(args, "-c", setting)
	}
	command, err := s.command("postgres", args...)
	if err != nil {
		return err
	}
	output := &bytes.Buffer{}
	command.Stdout, command.Stderr = output, output
	started, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread() // the signal at our death comes when the thread that started the process ends
		defer runtime.UnlockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait()
		}
		close(ended)
	}()
	if err := <-started; err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process, s.ended, s.output = command.Process, ended, output
	return nil
}

// answers waits until the server answers, or has ended.
func (s *Server) answers(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if conn, err := pgx.Connect(ctx, s.URL()); err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.ended:
			return fmt.Errorf("postgres has ended:\n%s", s.output)
		case <-ctx.Done():
			return fmt.Errorf("postgres does not answer: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

// URL is the URL of the server for its superuser; with others, of the one of them that takes writes.
func (s *Server) URL(others ...*Server) string {
	url := "postgres://postgres@/postgres?sslmode=disable&host=" + s.dir
	for _, other := range others {
		url += "," + other.dir
	}
	return url
}

// Dir is the folder with the server's socket, and with its data in the folder data.
func (s *Server) Dir() string { return s.dir }

// Socket is where the server listens.
func (s *Server) Socket() string { return filepath.Join(s.dir, ".s.PGSQL.5432") }

// Exec runs statements as the superuser.
func (s *Server) Exec(t testing.TB, sql string) {
	t.Helper()
	if err := s.Do(context.Background(), sql); err != nil {
		t.Fatal(err)
	}
}

// Do is Exec without a test.
func (s *Server) Do(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

// Until asks the server a question, as the superuser, until it is answered with true.
func (s *Server) Until(t testing.TB, question string) {
	t.Helper()
	if err := s.Await(context.Background(), question); err != nil {
		t.Fatal(err)
	}
}

// Await is Until without a test.
func (s *Server) Await(ctx context.Context, question string) error {
	within, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(within, s.URL())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for yes := false; !yes; {
		if err := conn.QueryRow(within, question).Scan(&yes); err != nil {
			return fmt.Errorf("%s: %w", question, err)
		}
	}
	return nil
}

// Synchronous makes every commit wait until the standbys with these names have it on their disks; "*": one of any name, "": none.
func (s *Server) Synchronous(ctx context.Context, names string) error {
	for _, sql := range []string{"ALTER SYSTEM SET synchronous_standby_names = '" + names + "'", "SELECT pg_reload_conf()"} {
		if err := s.Do(ctx, sql); err != nil {
			return err
		}
	}
	if err := s.Await(ctx, "SELECT current_setting('synchronous_standby_names') = '"+names+"'"); err != nil {
		return err
	}
	// A session sees the new setting before commits obey it, because the checkpointer passes it on. It does so before it serves a request.
	return s.Do(ctx, "CHECKPOINT")
}

// Kill ends all processes of the server with SIGKILL.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.process.Signal(syscall.SIGSTOP); err != nil { // so that it does not clean up behind its processes
		return err
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", s.process.Pid))
	if err != nil {
		return err
	}
	for _, child := range strings.Fields(string(children)) {
		pid, err := strconv.Atoi(child)
		if err != nil {
			return err
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	err = s.process.Kill()
	<-s.ended
	return err
}

// Pid is that of the server's parent process.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.Pid
}

// Stop ends the server and removes its directory.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.process.Signal(syscall.SIGQUIT) // at once: nothing is to be kept
	<-s.ended
	_ = os.RemoveAll(s.dir)
}
