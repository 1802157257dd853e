package machine

import (
	"slices"
	"testing"
)

// noted is an intent that writes down how it ends.
type noted struct {
	name  string
	ended *[]string
}

func (n noted) Applied(*Machine) { *n.ended = append(*n.ended, n.name+" applied") }

func (n noted) Undo(*Machine) { *n.ended = append(*n.ended, n.name+" undone") }

// An intent ends once: with its op, or, if the batch fails before, in the reverse order of the decisions.
func TestIntentsEndOnce(t *testing.T) {
	t.Parallel()
	var ended []string
	var x intents
	for op, name := range []string{"a", "b", "c", "d"} {
		x.List = append(x.List, opIntent{noted{name, &ended}, max(1, op)}) // a and b belong to the first op
	}
	for _, step := range []struct {
		do   func()
		want []string
	}{
		{func() { x.Applied(nil, 0) }, nil},
		{func() { x.Applied(nil, 1) }, []string{"a applied", "b applied"}},
		{func() { x.Applied(nil, 1) }, nil},
		{func() { x.undo(nil) }, []string{"d undone", "c undone"}},
		{func() { x.undo(nil) }, nil},
		{func() { x.Applied(nil, 9) }, nil},
	} {
		ended = nil
		if step.do(); !slices.Equal(ended, step.want) {
			t.Errorf("ended %v, want %v", ended, step.want)
		}
	}
	if x.Reuse(); len(x.List) != 0 || x.List[:1][0].intent != nil {
		t.Errorf("a list that is used again keeps %v", x.List[:1])
	}
}
