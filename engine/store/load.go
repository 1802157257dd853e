package store

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// Loading is the long part of an open, so it holds no more than a block (4,096 seqs) in memory, and reads each
// block in a transaction of its own.
//
//	directory of the block (find) ─► pages ─► rows of their own (specs) ─► states
//	                                   └── each checked against the directory: a page or a state that it
//	                                       names and that is not there is damage, never "no submission"
//
// Load calls fn for every open submission, by ascending seq. The row's bytes may be kept.
// The first error of fn ends the loading and is returned.
func (s *Store) Load(ctx context.Context, fn func(checkpoint.Row) error) error {
	for from := int64(0); from <= math.MaxUint32; {
		var rows []checkpoint.Row
		err := s.scan.with(ctx, func(r *reader) error {
			return r.conn.Reading(true, func() (err error) {
				rows, from, err = r.nextRows(s, from)
				return err
			})
		})
		if err != nil {
			return wrap("load", err)
		}
		for i := range rows {
			if err := fn(rows[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// nextRows reads the open submissions of the first block from a seq on that has any, and
// says where the block behind it begins.
// Empty blocks are passed over in the query: after years most numbers belong to submissions that ended.
func (r *reader) nextRows(s *Store, from int64) (rows []checkpoint.Row, behind int64, err error) {
	first := int64(0)
	err = r.nextBlock.Query(func(row sqlitedb.Row) (bool, error) { first = row.Int(0); return false, nil }, from)
	if err != nil || first > math.MaxUint32 {
		return nil, first, err
	}
	l := blockLoad{s: s, r: r, block: blockOf(uint32(first)), directory: &openBlock{}}
	for _, step := range []func() error{l.find, l.pages, l.specs, l.states} {
		if err := step(); err != nil {
			return nil, 0, err
		}
	}
	return l.rows, int64(l.block+1) * blockSeqs, nil
}

// blockLoad reads the open submissions of a block.
type blockLoad struct {
	s         *Store
	r         *reader
	block     uint32
	directory *openBlock
	rows      []checkpoint.Row
}

// first and last are the seqs of the block.
func (l *blockLoad) first() int64 { return int64(l.block) * blockSeqs }
func (l *blockLoad) last() int64  { return l.first() + blockSeqs - 1 }

// find reads the directory, if there is one.
func (l *blockLoad) find() error {
	return l.r.openBlock.Query(func(row sqlitedb.Row) (_ bool, err error) {
		l.directory, err = l.s.openBlock(int64(l.block), row.Int(0), row.Blob(1))
		return false, err
	}, int64(l.block))
}

// pages reads the submissions in pages.
func (l *blockLoad) pages() error {
	found := 0
	err := l.r.openPages.Query(func(row sqlitedb.Row) (bool, error) {
		all, err := l.s.openPage(row.Int(0), row.Int(1), row.Blob(2))
		p := l.directory.pageAt(row.Int(0))
		if err == nil && p == nil {
			err = l.s.damaged("open_block", int64(l.block))
		}
		if err != nil {
			return false, err
		}
		found++
		l.rows = p.present(l.rows, all)
		return true, nil
	}, pageKey(l.block, 0), pageKey(l.block+1, 0)-1)
	if err == nil && found != len(l.directory.pages) {
		err = l.s.Lacks(fmt.Sprintf("a page of open submissions of block %d", l.block))
	}
	return err
}

// specs reads the submissions with rows of their own, and sorts all by seq.
func (l *blockLoad) specs() error {
	err := l.r.rows.Query(func(row sqlitedb.Row) (bool, error) {
		one, err := l.s.specRow(row)
		l.rows = append(l.rows, one)
		return true, err
	}, l.first(), l.last())
	slices.SortFunc(l.rows, func(x, y checkpoint.Row) int { return cmp.Compare(x.Seq, y.Seq) })
	return err
}

// states reads the states that have rows of their own. It passes over a state whose submission is gone, which a
// crash between the two deletions may have left. The opposite, a submission whose state the directory promises, is
// damage: without it done chunks would be handed out again.
func (l *blockLoad) states() error {
	at, stated := 0, 0
	err := l.r.states.Query(func(row sqlitedb.Row) (bool, error) {
		seq, state := uint32(row.Int(0)), row.Blob(2)
		for at < len(l.rows) && l.rows[at].Seq < seq {
			at++
		}
		if at == len(l.rows) || l.rows[at].Seq != seq {
			return true, nil
		}
		if sum(0).number(int64(seq)).bytes(state).stored() != row.Int(1) {
			return false, l.s.damaged("progress", int64(seq))
		}
		if l.directory.stated.has(seq) {
			stated++
		}
		l.rows[at].State = state
		return true, nil
	}, l.first(), l.last())
	if err == nil && stated != l.directory.stated.count() {
		err = l.s.Lacks(fmt.Sprintf("the state of an open submission of block %d", l.block))
	}
	return err
}

// specRow reads seq, id, crc, spec.
func (s *Store) specRow(row sqlitedb.Row) (checkpoint.Row, error) {
	r := checkpoint.Row{Seq: uint32(row.Int(0)), ID: queue.SubmissionID(row.Int(1)), Spec: row.Blob(3)}
	if sum(0).number(row.Int(0)).number(row.Int(1)).bytes(r.Spec).stored() != row.Int(2) {
		return r, s.damaged("submission", row.Int(0))
	}
	return r, nil
}

// lastOpen is the largest seq in a page, 0 without one.
// Part of finding the largest number ever given out: numbers are never used again.
func (r *reader) lastOpen(s *Store) (seq uint32, err error) {
	err = r.lastBlock.Query(func(row sqlitedb.Row) (bool, error) {
		b, err := s.openBlock(row.Int(0), row.Int(1), row.Blob(2))
		if err != nil {
			return false, err
		}
		for i := range b.pages {
			_, last := b.pages[i].here.span(uint32(row.Int(0)))
			seq = max(seq, last)
		}
		return false, nil
	})
	return seq, err
}
