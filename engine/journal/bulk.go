package journal

import "github.com/quern-queue/quern/engine/queue"

// Bulk is how far a bulk operation got. It stands in one batch with what it tells of, so both are there or neither is. The numbers
// are totals, so applying it twice is applying it once.
type Bulk struct {
	ID      queue.SubmissionID // drawn like that of a submission
	Step    uint64             // one more each time; 0 starts the operation
	State   queue.BulkState
	Counts  queue.BulkCounts
	After   queue.ChunkID // what it has come to; the zero value: nothing yet
	Ended   queue.Time    // 0: it runs
	Failure string        // of a failed one
	Request string        // what was asked for, in step 0 only; how it is written is the shard's affair
	Walk    queue.BulkWalk
	EndedBy string // who cancelled it, as he said
}

// The flags in the byte of the state.
const (
	bulkWalks   = 0x80 // the walk stands behind the request
	bulkEndedBy = 0x40 // and then who ended it
)

// Bulk records it.
func (e *Encoder) Bulk(b *Bulk) {
	e.op(opBulk)
	e.buf = AppendBulk(e.buf, b)
}

// AppendBulk appends the encoding of the op without its code. The store keeps the same bytes as the operation's row.
func AppendBulk(dst []byte, b *Bulk) []byte {
	e := Encoder{buf: dst}
	e.uint(uint64(b.ID))
	e.uint(b.Step)
	state := byte(b.State)
	if b.Walk.Known {
		state |= bulkWalks
	}
	if b.EndedBy != "" {
		state |= bulkEndedBy
	}
	e.buf = append(e.buf, state)
	for _, n := range [4]uint64{b.Counts.Matched, b.Counts.Done, b.Counts.Unchanged, b.Counts.Refused} {
		e.uint(n)
	}
	e.uint(uint64(b.After.Submission))
	e.uint(uint64(b.After.Index))
	e.int(int64(b.Ended))
	e.text(b.Failure)
	e.text(b.Request)
	if b.Walk.Known {
		e.uint(b.Walk.Examined)
		e.uint(b.Walk.ToExamine)
	}
	if b.EndedBy != "" {
		e.text(b.EndedBy)
	}
	return e.buf
}

// DecodeBulk reads what AppendBulk wrote.
func DecodeBulk(row []byte) (*Bulk, error) {
	d := decoder{b: row}
	b := d.bulk()
	if d.bad || len(d.b) > 0 {
		return nil, errDamaged
	}
	return b, nil
}

func (d *decoder) bulk() *Bulk {
	b := &Bulk{ID: queue.SubmissionID(d.uint()), Step: d.uint()}
	state := d.byte()
	b.State = queue.BulkState(state &^ (bulkWalks | bulkEndedBy))
	for _, n := range [4]*uint64{&b.Counts.Matched, &b.Counts.Done, &b.Counts.Unchanged, &b.Counts.Refused} {
		*n = d.uint()
	}
	b.After = queue.ChunkID{Submission: queue.SubmissionID(d.uint()), Index: d.uint32()}
	b.Ended, b.Failure, b.Request = queue.Time(d.int()), d.text(), d.text()
	if state&bulkWalks != 0 {
		b.Walk = queue.BulkWalk{Known: true, Examined: d.uint(), ToExamine: d.uint()}
	}
	if state&bulkEndedBy != 0 {
		b.EndedBy = d.text()
		d.bad = d.bad || b.EndedBy == ""
	}
	if b.State > queue.BulkFailed {
		d.fail()
	}
	return b
}
