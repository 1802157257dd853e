package web

import (
	"fmt"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// The page of a plugin counts only chunks that were handed out as taken. A candidate that scores well and may not be
// taken, because its limit is reached, does not count.
func TestPluginScoresSayWhatWasTaken(t *testing.T) {
	t.Parallel()
	s := newPluginScene(t, nil)
	for i := range 10 {
		s.put(fmt.Sprint(i), 1, int64(i), api.Meta{"firm": api.Text([]string{"a", "b"}[i/5])})
	}
	v := s.use(wasmtest.Scorer(), "order", "priority", "limit:none")
	scores := func() (found api.Page[api.PluginScores]) {
		s.do("GET", "/v1/plugins/order/scores", nil, 200, &found)
		return found
	}
	if got := scores().Items; len(got) != 1 || got[0].Rows != 0 || len(got[0].Distribution) != 0 || got[0].SHA256 != v.SHA256 {
		t.Errorf("before anything is scored got %+v, want one entry with nothing in it", got)
	}
	// The five highest are b's, of whom one may be in flight: 9 of b, then 4 and 3 of a are handed out.
	if got := s.texts(`MaxSimultaneous("firm", 1, Plugin("order", explore=0, OldestFirst))`, 10); fmt.Sprint(got) != "[9 4]" {
		t.Fatalf("got %v, want 9 and 4", got)
	}
	got := scores().Items[0]
	if got.Batches < 1 || got.Windows != 1 || got.Rows != 10 || got.Taken != 2 || fmt.Sprint(got.Uses) != "[active]" || got.SinceAt.IsZero() {
		t.Errorf("got %+v, want ten candidates of which two were taken", got)
	}
	for _, bin := range got.Distribution {
		// Priority n scores 10 n + 5, as no limit is -1.
		want := 0
		if bin.From <= 95 && 95 <= bin.To && bin.Count > 0 && bin.From > 90 || bin.From <= 45 && 45 < bin.To {
			want = 1
		}
		if bin.Taken != want {
			t.Errorf("of the scores from %v to %v %d were taken, want %d", bin.From, bin.To, bin.Taken, want)
		}
	}
	if got := send(s, s.client, s.address, call{method: "GET", path: "/v1/plugins/none/scores"}); got.status != 404 {
		t.Errorf("of a plugin that is not there: got %d, want 404", got.status)
	}
}
