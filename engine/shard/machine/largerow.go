package machine

// This file takes the row of an open submission with very many exceptions without holding
// the mutex for long.
//
// What a row tells is which chunks are over, and the tries of those that are not or that ended badly.
// Only ops that are applied change that. So while applying is held the row is what it is, at one
// position, whatever else goes on under the mutex: reserves, releases and retries only move chunks
// between those that are available, held and waiting, and all of these are written as available. The
// cursors and the lists of what is put back and taken ahead are copied in one hold, as they lie;
// which of the taken chunks are held or wait is found out slice by slice, and a chunk that ceases to
// be either before it was met is noted when it does (loosened.note). More than that are of no harm:
// whatever is available, held or waits at any time meanwhile was one of these at the copy, too.

// Size is about how many entries the row of an open submission has.
func (r *Record) Size() int { return 1 + len(r.Tries) + int(r.Holds.Len()) + r.Sub.Exceptions() }

// Loosened is what ceased to be held or to wait while the row of one submission is being taken in slices.
type Loosened struct {
	Of      *Record // nil: none is
	Indexes []uint32
}

// note notes that a chunk is no longer held, or no longer waits.
func (l *Loosened) note(r *Record, index uint32) {
	if l.Of == r {
		l.Indexes = append(l.Indexes, index)
	}
}
