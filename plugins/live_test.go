package plugins_test

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/plugins"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// shelf is a queue of which candidates can be shown: their priorities and ids.
type shelf struct{ priority, id []int64 }

func (s *shelf) PluginUsers(string) []queue.PluginUser { return nil }

func (s *shelf) Candidates(_ context.Context, queueName, inner string, _ queue.Meta, reads []strategy.Column, rows int) (*strategy.Window, error) {
	if queueName != "default" || inner != "OldestFirst" {
		return nil, &queue.Error{Code: queue.CodeUnknownQueue, Message: "There is no such queue."}
	}
	w := &strategy.Window{Rows: min(rows, len(s.id))}
	for _, c := range reads {
		values := map[strategy.Property][]int64{strategy.Priority: s.priority, strategy.ID: s.id, strategy.Age: make([]int64, len(s.id))}[c.Property]
		w.Columns = append(w.Columns, strategy.Values{Numbers: values[:w.Rows]})
	}
	return w, nil
}

// A dry run against live candidates says what would be taken, and how that differs from the order without the plugin and from the
// active version; it leaves nothing in the plugin's books.
func TestDryRunAgainstLiveCandidates(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	w.send(wasmtest.Scorer(), declare("live", "1.0.0", two, ""))
	w.end()
	w.queues = &shelf{priority: []int64{0, 1, 2, 3, 4, 5}, id: []int64{0, 0, 0, 0, 0, 0}}
	w.start()
	tried, err := w.Versions.Try(t.Context(), "live", "1.0.0", plugins.DryRun{Queue: "default", Strategy: "OldestFirst", Want: 2})
	if err != nil {
		t.Fatal(err)
	}
	l := tried.Live
	if l.Rows != 6 || l.Skipped != 0 || l.ActiveTau != nil || len(l.Picks) != 2 || l.Picks[0].Row != 5 || *l.Picks[0].Score != 50 || l.Picks[1].Row != 4 || *l.Picks[1].Score != 40 || !slices.Equal(l.Gained, []int{5, 4}) || !slices.Equal(l.Lost, []int{0, 1}) {
		t.Errorf("got %+v", l)
	}
	counted := 0
	for _, bin := range l.Histogram {
		counted += bin.Count
	}
	if counted != 6 || l.Histogram[0].From != 0 || l.Histogram[len(l.Histogram)-1].To != 50 || l.Histogram[len(l.Histogram)-1].Count != 1 {
		t.Errorf("got the histogram %+v", l.Histogram)
	}
	other := w.send(wasmtest.Scorer(), declare("live", "2.0.0", []string{"age_ms", "priority"}, ""))
	w.activate(other)
	if tried, err = w.Versions.Try(t.Context(), "live", "1.0.0", plugins.DryRun{Queue: "default", Strategy: "OldestFirst", Want: 2}); err != nil {
		t.Fatal(err)
	}
	if l := tried.Live; l.ActiveTau == nil || *l.ActiveOverlap != 0 || *l.ActiveTau != -1 || !slices.Equal(l.ActiveGained, []int{5, 4}) || !slices.Equal(l.ActiveLost, []int{0, 1}) {
		t.Errorf("against the active version: got %+v", l)
	}
	if stats, _ := w.Observations.Stats("live"); stats.Batches != 0 {
		t.Errorf("the dry runs are in the books: %+v", stats)
	}
	for pointer, d := range map[string]plugins.DryRun{"/rows": {Queue: "default", Strategy: "OldestFirst", Rows: 5000}, "/recording": {Recording: 7}, "/config/x": {Config: []byte(`{"x":1}`)}} {
		if _, err := w.Versions.Try(t.Context(), "live", "1.0.0", d); problems(t, err)[:len(pointer)] != pointer {
			t.Errorf("got %v, want a problem at %s", err, pointer)
		}
	}
	if _, err := w.Versions.Try(t.Context(), "live", "1.0.0", plugins.DryRun{Queue: "other"}); queue.CodeOf(err) != queue.CodeUnknownQueue {
		t.Errorf("another queue: got %v", err)
	}
}

// Many who send the same bytes at once make one version, which one of them created.
func TestSameUploadAtOnce(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	var group sync.WaitGroup
	var mu sync.Mutex
	made := 0
	for range 8 {
		group.Go(func() {
			_, created, err := w.Versions.Upload(context.Background(), plugins.Upload{Module: wasmtest.Scorer(), Manifest: declare("one", "1.0.0", two, "")})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if created {
				made++
			}
		})
	}
	group.Wait()
	if list, err := w.Versions.Of("one"); err != nil || len(list) != 1 || made != 1 {
		t.Errorf("got %d versions, %d of them created, %v; want one", len(list), made, err)
	}
}

// A plugin in Go, built by the plain toolchain, passes the whole way and serves after a restart from the cache.
//
//quern:sequential
func TestGoGuest(t *testing.T) {
	t.Parallel()
	module, err := goGuest()
	if err != nil {
		t.Fatal(err)
	}
	w := open(t, nil)
	v, _, err := w.Versions.Upload(t.Context(), plugins.Upload{Module: module})
	if err != nil {
		t.Fatal(err)
	}
	if !v.Report.Deterministic || v.Report.MemoryPages < 2 {
		t.Errorf("got the report %+v", v.Report)
	}
	w.activate(v)
	block := &strategy.Scored{Plugin: v.Name}
	ask := func() []float64 {
		in := &strategy.Window{Rows: 3, Want: 1, Dictionary: []string{"llama", "mistral"}, Columns: []strategy.Values{
			{Numbers: []int64{1, 2, 3}},
			{Counts: []uint32{0, 1, math.MaxUint32}},
			{Numbers: []int64{7, 7, 7}, Present: []bool{true, false, true}},
			{Words: []uint32{1, 2, 0}},
			{Words: []uint32{2}},
		}}
		return score(t, w.scorer(block), in)
	}
	want := ask()
	if expect := []float64{17, 1015, 37 - 5*float64(math.MaxUint32)}; !slices.Equal(want, expect) {
		t.Errorf("got %v, want %v", want, expect)
	}
	if stats, _ := w.Observations.Stats(v.Name); stats.Counters["warm_hits"] != 1 {
		t.Errorf("got the counters %v, want one hit", stats.Counters)
	}
	w.end()
	w.change = func(o *plugins.Options) { o.Child = []string{"/nonexistent"} }
	w.start()
	got := ask()
	for i := range want {
		if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
			t.Errorf("after a restart: got %v, want %v", got, want)
		}
	}
}
