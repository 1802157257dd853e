//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// quernProgram is this test binary under its other name.
func quernProgram(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return quernLink(t, self)
}

// quernCopy is this test binary as a file named quern. A symbolic link with that name would not do: the server looks up its own file to
// start its compiling child.
func quernCopy(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "quern")
	if os.Link(self, to) == nil {
		return to
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, program, 0o700); err != nil {
		t.Fatal(err)
	}
	return to
}

// launched is a process whose stdout the test reads line by line.
type launched struct {
	*exec.Cmd
	t      *testing.T
	lines  *bufio.Reader
	stderr *syncBuffer
}

// launch starts a process with a temporary directory of its own. It is killed at the end of the test if it is still there.
func launch(t *testing.T, tmp string, args ...string) *launched {
	t.Helper()
	p := &launched{Cmd: exec.Command(args[0], args[1:]...), t: t, stderr: &syncBuffer{}}
	p.Env = append(os.Environ(), "TMPDIR="+tmp)
	p.Stderr = p.stderr
	stdout, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewReader(stdout)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	callOff := endsWhenItHangs(p.Cmd)
	t.Cleanup(func() {
		callOff()
		_ = p.Process.Kill()
	})
	return p
}

// line reads the next line of stdout.
func (p *launched) line() string {
	p.t.Helper()
	line, err := p.lines.ReadString('\n')
	if err != nil {
		p.t.Fatalf("%v: %v; it said: %s", p.Args[1:], err, p.stderr.String())
	}
	return strings.TrimSpace(line)
}

// url finds the address in the next line.
func (p *launched) url() string {
	p.t.Helper()
	line := p.line()
	for word := range strings.FieldsSeq(line) {
		if strings.HasPrefix(word, "http://") {
			return word
		}
	}
	p.t.Fatalf("there is no address in %q", line)
	return ""
}

// tell sends a signal.
func (p *launched) tell(signal os.Signal) {
	p.t.Helper()
	if err := p.Process.Signal(signal); err != nil {
		p.t.Fatalf("%v: %v", p.Args[1:], err)
	}
}

// ends waits for the end and checks the exit code.
func (p *launched) ends(want int) {
	p.t.Helper()
	if got := p.ended(); got != want {
		p.t.Errorf("%v ended with %d (%v), want %d; it said: %s", p.Args[1:], got, p.ProcessState, want, p.stderr.String())
	}
}

// ended waits for the end, and gives the exit code.
func (p *launched) ended() int {
	p.t.Helper()
	for { // all of stdout, as exec asks for
		if _, err := p.lines.ReadString('\n'); err != nil {
			break
		}
	}
	err := p.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatalf("%v: %v", p.Args[1:], err)
	}
	return p.ProcessState.ExitCode()
}

// statsUntil follows a queue's numbers, as quern watch prints them, until they are as wanted.
func statsUntil(t *testing.T, program, url string, wanted func(api.Stats) bool) api.Stats {
	t.Helper()
	p := launch(t, t.TempDir(), program, "watch", "--server", url, "--every", "100ms", "-o", "jsonl")
	defer func() { _ = p.Process.Kill() }()
	decoder := json.NewDecoder(p.lines)
	for {
		var s api.Stats
		if err := decoder.Decode(&s); err != nil {
			t.Fatalf("watch: %v; it said: %s", err, p.stderr.String())
		}
		if wanted(s) {
			return s
		}
	}
}

func submitted(t *testing.T, url string, chunks uint32) string {
	t.Helper()
	c, err := client.New(url)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Insert(t.Context(), "default", &api.NewSubmission{Chunks: api.Chunks{Count: chunks, Template: "{index}"}})
	if err != nil {
		t.Fatal(err)
	}
	return s.ID
}

func empty(t *testing.T, dir string) {
	t.Helper()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("%s holds %v (%v), want nothing left behind", dir, entries, err)
	}
}

// A server for trying things out serves, and leaves nothing behind after the signal to end.
func TestDevLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, end := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		t.Run(end.String(), func(t *testing.T) {
			t.Parallel()
			if signal.Ignored(end) {
				t.Skip("this process was started to ignore the signal, and those it starts do so too")
			}
			program, tmp := quernProgram(t), t.TempDir()
			dev := launch(t, tmp, program, "dev", "--listen", "127.0.0.1:0")
			url := dev.url()
			submitted(t, url, 10)
			statsUntil(t, program, url, func(s api.Stats) bool { return s.Ready == 10 })
			dev.tell(end)
			dev.ends(exitOK)
			empty(t, tmp)
		})
	}
}

// The demo inserts for every company, its consumers work with every strategy, and all of it ends at an interrupt.
func TestDemo(t *testing.T) {
	t.Parallel()
	program, tmp := quernCopy(t), t.TempDir()
	demo := launch(t, tmp, program, "demo", "--listen", "127.0.0.1:0")
	url := demo.url()
	companies, story := uint64(len(demoCompanies())), uint64(demoPausedChunks+demoDyingChunks)
	all := companies*demoPerCompany + story
	s := statsUntil(t, program, url, func(s api.Stats) bool {
		return s.DoneTotal > 1000 && s.DeadLetters > 10 && s.Paused == demoPausedChunks && s.InsertedTotal >= all
	})
	if s.InsertedTotal > all+1000 { // and the schedule's inserts
		t.Errorf("%d chunks were inserted, want %d for each of %d companies and %d more", s.InsertedTotal, demoPerCompany, companies, story)
	}
	demo.tell(syscall.SIGINT)
	demo.ends(exitOK)
	if said := demo.stderr.String(); !strings.Contains(said, "submissions open") || strings.Contains(said, "quern:") {
		t.Errorf("the demo said %q, want its progress and no error", said)
	}
	empty(t, tmp)
}

// After the signal to end, a consumer finishes the chunks that it runs and reserves nothing more.
func TestWorkDrains(t *testing.T) {
	t.Parallel()
	program, dir := quernProgram(t), t.TempDir()
	url := launch(t, dir, program, "dev", "--listen", "127.0.0.1:0").url()
	submitted(t, url, 10)
	gate := filepath.Join(dir, "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	// Every command waits until the gate has a writer: two are held, as nothing is reserved ahead for slow commands.
	work := launch(t, dir, program, "work", "--server", url, "--concurrency", "2", "--",
		"sh", "-c", `echo > "$0.$$.begun"; read line < "$0"; echo done`, gate)
	statsUntil(t, program, url, func(s api.Stats) bool { return s.Reserved == 2 })
	begun := func() int {
		files, err := filepath.Glob(gate + ".*.begun")
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	// A chunk that is reserved but whose command has not begun would be released, so the signal waits for both commands.
	statsUntil(t, program, url, func(api.Stats) bool { return begun() == 2 })
	work.tell(syscall.SIGTERM)
	statsUntil(t, program, url, func(s api.Stats) bool { return s.Reserved == 2 && s.Ready == 8 })
	writer, err := os.OpenFile(gate, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	if _, err := writer.WriteString("go\ngo\n"); err != nil {
		t.Fatal(err)
	}
	work.ends(exitOK)
	statsUntil(t, program, url, func(s api.Stats) bool { return s.DoneTotal == 2 && s.Reserved == 0 && s.Ready == 8 })
}

// At a second signal after a moment, a consumer ends at once and takes its commands with it.
func TestWorkEndsAtOnce(t *testing.T) {
	t.Parallel()
	program, dir := quernProgram(t), t.TempDir()
	url := launch(t, dir, program, "dev", "--listen", "127.0.0.1:0").url()
	submitted(t, url, 2)
	gate := filepath.Join(dir, "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	work := launch(t, dir, program, "work", "--server", url, "--", "sh", "-c", `echo "pid $$" >&2; exec sleep 1000 > "$0"`, gate)
	reader, err := os.Open(gate) // returns when the command has opened the other end
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	work.tell(syscall.SIGTERM)
	statsUntil(t, program, url, func(s api.Stats) bool { return s.Reserved == 1 && s.Ready == 1 }) // it drains
	stop := make(chan struct{})
	go func() { // those of the first second are repeats of the first
		for every := time.NewTicker(repeatAfter / 10); work.Process.Signal(syscall.SIGTERM) == nil; {
			select {
			case <-every.C:
			case <-stop:
				return
			}
		}
	}()
	work.ends(exitInterrupted)
	close(stop)
	if _, err := reader.Read(make([]byte, 1)); err == nil {
		t.Error("the command wrote something")
	} // and the end of file says that the command is gone
}

// Under a pause --until-empty waits, and says why.
func TestUntilEmptySaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	program, dir := quernProgram(t), t.TempDir()
	url := launch(t, dir, program, "dev", "--listen", "127.0.0.1:0").url()
	submitted(t, url, 3)
	launch(t, dir, program, "rules", "pause", "--all", "--server", url).ends(exitOK)
	work := launch(t, dir, program, "work", "--server", url, "--quiet", "--until-empty", "--", "true")
	statsUntil(t, program, url, func(api.Stats) bool {
		return strings.Contains(work.stderr.String(), "waits: rules pause or block the chunks that are left")
	})
	work.tell(syscall.SIGTERM)
	work.ends(exitOK)
}

// A consumer that is killed takes its commands with it, so that none works on a chunk that is handed out again.
//
//quern:killing
func TestKilledWorkTakesItsCommands(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a child with its parent")
	}
	program, dir := quernProgram(t), t.TempDir()
	url := launch(t, dir, program, "dev", "--listen", "127.0.0.1:0").url()
	submitted(t, url, 1)
	gate := filepath.Join(dir, "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	work := launch(t, dir, program, "work", "--server", url, "--", "sh", "-c", `exec sleep 60 > "$0"`, gate)
	reader, err := os.Open(gate) // returns when the command has opened the other end
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := reader.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	work.tell(syscall.SIGKILL)
	if _, err := reader.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("%v, want the end of the file, which says that the command is gone", err)
	}
}

// GNU timeout sends its signal to its child and then to the child's process group. That is one order to end, and running chunks are
// finished.
func TestTimeoutLetsWorkFinish(t *testing.T) {
	t.Parallel()
	timeout, err := exec.LookPath("timeout")
	if err != nil {
		t.Skip("there is no timeout command here")
	}
	program, dir := quernProgram(t), t.TempDir()
	url := launch(t, dir, program, "dev", "--listen", "127.0.0.1:0").url()
	submitted(t, url, 1)
	gate := filepath.Join(dir, "gate")
	for _, fifo := range []string{gate, gate + ".begun"} {
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// timeout passes on the signal that it gets as it does with that of its own.
	work := launch(t, dir, timeout, "1000", program, "work", "--server", url, "--limit", "1", "--",
		"sh", "-c", `echo > "$0.begun"; read line < "$0"; echo done`, gate)
	// A chunk that is reserved but whose command has not begun would be released, so the signal waits for the command.
	if _, err := os.ReadFile(gate + ".begun"); err != nil {
		t.Fatal(err)
	}
	work.tell(syscall.SIGTERM)
	writer, err := os.OpenFile(gate, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	if _, err := writer.WriteString("go\n"); err != nil {
		t.Fatal(err)
	}
	statsUntil(t, program, url, func(s api.Stats) bool { return s.DoneTotal == 1 && s.Reserved == 0 })
	work.ends(exitOK)
}

// A signal within a second of the first one is a repeat of it, even if it is another signal.
func TestRepeatedSignals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal)
		got := make(chan os.Signal)
		go func() { got <- repeated(signals) }()
		synctest.Wait()
		for _, after := range []time.Duration{0, time.Millisecond, repeatAfter - 2*time.Millisecond} {
			time.Sleep(after)
			signals <- syscall.SIGTERM
		}
		time.Sleep(time.Millisecond)
		signals <- syscall.SIGINT
		if second := <-got; second != syscall.SIGINT {
			t.Errorf("%v counts as a second signal, want that of a second later", second)
		}
	})
}

// A reserve that waits gets its answer when the server ends.
func TestServerEndsAnswersWaiting(t *testing.T) {
	t.Parallel()
	program, dir := quernProgram(t), t.TempDir()
	server := launch(t, dir, program, "serve", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0")
	url := server.url()
	reserve := launch(t, dir, program, "reserve", "--server", url, "--wait", "60s")
	statsUntil(t, program, url, func(s api.Stats) bool { return s.ConsumersWaiting == 1 })
	server.tell(syscall.SIGTERM)
	reserve.ends(exitEmpty)
	server.ends(exitOK)
}
