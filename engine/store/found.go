package store

// `quern inspect` reads a store that may be damaged: rows as far as SQLite gives them, from the front and, behind a
// damaged place, from the back. It opens no Store, as Open would refuse the file.
//
//	around(query):  row row row row ✗ unreadable ✗ row row
//	                ──── upwards ──►              ◄── downwards, after the error was told

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// Found is one piece of a store that may be damaged: an open submission, some ended ones, or why something cannot
// be read.
type Found struct {
	Open   checkpoint.Row // with an id
	Ended  []checkpoint.Ended
	Damage string // with the table and the row; "": none
}

// Submissions calls fn for the submissions of the store at path, which may be damaged and which no one else has
// open: first the open ones that have rows of their own, then those in pages, then those that ended. Where SQLite
// cannot go on, fn gets the damage, then the rows that can be read from the table's end backwards. The error is one
// of fn or of ctx.
func Submissions(ctx context.Context, path string, fn func(Found) error) error {
	f := finding{ctx: ctx, s: &Store{path: path}, fn: fn}
	for _, step := range []func() error{f.openRows, f.openPages, f.ended} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// finding is a run of Submissions.
type finding struct {
	ctx context.Context
	s   *Store // which is not open: reports of damage have its path
	fn  func(Found) error
}

// openRows finds the open submissions with rows of their own. If a state does not match its checksum, fn gets the
// row and the damage: the submission is known, its progress is not.
func (f *finding) openRows() error {
	return around(f.ctx, f.s.path,
		"SELECT s.seq, s.id, s.crc, s.spec, p.crc, p.state FROM submission s LEFT JOIN progress p USING (seq) "+
			"WHERE s.seq > ? ORDER BY s.seq", func(row sqlitedb.Row, damage string) error {
			if damage != "" {
				return f.fn(Found{Damage: "table submission: " + damage})
			}
			r, err := f.s.specRow(row)
			if r.State = row.Blob(5); err == nil && r.State != nil &&
				sum(0).number(row.Int(0)).bytes(r.State).stored() != row.Int(4) {
				err = f.s.damaged("progress", row.Int(0))
			}
			return f.found(r, err)
		})
}

func (f *finding) found(r checkpoint.Row, err error) error {
	if err != nil {
		return f.fn(Found{Open: r, Damage: err.Error()})
	}
	return f.fn(Found{Open: r})
}

// openPages finds open submissions in pages. Without the directory of its block, all rows of a page are reported,
// as damage. Errors of the directories themselves are dropped here.
func (f *finding) openPages() error {
	blocks := map[int64]*openBlock{}
	_ = sqlitedb.Rows(f.ctx, f.s.path, func(row sqlitedb.Row) error {
		if b, err := f.s.openBlock(row.Int(0), row.Int(1), row.Blob(2)); err == nil {
			blocks[row.Int(0)] = b
		}
		return nil
	}, "SELECT n, crc, bytes FROM open_block")
	query := "SELECT n, crc, bytes FROM open_page WHERE n > ? ORDER BY n"
	return around(f.ctx, f.s.path, query, func(row sqlitedb.Row, damage string) error {
		if damage != "" {
			return f.fn(Found{Damage: "table open_page: " + damage})
		}
		rows, err := f.s.openPage(row.Int(0), row.Int(1), row.Blob(2))
		if err != nil {
			return f.fn(Found{Damage: err.Error()})
		}
		b := blocks[int64(blockOfPage(row.Int(0)))]
		if p := b.pageAt(row.Int(0)); p != nil {
			rows = p.present(nil, rows)
		} else if err := f.fn(Found{Damage: f.s.damaged("open_block",
			int64(blockOfPage(row.Int(0)))).Error()}); err != nil {
			return err
		}
		return f.withStates(b, rows)
	})
}

// withStates reports submissions of a page, with the states that have rows of their own.
func (f *finding) withStates(b *openBlock, rows []checkpoint.Row) error {
	if len(rows) == 0 {
		return nil
	}
	states := map[uint32][]byte{}
	damage := map[uint32]error{}
	_ = sqlitedb.Rows(f.ctx, f.s.path, func(row sqlitedb.Row) error {
		seq := uint32(row.Int(0))
		if states[seq] = row.Blob(2); sum(0).number(int64(seq)).bytes(states[seq]).stored() != row.Int(1) {
			damage[seq] = f.s.damaged("progress", int64(seq))
		}
		return nil
	}, "SELECT seq, crc, state FROM progress WHERE seq BETWEEN ? AND ?", int64(rows[0].Seq),
		int64(rows[len(rows)-1].Seq))
	for _, r := range rows {
		state, there := states[r.Seq]
		if there {
			r.State = state
		} else if b != nil && b.stated.has(r.Seq) {
			damage[r.Seq] = f.s.Lacks(fmt.Sprintf("the state of the submission %s", r.ID))
		}
		if err := f.found(r, damage[r.Seq]); err != nil {
			return err
		}
	}
	return nil
}

// OpenIDs are the ids of open submissions that the store at path has, by their number. It
// may be open elsewhere, and damaged: then it has some of them, or none.
// The server may have the file open, so the rows are of several moments. It is for messages that name submissions,
// where a missing id does no harm.
func OpenIDs(ctx context.Context, path string) map[uint32]queue.SubmissionID {
	ids := map[uint32]queue.SubmissionID{}
	_ = sqlitedb.StillRows(ctx, path, func(row sqlitedb.Row) error {
		ids[uint32(row.Int(0))] = queue.SubmissionID(row.Int(1))
		return nil
	}, "SELECT seq, id FROM submission")
	s := &Store{path: path}
	_ = sqlitedb.StillRows(ctx, path, func(row sqlitedb.Row) error {
		rows, _ := s.openPage(row.Int(0), row.Int(1), row.Blob(2))
		for i := range rows {
			ids[rows[i].Seq] = rows[i].ID
		}
		return nil
	}, "SELECT n, crc, bytes FROM open_page")
	return ids
}

// ended finds ended submissions. Without its span, all rows of a page are reported, also those that were deleted
// from it: for a person who looks for a submission, more is better than less.
func (f *finding) ended() error {
	ctx, path, fn := f.ctx, f.s.path, f.fn
	gone := map[int64][]byte{}
	_ = sqlitedb.Rows(ctx, path, func(row sqlitedb.Row) error { // without a span all rows of its page are reported
		if s, err := readSpan(row.Int(0), row.Blob(1)); err == nil {
			gone[s.page] = s.gone
		}
		return nil
	}, "SELECT n, bytes FROM history_span")
	return around(ctx, path, "SELECT n, crc, bytes FROM history_page WHERE n > ? ORDER BY n",
		func(row sqlitedb.Row, damage string) error {
			if damage != "" {
				return fn(Found{Damage: "table history_page: " + damage})
			}
			s := Found{}
			list, err := endedPage(row.Blob(2))
			switch {
			case sum(0).number(row.Int(0)).bytes(row.Blob(2)).stored() != row.Int(1):
				s.Damage = f.s.damaged("history_page", row.Int(0)).Error()
			case err != nil:
				s.Damage = err.Error()
			default:
				bits := gone[row.Int(0)]
				for i := range list {
					if i/8 >= len(bits) || bits[i/8]&(1<<(i%8)) == 0 {
						s.Ended = append(s.Ended, list[i])
					}
				}
			}
			return fn(s)
		})
}

// around calls fn for the rows of a query by their first column. Where it cannot go on, fn gets the reason, once.
func around(ctx context.Context, path, query string, fn func(row sqlitedb.Row, damage string) error) error {
	var stop error
	after := int64(math.MinInt64)
	err := sqlitedb.Rows(ctx, path, func(row sqlitedb.Row) error {
		after = row.Int(0)
		stop = fn(row, "")
		return stop
	}, query, after)
	if stop = errors.Join(stop, ctx.Err()); err == nil || stop != nil {
		return stop
	}
	if err := fn(nil, "cannot be read: "+err.Error()); err != nil {
		return err
	}
	_ = sqlitedb.Rows(ctx, path, func(row sqlitedb.Row) error { // its error is that SQLite cannot read all of them
		stop = fn(row, "")
		return stop
	}, query+" DESC", after)
	return errors.Join(stop, ctx.Err())
}
