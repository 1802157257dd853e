package journal

import "github.com/quern-queue/quern/engine/queue"

// actVersion is the first byte of an act as the store keeps it.
const actVersion = 1

// Act is an entry of the audit log. It stands in the batch of what it tells of, so that
// there is the one if and only if there is the other.
type Act struct {
	Number uint64 // within the shard: rises by at least 1 with each
	queue.Act
}

func (a *Act) fields(c *coder) {
	unsigned(c, &a.Number)
	actFields(&a.Act, c)
}

// actFields are those of the entry itself. The queue is not among them: its journal knows it.
func actFields(a *queue.Act, c *coder) {
	signed(c, &a.At)
	for _, text := range [...]*string{
		&a.Action, &a.Actor, &a.OnBehalfOf, &a.From, &a.RequestID, &a.Target, &a.Before, &a.After, &a.Outcome,
	} {
		c.text(text)
	}
}

// AppendAct appends the encoding of an act as the store keeps it, described in docs/formats/ops.md.
func AppendAct(dst []byte, a *queue.Act) []byte {
	return appendRow(dst, actVersion, actFields, a)
}

// DecodeAct reads an act that AppendAct wrote.
func DecodeAct(b []byte) (queue.Act, error) { return readRow(b, actVersion, actFields) }
