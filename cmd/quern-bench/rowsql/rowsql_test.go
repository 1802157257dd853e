package rowsql

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
	"github.com/quern-queue/quern/engine/strategy"
)

func backlog(i int) queue.NewSubmission {
	mode := "batch"
	if i%2 == 0 {
		mode = "preview"
	}
	return queue.NewSubmission{
		Meta:     queue.Meta{{Key: "company", Value: queue.IntValue(int64(i % 5))}, {Key: "mode", Value: queue.StringValue(mode)}},
		Priority: int64(i % 3), Chunks: queue.Chunks{Count: uint32(1 + i%4), Prefix: "x"},
	}
}

// What the row engine hands out is what the strategy admits: all of it, in its order, none twice, and within the limits.
func TestReserve(t *testing.T) {
	t.Parallel()
	const submissions = 40
	rnd := rand.New(rand.NewPCG(1, 2))
	e, err := Open(filepath.Join(t.TempDir(), "rows.db"), rnd.Int64N)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Load(submissions, backlog); err != nil {
		t.Fatal(err)
	}
	company := func(c Chunk) int64 { return (c.Submission - 1) % 5 }
	priority := func(c Chunk) int64 { return (c.Submission - 1) % 3 }
	preview := func(c Chunk) bool { return c.Submission%2 == 1 }
	any := func(Chunk) bool { return true }
	older := func(x, y Chunk) bool { return x.Submission <= y.Submission }
	for _, test := range []struct {
		text   string
		admits func(Chunk) bool
		order  func(x, y Chunk) bool // that x may come before y; nil: in any order
		most   int                   // of one company
	}{
		{text: `Random`, admits: any},
		{text: `OldestFirst`, admits: any, order: older},
		{text: `NewestFirst`, admits: any, order: func(x, y Chunk) bool { return x.Submission >= y.Submission }},
		{text: `CustomPriority`, admits: any, order: func(x, y Chunk) bool {
			return priority(x) > priority(y) || priority(x) == priority(y) && older(x, y)
		}},
		{text: `SelectOnly("mode", "preview", Random)`, admits: preview},
		{text: `SelectOnly("company", 3, SelectOnly("mode", "preview", Random))`, admits: func(c Chunk) bool { return preview(c) && company(c) == 3 }},
		{text: `SelectOnly("company", 3, SelectOnly("mode", "preview", OldestFirst))`, admits: func(c Chunk) bool { return preview(c) && company(c) == 3 }, order: older},
		{text: `SelectOnly("mode", "preview", CustomPriority)`, admits: preview, order: func(x, y Chunk) bool { return priority(x) >= priority(y) }},
		{text: `SelectOnly("company", 9, Random)`, admits: func(Chunk) bool { return false }},
		{text: `MaxSimultaneous("company", 2, Random)`, admits: any, most: 2},
		{text: `MaxSimultaneous("company", 2, OldestFirst)`, admits: any, order: older, most: 2},
		{text: `PreferDistinct("company", 1, Random)`, admits: any},
		{text: `OrElse(SelectOnly("mode", "preview", OldestFirst), OldestFirst)`, admits: any, order: func(x, y Chunk) bool {
			return preview(x) && !preview(y) || preview(x) == preview(y) && older(x, y)
		}},
	} {
		parsed, err := strategy.Parse(test.text)
		if err != nil {
			t.Fatal(err)
		}
		got, ended, err := e.Reserve(parsed.Plan(), 1000, func() bool { return false }, nil)
		if err != nil || ended {
			t.Fatalf("%s: ended %v, %v", test.text, ended, err)
		}
		seen, each, want := map[Chunk]bool{}, map[int64]int{}, 0
		for i := range submissions {
			for number := range backlog(i).Chunks.Count {
				if c := (Chunk{int64(i + 1), int64(number)}); test.admits(c) && (test.most == 0 || each[company(c)] < test.most) {
					each[company(c)]++
					want++
				}
			}
		}
		clear(each)
		for i, c := range got {
			each[company(c)]++
			if seen[c] || !test.admits(c) || test.most > 0 && each[company(c)] > test.most || i > 0 && test.order != nil && !test.order(got[i-1], c) {
				t.Errorf("%s: chunk %v does not belong at place %d of %v", test.text, c, i, got)
				break
			}
			seen[c] = true
		}
		if len(got) != want {
			t.Errorf("%s: got %d chunks, want %d", test.text, len(got), want)
		}
		if again, _, err := e.Reserve(parsed.Plan(), 1, func() bool { return false }, nil); err != nil || len(again) != 0 {
			t.Errorf("%s: with all of them in flight got %v, %v", test.text, again, err)
		}
		e.Release(got)
		if n := len(e.inFlight); n != 0 {
			t.Errorf("%s: %d chunks are in flight after all were given back", test.text, n)
		}
	}
}

// No query sorts or makes a table of its own: each gives its first row without looking at all of them.
func TestQueriesStream(t *testing.T) {
	t.Parallel()
	e, err := Open(filepath.Join(t.TempDir(), "rows.db"), rand.New(rand.NewPCG(1, 2)).Int64N)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Load(500, backlog); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		`Random`, `OldestFirst`, `NewestFirst`, `CustomPriority`, `SelectOnly("mode", "preview", Random)`, `SelectOnly("mode", "preview", OldestFirst)`,
		`SelectOnly("mode", "preview", SelectOnly("company", 2, NewestFirst))`, `SelectOnly("mode", "preview", CustomPriority)`,
	} {
		parsed, err := strategy.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		before := e.Rows()
		got, _, err := e.Reserve(parsed.Plan(), 1, func() bool { return false }, nil)
		if err != nil || len(got) != 1 || e.Rows() != before+1 {
			t.Errorf("%s: got %v after %d rows, %v; want one chunk after one row", text, got, e.Rows()-before, err)
		}
		e.Release(got)
	}
	for text := range e.stmts {
		if !strings.HasPrefix(text, "SELECT") {
			continue
		}
		plan, err := e.conn.Prepare("EXPLAIN QUERY PLAN " + text)
		if err != nil {
			t.Fatal(err)
		}
		args := make([]any, strings.Count(text, "?"))
		err = plan.Query(func(row sqlitedb.Row) (bool, error) {
			if step := row.Text(3); strings.Contains(step, "TEMP B-TREE") || strings.Contains(step, "MATERIALIZE") {
				t.Errorf("%s\n%s", text, step)
			}
			return true, nil
		}, args...)
		if err != nil {
			t.Fatal(err)
		}
	}
}
