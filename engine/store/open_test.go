package store

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/queue"
)

// openModel is the open submissions as a map.
type openModel struct {
	t    *testing.T
	s    *Store
	rnd  *rand.Rand
	open map[uint32]checkpoint.Row
	next uint32
	fail bool // transactions lose their answer: they are durable, and their caller is told otherwise
}

var errLostAnswer = errors.New("the answer is lost")

func (m *openModel) bytes(seq uint32) []byte {
	if m.rnd.IntN(50) == 0 {
		return noise(m.rnd.Uint64(), openLoneBytes+m.rnd.IntN(3000))
	}
	return fmt.Appendf(nil, "of %d %*d", seq, m.rnd.IntN(200), m.rnd.IntN(100))
}

// insert makes some submissions, mostly with numbers that follow each other; some are far away, up to the largest number.
func (m *openModel) insert(most int) (rows []checkpoint.Row) {
	for range 1 + m.rnd.IntN(most) {
		m.next++
		seq := m.next
		if m.rnd.IntN(100) == 0 {
			seq = m.rnd.Uint32() | 1<<31
		}
		r := checkpoint.Row{Seq: seq, ID: queue.SubmissionID(m.rnd.Uint64()), Spec: m.bytes(seq), State: m.bytes(seq)}
		if _, there := m.open[seq]; !there {
			if m.rnd.IntN(20) == 0 { // changed again while the checkpoint takes its rows
				before := r
				before.State = m.bytes(seq)
				rows = append(rows, before)
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// touch changes the states of some, and also the specs of a few.
func (m *openModel) touch() (rows []checkpoint.Row) {
	one := m.rnd.IntN(3) + 1
	for seq, r := range m.open {
		if m.rnd.IntN(20*one) > 0 {
			continue
		}
		next := checkpoint.Row{Seq: seq, ID: r.ID, State: m.bytes(seq)}
		if m.rnd.IntN(10) == 0 {
			next.Spec = m.bytes(seq)
		}
		rows = append(rows, next)
	}
	return rows
}

// end ends some: from the oldest on, or here and there. Some had their rows written in the same checkpoint, some never.
func (m *openModel) end() (ended []checkpoint.Ended) {
	seqs := slices.Sorted(maps.Keys(m.open))
	share := 1 + m.rnd.IntN(20)
	for i, seq := range seqs {
		if m.rnd.IntN(2) == 0 && i < len(seqs)/share || m.rnd.IntN(share*4) == 0 {
			ended = append(ended, checkpoint.Ended{Seq: seq, ID: m.open[seq].ID, State: queue.Completed, Finished: 1})
		}
	}
	m.next++
	return append(ended, checkpoint.Ended{Seq: m.next, ID: queue.SubmissionID(m.next), State: queue.Failed, Finished: 1})
}

// write writes a checkpoint, and repeats rows that the caller cannot know to be stored, as the answer was lost.
func (m *openModel) write(rows []checkpoint.Row, ended []checkpoint.Ended) {
	m.fail = m.rnd.IntN(8) == 0
	err := m.s.Checkpoint(ctx, rows, ended)
	gone := map[uint32]bool{}
	for i := range ended {
		gone[ended[i].Seq] = true
	}
	rows = slices.DeleteFunc(rows, func(r checkpoint.Row) bool { return gone[r.Seq] })
	for i := range rows {
		if rows[i].Spec == nil {
			rows[i].Spec = m.open[rows[i].Seq].Spec
		}
		m.open[rows[i].Seq] = rows[i]
	}
	maps.DeleteFunc(m.open, func(seq uint32, _ checkpoint.Row) bool { return gone[seq] })
	if m.fail && errors.Is(err, errLostAnswer) {
		m.fail = false
		err = m.s.Checkpoint(ctx, rows, nil)
	}
	must(m.t, err)
}

// check compares all that the store loads, and checks that the file and the memory agree.
func (m *openModel) check() {
	m.t.Helper()
	want := slices.Collect(maps.Values(m.open))
	slices.SortFunc(want, func(a, b checkpoint.Row) int { return int(int64(a.Seq) - int64(b.Seq)) })
	got := load(m.t, m.s)
	if len(got) != len(want) {
		m.t.Fatalf("%d submissions are open, want %d", len(got), len(want))
	}
	for i := range got {
		if !reflect.DeepEqual(got[i], want[i]) {
			m.t.Fatalf("%.200v is loaded, want %.200v", got[i], want[i])
		}
	}
	read := openIndex{}
	must(m.t, read.load(m.s))
	pages := 0
	for n, b := range m.s.open.blocks {
		of := read.blocks[n]
		if of == nil || !bytes.Equal(of.appendTo(nil), b.appendTo(nil)) || !bytes.Equal(of.rows.appendTo(nil), b.rows.appendTo(nil)) {
			m.t.Fatalf("block %d is another one in the file", n)
		}
		pages += len(b.pages)
		for i := range b.pages {
			if b.pages[i].sparse() || i < len(b.pages)-1 && b.pages[i].small() {
				m.t.Fatalf("page %d of block %d is not worth keeping: %d of %d submissions and %d bytes", i, n, b.pages[i].here.count(), b.pages[i].count, b.pages[i].size)
			}
		}
	}
	if n := rowsIn(m.t, m.s, "open_page"); len(read.blocks) != len(m.s.open.blocks) || int(n) != pages {
		m.t.Fatalf("%d blocks and %d pages in the file, %d and %d in memory", len(read.blocks), n, len(m.s.open.blocks), pages)
	}
}

// Open submissions are a map by number, for all sequences of inserts, changes, ends and repeated writes, and over new
// opens of the store.
//
//quern:sequential
func TestOpenLikeAMap(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	m := &openModel{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), open: map[uint32]checkpoint.Row{}}
	m.s = open(t, t.TempDir()+"/store.db", Options{Around: func(write func() error) error {
		err := write()
		if err == nil && m.fail {
			err = errLostAnswer
		}
		return err
	}})
	t.Cleanup(func() { m.s.Close() })
	for range 150 {
		switch n := m.rnd.IntN(10); {
		case n < 3:
			m.write(m.insert(20), nil)
		case n < 5:
			m.write(slices.Concat(m.insert(800), m.touch()), nil)
		case n < 7:
			m.write(m.touch(), m.end())
		case n < 9: // some are written and end in one checkpoint
			rows := m.insert(100)
			ended := m.end()
			for _, r := range rows[:len(rows)/3] {
				ended = append(ended, checkpoint.Ended{Seq: r.Seq, ID: r.ID, State: queue.Cancelled, Finished: 1})
			}
			m.write(rows, ended)
		default:
			reopen(t, m.s)
		}
		m.check()
	}
	var ended []checkpoint.Ended
	for seq, r := range m.open {
		ended = append(ended, checkpoint.Ended{Seq: seq, ID: r.ID, State: queue.Completed, Finished: 1})
	}
	must(t, m.s.Checkpoint(ctx, nil, ended))
	for _, table := range []string{"open_page", "open_block", "submission", "progress"} {
		if n := rowsIn(t, m.s, table); n != 0 || len(m.s.open.blocks) != 0 {
			t.Errorf("%d rows of %s are left when all have ended, and %d blocks", n, table, len(m.s.open.blocks))
		}
	}
}

// A page is read as it was written, and no damage to it makes more of it, or a panic.
func TestOpenPage(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		list := make([]checkpoint.Row, rapid.IntRange(1, 50).Draw(t, "n"))
		seq := rapid.Uint32Range(0, 1<<32-50*100).Draw(t, "seq")
		for i := range list {
			seq += rapid.Uint32Range(1, 100).Draw(t, "distance")
			list[i] = checkpoint.Row{Seq: seq, ID: queue.SubmissionID(rapid.Uint64().Draw(t, "id")), Spec: rapid.SliceOf(rapid.Byte()).Draw(t, "spec")}
			if rapid.Bool().Draw(t, "stated") {
				list[i].State = rapid.SliceOf(rapid.Byte()).Draw(t, "state")
			}
		}
		page := packPage(appendOpenPage(nil, list))
		got, err := openPageRows(page)
		if err != nil || !reflect.DeepEqual(got, list) {
			t.Fatalf("got %v, %v; want %v", got, err, list)
		}
		damaged := bytes.Clone(page)
		damaged[rapid.IntRange(0, len(page)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		_, _ = openPageRows(damaged[:rapid.IntRange(0, len(page)).Draw(t, "cut")])
	})
}

// A directory is read as it was written; one that is damaged is an error or another directory, never a panic.
func TestOpenBlock(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		seqs := rapid.SliceOfN(rapid.Uint32Range(0, blockSeqs-1), 1, 100)
		set := func(of string) (s seqBits) {
			for _, seq := range seqs.Draw(t, of) {
				s.add(5*blockSeqs + seq)
			}
			return s
		}
		b := &openBlock{stated: set("stated"), pages: make([]openPage, rapid.IntRange(1, 20).Draw(t, "pages"))}
		for i := range b.pages {
			b.pages[i] = openPage{number: uint32(i * 3), count: 7, size: 9, here: set("here")}
		}
		enc := b.appendTo(nil)
		got, err := readOpenBlock(enc)
		if err != nil || !bytes.Equal(got.appendTo(nil), enc) {
			t.Fatalf("got %v, %v; want %v", got, err, b)
		}
		for i := range b.pages {
			for seq := uint32(5 * blockSeqs); seq < 6*blockSeqs; seq++ {
				if got.pages[i].here.has(seq) != b.pages[i].here.has(seq) || got.stated.has(seq) != b.stated.has(seq) {
					t.Fatalf("seq %d of page %d is another", seq, i)
				}
			}
		}
		first, last := b.stated.span(5)
		if !b.stated.has(first) || !b.stated.has(last) || b.stated.count() == 0 {
			t.Fatalf("the span %d to %d is not of %v", first, last, b.stated)
		}
		enc[rapid.IntRange(0, len(enc)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		_, _ = readOpenBlock(enc[:rapid.IntRange(0, len(enc)).Draw(t, "cut")])
	})
}

// A few submissions that stay long do not keep their page: they go into another page, together with those that stay of
// other pages.
func TestSparseOpenPagesAreGathered(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	const n, kept = 20_000, 200
	rows := make([]checkpoint.Row, n)
	var ended []checkpoint.Ended
	for i := range rows {
		rows[i] = checkpoint.Row{Seq: uint32(i), ID: queue.SubmissionID(1000 + i), Spec: make([]byte, 80), State: make([]byte, 20)}
		if i%(n/kept) > 0 {
			ended = append(ended, checkpoint.Ended{Seq: uint32(i), ID: rows[i].ID, State: queue.Completed})
		}
	}
	must(t, s.Checkpoint(ctx, rows, nil))
	before := rowsIn(t, s, "open_page")
	for list := range slices.Chunk(ended, 1000) {
		must(t, s.Checkpoint(ctx, nil, list))
	}
	if after := rowsIn(t, s, "open_page"); after*6 > before || len(load(t, s)) != kept {
		t.Errorf("%d submissions are left in %d pages of %d; want %d in a sixth at most", len(load(t, s)), after, before, kept)
	}
}

// A store that lacks a page or a state that its directory names is refused.
func TestOpenPagesLack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ sql, want string }{
		{"DELETE FROM open_page", "lacks a page of open submissions of block 0"},
		{"DELETE FROM progress", "lacks the state of an open submission of block 0"},
		{"DELETE FROM open_block", "a damaged row 0 in table open_block"},
	} {
		s := fresh(t)
		must(t, s.Checkpoint(ctx, []checkpoint.Row{{Seq: 1, ID: 10, Spec: []byte("a"), State: []byte("b")}}, nil))
		must(t, s.Checkpoint(ctx, []checkpoint.Row{{Seq: 1, ID: 10, State: []byte("c")}}, nil))
		must(t, s.Checkpoint(ctx, []checkpoint.Row{{Seq: 5000, ID: 11, Spec: []byte("a"), State: []byte("b")}}, nil))
		must(t, s.write.conn.Exec(c.sql+" WHERE rowid < 5"))
		err := s.Load(ctx, func(checkpoint.Row) error { return nil })
		if err == nil || !bytes.Contains([]byte(err.Error()), []byte(c.want)) {
			t.Errorf("after %s: %v; want %q in it", c.sql, err, c.want)
		}
	}
}

// A state is only stored for a submission that is there: else the caller gets an error, and writes the spec too.
func TestStateWithoutSpec(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	must(t, s.Checkpoint(ctx, []checkpoint.Row{{Seq: 1, ID: 10, Spec: []byte("a"), State: []byte("b")}}, nil))
	rows := []checkpoint.Row{{Seq: 1, ID: 10, State: []byte("c")}, {Seq: 2, ID: 20, State: []byte("d")}}
	if err := s.Checkpoint(ctx, rows, nil); err == nil {
		t.Error("a state without its submission is stored")
	}
	if got := load(t, s); len(got) != 1 || string(got[0].State) != "b" {
		t.Errorf("%v is loaded; want what was there before", got)
	}
	rows[1].Spec = []byte("a")
	must(t, s.Checkpoint(ctx, rows, nil))
	if got := load(t, s); len(got) != 2 || string(got[0].State) != "c" {
		t.Errorf("%v is loaded; want both", got)
	}
}
