package store

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// singlesModel holds a store's contents against a map: small and large ones, alone and with others, that are kept, flushed, replayed after a
// flush that the journal does not know of, forgotten by retention and by the sweep, and read at any moment.
type singlesModel struct {
	t    *testing.T
	s    *Store
	rnd  *rand.Rand
	want map[uint32][][]byte
	gone []uint32
	last uint32 // the largest seq
	mark uint32 // a replay begins behind this seq
}

func (m *singlesModel) keep(seq uint32, chunks [][]byte) {
	var attachment []byte
	if seq%17 == 0 {
		attachment = []byte("attached")
	}
	keepContent(m.s, seq, attachment, chunks...)
	m.want[seq] = chunks
}

func (m *singlesModel) insert() {
	m.last++
	if m.rnd.IntN(40) == 0 {
		m.last += nearSingles - 2 + m.rnd.Uint32N(5) // others lie between
	}
	chunks := [][]byte{bytes.Repeat([]byte{byte(m.last)}, m.rnd.IntN(300))}
	switch m.rnd.IntN(12) {
	case 0:
		chunks[0] = bytes.Repeat([]byte{byte(m.last)}, loneBytes-1+m.rnd.IntN(3))
	case 1:
		chunks = append(chunks, []byte("another"))
	}
	m.keep(m.last, chunks)
}

// replay keeps the contents again that came since the mark, except forgotten ones, as a start after a crash does.
func (m *singlesModel) replay() {
	reopen(m.t, m.s)
	m.s.Memtable.init(m.s)
	for _, seq := range slices.Sorted(maps.Keys(m.want)) {
		if seq > m.mark {
			m.keep(seq, m.want[seq])
		}
	}
}

// forget lets some go, neighbours or any.
func (m *singlesModel) forget() {
	seqs := slices.Sorted(maps.Keys(m.want))
	m.rnd.Shuffle(len(seqs), func(i, j int) {
		if m.rnd.IntN(2) == 0 {
			seqs[i], seqs[j] = seqs[j], seqs[i]
		}
	})
	seqs = seqs[:min(len(seqs), m.rnd.IntN(120))]
	gone := map[uint32]bool{}
	var ended []checkpoint.Ended
	for _, seq := range seqs {
		gone[seq] = true
		delete(m.want, seq)
		m.gone = append(m.gone, seq)
		ended = append(ended, checkpoint.Ended{Seq: seq, ID: 1<<40 + queue.SubmissionID(seq), Finished: 1})
	}
	if m.rnd.IntN(2) == 0 {
		if _, err := m.s.SweepOrphans(ctx, func(seq uint32) bool { return !gone[seq] }); err != nil {
			m.t.Fatal(err)
		}
		return
	}
	must(m.t, m.s.Checkpoint(ctx, nil, ended))
	if _, err := retain(m.s, 2, len(ended)); err != nil {
		m.t.Fatal(err)
	}
}

func (m *singlesModel) check() {
	m.t.Helper()
	there := slices.Collect(maps.Keys(m.want))
	for i := range 40 {
		seq := m.rnd.Uint32N(m.last + 2)
		if from := [][]uint32{there, there, m.gone}[i%3]; len(from) > 0 {
			seq = from[m.rnd.IntN(len(from))]
		}
		want, is := m.want[seq]
		if !is {
			if got, err := m.s.ReadContent(ctx, seq, 0); !errors.Is(err, ErrMissing) {
				m.t.Fatalf("seq %d has %q, %v; want nothing", seq, got, err)
			}
			continue
		}
		reads(m.t, m.s, "model", seq, nil, want...)
	}
	m.disjoint()
}

// disjoint looks whether the pages are sorted, without an overlap, and not almost empty without need.
func (m *singlesModel) disjoint() {
	m.t.Helper()
	next := int64(0)
	pages, err := m.s.write.overlapped(m.s, 0, lastNumber)
	must(m.t, err)
	for i := range pages {
		p := &pages[i]
		if int64(p.first) < next || p.last < p.first {
			m.t.Fatalf("the page from %d to %d overlaps what comes before %d", p.first, p.last, next)
		}
		next = int64(p.last) + 1
	}
}

// Packed contents read like those of a map, for all sequences of calls.
//
//quern:sequential
func TestSinglesLikeAMap(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	m := &singlesModel{t: t, s: fresh(t), rnd: rand.New(rand.NewPCG(seed, 1)), want: map[uint32][][]byte{}}
	for range 150 {
		for range m.rnd.IntN(80) {
			m.insert()
		}
		switch m.rnd.IntN(6) {
		case 0:
			m.forget()
		case 1:
			m.replay()
		case 2:
			m.mark = m.last - m.rnd.Uint32N(min(m.last, 30)+1) // a checkpoint came to its end, that began a while ago
			fallthrough
		default:
			must(t, m.s.Memtable.Flush(ctx))
		}
		m.check()
	}
	must(t, m.s.Memtable.Flush(ctx))
	seen := map[uint32]bool{}
	must(t, m.s.visit(ctx, func(seq uint32) error { seen[seq] = true; return nil }))
	for seq := range m.want {
		if !seen[seq] {
			t.Errorf("seq %d has contents, but the sweep does not come to it", seq)
		}
	}
	for seq := range seen {
		if _, is := m.want[seq]; !is {
			t.Errorf("the sweep finds something of seq %d, of which there is nothing", seq)
		}
	}
	if got, err := m.s.MaxSeq(ctx); err != nil || len(m.want) > 0 && got < slices.Max(slices.Collect(maps.Keys(m.want))) {
		t.Errorf("the largest seq is %d, %v; there are larger ones", got, err)
	}
}

// A thousand contents of 100 bytes take a page for nine of them, and those who read them in their order read each page twice.
func TestSinglesShareAPage(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	const n = 1000
	for seq := range uint32(n) {
		keepContent(s, seq, nil, fmt.Appendf(nil, "%0100d", seq))
	}
	must(t, s.Memtable.Flush(ctx))
	if pages := rowsIn(t, s, "content_page"); pages > n/9+1 || rowsIn(t, s, "content") != 0 {
		t.Errorf("%d pages and %d rows; want at most %d pages", pages, rowsIn(t, s, "content"), n/9+1)
	}
	first, err := s.ReadContent(ctx, 0, 0)
	must(t, err)
	reads(t, s, "its neighbour", 1, nil, fmt.Appendf(nil, "%0100d", 1))
	must(t, s.write.conn.Exec("UPDATE content_page SET crc = crc + 1 WHERE n = 0")) // a third read of the page would be an error
	reads(t, s, "the next", 2, nil, fmt.Appendf(nil, "%0100d", 2))
	reads(t, s, "one of another page", 500, nil, fmt.Appendf(nil, "%0100d", 500))
	if string(first) != fmt.Sprintf("%0100d", 0) {
		t.Errorf("what was read has become %q", first)
	}
}

// A damaged page is reported by reads of its contents, and by no others; the sweep and retention go on.
func TestDamagedSingles(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	keepContent(s, 3, nil, []byte("damaged"))
	keepContent(s, 4, nil, []byte("damaged too"))
	keepContent(s, 9000, nil, []byte("whole"))
	must(t, s.Memtable.Flush(ctx))
	must(t, s.WriteContent(ctx, 5, 0, [][]byte{[]byte("in a row of its own")}))
	must(t, s.Checkpoint(ctx, nil, []checkpoint.Ended{{Seq: 3, ID: 1, Finished: 1}, {Seq: 9000, ID: 2, Finished: 5}}))
	must(t, s.write.conn.Exec("UPDATE content_page SET crc = crc + 1 WHERE n = 3"))
	for _, seq := range []uint32{3, 4} {
		if _, err := s.ReadContent(ctx, seq, 0); !isDamaged(err, "content_page") {
			t.Errorf("seq %d: %v; want that content_page is damaged", seq, err)
		}
	}
	reads(t, s, "behind it", 5, nil, []byte("in a row of its own"))
	reads(t, s, "behind it", 9000, nil, []byte("whole"))
	if ids, err := retain(s, 2, 10); err != nil || len(ids) != 1 {
		t.Errorf("retention of one in the damaged page: %v, %v", ids, err)
	}
	if n, err := s.SweepOrphans(ctx, func(uint32) bool { return false }); err != nil || n != 1 {
		t.Errorf("the sweep took %d, %v; want seq 5", n, err)
	}
	reads(t, s, "after the sweep", 9000, nil, []byte("whole"))
}

func isDamaged(err error, table string) bool {
	format, is := errors.AsType[*queue.FormatError](err)
	return is && bytes.Contains([]byte(format.Reason), []byte("table "+table))
}

// Flushes of 1,000 contents of 100 bytes.
func BenchmarkFlushSingles(b *testing.B) {
	s := open(b, b.TempDir()+"/store.db", Options{})
	b.Cleanup(func() { s.Close() })
	content, seq := PackContent([][]byte{make([]byte, 100)}), uint32(0)
	b.ReportAllocs()
	for b.Loop() {
		for range 1000 {
			s.Memtable.KeepContents(&journal.Contents{Seq: seq, Pages: content})
			seq++
		}
		must(b, s.Memtable.Flush(ctx))
	}
}

// Reads of contents of 100 bytes among 100,000, at random and in order.
func BenchmarkReadSingles(b *testing.B) {
	s := open(b, b.TempDir()+"/store.db", Options{})
	b.Cleanup(func() { s.Close() })
	content := PackContent([][]byte{make([]byte, 100)})
	for seq := range uint32(100_000) {
		s.Memtable.KeepContents(&journal.Contents{Seq: seq, Pages: content})
	}
	must(b, s.Memtable.Flush(ctx))
	rnd := rand.New(rand.NewPCG(1, 1))
	for name, next := range map[string]func(i uint32) uint32{"random": func(uint32) uint32 { return rnd.Uint32N(100_000) }, "in order": func(i uint32) uint32 { return i % 100_000 }} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := uint32(0); b.Loop(); i++ {
				if _, err := s.ReadContent(ctx, next(i), 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
