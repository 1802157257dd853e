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
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/sdk/client"
)

var clientNames = []string{"work_empty/go", "work_empty/python", "work_empty/python-asyncio", "work_empty/typescript"}

// clientTurns is how many turns each round lasts: an interpreter needs a second before it is as fast as it will be.
const clientTurns = 3

// program measures Work of a client in another language: it takes an address, how many handlers run at once and for how many seconds,
// and prints the chunks per second. Its path is below the checkout's root.
type program struct {
	name, tool, path string
	needs            string   // a file that is built, ""
	options          []string // behind the others
}

var clientPrograms = []program{
	{name: "python", tool: "python3", path: "sdk/python/tests/bench.py", options: []string{"threads"}},
	{name: "python-asyncio", tool: "python3", path: "sdk/python/tests/bench.py", options: []string{"asyncio"}},
	{name: "typescript", tool: "node", path: "sdk/typescript/test/bench.mjs", needs: "sdk/typescript/dist/index.js"},
}

// clientSuite measures what Work of each client does with 64 handlers that do nothing, against one server on the same cores.
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
	built := newGuests(r.dir)
	for _, p := range clientPrograms {
		why := built.missing(p.tool)
		if why == "" && p.needs != "" {
			if _, err := os.Stat(filepath.Join(built.checkout, p.needs)); err != nil {
				why = p.needs + " is missing; make clients builds it"
			}
		}
		if why != "" {
			r.progress("without work_empty/" + p.name + ": " + why)
			continue
		}
		if err := r.workIn(ctx, s, built.checkout, p); err != nil {
			return fmt.Errorf("work_empty/%s: %w", p.name, err)
		}
	}
	return nil
}

// workIn measures a program.
func (r *run) workIn(ctx context.Context, s *serveProcess, checkout string, p program) error {
	r.progress("work_empty/" + p.name)
	seconds := strconv.FormatFloat((clientTurns * r.turn).Seconds(), 'f', -1, 64)
	var rates []float64
	for range rounds {
		args := append([]string{p.path, "http://" + s.address, strconv.Itoa(connections), seconds}, p.options...)
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
	r.add("work_empty/"+p.name, middle(rates), "chunks/s")
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
