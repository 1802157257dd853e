package shard

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

// A snapshot is the changing part of a submission as its store row holds it, true up to the position it carries:
//
//	version 1 | flags | position | done | dead | chunk that failed it | outputs | number of tries | tries ... |
//
// cursors and exceptions (backlog)
//
// docs/formats/ops.md gives it byte by byte. Reserved and waiting chunks are written as available: reservations end with
// the process, and what waits is told by its try.
const snapshotVersion = 1

// The flags: some chunk has an output; each try is followed by its past; it failed, and the chunk that failed it is told; it is told how
// many outputs there are.
const (
	snapshotOutputs = 1 << iota
	snapshotPast
	snapshotFailed
	snapshotOutputsKnown
)

// snapshot appends that of an open submission.
func (m *machine) snapshot(dst []byte, r *record) []byte {
	var held []uint32
	if r.holds.Len() > 0 {
		held = make([]uint32, 0, r.holds.Len())
		m.holds.Each(&r.holds, func(_ uint32, h *reserver.Hold) bool {
			held = append(held, h.Index)
			return true
		})
	}
	return r.appendSnapshot(dst, held, r.sub)
}

// cursors are the chunks of a submission, wherever they are.
type cursors interface {
	AppendSnapshot(dst []byte, out []uint32) []byte
}

// appendSnapshot appends the snapshot of a record whose chunks are in sub, and of which these are held.
func (r *record) appendSnapshot(dst []byte, held []uint32, sub cursors) []byte {
	out := held
	for index, t := range r.tries {
		if t.waiting {
			out = append(out, index) // perhaps once more: a late completion may be on its way
		}
	}
	return sub.AppendSnapshot(r.appendTries(dst, r.outputs), out)
}

// appendTries appends what comes before the chunks. Only ops that are applied change it, so of an open submission the lock of who
// applies is enough.
func (r *record) appendTries(dst []byte, outputs outputCount) []byte {
	flags := byte(0)
	if outputs.some() {
		flags |= snapshotOutputs
	}
	known := r.done > 0 && !outputs.unknown
	if known {
		flags |= snapshotOutputsKnown
	}
	for _, t := range r.tries {
		if len(t.past) > 0 || t.redrives > 0 {
			flags |= snapshotPast
			break
		}
	}
	failed := r.ended != nil && r.ended.failed != nil
	if failed {
		flags |= snapshotFailed
	}
	dst = append(dst, snapshotVersion, flags)
	dst = binary.AppendUvarint(dst, uint64(r.applied))
	dst = binary.AppendUvarint(dst, uint64(r.done))
	dst = binary.AppendUvarint(dst, uint64(r.dead))
	if failed {
		dst = binary.AppendUvarint(dst, uint64(*r.ended.failed))
	}
	if known {
		dst = binary.AppendUvarint(dst, uint64(outputs.chunks))
		dst = binary.AppendUvarint(dst, uint64(outputs.sum))
	}
	dst = binary.AppendUvarint(dst, uint64(len(r.tries)))
	for _, index := range slices.Sorted(maps.Keys(r.tries)) {
		t := r.tries[index]
		dst = t.append(binary.AppendUvarint(dst, uint64(index)))
		if flags&snapshotPast != 0 {
			dst = t.appendPast(dst)
		}
	}
	return dst
}

func (t *try) append(dst []byte) []byte {
	dst = append(dst, byte(t.reason))
	dst = binary.AppendUvarint(dst, uint64(t.attempts))
	dst = binary.AppendUvarint(dst, uint64(t.expiries))
	dst = binary.AppendVarint(dst, int64(t.notBefore))
	dst = binary.AppendUvarint(dst, uint64(t.epoch))
	dst = binary.AppendUvarint(dst, t.sequence)
	dst = appendText(dst, t.err)
	if t.reason == journal.Forwarded {
		dst = appendText(binary.AppendUvarint(dst, t.number), t.to)
	}
	return dst
}

// The flags of a past attempt: it ended by its deadline; its error is that of the try; it ended with its consumer.
const (
	pastExpired = 1 << iota
	pastSameError
	pastLost
)

func (t *try) appendPast(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(t.redrives))
	dst = binary.AppendUvarint(dst, uint64(len(t.past)))
	for i := range t.past {
		a := &t.past[i]
		flags := byte(0)
		if a.Expired {
			flags |= pastExpired
		}
		if a.Error == t.err {
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

func (t *try) restorePast(d *fields) {
	t.redrives = uint16(d.within(math.MaxUint16))
	for n := d.within(queue.MaxAttemptsKept); n > 0 && !d.bad; n-- {
		flags := d.within(pastExpired | pastSameError | pastLost)
		a := queue.Attempt{Expired: flags&pastExpired != 0, Lost: flags&pastLost != 0, Ended: queue.Time(d.int()),
			Held: time.Duration(d.within(math.MaxUint32)) * time.Millisecond, Consumer: d.text()}
		if a.Error = t.err; flags&pastSameError == 0 {
			a.Error = d.text()
		}
		t.past = append(t.past, a)
	}
}

var errSnapshot = errors.New("shard: a submission's row is damaged or of a newer version")

// restore reads a snapshot into r and returns the rest, which is the backlog's.
func (r *record) restore(b []byte) ([]byte, error) {
	if len(b) < 2 || b[0] != snapshotVersion {
		return nil, errSnapshot
	}
	d := fields{b: b[2:]}
	if b[1] > snapshotOutputs|snapshotPast|snapshotFailed|snapshotOutputsKnown || b[1]&snapshotFailed != 0 && r.state != queue.Failed {
		return nil, errSnapshot
	}
	r.applied = journal.Position(d.uint())
	r.done = uint32(d.within(uint64(r.chunks)))
	r.dead = uint32(d.within(uint64(r.chunks - r.done)))
	if b[1]&snapshotFailed != 0 {
		index := uint32(d.within(uint64(r.chunks - 1)))
		r.ended.failed = &index
	}
	if b[1]&snapshotOutputsKnown != 0 {
		r.outputs = outputCount{chunks: uint32(d.within(uint64(r.done))), sum: uint32(d.within(math.MaxUint32))}
	} else {
		r.outputs.unknown = r.done > 0
	}
	for n := d.uint(); n > 0 && !d.bad; n-- {
		index := uint32(d.within(uint64(r.chunks - 1)))
		t := &try{reason: journal.ReturnReason(d.within(uint64(journal.Forwarded))), attempts: uint16(d.within(math.MaxUint16)),
			expiries: uint8(d.within(math.MaxUint8)), notBefore: queue.Time(d.int()), epoch: uint32(d.within(math.MaxUint32)),
			sequence: d.uint(), err: d.text()}
		if t.reason == journal.Forwarded {
			t.number, t.to = d.uint(), d.text()
			r.forwards++
		}
		if b[1]&snapshotPast != 0 {
			t.restorePast(&d)
		}
		if t.gone() && t.reason != journal.Dead {
			r.skips++
		}
		if r.tries == nil {
			r.tries = map[uint32]*try{}
		}
		r.tries[index] = t
	}
	if d.bad {
		return nil, errSnapshot
	}
	return d.b, nil
}

// fields reads varints; after damage it is bad and gives zeroes.
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

// load brings a submission back from its row.
func (m *machine) load(spec, state []byte) error {
	r, err := m.restored(spec, state)
	if err != nil {
		return err
	}
	r.stored = true
	m.nextSeq, m.lastID = max(m.nextSeq, r.seq), max(m.lastID, r.id)
	if r.details().key != "" {
		m.remember(r)
	}
	return nil
}

// restored makes a record of a row, and takes it into the backlog without offering it.
func (m *machine) restored(spec, state []byte) (*record, error) {
	s, err := journal.DecodeInsert(spec)
	if err != nil {
		return nil, err
	}
	r := newRecord(s)
	chunks, err := r.restore(state)
	if err != nil {
		return nil, err
	}
	sub, err := m.backlog.Restore(specOf(s), chunks)
	if err != nil {
		return nil, err
	}
	if err := r.consistent(sub); err != nil {
		m.backlog.Remove(sub)
		return nil, err
	}
	r.sub, sub.Data = sub, r
	m.order.add(r)
	return r, nil
}

// consistent checks a row against itself: every chunk is available, done, dead or skipped in it, and a chunk with a try is
// available unless it is dead or skipped.
func (r *record) consistent(sub *backlog.Submission) error {
	if sub.Available()+r.done+r.dead+r.skips != r.chunks {
		return fmt.Errorf("%w: of %d chunks %d are available, %d done, %d dead and %d skipped", errSnapshot, r.chunks,
			sub.Available(), r.done, r.dead, r.skips)
	}
	dead := uint32(0)
	for index, t := range r.tries {
		if t.reason == journal.Dead {
			dead++
		}
		if sub.IsAvailable(index) == t.gone() {
			return fmt.Errorf("%w: chunk %d is available or dead, not both", errSnapshot, index)
		}
	}
	if dead != r.dead {
		return fmt.Errorf("%w: %d chunks are told to be dead, %d are counted", errSnapshot, dead, r.dead)
	}
	return nil
}

// settle ends a replay: what is left of it is put into its places and offered.
func (m *machine) settle(now queue.Time) {
	m.replay, m.history, m.now = false, history{}, now
	m.stats = counters{}
	m.letters.index = &ordered{}
	for _, r := range m.gone {
		if m.ended[r.id] == r && m.letters.ofEnded[r.id] > 0 {
			m.letters.index.add(r)
			m.letters.groups.addAll(r)
		}
	}
	for _, n := range m.letters.ofEnded {
		m.stats.endedLetters += uint64(n)
	}
	m.keys.settle()
	m.rules.settle()
	m.backlog.Each(func(sub *backlog.Submission) bool {
		r := sub.Data.(*record)
		m.backlog.Settle(sub)
		m.expires(r)
		if runAt := r.details().runAt; runAt > now {
			r.parked = true
			m.lifecycle.schedule(KindRunAt, due{at: runAt, seq: r.seq})
		}
		for _, index := range slices.Sorted(maps.Keys(r.tries)) {
			m.resume(r, index, r.tries[index])
		}
		m.letters.reindex(r)
		m.letters.groups.addAll(r)
		m.stats.completed += uint64(r.done)
		m.stats.skipped += uint64(r.skips)
		m.stats.waiting += uint64(r.waiting)
		if r.parked {
			m.stats.parked += uint64(sub.Available())
		} else {
			m.show(r)
		}
		return true
	})
}

// resume makes a chunk wait again that waited at the time of its row.
func (m *machine) resume(r *record, index uint32, t *try) {
	over := t.notBefore <= m.now
	if t.gone() || t.waiting || over && !m.suspects.suspicious(t.reason) || m.backlog.Withdraw(r.sub, index, false) != backlog.Taken {
		return
	}
	m.waits(r, index, t)
	if !over {
		m.lifecycle.schedule(KindRetry, due{at: t.notBefore, seq: r.seq, index: index})
		return
	}
	at := t.notBefore
	if n := len(t.past); at == 0 && n > 0 {
		at = t.past[n-1].Ended
	}
	m.suspects.shelve(r, index, t, at)
}

func (m *machine) isHeld(r *record, index uint32) bool {
	_, held := m.holds.Find(r.seq, index)
	return held
}
