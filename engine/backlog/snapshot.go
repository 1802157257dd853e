package backlog

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// A snapshot has the state of a submission that is not in its Spec, as unsigned varints:
//
//	version   1
//	p, l      the cursors
//	both      how many chunks both have visited
//	B         how many visited chunks are available, then B ascending indexes: the first, and each next as its
//	          distance to the one before it
//	S         how many not visited chunks are taken, then S ascending indexes in the same way
//
// It does not have the chunks in flight: a restart forgets reservations, so held chunks are written as
// available (`out`).
const snapshotVersion = 1

// AppendSnapshot appends the submission's state, for Restore. out lists the taken chunks that
// are to come back as available, in any order: those held, and those that wait for another try.
//
// The size follows the exceptions, never the chunks: a submission of four billion chunks
// that was worked off in order has a snapshot of less than twenty bytes.
func (s *Submission) AppendSnapshot(dst []byte, out []uint32) []byte {
	back, skipped := s.exceptions(out)
	for _, n := range [...]uint32{snapshotVersion, s.p, s.l, s.both} {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	dst = appendAscending(dst, back)
	return appendAscending(dst, skipped)
}

// exceptions are the put-back and the skipped chunks, sorted, as they are once the chunks of out came back.
func (s *Submission) exceptions(out []uint32) (back, skipped []uint32) {
	if s.back != nil {
		back = append(back, s.back.heap...)
	}
	skipped = s.ahead.appendKeys(nil)
	slices.Sort(skipped)
	var returning []uint32 // of the skipped
	for _, index := range out {
		switch {
		case index >= s.chunks:
		case s.visited(index):
			back = append(back, index)
		case s.ahead.has(index):
			returning = append(returning, index)
		}
	}
	slices.Sort(back)
	back = slices.Compact(back)
	if len(returning) > 0 {
		slices.Sort(returning)
		skipped = slices.DeleteFunc(skipped, func(index uint32) bool {
			_, found := slices.BinarySearch(returning, index)
			return found
		})
	}
	return back, skipped
}

func appendAscending(dst []byte, indexes []uint32) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(indexes)))
	last := uint32(0)
	for _, index := range indexes {
		dst = binary.AppendUvarint(dst, uint64(index-last))
		last = index
	}
	return dst
}

var errSnapshot = errors.New("the snapshot is cut off or holds a number that is too large")

// Restore adds a submission in the state that AppendSnapshot wrote. It is hidden and has
// nothing in flight. After an error the backlog is as before.
func (b *Backlog) Restore(spec Spec, snapshot []byte) (*Submission, error) {
	if err := b.check(&spec); err != nil {
		return nil, err
	}
	r := snapshotReader{rest: snapshot, chunks: spec.Chunks}
	version := r.number(none)
	if !r.bad && version > snapshotVersion {
		return nil, fmt.Errorf("backlog: restore %v: the snapshot has version %d, this program "+
			"knows %d: use a newer one", spec.ID, version, snapshotVersion)
	}
	probe := Submission{chunks: spec.Chunks, key: spec.Key, p: r.number(spec.Chunks), l: r.number(spec.Chunks)}
	probe.both = r.number(min(probe.p, probe.l))
	back, skipped := r.ascending(), r.ascending()
	if r.bad || len(r.rest) > 0 || version != snapshotVersion || !probe.counts() {
		return nil, fmt.Errorf("backlog: restore %v: %w", spec.ID, errSnapshot)
	}
	for _, index := range back {
		if !probe.visited(index) {
			return nil, fmt.Errorf("backlog: restore %v: chunk %d is put back but not visited", spec.ID, index)
		}
	}
	for _, index := range skipped {
		if probe.visited(index) {
			return nil, fmt.Errorf("backlog: restore %v: chunk %d is skipped but visited", spec.ID, index)
		}
	}
	s := b.enter(&spec)
	s.p, s.l, s.both = probe.p, probe.l, probe.both
	for _, index := range back {
		b.exceptions.addBack(s, index)
	}
	if len(skipped) > 0 {
		s.ahead = newTable(true)
		for _, index := range skipped {
			s.ahead.put(index, 0)
		}
	}
	s.available = s.Recounted()
	return s, nil
}

// counts checks how many chunks both cursors are said to have visited: exactly where that
// takes few steps, else whether it can be.
func (s *Submission) counts() bool {
	both := uint32(0)
	switch steps := min(s.p, s.l, s.chunks-s.p, s.chunks-s.l); {
	case steps > sampled:
		return uint64(s.both)+uint64(s.chunks) >= uint64(s.p)+uint64(s.l)
	case steps == s.p:
		for p := range s.p {
			if s.at(p) < s.l {
				both++
			}
		}
	case steps == s.l:
		for index := range s.l {
			if s.positionOf(index) < s.p {
				both++
			}
		}
	case steps == s.chunks-s.p:
		both = s.l
		for p := s.p; p < s.chunks; p++ {
			if s.at(p) < s.l {
				both--
			}
		}
	default:
		both = s.p
		for index := s.l; index < s.chunks; index++ {
			if s.positionOf(index) < s.p {
				both--
			}
		}
	}
	return both == s.both
}

// snapshotReader reads varints; after the first bad one it returns zeros and stays bad.
type snapshotReader struct {
	rest   []byte
	chunks uint32
	bad    bool
}

func (s *snapshotReader) number(most uint32) uint32 {
	x, size := binary.Uvarint(s.rest)
	if s.bad || size <= 0 || x > uint64(most) {
		s.bad = true
		return 0
	}
	s.rest = s.rest[size:]
	return uint32(x)
}

func (s *snapshotReader) ascending() []uint32 {
	count := int(s.number(s.chunks))
	if count > len(s.rest) { // each takes a byte at least
		s.bad = true
		return nil
	}
	if count == 0 {
		return nil
	}
	indexes := make([]uint32, 0, count)
	last := uint64(0)
	for i := range count {
		step := uint64(s.number(s.chunks))
		last += step
		if s.bad || last >= uint64(s.chunks) || i > 0 && step == 0 {
			s.bad = true
			return nil
		}
		indexes = append(indexes, uint32(last))
	}
	return indexes
}

// ShrinkSkips makes the skip set smaller after a replay, which knows the completed chunks but not the order
// in which they were taken. Where completed chunks lie densely behind a cursor, the cursor moves over them,
// and the few chunks between them become put-back chunks. The same chunks stay available.
func (b *Backlog) ShrinkSkips(s *Submission) {
	if s.home == nil {
		return
	}
	for range 2 { // one cursor may pass chunks that the other one left
		if s.ahead.len() == 0 {
			return
		}
		reachP, gainP := s.reach(s.p, s.positionOf)
		reachL, gainL := s.reach(s.l, func(index uint32) uint32 { return index })
		switch {
		case gainP == 0 && gainL == 0:
			return
		case gainP >= gainL:
			b.exceptions.pass(s, true, reachP)
		default:
			b.exceptions.pass(s, false, reachL)
		}
	}
}

// reach is how far a cursor should move so that the fewest exceptions are left, and how
// many fewer they are.
func (s *Submission) reach(cursor uint32, place func(index uint32) uint32) (to uint32, gain int) {
	places := s.ahead.appendKeys(make([]uint32, 0, s.ahead.len()))
	for i, index := range places {
		places[i] = place(index)
	}
	slices.SortFunc(places, cmp.Compare[uint32])
	to = cursor
	for i, place := range places {
		skips, distance := i+1, int64(place)+1-int64(cursor)
		if fewer := int64(2*skips) - distance; fewer > int64(gain) { // skips go, distance-skips put-backs come
			to, gain = place+1, int(fewer)
		}
	}
	return to, gain
}

// Remains are the chunks of a removed submission as they were when it went. They never
// change, so they may be read without whatever guards the backlog.
type Remains struct{ was Submission }

// RemoveKeeping forgets the submission as Remove does, and returns its remaining chunks. It copies
// nothing, so it costs the same however many of them are taken or put back.
func (b *Backlog) RemoveKeeping(s *Submission) *Remains {
	left := &Remains{was: Submission{
		chunks: s.chunks, p: s.p, l: s.l, both: s.both, key: s.key, back: s.back, ahead: s.ahead,
	}}
	b.Remove(s)
	return left
}

// Copy returns a copy of the submission's chunks as they are now. For chunks that are put back or
// taken ahead, it copies their numbers, four bytes each.
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

// Exceptions is how many chunks are put back or taken ahead. A snapshot lists them beside the cursors.
func (s *Submission) Exceptions() int { return s.back.len() + s.ahead.len() }

// AppendSnapshot appends the snapshot of the submission at the moment of its removal, or of the copy.
func (r *Remains) AppendSnapshot(dst []byte, out []uint32) []byte {
	return r.was.AppendSnapshot(dst, out)
}
