package scoring

import (
	"math"
	"slices"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// maxKept is how many scored branches keep their windows; of more the least recently used begins again.
// A branch that begins again only loses the counts of rows that were passed over; its order stays right.
const maxKept = 256

// Kept is the state of a scored branch between reserves. The shard's mutex guards it.
type Kept struct {
	Table   *table
	changes []uint64 // of the views, when the table was made
	Emitted uint64   // chunks so far: one of every so many is the oldest candidate's
	used    uint64
	swept   uint32 // where the next sweep goes on (backlog.Backlog.Sweep)
}

// table is a window of candidates in the inner order, with their columns that do not change. While nothing changes in
// the views of ordered branches, one table serves many reserves.
//
//	rows (candidates, in the inner order)    columns that a scorer reads
//	                                          still: id, total, meta     gathered once for the table
//	                                          moving: counts, age, ...   gathered for each reserve
//	passed: windows in which a row was passed over, which `skipped` and `explore` use
//
// The table holds as long as no view under it has changed (Kept.holds). Random views have no order
// that could hold, so each reserve draws a new one.
type table struct {
	Rows   []*backlog.Submission
	scorer strategy.Scorer
	Most   int               // rows that were asked for
	still  []strategy.Values // by column; empty for those that change
	words  []string
	wordOf map[string]uint32
	limits []int64  // by column LimitOf: of the branch alone, -1 for none
	passed []uint32 // by row: windows in which it was passed over
	born   []int64  // by row: when it was inserted; nil until a column asks
}

// WindowScratch is the memory of one reserve's windows, kept for the next.
type WindowScratch struct {
	strategy.Window
	Of    *machine.Machine // whose candidates they are
	Kept  *Kept
	Table *table
	Views []*backlog.View
	Choice
	Taken   []uint32                     // chunks by row, for a Sampler
	numbers [][]int64                    // by column
	counts  [][]uint32                   // by column
	Seen    map[*backlog.Submission]bool // of the windows before
}

// See leaves the candidates of this window out of the next.
// A reserve that does not find enough in one window asks for the next, which must have other candidates.
func (w *WindowScratch) See() {
	if w.Seen == nil {
		w.Seen = map[*backlog.Submission]bool{}
	}
	for _, sub := range w.Table.Rows {
		w.Seen[sub] = true
	}
}

// Part has the windows of candidates, by scored branch.
type Part struct {
	m     *machine.Machine
	ByKey map[string]*Kept
	uses  uint64
}

// New is the part of a machine without any windows yet.
func New(m *machine.Machine) *Part {
	return &Part{m: m, ByKey: map[string]*Kept{}}
}

// Of returns the state of a scored branch.
func (p *Part) Of(br *strategy.Branch) *Kept {
	p.uses++
	x := p.ByKey[br.Key()]
	if x == nil {
		if len(p.ByKey) >= maxKept {
			p.drop()
		}
		x = &Kept{}
		p.ByKey[br.Key()] = x
	}
	x.used = p.uses
	return x
}

// drop scans at most maxKept entries, and only when a new branch comes: an order would cost every reserve.
func (p *Part) drop() {
	oldest, at := uint64(math.MaxUint64), ""
	for key, x := range p.ByKey {
		if x.used < oldest { // no two are equal
			oldest, at = x.used, key
		}
	}
	delete(p.ByKey, at)
}

// Table finds the next window of candidates: the last one, if it still holds. A window behind the first (seen) is never
// kept: its candidates depend on those that this reserve found in the windows before.
func (p *Part) Table(x *Kept, br *strategy.Branch, views []*backlog.View, scorer strategy.Scorer, rows int,
	seen map[*backlog.Submission]bool) *table {
	if seen != nil {
		return p.MakeTable(br, views, scorer.Reads(), rows, func(s *backlog.Submission) bool { return seen[s] })
	}
	if t := x.Table; t != nil && t.scorer == scorer && t.Most == rows && x.holds(views) {
		return t
	}
	t := p.MakeTable(br, views, scorer.Reads(), rows, nil)
	t.scorer = scorer
	if x.Table != nil {
		t.Remember(x.Table)
	}
	x.Table, x.changes = t, x.changes[:0]
	for _, v := range views {
		x.changes = append(x.changes, v.Changes())
	}
	return t
}

// holds says that the views give the same submissions in the same order as when the table was made.
func (x *Kept) holds(views []*backlog.View) bool {
	for i, v := range views {
		if !v.Ordered() || i >= len(x.changes) || v.Changes() != x.changes[i] {
			return false
		}
	}
	return true
}

// Remember takes over how often candidates were passed over. Candidates that left the window lose their count, also
// if they come back: they were not passed over meanwhile.
func (t *table) Remember(before *table) {
	passed := make(map[*backlog.Submission]uint32, len(before.Rows))
	for row, n := range before.passed {
		if n > 0 {
			passed[before.Rows[row]] = n
		}
	}
	for row, sub := range t.Rows {
		t.passed[row] = passed[sub]
	}
}

// MakeTable gathers the first candidates of the views, but for those to skip.
func (p *Part) MakeTable(br *strategy.Branch, views []*backlog.View, reads []strategy.Column, rows int,
	skip func(*backlog.Submission) bool) *table {
	list := p.m.Backlog.Window(views, rows, skip, p.m.Rnd, make([]*backlog.Submission, 0, rows))
	return p.tableOf(list, br, reads, rows)
}

// Sweep is the window after the last one. If all candidates of the earlier windows were skipped, it has others, and the
// sweep of the next reserve goes on from next.
func (p *Part) Sweep(x *Kept, br *strategy.Branch, views []*backlog.View, reads []strategy.Column, rows int,
	seen map[*backlog.Submission]bool) (t *table, next uint32) {
	list, next := p.m.Backlog.Sweep(views, x.swept, rows, func(s *backlog.Submission) bool { return seen[s] },
		make([]*backlog.Submission, 0, rows))
	return p.tableOf(list, br, reads, rows), next
}

// tableOf gathers the data of candidates that does not change.
func (p *Part) tableOf(list []*backlog.Submission, br *strategy.Branch, reads []strategy.Column, rows int) *table {
	t := &table{Rows: list, Most: rows, wordOf: map[string]uint32{}}
	t.passed = make([]uint32, len(t.Rows))
	t.still = make([]strategy.Values, len(reads))
	t.limits = make([]int64, len(reads))
	for i, c := range reads {
		switch c.Property {
		case strategy.ID, strategy.Total, strategy.MetaInt, strategy.MetaString:
			t.still[i] = p.stillColumn(t, c)
		case strategy.LimitOf:
			t.limits[i] = limitOf(br, c.Key)
		}
	}
	return t
}

// limitOf is how many chunks of a value the branch lets be in flight at most, -1 if some alternative does not limit it.
// Of several alternatives the largest limit counts, because a candidate passes if one of them lets it.
func limitOf(br *strategy.Branch, key queue.MetaKey) (most int64) {
	most = 0
	br.Leaves(func(leaf *strategy.Branch) bool {
		at := slices.IndexFunc(leaf.Limits, func(l strategy.Limit) bool {
			return l.Key == key &&
				l.Of == strategy.Simultaneous
		})
		if at < 0 {
			most = -1
			return false
		}
		most = max(most, int64(leaf.Limits[at].Max))
		return true
	})
	return most
}

// stillColumn is a column that stays the same as long as the table does.
func (p *Part) stillColumn(t *table, c strategy.Column) (v strategy.Values) {
	key := p.m.Backlog.Key(c.Key)
	switch {
	case c.IsString():
		v.Words = make([]uint32, len(t.Rows))
	case c.IsCount():
		v.Counts = make([]uint32, len(t.Rows))
	default:
		v.Numbers = make([]int64, len(t.Rows))
	}
	if c.Property == strategy.MetaInt {
		v.Present = make([]bool, len(t.Rows))
	}
	for row, sub := range t.Rows {
		switch c.Property {
		case strategy.ID:
			v.Numbers[row] = int64(sub.ID())
		case strategy.Total:
			v.Counts[row] = sub.Chunks()
		case strategy.MetaInt:
			if value, _, _, has := sub.Value(key); has && value.IsInt() {
				v.Numbers[row], v.Present[row] = value.Int(), true
			}
		case strategy.MetaString:
			if value, _, _, has := sub.Value(key); has && !value.IsInt() {
				v.Words[row] = t.word(value.Text())
			}
		}
	}
	return v
}

// Words count from 1; 0 is "no text" in a column.
func (t *table) word(text string) uint32 {
	id, known := t.wordOf[text]
	if !known {
		t.words = append(t.words, text)
		id = uint32(len(t.words))
		t.wordOf[text] = id
	}
	return id
}

// Gather fills in the window: the columns that stand, and those that change. The shard's mutex is held. The scorer
// runs later without it, so it only gets copies; the still columns are never changed, and may be shared.
func (p *Part) Gather(w *WindowScratch, br *strategy.Branch, reads []strategy.Column, context queue.Meta,
	now queue.Time) {
	t := w.Table
	w.Rows, w.Dictionary = len(t.Rows), t.words
	w.Columns = slices.Grow(w.Columns[:0], len(reads))[:len(reads)]
	for len(w.numbers) < len(reads) {
		w.numbers, w.counts = append(w.numbers, nil), append(w.counts, nil)
	}
	if cap(w.Scores) < w.Rows {
		w.Scores = make([]float64, w.Rows)
	}
	w.Scores = w.Scores[:w.Rows]
	random := false
	br.Leaves(func(leaf *strategy.Branch) bool { random = leaf.Order == strategy.Random; return false })
	for i, c := range reads {
		switch {
		case c.Single():
			w.Columns[i] = w.contextColumn(c, context)
		case t.still[i].Rows() > 0:
			w.Columns[i] = t.still[i]
		case c.IsCount():
			w.counts[i] = slices.Grow(w.counts[i][:0], w.Rows)[:w.Rows]
			w.Columns[i] = strategy.Values{Counts: w.counts[i]}
			p.movingCounts(t, c, random, w.counts[i])
		default:
			w.numbers[i] = slices.Grow(w.numbers[i][:0], w.Rows)[:w.Rows]
			w.Columns[i] = strategy.Values{Numbers: w.numbers[i]}
			p.movingNumbers(t, c, t.limits[i], now, w.numbers[i])
		}
	}
	for row := range t.passed {
		t.passed[row]++ // a candidate that is taken begins at 0 again
	}
}

// movingCounts fills in a column of counts that change from one reserve to the next. Each case is a loop of its own: a
// window has some hundred rows, and outside of the scorer a reserve spends most of its time here.
func (p *Part) movingCounts(t *table, c strategy.Column, random bool, dst []uint32) {
	switch c.Property {
	case strategy.Available:
		for row, sub := range t.Rows {
			dst[row] = sub.Available()
		}
	case strategy.InFlightSubmission:
		for row, sub := range t.Rows {
			dst[row] = sub.InFlight()
		}
	case strategy.Skipped:
		copy(dst, t.passed)
	case strategy.InFlight:
		key := p.m.Backlog.Key(c.Key)
		for row, sub := range t.Rows {
			_, dst[row], _, _ = sub.Value(key)
		}
	default:
		p.chunkColumn(t, c, random, dst)
	}
}

// movingNumbers is the same for columns of numbers.
func (p *Part) movingNumbers(t *table, c strategy.Column, limit int64, now queue.Time, dst []int64) {
	switch c.Property {
	case strategy.Priority:
		for row, sub := range t.Rows {
			dst[row] = sub.Priority()
		}
	case strategy.Age:
		for row, born := range t.births() {
			dst[row] = max(0, int64(now)-born)
		}
	case strategy.LimitOf:
		key := p.m.Backlog.Key(c.Key)
		for row, sub := range t.Rows {
			dst[row] = limit
			if _, _, operator, has := sub.Value(key); has && operator != queue.NoLimit &&
				(limit < 0 || int64(operator) < limit) {
				dst[row] = int64(operator)
			}
		}
	}
}

// births are when the candidates were inserted.
// It is made for the first column that asks, and then kept with the table: the id has the time, but taking it apart
// for every row at every reserve would cost more than the rest of the column.
func (t *table) births() []int64 {
	if t.born == nil {
		t.born = make([]int64, len(t.Rows))
		for row, sub := range t.Rows {
			t.born[row] = int64(sub.ID().Time())
		}
	}
	return t.born
}

// chunkColumn is a moving column about the chunk that would be handed out next. A submission may end while the window
// is gathered, and leave the backlog: then all of its columns are 0, and the pick finds it gone.
func (p *Part) chunkColumn(t *table, c strategy.Column, random bool, dst []uint32) {
	for row, sub := range t.Rows {
		dst[row] = 0
		r, live := sub.Data.(*machine.Record)
		if live = live && r.Sub != nil; !live {
			continue
		}
		switch c.Property {
		case strategy.Index:
			dst[row] = sub.Next(random)
		case strategy.Attempts:
			if len(r.Tries) > 0 {
				dst[row] = uint32(r.Attempt(sub.Next(random))) - 1
			}
		case strategy.MaxAttempts:
			dst[row] = uint32(r.Details().MaxAttempts(&p.m.Settings))
		}
	}
}

// contextColumn is a column of one row: the value that the reserve call has for a key. A text that no candidate has
// gets a number of its own, in a copy of the dictionary. The table's dictionary is shared by later reserves, and must
// not grow with each text that a client sends.
func (w *WindowScratch) contextColumn(c strategy.Column, context queue.Meta) strategy.Values {
	value, has := context.Find(c.Key)
	if c.Property == strategy.ContextInt {
		if !has || !value.IsInt() {
			return strategy.Values{Numbers: []int64{0}, Present: []bool{false}}
		}
		return strategy.Values{Numbers: []int64{value.Int()}, Present: []bool{true}}
	}
	if !has || value.IsInt() {
		return strategy.Values{Words: []uint32{0}}
	}
	id, known := w.Table.wordOf[value.Text()]
	if !known {
		at := slices.Index(w.Dictionary, value.Text())
		if at < 0 {
			w.Dictionary = append(slices.Clip(w.Dictionary), value.Text())
			at = len(w.Dictionary) - 1
		}
		id = uint32(at + 1)
	}
	return strategy.Values{Words: []uint32{id}}
}
