package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes this test binary also be quern, so that the scripts run the real program.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"quern": func() { clocksAreOff(); main() }, "link": link})
}

// The scripts run the real binary against real servers, as a person at a shell would.
//
// Beyond the usual commands there are:
//
//	server DIR [ARG...]   start quern serve --data DIR --listen 127.0.0.1:0 ARG..., wait until it is ready, and name it in
//	                      QUERN_SERVER (as a URL) and ADDRESS (host and port)
//	stopserver            tell the last server to end, and wait until it did with exit code 0
//	killserver            kill -9 the last server
//	code N CMD [ARG...]   run a command that must end with exit code N
//	save NAME             put the last stdout, trimmed, into a variable
//	savejson NAME FIELD   put a field of the first JSON object of the last stdout into a variable
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Values[serversKey{}] = &servers{}
			env.Setenv("TMPDIR", env.WorkDir)
			return goToolchain(env)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"server":     scriptServer,
			"stopserver": func(ts *testscript.TestScript, _ bool, _ []string) { endServer(ts, syscall.SIGTERM) },
			"killserver": func(ts *testscript.TestScript, _ bool, _ []string) { endServer(ts, syscall.SIGKILL) },
			"code":       scriptCode,
			"save":       scriptSave,
			"savejson":   scriptSaveJSON,
		},
	})
}

// goToolchain lets a script build plugins in Go: with the caches of this run, and the SDK of this tree.
func goToolchain(env *testscript.Env) error {
	repository, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	env.Setenv("REPOSITORY", repository)
	values, err := goCaches()
	if err != nil {
		return err
	}
	for i, name := range cacheNames {
		env.Setenv(name, values[i])
	}
	return nil
}

var cacheNames = []string{"GOCACHE", "GOMODCACHE", "GOPATH"}

// goCaches are the values of cacheNames in this run.
var goCaches = sync.OnceValues(func() ([]string, error) {
	lines, err := exec.Command("go", append([]string{"env"}, cacheNames...)...).Output()
	if err != nil {
		return nil, err
	}
	values := strings.Split(strings.TrimSpace(string(lines)), "\n")
	if len(values) != len(cacheNames) {
		return nil, fmt.Errorf("go env printed %q, want %d lines", lines, len(cacheNames))
	}
	return values, nil
})

type serversKey struct{}

// servers are the running servers of one script, the last one last.
type servers struct{ running []*server }

// server is a quern serve process.
type server struct {
	process *exec.Cmd
	url     string
	stderr  *syncBuffer
	drained chan struct{} // closed when its stdout ended
}

// hangs is the time after which a process of a test counts as hanging: some ten times what the longest test takes on a busy machine.
const hangs = 8 * time.Minute

// endsWhenItHangs ends a process that lives on after every test must be done. SIGQUIT has it print its goroutines. So a wait that never
// ends fails by name and shows the state of its server, instead of failing by the time limit of the whole package. The function calls it
// off.
func endsWhenItHangs(p *exec.Cmd) (callOff func()) {
	quit := time.AfterFunc(hangs, func() { _ = p.Process.Signal(syscall.SIGQUIT) })
	kill := time.AfterFunc(hangs+30*time.Second, func() { _ = p.Process.Kill() })
	return func() { quit.Stop(); kill.Stop() }
}

// startServer starts a server and waits until it says that it is ready.
func startServer(program string, env []string, dir string, args ...string) (*server, error) {
	s := &server{stderr: &syncBuffer{}, drained: make(chan struct{})}
	s.process = exec.Command(program, append([]string{"serve", "--data", dir, "--listen", "127.0.0.1:0"}, args...)...)
	s.process.Env = env
	s.process.Stderr = s.stderr
	stdout, err := s.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.process.Start(); err != nil {
		return nil, err
	}
	callOff := endsWhenItHangs(s.process)
	lines := bufio.NewReader(stdout)
	line, err := lines.ReadString('\n')
	if err != nil {
		callOff()
		return nil, fmt.Errorf("the server ended before it was ready: %w; it said: %s", errors.Join(err, s.process.Wait()), s.stderr.String())
	}
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		callOff()
		close(s.drained)
	}()
	for word := range strings.FieldsSeq(line) {
		if strings.HasPrefix(word, "http://") {
			s.url = word
		}
	}
	if s.url == "" {
		return nil, errors.Join(fmt.Errorf("the server's first line %q has no address", line), s.process.Process.Kill())
	}
	return s, nil
}

// end sends a signal and waits for the end of the process.
func (s *server) end(signal os.Signal) error {
	if err := s.process.Process.Signal(signal); err != nil {
		return err
	}
	<-s.drained
	return s.process.Wait()
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func scriptServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: server DIR [ARG...]")
	}
	program, err := lookPath(ts.Getenv("PATH"), "quern")
	ts.Check(err)
	env := []string{"PATH=" + ts.Getenv("PATH"), "HOME=" + ts.Getenv("HOME"), "TMPDIR=" + ts.Getenv("TMPDIR")}
	s, err := startServer(program, env, ts.MkAbs(args[0]), args[1:]...)
	ts.Check(err)
	all := ts.Value(serversKey{}).(*servers)
	all.running = append(all.running, s)
	ts.Defer(func() { _ = s.process.Process.Kill() })
	ts.Setenv("QUERN_SERVER", s.url)
	ts.Setenv("ADDRESS", strings.TrimPrefix(s.url, "http://"))
}

func endServer(ts *testscript.TestScript, signal syscall.Signal) {
	all := ts.Value(serversKey{}).(*servers)
	if len(all.running) == 0 {
		ts.Fatalf("no server is running")
	}
	s := all.running[len(all.running)-1]
	all.running = all.running[:len(all.running)-1]
	err := s.end(signal)
	if signal == syscall.SIGTERM && err != nil {
		ts.Fatalf("the server did not end well: %v; it said: %s", err, s.stderr.String())
	}
}

func scriptCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N CMD [ARG...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if args[0] != strconv.Itoa(code) {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

func scriptSave(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: save NAME")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

func scriptSaveJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: savejson NAME FIELD")
	}
	var object map[string]any
	decoder := json.NewDecoder(bytes.NewReader([]byte(ts.ReadFile("stdout"))))
	ts.Check(decoder.Decode(&object))
	value, ok := object[args[1]]
	if !ok {
		ts.Fatalf("there is no field %q in %v", args[1], object)
	}
	ts.Setenv(args[0], fmt.Sprint(value))
}

// lookPath finds a program in the PATH of a script, which is not that of this process.
func lookPath(path, name string) (string, error) {
	for _, dir := range filepath.SplitList(path) {
		if candidate := filepath.Join(dir, name); isExecutable(candidate) {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("%s is not in %s", name, path)
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
