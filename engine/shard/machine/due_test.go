package machine

import (
	"cmp"
	"slices"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"pgregory.net/rapid"
)

// Whatever is pushed and popped in between, things come out by time and then by insertion, each once.
func TestDueModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var h dueHeap
		var model []Due
		pop := func() {
			first, there := h.first()
			if there != (len(model) > 0) {
				t.Fatalf("first() = %v, %v of %d entries", first, there, len(model))
			}
			if !there {
				return
			}
			h.pop()
			least := slices.MinFunc(model, func(a, b Due) int {
				return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.index, b.index))
			})
			at := slices.Index(model, first)
			if at < 0 || first != least {
				t.Fatalf("first() = %v; want %v, from %v", first, least, model)
			}
			model = slices.Delete(model, at, at+1)
		}
		for i := range rapid.IntRange(0, 200).Draw(t, "steps") {
			if rapid.IntRange(0, 2).Draw(t, "what") == 0 {
				pop()
				continue
			}
			d := Due{At: queue.Time(rapid.Int64Range(0, 40).Draw(t, "at")), Seq: uint32(i), index: rapid.Uint32().Draw(t, "index")}
			h.push(d)
			model = append(model, d)
		}
		for len(model) > 0 {
			pop()
		}
		pop()
		if len(h) != 0 {
			t.Fatalf("%d entries are left of none", len(h))
		}
	})
}
