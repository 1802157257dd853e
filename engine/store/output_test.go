package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"pgregory.net/rapid"
)

// collect reads all outputs from an index on and checks their order.
func collect(t interface{ Fatalf(string, ...any) }, s *Store, seq, from uint32) map[uint32]string {
	got, last := map[uint32]string{}, int64(from)-1
	err := s.Outputs(ctx, seq, from, func(index uint32, out []byte) error {
		if int64(index) <= last {
			t.Fatalf("Outputs(%d, %d) gave index %d after %d", seq, from, index, last)
		}
		if out == nil {
			t.Fatalf("Outputs(%d, %d) gave nil for index %d", seq, from, index)
		}
		last = int64(index)
		got[index] = string(out)
		return nil
	})
	if err != nil {
		t.Fatalf("Outputs(%d, %d): %v", seq, from, err)
	}
	return got
}

// The store behaves like a map from chunk to its last output, over compacting, packing, deletions, new opens and
// crashes in between.
//
//quern:sequential
func TestOutputsLikeAMap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		s := fresh(t)
		model := map[uint32]map[uint32]string{0: {}, 1: {}, 2: {}}
		seqs := rapid.Uint32Range(0, 2)
		kept := map[chunkKey]bool{}
		serial := 0
		check := func(r *rapid.T) {
			seq := seqs.Draw(r, "seq")
			from := rapid.SampledFrom([]uint32{0, 1, 20, 39, 1000}).Draw(r, "from")
			want := maps.Clone(model[seq])
			maps.DeleteFunc(want, func(index uint32, _ string) bool { return index < from })
			if got := collect(r, s, seq, from); !maps.Equal(got, want) {
				r.Fatalf("Outputs(%d, %d) gave %d outputs %.200v; want %d %.200v", seq, from, len(got), got, len(want), want)
			}
			index := rapid.Uint32Range(0, 40).Draw(r, "index")
			wanted, known := model[seq][index]
			if got, found, err := s.Output(ctx, seq, index); err != nil || found != known || string(got) != wanted {
				r.Fatalf("Output(%d, %d) = %.40q, %v, %v; want %.40q, %v", seq, index, got, found, err, wanted, known)
			}
		}
		r.Repeat(map[string]func(*rapid.T){
			"": check,
			"append": func(r *rapid.T) {
				var outs []Output
				for range rapid.IntRange(1, 30).Draw(r, "n") {
					serial++
					text := fmt.Sprint(serial, ":", string(bytes.Repeat([]byte("x"), rapid.SampledFrom([]int{0, 3, 200, 1500, 9000}).Draw(r, "size"))))
					o := Output{seqs.Draw(r, "seq"), rapid.Uint32Range(0, 40).Draw(r, "index"), []byte(text)}
					if kept[chunkKey{o.Seq, o.Index}] {
						continue // it is done
					}
					model[o.Seq][o.Index] = text
					outs = append(outs, o)
				}
				must(t, s.AppendOutputs(ctx, outs))
			},
			"keep": func(r *rapid.T) {
				key := chunkKey{seqs.Draw(r, "seq"), rapid.Uint32Range(0, 40).Draw(r, "index")}
				if _, known := model[key.seq][key.index]; known {
					r.Skip("the chunk is done")
				}
				serial++
				text := fmt.Sprint("kept ", serial)
				s.Memtable.KeepOutput(&journal.Output{Seq: key.seq, Index: key.index, Bytes: []byte(text)})
				model[key.seq][key.index], kept[key] = text, true
			},
			"keep all again, as a replay does": func(*rapid.T) {
				for key := range kept {
					s.Memtable.KeepOutput(&journal.Output{Seq: key.seq, Index: key.index, Bytes: []byte(model[key.seq][key.index])})
				}
			},
			"flush": func(r *rapid.T) {
				must(t, s.Memtable.Flush(ctx))
				if n := s.Memtable.Bytes(); n != 0 {
					r.Fatalf("after a flush %d bytes are kept", n)
				}
			},
			"crash in a flush":       func(*rapid.T) { s.crash(t, func(s *Store) error { return s.Memtable.Flush(ctx) }) },
			"compact":                func(*rapid.T) { must(t, s.compact(ctx)) },
			"pack":                   func(r *rapid.T) { must(t, s.PackOutputs(ctx, seqs.Draw(r, "seq"))) },
			"reopen":                 func(*rapid.T) { reopen(t, s) },
			"crash while compacting": func(*rapid.T) { s.crash(t, func(s *Store) error { return s.compact(ctx) }) },
			"crash in a packing": func(r *rapid.T) {
				seq := seqs.Draw(r, "seq")
				s.crash(t, func(s *Store) error { return s.PackOutputs(ctx, seq) })
			},
			"retain": func(r *rapid.T) {
				if rapid.IntRange(0, 3).Draw(r, "often") > 0 {
					return
				}
				seq := seqs.Draw(r, "seq")
				must(t, s.Checkpoint(ctx, nil, []checkpoint.Ended{{Seq: seq, ID: 1, Finished: 1}}))
				_, err := retain(s, 2, 1)
				must(t, err)
				must(t, s.compact(ctx)) // a crash before it would bring the log's back, for SweepOrphans
				model[seq] = map[uint32]string{}
				maps.DeleteFunc(kept, func(key chunkKey, _ bool) bool { return key.seq == seq })
			},
		})
	})
}

// AppendOutputs brings outputs to the log as a checkpoint does.
func (s *Store) AppendOutputs(ctx context.Context, outs []Output) error {
	for i := range outs {
		s.Memtable.KeepOutput(&journal.Output{Seq: outs[i].Seq, Index: outs[i].Index, Bytes: outs[i].Bytes})
	}
	return s.Memtable.Flush(ctx)
}

type chunkKey struct{ seq, index uint32 }

// crash runs an operation on a full disk, so that it stops somewhere in the middle, and restarts from the files.
func (s *Store) crash(t *testing.T, operation func(*Store) error) {
	t.Helper()
	pages, err := s.write.conn.Int("PRAGMA page_count")
	must(t, err)
	must(t, s.SetMaxPages(int(pages)+1))
	_ = operation(s) // fails or not, as the free pages allow
	reopen(t, s)
}

// Runs that are merged across several transactions are whole at every step: stopped after any of them, nothing is lost.
func TestPackingStoppedAnywhere(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	want := map[uint32]string{}
	for round := range 6 {
		var outs []Output
		for i := range uint32(400) {
			index := i*7%401 + uint32(round)*150
			text := fmt.Sprintf("%d/%d %s", round, index, bytes.Repeat([]byte("y"), 700))
			outs, want[index] = append(outs, Output{9, index, []byte(text)}), text
		}
		must(t, s.AppendOutputs(ctx, outs))
		if round < 5 {
			must(t, s.compact(ctx))
		}
	}
	pages, err := s.write.conn.Int("PRAGMA page_count")
	must(t, err)
	stopped := 0
	for room := 1; ; room += 300 { // more than a restart adds: it brings the log's outputs back, to be compacted again
		must(t, s.SetMaxPages(int(pages)+room))
		err := s.PackOutputs(ctx, 9)
		if got := collect(t, s, 9, 0); !maps.Equal(got, want) {
			t.Fatalf("with %d pages of room: %d outputs; want %d, unchanged", room, len(got), len(want))
		}
		reopen(t, s)
		if got := collect(t, s, 9, 300); len(got) != len(want)-300 {
			t.Fatalf("after a restart with %d pages of room: %d outputs from 300 on; want %d", room, len(got), len(want)-300)
		}
		if err == nil {
			break
		}
		stopped++
	}
	if stopped == 0 {
		t.Fatal("the packing was never stopped: the test tests nothing")
	}
	must(t, s.compact(ctx)) // the log's copy, which a restart brought back
	if got := collect(t, s, 9, 0); !maps.Equal(got, want) {
		t.Fatalf("at the end: %d outputs; want %d", len(got), len(want))
	}
}

// A packing that was stopped when it had deleted some of the runs goes on behind the packed outputs, and loses none of
// them.
func TestPackingStoppedWhileItDeletes(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	want := map[uint32]string{}
	for i := range uint32(4) {
		want[9-i] = fmt.Sprint("output ", i)
		must(t, s.AppendOutputs(ctx, []Output{{5, 9 - i, []byte(want[9-i])}}))
		must(t, s.compact(ctx))
	}
	var all []run
	must(t, s.scan.with(ctx, func(r *reader) (err error) { all, _, _, err = s.runs(r, 5); return err }))
	if len(all) != 4 {
		t.Fatalf("got the runs %v, want four", all)
	}
	must(t, s.writePacked(ctx, 5, all, nil, all[0].last))
	must(t, s.tx(ctx, func(w *writer) error {
		_, err := eraseRange(w.sizeOutput, w.dropOutput, keyOf(5, 0), keyOf(5, 1), &budget{rows: 2, bytes: eraseBytes})
		return err
	}))
	reopen(t, s)
	must(t, s.PackOutputs(ctx, 5))
	if got := collect(t, s, 5, 0); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// After packing the outputs lie in one run in index order; late ones stay beside it and win.
func TestPackOutputs(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	want := map[uint32]string{}
	for i := range uint32(3000) {
		index := i * 1789 % 3000
		out := fmt.Sprint("output ", index)
		must(t, s.AppendOutputs(ctx, []Output{{5, index, []byte(out)}, {6, index, []byte("another's")}}))
		want[index] = out
		if i%500 == 0 {
			must(t, s.compact(ctx))
		}
	}
	must(t, s.PackOutputs(ctx, 5))
	var all []run
	var packed *run
	must(t, s.scan.with(ctx, func(r *reader) (err error) { all, packed, _, err = s.runs(r, 5); return err }))
	if len(all) != 0 || packed == nil || len(s.outputs.of(5)) != 0 {
		t.Fatalf("after packing: runs %v, packed %v, %d pages in the log; want the packed run alone", all, packed, len(s.outputs.of(5)))
	}
	if got := collect(t, s, 5, 0); !maps.Equal(got, want) {
		t.Fatalf("%d outputs; want %d", len(got), len(want))
	}
	must(t, s.AppendOutputs(ctx, []Output{{5, 17, []byte("late")}, {5, 4000, []byte("later")}}))
	want[17], want[4000] = "late", "later"
	for step, next := range []func() error{
		func() error { return nil },
		func() error { return s.compact(ctx) },
		func() error { return s.PackOutputs(ctx, 5) },
		func() error { reopen(t, s); return nil },
	} {
		must(t, next())
		if got := collect(t, s, 5, 0); !maps.Equal(got, want) {
			t.Fatalf("step %d: %d outputs, 17 is %q; want %d, late", step, len(got), got[17], len(want))
		}
	}
	if got := collect(t, s, 6, 0); len(got) != 3000 {
		t.Errorf("the other submission has %d outputs; want 3000", len(got))
	}
}

// Packing joins outputs in several places, in runs alone or in a run and the log, and leaves outputs alone that are in
// order.
func TestPackOutputsWhereverTheyAre(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                      string
		compacted                 []bool // of each append, whether it is compacted after it
		runs, packed, logged, all int
	}{
		{"two runs", []bool{true, true}, 0, 1, 0, 2},
		{"a run and the log", []bool{true, false}, 0, 1, 0, 2},
		{"a run", []bool{false, true}, 1, 0, 0, 2},
		{"the log", []bool{false, false}, 0, 0, 2, 2},
	} {
		s := fresh(t)
		for i, compacted := range c.compacted {
			must(t, s.AppendOutputs(ctx, []Output{{5, uint32(9 - i), []byte("x")}}))
			if compacted {
				must(t, s.compact(ctx))
			}
		}
		must(t, s.PackOutputs(ctx, 5))
		runs, packed := 0, 0
		must(t, s.scan.with(ctx, func(r *reader) error {
			all, one, _, err := s.runs(r, 5)
			if runs = len(all); one != nil {
				packed = 1
			}
			return err
		}))
		if logged, all := len(s.outputs.of(5)), len(collect(t, s, 5, 0)); runs != c.runs || packed != c.packed || logged != c.logged || all != c.all {
			t.Errorf("%s: %d runs, %d packed, %d pages in the log, %d outputs; want %d, %d, %d, %d", c.name, runs, packed, logged, all, c.runs, c.packed, c.logged, c.all)
		}
	}
}

// Outputs of any size are kept, empty is not absent, and of two for one chunk the later wins within one call too.
func TestOutputRoundTrip(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	large := bytes.Repeat([]byte("large "), queue.MaxOutputBytes/6)
	last := uint32(queue.MaxChunks - 1)
	outs := []Output{{1, 3, []byte("first")}, {1, 3, []byte("second")}, {1, 0, nil}, {1, 1, large}, {2, 3, []byte("other")}, {1, last, []byte("end")}, {1, math.MaxUint32, []byte("beyond")}}
	for range 7 {
		outs = append(outs, Output{1, 2, large}) // past one commit's bound
	}
	must(t, s.AppendOutputs(ctx, nil))
	must(t, s.AppendOutputs(ctx, outs))
	for step := range 4 {
		for _, c := range []struct {
			index uint32
			want  []byte
		}{{3, []byte("second")}, {0, nil}, {1, large}, {2, large}, {last, []byte("end")}} {
			if got, found, err := s.Output(ctx, 1, c.index); err != nil || !found || !bytes.Equal(got, c.want) {
				t.Errorf("step %d: Output(1, %d) = %.20q (%d bytes), %v, %v; want %.20q (%d bytes)", step, c.index, got, len(got), found, err, c.want, len(c.want))
			}
		}
		for _, c := range [][2]uint32{{1, 4}, {3, 0}, {2, 0}} {
			if _, found, err := s.Output(ctx, c[0], c[1]); err != nil || found {
				t.Errorf("step %d: Output(%v) was found, %v; want none", step, c, err)
			}
		}
		keys := slices.Sorted(maps.Keys(collect(t, s, 1, 1)))
		if want := []uint32{1, 2, 3, last, math.MaxUint32}; !slices.Equal(keys, want) {
			t.Errorf("step %d: Outputs from 1 on gave %v; want %v", step, keys, want)
		}
		switch step {
		case 0:
			reopen(t, s)
		case 1:
			must(t, s.compact(ctx))
		case 2:
			must(t, s.PackOutputs(ctx, 1))
		}
	}
	stop := errors.New("enough")
	if err := s.Outputs(ctx, 1, 0, func(uint32, []byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("Outputs = %v; want the reader's error", err)
	}
}

// The log is compacted by itself when no caller does it, and its room is used again.
func TestLogSettlesByItself(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	outs := make([]Output, 5000)
	for i := range outs {
		outs[i] = Output{uint32(i % 97), 0, []byte("0123456789")}
	}
	for round := range 3*compactEntries/len(outs) + 1 {
		for i := range outs {
			outs[i].Index = uint32(round*len(outs) + i)
		}
		must(t, s.AppendOutputs(ctx, outs))
		if s.outputs.over(2) {
			t.Fatalf("round %d: the log is over twice its bound", round)
		}
	}
	if rowsIn(t, s, "output") == 0 {
		t.Error("nothing was compacted")
	}
	n := 0
	for seq := range uint32(97) {
		n += len(collect(t, s, seq, 0))
	}
	if want := (3*compactEntries/len(outs) + 1) * len(outs); n != want {
		t.Errorf("%d outputs; want %d", n, want)
	}
	must(t, s.CompactOutputs(ctx))
	if s.outputs.over(1) {
		t.Error("the log is over its bound after CompactOutputs")
	}
}
