package plugins_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/plugins"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// formula is a Score block that no other number makes.
func formula(t *testing.T, n int) *strategy.Scored {
	t.Helper()
	s, err := strategy.Parse(fmt.Sprintf("Score(priority + %d, Random)", n))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range s.Plan().Branches {
		if b.Scored != nil {
			return b.Scored
		}
	}
	t.Fatal("the plan has no Score block")
	return nil
}

// as is a context in the name of an access token.
func as(t *testing.T, name string) context.Context {
	return access.With(t.Context(), &access.Caller{Token: &access.Token{Name: name, Use: new(access.Use)}})
}

// A caller that sends ever new formulas goes on without them after a burst. Formulas of others, and known ones, are served meanwhile.
func TestNewFormulasAreMetered(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	greedy, other := as(t, "greedy"), as(t, "other")
	known := formula(t, 0)
	if why, err := w.Check(other, known); why != nil || err != nil {
		t.Fatalf("the first formula: %v, %v", why, err)
	}
	taken := 0
	for n := 1; n <= 200; n++ {
		why, err := w.Check(greedy, formula(t, n))
		if err != nil {
			t.Fatal(err)
		}
		if why == nil {
			taken++
		} else if !strings.Contains(why.Detail, "20 new formulas a second; put what changes") {
			t.Fatalf("formula %d: %s", n, why.Detail)
		}
	}
	if taken != 40 {
		t.Errorf("%d new formulas of one caller were taken at once, want 40", taken)
	}
	if why, err := w.Check(greedy, formula(t, 1)); why != nil || err != nil {
		t.Errorf("one that is known: %v, %v", why, err)
	}
	if why, err := w.Check(other, formula(t, 1000)); why != nil || err != nil {
		t.Errorf("a new one of another caller: %v, %v", why, err)
	}
	if why, err := w.Check(t.Context(), formula(t, 1001)); why != nil || err != nil {
		t.Errorf("a new one of a caller without a token: %v, %v", why, err)
	}
	w.clock.forward(time.Second)
	for n := 2000; n < 2020; n++ {
		if why, err := w.Check(greedy, formula(t, n)); why != nil || err != nil {
			t.Fatalf("a second later, formula %d: %v, %v", n, why, err)
		}
	}
}

// The formulas that were used last are kept. One that was dropped is compiled again by the next reserve, at a pace of its own.
//
//quern:sequential
func TestFormulasOfTheLastUseAreKept(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	used := formula(t, 0)
	first := w.scorer(used)
	for n := 1; n < 600; n++ {
		w.clock.forward(50 * time.Millisecond)
		if why, err := w.Check(t.Context(), formula(t, n)); why != nil || err != nil {
			t.Fatalf("formula %d: %v, %v", n, why, err)
		}
		if w.scorer(used) != first {
			t.Fatalf("the formula that is used all the time was dropped after %d others", n)
		}
	}
	dropped := 0
	for n := range 100 {
		if _, ok := w.Scorer(formula(t, n+1)); !ok {
			dropped++
		}
	}
	if dropped != 60 {
		t.Errorf("of 100 that were dropped, %d were not compiled again at once; want 60: all but a burst", dropped)
	}
}

// While a formula is being compiled, other callers go on: with formulas that are known, and with new ones.
func TestCompilingAFormulaBlocksNoOneElse(t *testing.T) {
	t.Parallel()
	reached, release := make(chan struct{}), make(chan struct{})
	var looks atomic.Int64 // until the gate closes; the second look of a new formula at the clock is when it has been compiled
	w := &world{TB: t, clock: &clock{now: time.UnixMilli(1_800_000_000_000)}, dir: t.TempDir(), log: &lockedText{}, idle: true}
	w.change = func(o *plugins.Options) {
		o.Now = func() time.Time {
			if looks.Add(-1) == 0 {
				close(reached)
				<-release
			}
			return w.clock.Now()
		}
	}
	w.start()
	t.Cleanup(func() { w.end() })
	known := formula(t, 0)
	score(t, w.scorer(known), window(1, []int64{1}))
	looks.Store(2)
	done := make(chan error, 1)
	go func() {
		why, err := w.Check(as(t, "one"), formula(t, 1))
		if err == nil && why != nil {
			err = why
		}
		done <- err
	}()
	<-reached
	if got := score(t, w.scorer(known), window(1, []int64{7})); got[0] != 7 {
		t.Errorf("a known formula scores %v meanwhile, want 7", got)
	}
	if why, err := w.Check(as(t, "other"), formula(t, 2)); why != nil || err != nil {
		t.Errorf("a new formula of another caller: %v, %v", why, err)
	}
	if got := score(t, w.scorer(formula(t, 2)), window(1, []int64{7})); got[0] != 9 {
		t.Errorf("it scores %v meanwhile, want 9", got)
	}
	if kept := w.gauge("quern_score_formulas"); kept != 2 {
		t.Errorf("%d formulas are kept meanwhile, want 2", kept)
	}
	close(release)
	if err := <-done; err != nil {
		t.Errorf("the formula that was held: %v", err)
	}
}

// Many callers may ask for a new formula at once. All of them get the same scorer.
func TestFormulaIsMadeOnce(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	var group sync.WaitGroup
	scorers := make([]strategy.Scorer, 20)
	for i := range scorers {
		group.Go(func() { scorers[i], _ = w.Scorer(formula(t, 7)) })
	}
	group.Wait()
	for i, s := range scorers {
		if s == nil || s != scorers[0] {
			t.Errorf("caller %d has another scorer", i)
		}
	}
}

// An upload for whose dry run there is no memory is refused with advice: it is neither the module's fault nor the server's.
func TestUploadWithoutMemory(t *testing.T) {
	t.Parallel()
	w := open(t, func(o *plugins.Options) { o.Limits.Memory = plugins.MinMemory })
	manifest := declare("large", "1.0.0", two, "")
	_, _, err := w.Versions.Upload(t.Context(), plugins.Upload{Module: wasmtest.Roomy(40), Manifest: manifest})
	if queue.CodeOf(err) != queue.CodeOverloaded || !strings.Contains(err.Error(), "plugin-memory") {
		t.Errorf("got %v, want %s that names plugin-memory", err, queue.CodeOverloaded)
	}
}
