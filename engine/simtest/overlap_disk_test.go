package simtest

import (
	"fmt"
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// diskModel is the state by the journal at this moment, made only of the appended batches. It is outside of the shard, and every answer
// is compared with it.
type diskModel struct {
	position  journal.Position
	bySeq     map[uint32]*diskSub
	byID      map[queue.SubmissionID]*diskSub
	byGroup   map[string]*diskSub // the group names the insert
	keys      map[string]queue.SubmissionID
	completed map[tokenKey]queue.ChunkID
	returned  map[tokenKey]queue.ChunkID
	rules     map[queue.RuleID]queue.Rule
	bulks     map[queue.BulkID]queue.BulkState
	problems  []string
	ops       int
}

// tokenKey identifies a token of one shard.
type tokenKey struct {
	epoch    uint32
	sequence uint64
}

func keyOf(t *queue.Token) tokenKey { return tokenKey{t.Epoch, t.Sequence} }

type diskSub struct {
	journal.Insert
	state      queue.SubmissionState
	priorities []int64 // the first, and those it was given while it was open
	moves      int     // ops about its dead chunks
	chunks     []diskChunk
}

type diskChunk struct {
	state    queue.ChunkState // Ready, Done, Dead, Skipped or Forwarded
	by       tokenKey         // of a Done one
	returns  int              // tries that were counted
	attempts uint16
}

func newDiskModel() *diskModel {
	return &diskModel{
		bySeq: map[uint32]*diskSub{}, byID: map[queue.SubmissionID]*diskSub{}, byGroup: map[string]*diskSub{}, keys: map[string]queue.SubmissionID{},
		completed: map[tokenKey]queue.ChunkID{}, returned: map[tokenKey]queue.ChunkID{}, rules: map[queue.RuleID]queue.Rule{},
		bulks: map[queue.BulkID]queue.BulkState{},
	}
}

func (d *diskModel) problem(format string, args ...any) {
	d.problems = append(d.problems, fmt.Sprintf(format, args...))
}

// append applies a batch that is on the disk now.
func (d *diskModel) append(position journal.Position, batch []byte) {
	d.position = position
	if err := journal.Decode(slices.Clone(batch), func(queue.Time) {}, d); err != nil {
		d.problem("batch %d: %v", position, err)
	}
}

func (x *diskSub) count(state queue.ChunkState) (n uint32) {
	for i := range x.chunks {
		if x.chunks[i].state == state {
			n++
		}
	}
	return n
}

// chunk finds the chunk that an op is about, if its submission is open: only then the op changes it.
func (d *diskModel) chunk(seq, index uint32) (*diskSub, *diskChunk) {
	d.ops++
	x := d.bySeq[seq]
	if x == nil || int(index) >= len(x.chunks) {
		d.problem("an op about chunk %d of submission number %d, which is not on the disk", index, seq)
		return nil, nil
	}
	return x, &x.chunks[index]
}

func (d *diskModel) ApplyEpoch(uint32) error { return nil }

func (d *diskModel) ApplyInsert(s *journal.Insert) error {
	d.ops++
	x := &diskSub{Insert: *s, priorities: []int64{s.Priority}, chunks: make([]diskChunk, s.Chunks)}
	if d.bySeq[s.Seq] != nil || d.byID[s.ID] != nil {
		d.problem("submission %s, number %d, is inserted under an identity that was given before", s.ID, s.Seq)
	}
	if d.byGroup[s.Group] != nil {
		d.problem("insert %s happens twice", s.Group)
	}
	d.bySeq[s.Seq], d.byID[s.ID], d.byGroup[s.Group] = x, x, x
	if s.IdempotencyKey != "" {
		if first, twice := d.keys[s.IdempotencyKey]; twice {
			d.problem("idempotency key %s inserts %s and %s", s.IdempotencyKey, first, s.ID)
		}
		d.keys[s.IdempotencyKey] = s.ID
	}
	return nil
}

func (d *diskModel) ApplyComplete(c journal.Completed) error {
	x, chunk := d.chunk(c.Seq, c.Index)
	if x == nil {
		return nil
	}
	if x.state != queue.Open || chunk.state != queue.ChunkReady {
		d.problem("chunk %s/%d is completed under %d, but it is %s in a submission that is %s", x.ID, c.Index, c.Sequence, chunk.state, x.state)
		return nil
	}
	chunk.state, chunk.by = queue.ChunkDone, tokenKey{c.Epoch, c.Sequence}
	d.completed[chunk.by] = queue.ChunkID{Submission: x.ID, Index: c.Index}
	x.endIfOver()
	return nil
}

func (x *diskSub) endIfOver() {
	switch {
	case x.state != queue.Open || x.count(queue.ChunkReady) > 0:
	case x.count(queue.ChunkDead) > 0:
		x.state = queue.CompletedWithDead
	default:
		x.state = queue.Completed
	}
}

func (d *diskModel) ApplyReturn(r journal.Returned) error {
	x, chunk := d.chunk(r.Seq, r.Index)
	if x == nil {
		return nil
	}
	key := tokenKey{r.Epoch, r.Sequence}
	d.returned[key] = queue.ChunkID{Submission: x.ID, Index: r.Index}
	if x.state != queue.Open || chunk.state != queue.ChunkReady {
		return nil // its deadline passed, but the consumer came first
	}
	chunk.returns++
	chunk.attempts = r.Attempts
	switch r.Reason {
	case journal.Dead:
		chunk.state = queue.ChunkDead
	case journal.Skipped:
		chunk.state = queue.ChunkSkipped
	}
	return nil
}

func (d *diskModel) ApplyEnd(e journal.End) error {
	x, _ := d.chunk(e.Seq, 0)
	switch {
	case x == nil || x.state != queue.Open:
	case e.State == queue.CompletedWithDead:
		x.endIfOver()
	default:
		x.state = e.State
	}
	return nil
}

func (d *diskModel) ApplyPart(op journal.PartOp) error {
	switch op := op.(type) {
	case *journal.Bulk:
		return d.applyBulk(op)
	case *journal.Contents:
		return d.applyContents(op)
	case journal.Move:
		return d.applyMove(op)
	case *journal.Output:
		return d.applyOutput(op)
	case journal.Redrive:
		return d.applyRedrive(op)
	case journal.Rule:
		return d.applyRule(op)
	}
	return nil
}

func (d *diskModel) ApplyPriority(p journal.Priority) error {
	if x, _ := d.chunk(p.Seq, 0); x != nil && x.state == queue.Open {
		x.priorities = append(x.priorities, p.Priority)
	}
	return nil
}

func (d *diskModel) applyRedrive(r journal.Redrive) error {
	x, _ := d.chunk(r.Seq, 0)
	if x == nil {
		return nil
	}
	x.moves++
	for _, index := range r.Indexes {
		if c := &x.chunks[index]; c.state == queue.ChunkDead && (x.state == queue.Open || x.state == queue.CompletedWithDead) {
			c.state, c.attempts = queue.ChunkReady, 0
			x.state = queue.Open
		}
	}
	return nil
}

func (d *diskModel) applyMove(m journal.Move) error {
	x, _ := d.chunk(m.Seq, 0)
	if x == nil {
		return nil
	}
	x.moves++
	for _, index := range m.Indexes {
		if c := &x.chunks[index]; m.Kind == journal.MoveDiscard && c.state == queue.ChunkDead {
			c.state = queue.ChunkSkipped
		}
	}
	x.endIfOver()
	return nil
}

func (d *diskModel) applyBulk(b *journal.Bulk) error {
	d.ops++
	d.bulks[queue.BulkID(b.ID)] = b.State
	return nil
}

func (d *diskModel) applyRule(r journal.Rule) error {
	d.ops++
	if r.Lift {
		delete(d.rules, r.Rule.ID)
	} else {
		d.rules[r.Rule.ID] = r.Rule
	}
	return nil
}

// applyContents: the insert of the submission follows.
func (d *diskModel) applyContents(c *journal.Contents) error {
	if d.ops++; d.bySeq[c.Seq] != nil {
		d.problem("the bytes of submission number %d come after its insert", c.Seq)
	}
	return nil
}

// applyOutput: the completion of the chunk follows.
func (d *diskModel) applyOutput(o *journal.Output) error {
	if x, chunk := d.chunk(o.Seq, o.Index); x != nil && (x.state != queue.Open || chunk.state != queue.ChunkReady) {
		d.problem("chunk %s/%d gets an output, but it is %s in a submission that is %s", x.ID, o.Index, chunk.state, x.state)
	}
	return nil
}
