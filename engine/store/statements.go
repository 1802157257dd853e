package store

import "github.com/quern-queue/quern/engine/sqlitedb"

// The SQL of the store, beside the structs that hold the prepared statements. A connection prepares all of them
// when it opens: a statement that does not fit the schema fails the open, not the first call that needs it.
//
// Two habits explain most of them. A key that is a number and a rest, `k BETWEEN number << 32 AND ...`, makes all
// rows of one submission neighbours in the tree. And `length(bytes)` sizes rows without reading them, so that a
// deletion can stop at its budget.

// writeStmts are the statements of the writer.
type writeStmts struct {
	putSubmission, putProgress, dropSubmissions, dropProgress *sqlitedb.Stmt
	openStmts
	spans, endedPage, putPage, dropPage, putSpan, dropSpan *sqlitedb.Stmt
	setCheckpointed, putAside, dropAside                   *sqlitedb.Stmt
	eraseStmts
	singleStmts
	putContent, putAttachment, putOutput *sqlitedb.Stmt
	putLog, sizeLog, dropLog             *sqlitedb.Stmt
	putStanding                          *sqlitedb.Stmt
	keyStmts
	blobWriteStmts
}

// blobWriteStmts are those for blobs.
type blobWriteStmts struct {
	blobs                                                                 blobStmts
	lastBlob, blobOf, putBlobRow, putBlobPage, dropBlobRow, dropBlobPages *sqlitedb.Stmt
}

// keyStmts are those for idempotency keys.
type keyStmts struct {
	keySlots, keyPages, keyPage, putKeyPage, putKeySlot, dropKeyPages, dropKeySlot *sqlitedb.Stmt
}

// eraseStmts delete the rows of a submission; anyRows asks whether there are any. There is one to size and one to
// drop for each table: the first finds the key up to which the budget lasts, the second deletes up to there.
type eraseStmts struct {
	anyRows, sizeContent, dropContent, dropAttachment, sizeOutput, dropOutput *sqlitedb.Stmt
}

// openStmts are those for pages of open submissions.
type openStmts struct {
	openBlocks, rowSeqs, openPage, putOpenPage, dropOpenPage, putOpenBlock, dropOpenBlock *sqlitedb.Stmt
}

// singleStmts are those for pages of singles.
type singleStmts struct {
	singlesBefore, singlesIn, putSinglePage, dropSinglePage *sqlitedb.Stmt
}

func (w *writeStmts) prepare(conn *sqlitedb.Conn) error {
	return prepareAll(conn, append(w.blobs.prepared(), []prepared{
		{&w.lastBlob, "SELECT n FROM blob ORDER BY n DESC LIMIT 1"},
		{&w.blobOf, "SELECT n, size FROM blob WHERE seq = ? LIMIT 1"},
		{&w.putBlobRow, "INSERT INTO blob (n, key, seq, size, raw, crc) VALUES (?, ?, ?, ?, ?, ?)"},
		{&w.putBlobPage, "INSERT INTO blob_page (k, crc, bytes) VALUES (?, ?, ?)"},
		{&w.dropBlobRow, "DELETE FROM blob WHERE n = ?"},
		{&w.dropBlobPages, "DELETE FROM blob_page WHERE k BETWEEN ? AND ?"},
		{&w.putSubmission, "INSERT OR REPLACE INTO submission (seq, id, crc, spec) VALUES (?, ?, ?, ?)"},
		{&w.putProgress, "INSERT OR REPLACE INTO progress (seq, crc, state) VALUES (?, ?, ?)"},
		{&w.dropSubmissions, "DELETE FROM submission WHERE seq BETWEEN ? AND ?"},
		{&w.dropProgress, "DELETE FROM progress WHERE seq BETWEEN ? AND ?"},
		{&w.openBlocks, "SELECT n, crc, bytes FROM open_block"},
		{&w.rowSeqs, "SELECT seq FROM submission"},
		{&w.openPage, "SELECT crc, bytes FROM open_page WHERE n = ?"},
		{&w.putOpenPage, "INSERT INTO open_page (n, crc, bytes) VALUES (?, ?, ?)"},
		{&w.dropOpenPage, "DELETE FROM open_page WHERE n = ?"},
		{&w.putOpenBlock, "INSERT OR REPLACE INTO open_block (n, crc, bytes) VALUES (?, ?, ?)"},
		{&w.dropOpenBlock, "DELETE FROM open_block WHERE n = ?"},
		{&w.spans, "SELECT n, crc, bytes FROM history_span ORDER BY n"},
		{&w.endedPage, endedPageSQL},
		{&w.putPage, "INSERT INTO history_page (n, crc, bytes) VALUES (?, ?, ?)"},
		{&w.dropPage, "DELETE FROM history_page WHERE n = ?"},
		{&w.putSpan, "INSERT OR REPLACE INTO history_span (n, crc, bytes) VALUES (?, ?, ?)"},
		{&w.dropSpan, "DELETE FROM history_span WHERE n = ?"},
		{&w.setCheckpointed, "UPDATE folded SET position = ? WHERE one = 1"},
		{&w.putAside, "INSERT OR REPLACE INTO aside (kind, key, crc, bytes) VALUES (?, ?, ?, ?)"},
		{&w.dropAside, "DELETE FROM aside WHERE kind = ? AND key = ?"},
		{&w.putStanding, "INSERT OR REPLACE INTO standing (name, crc, state) VALUES (?, ?, ?)"},
		{&w.putContent, "INSERT OR REPLACE INTO content (k, crc, bytes) VALUES (?, ?, ?)"},
		{&w.sizeContent, "SELECT k, length(bytes) FROM content WHERE k BETWEEN ? AND ? ORDER BY k LIMIT ?"},
		{&w.dropContent, "DELETE FROM content WHERE k BETWEEN ? AND ?"},
		{&w.singlesBefore, singlesBeforeSQL},
		{&w.singlesIn, "SELECT n, crc, bytes FROM content_page WHERE n > ? AND n <= ? ORDER BY n"},
		{&w.putSinglePage, "INSERT INTO content_page (n, crc, bytes) VALUES (?, ?, ?)"},
		{&w.dropSinglePage, "DELETE FROM content_page WHERE n = ?"},
		{&w.putAttachment, "INSERT OR REPLACE INTO attachment (seq, crc, bytes) VALUES (?, ?, ?)"},
		{&w.dropAttachment, "DELETE FROM attachment WHERE seq = ?"},
		// Most submissions have no rows in the four tables, and one query instead of four finds that.
		{&w.anyRows,
			"SELECT EXISTS (SELECT 1 FROM content WHERE k BETWEEN ?1 AND ?2) OR EXISTS (SELECT 1 FROM output " +
				"WHERE k BETWEEN ?1 AND ?2) OR EXISTS (SELECT 1 FROM attachment WHERE seq BETWEEN ?3 AND ?4) " +
				"OR EXISTS (SELECT 1 FROM blob WHERE seq BETWEEN ?3 AND ?4)"},
		{&w.putLog, "INSERT INTO output_log (n, crc, bytes) VALUES (?, ?, ?)"},
		{&w.sizeLog, "SELECT n, length(bytes) FROM output_log WHERE n BETWEEN ? AND ? ORDER BY n LIMIT ?"},
		{&w.dropLog, "DELETE FROM output_log WHERE n BETWEEN ? AND ?"},
		{&w.putOutput, "INSERT INTO output (k, run, crc, bytes) VALUES (?, ?, ?, ?)"},
		{&w.sizeOutput, "SELECT k, length(bytes) FROM output WHERE k BETWEEN ? AND ? ORDER BY k LIMIT ?"},
		{&w.dropOutput, "DELETE FROM output WHERE k BETWEEN ? AND ?"},
		{&w.keySlots, "SELECT n, crc, bytes FROM key_slot ORDER BY n"},
		{&w.keyPages, "SELECT n, crc, bytes FROM key_page WHERE n BETWEEN ? AND ? ORDER BY n"},
		{&w.keyPage, keyPageSQL},
		{&w.putKeyPage, "INSERT OR REPLACE INTO key_page (n, crc, bytes) VALUES (?, ?, ?)"},
		{&w.putKeySlot, "INSERT OR REPLACE INTO key_slot (n, crc, bytes) VALUES (?, ?, ?)"},
		{&w.dropKeyPages,
			"DELETE FROM key_page WHERE n IN (SELECT n FROM key_page WHERE n BETWEEN ? AND ? ORDER BY n LIMIT ?)"},
		{&w.dropKeySlot, "DELETE FROM key_slot WHERE n = ?"},
	}...))
}

// readStmts are the statements of a reader.
type readStmts struct {
	checkpointed, standing, asides                           *sqlitedb.Stmt
	nextBlock, lastBlock, openBlock, openPages, rows, states *sqlitedb.Stmt
	endedPage                                                *sqlitedb.Stmt
	contentAt, nextContent, attachment, nextAttachment       *sqlitedb.Stmt
	nextSingles, singlesBefore                               *sqlitedb.Stmt
	logPages, logPage                                        *sqlitedb.Stmt
	outputPage, nextOutput, lastOutputRow                    *sqlitedb.Stmt
	keyPage                                                  *sqlitedb.Stmt
	listBlobs, blobPageAt                                    *sqlitedb.Stmt
	blobs                                                    blobStmts
}

const singlesBeforeSQL = "SELECT n, crc, bytes FROM content_page WHERE n <= ? ORDER BY n DESC LIMIT 1"

const keyPageSQL = "SELECT crc, bytes FROM key_page WHERE n = ?"

const endedPageSQL = "SELECT crc, bytes FROM history_page WHERE n = ?"

func (r *readStmts) prepare(conn *sqlitedb.Conn) error {
	return prepareAll(conn, append(r.blobs.prepared(), []prepared{
		{&r.listBlobs, "SELECT key, size FROM blob WHERE key > ?1 AND key >= ?2 AND key < ?3 ORDER BY key LIMIT ?4"},
		{&r.blobPageAt,
			"SELECT k, crc, bytes FROM blob_page WHERE k BETWEEN (SELECT n FROM blob WHERE key = ?1) << 32 " +
				"AND ((SELECT n FROM blob WHERE key = ?1) << 32) + ?2 ORDER BY k DESC LIMIT 1"},
		{&r.checkpointed, "SELECT position FROM folded WHERE one = 1"},
		{&r.asides, "SELECT kind, key, crc, bytes FROM aside ORDER BY kind, key"},
		{&r.standing, "SELECT crc, state FROM standing WHERE name = ?"},
		// Open submissions are in three tables. Each inner query reads one row by its index; UNION ALL over whole
		// tables would read all of them.
		{&r.nextBlock, "SELECT ifnull(min(seq), 1 << 32) FROM (" +
			"SELECT * FROM (SELECT seq FROM submission WHERE seq >= ?1 ORDER BY seq LIMIT 1) " +
			"UNION ALL SELECT * FROM (SELECT n * 4096 FROM open_block WHERE n >= ?1 / 4096 ORDER BY n LIMIT 1) " +
			"UNION ALL SELECT * FROM (SELECT (n >> 20) * 4096 FROM open_page WHERE n >= (?1 / 4096) << 20 ORDER BY n " +
			"LIMIT 1))"},
		{&r.lastBlock, "SELECT n, crc, bytes FROM open_block ORDER BY n DESC LIMIT 1"},
		{&r.openBlock, "SELECT crc, bytes FROM open_block WHERE n = ?"},
		{&r.openPages, "SELECT n, crc, bytes FROM open_page WHERE n BETWEEN ? AND ? ORDER BY n"},
		{&r.rows, "SELECT seq, id, crc, spec FROM submission WHERE seq BETWEEN ? AND ? ORDER BY seq"},
		{&r.states, "SELECT seq, crc, state FROM progress WHERE seq BETWEEN ? AND ? ORDER BY seq"},
		{&r.endedPage, endedPageSQL},
		{&r.contentAt, "SELECT k, crc, bytes FROM content WHERE k BETWEEN ? AND ? ORDER BY k DESC LIMIT 1"},
		{&r.nextContent, "SELECT k FROM content WHERE k >= ? ORDER BY k LIMIT 1"},
		{&r.nextSingles, "SELECT n, crc, bytes FROM content_page WHERE n >= ? ORDER BY n LIMIT 1"},
		{&r.singlesBefore, singlesBeforeSQL},
		{&r.attachment, "SELECT crc, bytes FROM attachment WHERE seq = ?"},
		{&r.nextAttachment, "SELECT seq FROM attachment WHERE seq >= ? ORDER BY seq LIMIT 1"},
		{&r.logPages, "SELECT n, crc, bytes FROM output_log WHERE n > ? AND n <= ? ORDER BY n LIMIT 64"},
		{&r.logPage, "SELECT crc, bytes FROM output_log WHERE n = ?"},
		{&r.outputPage, "SELECT k, run, crc, bytes FROM output WHERE k BETWEEN ? AND ? ORDER BY k LIMIT 1"},
		{&r.nextOutput, "SELECT k FROM output WHERE k >= ? ORDER BY k LIMIT 1"},
		{&r.keyPage, keyPageSQL},
		{&r.lastOutputRow, "SELECT k, run FROM output WHERE k BETWEEN ? AND ? ORDER BY k DESC LIMIT 1"},
	}...))
}

type prepared struct {
	stmt **sqlitedb.Stmt
	sql  string
}

// It stops at the first error, which closes the connection.
func prepareAll(conn *sqlitedb.Conn, all []prepared) error {
	for _, p := range all {
		var err error
		if *p.stmt, err = conn.Prepare(p.sql); err != nil {
			return err
		}
	}
	return nil
}
