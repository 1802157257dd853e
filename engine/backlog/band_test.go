package backlog

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// numbered are branches of few shapes, each with many numbers.
func numbered(r *rand.Rand) (list []strategy.Branch) {
	for _, order := range []strategy.Order{strategy.Random, strategy.OldestFirst, strategy.CustomPriority} {
		var filters []strategy.Filter
		if r.IntN(2) == 0 {
			filters = []strategy.Filter{equals("b", r.Int64N(4))}
		}
		key := []string{"a", "b", "c"}[r.IntN(3)]
		for _, most := range r.Perm(9)[:3+r.IntN(5)] {
			br := limited(order, strategy.Limit{Key: key, Max: uint32(most + 1)})
			br.Filters = filters
			list = append(list, br)
		}
	}
	return append(list, limited(strategy.Random, strategy.Limit{Key: "a", Max: 1<<32 - 1}))
}

// Views that only differ in a number act as the model does, while numbers come and go: picks, windows and limits.
func TestNumbersTogether(t *testing.T) {
	t.Parallel()
	seeds := uint64(60)
	if testing.Short() {
		seeds = 12
	}
	shared := 0
	for seed := range seeds {
		m := newModel(t, seed, numbered(rand.New(rand.NewPCG(seed, 71))))
		for range 40 {
			m.live(40, 6+int(seed%4)*8, seed)
			for i := range m.branches {
				if v := m.b.Views.byKey[m.branches[i].Key()]; v != nil {
					m.auditWindow(&m.branches[i], v)
					m.auditSaturated(&m.branches[i], v)
					shared += len(v.bands.views) - 1
				}
			}
			if m.r.IntN(3) == 0 { // the views go one by one
				for range m.r.IntN(4) {
					m.b.Views.DropIdle(false, NotIdle)
				}
				m.audit()
			}
		}
		m.leaveNothing()
	}
	if shared == 0 {
		t.Error("no view shared a base with another one")
	}
}

// auditWindow checks that the window of an ordered view has the submissions that the model would take, in their order.
func (m *model) auditWindow(br *strategy.Branch, v *View) {
	if !v.Ordered() || !v.Built() {
		return
	}
	var want []*Submission
	for _, x := range m.subs {
		if m.admitted(br, x) {
			want = append(want, x.s)
		}
	}
	slices.SortFunc(want, func(x, y *Submission) int {
		if m.before(br.Order, m.of(x), m.of(y)) {
			return -1
		}
		return 1
	})
	want = want[:min(len(want), 5)]
	if got := m.b.Window([]*View{v}, 5, nil, m.rnd, nil); !slices.Equal(got, want) {
		m.fatalf("the window of %s has %d submissions, want %d, or others", v.key, len(got), len(want))
	}
}

// auditSaturated checks that each value that the view calls saturated is at the limit of the view, or of an operator.
func (m *model) auditSaturated(br *strategy.Branch, v *View) {
	v.Saturated(func(s queue.Saturated) bool {
		want := m.b.Values.Settings(s.Key, s.Value).Limit
		if s.Key == br.Limits[0].Key {
			want = min(want, br.Limits[0].Max)
		}
		if s.InFlight != m.inFlight(s.Key, s.Value) || s.Limit != want || s.InFlight < want {
			m.fatalf("%s says that %v is saturated; its limit is %d", v.key, s, want)
		}
		return true
	})
}

// Random draws in proportion to available chunks from all bands that are open to the view, and from no other.
func TestRandomIsUniformOverBands(t *testing.T) {
	t.Parallel()
	const draws = 150_000
	b, rnd := New(), rand.New(rand.NewPCG(1, 72))
	var subs []*Submission
	for i := range int64(40) {
		subs = append(subs, b.add(uint32(20+i*i), 0, is("a", i%20)))
	}
	var views []*View
	for _, most := range []uint32{6, 2, 9, 4} {
		views = append(views, finished(b, limited(strategy.Random, strategy.Limit{Key: "a", Max: most})))
	}
	for value := range int64(20) { // value i has i/2 in flight
		for range value / 2 {
			b.Take(finished(b, filtered(strategy.OldestFirst, equals("a", value))), nil)
		}
	}
	for _, v := range views {
		got, want := make([]float64, len(subs)), make([]float64, len(subs))
		total := 0.0
		for i, s := range subs {
			if uint32(i%20/2) < v.most {
				want[i] = float64(s.Available())
				total += want[i]
			}
		}
		for i := range want {
			want[i] *= draws / total
		}
		for range draws {
			s, index, ok := b.Take(v, rnd)
			if !ok {
				t.Fatal("nothing found")
			}
			got[s.Seq()-1]++
			b.Land(s)
			b.PutBack(s, index)
		}
		chiSquare(t, v.key, got, want)
	}
}

// A base takes as many numbers as a pick may look at; the next number begins another base. Numbers that are gone
// leave nothing behind.
func TestBandsAreBounded(t *testing.T) {
	t.Parallel()
	b, rnd := New(), rand.New(rand.NewPCG(1, 73))
	for i := range int64(50) {
		b.add(1000, 0, is("a", i))
	}
	for most := range uint32(3 * maxBands) {
		v := finished(b, limited(strategy.Random, strategy.Limit{Key: "a", Max: most + 1}))
		for range 20 {
			b.Take(v, rnd)
		}
	}
	bases := map[*base]int{}
	for v := range b.bases.views() {
		bases[v.base]++
	}
	for on, n := range bases {
		if n != maxBands {
			t.Errorf("a base has %d views, want %d", n, maxBands)
		}
		if on.number == 0 {
			on.bands.views[0].Watch = true
		}
	}
	if len(bases) != 3 {
		t.Errorf("there are %d bases, want 3", len(bases))
	}
	b.Views.Drop(0)
	for !b.Views.Sweep(10) {
	}
	for v := range b.bases.views() {
		if v.most != 1 || v.bands.on || v.groups[0].top.next != nil {
			t.Errorf("of all numbers there is left %s, with bands: %v", v.key, v.bands.on)
		}
	}
	if got := len(b.Views.baseOf); got > 1 {
		t.Errorf("%d bases can be found, want one at most", got)
	}
}

// A view with a new number is built in slices, without a look at submissions; slices also clean up after a number that
// goes.
func TestNumbersComeInSlices(t *testing.T) {
	t.Parallel()
	b, rnd := New(), rand.New(rand.NewPCG(1, 74))
	const n = 10_000
	for i := range int64(n) {
		b.add(100, 0, is("a", i))
	}
	three := finished(b, limited(strategy.OldestFirst, strategy.Limit{Key: "a", Max: 3}))
	for range 3 * n / 2 {
		b.Take(three, rnd)
	}
	for _, most := range []uint32{1, 2, 5} {
		br := limited(strategy.OldestFirst, strategy.Limit{Key: "a", Max: most})
		v, slices := b.Views.Of(&br), 1
		for ; !v.Build(100); slices++ {
		}
		if want := n / 100; slices < want || slices > want+2 {
			t.Errorf("the view of %d is built in %d slices, want %d", most, slices, want)
		}
		if s, _, ok := b.Take(v, rnd); !ok || s.inFlight > most {
			t.Errorf("the view of %d gave %v", most, s)
		}
	}
	three.Watch = true
	b.Views.Drop(0)
	slices := 1
	for ; !b.Views.Sweep(100); slices++ {
	}
	if want := (n - dropSlice) / 100; slices < want || slices > want+2 || three.bands.on || len(three.bands.views) != 1 {
		t.Errorf("after %d slices, want %d, the last number has bands: %v", slices, want, three.bands.on)
	}
	if got := len(b.Values.list[0].gates[0]); got != 1 {
		t.Errorf("a value tells %d gates, want 1", got)
	}
}
