package sqlitedb

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strings"
)

// LeftOut has the rowids of a table, from Row to Upto, that could not be taken over.
type LeftOut struct {
	Table     string
	Row, Upto int64
	Detail    string
	Values    map[string]any // of a single row whose checksum does not match, as stored; nil: they cannot be read
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

// Salvage gives fn every readable row of a table, of a database that may be damaged and that no one else has open. Where SQLite cannot go
// on, it reads from the table's other end, and from places in between. It calls `left` for the gaps, and for a missing table. The error is
// one of fn, or of ctx.
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

// mostLooks is how often Salvage looks into a damaged table between its ends.
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

// LeftOut is the LeftOut of a row whose checksum does not match.
func (t *Summed) LeftOut(r *Salvaged) LeftOut {
	return LeftOut{Table: t.Table, Row: r.Rowid, Upto: r.Rowid, Detail: "does not match its checksum", Values: r.ByName()}
}

// Summed is a table whose rows have a column crc: the CRC-32C over Columns, in their order, integers as 8 bytes each, big endian.
type Summed struct {
	Table   string
	Columns string // SQL, with commas between
}

// Damage is something wrong in a database.
type Damage struct {
	Table  string // "": the database as a whole
	Row    int64  // the rowid
	Detail string // the rest of a sentence about the row, or the database
}

// integrityLines is the most faults of structure that SQLite reports of one database.
const integrityLines = 100

// Verify reads all of a database that no one else has open, and calls tell for damage in SQLite's structures, and for rows whose checksums
// do not match. It returns how many rows it compared. An error means that it could not look, not that the database is damaged.
func Verify(ctx context.Context, path string, tables []Summed, tell func(Damage)) (rows int64, err error) {
	db, err := SQL(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := integrity(ctx, db, tell); err != nil {
		return 0, err
	}
	for _, t := range tables {
		n, err := verifyRows(ctx, db, t, tell)
		rows += n
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// integrity has SQLite check its own structures.
func integrity(ctx context.Context, db *sql.DB, tell func(Damage)) error {
	return unreadable(ctx, EachRow(ctx, db, func(row Row) error {
		if line := row.Text(0); line != "ok" {
			tell(Damage{Detail: "is not a sound SQLite database: " + line})
		}
		return nil
	}, fmt.Sprintf("PRAGMA integrity_check(%d)", integrityLines)), "", tell)
}

// unreadable reports an error of the database to tell, and returns any other.
func unreadable(ctx context.Context, err error, table string, tell func(Damage)) error {
	if err == nil || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	tell(Damage{Table: table, Detail: "cannot be read: " + err.Error()})
	return nil
}

// verifyRows compares the checksums of a table.
func verifyRows(ctx context.Context, db *sql.DB, t Summed, tell func(Damage)) (rows int64, err error) {
	err = EachRow(ctx, db, func(row Row) error {
		rows++
		if crc, is := row[1].(int64); !is || crc != sumOf(row[2:]) {
			tell(Damage{Table: t.Table, Row: row.Int(0), Detail: "does not match its checksum"})
		}
		return nil
	}, "SELECT rowid, crc, "+t.Columns+" FROM "+t.Table)
	return rows, unreadable(ctx, err, t.Table, tell)
}

func sumOf(values Row) int64 {
	table := crc32.MakeTable(crc32.Castagnoli)
	var crc uint32
	for _, value := range values {
		switch value := value.(type) {
		case int64:
			crc = crc32.Update(crc, table, binary.BigEndian.AppendUint64(nil, uint64(value)))
		case string:
			crc = crc32.Update(crc, table, []byte(value))
		case []byte:
			crc = crc32.Update(crc, table, value)
		}
	}
	return int64(int32(crc))
}
