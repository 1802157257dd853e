package store

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/queue"
)

// usage is the consumption of this process: CPU in nanoseconds, bytes given to write.
func usage(b *testing.B) (cpu, written int64) {
	b.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	io, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return r.Utime.Nano() + r.Stime.Nano(), 0 // not Linux
	}
	for line := range strings.Lines(string(io)) {
		if text, ok := strings.CutPrefix(line, "wchar: "); ok {
			written, _ = strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		}
	}
	return r.Utime.Nano() + r.Stime.Nano(), written
}

// perChunk reports the costs of a chunk, after b.N rounds of n chunks.
func perChunk(b *testing.B, n int, cpu, written int64) {
	b.Helper()
	cpuNow, writtenNow := usage(b)
	all := float64(b.N) * float64(n)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/all, "ns/chunk")
	b.ReportMetric(float64(cpuNow-cpu)/all, "cpu-ns/chunk")
	b.ReportMetric(float64(writtenNow-written)/all, "written-B/chunk")
}

func benchStore(b *testing.B) *Store {
	b.Helper()
	s := open(b, filepath.Join(b.TempDir(), "store.db"), Options{})
	b.Cleanup(func() { s.Close() })
	return s
}

// BenchmarkPackContent is the CPU of packing alone: 1,000 chunks of 100 bytes.
func BenchmarkPackContent(b *testing.B) {
	chunks := make([][]byte, 1000)
	for i := range chunks {
		chunks[i] = make([]byte, 100)
	}
	b.ReportAllocs()
	for b.Loop() {
		packContent(0, chunks, 102*len(chunks))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/chunk")
}

func BenchmarkWriteContent(b *testing.B) {
	for _, c := range []struct{ chunks, bytes int }{{1000, 100}, {100, 1000}, {20, 10_000}, {1, 100}} {
		b.Run(fmt.Sprintf("%dx%d", c.chunks, c.bytes), func(b *testing.B) {
			s := benchStore(b)
			chunks := make([][]byte, c.chunks)
			for i := range chunks {
				chunks[i] = make([]byte, c.bytes)
			}
			cpu, written := usage(b)
			seq := uint32(0)
			for b.Loop() {
				if err := s.WriteContent(ctx, seq, 0, chunks); err != nil {
					b.Fatal(err)
				}
				seq++
			}
			perChunk(b, c.chunks, cpu, written)
		})
	}
}

// BenchmarkWriteContentTogether has 16 callers at once, which share commits.
func BenchmarkWriteContentTogether(b *testing.B) {
	s := benchStore(b)
	chunks := make([][]byte, 100)
	for i := range chunks {
		chunks[i] = make([]byte, 100)
	}
	cpu, written := usage(b)
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := s.WriteContent(ctx, rand.Uint32(), 0, chunks); err != nil {
				b.Error(err)
				return
			}
		}
	})
	perChunk(b, len(chunks), cpu, written)
}

func BenchmarkReadContent(b *testing.B) {
	s := benchStore(b)
	const n = 100_000
	chunks := make([][]byte, n)
	for i := range chunks {
		chunks[i] = make([]byte, 100)
	}
	must(b, s.WriteContent(ctx, 1, 0, chunks))
	rnd := rand.New(rand.NewPCG(1, 1))
	b.Run("random", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.ReadContent(ctx, 1, rnd.Uint32N(n)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("100 in a row", func(b *testing.B) {
		indexes := make([]uint32, 100)
		for b.Loop() {
			first := rnd.Uint32N(n - 100)
			for i := range indexes {
				indexes[i] = first + uint32(i)
			}
			if _, err := s.ReadContents(ctx, 1, indexes, math.MaxInt); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/chunk")
	})
}

// BenchmarkAppendOutputs completes 256 chunks per call, of one submission or scattered over 10,000; compacting is included.
func BenchmarkAppendOutputs(b *testing.B) {
	for _, submissions := range []uint32{1, 10_000} {
		b.Run(fmt.Sprintf("256x200 over %d", submissions), func(b *testing.B) {
			s := benchStore(b)
			rnd := rand.New(rand.NewPCG(1, 1))
			outs := make([]Output, 256)
			content := make([]byte, 200)
			cpu, written := usage(b)
			next := uint32(0)
			for b.Loop() {
				for i := range outs {
					outs[i] = Output{rnd.Uint32N(submissions), next, content}
					next++
				}
				if err := s.AppendOutputs(ctx, outs); err != nil {
					b.Fatal(err)
				}
			}
			s.outputs.moves.mu.Lock()
			must(b, s.compact(ctx))
			s.outputs.moves.mu.Unlock()
			perChunk(b, len(outs), cpu, written)
		})
	}
}

// BenchmarkCheckpoint stores the progress of 512 submissions.
func BenchmarkCheckpoint(b *testing.B) {
	s := benchStore(b)
	rows := make([]checkpoint.Row, 512)
	for i := range rows {
		rows[i] = checkpoint.Row{Seq: uint32(i), ID: queue.SubmissionID(i + 1), Spec: make([]byte, 120)}
	}
	must(b, s.Checkpoint(ctx, rows, nil))
	for i := range rows {
		rows[i].Spec, rows[i].State = nil, make([]byte, 40)
	}
	for b.Loop() {
		must(b, s.Checkpoint(ctx, rows, nil))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/512, "ns/row")
}

// BenchmarkLoad is the restart with 100,000 submissions.
func BenchmarkLoad(b *testing.B) {
	s := benchStore(b)
	rows := make([]checkpoint.Row, 100_000)
	for i := range rows {
		rows[i] = checkpoint.Row{Seq: uint32(i), ID: queue.SubmissionID(i + 1), Spec: make([]byte, 120), State: make([]byte, 40)}
	}
	must(b, s.Checkpoint(ctx, rows, nil))
	for b.Loop() {
		must(b, s.Load(ctx, func(checkpoint.Row) error { return nil }))
	}
}

// BenchmarkOpen is the start of one shard's store, new and there already.
func BenchmarkOpen(b *testing.B) {
	b.Run("new", func(b *testing.B) {
		dir, i := b.TempDir(), 0
		for b.Loop() {
			i++
			must(b, open(b, filepath.Join(dir, strconv.Itoa(i)), Options{}).Close())
		}
	})
	b.Run("there", func(b *testing.B) {
		path := filepath.Join(b.TempDir(), "store.db")
		must(b, open(b, path, Options{}).Close())
		for b.Loop() {
			must(b, open(b, path, Options{}).Close())
		}
	})
}

// BenchmarkEnd ends 200,000 submissions, 2,048 in a checkpoint, in the order in which they came or in none.
func BenchmarkEnd(b *testing.B) {
	for _, order := range []string{"sorted", "random"} {
		b.Run(order, func(b *testing.B) {
			s := benchStore(b)
			rnd := rand.New(rand.NewPCG(1, 1))
			rows := make([]checkpoint.Row, 200_000)
			ended := make([]checkpoint.Ended, len(rows))
			for i := range rows {
				spec := binary.BigEndian.AppendUint64(make([]byte, 50), rnd.Uint64())
				rows[i] = checkpoint.Row{Seq: uint32(i), ID: queue.SubmissionID(i + 1), Spec: spec, State: make([]byte, 12)}
				ended[i] = checkpoint.Ended{Seq: uint32(i), ID: queue.SubmissionID(i + 1), State: queue.Completed, Spec: spec, Final: make([]byte, 20)}
			}
			if order == "random" {
				rnd.Shuffle(len(ended), func(i, j int) { ended[i], ended[j] = ended[j], ended[i] })
			}
			var cpu, written int64
			for range b.N {
				must(b, s.Checkpoint(ctx, rows, nil))
				cpuNow, writtenNow := usage(b)
				for list := range slices.Chunk(ended, 2048) {
					must(b, s.Checkpoint(ctx, nil, list))
				}
				cpuThen, writtenThen := usage(b)
				cpu, written = cpu+cpuThen-cpuNow, written+writtenThen-writtenNow
			}
			b.ReportMetric(float64(cpu)/float64(b.N*len(ended)), "cpu-ns/end")
			b.ReportMetric(float64(written)/float64(b.N*len(ended)), "written-B/end")
		})
	}
}
