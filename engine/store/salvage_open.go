package store

// Open submissions out of a damaged store. They are in up to four tables (submission, progress,
// open_page, open_block), and any of them may have lost rows. A salvage joins the rows that are left: a page without
// its directory counts as whole, unless the history has a submission of it, and a submission without its state begins
// again at its first chunk.

import (
	"cmp"
	"maps"
	"slices"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// salvageOpen is the knowledge about open submissions while a store is salvaged.
//
//	open_block (directory) ─► open_page: rows that the directory says are present
//	                      └► progress: states that the directory says exist (stated)
//	submission            ─► progress: always
type salvageOpen struct {
	blocks   map[uint32]*openBlock
	taken    map[int64]bool             // pages of these blocks that are in the new file
	orphaned map[int64][]checkpoint.Row // pages whose directory is lost, by key
	specs    map[uint32][]byte          // of submissions whose state is yet to be found in the table progress
	maybe    map[uint32]bool            // submissions of orphaned pages: they may have a state in the table progress
}

func newSalvageOpen() salvageOpen {
	return salvageOpen{map[uint32]*openBlock{}, map[int64]bool{}, map[int64][]checkpoint.Row{}, map[uint32][]byte{},
		map[uint32]bool{}}
}

// takeOpen takes over a row of open submissions. Directories come before pages, and both before states. put says
// whether the row goes into the new file as it is. The order is that of summed (sums.go). A state without its
// submission is of no use: it has the progress, but neither the content nor the meta of the work. It is reported as
// lost. The other way round, a submission without a state is worth keeping: its chunks run again.
func (s *salvage) takeOpen(table string, r *sqlitedb.Salvaged) (put bool, err error) {
	seq := seqIn(table, r)
	b, _ := r.Value("bytes").([]byte)
	switch table {
	case "submission":
		s.specs[seq], _ = r.Value("spec").([]byte)
		return true, nil
	case "open_block":
		s.blocks[uint32(r.Rowid)], err = readOpenBlock(b)
		return false, err // directories writes it when all pages are known
	case "open_page":
		return s.takePage(r.Rowid, b)
	}
	if _, waited := s.specs[seq]; !waited && !s.maybe[seq] {
		s.tell(LeftOut{LeftOut: oneRow(table, r.Rowid, "is the state of a submission that is lost"), Seq: seq})
		return false, nil
	}
	if delete(s.specs, seq); s.maybe[seq] {
		s.blocks[blockOf(seq)].stated.add(seq)
	}
	return true, nil
}

// specs remembers a row whose state is in the table progress until the walk meets that state; rows without one get
// the initial state at the end.
func (s *salvage) takePage(key int64, b []byte) (put bool, err error) {
	rows, err := openPageRows(b)
	if err != nil {
		return false, err
	}
	block := s.blocks[blockOfPage(key)]
	p := block.pageAt(key)
	if p == nil {
		s.orphaned[key] = rows
		return true, nil
	}
	s.taken[key] = true
	for _, r := range p.present(nil, rows) {
		s.note(r.Seq)
		if r.State == nil || block.stated.has(r.Seq) {
			s.specs[r.Seq] = r.Spec
		}
	}
	return true, nil
}

// lostPages takes pages that are not there out of their directories.
// Before this the directories are as they were written. lostPages reports the submissions of missing pages, with
// their numbers.
func (s *salvage) lostPages() {
	for _, number := range slices.Sorted(maps.Keys(s.blocks)) {
		b := s.blocks[number]
		b.pages = slices.DeleteFunc(b.pages, func(p openPage) bool {
			key := pageKey(number, p.number)
			if s.taken[key] {
				return false
			}
			first, last := p.here.span(number)
			s.note(last)
			s.tell(LeftOut{LeftOut: oneRow("open_page", key, "is lost"), Gone: uint32(p.here.count()),
				Seqs: [2]uint32{first, last}})
			for seq := uint64(first); seq <= uint64(last); seq++ {
				if p.here.has(uint32(seq)) {
					b.stated.remove(uint32(seq))
				}
			}
			return true
		})
	}
}

// rebuild makes directories for pages that have none. It leaves out submissions that the history has, as they are not
// open any more.
func (s *salvage) rebuild() error {
	if len(s.orphaned) == 0 {
		return nil
	}
	ended, err := s.endedSeqs()
	if err != nil {
		return err
	}
	for _, key := range slices.Backward(slices.Sorted(maps.Keys(s.orphaned))) {
		// of two places of a submission the later one counts
		number := blockOfPage(key)
		b := s.blocks[number]
		if b == nil {
			b = &openBlock{}
			s.blocks[number] = b
			s.tell(LeftOut{LeftOut: oneRow("open_block", int64(number),
				"is lost: its submissions are open, but for those that the history has")})
		}
		p := openPage{number: uint32(key & (1<<20 - 1)), count: uint32(len(s.orphaned[key])), size: openPageBytes}
		for _, r := range s.orphaned[key] {
			if s.note(r.Seq); ended.has(r.Seq) || s.maybe[r.Seq] || s.specs[r.Seq] != nil {
				continue
			}
			p.here.add(r.Seq)
			if s.maybe[r.Seq] = true; r.State == nil {
				s.specs[r.Seq] = r.Spec
				b.stated.add(r.Seq)
			}
		}
		b.pages = slices.Insert(b.pages, 0, p)
	}
	return nil
}

// endedSeqs are the numbers of all that the new file's history has.
func (s *salvage) endedSeqs() (seqSet, error) {
	pages, err := s.blobs("SELECT n, bytes FROM history_page")
	if err != nil {
		return nil, err
	}
	seqs := seqSet{}
	for _, b := range pages {
		list, err := endedPage(b)
		if err != nil {
			return nil, err
		}
		for i := range list {
			seqs.add(list[i].Seq)
		}
	}
	return seqs, nil
}

// directories writes those of all blocks. Blocks without pages have no row, as openChange writes none for them.
func (s *salvage) directories() error {
	for number, b := range s.blocks {
		slices.SortFunc(b.pages, func(x, y openPage) int { return cmp.Compare(x.number, y.number) })
		bytes, n := b.appendTo(nil), int64(number)
		if len(bytes) == 0 {
			continue
		}
		if err := s.putBytes("open_block", n, bytes); err != nil {
			return err
		}
	}
	return nil
}

// certainOpen are the submissions of a damaged page of open ones whose inserts are whole.
func certainOpen(page []byte) (ids []queue.SubmissionID) {
	list, _ := openPageRows(page)
	for i := range list {
		ids = appendCertain(ids, list[i].Spec, list[i].ID, list[i].Seq)
	}
	return ids
}
