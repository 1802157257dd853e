package journal

import "github.com/quern-queue/quern/engine/queue"

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
	many(c, &x.Steps, maxSteps, func(s *Step) {
		c.text(&s.Name)
		many(c, &s.Args, maxArgs, func(a *any) { argument(c, a) })
	})
	many(c, &x.Acts, maxSteps, func(a *queue.Act) {
		c.text(&a.Queue)
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
	switch octet(c, &kind, argBytes); kind {
	case argNumber:
		signed(c, &n)
		*a = n
	case argText:
		c.text(&text)
		*a = text
	case argBytes:
		c.bytes(&b)
		*a = b
	}
}

// AppendChange appends the encoding of a change, described in docs/formats/ops.md.
func AppendChange(dst []byte, x *Change) []byte {
	return appendRow(dst, changeVersion, (*Change).fields, x)
}

// DecodeChange reads a change that AppendChange wrote. Its bytes stay in b.
func DecodeChange(b []byte) (Change, error) { return readRow(b, changeVersion, (*Change).fields) }
