package store

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/queue"
)

func load(t *testing.T, s *Store) (rows []checkpoint.Row) {
	t.Helper()
	must(t, s.Load(ctx, func(r checkpoint.Row) error { rows = append(rows, r); return nil }))
	return rows
}

// Rows of a checkpoint are loaded again by seq: the spec as it was first stored, the state as it was last.
func TestCheckpointAndLoad(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	const n = 2*512 + 5 // more than one slice
	rows := make([]checkpoint.Row, n)
	for i := range rows {
		rows[i] = checkpoint.Row{Seq: uint32(i * 3), ID: queue.SubmissionID(i + 1), Spec: fmt.Appendf(nil, "spec %d", i), State: []byte("new")}
	}
	slices.Reverse(rows)
	must(t, s.Checkpoint(ctx, rows, nil))
	slices.Reverse(rows)
	for i := 0; i < n; i += 7 {
		rows[i].State = fmt.Appendf(nil, "state %d", i)
		must(t, s.Checkpoint(ctx, []checkpoint.Row{{Seq: rows[i].Seq, ID: rows[i].ID, State: rows[i].State}}, nil))
	}
	must(t, s.Checkpoint(ctx, nil, []checkpoint.Ended{{Seq: 3, ID: 2, State: queue.Failed}}))
	rows = slices.Delete(rows, 1, 2)
	for range 2 {
		if got := load(t, s); !reflect.DeepEqual(got, rows) {
			t.Fatalf("loaded %d rows, first %v; want %d, first %v", len(got), got[0], len(rows), rows[0])
		}
		reopen(t, s)
	}
	stop, seen := errors.New("enough"), 0
	if err := s.Load(ctx, func(checkpoint.Row) error { seen++; return stop }); !errors.Is(err, stop) || seen != 1 {
		t.Errorf("Load = %v after %d rows; want the reader's error after 1", err, seen)
	}
}

// A checkpoint is one transaction: with a row that cannot be stored, none is.
func TestCheckpointIsAtomic(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	pages, err := s.write.conn.Int("PRAGMA page_count")
	must(t, err)
	must(t, s.SetMaxPages(int(pages)+3))
	rows := []checkpoint.Row{{Seq: 1, ID: 1, Spec: []byte("small")}, {Seq: 2, ID: 2, Spec: make([]byte, 1<<20)}}
	if err := s.Checkpoint(ctx, rows, []checkpoint.Ended{{Seq: 9, ID: 9}}); err == nil {
		t.Fatal("a megabyte fitted into three pages")
	}
	if got := load(t, s); len(got) != 0 || rowsIn(t, s, "history_page") != 0 {
		t.Errorf("%d rows and %d of history are there; want none", len(got), rowsIn(t, s, "history_page"))
	}
}

// Ended submissions leave the open ones and are found by id, by seq and in lists; their content and outputs stay.
func TestHistory(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	var want []checkpoint.Ended
	for i := range 50 {
		seq, id := uint32(i), queue.SubmissionID(1000+i*10)
		must(t, s.Checkpoint(ctx, []checkpoint.Row{{Seq: seq, ID: id, Spec: []byte("s")}}, nil))
		e := checkpoint.Ended{Seq: seq, ID: id, State: queue.SubmissionState(1 + i%5), Finished: queue.Time(i), Spec: fmt.Appendf(nil, "spec %d", i), Final: fmt.Appendf(nil, "final %d", i)}
		must(t, s.WriteContent(ctx, seq, 0, [][]byte{[]byte("content")}))
		must(t, s.Checkpoint(ctx, nil, []checkpoint.Ended{e}))
		want = append(want, e)
	}
	again := slices.Clone(want[3:5])
	for i := range again {
		again[i].Reopened = true // and ended once more
	}
	must(t, s.Checkpoint(ctx, nil, again))
	if got := load(t, s); len(got) != 0 {
		t.Errorf("%d submissions are still open; want none", len(got))
	}
	got, found, err := s.History.Ended(ctx, 1070)
	if err != nil || !found || !reflect.DeepEqual(got, want[7]) {
		t.Errorf("Ended(1070) = %v, %v, %v; want %v", got, found, err, want[7])
	}
	if got, found, err = s.History.EndedBySeq(ctx, 8); err != nil || !found || !reflect.DeepEqual(got, want[8]) {
		t.Errorf("EndedBySeq(8) = %v, %v, %v; want %v", got, found, err, want[8])
	}
	for _, id := range []queue.SubmissionID{0, 1001, 1 << 62} {
		if _, found, err := s.History.Ended(ctx, id); found || err != nil {
			t.Errorf("Ended(%d) = %v, %v; want none", id, found, err)
		}
	}
	if b, err := s.ReadContent(ctx, 8, 0); err != nil || string(b) != "content" {
		t.Errorf("ReadContent of an ended one = %q, %v; want its content", b, err)
	}
	for _, c := range []struct {
		before queue.SubmissionID
		states []queue.SubmissionState
		limit  int
	}{
		{0, []queue.SubmissionState{queue.Completed}, 100},
		{0, []queue.SubmissionState{queue.Completed, queue.Failed, queue.Completed}, 7},
		{1200, []queue.SubmissionState{queue.Expired, queue.Cancelled}, 3},
		{1200, []queue.SubmissionState{1, 2, 3, 4, 5}, 100},
		{1000, []queue.SubmissionState{1, 2, 3, 4, 5}, 100},
		{0, nil, 100},
		{0, []queue.SubmissionState{1}, 0},
		{1<<64 - 1, []queue.SubmissionState{1, 2, 3, 4, 5}, 2},
	} {
		var expect []checkpoint.Ended
		for _, e := range slices.Backward(want) {
			if slices.Contains(c.states, e.State) && (c.before == 0 || e.ID < c.before) && len(expect) < c.limit {
				expect = append(expect, e)
			}
		}
		got, err := s.History.ListEnded(ctx, c.before, c.states, c.limit)
		if err != nil || len(got) != len(expect) || len(got) > 0 && !reflect.DeepEqual(got, expect) {
			t.Errorf("ListEnded(%d, %v, %d) = %v, %v; want %v", c.before, c.states, c.limit, got, err, expect)
		}
	}
	for _, state := range []queue.SubmissionState{queue.Completed, queue.Cancelled} {
		list, err := s.History.ListEnded(ctx, 1200, []queue.SubmissionState{state}, 7)
		must(t, err)
		var expect []queue.SubmissionID
		for i := range list {
			expect = append(expect, list[i].ID)
		}
		if got, err := s.History.EndedIn(ctx, 1200, state, 7); err != nil || len(got) == 0 || !slices.Equal(got, expect) {
			t.Errorf("EndedIn(1200, %v, 7) = %v, %v; want %v", state, got, err, expect)
		}
	}
}

// retain removes submissions that ended before a time, and returns the ids.
func retain(s *Store, before queue.Time, most int) (ids []queue.SubmissionID, err error) {
	list, err := s.History.Outlived(ctx, 0, before, most, nil)
	if err != nil {
		return nil, err
	}
	gone, err := s.History.Forget(ctx, list)
	for _, one := range list[:gone] {
		ids = append(ids, one.ID)
	}
	return ids, err
}

// Retention takes the longest ended first, all that belongs to them, and no more than asked.
func TestRetain(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	const n = 600
	var ended []checkpoint.Ended
	for i := range n {
		seq := uint32(i)
		ended = append(ended, checkpoint.Ended{Seq: seq, ID: queue.SubmissionID(i + 1), State: queue.Completed, Finished: queue.Time(n - i)})
		if i%10 == 0 {
			must(t, s.WriteContent(ctx, seq, 0, [][]byte{[]byte("x"), make([]byte, 2000)}))
			must(t, s.WriteAttachment(ctx, seq, []byte("a")))
			must(t, s.AppendOutputs(ctx, []Output{{seq, 0, []byte("o")}}))
			if i == n/2 {
				must(t, s.compact(ctx))
			}
		}
	}
	large := make([][]byte, 3*eraseRows)
	for i := range large {
		large[i] = make([]byte, 1100)
	}
	must(t, s.WriteContent(ctx, n-1, 0, large)) // more than one transaction's worth, and the first to go
	must(t, s.Checkpoint(ctx, nil, ended))
	ids, err := retain(s, n, 100)
	must(t, err)
	if slices.Sort(ids); len(ids) != 100 || ids[0] != n-99 || ids[99] != n {
		t.Errorf("retain gave %d ids, %v ...; want the 100 longest ended, up to %d", len(ids), ids[:min(3, len(ids))], n)
	}
	if ids, err = retain(s, n, 100000); err != nil || len(ids) != n-101 {
		t.Errorf("retain of the rest = %d ids, %v; want %d: the youngest stays", len(ids), err, n-101)
	}
	if ids, err = retain(s, n, 10); err != nil || len(ids) != 0 {
		t.Errorf("retain again = %v, %v; want none", ids, err)
	}
	must(t, s.compact(ctx))
	for table, want := range map[string]int64{"history_page": 1, "content": 2, "attachment": 1, "output": 1, "output_log": 0} {
		if got := rowsIn(t, s, table); got != want {
			t.Errorf("%d rows are left in %s; want %d, of the submission that stays", got, table, want)
		}
	}
	if b, found, err := s.Output(ctx, 0, 0); err != nil || !found || string(b) != "o" {
		t.Errorf("Output of the one that stays = %q, %v, %v", b, found, err)
	}
}

// The sweep deletes contents, attachments and outputs of submissions that were never published; those of known
// and ended submissions stay.
func TestSweepOrphans(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	seqs := []uint32{0, 1, 2, 1 << 20, 1<<31 - 1, 1 << 31, 1<<32 - 2, 1<<32 - 1}
	for i, seq := range seqs {
		must(t, s.WriteContent(ctx, seq, 0, slices.Repeat([][]byte{make([]byte, 1500)}, 5)))
		must(t, s.WriteAttachment(ctx, seq, []byte("a")))
		must(t, s.AppendOutputs(ctx, []Output{{seq, 0, []byte("o")}}))
		if i == 3 {
			must(t, s.compact(ctx))
		}
	}
	must(t, s.WriteAttachment(ctx, 50, []byte("only an attachment")))
	must(t, s.AppendOutputs(ctx, []Output{{60, 0, []byte("only an output")}}))
	must(t, s.Checkpoint(ctx, nil, []checkpoint.Ended{{Seq: 1 << 31, ID: 5, State: queue.Cancelled}}))
	if got, err := s.MaxSeq(ctx); err != nil || got != 1<<32-1 {
		t.Errorf("MaxSeq = %d, %v; want %d", got, err, uint32(1<<32-1))
	}
	known := map[uint32]bool{1: true, 1<<32 - 2: true}
	asked := map[uint32]int{}
	deleted, err := s.SweepOrphans(ctx, func(seq uint32) bool { asked[seq]++; return known[seq] })
	if err != nil || deleted != len(seqs)-3+2 {
		t.Errorf("SweepOrphans = %d, %v; want %d", deleted, err, len(seqs)-3+2)
	}
	for seq, n := range asked {
		if n > 4 {
			t.Errorf("seq %d was visited %d times; want once per table at most, not per row", seq, n)
		}
	}
	must(t, s.compact(ctx))
	for table, want := range map[string]int64{"content": 15, "attachment": 3, "output": 3, "output_log": 0} {
		if got := rowsIn(t, s, table); got != want {
			t.Errorf("%d rows are left in %s; want %d", got, table, want)
		}
	}
	for _, seq := range []uint32{1, 1 << 31, 1<<32 - 2} {
		if b, found, err := s.Output(ctx, seq, 0); err != nil || !found || string(b) != "o" {
			t.Errorf("Output of seq %d = %q, %v, %v; want o", seq, b, found, err)
		}
	}
	if deleted, err = s.SweepOrphans(ctx, func(seq uint32) bool { return known[seq] }); err != nil || deleted != 0 {
		t.Errorf("SweepOrphans again = %d, %v; want 0", deleted, err)
	}
}

// The largest seq is found wherever it stands, so that no number is used twice.
func TestMaxSeq(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(s *Store, seq uint32) error{
		"submission": func(s *Store, seq uint32) error {
			return s.Checkpoint(ctx, []checkpoint.Row{{Seq: seq, ID: 1, Spec: []byte{}}}, nil)
		},
		"history":    func(s *Store, seq uint32) error { return s.Checkpoint(ctx, nil, []checkpoint.Ended{{Seq: seq, ID: 1}}) },
		"content":    func(s *Store, seq uint32) error { return s.WriteContent(ctx, seq, 7, [][]byte{{1}}) },
		"attachment": func(s *Store, seq uint32) error { return s.WriteAttachment(ctx, seq, nil) },
		"output log": func(s *Store, seq uint32) error { return s.AppendOutputs(ctx, []Output{{seq, 1, nil}}) },
		"output": func(s *Store, seq uint32) error {
			return errors.Join(s.AppendOutputs(ctx, []Output{{seq, 1, nil}}), s.compact(ctx))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fresh(t)
			if got, err := s.MaxSeq(ctx); err != nil || got != 0 {
				t.Errorf("MaxSeq of an empty store = %d, %v; want 0", got, err)
			}
			must(t, s.WriteAttachment(ctx, 3, nil))
			for _, seq := range []uint32{9, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
				must(t, put(s, seq))
				if got, err := s.MaxSeq(ctx); err != nil || got != seq {
					t.Errorf("MaxSeq = %d, %v; want %d", got, err, seq)
				}
			}
		})
	}
}
