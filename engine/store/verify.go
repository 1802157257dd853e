package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/quern-queue/quern/engine/sqlitedb"
)

// summed are the tables of a shard's store, with what their checksums are over.
// Directories come before their pages, pages of the history before their spans, and the
// states of submissions last: so a salvage knows what each row belongs to.
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

// Verify reads all of a shard's store that no one has open, and tells what is damaged. It
// returns how many rows it compared.
func Verify(ctx context.Context, path string, tell func(sqlitedb.Damage)) (rows int64, err error) {
	return sqlitedb.Verify(ctx, path, summed(), tell)
}

// VerifyCatalogue is Verify for a catalogue. The checksums of most of its rows are compared by each open; here those
// of the audit log and of the modules of plugins are. It goes on after damage, to list all of it.
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
		return rows, ctx.Err() // what is wrong with the structure is told already
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
