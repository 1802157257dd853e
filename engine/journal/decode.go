package journal

import (
	"fmt"
	"math"

	"github.com/quern-queue/quern/engine/coding"
	"github.com/quern-queue/quern/engine/queue"
)

// Applier receives the ops of a batch in order.
type Applier interface {
	ApplyEpoch(epoch uint32) error
	ApplyInsert(s *Insert) error // s is valid during the call only; the memory behind its slices and pointers stays
	ApplyComplete(c Completed) error
	ApplyReturn(r Returned) error
	ApplyEnd(x End) error
	ApplyPriority(p Priority) error
	ApplyPart(op PartOp) error // op is valid during the call only
}

// PartOp is an op that belongs to one feature: *Act, *Awaited, *Bulk, *Contents, *Deletion, *Held, Move,
// *Output, Redrive, *Replacement, Rule, *Schedule, *Set or *Snapshot.
type PartOp interface{ ofPart() }

func (*Act) ofPart()         {}
func (*Bulk) ofPart()        {}
func (*Contents) ofPart()    {}
func (*Held) ofPart()        {}
func (Move) ofPart()         {}
func (*Output) ofPart()      {}
func (Redrive) ofPart()      {}
func (*Replacement) ofPart() {}
func (*Awaited) ofPart()     {}
func (*Deletion) ofPart()    {}
func (Rule) ofPart()         {}
func (*Schedule) ofPart()    {}
func (*Set) ofPart()         {}
func (*Snapshot) ofPart()    {}

// Decoder reads a batch op by op.
//
// Ops have no length of their own, which saves a byte or two for each. So a decoder cannot go on behind an unknown
// code: the version of the batch says beforehand whether the decoder knows all codes.
type Decoder struct {
	c   coder
	at  queue.Time
	err error

	lastOutput Output // its memory, as there may be many
	lastInsert Insert // likewise
}

// NewDecoder starts reading a batch. Damage shows at the first Step.
func NewDecoder(batch []byte) *Decoder {
	batch, err := Unpack(batch)
	switch {
	case err != nil:
		return &Decoder{err: err}
	case len(batch) == 0:
		return &Decoder{err: errDamaged}
	case batch[0] != Version:
		return &Decoder{err: unknownVersion("batch", batch[0], Version)}
	}
	d := &Decoder{c: reader(batch[1:])}
	var epoch uint32
	d.c.head(&epoch, &d.at)
	if d.c.Bad {
		d.err = errDamaged
	}
	return d
}

// At is the batch's time: when its first op was decided.
func (d *Decoder) At() queue.Time { return d.at }

// Step gives the next op to a and says whether more follow. It never panics on damaged input.
// After an error it goes no further, because it does not know where the next op begins. The caller then gives up the
// whole state that it was building: half of a batch would leave a state that never existed.
func (d *Decoder) Step(a Applier) (more bool, err error) {
	if d.err == nil && len(d.c.B) > 0 {
		d.err = d.op(d.c.code(), a)
	}
	return d.err == nil && len(d.c.B) > 0, d.err
}

// Epoch is the epoch of the shard when the batch was begun.
// A replay asks before it applies anything: a batch of a newer epoch than the reader's own means that another writer
// has claimed the journal.
func Epoch(batch []byte) (uint32, error) {
	d := NewDecoder(batch)
	return d.c.epoch, d.err
}

// Decode reads a whole batch: begin is told its time, then a gets every op in order. It
// stops at the first error.
// begin comes before any op, because the machine's clock is that of the batch: a replay makes the same decisions.
func Decode(batch []byte, begin func(at queue.Time), a Applier) error {
	d := NewDecoder(batch)
	if d.err == nil {
		begin(d.at)
	}
	for {
		if more, err := d.Step(a); !more {
			return err
		}
	}
}

// code reads the code of an op; 0: there is none.
func (c *coder) code() (code byte) {
	coding.Octet(&c.Coder, &code, math.MaxUint8)
	return code
}

// If the fields of an op are cut short or out of range, its case ends in errDamaged, so none needs an error of its
// own.
func (d *Decoder) op(code byte, a Applier) error {
	c := &d.c
	switch code {
	case opCompleteOne, opCompleteRun, opCompleteOld:
		return d.complete(code, false, a)
	case opOutputs:
		if code := c.code(); code >= opCompleteOne && code <= opCompleteOld {
			return d.complete(code, true, a)
		}
	case opReturn:
		var r Returned
		if r.fields(c); !c.Bad {
			return a.ApplyReturn(r)
		}
	case opEnd:
		var x End
		if x.fields(c); !c.Bad {
			return a.ApplyEnd(x)
		}
	case opPriority:
		var p Priority
		if p.fields(c); !c.Bad {
			return a.ApplyPriority(p)
		}
	case opInsert:
		d.lastInsert = Insert{}
		if d.lastInsert.fields(c); !c.Bad {
			return a.ApplyInsert(&d.lastInsert)
		}
	case opEpoch:
		var epoch uint32
		if c.newEpoch(&epoch); !c.Bad {
			return a.ApplyEpoch(epoch)
		}
	default:
		op := d.partOp(code)
		switch {
		case c.Bad:
		case op == nil:
			return fmt.Errorf("the batch holds the unknown op %d: it is damaged or was written by a newer Quern", code)
		default:
			return a.ApplyPart(op)
		}
	}
	return errDamaged
}

// A run has one head for n chunks of one submission. Each of them is applied by itself, so the machine has one way to
// finish a chunk.
func (d *Decoder) complete(code byte, outputs bool, a Applier) error {
	c, n := &d.c, uint32(1)
	x := Completed{Epoch: c.epoch, Output: outputs}
	for c.completions(code, &x.Seq, &n); n > 0 && !c.Bad; n-- {
		if x.chunk(c, code); c.Bad {
			break
		}
		if err := a.ApplyComplete(x); err != nil {
			return err
		}
	}
	if c.Bad {
		return errDamaged
	}
	return nil
}

// partOp reads an op of a part; nil: there is no such op.
// Outputs come by the thousand, so all of them share the memory of lastOutput. This is why an Applier may not keep an
// op beyond the call.
func (d *Decoder) partOp(code byte) PartOp {
	switch code {
	case opAct:
		return read(d, new(Act))
	case opAwaited:
		return read(d, new(Awaited))
	case opBulk:
		return read(d, new(Bulk))
	case opContents:
		return read(d, new(Contents))
	case opDeletion:
		return read(d, new(Deletion))
	case opHeld:
		return read(d, new(Held))
	case opMove:
		return *read(d, new(Move))
	case opOutput:
		return read(d, &d.lastOutput)
	case opRedrive:
		return *read(d, new(Redrive))
	case opReplacement:
		return read(d, new(Replacement))
	case opRule:
		return *read(d, new(Rule))
	case opSchedule:
		return read(d, new(Schedule))
	case opSet:
		return read(d, new(Set))
	case opSnapshot:
		return read(d, new(Snapshot))
	}
	return nil
}

// read fills an op from the batch.
func read[T interface{ fields(*coder) }](d *Decoder, op T) T {
	op.fields(&d.c)
	return op
}
