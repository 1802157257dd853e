package backlog

// Remains are the chunks of a removed submission as they were when it went. They never change, so they may be read without
// whatever guards the backlog.
type Remains struct{ was Submission }

// RemoveKeeping forgets the submission as Remove does, and returns what is left of its chunks. It costs the same however
// many of them are taken or put back: nothing is copied.
func (b *Backlog) RemoveKeeping(s *Submission) *Remains {
	left := &Remains{was: Submission{
		chunks: s.chunks, p: s.p, l: s.l, mul: s.mul, inv: s.inv, add: s.add, back: s.back, ahead: s.ahead,
	}}
	b.Remove(s)
	return left
}

// AppendSnapshot is that of the submission at the moment of its removal.
func (r *Remains) AppendSnapshot(dst []byte, out []uint32) []byte {
	return r.was.AppendSnapshot(dst, out)
}
