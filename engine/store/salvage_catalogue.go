package store

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// auditSummed is the audit log with the fields of its checksums.
var auditSummed = sqlitedb.Summed{Table: "audit",
	Columns: "shard, number, at, length(CAST(queue AS BLOB)), queue, bytes"}

// SalvageCatalogue makes a catalogue at `to` of the readable parts of the damaged one at `from`, which no one has
// open. If it is unknown whether requests need an access token, they do from now on.
//
//	row_sum: the checksums by table and row ─► read first
//	each table: row ─► judge ─┬ matches             ─► kept
//	                          ├ does not match      ─► left out, told
//	                          └ has no checksum     ─► kept as it is, told
//	checksums without a row   ─► told as missing
//
// The rule about access is one-sided on purpose: a server that asks for tokens although it did not need to is a
// nuisance, one that no longer asks is open to everyone.
func SalvageCatalogue(ctx context.Context, from, to string, id queue.Identity, tell func(LeftOut)) error {
	return wrap("salvage the catalogue", salvageInto(ctx, CatalogueKind, from, to, id, func(tx salvageTx) error {
		s := catalogueSalvage{salvageTx: tx, tell: tell, sums: map[string]map[int64]int64{}}
		return s.run()
	}))
}

type catalogueSalvage struct {
	salvageTx
	tell      func(LeftOut)
	sums      map[string]map[int64]int64 // by table and row
	uncertain bool                       // something about access tokens is lost
}

func (s *catalogueSalvage) run() error {
	err := sqlitedb.Salvage(s.ctx, s.old, "row_sum", func(r *sqlitedb.Salvaged) error {
		table, _ := r.Value("tab").(string)
		row, _ := r.Value("row").(int64)
		crc, _ := r.Value("crc").(int64)
		if s.sums[table] == nil {
			s.sums[table] = map[int64]int64{}
		}
		s.sums[table][row] = crc
		return nil
	}, s.left)
	if err != nil {
		return err
	}
	tables, err := s.tables()
	for _, table := range tables {
		if err == nil {
			err = s.table(table)
		}
	}
	if err == nil {
		err = s.plugins()
	}
	if err == nil && s.uncertain {
		_, err = s.tx.ExecContext(s.ctx, "INSERT OR REPLACE INTO access (one, required) VALUES (1, 1)")
	}
	if err == nil {
		// the first open makes them
		_, err = s.tx.ExecContext(s.ctx, "INSERT INTO row_sum (tab, row, crc) VALUES ('', 0, 0)")
	}
	return err
}

// tables are those of the new file whose rows are taken over.
func (s *catalogueSalvage) tables() (names []string, err error) {
	names, err = s.salvageTx.names("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' " +
		"ORDER BY name")
	return slices.DeleteFunc(names, func(name string) bool {
		return name != auditSummed.Table &&
			slices.Contains(unsummed, name)
	}), err
}

// A range of rows that cannot be read is reported once, so its checksums are taken out of `missing` first.
func (s *catalogueSalvage) table(table string) error {
	columns, err := s.columns(table)
	if err != nil {
		return err
	}
	missing := maps.Clone(s.sums[table]) // rows that are not seen
	err = sqlitedb.Salvage(s.ctx, s.old, table, func(r *sqlitedb.Salvaged) error {
		delete(missing, r.Rowid)
		why, keep := s.judge(table, r)
		if why != "" {
			s.left(sqlitedb.LeftOut{Table: table, Row: r.Rowid, Upto: r.Rowid, Detail: why, Values: r.ByName()})
		}
		if !keep {
			return nil
		}
		taken, err := s.put(table, r, columns)
		if err == nil && !taken {
			s.left(oneRow(table, r.Rowid, "is none that the table may hold, or another has its name"))
		}
		return err
	}, func(d sqlitedb.LeftOut) {
		maps.DeleteFunc(missing, func(row, _ int64) bool { return d.Row <= row && row <= d.Upto })
		s.left(d)
	})
	for _, row := range slices.Sorted(maps.Keys(missing)) {
		s.left(oneRow(table, row, "is missing"))
	}
	return err
}

// judge names the damage of a row, and says whether the row is kept all the same. A module is compared with its
// own SHA-256: it is not in the row's checksum (unsummedColumn), and it is code that would run.
func (s *catalogueSalvage) judge(table string, r *sqlitedb.Salvaged) (why string, keep bool) {
	if table == auditSummed.Table {
		if !auditSummed.Whole(r) {
			return "does not match its checksum", false
		}
		return "", true
	}
	sums := s.sums[table]
	switch crc, there := sums[r.Rowid]; {
	case there && crc != sumOfRow(table, r):
		return "does not match its checksum", false
	case table == "plugin_version" && !wholeModule(r):
		return "has another module than was uploaded", false
	case !there:
		return "has lost its checksum, and is kept as it stands there", true
	}
	return "", true
}

// sumOfRow is the checksum of a row.
func sumOfRow(table string, r *sqlitedb.Salvaged) int64 {
	args := []any{table}
	for i, name := range r.Columns {
		if name != unsummedColumn {
			args = append(args, name, r.Values[i])
		}
	}
	return sumOf(args...)
}

func wholeModule(r *sqlitedb.Salvaged) bool {
	module, _ := r.Value("module").([]byte)
	of := sha256.Sum256(module)
	was, _ := r.Value("sha256").([]byte)
	return string(of[:]) == string(was)
}

func (s *catalogueSalvage) left(d sqlitedb.LeftOut) {
	s.uncertain = s.uncertain || d.Table == "access" || d.Table == "token"
	s.tell(LeftOut{LeftOut: d})
}

// plugins takes lost versions out of use. A plugin whose active version is lost then has none. Its strategies fall
// back, as they do when a version is deactivated, and the operator learns which version it was.
func (s *catalogueSalvage) plugins() error {
	for _, use := range []string{"active", "previous", "shadow", "canary"} {
		lost := fmt.Sprintf("%[1]s IS NOT NULL AND %[1]s NOT IN (SELECT sha256 FROM plugin_version)", use)
		err := sqlitedb.EachRow(s.ctx, s.tx, func(row sqlitedb.Row) error {
			s.left(oneRow("plugin", row.Int(0), fmt.Sprintf("has as %s of plugin %q a version that is lost: none is "+
				"from now on", use, row.Text(1))))
			return nil
		}, "SELECT rowid, name FROM plugin WHERE "+lost)
		if err != nil {
			return err
		}
		update := fmt.Sprintf("UPDATE plugin SET %[1]s = NULL, %[1]s_config = NULL WHERE %[2]s", use, lost)
		if _, err := s.tx.ExecContext(s.ctx, update); err != nil {
			return err
		}
	}
	return nil
}
