package sqlitedb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// LeftOut is what of a table could not be taken over: the rowids from Row to Upto.
type LeftOut struct {
	Table     string
	Row, Upto int64
	Detail    string
	Values    map[string]any // of a single row whose checksum does not match, as they stand there; nil: nothing can be read
}

// Salvaged is a row that was read.
type Salvaged struct {
	Rowid   int64
	Columns []string
	Values  Row
}

// Value is that of a column; nil if there is none.
func (r *Salvaged) Value(column string) any {
	if at := slices.Index(r.Columns, column); at >= 0 {
		return r.Values[at]
	}
	return nil
}

// ByName are the values by their columns.
func (r *Salvaged) ByName() map[string]any {
	all := map[string]any{}
	for i, name := range r.Columns {
		all[name] = r.Values[i]
	}
	return all
}

// Salvage gives fn every row of a table that can be read of a database that may be damaged and that no one else has open. Where SQLite
// cannot go on it reads from the table's other end, and from places between; `left` is told of what is between those that it came to. A
// table that there is not is told of too. The error is one of fn, or of ctx.
func Salvage(ctx context.Context, db *sql.DB, table string, fn func(*Salvaged) error, left func(LeftOut)) error {
	s := salvaging{ctx: ctx, db: db, table: table, fn: fn, looks: mostLooks}
	var there uint32
	err := db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?", table).Scan(&there)
	switch {
	case err != nil:
		s.gap(math.MinInt64, math.MaxInt64, err)
	case there > 0:
		s.between(math.MinInt64, math.MaxInt64)
	default:
		s.gap(math.MinInt64, math.MaxInt64, errors.New("there is no such table"))
	}
	for _, d := range s.gaps {
		left(d)
	}
	if s.stop != nil {
		return s.stop
	}
	return ctx.Err()
}

// mostLooks is how often a damaged table is looked into between its ends.
const mostLooks = 2000

// salvaging is the reading of one table.
type salvaging struct {
	ctx   context.Context
	db    *sql.DB
	table string
	fn    func(*Salvaged) error
	looks int
	gaps  []LeftOut
	stop  error // of fn
}

// between reads the rows with these rowids, both ends included.
func (s *salvaging) between(from, to int64) {
	last, some, err := s.read("ORDER BY rowid", from, to)
	if err == nil || s.over() {
		return
	}
	if some {
		if last == to {
			return
		}
		from = last + 1
	}
	first, some, err := s.read("ORDER BY rowid DESC", from, to)
	if err == nil || s.over() {
		return
	}
	if some {
		if first == from {
			return
		}
		to = first - 1
	}
	if uint64(to-from) == 0 || s.looks == 0 {
		s.gap(from, to, err)
		return
	}
	s.looks--
	middle := from + int64(uint64(to-from)/2)
	s.between(from, middle)
	if !s.over() {
		s.between(middle+1, to)
	}
}

func (s *salvaging) over() bool { return s.stop != nil || s.ctx.Err() != nil }

// gap notes what could not be read. Gaps side by side are one.
func (s *salvaging) gap(from, to int64, why error) {
	if n := len(s.gaps); n > 0 && s.gaps[n-1].Upto+1 == from {
		s.gaps[n-1].Upto = to
		return
	}
	s.gaps = append(s.gaps, LeftOut{Table: s.table, Row: from, Upto: to, Detail: "cannot be read: " + why.Error()})
}

// read reads in one direction until an error, and says how far it came.
func (s *salvaging) read(order string, from, to int64) (last int64, some bool, err error) {
	err = eachRow(s.ctx, s.db, func(names []string, row Row) error {
		rowid, is := row[0].(int64)
		if !is || rowid < from || rowid > to {
			return fmt.Errorf("the tree of table %s is not in order", s.table)
		}
		last, some = rowid, true
		s.stop = s.fn(&Salvaged{Rowid: rowid, Columns: names[1:], Values: row[1:]})
		return s.stop
	}, fmt.Sprintf("SELECT rowid, * FROM %s WHERE rowid BETWEEN ? AND ? %s", s.table, order), from, to)
	return last, some, err
}

// Whole says whether the checksum of a row of the table is that of its values.
func (t *Summed) Whole(r *Salvaged) bool {
	var values Row
	for column := range strings.SplitSeq(t.Columns, ", ") {
		if name, is := strings.CutPrefix(column, "length(CAST("); is {
			text, _ := r.Value(strings.TrimSuffix(name, " AS BLOB))")).(string)
			values = append(values, int64(len(text)))
			continue
		}
		values = append(values, r.Value(column))
	}
	crc, is := r.Value("crc").(int64)
	return is && crc == sumOf(values)
}

// LeftOut is what is told of a row whose checksum does not match.
func (t *Summed) LeftOut(r *Salvaged) LeftOut {
	return LeftOut{Table: t.Table, Row: r.Rowid, Upto: r.Rowid, Detail: "does not match its checksum", Values: r.ByName()}
}
