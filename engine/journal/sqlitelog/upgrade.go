package sqlitelog

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// chained has room for the sums of the chain in front of the batches, as what is behind a large batch takes long to be read. Version 4
// brought them; version 3 had brought pages of 2,048 bytes, which only new files have.
const chained = `
CREATE TABLE chained (n INTEGER PRIMARY KEY, crc INTEGER NOT NULL, sum BLOB NOT NULL, bytes BLOB NOT NULL) STRICT;
ALTER TABLE trimmed ADD COLUMN sum BLOB NOT NULL DEFAULT x'00000000000000000000000000000000';`

// upgrade brings a file of an older version up to date, in one transaction: what a kill cuts off is begun again. The chain begins with the
// first batch that is there. Whether the batches are whole is for who reads them, as ever.
func (l *Log) upgrade() error {
	version, err := l.conn.Int("PRAGMA user_version")
	if err != nil || version >= int64(kind.Version) {
		return err
	}
	return l.conn.Tx(func() error {
		if version < 2 {
			if err := l.conn.Exec(sqlitedb.IdentityTable); err != nil {
				return err
			}
		}
		if err := l.conn.Exec(chained); err != nil {
			return err
		}
		if err := l.chain(); err != nil {
			return err
		}
		return l.conn.Exec("DROP TABLE batch; ALTER TABLE chained RENAME TO batch; PRAGMA user_version = 4")
	})
}

// chain copies the batches of a file that has no sums.
func (l *Log) chain() error {
	read, err := l.conn.Prepare("SELECT n, crc, bytes FROM batch ORDER BY n")
	if err != nil {
		return err
	}
	add, err := l.conn.Prepare("INSERT INTO chained (n, crc, sum, bytes) VALUES (?, ?, ?, ?)")
	if err != nil {
		return err
	}
	var sum journal.Sum
	return read.Query(func(r sqlitedb.Row) (bool, error) {
		sum = sum.Next(journal.Position(r.Int(0)), r.Blob(2))
		_, err := add.Exec(r.Int(0), r.Int(1), sum[:], r.Blob(2))
		return true, err
	})
}
