package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/quern-queue/quern/engine/queue"
)

// Applier receives the ops of a batch in order.
type Applier interface {
	ApplyEpoch(epoch uint32) error
	ApplyInsert(s *Insert) error
	ApplyComplete(c Completed) error
	ApplyReturn(r Returned) error
	ApplyEnd(x End) error
	ApplyPriority(p Priority) error
	ApplyPart(op PartOp) error // op is valid during the call only
}

// PartOp is an op that belongs to one feature: *Act, *Bulk, *Contents, *Held, Move, *Output, Redrive, Rule or *Schedule.
type PartOp interface{ ofPart() }

func (*Act) ofPart()      {}
func (*Bulk) ofPart()     {}
func (*Contents) ofPart() {}
func (*Held) ofPart()     {}
func (Move) ofPart()      {}
func (*Output) ofPart()   {}
func (Redrive) ofPart()   {}
func (Rule) ofPart()      {}
func (*Schedule) ofPart() {}

// errDamaged marks a batch that ends inside an op or holds an impossible number.
var errDamaged = errors.New("the batch is cut short or damaged")

// Decoder reads a batch op by op.
type Decoder struct {
	d   decoder
	at  queue.Time
	err error
}

// NewDecoder starts reading a batch. Damage shows at the first Step.
func NewDecoder(batch []byte) *Decoder {
	switch {
	case len(batch) == 0:
		return &Decoder{err: errDamaged}
	case batch[0] == 0 || batch[0] > Version:
		return &Decoder{err: fmt.Errorf("the batch has op encoding version %d; this build knows version %d: it was "+
			"written by a newer Quern (start that one) or is damaged", batch[0], Version)}
	}
	d := &Decoder{d: decoder{b: batch[1:], noOutputs: batch[0] < tellingOutputs}}
	d.at = queue.Time(d.d.int())
	d.d.epoch = d.d.uint32()
	if d.d.bad {
		d.err = errDamaged
	}
	return d
}

// At is the batch's time: when its first op was decided.
func (d *Decoder) At() queue.Time { return d.at }

// Step gives the next op to a and says whether more follow. It never panics on damaged input.
func (d *Decoder) Step(a Applier) (more bool, err error) {
	if d.err == nil && len(d.d.b) > 0 {
		d.err = d.d.op(d.d.byte(), a)
	}
	return d.err == nil && len(d.d.b) > 0, d.err
}

// Epoch is the epoch of the shard when the batch was begun.
func Epoch(batch []byte) (uint32, error) {
	d := NewDecoder(batch)
	return d.d.epoch, d.err
}

// Decode reads a whole batch: begin is told its time, then a gets every op in order. It stops at the first error.
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

func (d *decoder) op(code byte, a Applier) error {
	switch code {
	case opCompleteOne, opCompleteRun, opCompleteOld:
		return d.complete(code, false, a)
	case opOutputs:
		if code := d.byte(); code >= opCompleteOne && code <= opCompleteOld && !d.noOutputs {
			return d.complete(code, true, a)
		}
	case opReturn, opAttempt:
		if r := d.returned(code); !d.bad && r.Reason <= Skipped {
			return a.ApplyReturn(r)
		}
	case opEnd:
		x := End{Seq: d.uint32(), State: queue.SubmissionState(d.byte()), Reason: d.text()}
		if !d.bad && x.State > queue.Open && x.State <= queue.Expired {
			return a.ApplyEnd(x)
		}
	case opPriority:
		p := Priority{Seq: d.uint32(), Priority: d.int()}
		if !d.bad {
			return a.ApplyPriority(p)
		}
	case opInsert:
		s := new(Insert)
		d.insert(s)
		if !d.bad {
			return a.ApplyInsert(s)
		}
	case opEpoch:
		d.epoch = d.uint32()
		if !d.bad {
			return a.ApplyEpoch(d.epoch)
		}
	default:
		op := d.partOp(code)
		switch {
		case d.bad:
		case op == nil:
			return fmt.Errorf("the batch holds the unknown op %d: it is damaged or was written by a newer Quern", code)
		default:
			return a.ApplyPart(op)
		}
	}
	return errDamaged
}

// partOp reads an op of a part; nil: there is no such op.
func (d *decoder) partOp(code byte) PartOp {
	switch code {
	case opAct:
		return &Act{Number: d.uint(), Act: d.act()}
	case opBulk:
		return d.bulk()
	case opContents:
		return d.contents()
	case opHeld:
		return d.held()
	case opMove:
		return d.move()
	case opOutput:
		d.lastOutput = Output{Seq: d.uint32(), Index: d.uint32(), Bytes: d.take(d.uint())}
		return &d.lastOutput
	case opRedrive:
		return Redrive{Seq: d.uint32(), Indexes: d.ascending()}
	case opRule:
		return d.rule()
	case opSchedule:
		return d.schedule()
	}
	return nil
}

func (d *decoder) returned(code byte) Returned {
	r := Returned{Seq: d.uint32(), Index: d.uint32(), Epoch: d.epochOf(), Sequence: d.token(), Reason: ReturnReason(d.byte()),
		Attempts: d.uint16(), Expiries: d.uint8(), NotBefore: queue.Time(d.int()), Error: d.text()}
	if code == opAttempt {
		r.Held, r.Consumer = d.uint32(), d.text()
	}
	if r.Reason >= lostFlag {
		r.Reason &^= lostFlag
		r.Lost = r.Reason == Dead || r.Reason == Skipped
		d.bad = d.bad || !r.Lost
	}
	return r
}

func (d *decoder) complete(code byte, outputs bool, a Applier) error {
	c := Completed{Seq: d.uint32(), Epoch: d.epoch, Output: outputs, OutputUnknown: d.noOutputs}
	if code == opCompleteOld {
		if c.Index, c.Epoch, c.Sequence = d.uint32(), d.epochOf(), d.token(); !d.bad {
			return a.ApplyComplete(c)
		}
		return errDamaged
	}
	n := uint32(1)
	if code == opCompleteRun {
		n = d.uint32()
	}
	for ; n > 0 && !d.bad; n-- {
		c.Index, c.Sequence = d.uint32(), d.token()
		if d.bad {
			break
		}
		if err := a.ApplyComplete(c); err != nil {
			return err
		}
	}
	if d.bad {
		return errDamaged
	}
	return nil
}

// decoder reads the numbers of a batch. After damage it is `bad` and returns zeroes.
type decoder struct {
	b         []byte
	epoch     uint32
	sequence  uint64
	bad       bool
	noOutputs bool // the version does not say which completions have an output

	lastOutput Output // its memory, as there may be many
}

func (d *decoder) fail() {
	d.bad = true
	d.b = nil
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

func (d *decoder) uint() uint64 {
	n, size := binary.Uvarint(d.b)
	if size <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[size:]
	return n
}

func (d *decoder) int() int64 {
	n, size := binary.Varint(d.b)
	if size <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[size:]
	return n
}

func (d *decoder) within(most uint64) uint64 {
	n := d.uint()
	if n > most {
		d.fail()
		return 0
	}
	return n
}

func (d *decoder) uint32() uint32 { return uint32(d.within(math.MaxUint32)) }
func (d *decoder) uint16() uint16 { return uint16(d.within(math.MaxUint16)) }
func (d *decoder) uint8() uint8   { return uint8(d.within(math.MaxUint8)) }

func (d *decoder) token() uint64 {
	d.sequence += uint64(d.int())
	return d.sequence
}

func (d *decoder) epochOf() uint32 { return d.epoch - d.uint32() }

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) text() string { return string(d.take(d.uint())) }
