package journal

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/quern-queue/quern/engine/queue"
)

// Every batch comes back as it went in: time, epoch and all ops, whatever their mixture.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		epoch, at, ops := anyEpoch(t), anyTime(t, "at"), anyOps(t)
		batch := encode(epoch, at, ops)
		gotAt, got, err := decode(batch)
		if err != nil || gotAt != at || !sameOps(got, ops) {
			t.Fatalf("epoch %d, batch %x\ngot  %v, time %d%s\nwant time %d%s", epoch, batch, err, gotAt, describe(got), at, describe(ops))
		}
		if got, err := Epoch(batch); got != epoch || err != nil {
			t.Fatalf("Epoch(%x) = %d, %v; want %d", batch, got, err, epoch)
		}
	})
}

// An encoder that is used again writes the same as a new one.
func TestResetForgets(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		first, second, epoch := anyOps(t), anyOps(t), anyEpoch(t)
		var e Encoder
		e.Reset(anyEpoch(t), 1)
		encodeInto(&e, first)
		e.Reset(epoch, 2)
		encodeInto(&e, second)
		if want := encode(epoch, 2, second); string(e.Bytes()) != string(want) {
			t.Fatalf("got %x; want %x", e.Bytes(), want)
		}
	})
}

// The submission's row is the insert's bytes, and nothing may be left over.
func TestInsertRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := anyInsert(t)
		row := AppendInsert([]byte("before"), s)[len("before"):]
		got, err := DecodeInsert(row)
		if err != nil || !sameOps([]any{got}, []any{s}) {
			t.Fatalf("DecodeInsert(%x) = %v%s\nwant%s", row, err, describe([]any{got}), describe([]any{s}))
		}
		if got, err := DecodeInsert(append(row, 0)); err == nil {
			t.Fatalf("DecodeInsert of a row with a byte too many = %+v; want an error", got)
		}
		cut := rapid.IntRange(0, len(row)-1).Draw(t, "cut")
		if got, err := DecodeInsert(row[:cut]); err == nil {
			t.Fatalf("DecodeInsert of %d of %d bytes = %+v; want an error", cut, len(row), got)
		}
	})
}

// An absent number of operations means 1.
func TestInsertOperations(t *testing.T) {
	t.Parallel()
	for given, want := range map[uint32]uint32{0: 1, 1: 1, 2: 2, math.MaxUint32: math.MaxUint32} {
		got, err := DecodeInsert(AppendInsert(nil, &Insert{Chunks: 1, OperationsPerChunk: given}))
		if err != nil || got.OperationsPerChunk != want {
			t.Errorf("operations per chunk %d came back as %+v, %v; want %d", given, got, err, want)
		}
	}
}

func completions(count int, seq, epoch uint32, first uint64) (items []Completed) {
	for i := range count {
		items = append(items, Completed{Seq: seq, Index: uint32(i), Epoch: epoch, Sequence: first + uint64(i)})
	}
	return items
}

// Runs are split so that no op is long, by submission and by epoch; the ops are counted.
func TestRunSplitting(t *testing.T) {
	t.Parallel()
	mixed := completions(3, 1, 5, 1)
	mixed = append(mixed, completions(2, 2, 5, 9)...)
	mixed = append(mixed, done(2, 9, 4, 100), done(2, 10, 4, 101))
	mixed = append(mixed, completions(1, 2, 5, 200)...)
	for _, c := range []struct {
		name  string
		items []Completed
		codes []byte
	}{
		{"none", nil, nil},
		{"one", completions(1, 1, 5, 1), []byte{opCompleteOne}},
		{"two", completions(2, 1, 5, 1), []byte{opCompleteRun}},
		{"a full run", completions(maxRun, 1, 5, 1), []byte{opCompleteRun}},
		{"one over", completions(maxRun+1, 1, 5, 1), []byte{opCompleteRun, opCompleteOne}},
		{"three runs", completions(3*maxRun, 1, 5, 1), []byte{opCompleteRun, opCompleteRun, opCompleteRun}},
		{"an older epoch", completions(2, 1, 4, 1), []byte{opCompleteOld, opCompleteOld}},
		{"mixed", mixed, []byte{opCompleteRun, opCompleteRun, opCompleteOld, opCompleteOld, opCompleteOne}},
	} {
		var e Encoder
		e.Reset(5, 0)
		e.Complete(c.items)
		if e.Ops() != len(c.codes) {
			t.Errorf("%s: Ops() = %d; want %d", c.name, e.Ops(), len(c.codes))
		}
		var want []any
		for _, item := range c.items {
			want = append(want, item)
		}
		var got []any
		var codes []byte
		d := NewDecoder(e.Bytes())
		for more := len(c.codes) > 0; more; {
			codes = append(codes, d.c.B[0])
			var l list
			var err error
			if more, err = d.Step(&l); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if len(l.ops) > maxRun {
				t.Errorf("%s: one op holds %d completions; want at most %d", c.name, len(l.ops), maxRun)
			}
			got = append(got, l.ops...)
		}
		if string(codes) != string(c.codes) || !sameOps(got, want) {
			t.Errorf("%s: ops %v with%s\nwant ops %v with%s", c.name, codes, describe(got), c.codes, describe(want))
		}
	}
}

// The numbers at the ends of their ranges, in both directions.
func TestHugeNumbers(t *testing.T) {
	t.Parallel()
	ops := []any{
		done(math.MaxUint32, math.MaxUint32, math.MaxUint32, 1<<48-1), done(0, 0, 0, 0),
		done(1, 1, 7, math.MaxUint64), done(1, 2, 7, 0), done(1, 3, 7, 1<<63), done(1, 4, 7, 1),
		uint32(math.MaxUint32), done(1, 5, math.MaxUint32, 1<<47), done(1, 5, 0, 3),
		Returned{math.MaxUint32, math.MaxUint32, 1, math.MaxUint64, Dead, math.MaxUint16, math.MaxUint8, math.MaxInt64, "", "", math.MaxUint32, true},
		Redrive{math.MaxUint32, []uint32{0, math.MaxUint32}},
		Move{MoveForward, math.MaxUint32, math.MaxUint64, math.MaxUint64, "q", []uint32{0, math.MaxUint32}, 0},
		Move{MoveRenumber, math.MaxUint32, math.MaxUint64, math.MaxUint64, "q", []uint32{math.MaxUint32}, math.MaxUint64},
		Move{Kind: MoveStuck, Number: math.MaxUint64, Indexes: []uint32{0, math.MaxUint32}},
		Move{Kind: MoveDelivered, Number: math.MaxUint64, Indexes: []uint32{0, math.MaxUint32}},
		&Bulk{math.MaxUint64, math.MaxUint64, queue.BulkFailed, queue.BulkCounts{Matched: math.MaxUint64, Done: math.MaxUint64, Unchanged: math.MaxUint64, Refused: math.MaxUint64},
			queue.ChunkID{Submission: math.MaxUint64, Index: math.MaxUint32}, math.MinInt64, "f", "r", queue.BulkWalk{Examined: math.MaxUint64, ToExamine: math.MaxUint64}, "e"},
		Returned{NotBefore: math.MinInt64},
		&Insert{Seq: 1, Chunks: math.MaxUint32, Key: math.MaxUint64, OperationsPerChunk: 1},
		&Insert{math.MaxUint32, math.MaxUint64, math.MaxUint32, 0, math.MinInt64, nil, "", "", "", "", math.MaxUint32, math.MaxInt64, math.MinInt64, math.MaxUint16, queue.Skip, math.MaxUint32, true, true, &Blobs{math.MaxUint32, []uint32{0, math.MaxUint32}, math.MaxUint64, [32]byte{31: 1}}, "", [16]byte{}, "s", math.MinInt64,
			&queue.Origin{Source: math.MaxUint64, Number: math.MaxUint64, Queue: "q", First: math.MaxUint32, Attempts: math.MaxUint32, Died: math.MinInt64}, &queue.Backoff{Kind: queue.Listed, Jitter: queue.NoJitter, Base: 30 * queue.MaxReservation, Cap: 30 * queue.MaxReservation, Factor: 100, Delays: queue.NewDelays([]uint32{0, math.MaxUint32})}, &queue.Unique{Key: "k", Scope: "s", For: queue.MaxUniqueWindow},
			&queue.After{IDs: []queue.SubmissionID{0, math.MaxUint64}, Ended: true, Run: true}, math.MaxUint32, queue.MaxReservation},
		&Insert{Seq: 1, Chunks: 1, Key: 1, OperationsPerChunk: 1, After: &queue.After{IDs: []queue.SubmissionID{1}, DeadLetter: true}},
		&Awaited{math.MaxUint32, math.MaxUint64},
	}
	for _, at := range []queue.Time{math.MinInt64, -1, 0, 1, math.MaxInt64} {
		gotAt, got, err := decode(encode(7, at, ops))
		if err != nil || gotAt != at || !sameOps(got, ops) {
			t.Errorf("got  %v, time %d%s\nwant time %d%s", err, gotAt, describe(got), at, describe(ops))
		}
	}
}

// traffic is the journal of a busy shard: `count` completions of chunks of a large submission, in the order in which
// fast and slow consumers finish them.
func traffic(count, perCall int) (batch []byte, completed int) {
	var e Encoder
	e.Reset(3, 1_760_000_000_000)
	for first := 0; first < count; first += perCall {
		var items []Completed
		for i := first; i < min(first+perCall, count); i++ {
			shuffled := uint64(i) ^ 0x2A // out of order by up to 64
			items = append(items, Completed{Seq: 50_000, Index: uint32(i*2_654_435_761) >> 12, Epoch: 3, Sequence: 1<<33 + shuffled})
		}
		e.Complete(items)
	}
	return e.Bytes(), count
}

// A completion takes few bytes in the journal: issue 2 and DESIGN count on 8 to 10.
func TestBytesPerCompletion(t *testing.T) {
	t.Parallel()
	for _, perCall := range []int{1, 10, 100, 1000} {
		batch, n := traffic(10_000, perCall)
		each := float64(len(batch)) / float64(n)
		t.Logf("%4d completions a call: %.2f bytes each", perCall, each)
		if most := map[bool]float64{true: 9, false: 6}[perCall == 1]; each > most {
			t.Errorf("%d completions a call take %.2f bytes each; want at most %.0f", perCall, each, most)
		}
	}
}

type ignore struct{ completed int }

func (*ignore) ApplyEpoch(uint32) error         { return nil }
func (*ignore) ApplyInsert(*Insert) error       { return nil }
func (i *ignore) ApplyComplete(Completed) error { i.completed++; return nil }
func (*ignore) ApplyReturn(Returned) error      { return nil }
func (*ignore) ApplyEnd(End) error              { return nil }
func (*ignore) ApplyPriority(Priority) error    { return nil }
func (*ignore) ApplyPart(PartOp) error          { return nil }

func BenchmarkComplete(b *testing.B) {
	for _, perCall := range []int{1, 100} {
		items := completions(perCall, 50_000, 3, 1<<33)
		b.Run(fmt.Sprintf("encode/%d", perCall), func(b *testing.B) {
			var e Encoder
			b.ReportAllocs()
			for range b.N {
				if len(e.Bytes()) == 0 || len(e.Bytes()) > 1<<16 {
					e.Reset(3, 1_760_000_000_000)
				}
				e.Complete(items)
			}
			b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N*perCall), "ns/completion")
		})
		b.Run(fmt.Sprintf("decode/%d", perCall), func(b *testing.B) {
			batch, n := traffic(10_000, perCall)
			var sink ignore
			b.ReportAllocs()
			for range b.N {
				if err := Decode(batch, func(queue.Time) {}, &sink); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(sink.completed), "ns/completion")
			b.ReportMetric(float64(len(batch))/float64(n), "bytes/completion")
		})
	}
}
