package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A figure over HTTP says more about the machine than about Quern: most of it is the kernel, net/http and the client. So it is held
// against its floor: the same client with as many connections against a bare net/http server that reads the same requests and answers
// the same bytes from memory. Both are measured in turns.

// serveFloor is that server. It prints its address and runs until its context ends.
func serveFloor(ctx context.Context, out io.Writer, answer http.Handler) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: answer}
	fmt.Fprintf(out, "http://%s\n", listener.Addr())
	go func() {
		<-ctx.Done()
		server.Close()
	}()
	if err := server.Serve(listener); ctx.Err() == nil {
		return err
	}
	return nil
}

// repeatAnswers answers a POST from memory, with the answers that a PUT left at the same path.
func repeatAnswers() http.Handler {
	var answers atomic.Pointer[map[string][]byte]
	answers.Store(&map[string][]byte{})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, max(r.ContentLength, 0))
		if _, err := io.ReadFull(r.Body, body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if r.Method == http.MethodPut {
			next := maps.Clone(*answers.Load())
			next[r.URL.Path] = body
			answers.Store(&next)
			body = nil
		} else {
			body = (*answers.Load())[r.URL.Path]
		}
		w.Header()["Content-Type"] = []string{"application/json"}
		w.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
		_, _ = w.Write(body) // a client that left is none of a floor's business
	})
}

// passOn sends every call on to another server, and does nothing else: the least that a hop between two processes costs.
func passOn(to string) http.Handler {
	transport := &http.Transport{DisableCompression: true}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		sent, err := http.NewRequestWithContext(r.Context(), r.Method, to+r.URL.RequestURI(), bytes.NewReader(body))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer, err := transport.RoundTrip(sent)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer answer.Body.Close()
		w.Header()["Content-Type"] = answer.Header["Content-Type"]
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body)
	})
}

// rated is a figure that is a rate, and its floor.
type rated struct {
	name, unit string
	floor      string // its name
	clients    int
	paths      []string // that the client calls, whose answers the floor repeats
	work       func(s *serveProcess, more func() bool, count *atomic.Int64) error
}

// rounds is how often a figure and its floor are measured, in turns, each for run.turn. The figures are medians.
const rounds = 3

// rate measures a figure and its floor.
func (r *run) rate(ctx context.Context, s, floor *serveProcess, f *rated) error {
	r.progress(f.name)
	if err := s.teach(floor, f); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	var ours, theirs []float64
	for range rounds {
		for _, side := range []struct {
			at    *serveProcess
			rates *[]float64
		}{{s, &ours}, {floor, &theirs}} {
			rate, err := timed(ctx, f.clients, r.turn, side.at, f.work)
			if err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			*side.rates = append(*side.rates, rate)
		}
	}
	r.add(f.floor, middle(theirs), f.unit)
	r.add(f.name, middle(ours), f.unit)
	r.over(f.floor)
	return nil
}

// timed lets n clients work for a while, and on a slow machine until the first of them has done something. It returns their counts per
// second.
func timed(ctx context.Context, n int, lasting time.Duration, s *serveProcess, client work) (float64, error) {
	var count atomic.Int64
	started := time.Now()
	more := func() bool {
		past := time.Since(started)
		return ctx.Err() == nil && (past < lasting || count.Load() == 0 && past < lasting+time.Minute)
	}
	err := parallel(n, func(int) error { return client(s, more, &count) })
	return float64(count.Load()) / time.Since(started).Seconds(), err
}

func middle[T cmp.Ordered](list []T) T {
	slices.Sort(list)
	return list[len(list)/2]
}

// teach lets one client work for a moment and leaves the last answers that it got with the floor.
func (s *serveProcess) teach(floor *serveProcess, f *rated) error {
	answers := map[string][]byte{}
	taught := *s
	taught.heard = func(path string, answer []byte) { answers[path] = bytes.Clone(answer) }
	var count atomic.Int64
	calls := 0
	if err := f.work(&taught, func() bool { calls++; return calls <= 3 }, &count); err != nil {
		return err
	}
	for _, path := range f.paths {
		request, err := http.NewRequest(http.MethodPut, "http://"+floor.address+path, bytes.NewReader(answers[path]))
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		answer.Body.Close()
	}
	return nil
}

// disk measures the floor of every durable answer: 4 KiB written over existing blocks of a file, and fdatasync.
type disk struct {
	file   *os.File
	page   []byte
	offset int64
}

const diskBytes = 4 << 20

func openDisk(path string) (*disk, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	d := &disk{file: file, page: make([]byte, 4096)}
	if _, err := file.WriteAt(make([]byte, diskBytes), 0); err != nil {
		return nil, err
	}
	return d, file.Sync()
}

func (d *disk) write() (time.Duration, error) {
	started := time.Now()
	d.page[0]++
	if _, err := d.file.WriteAt(d.page, d.offset); err != nil {
		return 0, err
	}
	err := unix.Fdatasync(int(d.file.Fd()))
	d.offset = (d.offset + int64(len(d.page))) % diskBytes
	return time.Since(started), err
}

func (d *disk) close() { d.file.Close() }

// bytesWritten is how many bytes this process has passed to write calls, as the kernel counts them; 0 where it does not.
func bytesWritten() int64 {
	text, _ := os.ReadFile("/proc/self/io")
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "wchar:"); found {
			n, _ := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			return n
		}
	}
	return 0
}
