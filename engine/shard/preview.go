package shard

import (
	"context"
	"math/rand/v2"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// Previewed is one chunk that a reserve would hand out now. Leaf is the index, in Plan.Leaves, of the branch that gave it.
type Previewed struct {
	Submission queue.SubmissionID
	Index      uint32
	Meta       queue.Meta
	Priority   int64
	Leaf       int
}

// MaxPreview is how many chunks one preview foresees at most: it is done in one hold of the mutex, as what it foresees is
// taken and given back. Beside its picks a preview copies the ledger of every Fair block that it asks, once: 64 bytes for each
// tenant, which MostLooks does not count.
const MaxPreview = 100

// Preview tells for each plan what a reserve of up to `most` chunks (1 to MaxPreview) with this seed would hand out, all of
// them on the same state. Nothing is reserved and nothing changes. grace: until then the restart grace keeps back what a limit counts,
// and it is left out; 0: there is none.
func (s *Shard) Preview(ctx context.Context, plans []*strategy.Plan, most int, seed uint64) (all [][]Previewed, grace queue.Time, err error) {
	followed, grace := s.followed(plans)
	all = make([][]Previewed, len(plans))
	err = s.withViews(ctx, followed, func(views [][]*backlog.View) (n looks) {
		for i := range plans {
			all[i] = s.m.preview(views[i], firstLeaves(followed[i]), most, seed)
			n += looks(2 * len(all[i]))
		}
		return n
	})
	for i := range plans {
		if followed[i] != plans[i] {
			renumber(all[i], followed[i].LeavesIn(plans[i]))
		}
	}
	return all, grace, err
}

// renumber has picks by a restrained plan name the leaves of the whole one.
func renumber(list []Previewed, leaves []int) {
	for i := range list {
		list[i].Leaf = leaves[list[i].Leaf]
	}
}

// firstLeaves is by branch which of the plan's leaves is its first.
func firstLeaves(plan *strategy.Plan) []int {
	first := make([]int, len(plan.Branches))
	for i, leaf := range plan.Leaves() {
		if leaf.Number == 0 {
			first[leaf.Of] = i
		}
	}
	return first
}

func (m *machine) preview(views []*backlog.View, first []int, most int, seed uint64) []Previewed {
	picks := m.backlog.Preview(views, min(most, MaxPreview), draws(seed), rand.New(rand.NewPCG(seed, chunkStream)), nil)
	list := make([]Previewed, len(picks))
	for i, p := range picks {
		list[i] = Previewed{
			Submission: p.Submission.ID(), Index: p.Index, Meta: metaOf(p.Submission), Priority: p.Submission.Priority(),
			Leaf: first[p.View] + int(p.Leaf),
		}
	}
	return list
}

// chunkStream keeps the draws of a preview within submissions apart from those that a reserve makes.
const chunkStream = 0xa0761d6478bd642f

// draws are what the machine draws after seed(seed).
func draws(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed^seedStream)) }
