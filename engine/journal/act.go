package journal

import "github.com/quern-queue/quern/engine/queue"

// actVersion is the first byte of an act as the store keeps it.
const actVersion = 2

// Act is an entry of the audit log. It stands in the batch of what it tells of, so that there is the one if and only if there is the
// other.
type Act struct {
	Number uint64 // within the shard: rises by at least 1 with each
	queue.Act
}

// Act records that an operator changed something.
func (e *Encoder) Act(a *Act) {
	e.op(opAct)
	e.uint(a.Number)
	e.act(&a.Act)
}

// actTexts are the texts of an act in the order in which they are written. The queue is not among them: its journal knows it.
func actTexts(a *queue.Act) [9]*string {
	return [...]*string{&a.Action, &a.Actor, &a.OnBehalfOf, &a.From, &a.RequestID, &a.Target, &a.Before, &a.After, &a.Outcome}
}

func (e *Encoder) act(a *queue.Act) {
	e.int(int64(a.At))
	for _, text := range actTexts(a) {
		e.text(*text)
	}
}

func (d *decoder) act() (a queue.Act) {
	a.At = queue.Time(d.int())
	for _, text := range actTexts(&a) {
		*text = d.text()
	}
	return a
}

// AppendAct appends the encoding of an act as the store keeps it, described in docs/formats/ops.md.
func AppendAct(dst []byte, a *queue.Act) []byte {
	e := Encoder{buf: append(dst, actVersion)}
	e.act(a)
	return e.buf
}

// DecodeAct reads what AppendAct wrote.
func DecodeAct(b []byte) (queue.Act, error) {
	if len(b) == 0 || b[0] != actVersion {
		return queue.Act{}, errDamaged
	}
	d := decoder{b: b[1:]}
	a := d.act()
	if d.bad || len(d.b) > 0 {
		return queue.Act{}, errDamaged
	}
	return a, nil
}
