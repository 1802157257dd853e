package store

// One transaction's change of the history, as openchange.go is that of the open submissions: new pages are added at
// the end, a bit in the span of a page marks a submission that left it, and the index in memory learns of the
// change only when the transaction is durable.
//
//	page (never rewritten)   [ e0 e1 e2 e3 e4 e5 e6 e7 ]
//	span: bits of the gone     1  1  0  1  1  1  1  1     one of eight is left: sparse
//	gather                                                e2 goes into a new page, the old one is deleted

import (
	"cmp"
	"slices"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// endedChange is the change of one transaction in the history. The index gets it when the
// transaction is durable.
type endedChange struct {
	index   *endedIndex
	next    int64
	added   []addedPage
	changed map[int64]*span // pages that lost something, by number

	gathered bool // some of added were in changed before
}

type addedPage struct {
	span
	list []checkpoint.Ended
}

// change begins a change. The caller has the writer's lock until it is published or dropped.
func (x *endedIndex) change() *endedChange {
	return &endedChange{index: x, next: x.next, changed: map[int64]*span{}}
}

// add puts ended submissions into new pages.
func (c *endedChange) add(list []checkpoint.Ended) {
	slices.SortFunc(list, func(a, b checkpoint.Ended) int { return cmp.Compare(a.ID, b.ID) })
	for len(list) > 0 {
		n := cut(len(list), func(i int) int { return sizeInHistory(&list[i]) })
		c.added = append(c.added, addedPage{spanOf(c.next, list[:n]), list[:n]})
		c.next++
		list = list[n:]
	}
}

// drop takes the i-th submission of a page out of the history. It works on the span of this change if there is one:
// several may leave a page in one transaction.
func (c *endedChange) drop(page int64, i int) {
	s := c.changed[page]
	if s == nil {
		s = c.index.span(page)
	}
	if s == nil || i >= int(s.count) {
		return
	}
	next := s.without(i)
	c.changed[page] = &next
}

// sparse says that a page has so few submissions left that it is worth writing them into another one.
func (s *span) sparse() bool { return s.left > 0 && s.left <= s.count/8 }

// gather moves the rest of sparse pages into new ones, so that a few submissions that stay for long do not keep on
// the disk all those that ended beside them. Pages in `stay` are left alone: a later transaction looks for
// submissions where they are now.
func (c *endedChange) gather(st *Store, w *writer, stay map[int64]bool) error {
	var list []checkpoint.Ended
	for page, s := range c.changed {
		if !s.sparse() || stay[page] {
			continue
		}
		all, _, err := readEnded(st, w.endedPage, page)
		if err != nil {
			return err
		}
		next := *s
		for i := range all {
			if s.holds(i) {
				list = append(list, all[i])
			}
		}
		next.left = 0
		c.changed[page], c.gathered = &next, true
	}
	c.add(list)
	return nil
}

// write writes the change.
func (c *endedChange) write(w *writer) error {
	for i := range c.added {
		p := &c.added[i]
		bytes := w.make(func(dst []byte) []byte { return appendEndedPage(dst, p.list) })
		if _, err := w.putPage.Exec(p.page, sum(0).number(p.page).bytes(bytes).stored(), bytes); err != nil {
			return err
		}
		if err := w.writeSpan(&p.span); err != nil {
			return err
		}
	}
	for page, s := range c.changed {
		if s.left > 0 {
			if err := w.writeSpan(s); err != nil {
				return err
			}
			continue
		}
		for _, drop := range []*sqlitedb.Stmt{w.dropPage, w.dropSpan} {
			if _, err := drop.Exec(page); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *writer) writeSpan(s *span) error {
	b := s.appendTo(nil)
	_, err := w.putSpan.Exec(s.page, sum(0).number(s.page).bytes(b).stored(), b)
	return err
}

// putEnded writes the ended submissions.
func (c *endedChange) putEnded(st *Store, w *writer, ended []checkpoint.Ended) error {
	for i := range ended {
		if ended[i].Reopened {
			if err := c.dropID(st, w, ended[i].ID); err != nil {
				return err
			}
		}
	}
	c.add(ended)
	return c.write(w)
}

// dropID takes a submission out of the history.
func (c *endedChange) dropID(st *Store, w *writer, id queue.SubmissionID) error {
	for _, s := range c.index.pages(func(s *span) bool { return s.hasID(id) }) {
		list, found, err := readEnded(st, w.endedPage, s.page)
		if err != nil || !found {
			return err
		}
		for i := range list {
			if list[i].ID == id {
				c.drop(s.page, i)
			}
		}
	}
	return nil
}
