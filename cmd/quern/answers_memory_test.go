//go:build linux

package main

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// mostKiB is the most memory that a server may take under a limit of 512 MiB. GOMEMLIMIT covers Go's memory only; SQLite's and the program
// itself come on top.
const mostKiB = 640 << 10

// Clients that ask for a lot and read nothing do not fill the memory of a server, whatever they ask for, and inserts go on beside them. The
// test logs the most memory that the process had. It takes minutes, so QUERN_ANSWERS=yes asks for it, as `make soak` does.
// QUERN_ANSWERS_PROGRAM measures another program.
func TestMemoryOfAnswersThatNoOneReads(t *testing.T) {
	if os.Getenv("QUERN_ANSWERS") == "" {
		t.Skip("QUERN_ANSWERS=yes runs it")
	}
	for _, one := range []struct {
		name string
		load func(b *besieged) (ask func(i int) string)
		asks int
	}{
		{"100 pages of 1,000 submissions", loadPages, 100},
		{"a reserve of 480 chunks with 1 MB each", loadContents, 1},
		{"chunks with outputs, 480 with 1 MB each", loadOutputs, 1},
		{"20 pages of chunks with outputs", loadOutputs, 20},
		{"2,000 waits for 1,000 submissions each", loadWaits, 2000},
	} {
		t.Run(one.name, func(t *testing.T) {
			dir := t.TempDir()
			program := cmp.Or(os.Getenv("QUERN_ANSWERS_PROGRAM"), quernCopy(t))
			ask := one.load(answering(t, program, dir, nil))
			b := answering(t, program, dir, []string{"GOMEMLIMIT=512MiB"})
			defer b.end()
			first := b.memory("VmHWM")
			conns := make([]net.Conn, one.asks)
			for i := range conns {
				conns[i] = b.ask(ask(i))
			}
			b.submit(1, "inserted beside")
			statuses := map[string]int{}
			for _, conn := range conns {
				line := make([]byte, len("HTTP/1.1 200"))
				if _, err := io.ReadFull(conn, line); err != nil {
					statuses["cut off"]++
					continue
				}
				statuses[string(line[9:])]++
			}
			for range 100 {
				b.submit(1, "inserted beside")
			}
			peak := b.memory("VmHWM")
			t.Logf("%s: %d MB at the start, %d MB at most; answers by status: %v", one.name, first>>10, peak>>10, statuses)
			if peak > mostKiB {
				t.Errorf("the server took %d KiB, want at most %d", peak, mostKiB)
			}
			if statuses["200"] == 0 {
				t.Error("no request was answered")
			}
		})
	}
}

// answering starts a server on a directory; end stops it.
func answering(t *testing.T, program, dir string, env []string) *besieged {
	t.Helper()
	s, err := startServer(program, append(os.Environ(), env...), dir, "--ballast-bytes", "1MiB")
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(s.url)
	if err != nil {
		t.Fatal(err)
	}
	return &besieged{t, c, s}
}

func (b *besieged) end() {
	b.Helper()
	if err := b.server.end(syscall.SIGTERM); err != nil {
		b.Errorf("the server did not end well: %v; it said: %s", err, b.server.stderr.String())
	}
}

// ask sends a request on a connection of its own.
func (b *besieged) ask(request string) net.Conn {
	b.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.server.url, "http://"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		b.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		b.Fatal(err)
	}
	return conn
}

func requestOf(method, path, body string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		method, path, len(body), body)
}

// insertLarge inserts 1,000 submissions with much metadata, and stops the server.
func (b *besieged) insertLarge() (ids []string) {
	b.Helper()
	meta := api.Meta{}
	for i := range 32 {
		meta[fmt.Sprint("key", i)] = api.Text(strings.Repeat("v", 256))
	}
	for range 1000 {
		s, err := b.Insert(b.Context(), "default", &api.NewSubmission{Meta: meta, Chunks: api.Chunks{Count: 1, Prefix: "x/"}})
		if err != nil {
			b.Fatal(err)
		}
		ids = append(ids, s.ID)
	}
	return ids
}

func loadPages(b *besieged) func(int) string {
	b.insertLarge()
	b.end()
	return func(int) string { return requestOf("GET", "/v1/queues/default/submissions?limit=1000", "") }
}

func loadWaits(b *besieged) func(int) string {
	ids := b.insertLarge()
	b.end()
	body := `{"ids":["` + strings.Join(ids, `","`) + `"],"wait_ms":20000}`
	return func(int) string { return requestOf("POST", "/v1/submissions:wait", body) }
}

func loadContents(b *besieged) func(int) string {
	for range 10 {
		inline := make([]api.Bytes, 48)
		for i := range inline {
			inline[i] = []byte(strings.Repeat("x", 1_000_000))
		}
		if _, err := b.Insert(b.Context(), "default", &api.NewSubmission{Chunks: api.Chunks{Inline: inline}}); err != nil {
			b.Fatal(err)
		}
	}
	b.end()
	return func(int) string { return requestOf("POST", "/v1/queues/default/reservations", `{"max":480}`) }
}

func loadOutputs(b *besieged) func(int) string {
	s, err := b.Insert(b.Context(), "default", &api.NewSubmission{Chunks: api.Chunks{Count: 480, Prefix: "x/"}})
	if err != nil {
		b.Fatal(err)
	}
	held, err := b.Reserve(b.Context(), "default", &api.ReserveRequest{Max: 480})
	if err != nil || len(held.Reservations) != 480 {
		b.Fatalf("reserved %d, %v", len(held.Reservations), err)
	}
	output := api.Bytes(strings.Repeat("x", 1_000_000))
	for _, r := range held.Reservations {
		if _, err := b.Complete(b.Context(), "default", []api.CompleteItem{{Token: r.Token, Output: output}}); err != nil {
			b.Fatal(err)
		}
	}
	b.end()
	return func(int) string { return requestOf("GET", "/v1/submissions/"+s.ID+"/chunks?limit=1000", "") }
}
