package consumers

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/consumers/roster"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/shard/shell/shelltest"
	"github.com/quern-queue/quern/engine/strategy"
)

// hall is a shell with its consumers, and the reserve calls that wait, by consumer.
type hall struct {
	*shelltest.Shell
	consumers    *Consumers
	reservations Reservations
	waits        map[string]bool
	recalled     []string
	ordered      int
}

func (h *hall) Waits(consumer string) bool { return h.waits[consumer] }
func (h *hall) Recall(consumer string)     { h.recalled = append(h.recalled, consumer) }

func enter(t *testing.T) *hall {
	t.Helper()
	h := &hall{Shell: shelltest.New(t), waits: map[string]bool{}}
	h.Machine.Roster = roster.New()
	h.Machine.Settings.ConsumerGrace = time.Minute
	q := &shell.Questions{Shell: h}
	h.consumers = New(q, h.Machine.Roster, h, func() { h.ordered++ })
	h.reservations = Reservations{q}
	return h
}

// reserve has a consumer take so many chunks.
func (h *hall) reserve(consumer string, most int) (picks []machine.Pick) {
	h.T.Helper()
	parsed, err := strategy.Parse("OldestFirst")
	if err != nil {
		h.T.Fatal(err)
	}
	q := &machine.Request{Plan: parsed.Plan(), Max: most, Consumer: consumer, Timeout: time.Hour}
	views, unbuilt := h.Machine.Views(q.Plan, nil)
	for unbuilt != nil && !unbuilt.Build(1000) {
	}
	if n := h.Machine.Reserve(q, views, most, h.Clock, &picks); n != most {
		h.T.Fatalf("%d chunks, want %d", n, most)
	}
	return picks
}

func (h *hall) insert(chunks uint32) queue.SubmissionID {
	h.T.Helper()
	return h.Insert(&queue.NewSubmission{Chunks: queue.Chunks{Count: chunks, Prefix: "p/"}})
}

func (h *hall) attach(name string) *Attached {
	h.T.Helper()
	a, err := h.consumers.Attach(name, "")
	if err != nil {
		h.T.Fatal(err)
	}
	return a
}

// news is the next notice of a stream, which must have been woken for it.
func (h *hall) news(a *Attached) Notice {
	h.T.Helper()
	select {
	case <-a.Wake():
	default:
		h.T.Error("the stream was not woken")
	}
	return a.Next()
}

// A consumer that attaches is greeted once, hears of orders and of chunks that are taken from it. When it leaves, its
// streams end, and its chunks are offered again.
func TestAttached(t *testing.T) {
	t.Parallel()
	h := enter(t)
	h.insert(5)
	picks := h.reserve("w", 3)
	a := h.attach("w")
	if n := h.news(a); !n.Hello || n.Epoch != 1 || n.Grace != time.Minute || n.Held != 3 || n.Ordered || n.Over {
		t.Errorf("the greeting: %+v", n)
	}
	if n := a.Next(); n.Hello || n.Ordered || n.Over || n.Revoked != nil {
		t.Errorf("nothing is new: %+v", n)
	}
	if _, err := h.consumers.Order("w", queue.Drain); err != nil {
		t.Fatal(err)
	}
	if n := h.news(a); !n.Ordered || n.Order != queue.Drain || !slices.Equal(h.recalled, []string{"w"}) || h.ordered != 1 {
		t.Errorf("the order: %+v; recalled %v, %d", n, h.recalled, h.ordered)
	}
	if released, err := h.consumers.Release("w"); err != nil || released != 3 || h.Woken == 0 {
		t.Errorf("%d are released, %v; woken %d times", released, err, h.Woken)
	}
	if n := h.news(a); len(n.Revoked) != 3 || n.Revoked[0].Token.Sequence != picks[0].Token.Sequence || n.Revoked[0].Why != queue.RevokedOperator {
		t.Errorf("what was taken: %+v", n.Revoked)
	}
	h.reserve("w", 1)
	if released, err := h.consumers.Detach("w"); err != nil || released != 1 || h.Machine.Holds.Len() != 0 || h.consumers.Attends("w") {
		t.Errorf("it leaves: %d released, %v, %d held, attends %t", released, err, h.Machine.Holds.Len(), h.consumers.Attends("w"))
	}
	if n := h.news(a); !n.Over || n.Revoked != nil {
		t.Errorf("after it left: %+v", n)
	}
	if released, err := h.consumers.Detach("w"); err != nil || released != 0 {
		t.Errorf("it leaves again: %d, %v", released, err)
	}
	const many = 2*shell.SliceItems + 1
	h.insert(many)
	h.reserve("much", many)
	if released, err := h.consumers.Release("much"); err != nil || released != many {
		t.Errorf("%d of %d are released, %v", released, many, err)
	}
	h.Refuse = &queue.Error{Code: queue.CodeUnavailable}
	if _, err := h.consumers.Attach("w", ""); queue.CodeOf(err) != queue.CodeUnavailable {
		t.Errorf("attaching to a shard that cannot work: %v", err)
	}
}

// A consumer that is away for longer than the grace loses its reservations once that is on the disk; one that was heard
// of gets the grace again. The end of the server is no absence.
func TestLost(t *testing.T) {
	t.Parallel()
	h := enter(t)
	h.insert(9)
	lose := func() (more bool) {
		if err := shell.Change(h, func(m *machine.Machine, now queue.Time) error {
			more = h.consumers.Lose(m, now, machine.TickMost)
			return nil
		}); err != nil {
			h.T.Log(err)
		}
		return more
	}
	for _, name := range []string{"away", "heard", "stays"} {
		h.reserve(name, 2)
		a := h.attach(name)
		if name != "stays" {
			a.Close(true)
		}
	}
	h.attach("idle").Close(true)
	if !h.consumers.Attends("away") || h.Machine.Roster.Gone != 3 {
		t.Fatalf("%d are away", h.Machine.Roster.Gone)
	}
	h.Clock = h.Clock.Add(time.Minute - 1)
	if lose(); h.Machine.Holds.Len() != 6 {
		t.Fatalf("%d are held before the grace is over", h.Machine.Holds.Len())
	}
	h.Machine.Roster.ByName["heard"].Seen = h.Clock
	h.Clock++
	h.Fail = errors.New("no room")
	if lose(); h.Machine.Holds.Len() != 6 || h.Machine.Roster.Lost != 0 {
		t.Fatalf("%d are held after the commit failed", h.Machine.Holds.Len())
	}
	if lose(); h.Machine.Holds.Len() != 4 || h.Machine.Roster.Lost != 2 {
		t.Errorf("%d are held, %d lost; want 4 and 2", h.Machine.Holds.Len(), h.Machine.Roster.Lost)
	}
	lose()
	if h.consumers.Attends("away") || h.consumers.Attends("idle") || !h.consumers.Attends("heard") {
		t.Error("who is away for good is known, or who was heard of is not")
	}
	h.Clock = h.Clock.Add(time.Minute)
	if lose(); h.Machine.Holds.Len() != 2 {
		t.Errorf("%d are held, want those of the one that stays", h.Machine.Holds.Len())
	}
	last := h.attach("last")
	h.consumers.Close()
	h.consumers.Stir()
	if n := h.news(last); !n.Over || n.Hello {
		t.Errorf("the queue closes: %+v", n)
	}
	if last.Close(true); h.Machine.Roster.ByName["last"] != nil {
		t.Error("a consumer whose stream the server ended is missed")
	}
}

// An order needs a consumer, and counts once it is durable. Given twice it is given once. It is forgotten an hour after its consumer was
// heard of last.
func TestOrders(t *testing.T) {
	t.Parallel()
	h := enter(t)
	act := queue.Act{Action: "consumer.drain", Target: "consumer w"}
	if _, err := h.consumers.Order("w", queue.Quiet, act); queue.CodeOf(err) != queue.CodeUnknownConsumer || len(h.Commits) != 0 {
		t.Fatalf("an order to no one: %v, %d commits", err, len(h.Commits))
	}
	h.waits["w"] = true
	h.Fail = errors.New("no room")
	if _, err := h.consumers.Order("w", queue.Quiet, act); err == nil || h.Machine.Roster.OrderOf("w") != queue.NoOrder {
		t.Fatalf("the commit failed, %v, and the order is %v", err, h.Machine.Roster.OrderOf("w"))
	}
	for range 2 {
		c, err := h.consumers.Order("w", queue.Quiet, act)
		if err != nil || c.Order != queue.Quiet || h.Machine.Roster.Ordered != 1 {
			t.Fatalf("%v: %+v", err, c)
		}
	}
	if len(h.Commits) != 2 {
		t.Errorf("%d commits, want one for each act", len(h.Commits))
	}
	h.Clock = h.Clock.Add(time.Hour)
	if h.consumers.Tidy(); h.Machine.Roster.OrderOf("w") != queue.Quiet {
		t.Error("the order is gone before an hour is over")
	}
	h.Clock++
	if h.consumers.Tidy(); h.Machine.Roster.OrderOf("w") != queue.NoOrder {
		t.Error("the order is kept for ever")
	}
}

// Consumers are listed by name, page by page, each once: those that hold something, are attached or away, or have an
// order. The chunks of one consumer come in pages too.
func TestListAndGet(t *testing.T) {
	t.Parallel()
	h := enter(t)
	h.insert(10)
	h.reserve("b", 5)
	h.reserve("d", 1)
	h.attach("a")
	h.attach("d").Close(true)
	h.waits["e"] = true // it waits only, and is not listed
	var names []string
	for from, more := "", true; more; more = from != "" {
		page, next, err := h.consumers.List(t.Context(), from, 2)
		if err != nil || len(page) > 2 {
			t.Fatal(page, err)
		}
		for _, c := range page {
			names = append(names, fmt.Sprintf("%s %t %d", c.Name, c.Attached, c.Reserved))
		}
		from = next
	}
	if want := []string{"a true 0", "b false 5", "d false 1"}; !slices.Equal(names, want) {
		t.Errorf("the list is %v, want %v", names, want)
	}
	var indexes []uint32
	for after, more := (reserver.Place{}), true; more; {
		var held []queue.HeldChunk
		var err error
		if _, held, after, more, err = h.consumers.Get("b", after, 2); err != nil || len(held) > 2 || len(held) == 0 {
			t.Fatal(held, err)
		}
		for i := range held {
			indexes = append(indexes, held[i].Chunk.Index)
		}
	}
	if slices.Sort(indexes); len(slices.Compact(indexes)) != 5 {
		t.Errorf("b holds %v, want five chunks", indexes)
	}
	if _, _, _, _, err := h.consumers.Get("x", reserver.Place{}, 1); queue.CodeOf(err) != queue.CodeUnknownConsumer {
		t.Errorf("no such consumer: %v", err)
	}
	if info, _, _, _, err := h.consumers.Get("e", reserver.Place{}, 1); err != nil || info.Reserved != 0 {
		t.Errorf("one that waits is known: %v", err)
	}
}

// Reservations are listed across consumers, by age or by deadline, as the filter says, page by page.
func TestReservations(t *testing.T) {
	t.Parallel()
	h := enter(t)
	first := h.insert(3)
	h.insert(4)
	for i, name := range []string{"x", "y", "x", "z", "x"} {
		h.Clock += queue.Time(i)
		h.reserve(name, 1)
	}
	list := func(f queue.HeldFilter) (got []string) {
		t.Helper()
		for after, more := (HeldPlace{}), true; more; {
			var page []queue.HeldChunk
			var err error
			if page, after, more, err = h.reservations.List(t.Context(), &f, after, 2); err != nil || len(page) > 2 {
				t.Fatal(page, err)
			}
			for i := range page {
				got = append(got, fmt.Sprintf("%s%d", page[i].Consumer, page[i].Reserved-shelltest.Start))
			}
		}
		return got
	}
	for _, x := range []struct {
		filter queue.HeldFilter
		want   []string
	}{
		{queue.HeldFilter{}, []string{"x0", "y1", "x3", "z6", "x10"}},
		{queue.HeldFilter{ByDeadline: true}, []string{"x0", "y1", "x3", "z6", "x10"}},
		{queue.HeldFilter{Consumer: "x"}, []string{"x0", "x3", "x10"}},
		{queue.HeldFilter{Submission: first}, []string{"x0", "y1", "x3"}},
		{queue.HeldFilter{Consumer: "z", Submission: first}, nil},
		{queue.HeldFilter{Submission: 77}, nil},
		{queue.HeldFilter{Overdue: true}, nil},
	} {
		if got := list(x.filter); !slices.Equal(got, x.want) {
			t.Errorf("%+v lists %v, want %v", x.filter, got, x.want)
		}
	}
}

// An operator takes a chunk back: it is offered again once the act is on the disk, and its consumer is notified. Until then the consumer may
// come first. A commit that fails leaves it held.
func TestTakeBack(t *testing.T) {
	t.Parallel()
	h := enter(t)
	h.insert(2)
	a := h.attach("w")
	h.news(a)
	picks := h.reserve("w", 2)
	id := func(i int) queue.ChunkID {
		return queue.ChunkID{Submission: picks[i].R.ID, Index: picks[i].Token.Index}
	}
	act := queue.Act{Action: "reservation.release", Target: "chunk"}
	h.Fail = errors.New("no room")
	if _, err := h.reservations.Release(id(0), "it hangs", act); err == nil || h.Machine.Holds.Len() != 2 {
		t.Fatalf("the commit failed: %v, %d held", err, h.Machine.Holds.Len())
	}
	held, err := h.reservations.Release(id(0), "it hangs", act)
	if err != nil || held.Consumer != "w" || h.Machine.Holds.Len() != 1 || h.Machine.Stats.Released != 1 {
		t.Fatalf("%v: %+v, %d held", err, held, h.Machine.Holds.Len())
	}
	if n := h.news(a); len(n.Revoked) != 1 || n.Revoked[0].Token.Sequence != picks[0].Token.Sequence {
		t.Errorf("the consumer hears of %+v", n.Revoked)
	}
	if _, err := h.reservations.Release(id(0), "", act); queue.CodeOf(err) != queue.CodeConflict {
		t.Errorf("once more: %v", err)
	}
	c, err := h.Begin(func(m *machine.Machine, now queue.Time) error { // the consumer completes in the batch before
		m.Mark(picks[1].Token.Slot)
		m.Encode(now).Complete([]journal.Completed{{Seq: picks[1].R.Seq, Index: picks[1].Token.Index, Epoch: picks[1].Token.Epoch,
			Sequence: picks[1].Token.Sequence}})
		return nil
	})
	if err != nil || c == nil {
		t.Fatal(c, err)
	}
	if _, err := h.reservations.Release(id(1), "", act); queue.CodeOf(err) != queue.CodeConflict {
		t.Errorf("its consumer is completing it: %v", err)
	}
}

// Streams are bounded.
func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	h := enter(t)
	h.Machine.Roster.Attached = maxAttached
	if _, err := h.consumers.Attach("w", ""); queue.CodeOf(err) != queue.CodeOverloaded {
		t.Errorf("one too many: %v", err)
	}
}
