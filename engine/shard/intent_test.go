package shard

import (
	"slices"
	"testing"
)

// noted is an intent that writes down how it ends.
type noted struct {
	name  string
	ended *[]string
}

func (n noted) Applied(*machine) { *n.ended = append(*n.ended, n.name+" applied") }
func (n noted) Undo(*machine)    { *n.ended = append(*n.ended, n.name+" undone") }

// An intent ends once: with its op, or, if the batch fails before, in the reverse order of what was decided.
func TestIntentsEndOnce(t *testing.T) {
	t.Parallel()
	var ended []string
	var x intents
	for op, name := range []string{"a", "b", "c", "d"} {
		x.list = append(x.list, opIntent{noted{name, &ended}, max(1, op)}) // a and b belong to the first op
	}
	for _, step := range []struct {
		do   func()
		want []string
	}{
		{func() { x.applied(nil, 0) }, nil},
		{func() { x.applied(nil, 1) }, []string{"a applied", "b applied"}},
		{func() { x.applied(nil, 1) }, nil},
		{func() { x.undo(nil) }, []string{"d undone", "c undone"}},
		{func() { x.undo(nil) }, nil},
		{func() { x.applied(nil, 9) }, nil},
	} {
		ended = nil
		if step.do(); !slices.Equal(ended, step.want) {
			t.Errorf("ended %v, want %v", ended, step.want)
		}
	}
	if x.reuse(); len(x.list) != 0 || x.list[:1][0].intent != nil {
		t.Errorf("a list that is used again keeps %v", x.list[:1])
	}
}
