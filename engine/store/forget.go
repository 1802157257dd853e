package store

// Retention in the store: which ended submissions are past their time, and how they are deleted.
// The place in the history goes last, in the same transaction as the last rows of the submission. So after a crash a
// submission is still listed, perhaps with less content, and the next call deletes it. The other way round, its
// content would stay in the file for ever, with nothing that names it.
//
// Each transaction deletes a bounded number of rows and bytes, as all other writes wait for it.

import (
	"cmp"
	"context"
	"slices"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// The most that one transaction deletes.
const (
	eraseRows  = 512
	eraseBytes = 4 << 20
)

// Outlived is a submission of the history that is past its retention. Forget gathers no page that the rest of its
// list names (pagesOf), so the places of the rest stay right.
type Outlived struct {
	ID       queue.SubmissionID
	Seq      uint32
	Finished queue.Time
	place    queue.EndPlace
	page     int64 // where it is: the page's number and its place in it
	at       int
}

// Outlived lists submissions that finished from one time on and before another, the longest ended first and at most
// `most`, without those that skip (nil: none) says. It is asked about each in their order, perhaps more than once.
// Only pages whose span of ends meets the interval are read, so the cost of a round follows the due submissions and
// not the whole history.
func (h *History) Outlived(ctx context.Context, finishedFrom, finishedBefore queue.Time, most int,
	skip func(id queue.SubmissionID, finished queue.Time) bool) (list []Outlived, err error) {
	if most <= 0 {
		return nil, nil
	}
	o := walk{
		match: func(p *span) bool { return p.lastEnd >= finishedFrom && p.firstEnd < finishedBefore },
		from:  func(p *span) uint64 { return uint64(p.firstEnd) },
		want:  func(e *checkpoint.Ended) bool { return e.Finished >= finishedFrom && e.Finished < finishedBefore },
		key:   func(e *checkpoint.Ended) uint64 { return uint64(e.Finished) },
		bare:  true,
	}
	err = unmoved(func() error {
		list = list[:0]
		return h.walk(ctx, o, func(e *checkpoint.Ended, page int64, at int) (bool, error) {
			if skip == nil || !skip(e.ID, e.Finished) {
				list = append(list, Outlived{e.ID, e.Seq, e.Finished, e.EndPlace(), page, at})
			}
			return len(list) < most, nil
		})
	})
	return list, wrap("outlived", err)
}

// Forget deletes submissions that Outlived listed from the history, with their content,
// attachments and outputs. It sorts the list by number, and says how many of it are gone,
// from its start. It works in transactions of bounded size, with the place in the history last. So after a crash or a
// failure it can be called again with the rest.
func (h *History) Forget(ctx context.Context, list []Outlived) (gone int, err error) {
	// By number, because rows of neighbours are on the same pages of the database.
	slices.SortFunc(list, func(a, b Outlived) int { return cmp.Compare(a.Seq, b.Seq) })
	h.s.outputs.moves.mu.Lock()
	defer h.s.outputs.moves.mu.Unlock()
	for gone < len(list) {
		if err := ctx.Err(); err != nil {
			return gone, wrap("forget", err)
		}
		n := 0
		err := h.s.writing(func(w *writer) (err error) {
			n, err = h.forget(w, list[gone:])
			return err
		})
		if err != nil {
			return gone, wrap("forget", err)
		}
		for _, v := range list[gone : gone+n] {
			h.s.outputs.drop(v.Seq)
		}
		gone += n
	}
	return gone, nil
}

// forget is one transaction of Forget. Memory follows after the commit.
func (h *History) forget(w *writer, list []Outlived) (n int, err error) {
	room := budget{rows: eraseRows, bytes: eraseBytes}
	change := h.index.change()
	var last queue.EndPlace
	err = w.conn.Tx(func() (err error) {
		for upTo, bare := 0, false; n < len(list) && !room.spent(); n++ {
			if n == upTo {
				if upTo, bare, err = w.bare(list, n); err != nil {
					return err
				}
			}
			if !bare {
				if all, err := w.erase(list[n].Seq, &room); err != nil {
					return err
				} else if !all {
					break
				}
			}
			change.drop(list[n].page, list[n].at)
			room.rows--
		}
		if err := w.eraseSingles(h.s, seqsOf(list[:n])); err != nil {
			return err
		}
		if last, err = h.noteGone(w, list[:n]); err != nil {
			return err
		}
		if err := change.gather(h.s, w, pagesOf(list[n:])); err != nil {
			return err
		}
		return change.write(w)
	})
	if err != nil {
		return 0, err
	}
	h.index.mu.Lock()
	h.gone = last
	h.index.mu.Unlock()
	h.index.publish(change)
	for _, v := range list[:n] {
		h.s.Memtable.drop(v.Seq)
	}
	return n, nil
}

// bareMost is how many submissions one call of bare looks at.
const bareMost = 64

// bare says whether none of some submissions has a row of its own that erase would have to delete. They are those of
// the list from the n-th up to upTo, whose numbers follow each other. That is one query instead of several for each.
func (w *writer) bare(list []Outlived, n int) (upTo int, none bool, err error) {
	upTo = n + 1
	for upTo < min(len(list), n+bareMost) && list[upTo].Seq == list[upTo-1].Seq+1 && list[upTo].Seq != 1<<31 {
		// there keys turn negative
		upTo++
	}
	first, last := list[n].Seq, list[upTo-1].Seq
	err = w.anyRows.Query(func(row sqlitedb.Row) (bool, error) {
		none = row.Int(0) == 0
		return false, nil
	}, keyOf(first, 0), keyOf(last, lastNumber), int64(first), int64(last))
	return upTo, none, err
}

func seqsOf(list []Outlived) []uint32 {
	seqs := make([]uint32, len(list))
	for i := range list {
		seqs[i] = list[i].Seq
	}
	slices.Sort(seqs)
	return seqs
}

// pagesOf are the pages that submissions are in.
func pagesOf(list []Outlived) map[int64]bool {
	pages := make(map[int64]bool)
	for i := range list {
		pages[list[i].page] = true
	}
	return pages
}

// budget is the rest of a transaction's bounds.
type budget struct{ rows, bytes int64 }

// One row may overdraw it: a row that is larger than the whole budget has to go at some time, too.
func (b *budget) spent() bool { return b.rows <= 0 || b.bytes <= 0 }

// erase deletes content (but for singles), blobs, outputs and attachment of a submission as far as the budget goes;
// `gone` says that nothing is left. Singles are left out, as they share pages with others (eraseSingles).
func (w *writer) erase(seq uint32, room *budget) (gone bool, err error) {
	first, last := keyOf(seq, 0), keyOf(seq, lastNumber)
	for _, from := range []struct{ size, drop *sqlitedb.Stmt }{{w.sizeContent, w.dropContent},
		{w.sizeOutput, w.dropOutput}} {
		if gone, err := eraseRange(from.size, from.drop, first, last, room); err != nil || !gone {
			return false, err
		}
	}
	if gone, err := w.eraseBlobs(seq, room); err != nil || !gone || room.spent() {
		return false, err
	}
	n, err := w.dropAttachment.Exec(int64(seq))
	room.rows -= n
	return err == nil, err
}

// eraseRange deletes the rows of a range from its start, as far as the budget goes. The rows are sized first and then
// deleted as one range: a deletion by key alone could not stop in time.
func eraseRange(size, drop *sqlitedb.Stmt, first, last int64, room *budget) (gone bool, err error) {
	if room.spent() {
		return false, nil
	}
	end, found, asked := int64(0), int64(0), room.rows
	err = size.Query(func(row sqlitedb.Row) (bool, error) {
		end = row.Int(0)
		found++
		room.rows--
		room.bytes -= row.Int(1)
		return !room.spent(), nil
	}, first, last, asked)
	if err != nil {
		return false, err
	}
	if found > 0 {
		if _, err := drop.Exec(first, end); err != nil {
			return false, err
		}
	}
	return !room.spent(), nil
}
