package plugins_test

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/plugins"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// scoresOf is the entry of a version, which has to be there.
func (w *world) scoresOf(v api.PluginVersion) api.PluginScores {
	w.Helper()
	list, err := w.Observations.Scores(v.Name)
	if err != nil {
		w.Fatal(err)
	}
	for _, s := range list {
		if s.SHA256 == v.SHA256 {
			return s
		}
	}
	w.Fatalf("nothing is said of %s in %+v", v.Version, list)
	return api.PluginScores{}
}

// A sampled window says what was taken of it; while there are few windows each that comes after a quarter of a second is sampled, and
// while there are many one of 64.
func TestScoresOfLiveTraffic(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	v := w.send(wasmtest.Scorer(), declare("seen", "1.0.0", two, ""))
	w.activate(v)
	s := w.scorer(&strategy.Scored{Plugin: "seen"})
	priority, id := []int64{0, 1, 2, 3}, []int64{0, 0, 0, 0}
	sampled := 0
	ask := func() {
		in := window(1, priority, id)
		scores := score(t, s, in)
		if in.Sampler != nil {
			sampled++
			in.Sampler.Taken(scores, []uint32{0, 0, 1, 7})
		}
	}
	ask()
	got := w.scoresOf(v)
	if sampled != 1 || got.Batches != 1 || got.Windows != 1 || got.Rows != 4 || got.Taken != 2 || got.Skipped != 0 || fmt.Sprint(got.Uses) != "[active]" {
		t.Fatalf("after one window got %+v, %d sampled; want it sampled, with 4 candidates of which 2 were taken of", got, sampled)
	}
	if d := got.Distribution; len(d) != 20 || d[0] != (api.PluginTakenBin{From: 0, To: 1.5, Count: 1}) || d[19].Count != 1 || d[19].Taken != 1 || d[19].To != 30 || d[13].Count != 1 || d[13].Taken != 1 {
		t.Errorf("got the distribution %+v, want one candidate each at 0, 10, 20 and 30, of the last two something taken", d)
	}
	for range 63 {
		ask()
	}
	if sampled != 1 {
		t.Errorf("%d windows of the first 64 at one moment were sampled, want 1", sampled)
	}
	if ask(); sampled != 2 {
		t.Errorf("the 65th window was not sampled, want one of 64")
	}
	w.clock.forward(250 * time.Millisecond)
	if ask(); sampled != 3 {
		t.Errorf("a window a quarter of a second after the last sample was not sampled")
	}
	if ask(); sampled != 3 {
		t.Errorf("the window after it was sampled too")
	}
	dry := window(1, priority, id)
	dry.Dry = true
	w.clock.forward(time.Second)
	if score(t, s, dry); dry.Sampler != nil {
		t.Error("a window of a dry run was sampled")
	}
}

// However much is scored, the same memory holds the last 4,096 candidates: older ones make room.
func TestScoresKeepTheLast(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	v := w.send(wasmtest.Scorer(), declare("much", "1.0.0", two, ""))
	w.activate(v)
	s := w.scorer(&strategy.Scored{Plugin: "much"})
	const rows = 1000
	for i := range 9 {
		priority := make([]int64, rows)
		for row := range priority {
			priority[row] = int64(i)
		}
		in := window(1, priority, make([]int64, rows))
		scores := score(t, s, in)
		if in.Sampler == nil {
			t.Fatalf("window %d was not sampled, a second after the one before", i)
		}
		in.Sampler.Taken(scores, make([]uint32, rows))
		w.clock.forward(time.Second)
	}
	got := w.scoresOf(v)
	if got.Windows != 9 || got.Rows != 4096 {
		t.Fatalf("got %d windows and %d candidates, want 9 and the last 4096", got.Windows, got.Rows)
	}
	counts := map[float64]int{}
	for _, bin := range got.Distribution {
		if bin.Count > 0 {
			counts[bin.From] = bin.Count
		}
	}
	// Of the windows 4 to 8 (scores 40 to 80) the last 96 of the first, and all of the others.
	if len(counts) != 5 || counts[40] != 96 || got.Distribution[0].From != 40 || got.Distribution[len(got.Distribution)-1].To != 80 {
		t.Errorf("got %v in %+v, want 96 candidates at 40 and 1000 each at 50, 60, 70 and 80", counts, got.Distribution)
	}
}

// A few candidates that are wanted last of all do not press all others into one range. Skipped and infinite scores are counted.
func TestScoresWithOutliers(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	v := w.send(wasmtest.Scorer(), declare("far", "1.0.0", two, ""))
	w.activate(v)
	s := w.scorer(&strategy.Scored{Plugin: "far"})
	in := window(1, []int64{0}, []int64{0})
	score(t, s, in)
	scores := make([]float64, 1000)
	for i := range scores {
		scores[i] = float64(i)
	}
	scores[0], scores[1], scores[2], scores[3] = -1e6, math.NaN(), math.Inf(1), math.Inf(-1)
	in.Sampler.Taken(scores, make([]uint32, len(scores)))
	got := w.scoresOf(v)
	total, fullest := 0, 0
	for _, bin := range got.Distribution {
		total += bin.Count
		fullest = max(fullest, bin.Count)
	}
	if got.Rows != 1000 || got.Skipped != 1 || total != 999 {
		t.Errorf("got %d candidates, %d skipped, %d counted; want 1000, 1 and 999", got.Rows, got.Skipped, total)
	}
	if d := got.Distribution; fullest > 100 || d[0].From != -1e6 || d[len(d)-1].To != 999 || len(d) > 20 {
		t.Errorf("the fullest of %d ranges has %d of 999: %+v", len(d), fullest, d)
	}
	for i := 1; i < len(got.Distribution); i++ {
		if got.Distribution[i].From != got.Distribution[i-1].To {
			t.Errorf("range %d begins at %v, and the one before ends at %v", i, got.Distribution[i].From, got.Distribution[i-1].To)
		}
	}
}

// Faults are counted for the version that they are of, and a shadow's windows are sampled with nothing taken of them.
func TestScoresTellVersionsApart(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	good := w.send(wasmtest.Scorer(), declare("both", "1.0.0", two, ""))
	moody := w.send(wasmtest.Moody(wasmtest.NegativeSeed(), wasmtest.Endless()), declare("both", "2.0.0", two, ""))
	w.activate(good)
	if _, err := w.Rollout.Shadow(t.Context(), "both", api.PluginSelection{Version: moody.SHA256}, plugins.Change{}); err != nil {
		t.Fatal(err)
	}
	in := window(1, []int64{1, 2}, []int64{0, 0})
	scores := score(t, w.scorer(&strategy.Scored{Plugin: "both"}), in)
	in.Sampler.Taken(scores, []uint32{0, 1})
	for w.scoresOf(moody).Rows < 2 && t.Context().Err() == nil {
		runtime.Gosched() // it scores beside
	}
	if got := w.scoresOf(moody); got.Taken != 0 || fmt.Sprint(got.Uses) != "[shadow]" || len(got.Faults) != 0 {
		t.Errorf("of the shadow got %+v, want two candidates, nothing taken", got)
	}
	if err := w.scorer(&strategy.Scored{Plugin: "both", Version: moody.SHA256}).Score(t.Context(), window(bad, []int64{1}, []int64{0}), make([]float64, 1)); err == nil {
		t.Fatal("the moody version did not fail for a bad seed")
	}
	if got := w.scoresOf(moody); got.Faults["fuel"] != 1 || got.LastFault == "" {
		t.Errorf("got the faults %v (%q), want one that used up its fuel", got.Faults, got.LastFault)
	}
	if got := w.scoresOf(good); len(got.Faults) != 0 || got.Taken != 1 {
		t.Errorf("of the version in order got %+v, want no fault, and one candidate taken of", got)
	}
}
