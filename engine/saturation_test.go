package engine

import (
	"context"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// sinceOf is from when on a value has been at its limit; 0: it is not.
func sinceOf(v *api.ValueCount) queue.Time {
	if v.SaturatedSince == nil {
		return 0
	}
	return queue.At(v.SaturatedSince.Time)
}

// A value is at its limit from the moment when it was first seen there, although it drops below for moments. The time starts over after a
// longer time below, after a change of its limit, and after the clock was set back.
func TestSaturatedSince(t *testing.T) {
	t.Parallel()
	e := openAt(t, t.TempDir())
	defer closed(t, e)
	q := e.queues[DefaultQueue]
	acme := text("company", "acme")
	insert(t, e, 100, acme)
	insert(t, e, 100, text("company", "free"))
	setValue(t, e, DefaultQueue, acme, limited(3))
	start := queue.Time(1_700_000_000_000)
	now := start
	look := func(name string, after time.Duration, want queue.Time) {
		t.Helper()
		now = now.Add(after)
		q.sample(now, nil)
		one, err := queueAt(e, DefaultQueue).Values.Get(context.Background(), acme)
		if err != nil {
			t.Fatal(err)
		}
		frame := queueAt(e, DefaultQueue).Frame()
		got := map[string]queue.Time{"read by itself": sinceOf(&one)}
		for _, v := range frame.Keys.Keys[0].Top {
			if v.Value == acme.Value {
				got["in the frame"] = sinceOf(&v)
			} else if v.SaturatedSince != nil {
				t.Errorf("%s: %s has no limit and is at it since %v", name, v.Value, v.SaturatedSince)
			}
		}
		list, err := queueAt(e, DefaultQueue).Values.List(context.Background(), "company", "ready", 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range list {
			if v.Value == acme.Value {
				got["in the list"] = sinceOf(&v)
			}
		}
		for where, since := range got {
			if since != want {
				t.Errorf("%s: %s it is at its limit since %d, want %d", name, where, since, want)
			}
		}
	}
	const strategy = `SelectOnly("company", "acme", OldestFirst)`
	look("nothing is held", 0, 0)
	held, _ := take(t, e, strategy, 10)
	first := start.Add(time.Second)
	look("it fills up", time.Second, first)
	look("it stays full", time.Minute, now.Add(time.Minute)) // no look for a minute, so it is not known
	first = now
	finishAll(t, e, held[:1])
	look("one is done", 2*time.Second, first)
	more, _ := take(t, e, strategy, 10)
	look("another was taken", 2*time.Second, first)
	finishAll(t, e, append(held[1:], more...))
	look("all are done", 5*time.Second, first)
	look("a moment later", time.Millisecond, 0)
	held, _ = take(t, e, strategy, 10)
	look("full again", time.Second, now.Add(time.Second))
	setValue(t, e, DefaultQueue, acme, limited(4))
	look("there is room again", time.Second, 0)
	setValue(t, e, DefaultQueue, acme, limited(2))
	look("more than the limit are held", time.Second, now.Add(time.Second))
	look("the clock was set back", -time.Hour, now.Add(-time.Hour))
	finishAll(t, e, held)
	if look("it is over", time.Minute, 0); len(q.frames.full.of) != 0 {
		t.Errorf("%d values are kept, want none", len(q.frames.full.of))
	}
}
