package machine

// Submissions that wait for others: none of their chunks is handed out before the others have ended.
//
//	Claim     with the decision to insert, so that no end is missed from then on
//	ended     a submission that others wait for has ended: they are due
//	step      writes for each of them that it waits no longer, or, if the end is not what it wanted, its own end or
//	          that its chunks are dead
//	met       that is applied: with the last one, the submission is offered
//
//	behind[P] ─► S1 S2 S3        P ends ─► over: P, completed, S1 S2 S3 ─► one op for each
//	waits[S1] ─► P Q             S1 ends before ─► behind[P] counts one that is moot
//
// An open submission has a row of its own with the submissions that it still waits for. A start asks the history about
// those of them that ended and whose ops it does not find.

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// afters knows which submissions wait for which.
type afters struct {
	shard  submissions
	asides *asides
	Limit  int // of Count
	Count  int // waits: a submission that waits for two others counts twice
	waits  map[uint32]*Waits
	behind map[queue.SubmissionID]*behind
	over   []over
	known  Ends // ends that the history gave at a start
}

// submissions are those of the shard, as afters asks for them.
type submissions interface {
	Live(id queue.SubmissionID) *Record
	LiveSeq(seq uint32) *Record
	Record(id queue.SubmissionID) *Record
}

// Ends are how submissions ended.
type Ends map[queue.SubmissionID]queue.SubmissionState

// Waits are the submissions that another one still waits for. It is kept until that one ends.
type Waits struct {
	seq  uint32
	Left []queue.SubmissionID
}

// behind are the submissions that wait for one.
type behind struct {
	seqs []uint32
	moot int // of them, how many wait no longer
}

// over is an end that submissions waited for, and that is not yet written for all of them.
type over struct {
	id    queue.SubmissionID
	state queue.SubmissionState // queue.Open: it is not known how it ended
	seqs  []uint32
}

// Some says that the submission still waits for others.
func (w *Waits) Some() bool { return w != nil && len(w.Left) > 0 }

// Claim makes an insert wait from its decision on. known has the ends that are in the history.
func (p *afters) Claim(op *journal.Insert, known Ends) (*Waits, error) {
	if op.After == nil {
		return nil, nil
	}
	if p.Count+len(op.After.IDs) > p.Limit {
		return nil, &queue.Error{Code: queue.CodeOverloaded, RetryAfter: time.Second, Message: fmt.Sprintf(
			"The submissions of the queue wait for others in %d places, and %d are allowed. Send this again when some "+
				"of those have ended.", p.Count, p.Limit)}
	}
	states := make([]queue.SubmissionState, len(op.After.IDs))
	for i, id := range op.After.IDs {
		if p.shard.Live(id) != nil {
			continue
		}
		if states[i] = p.stateOf(id, known); states[i] == queue.Open {
			return nil, &queue.Error{Code: queue.CodeUnavailable, RetryAfter: time.Second,
				Message: fmt.Sprintf("Submission %s ended while this was decided. Send it again.", id)}
		}
	}
	w := p.add(op.Seq, slices.Clone(op.After.IDs))
	for i, state := range states {
		if state != queue.Open {
			p.end(op.After.IDs[i], state)
		}
	}
	return w, nil
}

// stateOf is how a submission ended; queue.Open: it is not known.
func (p *afters) stateOf(id queue.SubmissionID, known Ends) queue.SubmissionState {
	if r := p.shard.Record(id); r != nil {
		return r.State
	}
	return known[id]
}

func (p *afters) add(seq uint32, left []queue.SubmissionID) *Waits {
	if p.waits == nil {
		p.waits, p.behind = map[uint32]*Waits{}, map[queue.SubmissionID]*behind{}
	}
	w := &Waits{seq: seq, Left: left}
	p.waits[seq] = w
	p.Count += len(left)
	for _, id := range left {
		p.follow(id, seq)
	}
	return w
}

// follow notes that the submission seq waits for the end of another one.
func (p *afters) follow(id queue.SubmissionID, seq uint32) {
	b := p.behind[id]
	if b == nil {
		b = new(behind)
		p.behind[id] = b
	}
	b.seqs = append(b.seqs, seq)
}

// Forget ends the waits of a submission that ends or is not inserted.
func (p *afters) Forget(w *Waits) {
	delete(p.waits, w.seq)
	p.asides.Changed(AsideAfter, uint64(w.seq))
	for _, id := range w.Left {
		p.left(id)
	}
	w.Left = nil
}

// left counts that a submission no longer waits for this one. Moot entries are removed once they are half of the list.
func (p *afters) left(id queue.SubmissionID) {
	p.Count--
	b := p.behind[id]
	if b == nil {
		return
	}
	if b.moot++; 2*b.moot < len(b.seqs) {
		return
	}
	b.seqs = slices.DeleteFunc(b.seqs, func(seq uint32) bool { return !p.waitsFor(seq, id) })
	if b.moot = 0; len(b.seqs) == 0 {
		delete(p.behind, id)
	}
}

func (p *afters) waitsFor(seq uint32, id queue.SubmissionID) bool {
	w := p.waits[seq]
	return w != nil && slices.Contains(w.Left, id)
}

// Applied is an intent's: the insert is on the disk.
func (w *Waits) Applied(*Machine) {}

// Undo forgets the waits of the insert: it failed.
func (w *Waits) Undo(m *Machine) { m.Afters.Forget(w) }

// inserting notes that an insert is applied, at a replay perhaps once more.
func (p *afters) inserting(op *journal.Insert) {
	if op.After == nil {
		return
	}
	if p.waits[op.Seq] == nil {
		p.add(op.Seq, slices.Clone(op.After.IDs))
	}
	p.asides.Changed(AsideAfter, uint64(op.Seq))
}

// ended notes the end of a submission: it waits for nothing any more, and those that wait for it are due.
func (p *afters) ended(r *Record) {
	if w := p.waits[r.Seq]; w != nil && r.Details().After != nil {
		p.Forget(w)
	}
	p.end(r.ID, r.State)
}

func (p *afters) end(id queue.SubmissionID, state queue.SubmissionState) {
	if b := p.behind[id]; b != nil {
		delete(p.behind, id)
		p.over = append(p.over, over{id, state, b.seqs})
	}
}

// step writes the consequences for at most `most` submissions whose wait is over, and says how many it looked at.
func (p *afters) step(m *Machine, now queue.Time, most int, parked map[Action]*Parking) (n int) {
	var later []over
	for n < most && len(p.over) > 0 {
		o := &p.over[0]
		if len(o.seqs) == 0 {
			p.over = p.over[1:]
			continue
		}
		if p.shard.Live(o.id) != nil { // it was redriven before this was written: it will end again
			for _, seq := range o.seqs {
				if p.waitsFor(seq, o.id) {
					p.follow(o.id, seq)
				}
			}
			o.seqs = nil
			continue
		}
		if again := p.shard.Record(o.id); again != nil { // it was redriven, and has ended again
			o.state = again.State
		}
		one := over{o.id, o.state, o.seqs[:1:1]}
		o.seqs = o.seqs[1:]
		if n++; !p.waitsFor(one.seqs[0], one.id) {
			continue
		}
		r := p.shard.LiveSeq(one.seqs[0])
		if r == nil || r.Ending || m.Tries.Beginning(r) {
			// In a moment it is known whether it is inserted, or ends.
			later = append(later, one)
			continue
		}
		m.Lifecycle.Acting = Action{Kind: KindAfter, Submission: r.ID}
		if parked[m.Lifecycle.Acting] != nil {
			later = append(later, one)
			continue
		}
		n += one.conclude(m, r, most-n, now)
	}
	p.over = append(p.over, later...)
	return n
}

// conclude writes the consequence of the end for one submission that waited for it, and says how many of its chunks
// died: about `most` at most. The other chunks follow in slices, whether or not another submission ends meanwhile.
func (o *over) conclude(m *Machine, r *Record, most int, now queue.Time) (died int) {
	switch after := r.Details().After; {
	case m.Tries.Overdue(r):
		return 0 // it waits until it ends, so that a start knows why its chunks are dead (goesOn)
	case after.Met(o.state):
		m.Encode(now).Awaited(&journal.Awaited{Seq: r.Seq, ID: o.id})
	case after.DeadLetter:
		died = m.Tries.endOverdue(r, o.unmet(), max(most, 1), now)
	default:
		m.EndSubmission(r, queue.Cancelled, o.unmet(), now)
	}
	m.Batch.Intend(&concluded{*o})
	return died
}

// unmet is the sentence that says that the end is not the wanted one.
func (o *over) unmet() string {
	how := "is no longer known"
	if o.state != queue.Open {
		how = "ended as " + o.state.String()
	}
	return fmt.Sprintf("submission %s, which it waited for, %s", o.id, how)
}

// concluded is the intent of an end that is written for one submission.
type concluded struct{ over }

// Applied is an intent's.
func (c *concluded) Applied(m *Machine) { m.Stats.Acted(KindAfter, true) }

// Undo makes step write it again.
func (c *concluded) Undo(m *Machine) { m.Afters.over = append(m.Afters.over, c.over) }

// met applies that a submission no longer waits for another one.
func (p *afters) met(m *Machine, op *journal.Awaited) {
	w := p.waits[op.Seq]
	if w == nil || !slices.Contains(w.Left, op.ID) {
		return
	}
	w.Left = slices.DeleteFunc(slices.Clone(w.Left), func(id queue.SubmissionID) bool { return id == op.ID })
	p.left(op.ID)
	p.asides.Changed(AsideAfter, uint64(op.Seq))
	if r := p.shard.LiveSeq(op.Seq); r != nil && len(w.Left) == 0 && !m.Replay {
		release(m, r)
	}
}

// release offers a submission that waits for nothing any more, unless its run_at is still to come.
func release(m *Machine, r *Record) {
	switch {
	case r.Details().RunAt > m.Now: // its timer runs
	case m.Tries.Overdue(r): // it stays hidden until its chunks are dead letters
	case r.Ending: // in a moment it is known whether it has ended
		m.Lifecycle.Schedule(KindRunAt, Due{At: m.Now.Add(time.Millisecond), Seq: r.Seq})
	default:
		unpark(m, r)
	}
}

// Unknown are the submissions that have ended, and whose end only the history has. A start asks it.
func (p *afters) Unknown() (ids []queue.SubmissionID) {
	for _, id := range slices.Sorted(maps.Keys(p.behind)) {
		if p.shard.Record(id) == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// Know notes how one of them ended, from the history.
func (p *afters) Know(id queue.SubmissionID, state queue.SubmissionState) {
	if p.known == nil {
		p.known = Ends{}
	}
	p.known[id] = state
}

// replayed joins the waits from rows and replay with the open submissions, before these are offered.
func (p *afters) replayed() {
	for _, seq := range slices.Sorted(maps.Keys(p.waits)) {
		w := p.waits[seq]
		if r := p.shard.LiveSeq(seq); r != nil && r.Details().After != nil {
			r.more.Waits = w
		} else {
			p.Forget(w)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(p.behind)) {
		if p.shard.Live(id) == nil {
			p.end(id, p.stateOf(id, p.known))
		}
	}
	p.known = nil
}

// Row is Rows': the submissions that an open one still waits for.
func (p *afters) Row(seq uint64) []byte {
	w := p.waits[uint32(seq)]
	if w == nil {
		return nil
	}
	row := []byte{afterRowVersion}
	for _, id := range w.Left {
		row = binary.AppendUvarint(row, uint64(id))
	}
	return row
}

// Load is Rows'.
func (p *afters) Load(seq uint64, row []byte) error {
	if len(row) == 0 || row[0] != afterRowVersion {
		return AsideError(AsideAfter)
	}
	var left []queue.SubmissionID
	d := fields{b: row[1:]}
	for len(d.b) > 0 && len(left) < queue.MaxAfter {
		left = append(left, queue.SubmissionID(d.uint()))
	}
	if d.bad || len(d.b) > 0 {
		return AsideError(AsideAfter)
	}
	p.add(uint32(seq), left)
	return nil
}

// afterRowVersion is the first byte of a row.
const afterRowVersion = 1
