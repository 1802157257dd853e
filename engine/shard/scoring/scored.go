package scoring

import (
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// Take takes by the scores of a window until `most` picks are there, and says whether the window has more.
func (p *Part) Take(q *machine.Request, br *strategy.Branch, w *WindowScratch, most int, now queue.Time,
	got *[]machine.Pick) (more bool) {
	m, timeout := p.m, p.m.Timeout(q)
	for len(*got) < most {
		row := w.Next(Explores(br, w.Kept.Emitted))
		if row < 0 {
			return false
		}
		sub := w.Frame.Rows[row]
		index, by, ok := m.Backlog.TakeOf(w.Views, sub, m.Rnd)
		if !ok {
			w.Gone(row)
			continue
		}
		w.Took(row)
		w.Frame.passed[row] = 0
		if w.Sampler != nil {
			w.Taken[row]++
		}
		w.Kept.Emitted++
		*got = append(*got, m.Hold(sub.Data.(*machine.Record), index, by.Charged(), q.Consumer, now, now.Add(timeout)))
		m.Stats.Reserved++
	}
	return true
}

// MaxWindows is how many windows one reserve looks at in one branch: candidates that are
// skipped are passed over, and the next ones asked.
const MaxWindows = 4

// RowsOf is how many candidates a window of the branch has.
func RowsOf(br *strategy.Branch, scorer strategy.Scorer) int {
	rows, most := scorer.Rows()
	if br.Scored.Window > 0 {
		rows = br.Scored.Window
	}
	return min(rows, most)
}
