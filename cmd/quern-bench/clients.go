package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

var clientNames = []string{
	"work_empty/go", "work_empty/python", "work_empty/python-asyncio", "work_empty/typescript",
	"insert_single_64/go", "insert_single_64/python", "insert_single_64/python-asyncio", "insert_single_64/typescript",
}

// clientTurns is how many turns each round lasts: an interpreter needs a second before it is as fast as it will be.
const clientTurns = 3

// program measures a client in another language: it takes an address, how many handlers or callers run at once, for how many seconds, its
// options, and "work" or "insert", and prints the chunks or submissions per second. Its path is below the checkout's root.
type program struct {
	name, tool, path string
	needs            string   // a file that is built, ""
	options          []string // before the last
}

var clientPrograms = []program{
	{name: "python", tool: "python3", path: "sdk/python/tests/bench.py", options: []string{"threads"}},
	{name: "python-asyncio", tool: "python3", path: "sdk/python/tests/bench.py", options: []string{"asyncio"}},
	{name: "typescript", tool: "node", path: "sdk/typescript/test/bench.mjs", needs: "sdk/typescript/dist/index.js"},
}

// insertsQueue is where callers of Insert insert, one chunk each: the work of the default queue stays as it was.
const insertsQueue = "inserts"

// clientSuite measures what each client does against one server on the same cores: Work with 64 handlers that do nothing, and 64 callers
// that each insert one submission after the other.
func clientSuite(ctx context.Context, r *run) error {
	s, err := r.startServer(ctx, filepath.Join(r.dir, "data"))
	if err != nil {
		return err
	}
	defer s.stop()
	if err := s.fill(); err != nil {
		return err
	}
	r.progress("work_empty/go")
	if err := r.work(ctx, s, "work_empty/go", "chunks/s", clientTurns*r.turn, func(*client.Chunk) error { return nil }); err != nil {
		return err
	}
	r.progress("insert_single_64/go")
	if err := r.inserts(ctx, s, "insert_single_64/go"); err != nil {
		return err
	}
	built := newGuests(r.dir)
	for _, p := range clientPrograms {
		why := built.missing(p.tool)
		if why == "" && p.needs != "" {
			if _, err := os.Stat(filepath.Join(built.checkout, p.needs)); err != nil {
				why = p.needs + " is missing; make clients builds it"
			}
		}
		for _, figure := range [][3]string{{"work_empty/", "work", "chunks/s"}, {"insert_single_64/", "insert", "inserts/s"}} {
			name := figure[0] + p.name
			if why != "" {
				r.progress("without " + name + ": " + why)
				continue
			}
			if err := r.runIn(ctx, s, built.checkout, p, name, figure[1], figure[2]); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// runIn measures a figure of a program.
func (r *run) runIn(ctx context.Context, s *serveProcess, checkout string, p program, name, what, unit string) error {
	r.progress(name)
	seconds := strconv.FormatFloat((clientTurns * r.turn).Seconds(), 'f', -1, 64)
	var rates []float64
	for range rounds {
		args := append([]string{p.path, "http://" + s.address, strconv.Itoa(connections), seconds}, append(p.options, what)...)
		c := exec.CommandContext(ctx, p.tool, args...)
		c.Dir, c.Env = checkout, append(os.Environ(), "PYTHONPATH="+filepath.Join(checkout, "sdk/python/src"), "PYTHONDONTWRITEBYTECODE=1")
		var said bytes.Buffer
		c.Stderr = &said
		out, err := c.Output()
		if err != nil {
			return fmt.Errorf("%w: %s", err, said.Bytes())
		}
		rate, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
		if err != nil {
			return fmt.Errorf("it printed %q: %w", out, err)
		}
		rates = append(rates, rate)
	}
	r.add(name, middle(rates), unit)
	return nil
}

// inserts measures Insert of the Go client: 64 goroutines of this process, each with one submission after the other.
func (r *run) inserts(ctx context.Context, s *serveProcess, name string) error {
	c, err := client.New("http://" + s.address)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.EnsureQueue(ctx, insertsQueue, api.QueueSettingsInput{}); err != nil {
		return err
	}
	submission := &api.NewSubmission{
		Meta:   api.Meta{"company": api.Int(7)},
		Chunks: api.Chunks{Inline: []api.Bytes{api.Bytes(singleContent)}},
	}
	var rates []float64
	for range rounds {
		var count atomic.Int64
		started := time.Now()
		until := started.Add(clientTurns * r.turn)
		failed := make(chan error, connections)
		var callers sync.WaitGroup
		for range connections {
			callers.Go(func() {
				for time.Now().Before(until) {
					if _, err := c.Insert(ctx, insertsQueue, submission); err != nil {
						failed <- err
						return
					}
					count.Add(1)
				}
			})
		}
		callers.Wait()
		if len(failed) > 0 {
			return <-failed
		}
		rates = append(rates, float64(count.Load())/time.Since(started).Seconds())
	}
	r.add(name, middle(rates), "inserts/s")
	return nil
}

// work measures Work of the Go client: 64 handlers in this process, which look at their chunks and do nothing.
func (r *run) work(ctx context.Context, s *serveProcess, name, unit string, lasting time.Duration, look func(*client.Chunk) error) error {
	c, err := client.New("http://" + s.address)
	if err != nil {
		return err
	}
	defer c.Close()
	var rates []float64
	for range rounds {
		var count atomic.Int64
		working, stop := context.WithTimeout(ctx, lasting)
		started := time.Now()
		err := c.Work(working, client.WorkOptions{Concurrency: connections}, func(_ context.Context, chunk *client.Chunk) ([]byte, error) {
			if err := look(chunk); err != nil {
				return nil, err
			}
			count.Add(1)
			return nil, nil
		})
		stop()
		if err != nil {
			return err
		}
		rates = append(rates, float64(count.Load())/time.Since(started).Seconds())
	}
	r.add(name, middle(rates), unit)
	return nil
}
