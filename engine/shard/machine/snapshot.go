package machine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// A snapshot is the changing part of a submission, as in its store row, true up to the position it carries:
//
//	version 1 | flags | position | done | dead | chunk that failed it | outputs | number of tries | tries ... |
//
// cursors and exceptions (backlog)
//
// docs/formats/ops.md gives it byte by byte. Reserved and waiting chunks are written as available: reservations end
// with the process, and a waiting chunk's try says that it waits. The version is in every row, not in the file: rows of
// several versions may stand beside each other while a newer server writes them again one by one.
const SnapshotVersion = 1

// The flags: some chunk has an output, and the row says how many; each try is followed by its past; the submission
// failed, and the row has the chunk that failed it.
const (
	snapshotOutputs = 1 << iota
	snapshotPast
	snapshotFailed
)

// Snapshot appends the snapshot of an open submission.
//
// Held chunks are written as available, because reservations end with the process. A row with reservations would make a
// restart wait for consumers that may be gone; the others extend.
func (m *Machine) Snapshot(dst []byte, r *Record) []byte {
	var held []uint32
	if r.Holds.Len() > 0 {
		held = make([]uint32, 0, r.Holds.Len())
		m.Holds.Each(&r.Holds, func(_ uint32, h *reserver.Hold) bool {
			held = append(held, h.Index)
			return true
		})
	}
	return r.appendSnapshot(dst, held, r.Sub)
}

// cursors say which chunks of a submission are taken, in the backlog or after its end.
type cursors interface {
	AppendSnapshot(dst []byte, out []uint32) []byte
}

// appendSnapshot appends the snapshot of a record whose chunks are in sub, and of which these are held.
// A chunk that waits is written as available because its try says until when it waits; a cursor cannot.
func (r *Record) appendSnapshot(dst []byte, held []uint32, sub cursors) []byte {
	out := held
	for index, t := range r.Tries {
		if t.Waiting {
			out = append(out, index) // perhaps once more: a late completion may be on its way
		}
	}
	return sub.AppendSnapshot(r.AppendTries(dst, r.Outputs), out)
}

// AppendTries appends the part of the row before the cursors. Only applied ops change it, so for an open submission the
// lock `applying` is enough.
func (r *Record) AppendTries(dst []byte, outputs OutputCount) []byte {
	flags := byte(0)
	if outputs.Some() {
		flags |= snapshotOutputs
	}
	for _, t := range r.Tries {
		if len(t.Past) > 0 || t.Redrives > 0 {
			flags |= snapshotPast
			break
		}
	}
	failed := r.Ended != nil && r.Ended.failed != nil
	if failed {
		flags |= snapshotFailed
	}
	dst = append(dst, SnapshotVersion, flags)
	dst = binary.AppendUvarint(dst, uint64(r.AppliedAt))
	dst = binary.AppendUvarint(dst, uint64(r.Done))
	dst = binary.AppendUvarint(dst, uint64(r.Dead))
	if failed {
		dst = binary.AppendUvarint(dst, uint64(*r.Ended.failed))
	}
	if outputs.Some() {
		dst = binary.AppendUvarint(dst, uint64(outputs.Chunks))
		dst = binary.AppendUvarint(dst, uint64(outputs.Sum))
	}
	dst = binary.AppendUvarint(dst, uint64(len(r.Tries)))
	if len(r.Tries) == 0 { // as for most rows: sorting allocates even without tries
		return dst
	}
	for _, index := range slices.Sorted(maps.Keys(r.Tries)) {
		t := r.Tries[index]
		dst = t.append(binary.AppendUvarint(dst, uint64(index)))
		if flags&snapshotPast != 0 {
			dst = t.appendPast(dst)
		}
	}
	return dst
}

// The epoch and the sequence are of the token whose attempt this was: a completion that comes late with it still
// counts.
func (t *Try) append(dst []byte) []byte {
	dst = append(dst, byte(t.Reason))
	dst = binary.AppendUvarint(dst, uint64(t.Attempts))
	dst = binary.AppendUvarint(dst, uint64(t.Expiries))
	dst = binary.AppendVarint(dst, int64(t.NotBefore))
	dst = binary.AppendUvarint(dst, uint64(t.epoch))
	dst = binary.AppendUvarint(dst, t.sequence)
	dst = appendText(dst, t.Err)
	if t.Reason == journal.Forwarded {
		dst = appendText(binary.AppendUvarint(dst, t.Number), t.To)
	}
	return dst
}

// The flags of a past attempt: it ended by its deadline; its error is that of the try; it
// ended with its consumer.
const (
	pastExpired = 1 << iota
	pastSameError
	pastLost
)

// The last attempt usually has the error of the try itself, and is the longest text of the row, so it is written
// once.
func (t *Try) appendPast(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(t.Redrives))
	dst = binary.AppendUvarint(dst, uint64(len(t.Past)))
	for i := range t.Past {
		a := &t.Past[i]
		flags := byte(0)
		if a.Expired {
			flags |= pastExpired
		}
		if a.Error == t.Err {
			flags |= pastSameError
		}
		if a.Lost {
			flags |= pastLost
		}
		dst = append(dst, flags)
		dst = binary.AppendVarint(dst, int64(a.Ended))
		dst = binary.AppendUvarint(dst, uint64(a.Held.Milliseconds()))
		dst = appendText(dst, a.Consumer)
		if flags&pastSameError == 0 {
			dst = appendText(dst, a.Error)
		}
	}
	return dst
}

func appendText(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// Bounds are checked while reading: a row is not trusted, although its checksum matched, because another version
// may have written it.
func (t *Try) restorePast(d *fields) {
	t.Redrives = uint16(d.within(math.MaxUint16))
	for n := d.within(queue.MaxAttemptsKept); n > 0 && !d.bad; n-- {
		flags := d.within(pastExpired | pastSameError | pastLost)
		a := queue.Attempt{Expired: flags&pastExpired != 0, Lost: flags&pastLost != 0, Ended: queue.Time(d.int()),
			Held: time.Duration(d.within(math.MaxUint32)) * time.Millisecond, Consumer: d.text()}
		if a.Error = t.Err; flags&pastSameError == 0 {
			a.Error = d.text()
		}
		t.Past = append(t.Past, a)
	}
}

// ErrSnapshot is the error of a row that cannot be read.
var ErrSnapshot = errors.New("shard: a submission's row is damaged or of a newer version")

// SnapshotPosition is the position up to which a row holds.
func SnapshotPosition(state []byte) (journal.Position, error) {
	if len(state) < 2 || state[0] != SnapshotVersion {
		return 0, ErrSnapshot
	}
	d := fields{b: state[2:]}
	position := journal.Position(d.uint())
	if d.bad {
		return 0, ErrSnapshot
	}
	return position, nil
}

// restore reads a snapshot into r and returns the rest, which is for the backlog. Counts that follow from the tries
// (skips, forwards) are not in the row: data that is stored twice can disagree.
func (r *Record) restore(b []byte) ([]byte, error) {
	if len(b) < 2 || b[0] != SnapshotVersion {
		return nil, ErrSnapshot
	}
	d := fields{b: b[2:]}
	if b[1] > snapshotOutputs|snapshotPast|snapshotFailed || b[1]&snapshotFailed != 0 && r.State != queue.Failed {
		return nil, ErrSnapshot
	}
	r.AppliedAt = journal.Position(d.uint())
	r.Done = uint32(d.within(uint64(r.Chunks)))
	r.Dead = uint32(d.within(uint64(r.Chunks - r.Done)))
	if b[1]&snapshotFailed != 0 {
		index := uint32(d.within(uint64(r.Chunks - 1)))
		r.Ended.failed = &index
	}
	if b[1]&snapshotOutputs != 0 {
		r.Outputs = OutputCount{Chunks: uint32(d.within(uint64(r.Done))), Sum: uint32(d.within(math.MaxUint32))}
	}
	for n := d.uint(); n > 0 && !d.bad; n-- {
		index := uint32(d.within(uint64(r.Chunks - 1)))
		t := &Try{Reason: journal.ReturnReason(d.within(uint64(journal.Snoozed))),
			Attempts: uint16(d.within(math.MaxUint16)),
			Expiries: uint8(d.within(math.MaxUint8)), NotBefore: queue.Time(d.int()),
			epoch:    uint32(d.within(math.MaxUint32)),
			sequence: d.uint(), Err: d.text()}
		if t.Reason == journal.Forwarded {
			t.Number, t.To = d.uint(), d.text()
			r.Forwards++
		}
		if b[1]&snapshotPast != 0 {
			t.restorePast(&d)
		}
		if t.Gone() && t.Reason != journal.Dead {
			r.Skips++
		}
		if r.Tries == nil {
			r.Tries = map[uint32]*Try{}
		}
		r.Tries[index] = t
	}
	if d.bad {
		return nil, ErrSnapshot
	}
	return d.b, nil
}

// fields reads varints; after damage it is bad and gives zeroes.
// Errors are looked at once, at the end: a bad field empties the rest, so every later read gives zero and ends its
// loop.
type fields struct {
	b   []byte
	bad bool
}

func (d *fields) uint() uint64 {
	n, size := binary.Uvarint(d.b)
	d.skip(size)
	return n
}

func (d *fields) within(most uint64) uint64 {
	n := d.uint()
	if n > most {
		d.skip(0)
		return 0
	}
	return n
}

func (d *fields) int() int64 {
	n, size := binary.Varint(d.b)
	d.skip(size)
	return n
}

func (d *fields) text() string {
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.skip(0)
		return ""
	}
	text := string(d.b[:n])
	d.b = d.b[n:]
	return text
}

func (d *fields) skip(size int) {
	if size <= 0 {
		d.bad, d.b = true, nil
		return
	}
	d.b = d.b[size:]
}

// consistent checks a row against itself: every chunk is available, done, dead or skipped
// in it, and a chunk with a try is available unless it is dead or skipped.
// It is the last guard before a row counts: an inconsistent one would make a submission that never ends, or ends
// too early.
func (r *Record) consistent(sub *backlog.Submission) error {
	if sub.Available()+r.Done+r.Dead+r.Skips != r.Chunks {
		return fmt.Errorf("%w: of %d chunks %d are available, %d done, %d dead and %d skipped", ErrSnapshot, r.Chunks,
			sub.Available(), r.Done, r.Dead, r.Skips)
	}
	dead := uint32(0)
	for index, t := range r.Tries {
		if t.Reason == journal.Dead {
			dead++
		}
		if sub.IsAvailable(index) == t.Gone() {
			return fmt.Errorf("%w: chunk %d is available or dead, not both", ErrSnapshot, index)
		}
	}
	if dead != r.Dead {
		return fmt.Errorf("%w: %d chunks are told to be dead, %d are counted", ErrSnapshot, dead, r.Dead)
	}
	return nil
}

// IsHeld says whether a chunk is reserved.
func (m *Machine) IsHeld(r *Record, index uint32) bool {
	_, held := m.Holds.Find(r.Seq, index)
	return held
}

// This file takes the row of an open submission with very many exceptions without holding
// the mutex for long.
//
// A row says which chunks are over, and has the tries of chunks that are not over or ended badly. Only applied ops
// change that. So while applying is held, the row stays the same, at one position, whatever else goes on under the
// mutex: reserves, releases and retries only move chunks between available, held and waiting, and all three are written
// as available. The cursors and the lists of chunks put back and taken ahead are copied in one hold. The held and
// waiting chunks among the taken ones are then collected slice by slice; a chunk that stops being held or waiting
// before the walk met it is noted then (Loosened.note). A chunk noted needlessly does no harm: a chunk that is
// available, held or waiting at any time meanwhile was so at the copy, too.

// Size is about how many entries the row of an open submission has.
func (r *Record) Size() int { return 1 + len(r.Tries) + int(r.Holds.Len()) + r.Sub.Exceptions() }

// Loosened has the chunks that stopped being held or waiting while the row of their submission is
// taken in slices.
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
