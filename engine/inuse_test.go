package engine

import (
	"context"
	"testing"
)

// Reserves count for the queue that they are of, by the strategy behind a name.
func TestStrategiesInUse(t *testing.T) {
	t.Parallel()
	e := openAt(t, t.TempDir())
	t.Cleanup(func() { closed(t, e) })
	put(t, e, "default", "nightly", `"OldestFirst"`)
	plan, err := queueAt(e, "default").Plan([]byte(`{"name":"nightly"}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, consumer := range []string{"a", "b", "a"} {
		if _, err := queueAt(e, "default").Reserve(context.Background(), ReserveRequest{Max: 1, Plan: plan, Consumer: consumer}, nil); err != nil {
			t.Fatal(err)
		}
	}
	list := queueAt(e, "default").Strategies.InUse().Items
	if len(list) != 1 || list[0].Strategy != "OldestFirst" || list[0].Consumers != 2 {
		t.Errorf("got %+v; want OldestFirst by two", list)
	}
}
