package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

var ctx = context.Background()

func open(t testing.TB, path string, o Options) *Store {
	t.Helper()
	s, err := Open(ctx, path, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fresh opens an empty store that is closed with the test. It is relaxed: the tests look at the stored data, not at the
// time when it is stored. Its file is a copy of one that was made once, because the properties want hundreds.
func fresh(t testing.TB) *Store {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.db")
	made, err := emptyStore()
	must(t, err)
	must(t, os.WriteFile(path, made, 0o600))
	s := open(t, path, Options{Durability: queue.Relaxed})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

var emptyStore = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	s, err := Open(ctx, filepath.Join(dir, "store.db"), Options{})
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(s.path)
})

// reopen closes and opens s in place.
func reopen(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(ctx, s.path, Options{Durability: queue.Relaxed})
	if err != nil {
		t.Fatal(err)
	}
	s.write.closed, s.hot.closed, s.scan.closed = false, false, false
	s.write.conn, s.write.writeStmts = again.write.conn, again.write.writeStmts
	s.hot.conn, s.hot.readStmts = again.hot.conn, again.hot.readStmts
	s.Singles.kept = singlesKept{}
	s.scan.conn, s.scan.readStmts = again.scan.conn, again.scan.readStmts
	s.History.index.blocks, s.History.index.next = again.History.index.blocks, again.History.index.next
	o, p := &s.outputs, &again.outputs
	o.next, o.pages, o.dropped, o.last, o.compacted, o.bytes, o.entries = p.next, p.pages, p.dropped, p.last, p.compacted, p.bytes, p.entries
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rowsIn counts the rows of a table.
func rowsIn(t testing.TB, s *Store, table string) int64 {
	t.Helper()
	n, err := s.scan.conn.Int("SELECT count(*) FROM " + table)
	must(t, err)
	return n
}

// Commits are durable on return, and relaxed only when asked.
func TestDurabilityIsSet(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
	defer s.Close()
	for _, c := range []struct {
		set  queue.Durability
		want int64
	}{{queue.Full, 2}, {queue.Relaxed, 1}, {queue.Full, 2}} {
		must(t, s.SetDurability(c.set))
		if got, err := s.write.conn.Int("PRAGMA synchronous"); err != nil || got != c.want {
			t.Errorf("%v: PRAGMA synchronous = %d, %v; want %d", c.set, got, err, c.want)
		}
	}
	again := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
	defer again.Close()
	if got, err := again.write.conn.Int("PRAGMA synchronous"); err != nil || got != 2 {
		t.Errorf("at the start: PRAGMA synchronous = %d, %v; want 2", got, err)
	}
}

// All keys are integers that SQLite looks up directly: no table without a rowid, whose larger rows would spill.
func TestOnlyRowidTables(t *testing.T) {
	t.Parallel()
	n, err := fresh(t).scan.conn.Int("SELECT count(*) FROM sqlite_schema WHERE sql LIKE '%WITHOUT ROWID%'")
	if err != nil || n != 0 {
		t.Errorf("%d tables without a rowid, %v; want none", n, err)
	}
}

// A copy of the files of an open store, as a kill -9 would leave them, has everything that was acknowledged.
func TestCopyOfAnOpenStoreOpens(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
	defer s.Close()
	must(t, s.Checkpoint(ctx, []checkpoint.Row{{Seq: 1, ID: 10, Spec: []byte("spec"), State: []byte("state")}}, nil))
	must(t, s.WriteContent(ctx, 1, 0, [][]byte{[]byte("a"), []byte("b")}))
	must(t, s.AppendOutputs(ctx, []Output{{1, 0, []byte("out")}}))
	must(t, s.SetCheckpointed(ctx, 77))
	copied := open(t, copyFiles(t, s.path), Options{})
	defer copied.Close()
	if pos, err := copied.Checkpointed(ctx); err != nil || pos != 77 {
		t.Errorf("Checkpointed = %d, %v; want 77", pos, err)
	}
	if b, err := copied.ReadContent(ctx, 1, 1); err != nil || string(b) != "b" {
		t.Errorf("ReadContent = %q, %v; want b", b, err)
	}
	if b, found, err := copied.Output(ctx, 1, 0); err != nil || !found || string(b) != "out" {
		t.Errorf("Output = %q, %v, %v; want out", b, found, err)
	}
	n := 0
	must(t, copied.Load(ctx, func(r checkpoint.Row) error { n++; return nil }))
	if n != 1 {
		t.Errorf("%d rows; want 1", n)
	}
}

func copyFiles(t *testing.T, path string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), filepath.Base(path))
	for _, suffix := range []string{"", "-wal", "-shm"} {
		b, err := os.ReadFile(path + suffix)
		must(t, err)
		must(t, os.WriteFile(to+suffix, b, 0o600))
	}
	return to
}

// Files that are foreign, damaged or newer are refused with advice, and stay as they are; store and catalogue are not
// taken for one another.
func TestForeignFilesAreLeftAlone(t *testing.T) {
	t.Parallel()
	openers := map[string]func(path string) error{
		"store": func(path string) error {
			s, err := Open(ctx, path, Options{})
			if err == nil {
				err = errors.Join(s.Load(ctx, func(checkpoint.Row) error { return nil }), s.Close())
			}
			return err
		},
		"catalogue": func(path string) error {
			c, err := OpenCatalogue(ctx, path)
			if err == nil {
				_, err = c.Queues()
				err = errors.Join(err, c.Close())
			}
			return err
		},
	}
	for kind, opener := range openers {
		for name, c := range map[string]struct {
			spoil func([]byte) []byte
			want  string
		}{
			"empty":     {func([]byte) []byte { return nil }, "too short"},
			"text":      {func([]byte) []byte { return bytes.Repeat([]byte("words "), 2000) }, "not an SQLite database"},
			"newer":     {func(b []byte) []byte { b[63] = 99; return b }, "version 99"},
			"foreign":   {func(b []byte) []byte { b[71] = 'J'; return b }, "not a Quern " + kind},
			"cut off":   {func(b []byte) []byte { return b[:4096] }, "damaged"},
			"no schema": {func(b []byte) []byte { clear(b[100:4096]); return b }, "damaged"},
		} {
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(t.TempDir(), "file.db")
				must(t, opener(path))
				before, err := os.ReadFile(path)
				must(t, err)
				before = c.spoil(before)
				must(t, os.WriteFile(path, before, 0o600))
				err = opener(path)
				if format, ok := errors.AsType[*queue.FormatError](err); !ok || format.Path != path || format.Advice == "" || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v; want a *queue.FormatError about %s with %q", err, path, c.want)
				}
				if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
					t.Errorf("the file changed (%v)", err)
				}
			})
		}
	}
}

// A flipped bit in any stored value is an error that names the table, not another value.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	rows := []checkpoint.Row{
		{Seq: 1, ID: 10, Spec: make([]byte, openLoneBytes+1), State: []byte("the state")}, // has rows of its own
		{Seq: 9000, ID: 90, Spec: []byte("the spec"), State: []byte("the state")},
	}
	must(t, s.Checkpoint(ctx, rows,
		[]checkpoint.Ended{{Seq: 2, ID: 20, State: queue.Completed, Finished: 5, Spec: []byte("its spec"), Final: []byte("its final")}}))
	must(t, s.WriteContent(ctx, 1, 0, [][]byte{[]byte("a chunk")}))
	must(t, s.WriteAttachment(ctx, 1, []byte("attached")))
	must(t, s.AppendOutputs(ctx, []Output{{1, 0, []byte("an output")}}))
	must(t, s.compact(ctx))
	must(t, s.AppendOutputs(ctx, []Output{{1, 1, []byte("logged")}}))
	for _, c := range []struct {
		sql, table string
		read       func() error
	}{
		{"UPDATE submission SET spec = x'00'", "submission", func() error { return s.Load(ctx, func(checkpoint.Row) error { return nil }) }},
		{"UPDATE submission SET id = 11", "submission", func() error { return s.Load(ctx, func(checkpoint.Row) error { return nil }) }},
		{"UPDATE progress SET state = x'00'", "progress", func() error { return s.Load(ctx, func(checkpoint.Row) error { return nil }) }},
		{"UPDATE open_page SET bytes = x'01'", "open_page", func() error { return s.Load(ctx, func(checkpoint.Row) error { return nil }) }},
		{"UPDATE open_block SET bytes = x'00'", "open_block", func() error { return s.Load(ctx, func(checkpoint.Row) error { return nil }) }},
		{"UPDATE history_page SET bytes = x'01'", "history_page", func() error { _, _, err := s.History.Ended(ctx, 20); return err }},
		{"UPDATE history_page SET crc = 0", "history_page", func() error {
			_, err := s.History.ListEnded(ctx, 0, []queue.SubmissionState{queue.Completed}, 9)
			return err
		}},
		{"UPDATE history_page SET bytes = substr(bytes, 2)", "history_page", func() error { _, _, err := s.History.EndedBySeq(ctx, 2); return err }},
		{"UPDATE content SET bytes = x'010161'", "content", func() error { _, err := s.ReadContent(ctx, 1, 0); return err }},
		{"UPDATE attachment SET bytes = x'61'", "attachment", func() error { _, err := s.ReadAttachment(ctx, 1); return err }},
		{"UPDATE output SET bytes = x'01000161'", "output", func() error { _, _, err := s.Output(ctx, 1, 0); return err }},
		{"UPDATE output SET run = 0, k = k + 1", "output", func() error { return s.Outputs(ctx, 1, 0, func(uint32, []byte) error { return nil }) }},
		{"UPDATE output_log SET bytes = x'0101010161'", "output_log", func() error { _, _, err := s.Output(ctx, 1, 1); return err }},
		{"DELETE FROM folded", "folded", func() error { _, err := s.Checkpointed(ctx); return err }},
	} {
		err := s.write.conn.Tx(func() error {
			must(t, s.write.conn.Exec(c.sql))
			return nil
		})
		must(t, err)
		if format, ok := errors.AsType[*queue.FormatError](c.read()); !ok || !strings.Contains(format.Reason, "table "+c.table) {
			t.Errorf("after %s: %v; want a *queue.FormatError about table %s", c.sql, c.read(), c.table)
		}
		// Back to the former state, for the next case.
		must(t, s.write.conn.Tx(func() error { return s.write.conn.Exec("DELETE FROM history_page; DELETE FROM history_span") }))
		s.History.index = endedIndex{}
		must(t, s.Checkpoint(ctx, rows, []checkpoint.Ended{{Seq: 2, ID: 20, State: queue.Completed, Finished: 5, Spec: []byte("its spec"), Final: []byte("its final")}}))
	}
}

// On a full disk a write is refused whole, reads go on, and with room again so do writes.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	must(t, s.WriteContent(ctx, 1, 0, [][]byte{[]byte("before")}))
	pages, err := s.write.conn.Int("PRAGMA page_count")
	must(t, err)
	must(t, s.SetMaxPages(int(pages)+2))
	big := make([][]byte, 400)
	for i := range big {
		big[i] = noise(uint64(i), 100)
	}
	outs := make([]Output, 400)
	for i := range outs {
		outs[i] = Output{3, uint32(i), big[i]}
	}
	for name, err := range map[string]error{
		"WriteContent":    s.WriteContent(ctx, 2, 0, big),
		"AppendOutputs":   s.AppendOutputs(ctx, outs),
		"WriteAttachment": s.WriteAttachment(ctx, 2, make([]byte, 60<<10)),
		"Checkpoint":      s.Checkpoint(ctx, []checkpoint.Row{{Seq: 1, ID: 1, Spec: make([]byte, 60<<10)}}, nil),
	} {
		if !errors.Is(err, journal.ErrFull) {
			t.Errorf("%s on a full disk = %v; want journal.ErrFull", name, err)
		}
	}
	if b, err := s.ReadContent(ctx, 1, 0); err != nil || string(b) != "before" {
		t.Errorf("ReadContent = %q, %v; want what was there before", b, err)
	}
	if _, err := s.ReadContent(ctx, 2, 0); !errors.Is(err, ErrMissing) {
		t.Errorf("ReadContent of what was refused = %v; want ErrMissing", err)
	}
	if b, found, err := s.Output(ctx, 3, 0); err != nil || !found || !bytes.Equal(b, big[0]) {
		t.Errorf("Output = %q, %v, %v; want it from memory: the journal has it", b, found, err)
	}
	must(t, s.SetMaxPages(0))
	must(t, s.WriteContent(ctx, 2, 0, big))
	must(t, s.AppendOutputs(ctx, outs))
	if b, found, err := s.Output(ctx, 3, 399); err != nil || !found || !bytes.Equal(b, big[399]) {
		t.Errorf("Output = %q, %v, %v; want what was stored", b, found, err)
	}
}

// A call whose context has ended does nothing.
func TestEndedContext(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	_, outlived := s.History.Outlived(gone, 0, 1, 1, nil)
	_, forget := s.History.Forget(gone, []Outlived{{}})
	for name, err := range map[string]error{
		"Checkpoint": s.Checkpoint(gone, []checkpoint.Row{{Seq: 1, Spec: []byte("x")}}, nil), "WriteContent": s.WriteContent(gone, 1, 0, [][]byte{nil}),
		"AppendOutputs": s.AppendOutputs(gone, []Output{{}}), "Load": s.Load(gone, func(checkpoint.Row) error { return nil }), "Outlived": outlived, "Forget": forget,
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s = %v; want context.Canceled", name, err)
		}
	}
	if n := rowsIn(t, s, "submission") + rowsIn(t, s, "content") + rowsIn(t, s, "output_log"); n != 0 {
		t.Errorf("%d rows were written", n)
	}
}

// The checksum of a row is a plain CRC-32C, as docs/formats/store.md says.
func TestSumIsCRC32C(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{0, 1, -1, 1 << 40, math.MinInt64} {
		row := binary.BigEndian.AppendUint64(nil, uint64(n))
		row = append(binary.BigEndian.AppendUint64(row, 7), "bytes"...)
		want := crc32.Checksum(row, crc32.MakeTable(crc32.Castagnoli))
		if got := sum(0).number(n).number(7).bytes([]byte("bytes")); uint32(got) != want {
			t.Errorf("sum of %d, 7, bytes = %#x; want %#x", n, got, want)
		}
	}
}

// WriteContent writes chunks of a submission, as a Flush does.
func (s *Store) WriteContent(ctx context.Context, seq, first uint32, chunks [][]byte) error {
	bytes := 0
	for i := range chunks {
		bytes += len(chunks[i]) + 2
	}
	c := &journal.Contents{Seq: seq, Pages: packContent(first, chunks, bytes)}
	return wrap("write content", s.commit(ctx, &request{bytes: bytes, apply: func(w *writer) error { return w.contents(c) }}))
}

// WriteAttachment writes an attachment, which may be empty.
func (s *Store) WriteAttachment(ctx context.Context, seq uint32, b []byte) error {
	c := &journal.Contents{Seq: seq, Attachment: append([]byte{}, b...)}
	return wrap("write attachment", s.commit(ctx, &request{bytes: len(b), apply: func(w *writer) error { return w.contents(c) }}))
}

// ReadContent is the content of one chunk; ErrMissing when there is none.
func (s *Store) ReadContent(ctx context.Context, seq, index uint32) ([]byte, error) {
	all, err := s.ReadContents(ctx, seq, []uint32{index}, math.MaxInt)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}
