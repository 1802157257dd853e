package store

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/queue"
	"pgregory.net/rapid"
)

// Packing keeps each chunk, for all sizes of chunks, in pages that are neither over-long nor wasteful.
func TestPackContent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.Uint32Range(0, 1<<31).Draw(t, "first")
		sizes := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 300), rapid.IntRange(900, 1100), rapid.IntRange(0, 9000)), 1, 300).Draw(t, "sizes")
		chunks, total := make([][]byte, len(sizes)), 0
		for i, n := range sizes {
			chunks[i] = bytes.Repeat([]byte{byte(i)}, n)
			total += n + 2
		}
		next := first
		for i, page := range packContent(first, chunks, total) {
			if page.First != next {
				t.Fatalf("page %d begins with chunk %d, want %d", i, page.First, next)
			}
			n := uint32(0)
			for ; ; n++ {
				chunk, found, err := chunkOf(page.Bytes, n)
				if err != nil {
					t.Fatalf("page %d, chunk %d: %v", i, n, err)
				}
				if !found {
					break
				}
				if want := chunks[next-first+n]; !bytes.Equal(chunk, want) {
					t.Fatalf("page %d, chunk %d: %d bytes; want %d", i, next+n, len(chunk), len(want))
				}
			}
			if n == 0 || n > 1 && len(page.Bytes) > largePage {
				t.Fatalf("page %d has %d chunks in %d bytes", i, n, len(page.Bytes))
			}
			next += n
		}
		if next-first != uint32(len(chunks)) {
			t.Fatalf("%d chunks were packed; want %d", next-first, len(chunks))
		}
	})
}

// A page that was cut off or changed is an error or a miss, never a panic.
func TestBrokenPages(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		page := rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(t, "page")
		if rapid.Bool().Draw(t, "real") {
			page = appendContentPage(nil, [][]byte{[]byte("one"), []byte("two"), {}})
			page = page[:rapid.IntRange(0, len(page)).Draw(t, "cut")]
		}
		for i := range uint32(4) {
			if chunk, found, err := chunkOf(page, i); err == nil && found && len(chunk) > len(page) {
				t.Fatalf("chunk %d has %d bytes out of a page of %d", i, len(chunk), len(page))
			}
		}
		for name, read := range map[string]func() ([]logEntry, error){
			"log": func() ([]logEntry, error) { return logEntries(nil, page) },
			"run": func() ([]logEntry, error) { return runEntries(nil, 1, page) },
		} {
			entries, err := read()
			for _, e := range entries {
				if err == nil && len(e.bytes) > len(page) {
					t.Fatalf("%s: an entry has %d bytes out of a page of %d", name, len(e.bytes), len(page))
				}
			}
		}
	})
}

// The entries of one submission in a page of the log, whole or broken, are those of it among all.
func TestLogEntriesOfOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var outputs []Output
		for range rapid.IntRange(0, 12).Draw(t, "outputs") {
			outputs = append(outputs, Output{Seq: rapid.Uint32Range(0, 2).Draw(t, "seq"), Index: rapid.Uint32Range(0, 5).Draw(t, "index"),
				Bytes: rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "bytes")})
		}
		page := appendLogPage(nil, outputs)
		if rapid.Bool().Draw(t, "broken") {
			page = page[:rapid.IntRange(0, len(page)).Draw(t, "cut")]
			if len(page) > 0 {
				page[rapid.IntRange(0, len(page)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
			}
		}
		seq, from := rapid.Uint32Range(0, 2).Draw(t, "of"), rapid.Uint32Range(0, 5).Draw(t, "from")
		before := []logEntry{{seq: 9}}
		all, whole := logEntries(nil, page)
		got, err := logEntriesOf(before, page, seq, from)
		if (err == nil) != (whole == nil) {
			t.Fatalf("%x: %v, and of all %v", page, err, whole)
		}
		want := slices.Clone(before)
		for _, e := range all {
			if whole == nil && e.seq == seq && e.index >= from {
				want = append(want, e)
			}
		}
		same := func(a, b logEntry) bool { return a.seq == b.seq && a.index == b.index && bytes.Equal(a.bytes, b.bytes) }
		if !slices.EqualFunc(got, want, same) {
			t.Fatalf("%x: got %+v, want %+v", page, got, want)
		}
	})
}

// Pages of small chunks fill the database's pages: neither half empty nor a byte too long.
func TestContentTakesLittleMoreThanItsBytes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		size    int
		percent int64
	}{{10, 140}, {100, 112}, {500, 112}, {1000, 120}, {4000, 112}, {100_000, 105}} {
		s := fresh(t)
		before, err := s.write.conn.Int("PRAGMA page_count")
		must(t, err)
		count := 1_000_000 / c.size
		must(t, s.WriteContent(ctx, 1, 0, slices.Repeat([][]byte{make([]byte, c.size)}, count)))
		after, err := s.write.conn.Int("PRAGMA page_count")
		must(t, err)
		if got, most := (after-before)*4096, int64(count*c.size)*c.percent/100; got > most {
			t.Errorf("%d chunks of %d bytes take %d bytes; want at most %d", count, c.size, got, most)
		}
	}
}

// Chunks of any size come back, one by one and several at once, in any order.
func TestContentRoundTrip(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	sizes := []int{0, 1, 100, 1023, 1024, 1025, 4000, 4040, 4096, 8130, 9000, queue.MaxChunkBytes}
	for range 500 {
		sizes = append(sizes, rnd.IntN(300))
	}
	for range 6 { // more than one commit's worth
		sizes = append(sizes, queue.MaxChunkBytes)
	}
	chunks := make([][]byte, len(sizes))
	for i, n := range sizes {
		chunks[i] = make([]byte, n)
		for j := range chunks[i] {
			chunks[i][j] = byte(i + j*j)
		}
	}
	const seq, first = 1 << 31, 1000
	must(t, s.WriteContent(ctx, seq-1, 0, [][]byte{[]byte("neighbour below")}))
	must(t, s.WriteContent(ctx, seq+1, 0, [][]byte{[]byte("neighbour above")}))
	for range 2 { // the second time replaces
		must(t, s.WriteContent(ctx, seq, first, chunks[:300]))
		must(t, s.WriteContent(ctx, seq, first+300, chunks[300:]))
	}
	order := rnd.Perm(len(chunks))
	indexes := make([]uint32, len(order))
	for i, n := range order {
		indexes[i] = first + uint32(n)
		if b, err := s.ReadContent(ctx, seq, indexes[i]); err != nil || !bytes.Equal(b, chunks[n]) {
			t.Fatalf("ReadContent(%d) = %d bytes, %v; want %d", indexes[i], len(b), err, len(chunks[n]))
		}
	}
	for range 2 {
		all, err := s.ReadContents(ctx, seq, indexes, math.MaxInt)
		must(t, err)
		for i := range all {
			if !bytes.Equal(all[i], chunks[indexes[i]-first]) {
				t.Fatalf("ReadContents: chunk %d has %d bytes; want %d", indexes[i], len(all[i]), len(chunks[indexes[i]-first]))
			}
		}
		slices.Sort(indexes)
	}
	for _, c := range [][2]uint32{{seq, 0}, {seq, first - 1}, {seq, first + uint32(len(chunks))}, {seq, queue.MaxChunks}, {5, 0}, {seq + 1, 1}} {
		if b, err := s.ReadContent(ctx, c[0], c[1]); !errors.Is(err, ErrMissing) {
			t.Errorf("ReadContent(%d, %d) = %d bytes, %v; want ErrMissing", c[0], c[1], len(b), err)
		}
	}
	must(t, s.WriteContent(ctx, 9, queue.MaxChunks-1, [][]byte{[]byte("last")}))
	if got, err := s.ReadContent(ctx, 9, queue.MaxChunks-1); err != nil || string(got) != "last" {
		t.Errorf("the last chunk that can be: got %q, %v", got, err)
	}
	must(t, s.WriteContent(ctx, 1, 0, nil))
}

// Attachments, empty ones too, come back; another one replaces.
func TestAttachment(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	for _, b := range [][]byte{[]byte("first"), {}, make([]byte, queue.MaxAttachmentBytes)} {
		must(t, s.WriteAttachment(ctx, 4, b))
		if got, err := s.ReadAttachment(ctx, 4); err != nil || !bytes.Equal(got, b) {
			t.Errorf("ReadAttachment = %d bytes, %v; want %d", len(got), err, len(b))
		}
	}
	if _, err := s.ReadAttachment(ctx, 5); !errors.Is(err, ErrMissing) {
		t.Errorf("ReadAttachment of none = %v; want ErrMissing", err)
	}
}

// Callers that come at the same time share commits, and each finds its content as soon as its call returns; reads,
// checkpoints and deletes go on beside them.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	const callers, rounds = 16, 25
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			seq := uint32(c)
			for round := range uint32(rounds) {
				chunk := bytes.Repeat([]byte{byte(c), byte(round)}, 50+c*100)
				if err := s.WriteContent(ctx, seq, round, [][]byte{chunk}); err != nil {
					t.Errorf("WriteContent: %v", err)
					return
				}
				if got, err := s.ReadContent(ctx, seq, round); err != nil || !bytes.Equal(got, chunk) {
					t.Errorf("ReadContent(%d, %d) = %d bytes, %v; want %d", seq, round, len(got), err, len(chunk))
				}
				if err := s.AppendOutputs(ctx, []Output{{seq, round, chunk}, {seq + callers, round / 2, chunk}}); err != nil {
					t.Errorf("AppendOutputs: %v", err)
					return
				}
				if got, found, err := s.Output(ctx, seq+callers, round/2); err != nil || !found || !bytes.Equal(got, chunk) {
					t.Errorf("Output(%d, %d) = %d bytes, %v, %v; want %d", seq+callers, round/2, len(got), found, err, len(chunk))
				}
			}
		})
	}
	all.Go(func() {
		for i := range uint32(60) {
			err := errors.Join(s.Checkpoint(ctx, []checkpoint.Row{{Seq: 1000 + i, ID: queue.SubmissionID(i + 1), Spec: []byte("s")}}, nil),
				s.PackOutputs(ctx, i%callers), s.Load(ctx, func(checkpoint.Row) error { return nil }))
			if i%6 == 0 {
				s.outputs.moves.mu.Lock()
				err = errors.Join(err, s.compact(ctx))
				s.outputs.moves.mu.Unlock()
			}
			if err != nil {
				t.Errorf("beside the callers: %v", err)
			}
		}
	})
	all.Go(func() {
		for i := range 60 {
			seq, last := uint32(i%callers), -1
			err := s.Outputs(ctx, seq, 0, func(index uint32, out []byte) error {
				if int(index) != last+1 || !bytes.Equal(out, bytes.Repeat([]byte{byte(seq), byte(index)}, len(out)/2)) {
					t.Errorf("Outputs(%d) gave index %d after %d, or another's bytes", seq, index, last)
				}
				last = int(index)
				return nil
			})
			if err != nil {
				t.Errorf("Outputs: %v", err)
			}
		}
	})
	all.Wait()
	for c := range uint32(callers) {
		n := 0
		must(t, s.Outputs(ctx, c, 0, func(uint32, []byte) error { n++; return nil }))
		if n != rounds {
			t.Errorf("submission %d has %d outputs; want %d", c, n, rounds)
		}
	}
}
