package backlog

import (
	"slices"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// A window has, of each of its views in turn, the submissions that the model would take from: those of an ordered view in their order, those
// of a Random one in some order; none twice, none that is to be skipped, and no more than was asked for. The entries
// that were in the list stay in front.
func TestWindows(t *testing.T) {
	t.Parallel()
	var ordered, random []strategy.Branch
	for _, br := range modelBranches() {
		if br.Order == strategy.Random {
			random = append(random, br)
		} else {
			ordered = append(ordered, br)
		}
	}
	for seed := range uint64(30) {
		for _, branches := range [][]strategy.Branch{ordered, random} {
			m := newModel(t, seed, branches)
			for range 30 {
				m.live(30, 30, seed)
				i, j := m.r.IntN(len(branches)), m.r.IntN(len(branches))
				first, second := m.b.Views.Of(&branches[i]), m.b.Views.Of(&branches[j])
				if first != nil && second != nil && first.Built() && second.Built() {
					m.checkWindow([]*View{first, second}, []*strategy.Branch{&branches[i], &branches[j]})
				}
			}
			m.leaveNothing()
		}
	}
}

func (m *model) checkWindow(views []*View, branches []*strategy.Branch) {
	m.t.Helper()
	left := m.r.IntN(3) // submissions whose number has this remainder are skipped
	skip := func(s *Submission) bool { return int(s.Seq())%3 == left }
	var want []*Submission
	for _, br := range branches {
		var more []*Submission
		for _, x := range m.subs {
			if m.admitted(br, x) && !skip(x.s) && !slices.Contains(want, x.s) {
				more = append(more, x.s)
			}
		}
		slices.SortFunc(more, func(x, y *Submission) int {
			if m.before(br.Order, m.of(x), m.of(y)) {
				return -1
			}
			return 1
		})
		want = append(want, more...)
	}
	most := m.r.IntN(len(want) + 3)
	got := m.b.Window(views, most, skip, m.rnd, []*Submission{nil, nil})
	if len(got) < 2 || got[0] != nil || got[1] != nil {
		m.fatalf("what was in the list is gone")
	}
	got = got[2:]
	if branches[0].Order != strategy.Random {
		if want = want[:min(most, len(want))]; !slices.Equal(got, want) {
			m.fatalf("the window of %s and %s has %d submissions, want %d, or others", views[0].key, views[1].key, len(got), len(want))
		}
		return
	}
	for i, s := range got {
		if !slices.Contains(want, s) || slices.Contains(got[:i], s) {
			m.fatalf("the window of %s and %s has a submission that neither may give, or twice", views[0].key, views[1].key)
		}
	}
	whole := views[0].size <= 2*most && views[1].size <= 2*(most-len(want)) // small ones are gone through, of others a draw may miss some
	if len(got) > most || whole && len(got) < min(most, len(want)) {
		m.fatalf("the window of %s and %s has %d submissions, want %d of %d", views[0].key, views[1].key, len(got), most, len(want))
	}
}

// TakeOf takes from the given submission, by the first view that may give it, and from no other; a view that was
// dropped gives nothing.
func TestTakeOf(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		m := newModel(t, seed, modelBranches())
		for range 30 {
			m.live(20, 20, seed)
			i, j := m.r.IntN(len(m.branches)), m.r.IntN(len(m.branches))
			views := []*View{m.b.Views.Of(&m.branches[i]), m.b.Views.Of(&m.branches[j])}
			if slices.Contains(views, nil) || !views[0].Built() || !views[1].Built() {
				continue
			}
			for _, x := range m.subs {
				want := -1
				for at, br := range []int{i, j} {
					if want < 0 && m.admitted(&m.branches[br], x) {
						want = at
					}
				}
				index, by, ok := m.b.TakeOf(views, x.s, m.rnd)
				switch {
				case ok != (want >= 0):
					m.fatalf("TakeOf by %s or %s: %v, want %v", views[0].key, views[1].key, ok, want >= 0)
				case ok && (by != views[want] || x.state[index] != free):
					m.fatalf("TakeOf by %s or %s: chunk %d by %s, want one that is free, by view %d", views[0].key, views[1].key, index, by.key, want)
				case ok:
					m.taken(x)
					m.b.Land(x.s)
					m.b.PutBack(x.s, index)
				}
			}
		}
		for range 200 { // until all are gone
			m.b.Views.DropIdle(false, NotIdle)
		}
		m.leaveNothing()
	}
	b := New()
	s := b.add(3, 0, is("a", 1))
	v := finished(b, filtered(strategy.OldestFirst))
	if _, by, ok := b.TakeOf([]*View{v}, s, nil); !ok || by != v {
		t.Fatalf("TakeOf by a view that may: %v", ok)
	}
	for v.state != dropped {
		b.Views.DropIdle(false, NotIdle)
		b.Views.DropIdle(false, 0)
	}
	if _, _, ok := b.TakeOf([]*View{v}, s, nil); ok {
		t.Error("a view that was dropped gave a chunk")
	}
}

// A submission tells its value of a key, the chunks in flight with it, and its limit; of a key that it has not,
// nothing.
func TestValueOfASubmission(t *testing.T) {
	t.Parallel()
	b := New()
	s := b.add(3, 0, is("a", 7))
	b.add(1, 0, is("b", 1))
	b.Values.Set("a", queue.IntValue(7), queue.ValueSettings{Limit: 5})
	b.Take(finished(b, filtered(strategy.OldestFirst)), nil)
	for key, want := range map[queue.MetaKey]bool{"a": true, "b": false, "nowhere": false} {
		value, inFlight, limit, has := s.Value(b.Key(key))
		if has != want || has && (value != queue.IntValue(7) || inFlight != 1 || limit != 5) || !has && limit != queue.NoLimit {
			t.Errorf("%s: %v, %d in flight, limit %d, %v", key, value, inFlight, limit, has)
		}
	}
}

// While a view says that nothing has changed, an older window of it has all submissions of a new one, in the same
// order. So scores computed from the older window may be used again.
func TestChangesTellOfWindows(t *testing.T) {
	t.Parallel()
	same, changed := 0, 0
	for seed := range uint64(20) {
		m := newModel(t, seed, modelBranches())
		m.live(60, 20, seed)
		for range 150 {
			i := m.r.IntN(len(m.branches))
			v := m.b.Views.Of(&m.branches[i])
			if v == nil || !v.Built() || !v.Ordered() || m.b.Rules.Halted() {
				m.live(5, 20, seed)
				continue
			}
			changes, before := v.Changes(), m.b.Window([]*View{v}, 1000, nil, m.rnd, nil)
			m.live(1, 20, seed)
			if v.state == dropped || m.b.Rules.Halted() {
				continue
			}
			after := m.b.Window([]*View{v}, 1000, nil, m.rnd, nil)
			if slices.Equal(before, after) {
				same++
				continue
			}
			changed++
			if still := slices.DeleteFunc(before, func(s *Submission) bool { return !slices.Contains(after, s) }); v.Changes() == changes && !slices.Equal(still, after) {
				m.fatalf("the window of %s has %d submissions and lacks some of them, and nothing is said to have changed", v.key, len(after))
			}
		}
	}
	if same == 0 || changed == 0 {
		t.Errorf("%d windows stayed the same and %d did not: both have to happen", same, changed)
	}
}

// A submission that operators' limits of two keys hold back, neither of which the view itself limits, is passed over until both have room.
func TestTwoLimitsOfOperators(t *testing.T) {
	t.Parallel()
	b := New()
	both := b.add(2, 0, is("a", 1), is("b", 1), is("d", 1), is("e", 1))
	first, second := b.add(1, 0, is("d", 1)), b.add(1, 0, is("e", 1))
	other := b.add(9, 0, is("a", 2), is("b", 2))
	for _, key := range []queue.MetaKey{"d", "e"} {
		b.Values.Set(key, queue.IntValue(1), queue.ValueSettings{Limit: 1})
	}
	v := finished(b, limited(strategy.OldestFirst, strategy.Limit{Key: "a", Max: 100}, strategy.Limit{Key: "b", Max: 100}))
	b.TakeChunk(first, 0)
	b.TakeChunk(second, 0)
	take := func(when string, want *Submission) {
		t.Helper()
		if s, _, ok := b.Take(v, nil); !ok || s != want {
			t.Errorf("%s: took from %v (%v), want %v", when, s, ok, want.ID())
		}
	}
	take("under both limits", other)
	b.Land(first)
	take("under the second limit", other)
	b.Land(second)
	take("when both have room", both)
	take("under its own", other)
}
