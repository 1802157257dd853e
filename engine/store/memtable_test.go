package store

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// keepContent keeps chunks and an attachment of a submission, as its op brings them.
func keepContent(s *Store, seq uint32, attachment []byte, chunks ...[]byte) {
	s.Memtable.KeepContents(&journal.Contents{Seq: seq, Pages: PackContent(chunks), Attachment: attachment})
}

func reads(t *testing.T, s *Store, when string, seq uint32, attachment []byte, chunks ...[]byte) {
	t.Helper()
	for i, want := range chunks {
		if got, err := s.ReadContent(ctx, seq, uint32(i)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: chunk %d of seq %d reads as %.40q, %v; want %.40q", when, i, seq, got, err, want)
		}
	}
	if got, err := s.ReadAttachment(ctx, seq); attachment != nil && (err != nil || !bytes.Equal(got, attachment)) {
		t.Errorf("%s: the attachment of seq %d reads as %q, %v; want %q", when, seq, got, err, attachment)
	}
}

// Contents are read from memory, and from the file once they are flushed; after a flush that found the disk full, the
// next one writes all.
func TestKeptContent(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	chunks := [][]byte{[]byte("a"), {}, bytes.Repeat([]byte("b"), 3000), bytes.Repeat([]byte("c"), 3000)}
	source := bytes.Clone(chunks[0])
	keepContent(s, 1, []byte("attached"), append([][]byte{source}, chunks[1:]...)...)
	source[0] = 'x' // its batch is used again
	keepContent(s, 2, nil, []byte("other"))
	keepContent(s, 9, nil, noise(9, 64<<10)) // more than the file has free pages
	check := func(when string) {
		t.Helper()
		reads(t, s, when, 1, []byte("attached"), chunks...)
		reads(t, s, when, 2, nil, []byte("other"))
		for seq, index := range map[uint32]uint32{1: 4, 2: 1, 3: 0} {
			if _, err := s.ReadContent(ctx, seq, index); !errors.Is(err, ErrMissing) {
				t.Errorf("%s: chunk %d of seq %d: %v, want ErrMissing", when, index, seq, err)
			}
		}
		if _, err := s.ReadAttachment(ctx, 2); !errors.Is(err, ErrMissing) {
			t.Errorf("%s: an attachment that there is not: %v, want ErrMissing", when, err)
		}
	}
	check("kept")
	if s.Memtable.Bytes() < 6000 {
		t.Errorf("%d bytes are kept, there are over 6,000", s.Memtable.Bytes())
	}
	pages, err := s.write.conn.Int("PRAGMA page_count")
	must(t, err)
	must(t, s.SetMaxPages(int(pages)))
	if err := s.Memtable.Flush(ctx); !errors.Is(err, journal.ErrFull) {
		t.Errorf("a flush on a full disk: %v, want journal.ErrFull", err)
	}
	keepContent(s, 4, nil, []byte("meanwhile"))
	check("on a full disk")
	must(t, s.SetMaxPages(0))
	must(t, s.Memtable.Flush(ctx))
	check("flushed")
	if n := s.Memtable.Bytes(); n != 0 || rowsIn(t, s, "content") < 3 {
		t.Errorf("after a flush %d bytes are kept, and %d pages in the file", n, rowsIn(t, s, "content"))
	}
	reopen(t, s)
	check("opened again")
	reads(t, s, "opened again", 4, nil, []byte("meanwhile"))
}

// Retention, and a start that finds contents without a submission, also drop the contents and outputs in memory.
// Nothing of them comes to the file later.
func TestKeptIsForgotten(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]func(s *Store) error{
		"retained": func(s *Store) error {
			must(t, s.Checkpoint(ctx, nil, []checkpoint.Ended{{Seq: 7, ID: 1, Finished: 1}}))
			_, err := retain(s, 2, 1)
			return err
		},
		"swept": func(s *Store) error {
			_, err := s.SweepOrphans(ctx, func(seq uint32) bool { return seq != 7 })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := fresh(t)
			keepContent(s, 7, []byte("attached"), []byte("x"))
			s.Memtable.KeepOutput(&journal.Output{Seq: 7, Index: 0, Bytes: []byte("out")})
			keepContent(s, 8, nil, []byte("stays"))
			must(t, forget(s))
			must(t, s.Memtable.Flush(ctx))
			if n := s.Memtable.Bytes(); n != 0 {
				t.Errorf("%d bytes are kept", n)
			}
			if _, err := s.ReadContent(ctx, 7, 0); !errors.Is(err, ErrMissing) {
				t.Errorf("the content: %v, want ErrMissing", err)
			}
			if _, found, err := s.Output(ctx, 7, 0); found || err != nil {
				t.Errorf("the output is found: %v %v", found, err)
			}
			if n := rowsIn(t, s, "content_page") + rowsIn(t, s, "content") + rowsIn(t, s, "attachment") + rowsIn(t, s, "output_log"); n != 1 {
				t.Errorf("%d rows are in the file, want that of the other submission", n)
			}
			reads(t, s, name, 8, nil, []byte("stays"))
		})
	}
}

// Readers find everything at every moment, while it goes from memory to the file.
func TestReadsDuringFlushes(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	const n = 3000
	want := func(i uint32) string { return fmt.Sprintf("%d of %d", i, i*i) }
	for i := range uint32(n) {
		keepContent(s, i, nil, []byte(want(i)))
		s.Memtable.KeepOutput(&journal.Output{Seq: n, Index: i, Bytes: []byte(want(i))})
	}
	var group sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		group.Go(func() {
			for i := uint32(0); ; i = (i + 7) % n {
				select {
				case <-done:
					return
				default:
				}
				if got, err := s.ReadContent(ctx, i, 0); err != nil || string(got) != want(i) {
					t.Errorf("content %d: %q %v", i, got, err)
				}
				if got, found, err := s.Output(ctx, n, i); err != nil || !found || string(got) != want(i) {
					t.Errorf("output %d: %q %v %v", i, got, found, err)
				}
				if got := collect(t, s, n, n-50); len(got) != 50 {
					t.Errorf("%d of the last 50 outputs are found", len(got))
				}
			}
		})
	}
	must(t, s.Memtable.Flush(ctx))
	must(t, s.compact(ctx))
	close(done)
	group.Wait()
	if got := collect(t, s, n, 0); len(got) != n || got[17] != want(17) {
		t.Errorf("%d of %d outputs are found", len(got), n)
	}
	in := 0
	must(t, s.Singles.visit(ctx, func(uint32) error { in++; return nil }))
	if in != n {
		t.Errorf("%d contents are in the file, want %d", in, n)
	}
}

// Inserting and completing wait for no write of the store.
func BenchmarkKeep(b *testing.B) {
	s := open(b, b.TempDir()+"/store.db", Options{Durability: queue.Relaxed})
	b.Cleanup(func() { s.Close() })
	page := PackContent([][]byte{make([]byte, 100)})
	b.ReportAllocs()
	for seq := uint32(0); b.Loop(); seq++ {
		s.Memtable.KeepContents(&journal.Contents{Seq: seq % 100_000, Pages: page})
		s.Memtable.KeepOutput(&journal.Output{Seq: seq % 100_000, Bytes: page[0].Bytes})
	}
}
