package scoring

import (
	"math"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// Choice picks the candidate of a scored window from which the next chunk is taken: of those with chunks left, the one
// with the largest score.
type Choice struct {
	Scores []float64
	over   []bool // candidates without chunks left
	rank   strategy.Ranking
	spread bool // one chunk of each candidate and pass
	passes bool // this pass of spreading took a chunk
	best   int  // the candidate whose turn it is; -1: it is not known
	oldest int
	scans  int // candidates that were found by a scan; beyond mostScans all are sorted
}

// mostScans is how many candidates of a window are found by a scan of all scores. Most reserves want chunks of one
// candidate, and a scan costs a tenth of sorting all.
const mostScans = 3

// Begin starts with the best of all candidates, once they are scored.
func (c *Choice) Begin(spread bool) {
	c.over = append(c.over[:0], make([]bool, len(c.Scores))...)
	c.spread, c.passes, c.best, c.oldest, c.scans = spread, false, -1, 0, 0
	if spread {
		c.rankAll()
	}
}

// Explores says whether, after this many chunks of a branch, the next is of the oldest
// candidate, whatever its score.
func Explores(br *strategy.Branch, emitted uint64) bool {
	return br.Scored.Explore > 0 && (emitted+1)%uint64(br.Scored.Explore) == 0
}

// Next is the row of the candidate from which the next chunk is taken: the best one that is left and not skipped, or,
// to explore, the oldest. -1: there is none. The caller then calls Took or Gone.
func (c *Choice) Next(explore bool) int {
	if explore {
		return c.nextOldest()
	}
	row := c.nextBest()
	if row < 0 && c.spread && c.passes {
		c.rankAll()
		c.passes = false
		row = c.nextBest()
	}
	return row
}

// Took says that a chunk of the candidate was taken.
func (c *Choice) Took(row int) {
	if c.spread && row == c.best {
		c.best, c.passes = -1, true
	}
}

// Gone says that the candidate has no chunk to give.
func (c *Choice) Gone(row int) {
	c.over[row] = true
	if row == c.best {
		c.best = -1
	}
}

func (c *Choice) nextOldest() int {
	for ; c.oldest < len(c.Scores); c.oldest++ {
		if !c.over[c.oldest] && !math.IsNaN(c.Scores[c.oldest]) {
			return c.oldest
		}
	}
	return -1
}

func (c *Choice) nextBest() int {
	for c.best < 0 {
		if c.scans < mostScans {
			c.scans++
			c.best = c.scan()
			return c.best
		}
		if c.scans == mostScans {
			c.rankAll()
		}
		row, ok := c.rank.Next()
		if !ok {
			return -1
		}
		if !c.over[row] {
			c.best = row
		}
	}
	return c.best
}

// rankAll sorts all candidates; from here on they come in that order.
func (c *Choice) rankAll() {
	c.rank.Reset(c.Scores)
	c.scans = mostScans + 1
}

// scan is the candidate with the largest score of those that are left, the first of equal ones, or -1.
func (c *Choice) scan() int {
	best, most := -1, math.Inf(-1)
	for row, score := range c.Scores {
		if (score > most || best < 0 && score == most) && !c.over[row] {
			best, most = row, score
		}
	}
	return best
}

// Take takes chunks by the scores of a window until there are `most` picks, and says whether the window may have more.
func (p *Part) Take(q *machine.Request, br *strategy.Branch, w *WindowScratch, most int, now queue.Time,
	got *[]machine.Pick) (more bool) {
	m, timeout := p.m, p.m.Timeout(q)
	for len(*got) < most {
		row := w.Next(Explores(br, w.Kept.Emitted))
		if row < 0 {
			return false
		}
		sub := w.Table.Rows[row]
		index, by, ok := m.Backlog.TakeOf(w.Views, sub, m.Rnd)
		if !ok {
			w.Gone(row)
			continue
		}
		w.Took(row)
		w.Table.passed[row] = 0
		if w.Sampler != nil {
			w.Taken[row]++
		}
		w.Kept.Emitted++
		*got = append(*got, m.Hold(sub.Data.(*machine.Record), index, by.Charged(), q.Consumer, now, now.Add(timeout)))
		m.Stats.Reserved++
	}
	return true
}

// MaxWindows is how many windows one reserve looks at in one branch: if all candidates of a window are skipped, it
// looks at the next ones. If no window gives a chunk, a sweep follows.
const MaxWindows = 4

// NextWindow is the number of the window that follows one that gave too few chunks: MaxWindows is the sweep, and no
// window follows it. short: it had fewer rows than were asked for, so there are no further candidates, unless the
// branch finds its candidates by trying out a few picks.
func NextWindow(br *strategy.Branch, window int, short bool) int {
	tries := slices.ContainsFunc(br.Inner, func(b strategy.Branch) bool { return b.Fair != "" || b.Fewest != "" })
	switch {
	case !short:
		return window + 1
	case window < MaxWindows && tries:
		return MaxWindows
	}
	return MaxWindows + 1
}

// RowsOf is how many candidates a window of the branch has.
func RowsOf(br *strategy.Branch, scorer strategy.Scorer) int {
	rows, most := scorer.Rows()
	if br.Scored.Window > 0 {
		rows = br.Scored.Window
	}
	return min(rows, most)
}
