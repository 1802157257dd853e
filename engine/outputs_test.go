package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// Six chunks of one submission are completed, one commit each; those of which outputs says so with an output: "o" is a large one, which has a
// row of its own in the store at once, "s" a small one, which is in the journal until a checkpoint.
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

// A done chunk whose output is gone from the store is never served as one without an output: who reads it gets an error with the submission
// and the chunk. What has all its outputs is served, and so is what the journal still has.
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
