package sqlitedb

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

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

// integrityLines is how many faults of its structure SQLite tells of one database.
const integrityLines = 100

// Verify reads all of a database that no one else has open, and tells what is damaged: in SQLite's structures, and in rows whose checksums
// do not match. It returns how many rows it compared. The error is one that kept it from looking, not one of the database.
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

// unreadable tells of an error of the database, and returns any other.
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
