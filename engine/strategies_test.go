package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

func openAt(t *testing.T, dir string) *Engine {
	t.Helper()
	e, err := Open(context.Background(), Options{Dir: dir, Now: time.Now, Seed: func() uint64 { return 7 }, BallastBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// setClock is a time that a test sets, while the goroutines of an engine read it.
type setClock struct{ ms atomic.Int64 }

func clockAt(at queue.Time) *setClock {
	c := new(setClock)
	c.set(at)
	return c
}

func (c *setClock) set(at queue.Time)    { c.ms.Store(int64(at)) }
func (c *setClock) now() queue.Time      { return queue.Time(c.ms.Load()) }
func (c *setClock) std() time.Time       { return c.now().Std() }
func (c *setClock) pass(d time.Duration) { c.set(c.now().Add(d)) }

func closed(t *testing.T, e *Engine) {
	t.Helper()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, e *Engine, queueName, name, text string) api.NamedStrategy {
	t.Helper()
	s, _, err := queueAt(e, queueName).Strategies.Put(context.Background(), name, []byte(text), nil)
	if err != nil {
		t.Fatalf("put %s %s: %v", name, text, err)
	}
	return s
}

// planOf is the plan of a reservation by the name, or the code and pointer of the refusal.
func planOf(e *Engine, queueName, name string) string {
	plan, err := queueAt(e, queueName).Plan(fmt.Appendf(nil, `{"name":%q}`, name))
	if err != nil {
		var failure *queue.Error
		if errors.As(err, &failure) && len(failure.Problems) == 1 {
			return string(failure.Code) + " " + failure.Problems[0].Pointer
		}
		return err.Error()
	}
	return plan.String()
}

// Names, their newest and their older versions outlive a restart. A deleted name stays deleted.
func TestStrategiesOutliveARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := openAt(t, dir)
	for i := range queue.MaxStrategyVersions + 5 {
		put(t, e, DefaultQueue, "nightly", fmt.Sprintf(`"MaxSimultaneous(\"k\", %d, Random)"`, i+1))
	}
	put(t, e, DefaultQueue, "gone", `"Random"`)
	if err := queueAt(e, DefaultQueue).Strategies.Delete(context.Background(), "gone", nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := planOf(e, DefaultQueue, "nightly"); got != "1 Random while k<105" {
			t.Errorf("nightly is %q, want the newest version", got)
		}
		if got := planOf(e, DefaultQueue, "gone"); got != "invalid /strategy/name" {
			t.Errorf("gone is %q, want a refusal", got)
		}
		for version, want := range map[uint32]string{0: "105", 5: "", 6: "6", 104: "104", 105: "105", 106: ""} {
			got, err := queueAt(e, DefaultQueue).Strategies.Get("nightly", version)
			switch {
			case want == "" && queue.CodeOf(err) != queue.CodeUnknownStrategy:
				t.Errorf("version %d: got %v, %v; want %s", version, got, err, queue.CodeUnknownStrategy)
			case want != "" && (err != nil || got.Strategy != `MaxSimultaneous("k", `+want+`, Random)` || got.CreatedAt.IsZero()):
				t.Errorf("version %d: got %v, %v; want the limit %s", version, got, err, want)
			}
		}
		closed(t, e)
		e = openAt(t, dir)
	}
	if again := put(t, e, DefaultQueue, "nightly", `"Random"`); again.Version != 106 {
		t.Errorf("after the restart: got version %d, want 106", again.Version)
	}
	closed(t, e)
}

// A queue has names of its own, and takes them with it: a new queue of its name has none.
func TestStrategiesGoWithTheirQueue(t *testing.T) {
	t.Parallel()
	ctx, dir := context.Background(), t.TempDir()
	e := openAt(t, dir)
	for range 2 {
		if _, _, err := e.PutQueue(ctx, "other", queue.DefaultSettings()); err != nil {
			t.Fatal(err)
		}
		if got := planOf(e, "other", "nightly"); got != "invalid /strategy/name" {
			t.Errorf("a new queue has a strategy: %q", got)
		}
		put(t, e, "other", "nightly", `"OldestFirst"`)
		if got := planOf(e, DefaultQueue, "nightly"); got != "invalid /strategy/name" {
			t.Errorf("the other queue's strategy is seen here: %q", got)
		}
		gone := queueAt(e, "other")
		if err := e.DeleteQueue(ctx, "other", false); err != nil {
			t.Fatal(err)
		}
		if _, _, err := gone.Strategies.Put(ctx, "nightly", []byte(`"Random"`), nil); queue.CodeOf(err) != queue.CodeUnknownQueue {
			t.Errorf("put into a deleted queue: got %v, want %s", err, queue.CodeUnknownQueue)
		}
		closed(t, e)
		e = openAt(t, dir)
	}
	closed(t, e)
}

// Of many callers that change a version that they read, exactly one succeeds, and so of many that create a name.
func TestStrategyGuardIsExact(t *testing.T) {
	t.Parallel()
	e := openAt(t, t.TempDir())
	defer closed(t, e)
	refused := errors.New("refused")
	for round := range uint32(5) {
		var (
			wait sync.WaitGroup
			mu   sync.Mutex
			done int
		)
		for i := range 16 {
			wait.Go(func() {
				raw := fmt.Appendf(nil, `"MaxSimultaneous(\"k\", %d, Random)"`, 100*int(round)+i+1)
				_, _, err := queueAt(e, DefaultQueue).Strategies.Put(context.Background(), "nightly", raw, func(now api.NamedStrategy, exists bool) error {
					if exists != (round > 0) || now.Version != round {
						return refused
					}
					return nil
				})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					done++
				} else if !errors.Is(err, refused) {
					t.Errorf("put: %v", err)
				}
			})
		}
		wait.Wait()
		if done != 1 {
			t.Errorf("round %d: %d changes of one version went through, want 1", round, done)
		}
	}
}

// A queue keeps so many names and no more; a full one can still change and delete. Pages hold each name once.
func TestStrategyLimit(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	e := openAt(t, t.TempDir())
	defer closed(t, e)
	// Filled from below: a thousand durable commits would only take time.
	q := e.queues[DefaultQueue]
	var list []journal.Set
	for i := range queue.MaxStrategies {
		list = append(list, journal.Set{Kind: journal.SetStrategy, Name: fmt.Sprintf("n%d", i), Version: 1, Text: "Random"})
	}
	q.set(list, false)
	if _, _, err := queueAt(e, DefaultQueue).Strategies.Put(ctx, "one-more", []byte(`"Random"`), nil); queue.CodeOf(err) != queue.CodeConflict {
		t.Errorf("one more name: got %v, want %s", err, queue.CodeConflict)
	}
	put(t, e, DefaultQueue, "n5", `"OldestFirst"`)
	var names []string
	for after := ""; ; {
		page, err := queueAt(e, DefaultQueue).Strategies.List(after, 300)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range page.Items {
			names = append(names, s.Name)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if sorted := slices.IsSorted(names); len(names) != queue.MaxStrategies || !sorted {
		t.Errorf("the pages have %d names, sorted %v; want %d", len(names), sorted, queue.MaxStrategies)
	}
	if err := queueAt(e, DefaultQueue).Strategies.Delete(ctx, "n7", nil); err != nil {
		t.Fatal(err)
	}
	put(t, e, DefaultQueue, "one-more", `"Random"`)
}

// A text that cannot be a name is refused wherever a name may stand.
func TestStrategyNames(t *testing.T) {
	t.Parallel()
	e := openAt(t, t.TempDir())
	defer closed(t, e)
	long := strings.Repeat("n", queue.MaxStrategyNameBytes)
	for name, valid := range map[string]bool{"a": true, "0.a_B-": true, long: true, "": false, long + "n": false, ".a": false, "-a": false, "_a": false, "a b": false, "ä": false, "a/b": false} {
		_, _, err := queueAt(e, DefaultQueue).Strategies.Put(context.Background(), name, []byte(`"Random"`), nil)
		if (err == nil) != valid || err != nil && queue.CodeOf(err) != queue.CodeInvalid {
			t.Errorf("put %q: got %v, want valid = %v", name, err, valid)
		}
		want := "1 Random"
		if !valid {
			want = "invalid /strategy/name"
		}
		if got := planOf(e, DefaultQueue, name); got != want {
			t.Errorf("plan of %q: got %q, want %q", name, got, want)
		}
	}
}

// A stored strategy that this program cannot read does not stop the server from starting, is refused where it is used, and can be replaced.
func TestUnreadableStrategy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := openAt(t, dir)
	later := journal.Set{Kind: journal.SetStrategy, Name: "later", Version: 3, Text: "FromTheFuture", Changed: 1}
	if err := e.queues[DefaultQueue].shard.Settings.Put(&later, nil, nil); err != nil {
		t.Fatal(err)
	}
	closed(t, e)
	e = openAt(t, dir)
	defer closed(t, e)
	if got := planOf(e, DefaultQueue, "later"); got != "invalid /strategy/name" {
		t.Errorf("got %q, want a refusal", got)
	}
	if got, err := queueAt(e, DefaultQueue).Strategies.Get("later", 0); err != nil || got.Strategy != "FromTheFuture" {
		t.Errorf("it cannot be read as it is: %v, %v", got, err)
	}
	if got := put(t, e, DefaultQueue, "later", `"Random"`); got.Version != 4 || planOf(e, DefaultQueue, "later") != "1 Random" {
		t.Errorf("replaced: got %v and the plan %q", got, planOf(e, DefaultQueue, "later"))
	}
}

// Asked, which every reserve calls, allocates nothing, unless the strategy uses a plugin.
func TestAskedAllocatesNothing(t *testing.T) {
	e := openAt(t, t.TempDir())
	defer closed(t, e)
	put(t, e, "default", "stored", `"OrElse(MaxSimultaneous(\"user\", 2, OldestFirst), Random)"`)
	for _, raw := range []string{``, `"OldestFirst"`, `{"name":"stored"}`} {
		allocs := testing.AllocsPerRun(100, func() {
			asked, err := queueAt(e, "default").Asked(t.Context(), []byte(raw))
			if err != nil || asked.Plan == nil || asked.Unusable != nil {
				t.Fatalf("got %+v %v", asked, err)
			}
		})
		if allocs > 0 {
			t.Errorf("%s: %v allocations, want none", raw, allocs)
		}
	}
}
