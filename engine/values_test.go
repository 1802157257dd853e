package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

func text(key, value string) queue.MetaEntry {
	return queue.MetaEntry{Key: key, Value: queue.StringValue(value)}
}

func number(key string, value int64) queue.MetaEntry {
	return queue.MetaEntry{Key: key, Value: queue.IntValue(value)}
}

// rated are settings with a rate alone.
func rated(most uint32, per time.Duration) queue.ValueSettings {
	return queue.ValueSettings{Limit: queue.NoLimit, Rate: queue.Rate{Max: most, Per: per}}
}

// limited are settings with a limit and no weight.
func limited(limit uint32) queue.ValueSettings { return queue.ValueSettings{Limit: limit} }

func setValue(t *testing.T, e *Engine, queueName string, entry queue.MetaEntry, s queue.ValueSettings) api.ValueCount {
	t.Helper()
	v, _, err := queueAt(e, queueName).Values.Put(context.Background(), entry, s, nil)
	if err != nil {
		t.Fatalf("put %v of %s: %v", entry, queueName, err)
	}
	return v
}

func insert(t *testing.T, e *Engine, chunks uint32, meta ...queue.MetaEntry) queue.SubmissionID {
	t.Helper()
	s, _, err := queueAt(e, DefaultQueue).Insert(context.Background(), queue.NewSubmission{Chunks: queue.Chunks{Count: chunks, Prefix: "x"}, Meta: meta, OperationsPerChunk: 1})
	if err != nil {
		t.Fatal(err)
	}
	return s.ID
}

// known is a key's values as the engine shows them, and as the shard's backlog has them.
func known(t *testing.T, e *Engine, queueName, key string) string {
	t.Helper()
	list, err := queueAt(e, queueName).Values.List(context.Background(), key, "ready", queue.MaxListLimit)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, v := range list {
		entry := queue.MetaEntry{Key: key, Value: v.Value}
		set := e.queues[queueName].values.find(queue.ValueTarget{MetaEntry: entry})
		limit := "-"
		if v.Limit != nil {
			limit = fmt.Sprint(*v.Limit)
		}
		out = append(out, fmt.Sprintf("%s:%d limit %s weight %d v%d", v.Value.Quoted(), v.Ready, limit, set.Weight, set.Version))
		if got := e.queues[queueName].shard.Values.Settings(entry); got != set.ValueSettings {
			t.Errorf("the shard goes by %+v for %s, and what is set is %+v", got, v.Value, set.ValueSettings)
		}
		if one, err := queueAt(e, queueName).Values.Get(context.Background(), entry); err != nil || !reflect.DeepEqual(one, v) {
			t.Errorf("Value(%s) = %+v, %v; the list has %+v", v.Value, one, err, v)
		}
	}
	return strings.Join(out, "; ")
}

// heldOf reserves so many chunks of a value.
func heldOf(t *testing.T, q *Queue, most int, entry queue.MetaEntry) []queue.Reservation {
	t.Helper()
	plan, err := q.Plan(fmt.Appendf(nil, `{"type":"select_only","meta_field":%q,"value":%s,"underlying":"oldest_first"}`, entry.Key, entry.Value.Quoted()))
	fatal(t, err)
	got, err := q.Reserve(context.Background(), ReserveRequest{Max: most, Plan: plan}, nil)
	if fatal(t, err); len(got.Reservations) != most {
		t.Fatalf("%d chunks of %s were reserved, want %d", len(got.Reservations), entry.Value, most)
	}
	return got.Reservations
}

// Each number of a value sorts the list, the largest first; a weight that is not set is the default's, and then 1.
func TestValuesAreSortedByEachNumber(t *testing.T) {
	t.Parallel()
	e := openAt(t, t.TempDir())
	defer closed(t, e)
	q, ctx := queueAt(e, DefaultQueue), context.Background()
	insert(t, e, 1, text("tenant", "oldest"))
	for born := queue.At(time.Now()); queue.At(time.Now()) == born; { // the others are younger
		runtime.Gosched()
	}
	insert(t, e, 6, text("tenant", "in_flight"))
	heldOf(t, q, 6, text("tenant", "in_flight"))
	insert(t, e, 9, text("tenant", "ready"))
	_, _, err := q.Insert(ctx, queue.NewSubmission{Chunks: queue.Chunks{Count: 5, Prefix: "x"}, OperationsPerChunk: 1,
		Meta: queue.Meta{text("tenant", "waiting")}, RunAt: queue.At(time.Now().Add(time.Hour))})
	fatal(t, err)
	for _, of := range []string{"dead", "done"} {
		insert(t, e, 3, text("tenant", of))
		for _, r := range heldOf(t, q, 2, text("tenant", of)) {
			if of == "done" {
				_, err = q.Complete(ctx, []queue.CompleteItem{{Token: r.Token}}, nil)
			} else {
				_, err = q.Fail(ctx, []queue.FailItem{{Token: r.Token, Error: "no", Fatal: true}}, nil)
			}
			fatal(t, err)
		}
	}
	for range 3 {
		insert(t, e, 1, text("tenant", "submissions"))
	}
	for _, action := range []queue.RuleAction{queue.Pause, queue.Block} {
		value := text("tenant", map[queue.RuleAction]string{queue.Pause: "paused", queue.Block: "blocked"}[action])
		insert(t, e, 4, value)
		rule := queue.Rule{Action: action, Match: queue.RuleMatch{Entry: value}, Reason: "a test"}
		if _, _, err := q.Rules.Set(ctx, rule, nil); err != nil {
			t.Fatal(err)
		}
	}
	setValue(t, e, DefaultQueue, text("tenant", "weight"), queue.ValueSettings{Limit: queue.NoLimit, Weight: 9000})
	setValue(t, e, DefaultQueue, text("tenant", "light"), queue.ValueSettings{Limit: queue.NoLimit, Weight: 500})
	for _, sort := range append(slices.Clone(ValueSorts), "") {
		list, err := q.Values.List(ctx, "tenant", sort, queue.MaxListLimit)
		if want := cmp.Or(sort, "in_flight"); err != nil || len(list) != 11 || list[0].Value != text("", want).Value {
			t.Errorf("by %q the list begins with %+v, %v; want %s first", sort, list, err, want)
		}
	}
	list, err := q.Values.List(ctx, "tenant", "weight", queue.MaxListLimit)
	if err != nil || list[10].Value != text("", "light").Value {
		t.Errorf("by weight the list ends with %+v, %v; want the value of weight 0.5", list, err)
	}
	if _, err := q.Values.List(ctx, "tenant", "name", 1); err == nil || !strings.Contains(err.Error(), "in_flight, ready") {
		t.Errorf("by name: %v", err)
	}
}

// Settings outlive a restart, before any submission has the value and after. Deleted settings stay deleted.
func TestValuesOutliveARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := openAt(t, dir)
	setValue(t, e, DefaultQueue, text("company", "acme"), queue.ValueSettings{Limit: 5, Weight: 2500})
	setValue(t, e, DefaultQueue, number("company", 7), limited(0))
	setValue(t, e, DefaultQueue, text("company", "7"), queue.ValueSettings{Limit: queue.NoLimit, Weight: 1})
	setValue(t, e, DefaultQueue, text("company", "acme"), queue.ValueSettings{Limit: 6, Weight: 2500})
	setValue(t, e, DefaultQueue, text("company", "gone"), limited(1))
	setValue(t, e, DefaultQueue, text("other", "gone"), limited(1))
	for _, entry := range []queue.MetaEntry{text("company", "gone"), text("other", "gone")} {
		if err := queueAt(e, DefaultQueue).Values.Delete(context.Background(), entry, nil); err != nil {
			t.Fatal(err)
		}
	}
	insert(t, e, 3, text("company", "acme"))
	insert(t, e, 2, text("company", "new"), number("size", 1))
	const want = `"acme":3 limit 6 weight 2500 v2; "new":2 limit - weight 0 v0; 7:0 limit 0 weight 0 v1; "7":0 limit - weight 1 v1`
	for range 3 {
		if got := known(t, e, DefaultQueue, "company"); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		keys, err := queueAt(e, DefaultQueue).Values.Keys(context.Background(), "", 0)
		if wantKeys := []api.MetaKey{{Key: "company", Values: 4, ValuesSet: 3}, {Key: "size", Values: 1}}; err != nil || !slices.Equal(keys.Items, wantKeys) {
			t.Errorf("keys: got %+v, %v; want %+v", keys, err, wantKeys)
		}
		if _, err := queueAt(e, DefaultQueue).Values.Get(context.Background(), text("company", "gone")); queue.CodeOf(err) != queue.CodeUnknownValue {
			t.Errorf("a deleted value: got %v, want %s", err, queue.CodeUnknownValue)
		}
		closed(t, e)
		e = openAt(t, dir)
	}
	if v := setValue(t, e, DefaultQueue, number("company", 7), limited(9)); !strings.HasPrefix(v.ETag, `"2-`) {
		t.Errorf("after the restart: got the ETag %s, want one of version 2", v.ETag)
	}
	closed(t, e)
}

// The default of a key holds for each value without settings of its own, also for one that comes later, and outlives a restart. It is shown
// beside a value's own settings.
func TestDefaultOfAKey(t *testing.T) {
	t.Parallel()
	ctx, dir := context.Background(), t.TempDir()
	e := openAt(t, dir)
	defer func() { closed(t, e) }()
	values := func() Values { return queueAt(e, DefaultQueue).Values }
	put := func(s queue.ValueSettings) (k api.MetaKey, created bool) {
		t.Helper()
		k, created, err := values().PutDefault(ctx, "company", s, nil)
		if err != nil {
			t.Fatal(err)
		}
		return k, created
	}
	insert(t, e, 9, text("company", "acme"))
	setValue(t, e, DefaultQueue, text("company", "big"), limited(queue.MaxValueLimit))
	if k, created := put(queue.ValueSettings{Limit: 2, Weight: 3000}); !created || k.Limit == nil || *k.Limit != 2 ||
		*k.Weight != 3 || k.Values != 2 || k.ValuesSet != 1 || !strings.HasPrefix(k.ETag, `"1-`) {
		t.Errorf("the first default: %+v, created %t", k, created)
	}
	if _, created := put(queue.ValueSettings{Limit: 2, Weight: 3000}); created {
		t.Error("the same default again was created")
	}
	insert(t, e, 9, text("company", "late"))
	insert(t, e, 9, text("company", "big"))
	insert(t, e, 3)
	if got, want := reservedBy(t, e, "company"), map[string]int{"acme": 2, "late": 2, "big": 9, "": 3}; !maps.Equal(got, want) {
		t.Errorf("handed out by company: %v, want %v", got, want)
	}
	v, err := values().Get(ctx, text("company", "acme"))
	if err != nil || v.Limit != nil || v.DefaultLimit == nil || *v.DefaultLimit != 2 || *v.DefaultWeight != 3 || !v.Saturated {
		t.Errorf("acme: %+v, %v; want the default beside no limit of its own, and that it is reached", v, err)
	}
	closed(t, e)
	e = openAt(t, dir)
	if got := reservedBy(t, e, "company"); len(got) != 0 {
		t.Errorf("after a restart: %v, want nothing, as the default is reached", got)
	}
	if k, err := values().Key(ctx, "company"); err != nil || *k.Limit != 2 {
		t.Errorf("after a restart: %+v, %v", k, err)
	}
	if err := values().DeleteDefault(ctx, "company", nil); err != nil {
		t.Fatal(err)
	}
	if err := values().DeleteDefault(ctx, "company", nil); queue.CodeOf(err) != queue.CodeUnknownValue {
		t.Errorf("a second removal: got %v, want %s", err, queue.CodeUnknownValue)
	}
	if got, want := reservedBy(t, e, "company"), map[string]int{"acme": 7, "late": 7}; !maps.Equal(got, want) {
		t.Errorf("without the default: %v, want the rest: %v", got, want)
	}
}

// reservedBy reserves all that can be, and counts it by the value that it has of a key.
func reservedBy(t *testing.T, e *Engine, key queue.MetaKey) map[string]int {
	t.Helper()
	plan, err := queueAt(e, DefaultQueue).Plan([]byte(`"OldestFirst"`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := queueAt(e, DefaultQueue).Reserve(context.Background(), ReserveRequest{Max: 100, Plan: plan}, nil)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]int{}
	for i := range got.Reservations {
		value, _ := got.Reservations[i].Meta.Find(key)
		by[value.Text()]++
	}
	return by
}

// A queue has its own values, and their settings go with it: a new queue of its name has none.
func TestValuesGoWithTheirQueue(t *testing.T) {
	t.Parallel()
	ctx, dir := context.Background(), t.TempDir()
	e := openAt(t, dir)
	for range 2 {
		if _, _, err := e.PutQueue(ctx, "other", queue.DefaultSettings()); err != nil {
			t.Fatal(err)
		}
		if got := known(t, e, "other", "company"); got != "" {
			t.Errorf("a new queue has values: %s", got)
		}
		setValue(t, e, "other", text("company", "acme"), limited(5))
		if got := known(t, e, DefaultQueue, "company"); got != "" {
			t.Errorf("the other queue's value is seen here: %s", got)
		}
		gone := queueAt(e, "other")
		if err := e.DeleteQueue(ctx, "other", false); err != nil {
			t.Fatal(err)
		}
		if _, _, err := gone.Values.Put(ctx, text("company", "acme"), limited(5), nil); queue.CodeOf(err) != queue.CodeUnknownQueue {
			t.Errorf("put into a deleted queue: got %v, want %s", err, queue.CodeUnknownQueue)
		}
		closed(t, e)
		e = openAt(t, dir)
	}
	closed(t, e)
}

// Of many callers that change the settings that they read, exactly one succeeds, and so of many that make the first ones. A reader
// meanwhile sees one of the versions, whole.
func TestValueGuardIsExact(t *testing.T) {
	t.Parallel()
	e := openAt(t, t.TempDir())
	defer closed(t, e)
	refused := errors.New("refused")
	entry := text("company", "acme")
	for round := range uint32(5) {
		var (
			wait sync.WaitGroup
			mu   sync.Mutex
			done int
		)
		for i := range uint32(16) {
			wait.Go(func() {
				n := 100*round + i + 1
				_, _, err := queueAt(e, DefaultQueue).Values.Put(context.Background(), entry, queue.ValueSettings{Limit: n, Weight: n}, func(now ValueSettings) error {
					if now.Version != round {
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
			wait.Go(func() {
				v, err := queueAt(e, DefaultQueue).Values.Get(context.Background(), entry)
				if err == nil && float64(*v.Limit)/queue.DefaultWeight != *v.Weight || err != nil && queue.CodeOf(err) != queue.CodeUnknownValue {
					t.Errorf("read: %+v, %v", v, err)
				}
			})
		}
		wait.Wait()
		if done != 1 {
			t.Errorf("round %d: %d changes of one version went through, want 1", round, done)
		}
	}
	if err := queueAt(e, DefaultQueue).Values.Delete(context.Background(), entry, func(ValueSettings) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("guarded delete: got %v", err)
	}
}

// A queue keeps settings for so many values and no more; a full one can still change and delete.
func TestSetValuesLimit(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	e := openAt(t, t.TempDir())
	defer closed(t, e)
	// Filled from below: a hundred thousand durable commits would only take time.
	q := e.queues[DefaultQueue]
	for i := range int64(queue.MaxSetValues) {
		q.values.set(queue.ValueTarget{MetaEntry: number(fmt.Sprintf("k%d", i%3), i)}, ValueSettings{ValueSettings: limited(1), Version: 1})
	}
	_, _, err := queueAt(e, DefaultQueue).Values.Put(ctx, text("k", "one-more"), limited(1), nil)
	if queue.CodeOf(err) != queue.CodeConflict || !strings.Contains(err.Error(), "Delete") {
		t.Errorf("one more value: got %v, want %s and what to do", err, queue.CodeConflict)
	}
	setValue(t, e, DefaultQueue, number("k0", 0), limited(2))
	if err := queueAt(e, DefaultQueue).Values.Delete(ctx, number("k1", 1), nil); err != nil {
		t.Fatal(err)
	}
	setValue(t, e, DefaultQueue, text("k", "one-more"), limited(1))
	if _, _, err := queueAt(e, DefaultQueue).Values.Put(ctx, text("k", "two-more"), limited(1), nil); queue.CodeOf(err) != queue.CodeConflict {
		t.Errorf("full again: got %v, want %s", err, queue.CodeConflict)
	}
	if err := queueAt(e, DefaultQueue).Values.Delete(ctx, text("k", "one-more"), nil); err != nil || q.values.byKey["k"] != nil {
		t.Errorf("the key of the last value is still there: %v, %v", q.values.byKey["k"], err)
	}
}

// A rate is set beside the rest, shown, in the ETag, and outlives a restart; that of a key is the default of its values.
func TestRatesOfValuesAndKeys(t *testing.T) {
	t.Parallel()
	ctx, dir := context.Background(), t.TempDir()
	e := openAt(t, dir)
	defer func() { closed(t, e) }()
	acme := text("company", "acme")
	first := setValue(t, e, DefaultQueue, acme, rated(50, time.Minute))
	second := setValue(t, e, DefaultQueue, acme, rated(50, time.Hour))
	if want := (api.Rate{Max: 50, PerMS: 3_600_000}); *second.Rate != want || second.Limit != nil || first.ETag[3:] == second.ETag[3:] {
		t.Errorf("got %+v with the rate %+v after %+v, want %+v, and another ETag", second, second.Rate, first, want)
	}
	if _, _, err := queueAt(e, DefaultQueue).Values.PutDefault(ctx, "company", rated(7, time.Second), nil); err != nil {
		t.Fatal(err)
	}
	closed(t, e)
	e = openAt(t, dir)
	v, err := queueAt(e, DefaultQueue).Values.Get(ctx, acme)
	if err != nil || *v.Rate != *second.Rate || *v.DefaultRate != (api.Rate{Max: 7, PerMS: 1000}) || v.ETag != second.ETag {
		t.Errorf("after a restart: %+v, %v", v, err)
	}
	if k, err := queueAt(e, DefaultQueue).Values.Key(ctx, "company"); err != nil || *k.Rate != *v.DefaultRate {
		t.Errorf("after a restart: %+v, %v", k, err)
	}
}

// Settings that are not allowed are refused, with the field.
func TestValueRefusals(t *testing.T) {
	t.Parallel()
	e := openAt(t, t.TempDir())
	defer closed(t, e)
	long := strings.Repeat("v", queue.MaxMetaValueBytes)
	for _, c := range []struct {
		entry    queue.MetaEntry
		settings queue.ValueSettings
		pointer  string
	}{
		{text("k", "v"), queue.NoSettings(), "/limit"},
		{text("k", "v"), limited(queue.MaxValueLimit), ""},
		{text("k", "v"), limited(queue.MaxValueLimit + 1), "/limit"},
		{text("k", "v"), queue.ValueSettings{Weight: queue.MaxWeight}, ""},
		{text("k", "v"), queue.ValueSettings{Weight: queue.MaxWeight + 1}, "/weight"},
		{text("k", "v"), rated(queue.MaxRate, queue.MaxPer), ""},
		{text("k", "v"), rated(1, queue.MinPer), ""},
		{text("k", "v"), rated(queue.MaxRate+1, queue.MaxPer), "/rate/max"},
		{text("k", "v"), rated(0, queue.MaxPer), "/rate/max"},
		{text("k", "v"), rated(1, queue.MinPer-time.Millisecond), "/rate/per_ms"},
		{text("k", "v"), rated(1, queue.MaxPer+time.Millisecond), "/rate/per_ms"},
		{text("", "v"), limited(1), "/path/key"},
		{text("$submission", "v"), limited(1), "/path/key"},
		{text("k", long), limited(1), ""},
		{text("k", long+"v"), limited(1), "/path/value"},
	} {
		_, _, err := queueAt(e, DefaultQueue).Values.Put(context.Background(), c.entry, c.settings, nil)
		var failure *queue.Error
		if c.pointer == "" && err != nil || c.pointer != "" && (!errors.As(err, &failure) || len(failure.Problems) != 1 || failure.Problems[0].Pointer != c.pointer) {
			t.Errorf("put %v %+v: got %v, want %q", c.entry, c.settings, err, c.pointer)
		}
	}
}
