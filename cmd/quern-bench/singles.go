package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/store"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
	"golang.org/x/sys/unix"
)

// A single is a submission of one chunk with its content inline and meta of its own: how most people meet a queue first.
var singlesNames = []string{
	"jobs_bytes", "jobs_end_cost", "jobs_memory", "jobs_lone_p50", "jobs_lone_p99", "jobs_insert_64x1", "jobs_insert_batch_4x1000",
	"jobs_exchange_64x1", "jobs_plain_64x1", "jobs_work_64", "http_floor_lone_p50", "http_floor_lone_p99", "http_floor_insert_64",
	"http_floor_64x1", "http_floor_plain_64x1",
}

// singleContent is 100 bytes.
var singleContent = strings.Repeat("0123456789", 10)

func singlesSuite(ctx context.Context, r *run) error {
	if err := singlesLife(ctx, r, singlesLived); err != nil {
		return err
	}
	if err := singlesBacklog(ctx, filepath.Join(r.dir, "data"), singlesWaiting, r); err != nil {
		return err
	}
	return r.beside(ctx, singlesServed)
}

const (
	singlesLived   = 100_000 // singles whose memory, bytes and end are measured
	singlesWaiting = 500_000 // that the server begins with: no figure runs dry
)

func single(i int) queue.NewSubmission {
	return queue.NewSubmission{
		Meta:   queue.Meta{{Key: "company", Value: queue.IntValue(int64(i % 1000))}},
		Chunks: queue.Chunks{Count: 1, Inline: [][]byte{[]byte(singleContent)}},
	}
}

// singlesBacklog makes the data that a server begins with.
func singlesBacklog(ctx context.Context, dir string, n int, r *run) error {
	r.progress(fmt.Sprintf("a backlog of %d submissions of one chunk", n))
	b, err := r.openOptions(ctx, filepath.Base(dir), engine.Options{Now: time.Now, Seed: rand.Uint64})
	if err != nil {
		return err
	}
	if err := b.insert(ctx, n, single); err != nil {
		b.close()
		return err
	}
	return b.close()
}

// openShard opens one shard by itself. It writes checkpoints only on request.
func openShard(ctx context.Context, dir string) (*shard.Shard, *store.Store, error) {
	kept, err := store.Open(ctx, filepath.Join(dir, "store.db"), store.Options{})
	if err != nil {
		return nil, nil, err
	}
	s, err := shard.Open(ctx, shard.Options{
		Queue: engine.DefaultQueue, Settings: queue.DefaultSettings(), Store: kept, Now: time.Now, Seed: rand.Uint64,
		Journal: func(ctx context.Context) (journal.Journal, error) {
			return sqlitelog.Open(ctx, filepath.Join(dir, "journal.db"), sqlitelog.Options{})
		},
		Logger: slog.New(slog.DiscardHandler), Committed: func(time.Duration, int, int) {}, Fatal: func(err error) { panic(err) },
		FreeBallast: func() bool { return false }, CheckpointBytes: 1 << 40, CheckpointEnded: 1 << 30, RecountEvery: -1,
	})
	if err != nil {
		kept.Close()
	}
	return s, kept, err
}

// singlesLife measures what a single costs: in memory, in bytes written over its life, and at its end.
func singlesLife(ctx context.Context, r *run, n int) error {
	r.progress("the life of a submission of one chunk")
	dir := filepath.Join(r.dir, "life")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	s, kept, err := openShard(ctx, dir)
	if err != nil {
		return err
	}
	defer kept.Close()
	defer s.Close()
	before, written := liveHeap(), bytesWritten()
	if err := each(n, func(i int) error {
		submission := single(i)
		_, _, err := s.Insert(ctx, &submission)
		return err
	}); err != nil {
		return err
	}
	if err := s.Checkpoint(); err != nil { // the contents go to the store
		return err
	}
	r.add("jobs_memory", (liveHeap()-before)/float64(n), "B")
	plan, err := planOf("Random")
	if err != nil {
		return err
	}
	if err := each(n, func(int) error {
		got, err := s.Reserve(ctx, machine.Request{Plan: plan, Max: 1}, nil)
		if err == nil {
			_, err = s.Complete(ctx, []queue.CompleteItem{{Token: got.Reservations[0].Token}}, nil)
		}
		return err
	}); err != nil {
		return err
	}
	runtime.GC() // otherwise a collection of the calls' garbage might fall into the checkpoint, and take as long
	cpu := processTime()
	if err := s.Checkpoint(); err != nil {
		return err
	}
	r.add("jobs_end_cost", micro(processTime()-cpu)/float64(n), "us")
	r.add("jobs_bytes", float64(bytesWritten()-written)/float64(n), "B")
	return nil
}

// each calls fn for this many numbers, from 64 goroutines.
func each(n int, fn func(i int) error) error {
	var next atomic.Int64
	return parallel(64, func(int) error {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			if err := fn(i); err != nil {
				return err
			}
		}
		return nil
	})
}

// liveHeap is the live memory, in bytes.
func liveHeap() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// processTime is the processor time that this process has used.
func processTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// singlesServed are the figures over HTTP.
func singlesServed(ctx context.Context, r *run, server, floor *serveProcess) error {
	insert := []byte(`{"meta":{"company":7},"chunks":{"inline":["` + singleContent + `"]}}`)
	for _, f := range []rated{
		{"jobs_insert_64x1", "submissions/s", "http_floor_insert_64", connections, []string{pathSubmissions}, inserting(insert, 1)},
		{"jobs_exchange_64x1", "cycles/s", "http_floor_64x1", connections, []string{pathExchange}, exchanging(1)},
		{"jobs_plain_64x1", "cycles/s", "http_floor_plain_64x1", connections, []string{pathReservations, pathComplete}, plainly(1)},
	} {
		if err := r.rate(ctx, server, floor, &f); err != nil {
			return err
		}
	}
	if err := singlesMany(ctx, r, server); err != nil {
		return err
	}
	if err := singlesWork(ctx, r, server); err != nil {
		return err
	}
	r.over("jobs_exchange_64x1")
	return r.lone(ctx, server, floor, "jobs_", insert, api.Bytes(singleContent))
}

// singlesMany: 1,000 different ones in one call.
func singlesMany(ctx context.Context, r *run, s *serveProcess) error {
	r.progress("jobs_insert_batch_4x1000")
	body := []byte(`{"submissions":[`)
	for i := range 1000 {
		if i > 0 {
			body = append(body, ',')
		}
		body = fmt.Appendf(body, `{"meta":{"company":%d},"chunks":{"inline":[%q]}}`, i, singleContent)
	}
	rate, err := timed(ctx, 4, 2*r.turn, s, func(s *serveProcess, more func() bool, count *atomic.Int64) error {
		return s.posts(pathSubmissions+":batch", append(body, "]}"...), 1000, more, count)
	})
	r.add("jobs_insert_batch_4x1000", rate, "submissions/s")
	return err
}

// singlesWork: 64 handlers of the Go client in one process, which do nothing.
func singlesWork(ctx context.Context, r *run, s *serveProcess) error {
	r.progress("jobs_work_64")
	return r.work(ctx, s, "jobs_work_64", "cycles/s", r.turn, func(chunk *client.Chunk) error {
		if !bytes.Equal(chunk.Content, []byte(singleContent)) {
			return fmt.Errorf("a chunk came with %q", chunk.Content)
		}
		return nil
	})
}
