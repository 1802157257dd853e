package machine

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"pgregory.net/rapid"
)

// orderedModel is a sorted slice, newest first.
type orderedModel []*Record

func (m orderedModel) below(before queue.SubmissionID) (ids []queue.SubmissionID) {
	for _, r := range m {
		if r.ID < before {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// Paging through, in pages cut by `most` or by fn, shows every record below the start once, newest first.
func TestOrderedModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var o Ordered
		var model orderedModel
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			if rapid.IntRange(0, 2).Draw(t, "what") == 0 && len(model) > 0 {
				i := rapid.IntRange(0, len(model)-1).Draw(t, "remove")
				o.Remove(model[i])
				o.Remove(model[i]) // once more changes nothing
				model = slices.Delete(model, i, i+1)
				continue
			}
			id := queue.SubmissionID(rapid.Uint64Range(1, 100).Draw(t, "id"))
			if slices.ContainsFunc(model, func(r *Record) bool { return r.ID == id }) {
				continue
			}
			r := &Record{ID: id}
			o.Add(r)
			model = append(model, r)
			slices.SortFunc(model, func(a, b *Record) int { return -cmp.Compare(a.ID, b.ID) })
		}
		before := rapid.SampledFrom([]queue.SubmissionID{0, 1, 50, 101, math.MaxInt64}).Draw(t, "before")
		want := model.below(before)
		var got []queue.SubmissionID
		for pages := 0; before != 0; pages++ {
			most, room := rapid.IntRange(1, 10).Draw(t, "most"), rapid.IntRange(1, 5).Draw(t, "room")
			calls := 0
			before = o.Before(before, most, func(r *Record) bool {
				got = append(got, r.ID)
				calls++
				room--
				return room > 0
			})
			if calls > most || pages > 200 {
				t.Fatalf("page %d shows %d records; want at most %d", pages, calls, most)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %v; want %v", got, want)
		}
		if want := model.below(math.MaxUint64); len(o.List)-o.holes != len(want) {
			t.Fatalf("%d places, %d of them holes; want %d records", len(o.List), o.holes, len(want))
		}
	})
}

// Holes are given up when they are more than half; an id that was removed may come again.
func TestOrderedCompacts(t *testing.T) {
	t.Parallel()
	const count = 10_000
	var o Ordered
	records := make([]*Record, count)
	for i := range records {
		records[i] = &Record{ID: queue.SubmissionID(i + 1)}
		o.Add(records[i])
	}
	for i, r := range records {
		if i%10 != 0 {
			o.Remove(r)
		}
		if live := len(o.List) - o.holes; len(o.List) > max(2*live+1, live+1025) {
			t.Fatalf("after removing up to %d: %d places for %d records", i, len(o.List), live)
		}
	}
	if live := len(o.List) - o.holes; live != count/10 {
		t.Errorf("%d records are left; want %d", live, count/10)
	}
	again := &Record{ID: 2}
	o.Add(again)
	var got []queue.SubmissionID
	o.Before(12, 100, func(r *Record) bool { got = append(got, r.ID); return true })
	if want := []queue.SubmissionID{11, 2, 1}; !slices.Equal(got, want) {
		t.Errorf("below 12 there are %v; want %v", got, want)
	}
	o.Remove(again)
	got = nil
	o.Before(12, 100, func(r *Record) bool { got = append(got, r.ID); return true })
	if want := []queue.SubmissionID{11, 1}; !slices.Equal(got, want) {
		t.Errorf("below 12 there are %v after the removal; want %v", got, want)
	}
}
