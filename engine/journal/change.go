package journal

import (
	"github.com/quern-queue/quern/engine/coding"
	"github.com/quern-queue/quern/engine/queue"
)

// Change is one change of the catalogue. Where several servers share a catalogue, each
// change is a batch of its own in the catalogue's journal, and every server applies it. So
// it holds all that its result depends on, and no server looks at its clock for it.
type Change struct {
	Steps []Step
	Acts  []queue.Act // entries of the audit log about it
}

// Step is a statement of the catalogue by its name, with its arguments: nil, int64, string or []byte.
type Step struct {
	Name string
	Args []any
}

// changeVersion is the first byte of a Change.
const changeVersion = 1

// Bounds of a Change that is read.
const (
	maxSteps = 1 << 16
	maxArgs  = 32
)

func (x *Change) fields(c *coder) {
	coding.Many(&c.Coder, &x.Steps, maxSteps, func(s *Step) {
		c.Text(&s.Name)
		coding.Many(&c.Coder, &s.Args, maxArgs, func(a *any) { argument(c, a) })
	})
	coding.Many(&c.Coder, &x.Acts, maxSteps, func(a *queue.Act) {
		c.Text(&a.Queue)
		actFields(a, c)
	})
}

// The kinds of an argument. They are numbers in files: never used again for something else.
const (
	argNull = iota
	argNumber
	argText
	argBytes
)

func argument(c *coder, a *any) {
	kind := uint8(argNull)
	n, isNumber := (*a).(int64)
	text, isText := (*a).(string)
	b, isBytes := (*a).([]byte)
	switch {
	case isNumber:
		kind = argNumber
	case isText:
		kind = argText
	case isBytes:
		kind = argBytes
	}
	switch coding.Octet(&c.Coder, &kind, argBytes); kind {
	case argNumber:
		coding.Signed(&c.Coder, &n)
		*a = n
	case argText:
		c.Text(&text)
		*a = text
	case argBytes:
		c.Bytes(&b)
		*a = b
	}
}

// AppendChange appends the encoding of a change, described in docs/formats/ops.md.
func AppendChange(dst []byte, x *Change) []byte {
	return appendRow(dst, changeVersion, (*Change).fields, x)
}

// DecodeChange reads a change that AppendChange wrote. Its bytes stay in b.
func DecodeChange(b []byte) (Change, error) { return readRow(b, changeVersion, (*Change).fields) }
