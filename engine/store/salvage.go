package store

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// Recovers a damaged file into a new one, for engine/repair.
//
//	damaged file ─ sqlitedb.Salvage ─► row ─► checksum matches? ─ yes ─► take ─► new file (one transaction)
//	                    │                            └ no ──► LeftOut ─► the operator
//	                    └ range of rows that SQLite cannot read ─────► LeftOut
//
//	tables in the order of sums.go, then: rebuild directories, give lost states a fresh one, spans, keys, position
// A damaged file is not fixed in place, as SQLite's own trees may be damaged. Every row that can be read, and whose
// checksum matches, goes into a new file; the others are reported.

// LeftOut is a part of a damaged file that could not be taken over: the rows from Row to Upto of a table.
type LeftOut struct {
	sqlitedb.LeftOut
	Seq  uint32               // the number of the submission that it was about; 0: none, or unknown
	ID   queue.SubmissionID   // its id; 0: unknown
	IDs  []queue.SubmissionID // submissions that are certainly gone with it
	Gone uint32               // how many submissions are gone with it; 0: unknown
	Seqs [2]uint32            // the least and the largest of their numbers
}

// Salvaging says how a store is salvaged.
//
// The order of the tables matters (sums.go): directories before their pages, states last. So a salvage knows where
// each row belongs when it meets the row, and which submissions are gone with a page that cannot be read.
type Salvaging struct {
	Identity queue.Identity                              // of the new file
	First    journal.Position                            // of the journal: the store's position if that is lost
	State    func(spec []byte) (state []byte, err error) // of a submission whose state is lost: nothing of it is done
	Tell     func(LeftOut)
}

// Salvage makes a store at `to` of the readable parts of the damaged one at `from`, which no one has open. There
// may be no file `from`. Nothing is written to `from`, so it can be tried again, also with a newer program. The new
// file appears under its name only when it is complete (sqlitedb.Create): a crash in between leaves no half file
// that a start would open.
func Salvage(ctx context.Context, from, to string, o Salvaging) error {
	return wrap("salvage", salvageInto(ctx, Kind, from, to, o.Identity, func(tx salvageTx) error {
		s := salvage{Salvaging: o, salvageTx: tx, salvageOpen: newSalvageOpen()}
		return s.run()
	}))
}

// salvageInto makes the file of this kind at `to`, which fn fills from the one at `from`. The identity is assigned
// last, so that no unfinished file claims to belong to a data directory.
func salvageInto(ctx context.Context, kind sqlitedb.Kind, from, to string, id queue.Identity,
	fn func(salvageTx) error) error {
	err := sqlitedb.Create(to, kind, func(temporary string) error { return fill(ctx, from, temporary, fn) })
	if err != nil {
		return err
	}
	return sqlitedb.Assign(to, id)
}

// fill runs fn in one transaction of the new file, because a half-filled file is of no use and must not look
// complete.
func fill(ctx context.Context, from, to string, fn func(salvageTx) error) (err error) {
	old, err := sqlitedb.SQL(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, old.Close()) }()
	db, err := sqlitedb.SQL(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := fn(salvageTx{ctx: ctx, old: old, tx: tx}); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// salvageTx fills a new file with rows of an old one. It has both databases open. It has nothing that only a store
// has, as it salvages the catalogue, too.
type salvageTx struct {
	ctx context.Context
	old *sql.DB
	tx  *sql.Tx
}

// put takes a row over, unless the new table has it already or may not hold it. Columns that the new table does not
// have are left out. INSERT OR IGNORE, because a damaged tree may give the same row twice. The first one counts,
// and `taken` says that the second was not used.
func (s *salvageTx) put(table string, r *sqlitedb.Salvaged, columns []string) (taken bool, err error) {
	var names []string
	var values []any
	for i, name := range r.Columns {
		if slices.Contains(columns, name) {
			names, values = append(names, name), append(values, r.Values[i])
		}
	}
	result, err := s.tx.ExecContext(s.ctx, fmt.Sprintf("INSERT OR IGNORE INTO %s (%s) VALUES (?%s)", table,
		strings.Join(names, ", "), strings.Repeat(", ?", len(names)-1)), values...)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// columns are those of a table of the new file.
func (s *salvageTx) columns(table string) (names []string, err error) {
	return s.names("SELECT name FROM pragma_table_info(?)", table)
}

// names are the texts that a query of the new file selects.
func (s *salvageTx) names(query string, args ...any) (all []string, err error) {
	err = sqlitedb.EachRow(s.ctx, s.tx, func(row sqlitedb.Row) error { all = append(all, row.Text(0)); return nil },
		query, args...)
	return all, err
}

// salvage is that of a store.
type salvage struct {
	Salvaging
	salvageTx
	salvageOpen
	maxSeq uint32
}

// The last summed table, progress, waits until orphaned pages have a directory again (rebuild): only then is it
// known which submissions may have a state of their own.
func (s *salvage) run() error {
	tables := summed()
	states := len(tables) - 1
	for i := range tables[:states] {
		if err := s.table(&tables[i]); err != nil {
			return err
		}
	}
	s.lostPages()
	table := func() error { return s.table(&tables[states]) }
	for _, step := range []func() error{s.rebuild, table, s.states, s.directories, s.spans, s.keySlots, s.position,
		s.lastSeq} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// table takes over the whole rows of a table. The number of a row counts for lastSeq even if the row itself is
// damaged: to skip a number costs nothing, to give one out twice would mix up two submissions.
func (s *salvage) table(t *sqlitedb.Summed) error {
	columns, err := s.columns(t.Table)
	if err != nil {
		return err
	}
	return sqlitedb.Salvage(s.ctx, s.old, t.Table, func(r *sqlitedb.Salvaged) error {
		s.note(seqIn(t.Table, r))
		if !t.Whole(r) {
			s.left(t.LeftOut(r))
			return nil
		}
		return s.take(t.Table, r, columns)
	}, s.left)
}

// take takes over a row whose checksum matches. It leaves out a state whose submission is not there.
func (s *salvage) take(table string, r *sqlitedb.Salvaged, columns []string) error {
	switch table {
	case "submission", "open_block", "open_page", "progress":
		if put, err := s.takeOpen(table, r); err != nil || !put {
			return err
		}
	}
	_, err := s.put(table, r, columns)
	return err
}

func (s *salvage) note(seq uint32) { s.maxSeq = max(s.maxSeq, seq) }

// seqIn is the number of the submission that a row is about, as the row says; 0: none. It trusts only the key,
// which SQLite keeps apart from the values, so it also works for a row whose bytes are bad.
func seqIn(table string, r *sqlitedb.Salvaged) uint32 {
	switch table {
	case "submission", "progress", "attachment":
		return uint32(r.Rowid)
	case "content", "output":
		return seqOf(r.Rowid)
	}
	return 0
}

// left reports rows that cannot be taken over, with all that is certain about them. An id counts if the row and the
// insert in it agree on it and on the number: two places that are damaged in the same way are less likely than one.
func (s *salvage) left(d sqlitedb.LeftOut) {
	out := LeftOut{LeftOut: d}
	if d.Values != nil {
		out.Seq = seqIn(d.Table, &sqlitedb.Salvaged{Rowid: d.Row})
	}
	spec, _ := d.Values["spec"].([]byte)
	if insert, err := journal.DecodeInsert(spec); err == nil && d.Values["id"] == int64(insert.ID) &&
		insert.Seq == out.Seq {
		out.ID = insert.ID
	}
	if page, is := d.Values["bytes"].([]byte); is {
		switch d.Table {
		case "history_page":
			out.IDs = certain(page)
		case "open_page":
			out.IDs = certainOpen(page)
		}
	}
	s.tell(out)
}

func oneRow(table string, row int64, why string) sqlitedb.LeftOut {
	return sqlitedb.LeftOut{Table: table, Row: row, Upto: row, Detail: why}
}

func (s *salvage) tell(out LeftOut) {
	if s.Tell != nil {
		s.Tell(out)
	}
}

// certain are the submissions of a damaged page of the history whose inserts are whole: the insert and the page
// agree about them.
func certain(page []byte) (ids []queue.SubmissionID) {
	list, _ := endedPage(page)
	for i := range list {
		ids = appendCertain(ids, list[i].Spec, list[i].ID, list[i].Seq)
	}
	return ids
}

// appendCertain appends the id of a submission if its insert is whole and agrees.
func appendCertain(ids []queue.SubmissionID, spec []byte, id queue.SubmissionID, seq uint32) []queue.SubmissionID {
	if insert, err := journal.DecodeInsert(spec); err == nil && insert.ID == id && insert.Seq == seq {
		ids = append(ids, id)
	}
	return ids
}

// states gives each submission whose state is lost the state that it began with. A lost state does not touch the
// contents, so all work of the submission is done again. Its outputs are deleted, because some would be of chunks
// that are ready again, and the new ones would be written beside them.
func (s *salvage) states() error {
	for seq, spec := range s.specs {
		state, err := s.State(spec)
		if err != nil {
			return err
		}
		crc := sum(0).number(int64(seq)).bytes(state).stored()
		_, err = s.tx.ExecContext(s.ctx, "INSERT INTO progress (seq, crc, state) VALUES (?, ?, ?)", int64(seq), crc,
			state)
		if err != nil {
			return err
		}
		first, last := keyOf(seq, 0), keyOf(seq, lastNumber)
		if _, err := s.tx.ExecContext(s.ctx, "DELETE FROM output WHERE k BETWEEN ? AND ?", first, last); err != nil {
			return err
		}
		insert, err := journal.DecodeInsert(spec)
		if err != nil {
			return err
		}
		s.tell(LeftOut{LeftOut: oneRow("progress", int64(seq), "is lost"), Seq: seq, ID: insert.ID})
	}
	return nil
}

// spans makes sure that each page of the history has its span, and each span its page. A span without a page says
// how many submissions are lost, and the range of their numbers. A page without a span gets a new one, made from
// the page. It lacks the marks of submissions that were deleted from the page since: these are back until their
// retention is over once more.
func (s *salvage) spans() error {
	spans, err := s.blobs("SELECT n, bytes FROM history_span WHERE n NOT IN (SELECT n FROM history_page)")
	if err != nil {
		return err
	}
	for n, b := range spans {
		one, err := readSpan(n, b)
		if err != nil {
			return err
		}
		s.note(one.lastSeq)
		if _, err := s.tx.ExecContext(s.ctx, "DELETE FROM history_span WHERE n = ?", n); err != nil {
			return err
		}
		s.tell(LeftOut{LeftOut: oneRow("history_page", n, "is lost"), Gone: one.left,
			Seqs: [2]uint32{one.firstSeq, one.lastSeq}})
	}
	pages, err := s.blobs("SELECT n, bytes FROM history_page WHERE n NOT IN (SELECT n FROM history_span)")
	if err != nil {
		return err
	}
	for n, b := range pages {
		list, err := endedPage(b)
		if err != nil {
			return err
		}
		one := spanOf(n, list)
		b := one.appendTo(nil)
		if err := s.putBytes("history_span", n, b); err != nil {
			return err
		}
	}
	return nil
}

// keySlots makes the missing rows of slots that have idempotency keys. The next open makes their filters. A lost
// key only means that a repeated insert is not recognised, but a lost slot would make its pages unreachable for
// good. So only slots are made again.
func (s *salvage) keySlots() error {
	pages, err := s.blobs("SELECT n, bytes FROM key_page WHERE n >> 13 NOT IN (SELECT n FROM key_slot)")
	if err != nil {
		return err
	}
	slots := map[int64]*keySlot{}
	for n, b := range pages {
		for at := range keysIn(b) {
			n, key := n>>keyPageBits, readKey(at)
			if slots[n] == nil {
				slots[n] = &keySlot{n: n, first: key.At, last: key.At}
			}
			slot := slots[n]
			slot.first, slot.last, slot.count = min(slot.first, key.At), max(slot.last, key.At), slot.count+1
		}
	}
	for n, slot := range slots {
		if err := s.putBytes("key_slot", n, slot.appendTo(nil)); err != nil {
			return err
		}
	}
	return nil
}

// putBytes writes a row of a table with the columns n, crc and bytes.
func (s *salvage) putBytes(table string, n int64, b []byte) error {
	_, err := s.tx.ExecContext(s.ctx, "INSERT INTO "+table+" (n, crc, bytes) VALUES (?, ?, ?)", n,
		sum(0).number(n).bytes(b).stored(), b)
	return err
}

func (s *salvage) blobs(query string) (map[int64][]byte, error) {
	all := map[int64][]byte{}
	return all, sqlitedb.EachRow(s.ctx, s.tx, func(row sqlitedb.Row) error {
		all[row.Int(0)] = row.Blob(1)
		return nil
	}, query)
}

// position takes over the position of the journal up to which the rows are complete. The journal begins at or
// before it. If the position is lost, the replay begins at the first batch of the journal. To replay ops that a row
// has already is harmless: the machine passes over them.
func (s *salvage) position() error {
	position := int64(-1)
	err := sqlitedb.Salvage(s.ctx, s.old, "folded", func(r *sqlitedb.Salvaged) error {
		position, _ = r.Value("position").(int64)
		return nil
	}, func(sqlitedb.LeftOut) {})
	if err != nil {
		return err
	}
	if position < 0 {
		position = 0
		if s.First > 1 {
			position = int64(s.First)
		}
		s.tell(LeftOut{LeftOut: oneRow("folded", 1, "is lost")})
	}
	_, err = s.tx.ExecContext(s.ctx, "UPDATE folded SET position = ?", min(position, math.MaxInt64))
	return err
}

// seqKind is the kind of the row beside the submissions that has the largest number given
// out (docs/formats/store.md, Aside).
const seqKind = 6

// lastSeq makes sure that the numbers of lost submissions are not given out again. Without it the next insert could
// get the number of a submission whose contents are still in the file.
func (s *salvage) lastSeq() error {
	row := checkpoint.Aside{Kind: seqKind}
	var b []byte
	err := s.tx.QueryRowContext(s.ctx, "SELECT bytes FROM aside WHERE kind = ? AND key = 0", seqKind).Scan(&b)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	d := pageReader{rest: b}
	row.Bytes = binary.AppendUvarint(nil, max(d.uint(), uint64(s.maxSeq)))
	kind, key := int64(row.Kind), int64(row.Key)
	_, err = s.tx.ExecContext(s.ctx, "INSERT OR REPLACE INTO aside (kind, key, crc, bytes) VALUES (?, ?, ?, ?)", kind,
		key, sum(0).number(kind).number(key).bytes(row.Bytes).stored(), row.Bytes)
	return err
}

// The store lists, under the name "lost", the data that a repair could not keep of submissions that are still
// there. Reading that data is an error, as it was before the repair; with the list a check can tell a reported loss
// from a new one.

const lostName = "lost"

// LossKind is the kind of data that a submission lost.
type LossKind uint8

// The kinds.
const (
	LostContent    LossKind = 1 + iota // of the chunks from First on, Count of them
	LostAttachment                     //
	LostOutputs                        // Count of them, and First is the sum of their indexes, modulo 2^32
)

// Loss is lost data of a submission.
type Loss struct {
	Kind         LossKind
	Seq          uint32
	First, Count uint32
}

// Covers says whether this reported loss includes the loss o.
func (l *Loss) Covers(o Loss) bool {
	if l.Kind == LostContent && o.Kind == LostContent && l.Seq == o.Seq {
		return o.First >= l.First && uint64(o.First)+uint64(o.Count) <= uint64(l.First)+uint64(l.Count)
	}
	return *l == o
}

// PutLosses stores the losses durably, and replaces the stored ones.
func PutLosses(ctx context.Context, s *Store, list []Loss) error {
	enc := binary.AppendUvarint(nil, uint64(len(list)))
	for _, l := range list {
		for _, n := range []uint64{uint64(l.Kind), uint64(l.Seq), uint64(l.First), uint64(l.Count)} {
			enc = binary.AppendUvarint(enc, n)
		}
	}
	return s.PutStanding(ctx, lostName, enc)
}

// Losses returns the losses that PutLosses stored last.
func Losses(ctx context.Context, s *Store) (list []Loss, err error) {
	state, err := s.Standing(ctx, lostName)
	if err != nil || state == nil {
		return nil, err
	}
	d := pageReader{rest: state}
	n := d.uint()
	if n > uint64(len(state)) {
		return nil, fmt.Errorf("store: losses: %w", errPage)
	}
	for range n {
		list = append(list, Loss{LossKind(d.uint()), uint32(d.uint()), uint32(d.uint()), uint32(d.uint())})
	}
	return list, d.err()
}
