package engine

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/quern-queue/quern/engine/queue"
)

// maxGroups bounds what DeadGroups holds and answers with: a group takes some kilobytes, and errors may differ in every word.
const maxGroups = 10_000

// DeadGroups are the dead letters of a queue that the filter means by the fingerprint of their errors, the largest group first. Every one
// of them is looked at. There are at most maxGroups groups, those of the newest submissions; whole says that there are no others.
func (e *Engine) DeadGroups(ctx context.Context, queueName string, f queue.DeadFilter) (groups []queue.DeadGroup, whole bool, err error) {
	q, err := e.queue(queueName)
	if err != nil {
		return nil, false, err
	}
	g := grouping{of: map[string]*group{}}
	if err := q.shard.EachDeadLetter(ctx, f, g.add); err != nil {
		return nil, false, err
	}
	return g.sorted(), !g.others, nil
}

// grouping puts dead letters into groups.
type grouping struct {
	of     map[string]*group
	others bool // some belong to none, because there are maxGroups already
}

type group struct {
	queue.DeadGroup
	last queue.SubmissionID // that counts in Submissions; letters come by submission
}

func (g *grouping) add(d *queue.DeadChunk) {
	x := g.of[d.Fingerprint]
	if x == nil {
		if len(g.of) == maxGroups {
			g.others = true
			return
		}
		x = &group{DeadGroup: queue.DeadGroup{Fingerprint: d.Fingerprint, Pattern: queue.Pattern(d.Error), Example: d.Error, First: d.Died}}
		g.of[d.Fingerprint] = x
	}
	x.Count++
	x.First, x.Last = min(x.First, d.Died), max(x.Last, d.Died)
	if id := d.Chunk.Submission; x.last != id {
		x.last = id
		x.Submissions++
	}
}

func (g *grouping) sorted() (groups []queue.DeadGroup) {
	for _, x := range g.of {
		groups = append(groups, x.DeadGroup)
	}
	slices.SortFunc(groups, func(a, b queue.DeadGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Fingerprint, b.Fingerprint))
	})
	return groups
}
