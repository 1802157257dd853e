package backlog

// seqs finds slots by seq. Seqs are drawn one after the other and go away roughly in that
// order, so pages of them, of which only those in use are kept, are several times faster
// than a map: every completion looks one up.
type seqs struct {
	pages []*seqPage // by seq / seqPageSize; nil where nothing is in use
	count int
}

const seqPageSize = 1024

type seqPage struct {
	slots [seqPageSize]uint32 // none where free
	used  int
}

func (s *seqs) find(seq uint32) (slot uint32, ok bool) {
	if page := seq / seqPageSize; page < uint32(len(s.pages)) && s.pages[page] != nil {
		slot = s.pages[page].slots[seq%seqPageSize]
		return slot, slot != none
	}
	return 0, false
}

func (s *seqs) put(seq, slot uint32) {
	page := int(seq / seqPageSize)
	for len(s.pages) <= page {
		s.pages = append(s.pages, nil)
	}
	p := s.pages[page]
	if p == nil {
		p = new(seqPage)
		for i := range p.slots {
			p.slots[i] = none
		}
		s.pages[page] = p
	}
	p.slots[seq%seqPageSize] = slot
	p.used++
	s.count++
}

func (s *seqs) drop(seq uint32) {
	p := s.pages[seq/seqPageSize]
	p.slots[seq%seqPageSize] = none
	s.count--
	if p.used--; p.used == 0 {
		s.pages[seq/seqPageSize] = nil
	}
}
