package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"math/rand/v2"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

var engineNames = []string{
	"fdatasync_p50", "lone_complete_p50", "insert_4e9_p50", "insert_small_64", "reserve_complete_64x100",
	"bytes_per_chunk_64x100", "reserve_complete_1024x1", "heap_1e9", "disk_1e9", "restart_1e9", "reserve_p50/*", "reserve_p99/*",
}

// The backlog of the large figures: 10^9 chunks in 10^5 submissions with three meta keys each.
const (
	largeSubmissions = 100_000
	largeChunks      = 10_000
)

func engineSuite(ctx context.Context, r *run) error {
	for _, step := range []func(context.Context, *run) error{loneFigures, throughputFigures, largeFigures} {
		if err := step(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// bed is an engine on data of its own.
type bed struct {
	*engine.Engine
	q    *engine.Queue // the default one, or its first shard
	work engine.Work   // the default one, however many shards it has
	dir  string
	stop context.CancelFunc
	done chan struct{}
}

func (r *run) open(ctx context.Context, name string) (*bed, error) { return r.openWith(ctx, name, nil) }

func (r *run) openWith(ctx context.Context, name string, scorers strategy.Scorers) (*bed, error) {
	return r.openOptions(ctx, name, engine.Options{Now: time.Now, Seed: rand.Uint64, Scorers: scorers})
}

func (r *run) openOptions(ctx context.Context, name string, o engine.Options) (*bed, error) {
	o.Dir = filepath.Join(r.dir, name)
	e, err := engine.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	q, err := e.Queue(engine.DefaultQueue)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	loops, stop := context.WithCancel(ctx)
	b := &bed{Engine: e, q: q, work: q, dir: o.Dir, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(b.done)
		_ = e.Run(loops) // ends with loops, without an error
	}()
	return b, nil
}

func (b *bed) close() error {
	b.stop()
	<-b.done
	return b.Close()
}

// submission is the i-th of a synthetic backlog: a company out of 10,000, a mode out of 2, a tier out of 100.
func submission(i int, chunks uint32) queue.NewSubmission {
	mode := "batch"
	if i%2 == 0 {
		mode = "preview"
	}
	return queue.NewSubmission{
		Meta: queue.Meta{
			{Key: "company", Value: queue.IntValue(int64(i % 10_000))},
			{Key: "mode", Value: queue.StringValue(mode)},
			{Key: "tier", Value: queue.IntValue(int64(i / 2 % 100))},
		},
		Priority: int64(i % 10),
		Chunks:   queue.Chunks{Count: chunks, Prefix: "s3://bucket/input/"},
	}
}

// load inserts n submissions from 64 producers at once.
func (b *bed) load(ctx context.Context, n int, chunks uint32) error {
	return b.insert(ctx, n, func(i int) queue.NewSubmission { return submission(i, chunks) })
}

// insert inserts the first n submissions of a backlog from 64 producers at once: in about that order.
func (b *bed) insert(ctx context.Context, n int, of func(i int) queue.NewSubmission) error {
	var next atomic.Int64
	return parallel(64, func(int) error {
		for {
			i := int(next.Add(1)) - 1
			if i >= n {
				return nil
			}
			if _, _, err := b.q.Insert(ctx, of(i)); err != nil {
				return err
			}
		}
	})
}

// parallel runs fn in n goroutines and returns the first error.
func parallel(n int, fn func(i int) error) error {
	var group sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		group.Go(func() { errs[i] = fn(i) })
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// loneFigures measures how long one caller waits, beside the sync that it cannot do without.
func loneFigures(ctx context.Context, r *run) error {
	r.progress("a lone caller beside fdatasync")
	b, err := r.open(ctx, "lone")
	if err != nil {
		return err
	}
	defer b.close()
	if err := b.load(ctx, 1000, 100_000); err != nil {
		return err
	}
	disk, err := openDisk(filepath.Join(r.dir, "fdatasync"))
	if err != nil {
		return err
	}
	defer disk.close()
	plan, err := b.q.Plan(nil)
	if err != nil {
		return err
	}
	var syncs, completes []time.Duration
	for range 3000 { // in turns, so that both see the same disk
		d, err := disk.write()
		if err != nil {
			return err
		}
		syncs = append(syncs, d)
		got, err := b.q.Reserve(ctx, engine.ReserveRequest{Max: 1, Plan: plan}, nil)
		if err != nil {
			return err
		}
		started := time.Now()
		if _, err := b.q.Complete(ctx, []queue.CompleteItem{{Token: got.Reservations[0].Token}}, nil); err != nil {
			return err
		}
		completes = append(completes, time.Since(started))
	}
	slices.Sort(syncs)
	slices.Sort(completes)
	r.add("fdatasync_p50", micro(quantile(syncs, 0.5)), "us")
	r.add("lone_complete_p50", micro(quantile(completes, 0.5)), "us")
	r.over("fdatasync_p50")

	var inserts []time.Duration
	for i := range 300 {
		started := time.Now()
		if _, _, err := b.q.Insert(ctx, submission(i, 4_000_000_000)); err != nil {
			return err
		}
		inserts = append(inserts, time.Since(started))
	}
	slices.Sort(inserts)
	r.add("insert_4e9_p50", milli(quantile(inserts, 0.5)), "ms")
	return nil
}

// insertFigures: many producers, every answer durable, on an engine that is closed before anything else is measured.
func insertFigures(ctx context.Context, r *run) error {
	r.progress("64 producers of small submissions")
	b, err := r.open(ctx, "insert")
	if err != nil {
		return err
	}
	defer b.close()
	const small = 150_000
	started := time.Now()
	if err := b.load(ctx, small, 1); err != nil {
		return err
	}
	r.add("insert_small_64", small/time.Since(started).Seconds(), "submissions/s")
	return nil
}

// throughputFigures: many callers, every answer durable.
func throughputFigures(ctx context.Context, r *run) error {
	if err := insertFigures(ctx, r); err != nil {
		return err
	}
	q, err := r.open(ctx, "work")
	if err != nil {
		return err
	}
	defer q.close()
	if err := q.load(ctx, 10_000, largeChunks); err != nil {
		return err
	}
	r.progress("64 consumers in batches of 100")
	before := bytesWritten()
	chunks, took, err := q.cycle(ctx, 64, 100, 4*time.Second)
	if err != nil {
		return err
	}
	r.add("reserve_complete_64x100", float64(chunks)/took.Seconds(), "chunks/s")
	r.add("bytes_per_chunk_64x100", float64(bytesWritten()-before)/float64(chunks), "B")
	r.progress("1,024 consumers one by one")
	if chunks, took, err = q.cycle(ctx, 1024, 1, 4*time.Second); err != nil {
		return err
	}
	r.add("reserve_complete_1024x1", float64(chunks)/took.Seconds(), "chunks/s")
	return nil
}

// cycle lets callers reserve and complete batches for a while and counts the chunks.
func (b *bed) cycle(ctx context.Context, callers, batch int, lasting time.Duration) (int64, time.Duration, error) {
	asked, err := b.work.Asked(ctx, nil)
	if err != nil {
		return 0, 0, err
	}
	var total atomic.Int64
	started := time.Now()
	err = parallel(callers, func(int) error {
		var reservations []queue.Reservation
		var items []queue.CompleteItem
		var results []queue.Result
		for time.Since(started) < lasting {
			got, err := b.work.Reserve(ctx, engine.ReserveRequest{Max: batch, Plan: asked.Plan}, reservations[:0])
			if err != nil {
				return err
			}
			reservations, items = got.Reservations, items[:0]
			for i := range reservations {
				items = append(items, queue.CompleteItem{Token: reservations[i].Token})
			}
			if results, err = b.work.Complete(ctx, items, results[:0]); err != nil {
				return err
			}
			for i := range results {
				if results[i].Outcome != queue.OutcomeOK {
					return fmt.Errorf("a completion came back %v: %s", results[i].Outcome, results[i].Detail)
				}
			}
			total.Add(int64(len(results)))
		}
		return nil
	})
	return total.Load(), time.Since(started), err
}

// largeFigures: 10^9 chunks in 10^5 submissions.
func largeFigures(ctx context.Context, r *run) error {
	r.progress("10^9 chunks in 10^5 submissions")
	debug.FreeOSMemory() // so that the garbage of the earlier beds delays nothing
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b, err := r.open(ctx, "large")
	if err != nil {
		return err
	}
	defer func() { b.close() }()
	if err := b.load(ctx, largeSubmissions, largeChunks); err != nil {
		return err
	}
	if _, _, err := b.cycle(ctx, 64, 100, 3*time.Second); err != nil {
		return err
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	r.add("heap_1e9", float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB")
	r.add("disk_1e9", float64(dirBytes(b.dir))/1e6, "MB")
	if err := r.restart(ctx, b.dir); err != nil {
		return err
	}
	return reserveFigures(ctx, r, b)
}

// restart opens a copy of the data as a kill -9 would leave it.
func (r *run) restart(ctx context.Context, dir string) error {
	copied := filepath.Join(r.dir, "copy")
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		return err
	}
	started := time.Now()
	e, err := engine.Open(ctx, engine.Options{Dir: copied, Now: time.Now, Seed: rand.Uint64})
	if err != nil {
		return err
	}
	r.add("restart_1e9", time.Since(started).Seconds(), "s")
	return e.Close()
}

func dirBytes(dir string) (total int64) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != "ballast" { // room kept back, not data
			if info, err := d.Info(); err == nil {
				total += info.Size()
			}
		}
		return nil
	})
	return total
}

var reserveCases = []reserveCase{
	{name: "random", strategy: `Random`},
	{name: "oldest_first", strategy: `OldestFirst`},
	{name: "newest_first", strategy: `NewestFirst`},
	{name: "custom_priority", strategy: `CustomPriority`},
	{name: "select_only_rare", strategy: `SelectOnly("company", 77, Random)`},
	{name: "select_only_common", strategy: `SelectOnly("mode", "preview", Random)`},
	{name: "select_only_nested", strategy: `SelectOnly("mode", "preview", SelectOnly("tier", 10, Random))`},
	{name: "select_only_priority", strategy: `SelectOnly("mode", "batch", CustomPriority)`},
	{name: "or_else", strategy: `OrElse(SelectOnly("company", 77, Random), OldestFirst)`},
	{name: "or_else_absent", strategy: `OrElse(SelectOnly("company", 1000000, Random), Random)`},
	{name: "absent_value", strategy: `SelectOnly("company", 1000000, Random)`, empty: true},
	{name: "empty_intersection", strategy: `SelectOnly("mode", "preview", SelectOnly("company", 77, Random))`, empty: true},
}

// reserveFigures times reserve(1) under every strategy, then again with 10^5 chunks held at the head.
func reserveFigures(ctx context.Context, r *run, b *bed) error {
	for _, c := range reserveCases {
		if err := r.timeReserve(ctx, b, c); err != nil {
			return err
		}
	}
	r.progress("10^5 chunks held at the head")
	if _, err := b.hold(ctx, `OldestFirst`, 100_000); err != nil {
		return err
	}
	for _, c := range []reserveCase{{name: "held_oldest_first", strategy: `OldestFirst`},
		{name: "held_random", strategy: `Random`}, {name: "held_custom_priority", strategy: `CustomPriority`}} {
		if err := r.timeReserve(ctx, b, c); err != nil {
			return err
		}
	}
	return nil
}
