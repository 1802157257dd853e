package sqlitelog

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// BenchmarkAppend sets an append beside the bare sync of the same number of bytes on the same disk: the difference is ours.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{32, 1000, 16 << 10} {
		batch := make([]byte, size)
		b.Run(fmt.Sprintf("fdatasync/%d", size), func(b *testing.B) { benchmarkSync(b, max(size, 4096)) })
		for _, d := range []queue.Durability{queue.Full, queue.Relaxed} {
			b.Run(fmt.Sprintf("%v/%d", d, size), func(b *testing.B) { benchmarkAppend(b, d, batch) })
		}
	}
}

// benchmarkSync overwrites a file of 4 MB in place, as the write-ahead log does.
func benchmarkSync(b *testing.B, size int) {
	f, err := os.Create(filepath.Join(b.TempDir(), "raw"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	const room = 4 << 20
	if _, err := f.Write(make([]byte, room)); err != nil {
		b.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	block, at := make([]byte, size), 0
	for b.Loop() {
		if _, err := f.WriteAt(block, int64(at)); err != nil {
			b.Fatal(err)
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			b.Fatal(err)
		}
		if at += size; at+size > room {
			at = 0
		}
	}
}

func benchmarkAppend(b *testing.B, d queue.Durability, batch []byte) {
	l := open(b, filepath.Join(b.TempDir(), "journal.db"), Options{Durability: d})
	defer l.Close()
	b.ReportAllocs()
	tail, start := journal.Position(0), cpu()
	for b.Loop() {
		var err error
		if tail, err = l.Append(context.Background(), tail, batch); err != nil {
			b.Fatal(err)
		}
		if tail%1024 == 0 {
			if err := l.Trim(context.Background(), tail-512); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(cpu()-start)/float64(b.N), "cpu-ns/op")
}

func cpu() int64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return r.Utime.Nano() + r.Stime.Nano()
}
