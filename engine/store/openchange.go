package store

// One transaction's change of the open submissions: openblock.go has the directory and the
// pages.
//
//	put(row) ──► no spec: only its state changed ──────────► row in table progress
//	        ──► spec too long for a page ──────────────────► rows in submission and progress
//	        ──► else ──────────────────────────────────────► gathered into new pages of its block
//	drop(seq) ─► its bit in the directory goes; the page stays until it is sparse
//
// The change works on copies of directories (openBlock.clone). They replace those of the index when
// the transaction is durable (publish). If it fails, the change is dropped and the index still
// agrees with the file.

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// openIndex has the directories of all blocks in memory. Only the writer uses it.
type openIndex struct {
	blocks map[uint32]*openBlock
}

// load reads the directories of all blocks, and which submissions have rows of their own. Pages themselves are not
// read: the directories say which submissions are in them, so an open costs some bytes for each and not a row.
func (x *openIndex) load(s *Store) error {
	x.blocks = map[uint32]*openBlock{}
	err := s.write.openBlocks.Query(func(row sqlitedb.Row) (bool, error) {
		b, err := s.openBlock(row.Int(0), row.Int(1), row.Blob(2))
		x.blocks[uint32(row.Int(0))] = b
		return true, err
	})
	if err != nil {
		return err
	}
	return s.write.rowSeqs.Query(func(row sqlitedb.Row) (bool, error) {
		seq := uint32(row.Int(0))
		b := x.blocks[blockOf(seq)]
		if b == nil {
			b = &openBlock{}
			x.blocks[blockOf(seq)] = b
		}
		b.rows.add(seq)
		return true, nil
	})
}

// openBlock reads the row of a directory.
func (s *Store) openBlock(n, crc int64, bytes []byte) (*openBlock, error) {
	if sum(0).number(n).bytes(bytes).stored() == crc {
		if b, err := readOpenBlock(bytes); err == nil {
			return b, nil
		}
	}
	return nil, s.damaged("open_block", n)
}

// openChange is the change of one transaction in the open submissions. The index gets it when the transaction is
// durable. Only the goroutine that has the writer's lock uses it.
type openChange struct {
	index  *openIndex
	blocks map[uint32]*changedBlock

	specs, states []*checkpoint.Row // whose rows are written, unless they are dropped in the same change
	noRow         []uint32          // whose row in the table submission goes
	noState       []uint32          // whose row in the table progress goes
}

// changedBlock is a block as it will be.
type changedBlock struct {
	openBlock
	added []checkpoint.Row
	fresh seqBits // the seqs among them
}

// change begins a change. The caller has the writer's lock until it is published or dropped.
func (x *openIndex) change() *openChange {
	return &openChange{index: x, blocks: map[uint32]*changedBlock{}}
}

// A block is copied when it is first touched, so the cost of a change follows the touched blocks and not all blocks.
func (c *openChange) block(seq uint32) *changedBlock {
	number := blockOf(seq)
	b := c.blocks[number]
	if b == nil {
		b = &changedBlock{}
		if now := c.index.blocks[number]; now != nil {
			b.openBlock = *now.clone()
		}
		c.blocks[number] = b
	}
	return b
}

// put stores the snapshot of an open submission. Usually a row has a state but no spec, as the submission is there
// already and only made progress. The state goes to the table progress, so the page with the spec is not written
// again.
func (c *openChange) put(r *checkpoint.Row) error {
	b := c.block(r.Seq)
	if r.Spec == nil {
		switch {
		case b.paged(r.Seq) || b.fresh.has(r.Seq):
			b.stated.add(r.Seq)
		case !b.rows.has(r.Seq):
			return fmt.Errorf("the state of submission %s is to be stored, which is not there", r.ID)
		}
		c.states = append(c.states, r)
		return nil
	}
	c.drop(r.Seq) // where it was with another spec
	if len(r.Spec) > openLoneBytes {
		b.rows.add(r.Seq)
		c.specs, c.states = append(c.specs, r), append(c.states, r)
		return nil
	}
	paged := *r
	if len(r.State) > openLoneBytes {
		b.stated.add(r.Seq)
		c.states, paged.State = append(c.states, r), nil
	}
	b.added = append(b.added, paged)
	b.fresh.add(r.Seq)
	return nil
}

// drop takes a submission out of the open ones.
// The same submission may be put and dropped in one change, when it was inserted and ended between two checkpoints.
func (c *openChange) drop(seq uint32) {
	b := c.block(seq)
	if b.fresh.remove(seq) { // rare: it was put in the same change
		b.added = slices.DeleteFunc(b.added, func(r checkpoint.Row) bool { return r.Seq == seq })
	}
	row, state := b.drop(seq)
	if row {
		c.noRow = append(c.noRow, seq)
	}
	if state {
		c.noState = append(c.noState, seq)
	}
}

// write writes the change: removals first, because the same submission may come again.
func (c *openChange) write(s *Store, w *writer) error {
	if err := dropSeqs(w.dropSubmissions, c.noRow); err != nil {
		return err
	}
	if err := dropSeqs(w.dropProgress, c.noState); err != nil {
		return err
	}
	if err := c.writeRows(w); err != nil {
		return err
	}
	for _, number := range slices.Sorted(maps.Keys(c.blocks)) {
		if err := c.writeBlock(s, w, number); err != nil {
			return err
		}
	}
	return nil
}

// dropSeqs deletes the rows of these seqs. Neighbours go together. Submissions often end in the order of their
// inserts, so most of a batch is a few ranges.
func dropSeqs(drop *sqlitedb.Stmt, seqs []uint32) error {
	slices.Sort(seqs)
	for len(seqs) > 0 {
		n := 1
		for n < len(seqs) && seqs[n]-seqs[n-1] <= 1 {
			n++
		}
		if _, err := drop.Exec(int64(seqs[0]), int64(seqs[n-1])); err != nil {
			return err
		}
		seqs = seqs[n:]
	}
	return nil
}

// writeRows writes the submissions with rows of their own.
// The lists may name submissions that were dropped later in the same change. The bits of the block say which are
// left.
func (c *openChange) writeRows(w *writer) error {
	for _, r := range c.specs {
		if seq := int64(r.Seq); c.block(r.Seq).rows.has(r.Seq) {
			crc := sum(0).number(seq).number(int64(r.ID)).bytes(r.Spec)
			if _, err := w.putSubmission.Exec(seq, int64(r.ID), crc.stored(), r.Spec); err != nil {
				return err
			}
		}
	}
	for _, r := range c.states {
		if b, seq := c.block(r.Seq), int64(r.Seq); b.rows.has(r.Seq) || b.stated.has(r.Seq) {
			if _, err := w.putProgress.Exec(seq, sum(0).number(seq).bytes(r.State).stored(), r.State); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeBlock writes the new pages of a block, deletes the empty ones, and writes its directory. Rows are packed by
// ascending seq into as few pages as hold them. Pages are never changed: a page that lost members stays as it is, and
// its directory says which ones count.
func (c *openChange) writeBlock(s *Store, w *writer, number uint32) error {
	b := c.blocks[number]
	list, err := c.gather(s, w, number, b.added)
	if err != nil {
		return err
	}
	slices.SortFunc(list, func(x, y checkpoint.Row) int { return cmp.Compare(x.Seq, y.Seq) })
	for len(list) > 0 {
		n, p := 1, openPage{number: b.next(), size: uint32(sizeInOpen(&list[0]))}
		for ; n < len(list) && int(p.size)+sizeInOpen(&list[n]) <= openPageBytes; n++ {
			p.size += uint32(sizeInOpen(&list[n]))
		}
		p.count = uint32(n)
		for i := range list[:n] {
			p.here.add(list[i].Seq)
		}
		key, page := pageKey(number, p.number), w.make(func(dst []byte) []byte { return appendOpenPage(dst, list[:n]) })
		if _, err := w.putOpenPage.Exec(key, sum(0).number(key).bytes(page).stored(), page); err != nil {
			return err
		}
		b.pages, list = append(b.pages, p), list[n:]
	}
	return c.writeDirectory(w, number)
}

// gather deletes pages that are not worth keeping, and adds their remaining submissions to the list of those that get
// a new place. So a few submissions that stay for long do not keep on the disk all those that came with them. It also
// takes the last page while that is small, so that checkpoints with few inserts fill it up and do not add a page
// each.
func (c *openChange) gather(s *Store, w *writer, number uint32, list []checkpoint.Row) ([]checkpoint.Row, error) {
	b := c.blocks[number]
	kept := make([]openPage, 0, len(b.pages)+1)
	take := func(p *openPage) (err error) {
		key := pageKey(number, p.number)
		if p.here.count() > 0 {
			if list, err = w.openRows(s, key, p, list); err != nil {
				return err
			}
		}
		_, err = w.dropOpenPage.Exec(key)
		return err
	}
	for i := range b.pages {
		if !b.pages[i].sparse() {
			kept = append(kept, b.pages[i])
		} else if err := take(&b.pages[i]); err != nil {
			return nil, err
		}
	}
	if last := len(kept) - 1; last >= 0 && len(list) > 0 && kept[last].small() {
		if err := take(&kept[last]); err != nil {
			return nil, err
		}
		kept = kept[:last]
	}
	b.pages = kept
	return list, nil
}

// openRows appends the submissions that are still in a page to a list. A page that the directory names and that is
// not there is damage: passing over it would lose its submissions silently.
func (w *writer) openRows(s *Store, key int64, p *openPage, list []checkpoint.Row) ([]checkpoint.Row, error) {
	found := false
	err := w.openPage.Query(func(row sqlitedb.Row) (bool, error) {
		all, err := s.openPage(key, row.Int(0), row.Blob(1))
		list, found = p.present(list, all), true
		return false, err
	}, key)
	if err == nil && !found {
		err = s.damaged("open_page", key)
	}
	return list, err
}

// openPage reads the row of a page.
func (s *Store) openPage(key, crc int64, page []byte) ([]checkpoint.Row, error) {
	if sum(0).number(key).bytes(page).stored() == crc {
		if rows, err := openPageRows(page); err == nil {
			return rows, nil
		}
	}
	return nil, s.damaged("open_page", key)
}

// writeDirectory writes the directory of a block, if it changed. The directory is the truth about a page's members,
// and a change of states alone leaves it as it is.
func (c *openChange) writeDirectory(w *writer, number uint32) error {
	var before []byte
	if was := c.index.blocks[number]; was != nil {
		before = was.appendTo(nil)
	}
	after := c.blocks[number].appendTo(nil)
	var err error
	switch n := int64(number); {
	case bytes.Equal(before, after):
	case len(after) == 0:
		_, err = w.dropOpenBlock.Exec(n)
	default:
		_, err = w.putOpenBlock.Exec(n, sum(0).number(n).bytes(after).stored(), after)
	}
	return err
}

// publish brings the index up to the changes of a transaction. The caller still has the writer's lock, so no other
// change begins between the commit and this.
func (x *openIndex) publish(c *openChange) {
	for number, b := range c.blocks {
		if b.empty() {
			delete(x.blocks, number)
			continue
		}
		block := b.openBlock
		x.blocks[number] = &block
	}
}
