package backlog

import (
	"math/rand/v2"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// ruling is the ruling on a submission by the rules of its values and its own.
func (m *model) ruling(x *modelSub) queue.Ruling {
	ruling := x.own
	for _, e := range x.spec.Meta {
		ruling = max(ruling, m.rules[e])
	}
	return ruling
}

// amountOf is the one of the three amounts in which a submission's available chunks count.
func (m *model) amountOf(x *modelSub, ready, paused, blocked *uint64) *uint64 {
	switch max(m.ruling(x), m.whole) {
	case queue.PausedByRule:
		return paused
	case queue.BlockedByRule:
		return blocked
	}
	return ready
}

// modelDraft is a change that is being prepared, or reconciled.
type modelDraft struct {
	entry  queue.MetaEntry
	ruling queue.Ruling
	at     int
	phase  int // 0: it is prepared, 1: it can be made, 2: the other book is brought up
}

// goOn takes a draft a step further.
func (m *model) goOn() {
	d := m.draft
	switch d.phase {
	case 0:
		if d.at = m.b.Rules.Prepare(d.at, 1+m.r.IntN(4)); d.at == 0 {
			d.phase = 1
		}
	case 1:
		if d.phase, d.at = 2, -1; m.r.IntN(4) > 0 {
			m.set(d.entry, d.ruling)
		}
	default:
		if d.at = m.b.Rules.Reconcile(d.at, 1+m.r.IntN(4)); d.at == 0 {
			m.draft = nil
		}
	}
}

// reconciling says that submissions that came out of a rule may not be back in the heap of the oldest yet.
func (m *model) reconciling() bool { return m.draft != nil && m.draft.phase == 2 }

func (m *model) set(entry queue.MetaEntry, ruling queue.Ruling) {
	if m.rules == nil {
		m.rules = map[queue.MetaEntry]queue.Ruling{}
	}
	if m.rules[entry] = ruling; ruling == queue.Unruled {
		delete(m.rules, entry)
	}
	m.b.Rules.SetValue(entry, ruling)
}

// rule changes a ruling, or has submissions that came under one put aside.
func (m *model) rule() {
	ruling := queue.Ruling(m.r.IntN(3))
	entry := queue.MetaEntry{Key: []string{"a", "b", "c", "d"}[m.r.IntN(4)], Value: queue.IntValue(int64(m.r.IntN(5)))}
	switch m.r.IntN(10) {
	case 6, 7, 8, 9:
		if m.draft == nil {
			m.draft = &modelDraft{entry: entry, ruling: ruling, at: -1}
			m.b.Rules.Draft(entry, ruling)
			break
		}
		m.goOn()
	case 0:
		m.whole = ruling
		m.b.Rules.SetAll(ruling)
	case 1:
		if len(m.subs) > 0 {
			x := m.subs[m.r.IntN(len(m.subs))]
			x.own = ruling
			m.b.Rules.SetSubmission(x.s, ruling)
		}
	case 2:
		for from, more := -1, true; more; more = from != 0 {
			from = m.b.Shelve(entry, from, 1+m.r.IntN(5))
		}
	default:
		m.set(entry, ruling)
	}
	if m.draft == nil && m.b.Rules.chunks[0] != m.b.Rules.chunks[1] {
		m.fatalf("the books differ without a draft: %v", m.b.Rules.chunks)
	}
	m.auditTerms()
	var want Amounts
	for _, x := range m.subs {
		if x.shown {
			*m.amountOf(x, &want.Ready, &want.Paused, &want.Blocked) += uint64(x.count(free))
		}
	}
	if got := m.b.Rules.Amounts(); got != want {
		m.fatalf("there are %+v, want %+v", got, want)
	}
}

func (m *model) auditRuling(x *modelSub) {
	if got, want := x.s.Ruling(), max(m.ruling(x), m.whole); got != want {
		m.fatalf("rules say %d of submission %v (shown: %v), want %d", got, x.spec.ID, x.shown, want)
	}
}

// Once the submissions under a rule are shelved, a pick looks at as little as if they were not there, in every order,
// with limits and under Fair; and if it is not, a pick gives up at the bound, says so, and finds the same when it is
// let on.
func TestShelvedIsNotLookedAt(t *testing.T) {
	t.Parallel()
	const paused, others = 3000, 20
	rule := queue.MetaEntry{Key: "customer", Value: queue.IntValue(7)}
	for name, br := range map[string]strategy.Branch{
		"oldest": filtered(strategy.OldestFirst), "random": filtered(strategy.Random), "priority": filtered(strategy.CustomPriority),
		"limited": limited(strategy.OldestFirst, strategy.Limit{Key: "mode", Max: 500}),
		"cells":   limited(strategy.OldestFirst, strategy.Limit{Key: "mode", Max: 500}, strategy.Limit{Key: "customer", Max: 600}),
		"others":  limited(strategy.Random, strategy.Limit{Key: "mode", Max: 500}, strategy.Limit{Key: "x", Max: 600}),
		"fair":    fairly("mode", strategy.OldestFirst),
	} {
		b, rnd := New(), rand.New(rand.NewPCG(3, 4))
		for i := range paused + others {
			customer := int64(7)
			if i >= paused {
				customer = 8
			}
			b.Show(b.Insert(Spec{
				ID: queue.SubmissionID(i + 1), Seq: uint32(i + 1), Chunks: 3, Key: OrderKey(3, 1),
				Meta: queue.Meta{{Key: "customer", Value: queue.IntValue(customer)}, {Key: "mode", Value: queue.IntValue(int64(i % 3))}},
			}))
		}
		v := finished(b, br)
		b.Rules.SetValue(rule, queue.PausedByRule)
		b.Allow(100)
		for range 20 { // limits of the ruled key shut at once; the others have much to move
			if _, _, ok := b.Take(v, rnd); ok || !b.Tired() {
				break
			}
			b.Allow(100)
		}
		b.Allow(0)
		for from, more := -1, true; more; more = from != 0 {
			from = b.Shelve(rule, from, 97)
		}
		for taken := range 3*others - 1 {
			before := b.Examined()
			s, _, ok := b.Take(v, rnd)
			if !ok || s.ID() <= paused {
				t.Fatalf("%s: take %d gave %v, %v; want one of those that no rule covers", name, taken, s, ok)
			}
			if looked := b.Examined() - before; looked > 40 {
				t.Errorf("%s: take %d looked at %d submissions; want a few, as those under the rule are put aside", name, taken, looked)
			}
		}
		if got, want := b.Values.Of(rule.Key, rule.Value).Paused, uint64(3*paused); got != want {
			t.Errorf("%s: %d chunks are counted as paused, want %d", name, got, want)
		}
	}
}

// A pick that meets more than it may gives up and says so; a caller that lets it continue gets a chunk, if there is
// one.
func TestPicksGiveUp(t *testing.T) {
	t.Parallel()
	b, rnd := New(), rand.New(rand.NewPCG(5, 6))
	v := finished(b, filtered(strategy.OldestFirst))
	for i := range 1001 {
		b.Show(b.Insert(Spec{ID: queue.SubmissionID(i + 1), Seq: uint32(i + 1), Chunks: 1, Meta: queue.Meta{{Key: "a", Value: queue.IntValue(int64(i / 1000))}}}))
	}
	b.Rules.SetValue(queue.MetaEntry{Key: "a", Value: queue.IntValue(0)}, queue.BlockedByRule)
	calls := 0
	for {
		b.Allow(100)
		s, _, ok := b.Take(v, rnd)
		if ok {
			if s.ID() != 1001 {
				t.Errorf("got submission %v, want the one that no rule covers", s.ID())
			}
			break
		}
		if !b.Tired() {
			t.Fatal("a pick found nothing and is not tired")
		}
		calls++
	}
	if calls != 10 {
		t.Errorf("the pick gave up %d times on its way past 1000, want 10", calls)
	}
}
