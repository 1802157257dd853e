package roster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quern-queue/quern/engine/queue"
)

// Whatever consumers and operators do, the counts are those of the list, absences are in the order of time, and a
// consumer without a stream, an absence or an order is forgotten.
func TestRosterCounts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := New()
		var streams []*Stream
		now := queue.Time(1)
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			now += queue.Time(rapid.IntRange(0, 2).Draw(t, "passed"))
			name := fmt.Sprint("worker-", rapid.IntRange(0, 3).Draw(t, "who"))
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0, 1:
				a := &Stream{Stir: func() {}}
				r.Join(name, "", a, now)
				streams = append(streams, a)
			case 2, 3:
				if len(streams) > 0 {
					i := rapid.IntRange(0, len(streams)-1).Draw(t, "stream")
					r.Part(streams[i], rapid.Bool().Draw(t, "missed"), now)
					streams = slices.Delete(streams, i, i+1)
				}
			case 4:
				orders := []queue.ConsumerOrder{queue.NoOrder, queue.Quiet, queue.Drain}
				r.SetOrder(r.Enter(name), rapid.SampledFrom(orders).Draw(t, "order"))
			default:
				if c := r.ByName[name]; c != nil {
					r.Forget(c)
				}
			}
			checkRoster(t, r)
		}
	})
}

func checkRoster(t *rapid.T, r *Roster) {
	var attached, gone, ordered int
	for i, c := range r.List {
		if len(c.Streams) > 0 {
			attached++
		}
		if c.Away != 0 {
			gone++
		}
		if c.Order != queue.NoOrder {
			ordered++
		}
		if len(c.Streams) == 0 && c.Away == 0 && c.Order == queue.NoOrder {
			t.Fatalf("%s is kept, and there is nothing to know of it", c.Name)
		}
		if c.at != i || r.ByName[c.Name] != c || len(c.Streams) > 0 && c.Away != 0 {
			t.Fatalf("%s is in place %d, and says %d; away %d with %d streams", c.Name, i, c.at, c.Away, len(c.Streams))
		}
		absent := func(x Absence) bool { return x.Of == c && x.Breaks == c.Breaks }
		if c.Away != 0 && !slices.ContainsFunc(r.Away, absent) {
			t.Fatalf("%s is away, and no one waits for it", c.Name)
		}
	}
	if attached != r.Attached || gone != r.Gone || ordered != r.Ordered || len(r.ByName) != len(r.List) {
		t.Fatalf("attached %d, away %d, ordered %d of %d are counted as %d, %d, %d of %d", attached, gone, ordered, len(r.List), r.Attached,
			r.Gone, r.Ordered, len(r.ByName))
	}
	if !slices.IsSortedFunc(r.Away, func(a, b Absence) int { return int(a.At - b.At) }) {
		t.Fatalf("absences are not in the order of time: %v", r.Away)
	}
}

// A consumer is away once its last stream breaks, not before, and comes back with the next one.
func TestLastStreamCounts(t *testing.T) {
	t.Parallel()
	r := New()
	first, second := &Stream{Stir: func() {}}, &Stream{Stir: func() {}}
	r.Join("worker", "", first, 10)
	r.Join("worker", "", second, 11) // it comes back before its old stream is known to be gone
	r.Part(first, true, 12)
	if c := r.ByName["worker"]; c.Away != 0 || c.Since != 10 || r.Attached != 1 {
		t.Fatalf("with a stream left it is away since %d, attached since %d", c.Away, c.Since)
	}
	r.Part(second, true, 13)
	c := r.ByName["worker"]
	if _, keeps := r.KeepsStream("worker"); c.Away != 13 || r.Gone != 1 || r.Attached != 0 || !keeps {
		t.Fatalf("without one: away since %d, %d away, %d attached", c.Away, r.Gone, r.Attached)
	}
	r.Join("worker", "", &Stream{Stir: func() {}}, 14)
	if c.Away != 0 || r.Gone != 0 {
		t.Errorf("it came back, and is away since %d", c.Away)
	}
}

// A consumer whose stream the server ended is not missed: it comes back, and a planned restart waits for it.
func TestEndedByTheServerIsNotMissed(t *testing.T) {
	t.Parallel()
	r := New()
	a := &Stream{Stir: func() {}}
	r.Join("worker", "", a, 1)
	r.Part(a, false, 2)
	_, keeps := r.KeepsStream("worker")
	if _, another := r.KeepsStream("another"); len(r.List) != 0 || r.Gone != 0 || !keeps || another {
		t.Errorf("%d are known, %d away; keeps its stream: %v", len(r.List), r.Gone, keeps)
	}
}

// A stream hears of chunks that were taken from its consumer, up to a bound. If it falls further behind, it ends: its
// consumer attaches again and learns which chunks it holds.
func TestStreamThatFallsBehindEnds(t *testing.T) {
	t.Parallel()
	stirred := 0
	a := &Stream{Stir: func() { stirred++ }}
	for range maxRevokes {
		a.Revoke(queue.Revoked{})
	}
	if a.Over || len(a.Revokes) != maxRevokes || stirred != maxRevokes {
		t.Fatalf("over %v with %d, stirred %d times", a.Over, len(a.Revokes), stirred)
	}
	if a.Revoke(queue.Revoked{}); !a.Over || len(a.Revokes) != maxRevokes {
		t.Errorf("over %v with %d, want over with %d", a.Over, len(a.Revokes), maxRevokes)
	}
}

// An order reaches every stream of its consumer, and holds for an hour after the consumer was last heard of.
func TestOrdersAreKeptForAnHour(t *testing.T) {
	t.Parallel()
	r := New()
	a := &Stream{Stir: func() {}}
	r.Join("worker", "", a, 0)
	r.SetOrder(r.Enter("worker"), queue.Drain)
	if !a.Ordered || r.OrderOf("worker") != queue.Drain {
		t.Fatalf("the stream was told: %v; the order is %v", a.Ordered, r.OrderOf("worker"))
	}
	r.Part(a, false, 0)
	heard := queue.Time(0).Add(time.Minute)
	seen := func(string) queue.Time { return heard }
	for _, c := range []struct {
		at   queue.Time
		want queue.ConsumerOrder
	}{{heard.Add(orderKept), queue.Drain}, {heard.Add(orderKept) + 1, queue.NoOrder}} {
		if r.SweepOrders(c.at, seen); r.OrderOf("worker") != c.want {
			t.Errorf("at %d the order is %v, want %v", c.at, r.OrderOf("worker"), c.want)
		}
	}
	if len(r.List) != 0 {
		t.Errorf("%d consumers are known, want none", len(r.List))
	}
}

// A process succeeds another one whose stream was the last, whether that is open, broken or ended by the server, and
// ends its open streams. The same process comes back, and one without an incarnation succeeds no one and hides no one.
func TestSuccessors(t *testing.T) {
	t.Parallel()
	r := New()
	succeeds := func(when, incarnation string, want bool) {
		t.Helper()
		if got := r.Succeeds("worker", incarnation); got != want {
			t.Errorf("%s: %q succeeds: %v, want %v", when, incarnation, got, want)
		}
	}
	join := func(incarnation string) *Stream {
		a := &Stream{Stir: func() {}}
		r.Join("worker", incarnation, a, 10)
		return a
	}
	succeeds("when no one was there", "a", false)
	first := join("a")
	succeeds("while it is attached", "a", false)
	succeeds("while another is attached", "", false)
	if first.Over {
		t.Error("the stream of a process ended as it came back")
	}
	second := join("")
	succeeds("beside a stream that does not say whose it is", "a", false)
	succeeds("while another is attached", "b", true)
	if !first.Over || !second.Over {
		t.Error("a stream of the predecessor stays open")
	}
	third := join("b")
	succeeds("after it was succeeded, as it lives on", "a", false)
	r.Part(join("a"), true, 10)
	succeeds("beside one that was succeeded", "b", false)
	r.Part(first, true, 11)
	r.Part(second, true, 11)
	r.Part(third, true, 12)
	succeeds("while it is away", "b", false)
	succeeds("while another is away", "c", true)
	fourth := join("c")
	r.Part(fourth, false, 13)
	succeeds("after the server ended its stream", "c", false)
	succeeds("after the server ended another's stream", "d", true)
	r.Forget(r.Enter("worker"))
	r.Join("another", "x", &Stream{Stir: func() {}}, 14)
	succeeds("beside one of another name", "x", true)
}
