package store

import (
	_ "embed" // for the schemas

	"github.com/quern-queue/quern/engine/sqlitedb"
)

//go:embed schema/store.sql
var storeSchema string

//go:embed schema/catalogue.sql
var catalogueSchema string

// The kinds of the two files, "QueS" and "QueC". A later version adds the step from the version
// before it to Migrations.
var (
	Kind = sqlitedb.Kind{
		Name: "store", ApplicationID: 0x51756553, Unreleased: 0x51726e53, Schema: storeSchema, Shrinks: true,
	}
	CatalogueKind = sqlitedb.Kind{
		Name: "catalogue", ApplicationID: 0x51756543, Unreleased: 0x51726e43, Schema: catalogueSchema, Shrinks: true,
		Migrations: []string{groupTable, initialRuleTable, groupMoves},
	}
)

// ensure makes the database at path if there is none.
func ensure(path string, kind sqlitedb.Kind) error {
	exists, err := sqlitedb.Exists(path)
	if err != nil || exists {
		return err
	}
	return sqlitedb.Create(path, kind, nil)
}
