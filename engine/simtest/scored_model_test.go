package simtest

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// Scored reserves are compared with a plain model of windows, through inserts, completions, releases, priorities and limits.
func TestScoredModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 77))
		formula := func(priority, available, inFlight int64) float64 {
			if (priority+available)%11 == 0 {
				return math.NaN()
			}
			return float64(priority*3 - available%7 - 2*inFlight)
		}
		s := &scorer{most: 16, reads: []strategy.Column{{Property: strategy.Priority}, {Property: strategy.Available}, {Property: strategy.InFlight, Key: "rank"}}}
		s.score = func(w *strategy.Window, scores []float64) error {
			for i := range scores {
				scores[i] = formula(w.Columns[0].Number(i), w.Columns[1].Number(i), w.Columns[2].Number(i))
			}
			return nil
		}
		m := &scoredModel{t: t, seed: seed, b: openScored(t, s), r: r, formula: formula, limit: map[int64]uint32{}}
		for m.step = range 400 {
			m.act()
		}
	}
}

type scoredModel struct {
	t       *testing.T
	seed    uint64
	step    int
	b       *box
	r       *rand.Rand
	formula func(priority, available, inFlight int64) float64
	subs    []*scoredSub // by id
	held    []queue.Token
	limit   map[int64]uint32
}

type scoredSub struct {
	id                                  queue.SubmissionID
	rank, priority, available, inFlight int64
}

func (m *scoredModel) fatalf(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf("seed %d step %d: %s", m.seed, m.step, fmt.Sprintf(format, args...))
}

func (m *scoredModel) sub(id queue.SubmissionID) *scoredSub {
	return m.subs[slices.IndexFunc(m.subs, func(x *scoredSub) bool { return x.id == id })]
}

func (m *scoredModel) inFlight(rank int64) (n int64) {
	for _, x := range m.subs {
		if x.rank == rank {
			n += x.inFlight
		}
	}
	return n
}

func (m *scoredModel) act() {
	switch what := m.r.IntN(10); {
	case what < 2:
		rank, chunks := m.r.Int64N(6), uint32(1+m.r.IntN(6))
		s := m.b.insertRanked(rank, chunks)
		m.subs = append(m.subs, &scoredSub{id: s.ID, rank: rank, available: int64(chunks)})
	case what < 6:
		m.reserve()
	case what < 8 && len(m.held) > 0:
		at := m.r.IntN(len(m.held))
		token := m.held[at]
		m.held = slices.Delete(m.held, at, at+1)
		x := m.sub(token.Submission)
		x.inFlight--
		var err error
		if what == 6 {
			_, err = m.b.shard.Complete(ctx, []queue.CompleteItem{{Token: token}}, nil)
		} else {
			x.available++
			_, err = m.b.shard.Release(ctx, []queue.ReleaseItem{{Token: token}}, nil)
		}
		if err != nil {
			m.fatalf("%v", err)
		}
		if x.available+x.inFlight == 0 { // all done, or some waits: none waits here
			m.subs = slices.DeleteFunc(m.subs, func(y *scoredSub) bool { return x == y })
		}
	case what == 8 && len(m.subs) > 0:
		x := m.subs[m.r.IntN(len(m.subs))]
		x.priority = m.r.Int64N(5)
		if _, err := m.b.shard.Submissions.SetPriority(ctx, x.id, x.priority, nil); err != nil {
			m.fatalf("%v", err)
		}
	case what == 9:
		rank, limit := m.r.Int64N(6), uint32(m.r.IntN(4))
		m.limit[rank] = limit
		settings := queue.ValueSettings{Limit: limit}
		if limit == 3 {
			delete(m.limit, rank)
			settings = queue.NoSettings()
		}
		m.b.setValue(queue.MetaEntry{Key: "rank", Value: queue.IntValue(rank)}, settings)
	}
}

// eligible says whether a limit lets a chunk of the submission be taken: 5 at once by the strategy, or the number that is
// set.
func (m *scoredModel) eligible(x *scoredSub) bool {
	limit := int64(5)
	if set, is := m.limit[x.rank]; is {
		limit = min(limit, int64(set))
	}
	return x.available > 0 && m.inFlight(x.rank) < limit
}

// reserve takes chunks by the model: windows of 16 by age, in each the best first as long as it gives, NaN never.
func (m *scoredModel) reserve() {
	most := 1 + m.r.IntN(8)
	got := m.b.reserveBy(`MaxSimultaneous("rank", 5, Plugin("p", explore=0, OldestFirst))`, most)
	var want []queue.SubmissionID
	seen := map[*scoredSub]bool{}
	for range 4 {
		var window []*scoredSub
		for _, x := range m.subs {
			if len(window) < 16 && !seen[x] && m.eligible(x) {
				window = append(window, x)
				seen[x] = true
			}
		}
		scores := map[*scoredSub]float64{}
		for _, x := range window {
			scores[x] = m.formula(x.priority, x.available, m.inFlight(x.rank))
		}
		rows := len(window)
		window = slices.DeleteFunc(window, func(x *scoredSub) bool { return math.IsNaN(scores[x]) })
		slices.SortStableFunc(window, func(x, y *scoredSub) int { return cmp.Compare(scores[y], scores[x]) })
		for _, x := range window {
			for len(want) < most && m.eligible(x) {
				want = append(want, x.id)
				x.available--
				x.inFlight++
			}
		}
		if len(want) >= most || rows < 16 {
			break
		}
	}
	var ids []queue.SubmissionID
	for i := range got {
		ids = append(ids, got[i].Token.Submission)
		m.held = append(m.held, got[i].Token)
	}
	if !slices.Equal(ids, want) {
		m.fatalf("reserved %d of %v, want %v", most, ids, want)
	}
}
