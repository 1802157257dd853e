package backlog

import "slices"

// Remains are the chunks of a removed submission as they were when it went. They never change, so they may be read without
// whatever guards the backlog.
type Remains struct{ was Submission }

// RemoveKeeping forgets the submission as Remove does, and returns what is left of its chunks. It costs the same however
// many of them are taken or put back: nothing is copied.
func (b *Backlog) RemoveKeeping(s *Submission) *Remains {
	left := &Remains{was: Submission{
		chunks: s.chunks, p: s.p, l: s.l, both: s.both, key: s.key, back: s.back, ahead: s.ahead,
	}}
	b.Remove(s)
	return left
}

// Copy is the submission's chunks as they are now. Of what is put back or taken ahead the numbers are copied as they lie, four bytes each.
func (s *Submission) Copy() *Remains {
	left := &Remains{was: Submission{chunks: s.chunks, p: s.p, l: s.l, both: s.both, key: s.key}}
	if s.back != nil {
		left.was.back = &pile{heap: slices.Clone(s.back.heap)}
	}
	if s.ahead != nil {
		ahead := *s.ahead
		ahead.keys, ahead.values = slices.Clone(ahead.keys), nil
		left.was.ahead = &ahead
	}
	return left
}

// Exceptions is how many chunks are put back or taken ahead: what a snapshot lists beside the cursors.
func (s *Submission) Exceptions() int { return s.back.len() + s.ahead.len() }

// AppendSnapshot is that of the submission at the moment of its removal, or of the copy.
func (r *Remains) AppendSnapshot(dst []byte, out []uint32) []byte {
	return r.was.AppendSnapshot(dst, out)
}
