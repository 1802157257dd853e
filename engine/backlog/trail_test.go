package backlog

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/strategy"
)

// image is all that a later call can depend on: counters, cursors, exceptions in the order of their piles, and the places
// of entries in samplers. How the heaps of ordered views lie does not matter, as their order is total.
func (b *Backlog) image() string {
	var out strings.Builder
	fmt.Fprintln(&out, b.available, b.putBack, b.examined, len(b.oldest), len(b.shown), len(b.stirred))
	b.Each(func(s *Submission) bool {
		ahead := s.ahead.appendKeys(nil)
		slices.Sort(ahead)
		fmt.Fprintln(&out, s.id, s.p, s.l, s.available, s.inFlight, s.upcoming, s.upcomingAt, putBackOf(s), ahead)
		for _, m := range s.members {
			if b.views[m.view].order != strategy.Random {
				m.place = 0
			}
			fmt.Fprint(&out, " ", m)
		}
		return true
	})
	for _, t := range b.terms {
		if t != nil {
			fmt.Fprintln(&out, t.key.name, t.value, t.available, t.inFlight, t.all)
		}
	}
	for _, v := range b.views {
		if v == nil || v.state == dropped {
			continue
		}
		fmt.Fprintln(&out, v.key, v.size, v.Empty(), v.stirred, v.top.total, v.top.buckets)
		for i := range v.gates {
			if g := &v.gates[i]; !g.empty() {
				fmt.Fprintln(&out, i, g.total, g.buckets, len(g.heap), g.offered, g.isOpen())
			}
		}
	}
	return out.String()
}

// preview looks ahead through some branches: nothing changes, and what follows with the same seed is what was foreseen.
func (m *model) preview() {
	var views []*View
	for range 1 + m.r.IntN(3) {
		v := m.b.View(&m.branches[m.r.IntN(len(m.branches))])
		if m.r.IntN(3) > 0 {
			for !m.b.Build(v, 3) {
			}
		}
		views = append(views, v)
	}
	most, seed := 1+m.r.IntN(60), m.r.Uint64()
	before := m.b.image()
	draw := func() *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }
	foreseen := m.b.Preview(views, most, draw(), nil)
	if after := m.b.image(); after != before {
		m.fatalf("a preview of %d changed the backlog\nfrom %s\nto %s", most, before, after)
	}
	if again := m.b.Preview(views, most, draw(), nil); !slices.Equal(again, foreseen) {
		m.fatalf("a second preview with the same seed gives\n%v, want\n%v", again, foreseen)
	}
	if m.r.IntN(4) > 0 {
		return
	}
	rnd := draw()
	var real []Pick
	for i, v := range views {
		for len(real) < most {
			s, index, ok := m.b.Take(v, rnd)
			if !ok {
				break
			}
			m.of(s).state[index] = held
			real = append(real, Pick{s, index, i})
		}
	}
	if !slices.Equal(real, foreseen) {
		m.fatalf("foreseen was\n%v, picked is\n%v", foreseen, real)
	}
}

// A million picks are foreseen and the snapshots, the piles and the numbers stay what they were.
func TestPreviewsLeaveNothing(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 5))
	b := New()
	for i := range 300 {
		b.add(uint32(1+i%40), int64(i%7), is("company", int64(i%9)), is("host", int64(i%4)))
	}
	branches := []strategy.Branch{
		limited(strategy.Random, strategy.Limit{Key: "company", Max: 3}, strategy.Limit{Key: "host", Max: 5}),
		filtered(strategy.OldestFirst, filter("host", 2)),
		filtered(strategy.Random),
	}
	var views []*View
	for i := range branches {
		views = append(views, finished(b, branches[i]))
	}
	for i := range 1500 { // some taken, some put back, some ahead of the cursors
		s, index, _ := b.Take(views[1+i%2], rnd)
		b.Land(s)
		if i%3 > 0 {
			b.PutBack(s, index)
		}
		b.Withdraw(s, uint32(i*7)%s.Chunks(), true)
	}
	snapshots := func() (all []byte) {
		b.Each(func(s *Submission) bool {
			all = s.AppendSnapshot(all, nil)
			return true
		})
		return all
	}
	image, bytes := b.image(), string(snapshots())
	previews := 1_000_000 / 20
	if testing.Short() {
		previews = 2000
	}
	var picks []Pick
	for i := range previews {
		if picks = b.Preview(views, 20, rnd, picks[:0]); len(picks) != 20 {
			t.Fatalf("preview %d gives %d picks, want 20", i, len(picks))
		}
	}
	if got := b.image(); got != image {
		t.Errorf("the backlog after %d previews is\n%s\nwant\n%s", previews, got, image)
	}
	if got := string(snapshots()); got != bytes {
		t.Errorf("the snapshots after %d previews differ: %x, want %x", previews, got, bytes)
	}
}
