package rowsql

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
	"github.com/quern-queue/quern/engine/strategy"
)

// ErrFair is the answer to a strategy with Fair: rows know no turns.
var ErrFair = errors.New("rowsql: Fair is not there")

// scan is one streaming query of a plan. Those of Random come in pairs: from the cut on, then up to it.
type scan struct {
	stmt   *sqlitedb.Stmt
	args   []any
	cut    int // which argument is the cut; -1: none
	limits []strategy.Limit
}

// Rows is how many rows all reserves have looked at.
func (e *Engine) Rows() uint64 { return e.rows }

// Reserve takes up to most chunks by the plan and appends them to dst. It asks expired now and then, and ends early when that
// says so.
func (e *Engine) Reserve(plan *strategy.Plan, most int, expired func() bool, dst []Chunk) (got []Chunk, ended bool, err error) {
	scans, err := e.compile(plan)
	if err != nil {
		return dst, false, err
	}
	cut, most := e.draw(draws), most+len(dst)
	for i := range scans {
		s := &scans[i]
		if s.cut >= 0 {
			s.args[s.cut] = cut
		}
		if len(dst) == most || ended {
			break
		}
		err := s.stmt.Query(func(row sqlitedb.Row) (more bool, err error) {
			e.rows++
			if e.rows%1024 == 0 && expired() {
				ended = true
				return false, nil
			}
			if c := (Chunk{row.Int(0), row.Int(1)}); e.take(c, s.limits) {
				dst = append(dst, c)
			}
			return len(dst) < most, nil
		}, s.args...)
		if err != nil {
			return dst, false, fmt.Errorf("rowsql: reserve: %w", err)
		}
	}
	return dst, ended, nil
}

func (e *Engine) take(c Chunk, limits []strategy.Limit) bool {
	terms := e.of[c.Submission-1]
	for i := range limits {
		for _, t := range terms {
			if t.key == limits[i].Key && t.inFlight >= limits[i].Max {
				return false
			}
		}
	}
	if _, taken := e.inFlight[c]; taken {
		return false
	}
	e.inFlight[c] = struct{}{}
	for _, t := range terms {
		t.inFlight++
	}
	return true
}

// Release gives chunks back.
func (e *Engine) Release(chunks []Chunk) {
	for _, c := range chunks {
		if _, taken := e.inFlight[c]; taken {
			delete(e.inFlight, c)
			for _, t := range e.of[c.Submission-1] {
				t.inFlight--
			}
		}
	}
}

// compile makes the queries of a plan, once.
func (e *Engine) compile(plan *strategy.Plan) ([]scan, error) {
	if scans, known := e.plans[plan]; known {
		return scans, nil
	}
	var scans []scan
	for i := range plan.Branches {
		if plan.Branches[i].Fair != "" {
			return nil, ErrFair
		}
		list, err := e.branch(&plan.Branches[i])
		if err != nil {
			return nil, err
		}
		scans = append(scans, list...)
	}
	e.plans[plan] = scans
	return scans, nil
}

// branch makes the query of one branch, or the two of Random. Each streams: no step sorts.
func (e *Engine) branch(br *strategy.Branch) ([]scan, error) {
	filters := slices.Clone(br.Filters)
	slices.SortStableFunc(filters, func(x, y strategy.Filter) int { return int(e.count(x)) - int(e.count(y)) })
	var args []any
	and := func(column string, filters []strategy.Filter) string {
		var text strings.Builder
		for _, f := range filters {
			fmt.Fprintf(&text, " AND EXISTS (SELECT 1 FROM meta x WHERE x.submission = %s AND x.key = ? AND x.value = ?)", column)
			args = append(args, f.Key, argument(f.Value))
		}
		return text.String()
	}
	lead := func() {
		args = append(args, filters[0].Key, argument(filters[0].Value))
	}
	direction := ""
	switch br.Order {
	case strategy.NewestFirst:
		direction = " DESC"
	case strategy.CustomPriority:
		rest := and("s.id", filters)
		return e.scans(br, -1, args, "SELECT c.submission, c.number FROM submission s INDEXED BY by_priority CROSS "+
			"JOIN chunk c ON c.submission = s.id WHERE 1"+rest+" ORDER BY s.priority DESC, s.id")
	case strategy.Random:
		text, at := "SELECT c.submission, c.number FROM chunk c INDEXED BY by_draw WHERE c.draw %s ?", 0
		if len(filters) > 0 {
			lead()
			text, at, filters = "SELECT c.submission, c.number FROM chunk_meta c WHERE c.key = ? AND c.value = ? AND "+
				"c.draw %s ?", 2, filters[1:]
		}
		args = append(args, int64(0))
		text += and("c.submission", filters)
		return e.scans(br, at, args, fmt.Sprintf(text, ">="), fmt.Sprintf(text, "<"))
	}
	if len(filters) == 0 {
		return e.scans(br, -1, nil, "SELECT c.submission, c.number FROM chunk c ORDER BY c.submission"+direction)
	}
	lead()
	rest := and("m.submission", filters[1:])
	return e.scans(br, -1, args, "SELECT c.submission, c.number FROM meta m INDEXED BY by_value CROSS JOIN chunk c "+
		"ON c.submission = m.submission WHERE m.key = ? AND m.value = ?"+rest+" ORDER BY m.submission"+direction)
}

func (e *Engine) scans(br *strategy.Branch, cut int, args []any, texts ...string) ([]scan, error) {
	stmts, err := e.prepare(texts...)
	if err != nil {
		return nil, err
	}
	var list []scan
	for _, stmt := range stmts {
		list = append(list, scan{stmt: stmt, args: slices.Clone(args), cut: cut, limits: br.Limits})
	}
	return list, nil
}

// count is how many submissions a filter admits.
func (e *Engine) count(f strategy.Filter) uint32 {
	if t := e.terms[queue.MetaEntry{Key: f.Key, Value: f.Value}]; t != nil {
		return t.submissions
	}
	return 0
}
