package engine

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// after is a reader that takes this long for each piece.
type after struct {
	io.Reader
	took time.Duration
}

func (r after) Read(b []byte) (int, error) {
	<-time.After(r.took)
	return r.Reader.Read(b[:min(len(b), copyPiece)])
}

// A copy rests after each piece for as long as that took, a second at most, and a rest ends with the context.
func TestCopyRests(t *testing.T) {
	t.Parallel()
	const pieces = 10
	for took, want := range map[time.Duration]time.Duration{
		3 * time.Millisecond: pieces * 6 * time.Millisecond,
		5 * time.Second:      pieces * 6 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			pace := newCopyPace(t.Context(), time.Now)
			from := pace.reader(after{bytes.NewReader(make([]byte, pieces*copyPiece)), took})
			for range pieces {
				_, err := io.ReadFull(from, make([]byte, copyPiece))
				fatal(t, err)
			}
			if got := time.Since(began); got != want {
				t.Errorf("%d pieces of %v each took %v; want %v", pieces, took, got, want)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		pace := newCopyPace(ctx, time.Now)
		<-time.After(time.Second)
		began := time.Now()
		if err := pace.done(copyPiece); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 500*time.Millisecond {
			t.Errorf("a rest of a second that is over after half of it: %v after %v", err, time.Since(began))
		}
	})
}

// A backup looks after each piece whether it is to rest: when it copies, when it sums up, and when it is read. So does a snapshot.
func TestCopiesArePaced(t *testing.T) {
	t.Parallel()
	var looks atomic.Int64
	clock := func() time.Time { looks.Add(1); return time.Unix(1e9, 0) }
	e, err := Open(t.Context(), Options{Dir: t.TempDir(), SnapshotDir: t.TempDir(), Now: clock, Seed: func() uint64 { return 7 }, BallastBytes: -1,
		SnapshotBytes: -1})
	fatal(t, err)
	defer closed(t, e)
	content := make([]byte, 1<<20)
	for range 8 {
		_, _ = rand.NewChaCha8([32]byte{3}).Read(content)
		_, _, err := queueAt(e, DefaultQueue).Insert(t.Context(), queue.NewSubmission{Chunks: queue.Chunks{Inline: [][]byte{content}}})
		fatal(t, err)
	}
	paced := func(what string, times int64, size func() int64) {
		t.Helper()
		before := looks.Load()
		want := times * 2 * (size() / copyPiece) // a look before each rest, and one behind it
		if got := looks.Load() - before; got < want {
			t.Errorf("%s looked at the clock %d times, want %d at least", what, got, want)
		}
	}
	paced("a backup", 3, func() int64 {
		b, err := e.Storage().Backup(t.Context(), "test", "", nil)
		fatal(t, err)
		fatal(t, errors.Join(b.Write(io.Discard), b.Close()))
		return b.Size - 1<<20 // the manifest and the ends of files are less than that
	})
	paced("a snapshot", 2, func() int64 {
		fatal(t, queueAt(e, DefaultQueue).shard.Checkpoint())
		return queueAt(e, DefaultQueue).store.Size() - 5<<20 // but for the log
	})
}
