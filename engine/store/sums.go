package store

//	statement of the server ─► row of a table ─ temporary trigger ─► row_sum(tab, row, crc)
//	                                                                    │
//	open: every row compared with row_sum, and every row_sum with a row ┘ mismatch: the catalogue is not opened

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quern-queue/quern/engine/sqlitedb"
)

// This file gives every row of the catalogue a checksum, so that a bit that flipped on the
// disk is never read as another setting. The checksums stand in the table row_sum.
// Temporary triggers keep them, so no statement that writes has to think of it, and a
// table that a later migration adds is covered too. Every open compares all of them.

// Tables with checksums of their own.
var unsummed = []string{"row_sum", "identity", "audit"}

// unsummedColumn is the module of a plugin: its SHA-256 is in its row, and the caller that
// loads it compares. It is too large to be read at each open.
const unsummedColumn = "module"

// checkSums compares the checksums of all rows, and has them kept from now on. A catalogue
// that was salvaged gets them first: in row_sum it has a row for a table without a name.
// The triggers come after the comparison: a trigger that exists during it could hide a mismatch by writing.
func (c *Catalogue) checkSums() error {
	if err := c.conn.Function("sum_of", sumOf); err != nil {
		return err
	}
	tables,
		err := c.texts("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name")
	if err != nil {
		return err
	}
	fresh, err := c.first("SELECT 1 FROM row_sum WHERE tab = ''")
	if err != nil {
		return err
	}
	if fresh != nil {
		if err := c.conn.Tx(func() error { return c.fillSums(tables) }); err != nil {
			return err
		}
	}
	return c.eachSummed(tables, func(table string, columns []string) error {
		if err := c.compareSums(table, columns); err != nil {
			return err
		}
		return c.keepSums(table, columns)
	})
}

func (c *Catalogue) eachSummed(tables []string, fn func(table string, columns []string) error) error {
	for _, table := range tables {
		if slices.Contains(unsummed, table) {
			continue
		}
		columns, err := c.texts("SELECT name FROM pragma_table_info('" + table + "')")
		if err != nil {
			return err
		}
		columns = slices.DeleteFunc(columns, func(name string) bool { return name == unsummedColumn })
		if err := fn(table, columns); err != nil {
			return err
		}
	}
	return nil
}

// sumSQL is the checksum of a row in SQL; `of` is the prefix of the names of its columns. The names of the columns
// are in the sum, so that two values that swapped their columns do not match.
func sumSQL(of, table string, columns []string) string {
	args := []string{"'" + table + "'"}
	for _, name := range columns {
		args = append(args, "'"+name+"'", of+"."+name)
	}
	return "sum_of(" + strings.Join(args, ", ") + ")"
}

// sumOf is the CRC-32C of texts, numbers and blobs, each with its kind and its length. Of
// a table's row these are the name of the table, and the name and the value of each column
// that is not NULL: a column that a later version adds changes no checksum.
func sumOf(args ...any) int64 {
	var enc []byte
	put := func(kind byte, value string) {
		enc = append(binary.AppendUvarint(append(enc, kind), uint64(len(value))), value...)
	}
	put('t', args[0].(string))
	for i := 1; i+1 < len(args); i += 2 {
		name := args[i].(string)
		switch value := args[i+1].(type) {
		case nil:
		case string:
			put('t', name)
			put('t', value)
		case []byte:
			if value != nil { // as which NULL comes from SQLite
				put('t', name)
				put('b', string(value))
			}
		default:
			put('t', name)
			put('n', fmt.Sprint(value))
		}
	}
	return sum(0).bytes(enc).stored()
}

func (c *Catalogue) fillSums(tables []string) error {
	if err := c.do("DELETE FROM row_sum"); err != nil {
		return err
	}
	return c.eachSummed(tables, func(table string, columns []string) error {
		return c.do(fmt.Sprintf("INSERT INTO row_sum (tab, row, crc) SELECT '%s', rowid, %s FROM %[1]s", table,
			sumSQL(table, table, columns)))
	})
}

// IS NOT also finds a row without a checksum, for which the join gives NULL. The second query finds the opposite: a
// row that vanished.
func (c *Catalogue) compareSums(table string, columns []string) error {
	row, err := c.first(fmt.Sprintf("SELECT t.rowid FROM %s t LEFT JOIN row_sum s ON s.tab = '%[1]s' AND s.row = "+
		"t.rowid WHERE s.crc IS NOT %s LIMIT 1", table, sumSQL("t", table, columns)))
	if err == nil && row != nil {
		return c.damagedRow(table, *row, "its checksum does not match")
	}
	if err == nil {
		row, err = c.first(fmt.Sprintf("SELECT row FROM row_sum WHERE tab = '%s' AND row NOT IN (SELECT rowid FROM "+
			"%[1]s) LIMIT 1", table))
	}
	if err == nil && row != nil {
		return c.damagedRow(table, *row, "it is missing")
	}
	return err
}

func (c *Catalogue) damagedRow(table string, row int64, how string) error {
	return c.damaged(nil, "a damaged row %d in table %s: %s", row, table, how)
}

// keepSums has the connection keep the checksums of a table.
// INSERT OR REPLACE fires no delete trigger for the row that it replaces, so the insert trigger forgets the old sum
// first.
func (c *Catalogue) keepSums(table string, columns []string) error {
	forget := func(of string) string {
		return fmt.Sprintf("DELETE FROM row_sum WHERE tab = '%s' AND row = %s.rowid; ", table, of)
	}
	note := fmt.Sprintf("INSERT INTO row_sum (tab, row, crc) VALUES ('%s', new.rowid, %s); ", table,
		sumSQL("new", table, columns))
	for event, body := range map[string]string{"INSERT": forget("new") + note,
		"UPDATE": forget("old") + forget("new") + note, "DELETE": forget("old")} {
		if err := c.do(fmt.Sprintf("CREATE TEMP TRIGGER sum_%[1]s_%[2]s AFTER %[2]s ON main.%[1]s BEGIN %[3]s END",
			table, event, body)); err != nil {
			return err
		}
	}
	return nil
}

// do runs a statement once.
func (c *Catalogue) do(sql string) error {
	stmt, err := c.conn.Prepare(sql)
	if err == nil {
		_, err = stmt.Exec()
	}
	return err
}

// first is the number in the first row of a result, nil if there is none.
func (c *Catalogue) first(sql string) (n *int64, err error) {
	stmt, err := c.conn.Prepare(sql)
	if err != nil {
		return nil, err
	}
	err = stmt.Query(func(row sqlitedb.Row) (bool, error) { first := row.Int(0); n = &first; return false, nil })
	return n, err
}

func (c *Catalogue) texts(sql string) (all []string, err error) {
	stmt, err := c.conn.Prepare(sql)
	if err != nil {
		return nil, err
	}
	return rowsOf(stmt, func(row sqlitedb.Row) (string, error) { return row.Text(0), nil })
}

// summed are the tables of a shard's store, with the fields of their checksums. Directories come before their
// pages, pages of the history before their spans, and the states of submissions last, so that a salvage knows where
// each row belongs.
func summed() []sqlitedb.Summed {
	return []sqlitedb.Summed{
		{Table: "submission", Columns: "seq, id, spec"},
		{Table: "open_block", Columns: "n, bytes"}, {Table: "open_page", Columns: "n, bytes"},
		{Table: "history_page", Columns: "n, bytes"}, {Table: "history_span", Columns: "n, bytes"},
		{Table: "content", Columns: "k, bytes"}, {Table: "content_page", Columns: "n, bytes"},
		{Table: "attachment", Columns: "seq, bytes"},
		{Table: "blob", Columns: "n, length(CAST(key AS BLOB)), key, seq, size, raw"},
		{Table: "blob_page", Columns: "k, bytes"},
		{Table: "output_log", Columns: "n, bytes"}, {Table: "output", Columns: "k, run, bytes"},
		{Table: "aside", Columns: "kind, key, bytes"}, {Table: "standing", Columns: "name, state"},
		{Table: "key_slot", Columns: "n, bytes"}, {Table: "key_page", Columns: "n, bytes"},
		{Table: "progress", Columns: "seq, state"},
	}
}

// Verify reads a whole store of a shard that no one has open, and reports damage. It returns how many
// rows it compared.
func Verify(ctx context.Context, path string, tell func(sqlitedb.Damage)) (rows int64, err error) {
	return sqlitedb.Verify(ctx, path, summed(), tell)
}

// VerifyCatalogue is Verify for a catalogue. Each open compares the checksums of most of its rows.
// This also compares those of the audit log and of the modules of plugins. It continues after damage,
// so that it lists all of it.
func VerifyCatalogue(ctx context.Context, path string, tell func(sqlitedb.Damage)) (rows int64, err error) {
	if rows, err = sqlitedb.Verify(ctx, path, []sqlitedb.Summed{auditSummed}, tell); err != nil {
		return rows, err
	}
	db, err := sqlitedb.SQL(path)
	if err != nil {
		return rows, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	list, err := db.QueryContext(ctx, "SELECT rowid, name, version, sha256, module FROM plugin_version")
	if err != nil {
		return rows, ctx.Err() // damage of the structure is reported already
	}
	defer list.Close()
	for list.Next() {
		var row int64
		var name, version string
		var sum, module []byte
		if err := list.Scan(&row, &name, &version, &sum, &module); err != nil {
			return rows, err
		}
		rows++
		if of := sha256.Sum256(module); string(of[:]) != string(sum) {
			tell(sqlitedb.Damage{Table: "plugin_version", Row: row,
				Detail: fmt.Sprintf("has another module than was uploaded as %s %s", name, version)})
		}
	}
	if err := list.Err(); err != nil && ctx.Err() == nil {
		tell(sqlitedb.Damage{Table: "plugin_version", Detail: "cannot be read: " + err.Error()})
	}
	return rows, ctx.Err()
}
