// Package clienttest runs a real server for the tests of a program:
//
//	func TestRemind(t *testing.T) {
//		server := clienttest.Start(t)
//		remind(t.Context(), server.Client) // inserts a chunk that is due in an hour
//		server.Advance(time.Hour)
//		...                                // it is ready
//	}
//
// It needs the program quern in the PATH, or its path in the environment variable QUERN.
package clienttest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/client"
)

const (
	startWithin = 30 * time.Second
	stopWithin  = 10 * time.Second // in which a server ends in order
)

// Server is a server of a test. It has data and a port of its own.
type Server struct {
	Client  *client.Client // of this server; the end of the test closes it
	Address string         // for further clients, such as http://127.0.0.1:40123

	t   testing.TB
	log log
}

// Start starts a server, which the end of the test stops. Its data is gone then. Options are those of its Client.
// The test fails if there is no server.
func Start(t testing.TB, options ...client.Option) *Server {
	t.Helper()
	name := os.Getenv("QUERN")
	if name == "" {
		name = "quern"
	}
	program, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("clienttest: there is no program %s; install quern in the PATH, or name it in the environment variable QUERN: %v",
			name, err)
	}
	s := &Server{t: t}
	s.Address = s.run(program)
	if s.Client, err = client.New(s.Address, options...); err != nil {
		t.Fatalf("clienttest: %v", err)
	}
	t.Cleanup(s.Client.Close)
	return s
}

// run starts the program, and returns the address that it prints.
func (s *Server) run(program string) string {
	s.t.Helper()
	command := exec.Command(program, "dev", "--listen", "127.0.0.1:0", "--test-clock")
	out, in, err := os.Pipe()
	if err != nil {
		s.t.Fatalf("clienttest: %v", err)
	}
	command.Stdout, command.Stderr = in, in
	tie(command)
	err = command.Start()
	in.Close()
	if err != nil {
		out.Close()
		s.t.Fatalf("clienttest: the server did not start: %v", err)
	}
	found, read := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(read)
		defer out.Close()
		s.log.follow(out, found)
	}()
	s.t.Cleanup(func() { s.stop(command, read) })
	select {
	case address, ok := <-found:
		if ok {
			return address
		}
	case <-time.After(startWithin):
	}
	s.t.Fatalf("clienttest: the server did not start:\n%s", s.Log())
	return ""
}

func (s *Server) stop(command *exec.Cmd, read <-chan struct{}) {
	if command.Process.Signal(syscall.SIGTERM) != nil {
		_ = command.Process.Kill() // where there are no signals, or it has ended
	}
	late := time.AfterFunc(stopWithin, func() { _ = command.Process.Kill() })
	defer late.Stop()
	_ = command.Wait()
	<-read
	if s.t.Failed() {
		s.t.Logf("the server's log:\n%s", s.Log())
	}
}

// Advance moves the server's clock forward. When it returns, the server has done what became due: reservations have
// timed out, and delays, back-offs, rates, schedules and deadlines are over. It returns the server's new time.
//
// Only the server's clock moves. How long a reserve waits for work is real time, and so is everything in the client:
// a worker whose reservation has timed out hears of it with its next call.
func (s *Server) Advance(by time.Duration) time.Time {
	s.t.Helper()
	asked := fmt.Sprintf(`{"advance_ms": %d}`, (by+time.Millisecond-1)/time.Millisecond)
	answer, err := http.Post(s.Address+"/dev/clock", "application/json", strings.NewReader(asked))
	if err != nil {
		s.t.Fatalf("clienttest: %v", err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	var moved struct{ Now time.Time }
	if err == nil && answer.StatusCode == http.StatusOK {
		err = json.Unmarshal(body, &moved)
	}
	if err != nil || answer.StatusCode != http.StatusOK {
		s.t.Fatalf("clienttest: the clock was not moved by %s: %s %v %s", by, answer.Status, err, body)
	}
	return moved.Now
}

// Log is the output of the server so far.
func (s *Server) Log() string { return s.log.text() }

// log collects what a server prints.
type log struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

// follow reads to the end, and sends the first address to found.
func (l *log) follow(from io.Reader, found chan<- string) {
	defer close(found)
	lines := bufio.NewReader(from)
	for sent := false; ; {
		line, err := lines.ReadString('\n')
		l.mu.Lock()
		l.lines.WriteString(line)
		l.mu.Unlock()
		if at := strings.Index(line, "http://"); at >= 0 && !sent {
			found <- strings.Fields(line[at:])[0]
			sent = true
		}
		if err != nil {
			return
		}
	}
}

func (l *log) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.String()
}
