package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// completeSix completes six chunks of one submission, one commit each. outputs says which get an output: "o" is a large one, which has its
// own row in the store at once, "s" a small one, which is in the journal until a checkpoint.
func completeSix(t *testing.T, e *Engine, chunks int, outputs string) queue.SubmissionID {
	t.Helper()
	n := queue.NewSubmission{}
	n.Chunks.Inline = make([][]byte, chunks)
	sub, _, err := queueAt(e, "default").Insert(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range reserveNewest(t, e, "default", 6) {
		item := queue.CompleteItem{Token: r.Token}
		switch outputs[r.Token.Index] {
		case 'o':
			item.Output = fmt.Appendf(nil, "%70000d", r.Token.Index)
		case 's':
			item.Output = fmt.Appendf(nil, "of %d", r.Token.Index)
		}
		results, err := queueAt(e, "default").Complete(t.Context(), []queue.CompleteItem{item}, nil)
		if err != nil || results[0].Outcome != queue.OutcomeOK {
			t.Fatalf("complete: %+v, %v", results, err)
		}
	}
	return sub.ID
}

// A done chunk whose output is gone from the store is never served as one without an output: a reader gets an error with the submission and
// the chunk. A submission that has all its outputs is served, and so are outputs that the journal still has.
func TestMissingOutputs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		chunks  int // more than 6: the submission stays open
		outputs string
		fold    bool
		lose    string
		names   string // the error
		bad, ok []uint32
	}{
		"latest of an open one":    {chunks: 9, outputs: "oooooo", lose: "true", ok: []uint32{0, 5, 7}},
		"latest of an ended one":   {chunks: 6, outputs: "o-o-o-", lose: "true", ok: []uint32{0, 1, 5}},
		"all of an open one":       {chunks: 9, outputs: "oooooo", fold: true, lose: "true", names: "6 of the 6 outputs of submission ", bad: []uint32{0, 5}, ok: []uint32{7}},
		"one of an open one":       {chunks: 9, outputs: "oooooo", fold: true, lose: "n = 2", names: "the output of chunk "},
		"one of some of an open":   {chunks: 9, outputs: "oo--o-", fold: true, lose: "n = 2", names: "the output of chunk ", bad: []uint32{2, 3, 5}, ok: []uint32{8}},
		"one of an ended one":      {chunks: 6, outputs: "oooooo", fold: true, lose: "n = 3", names: "the output of chunk "},
		"one of some of an ended":  {chunks: 6, outputs: "o-oo--", fold: true, lose: "n = 3", names: "the output of chunk ", bad: []uint32{1, 4}},
		"two of some of an ended":  {chunks: 6, outputs: "o-oo--", fold: true, lose: "n > 1", names: "2 of the 3 outputs of submission ", bad: []uint32{1, 4}},
		"none of an open one":      {chunks: 9, outputs: "oo--o-", fold: true, lose: "false", ok: []uint32{0, 2, 8}},
		"none of an ended one":     {chunks: 6, outputs: "o--oo-", fold: true, lose: "false", ok: []uint32{0, 1, 5}},
		"there were none, of open": {chunks: 9, outputs: "------", fold: true, lose: "true", ok: []uint32{0, 2, 8}},
		"latest, there were none":  {chunks: 6, outputs: "------", lose: "true", ok: []uint32{0, 5}},
		"small, in the journal":    {chunks: 6, outputs: "ssssss", lose: "true", ok: []uint32{0, 5}},
		"small, of an open one":    {chunks: 9, outputs: "s-s-s-", lose: "true", ok: []uint32{0, 1, 8}},
		"small, checkpointed":      {chunks: 9, outputs: "ssssss", fold: true, lose: "true", names: "6 of the 6 outputs of submission ", bad: []uint32{0, 5}, ok: []uint32{7}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			e := openAt(t, dir)
			id := completeSix(t, e, c.chunks, c.outputs)
			if c.fold {
				q, err := e.Queue("default")
				if err == nil {
					err = q.shard.Checkpoint()
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			closed(t, e)
			loseRows(t, filepath.Join(dir, "shards", "0000", "store.db"), c.lose)
			e, err := Open(context.Background(), Options{Dir: dir, Now: time.Now, Seed: rand.Uint64, BallastBytes: -1})
			if err != nil {
				t.Fatal(err)
			}
			defer closed(t, e)
			checkMissing(t, e, id, c.names, c.bad, c.ok)
		})
	}
}

func checkMissing(t *testing.T, e *Engine, id queue.SubmissionID, names string, bad, ok []uint32) {
	t.Helper()
	wrong := func(what string, err error) {
		if err == nil || !strings.Contains(err.Error(), id.String()) || !strings.Contains(err.Error(), "estore") {
			t.Errorf("%s: %v; want an error that names %s and says what to do", what, err, id)
		}
	}
	err := queueOf(e, id).Submissions.Outputs(t.Context(), id, func(uint32, []byte) error { return nil })
	if names != "" {
		if wrong("outputs", err); err != nil && !strings.Contains(err.Error(), names) {
			t.Errorf("outputs: %v; want %q in it", err, names)
		}
		_, err := queueOf(e, id).Submissions.Chunks(t.Context(), id, nil, "", 100)
		wrong("chunks", err)
	} else if err != nil {
		t.Errorf("outputs: %v", err)
	}
	for _, limit := range []int{1, 2, 100} { // the outputs are on several pages, or all on one
		switch _, err := manyOutputs(t.Context(), e, ListRequest{Limit: limit}); {
		case names == "" && err != nil:
			t.Errorf("outputs of all submissions, %d a page: %v", limit, err)
		case names != "" && (err == nil || !strings.Contains(err.Error(), names) || !strings.Contains(err.Error(), id.String())):
			t.Errorf("outputs of all submissions, %d a page: %v; want %q in it", limit, err, names)
		}
	}
	for _, index := range bad {
		_, err := queueOf(e, id).Submissions.Chunk(t.Context(), id, index)
		wrong(fmt.Sprint("chunk ", index), err)
	}
	for _, index := range ok {
		if _, err := queueOf(e, id).Submissions.Chunk(t.Context(), id, index); err != nil {
			t.Errorf("chunk %d: %v", index, err)
		}
	}
}

// loseRows deletes rows of the log of outputs as a damaged page would.
func loseRows(t *testing.T, path, which string) {
	t.Helper()
	db, err := sqlitedb.SQL(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("DELETE FROM output_log WHERE " + which); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// manyOutputs walks over all pages of outputs of the queue default, and gives each as "submission/index".
func manyOutputs(ctx context.Context, e *Engine, r ListRequest) (all []string, err error) {
	for {
		page, err := queueAt(e, "default").Submissions.ManyOutputs(ctx, r)
		if err != nil {
			return all, err
		}
		for _, o := range page.Items {
			all = append(all, fmt.Sprintf("%s/%d/%s", o.Submission, o.Index, strings.TrimSpace(string(o.Output))))
		}
		if r.Cursor = page.Next; r.Cursor == "" {
			return all, nil
		}
		if len(page.Items) > max(r.Limit, 1) || len(all) > 1000 {
			return all, fmt.Errorf("a page has %d items, and all %d; at most %d and 1000 were asked for", len(page.Items), len(all), r.Limit)
		}
	}
}

// Each output of many submissions comes once, those of the newest submission first and by index, whatever fits on a page. A filter selects
// submissions. A submission that is deleted between two pages is left out, and nothing else.
func TestManyOutputs(t *testing.T) {
	t.Parallel()
	e := openAt(t, filepath.Join(t.TempDir(), "data"))
	defer closed(t, e)
	q := queueAt(e, "default")
	var want, ended []string
	var subs []queue.SubmissionID
	for batch := range 5 {
		n := queue.NewSubmission{Meta: queue.Meta{{Key: "batch", Value: queue.IntValue(int64(batch % 2))}}}
		n.Chunks.Inline = make([][]byte, 7)
		sub, _, err := q.Insert(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		subs = append(subs, sub.ID)
		var outputs []string
		for _, r := range reserveNewest(t, e, "default", 7-batch%3) { // some stay open
			item := queue.CompleteItem{Token: r.Token}
			if r.Token.Index != 2 {
				item.Output = fmt.Appendf(nil, "%d of %d", r.Token.Index, batch)
				outputs = append(outputs, fmt.Sprintf("%s/%d/%s", sub.ID, r.Token.Index, item.Output))
			}
			if results, err := q.Complete(t.Context(), []queue.CompleteItem{item}, nil); err != nil || results[0].Outcome != queue.OutcomeOK {
				t.Fatalf("complete: %+v, %v", results, err)
			}
		}
		for len(reserveNewest(t, e, "default", 7)) > 0 { // held, so that the next ones are of the next submission
		}
		slices.Sort(outputs)
		want = append(outputs, want...)
		if batch%2 == 1 {
			ended = append(outputs, ended...)
		}
	}
	for _, limit := range []int{1, 2, 3, 7, 100, 0} {
		if got, err := manyOutputs(t.Context(), e, ListRequest{Limit: limit}); err != nil || !slices.Equal(got, want) {
			t.Errorf("%d a page: %v %v, want %v", limit, got, err, want)
		}
	}
	got, err := manyOutputs(t.Context(), e, ListRequest{Limit: 2, Meta: queue.Meta{{Key: "batch", Value: queue.IntValue(1)}}})
	if err != nil || !slices.Equal(got, ended) {
		t.Errorf("of one batch: %v %v, want %v", got, err, ended)
	}

	gone, leave := context.WithCancel(t.Context())
	leave()
	if page, err := q.Submissions.ManyOutputs(gone, ListRequest{}); !errors.Is(err, context.Canceled) {
		t.Errorf("for someone who has hung up: %d outputs, %v", len(page.Items), err)
	}

	first, err := q.Submissions.ManyOutputs(t.Context(), ListRequest{Limit: 2})
	if err != nil || first.Next == "" {
		t.Fatalf("the first page: %+v %v", first, err)
	}
	newest := subs[len(subs)-1].String()
	if err := q.Submissions.Delete(t.Context(), subs[len(subs)-1], true); err != nil {
		t.Fatal(err)
	}
	rest, err := manyOutputs(t.Context(), e, ListRequest{Limit: 2, Cursor: first.Next})
	left := slices.DeleteFunc(slices.Clone(want), func(o string) bool { return strings.HasPrefix(o, newest) })
	if err != nil || !slices.Equal(rest, left) {
		t.Errorf("after a deletion: %v %v, want %v", rest, err, left)
	}
	for _, cursor := range []string{"o", "o1", "o1.2.3.4.5.zzzzzzzz", "s1", first.Next + ".1"} {
		if _, err := q.Submissions.ManyOutputs(t.Context(), ListRequest{Cursor: cursor}); queue.CodeOf(err) != queue.CodeInvalid {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
}
