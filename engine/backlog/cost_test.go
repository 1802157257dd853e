package backlog

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// filled is a backlog as large as wished: ids in order, priorities 0..9, and three keys: mode (1 % is "preview"), company (100
// submissions each, at most 10^4 values) and kind (100 values).
func filled(submissions int, chunks uint32) *Backlog {
	b := New()
	for i := range int64(submissions) {
		mode := queue.StringValue("batch")
		if i%100 == 7 {
			mode = queue.StringValue("preview")
		}
		b.add(chunks, i%10, is("company", i%int64(max(1, submissions/100))), is("kind", i%100), queue.MetaEntry{Key: "mode", Value: mode})
	}
	return b
}

type costCase struct {
	name   string
	branch strategy.Branch
	before func(b *Backlog, rnd *rand.Rand) // brings the backlog into the state in which picks are expensive elsewhere
	hold   int                              // how many chunks stay in flight
	most   float64                          // submissions examined per Take
	none   bool                             // nothing is to be found
}

func costCases() []costCase {
	byCompany := func(max uint32) strategy.Limit { return strategy.Limit{Key: "company", Max: max} }
	byKind := func(max uint32) strategy.Limit { return strategy.Limit{Key: "kind", Max: max} }
	preview := strategy.Select("mode", queue.StringValue("preview"))
	return []costCase{
		{name: "Random", branch: filtered(strategy.Random), hold: 1000, most: 2},
		{name: "OldestFirst", branch: filtered(strategy.OldestFirst), hold: 1000, most: 1},
		{name: "NewestFirst", branch: filtered(strategy.NewestFirst), hold: 1000, most: 1},
		{name: "CustomPriority", branch: filtered(strategy.CustomPriority), hold: 1000, most: 1},
		{name: "SelectOnly-1pc-Random", branch: filtered(strategy.Random, preview), hold: 100, most: 2},
		{name: "SelectOnly-1company-Random", branch: filtered(strategy.Random, equals("company", 3)), hold: 100, most: 2},
		{name: "SelectOnly-nested-Oldest", branch: filtered(strategy.OldestFirst, equals("kind", 7), preview), hold: 100, most: 1},
		{name: "SelectOnly-absent", branch: filtered(strategy.Random, equals("company", -1)), none: true},
		{name: "SelectOnly-contradiction", branch: filtered(strategy.Random, equals("kind", 1), preview), none: true},
		{name: "Oldest-reserved-at-head", branch: filtered(strategy.OldestFirst), before: reserveTenth, hold: 1000, most: 1},
		{name: "Priority-reserved-at-head", branch: filtered(strategy.CustomPriority), before: reserveTenth, hold: 1000, most: 1},
		{name: "Max-1000-Random", branch: limited(strategy.Random, byCompany(1000)), hold: 1000, most: 4},
		{name: "Max-10-Oldest", branch: limited(strategy.OldestFirst, byCompany(10)), hold: 50, most: 1},
		{name: "Max-1-Random-saturated", branch: limited(strategy.Random, byCompany(1)), before: saturate(2), hold: 1, most: 4},
		{name: "Max-1-Oldest-saturated", branch: limited(strategy.OldestFirst, byCompany(1)), before: saturate(2), hold: 1, most: 1},
		{name: "Max-1-Priority-all-saturated", branch: limited(strategy.CustomPriority, byCompany(1)), before: saturate(0), none: true},
		{name: "Fewest-Random", branch: byFewestOf("company", filtered(strategy.Random)), hold: 1000, most: 3},
		{name: "Fewest-Oldest", branch: byFewestOf("company", filtered(strategy.OldestFirst)), hold: 1000, most: 1},
		{name: "Max-nested-Random", branch: limited(strategy.Random, byCompany(4), byKind(5)), hold: 20, most: 30},
		{name: "Max-nested-Oldest", branch: limited(strategy.OldestFirst, byCompany(4), byKind(5)), hold: 20, most: 30},
	}
}

// reserveTenth takes all chunks of a tenth of the submissions, in their order.
func reserveTenth(b *Backlog, rnd *rand.Rand) {
	for _, order := range []strategy.Order{strategy.OldestFirst, strategy.CustomPriority} {
		v := finished(b, filtered(order))
		for range b.Available() / 20 {
			b.Take(v, rnd)
		}
	}
}

// saturate puts one chunk of every company but the last few in flight.
func saturate(but int) func(*Backlog, *rand.Rand) {
	return func(b *Backlog, rnd *rand.Rand) {
		v := finished(b, limited(strategy.NewestFirst, strategy.Limit{Key: "company", Max: 1}))
		values := 0
		b.Values.Each("company", func(ValueCount) bool { values++; return true })
		for range values - but {
			b.Take(v, rnd)
		}
	}
}

// cycle takes a chunk and puts the oldest held one back.
type cycle struct {
	b    *Backlog
	v    *View
	rnd  *rand.Rand
	held []queueChunk
	next int
	hold int
}

type queueChunk struct {
	s     *Submission
	index uint32
}

func (c *cycle) once() bool {
	s, index, ok := c.b.Take(c.v, c.rnd)
	if !ok {
		return false
	}
	if len(c.held) < c.hold {
		c.held = append(c.held, queueChunk{s, index})
		return true
	}
	old := &c.held[c.next]
	c.b.Land(old.s)
	c.b.PutBack(old.s, old.index)
	*old = queueChunk{s, index}
	c.next = (c.next + 1) % len(c.held)
	return true
}

func (test *costCase) cycle(b *Backlog) *cycle {
	rnd := rand.New(rand.NewPCG(1, 50))
	if test.before != nil {
		test.before(b, rnd)
	}
	return &cycle{b: b, v: finished(b, test.branch), rnd: rnd, hold: max(1, test.hold)}
}

// How many submissions a Take looks at depends on the kind of strategy only: not on the backlog, not on chunks reserved
// at its head, not on how many values are saturated. Nothing is found without looking at anything.
func TestExaminedDoesNotGrow(t *testing.T) {
	t.Parallel()
	sizes := []int{2_000, 40_000}
	if testing.Short() {
		sizes = sizes[:1]
	}
	for _, size := range sizes {
		for _, test := range costCases() {
			t.Run(fmt.Sprint(size, "/", test.name), func(t *testing.T) {
				t.Parallel()
				c := test.cycle(filled(size, 10))
				const takes = 4000
				before := c.b.Examined()
				for range takes {
					if found := c.once(); found == test.none {
						t.Fatalf("found something: %v, want %v", found, !test.none)
					}
				}
				if got := float64(c.b.Examined()-before) / takes; got > test.most {
					t.Errorf("%.2f submissions examined per Take among %d, want at most %v", got, size, test.most)
				}
			})
		}
	}
}

// Take, Land and PutBack allocate nothing in the long run.
func TestNoAllocation(t *testing.T) {
	for _, test := range costCases() {
		c := test.cycle(filled(2000, 10))
		for range 4000 {
			c.once()
		}
		if got := testing.AllocsPerRun(2000, func() { c.once() }); got > 0 {
			t.Errorf("%s: %v allocations per Take, Land and PutBack, want 0", test.name, got)
		}
	}
}

// Build looks at no more than it may, and so does the taking apart of a dropped view.
func TestSlicesAreBounded(t *testing.T) {
	t.Parallel()
	b := filled(3*dropSlice, 1)
	br := limited(strategy.Random, strategy.Limit{Key: "company", Max: 5})
	v := b.Views.Of(&br)
	calls := 0
	for ; !v.Build(100); calls++ {
	}
	if want := 3*dropSlice/100 - 1; calls < want || calls > want+1 {
		t.Errorf("%d calls of 100 for %d submissions, want %d", calls, 3*dropSlice, want)
	}
	if got := b.Views.Drop(0); got != 1 {
		t.Errorf("%d views dropped, want 1", got)
	}
	members := 0
	b.Each(func(s *Submission) bool { members += len(s.members); return true })
	if want := 2 * dropSlice; members < want || members > want+len(v.gates) {
		t.Errorf("%d submissions are left in the dropped view, want %d", members, want)
	}
	if _, _, ok := b.Take(v, nil); ok || !v.Build(1) || !v.Built() {
		t.Error("a dropped view offers something or wants to be built")
	}
	if again := b.Views.Of(&br); again == v || again.Built() {
		t.Error("the view of the branch after the drop is the dropped one")
	}
	for range 100 {
		if b.Views.Sweep(dropSlice) {
			return
		}
	}
	t.Error("the dropped view is never swept")
}

// The least recently used views go first, and none that is watched.
func TestDropViewsByUse(t *testing.T) {
	t.Parallel()
	b := filled(10, 5)
	branches := []strategy.Branch{filtered(strategy.Random), filtered(strategy.OldestFirst), filtered(strategy.NewestFirst), filtered(strategy.CustomPriority)}
	var views []*View
	for i := range branches {
		views = append(views, finished(b, branches[i]))
	}
	views[0].Watch = true
	b.Take(views[1], nil)
	if got := b.Views.Drop(2); got != 2 {
		t.Errorf("%d views dropped, want 2", got)
	}
	for i, kept := range []bool{true, true, false, false} {
		if got := b.Views.byKey[branches[i].Key()] == views[i]; got != kept {
			t.Errorf("view %d is kept: %v, want %v", i, got, kept)
		}
	}
	if got := b.Views.Drop(0); got != 1 {
		t.Errorf("%d views dropped, want 1: the other is watched", got)
	}
}

// A view is built from the rarest of its filters, whichever comes first.
func TestBuildFromTheRarestFilter(t *testing.T) {
	t.Parallel()
	b := filled(2000, 1)
	common, rare := strategy.Select("mode", queue.StringValue("batch")), equals("kind", 3)
	for _, br := range []strategy.Branch{filtered(strategy.Random, common, rare), filtered(strategy.OldestFirst, rare, common)} {
		if v := b.Views.Of(&br); !v.Build(20) {
			t.Errorf("%s is not built after 20 submissions, although only 20 have kind=3", br.Key())
		}
	}
}
