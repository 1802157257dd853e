package repair

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/quern-queue/quern/engine/check"
	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/sqlitedb"
	"github.com/quern-queue/quern/engine/store"
)

// storeKeeps is the data of a store about its journal.
type storeKeeps struct {
	checkpoint journal.Position // everything up to here is in the store
	newest     journal.Position // some of its rows include operations up to here
	ids        map[uint32]queue.SubmissionID
}

func whatIsKept(ctx context.Context, s *store.Store) (k storeKeeps, err error) {
	if k.checkpoint, err = s.Checkpointed(ctx); err != nil {
		return k, err
	}
	k.newest, k.ids = k.checkpoint, map[uint32]queue.SubmissionID{}
	return k, s.Load(ctx, func(row checkpoint.Row) error {
		k.ids[row.Seq] = row.ID
		if row.State == nil {
			return nil
		}
		at, err := machine.SnapshotPosition(row.State)
		k.newest = max(k.newest, at)
		return err
	})
}

// damagedOf names the damage of a store or a catalogue; "": there is none, or none that a repair is for. open opens the file, and verify
// compares its checksums.
func damagedOf(ctx context.Context, path string, open func() error,
	verify func(tell func(sqlitedb.Damage)) error) (reason string, err error) {
	if _, err := os.Stat(path); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		return path + " is missing", nil
	}
	err = open()
	if format, is := errors.AsType[*queue.FormatError](err); is && (format.Unread || format.Other) || ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return err.Error(), nil
	}
	kept, err := sqlitedb.KeepLog(path) // the reading takes the log in, and a file that was in use must have one
	if err != nil {
		return err.Error(), nil
	}
	err = verify(func(d sqlitedb.Damage) {
		if reason == "" {
			reason = fmt.Sprintf("%s, table %s, row %d: %s", path, d.Table, d.Row, d.Detail)
		}
	})
	return reason, errors.Join(err, kept.Close())
}

// replace has make write a new database in the place of a damaged one. The damaged one is at `damaged` meanwhile, and is then removed,
// because the original directory still has it. The index of its log may be damaged, and is made again.
func replace(path string, make func(damaged string) error) error {
	damaged := path + ".damaged"
	for _, suffix := range []string{"", "-wal"} {
		if err := os.Rename(path+suffix, damaged+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	err := remove(path + "-shm")
	if err == nil {
		err = make(damaged)
	}
	if err == nil {
		err = removeFile(damaged)
	}
	return err
}

// removeFile removes a database.
func removeFile(path string) error {
	return errors.Join(remove(path), remove(path+"-wal"), remove(path+"-shm"))
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// store makes a new store of a damaged one. It says whether it had to.
func (r *repairing) store(ctx context.Context, q *queueFiles) (salvaged bool, err error) {
	path := filepath.Join(q.folder, "store.db")
	reason, err := damagedOf(ctx, path, func() error {
		s, err := store.Open(ctx, path, store.Options{Identity: q.id})
		if err != nil {
			return err
		}
		return s.Close()
	}, func(tell func(sqlitedb.Damage)) error {
		_, err := store.Verify(ctx, path, tell)
		return err
	})
	if err != nil || reason == "" {
		return false, err
	}
	r.doing("queue " + q.name)
	first, err := firstOf(ctx, filepath.Join(q.folder, "journal.db"), q.id)
	if err != nil {
		return false, err
	}
	err = replace(path, func(damaged string) error {
		return store.Salvage(ctx, damaged, path, store.Salvaging{Identity: q.id, First: first, State: machine.FirstState,
			Tell: func(l store.LeftOut) { r.leftOut(q.name, "store.db", &l) }})
	})
	if err != nil {
		return false, err
	}
	r.report.Files = append(r.report.Files, File{Queue: q.name, File: r.shown(path), Reason: r.shown(reason)})
	return true, nil
}

// firstOf is the first batch of a journal, 0 for none. A journal that opens is closed in good order, so that no one misses its log
// afterwards.
func firstOf(ctx context.Context, path string, id queue.Identity) (first journal.Position, err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if log, err := sqlitelog.Open(ctx, path, sqlitelog.Options{Identity: id}); err == nil {
		if err := log.Close(); err != nil {
			return 0, err
		}
	}
	enough := errors.New("enough")
	err = sqlitelog.Salvage(ctx, path, 0, func(b sqlitelog.Batch) error {
		if first = b.Position; b.Bytes == nil {
			return nil // a place that cannot be read, not a batch
		}
		return enough
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return first, err
}

// leftOut notes rows of a file that could not be kept.
func (r *repairing) leftOut(queueName, file string, l *store.LeftOut) {
	row := Rows{Queue: queueName, File: file, Table: l.Table, Row: l.Row, Detail: l.Detail}
	if l.Upto != l.Row {
		row.Upto = &l.Upto
	}
	if l.Row == math.MinInt64 && l.Upto == math.MaxInt64 {
		row.Row, row.Upto, row.All = 0, nil, true
	}
	r.report.Left = append(r.report.Left, row)
	one := Lost{Queue: queueName, Seq: l.Seq}
	if l.ID != 0 {
		one.Submission = l.ID.String()
	}
	switch {
	case file != "store.db":
		return
	case len(l.IDs) > 0 || l.Gone > 0:
		op := "ended"
		if l.Table == "open_page" {
			op = "insert"
		}
		for _, id := range l.IDs {
			r.lost = append(r.lost, Lost{Queue: queueName, Op: op, Submission: id.String()})
		}
		if l.Gone > 0 {
			r.lost = append(r.lost, Lost{Queue: queueName, Op: op, Fields: map[string]any{
				"submissions": l.Gone, "first_seq": l.Seqs[0], "last_seq": l.Seqs[1]}})
		}
	case l.Table == "submission" && l.Row == l.Upto:
		one.Op = "insert"
		r.lost = append(r.lost, one)
	case l.Table == "key_page":
		one.Op = "keys"
		r.lost = append(r.lost, one)
	case l.Table == "progress" && l.Row == l.Upto && l.ID != 0:
		one.Op = "state"
		r.lost = append(r.lost, one)
	}
}

// empty replaces the files of a queue that cannot be opened by new ones, and notes everything that it had, as far as that can be read.
func (r *repairing) empty(ctx context.Context, q *queueFiles, reason string) error {
	known, err := r.known(ctx, q)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(q.folder); err != nil {
		return err
	}
	if err := os.MkdirAll(q.folder, 0o700); err != nil {
		return err
	}
	first := known.newest + 1 // no position is given out again
	path := filepath.Join(q.folder, "store.db")
	if err := store.Salvage(ctx, path+".none", path, store.Salvaging{Identity: q.id, First: first}); err != nil {
		return err
	}
	c := cutting{path: filepath.Join(q.folder, "journal.db"), id: q.id, now: r.o.Now(), first: first, newest: first, epoch: known.epoch}
	if err := c.write(ctx, ""); err != nil {
		return err
	}
	r.lost = append(r.lost, Lost{Queue: q.name, Op: "queue", Fields: map[string]any{"detail": r.shown(reason)}})
	for _, id := range known.ids {
		r.lost = append(r.lost, Lost{Queue: q.name, Op: "insert", Submission: id.String()})
	}
	return nil
}

// knownOf is the readable data of a queue that cannot be opened.
type knownOf struct {
	ids    []queue.SubmissionID
	newest journal.Position
	epoch  uint32
}

// known lists the submissions of a queue that cannot be opened.
func (r *repairing) known(ctx context.Context, q *queueFiles) (k knownOf, err error) {
	bySeq, ids := map[uint32]queue.SubmissionID{}, map[queue.SubmissionID]bool{}
	if s, err := store.Open(ctx, filepath.Join(q.folder, "store.db"), store.Options{Identity: q.id}); err == nil {
		_ = s.Load(ctx, func(row checkpoint.Row) error { bySeq[row.Seq] = row.ID; return nil }) // as far as the rows can be read
		_ = s.History.EndedSince(ctx, 0, func(id queue.SubmissionID) { ids[id] = true })
		if err := s.Close(); err != nil {
			return k, err
		}
	}
	err = sqlitelog.Salvage(ctx, filepath.Join(q.folder, "journal.db"), 0, func(b sqlitelog.Batch) error {
		k.newest = b.Position
		if epoch, err := journal.Epoch(b.Bytes); err == nil && b.Damage == "" {
			k.epoch = max(k.epoch, epoch)
		}
		return check.Ops(&b, bySeq, func(check.Op) error { return nil }) // adds the submissions that the batch inserts
	})
	for _, id := range bySeq {
		ids[id] = true
	}
	for id := range ids {
		k.ids = append(k.ids, id)
	}
	slices.Sort(k.ids)
	return k, err
}
