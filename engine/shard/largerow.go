package shard

// This file takes the row of an open submission with very many exceptions without holding the mutex for long.
//
// What a row tells is which chunks are over, and the tries of those that are not or that ended badly. Only ops that are applied change
// that. So while applying is held the row is what it is, at one position, whatever else goes on under the mutex: reserves, releases and
// retries only move chunks between those that are available, held and waiting, and all of these are written as available. The cursors and
// the lists of what is put back and taken ahead are copied in one hold, as they lie; which of the taken chunks are held or wait is found
// out slice by slice, and a chunk that ceases to be either before it was met is noted when it does (loosened.note). More than that are
// of no harm: whatever is available, held or waits at any time meanwhile was one of these at the copy, too.

// size is about how many entries the row of an open submission has.
func (r *record) size() int { return 1 + len(r.tries) + int(r.holds.Len()) + r.sub.Exceptions() }

// loosened is what ceased to be held or to wait while the row of one submission is being taken in slices.
type loosened struct {
	of      *record // nil: none is
	indexes []uint32
}

// note notes that a chunk is no longer held, or no longer waits.
func (l *loosened) note(r *record, index uint32) {
	if l.of == r {
		l.indexes = append(l.indexes, index)
	}
}

// largeSnapshot is machine.snapshot in slices. applying is held all the time; so is the mutex at the beginning and at the end.
func (s *Shard) largeSnapshot(m *machine, r *record) []byte {
	left, outputs, most := r.sub.Copy(), r.outputs, s.options.CheckpointItems
	m.loose.of = r
	s.mu.Unlock()
	state := r.appendTries(nil, outputs)
	var out []uint32
	for from, more := uint64(0), true; more; {
		s.mu.Lock()
		list := r.delays.from(from, most, nil)
		s.mu.Unlock()
		if more = len(list) == most; more {
			from = uint64(list[len(list)-1]) + 1
		}
		out = append(out, list...)
	}
	for slot, more := uint32(0), true; more; {
		s.mu.Lock()
		end := min(slot+uint32(most), m.holds.Slots())
		more = end < m.holds.Slots()
		for ; slot < end; slot++ {
			if h := m.holds.At(slot); h != nil && h.Seq == r.seq {
				out = append(out, h.Index)
			}
		}
		s.mu.Unlock()
	}
	s.mu.Lock()
	out = append(out, m.loose.indexes...)
	m.loose = loosened{}
	s.mu.Unlock()
	state = left.AppendSnapshot(state, out)
	s.mu.Lock()
	return state
}
