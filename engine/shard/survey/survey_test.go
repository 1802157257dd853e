package survey

import (
	"slices"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell/shelltest"
)

// ended is a submission whose chunks with these indexes are dead and whose others were cancelled.
func ended(t *testing.T, chunks uint32, dead ...uint32) (*shelltest.Shell, *machine.Record) {
	s := shelltest.New(t)
	id := s.Insert(&queue.NewSubmission{
		Chunks: queue.Chunks{Count: chunks, Prefix: "p/"}, OnExhausted: queue.DeadLetter,
	})
	for _, index := range dead {
		s.Failed(id, queue.FailItem{Error: "no route to host 17", Fatal: true}, index)
		s.Clock = s.Clock.Add(time.Minute)
	}
	return s, s.Machine.Live(id)
}

// A walk visits the dead letters that its filter means, in the order of their indexes, from a given index on.
func TestWalkOverASubmission(t *testing.T) {
	t.Parallel()
	_, r := ended(t, 9, 7, 2, 5)
	for _, c := range []struct {
		name    string
		from    uint64
		most    int
		filter  queue.DeadFilter
		want    []uint32
		visited uint64
		marks   []uint64
	}{
		{name: "all", most: 9, want: []uint32{2, 5, 7}, visited: 3, marks: []uint64{1, 2, 3}},
		{name: "from one on", from: 5, most: 9, want: []uint32{5, 7}, visited: 2, marks: []uint64{1, 2}},
		{name: "until there are enough", most: 2, want: []uint32{2, 5}, visited: 2, marks: []uint64{1, 2}},
		{name: "those that died first", most: 9, filter: queue.DeadFilter{DiedBefore: shelltest.Start.Add(90 * time.Second)},
			want: []uint32{2, 7}, visited: 3, marks: []uint64{1, 3}},
		{name: "of another error", most: 9, filter: queue.DeadFilter{Fingerprint: "x"}, visited: 3},
	} {
		seen := &Survey{Started: shelltest.Start.Add(time.Hour)}
		var got []uint32
		w := Walk{Filter: &queue.BulkFilter{Dead: c.filter}, Seen: seen, Visit: func(d *queue.DeadChunk) bool {
			if d.Fingerprint != queue.Fingerprint(d.Error) || d.Error == "" {
				t.Errorf("%s: the letter is %+v", c.name, d)
			}
			got = append(got, d.Chunk.Index)
			return len(got) < c.most
		}}
		w.Of(r, c.from)
		if !slices.Equal(got, c.want) || seen.Examined != c.visited || !slices.Equal(seen.Marks, c.marks) || w.Over() != (len(got) == c.most) {
			t.Errorf("%s: chunks %v of %d examined, marks %v, over %t; want %v of %d, %v", c.name, got, seen.Examined, seen.Marks, w.Over(),
				c.want, c.visited, c.marks)
		}
	}
}

// Chunks that died after the start were not there then: they are looked at, and not counted.
func TestLaterDeathsAreNotCounted(t *testing.T) {
	t.Parallel()
	_, r := ended(t, 3, 0, 1)
	seen := &Survey{Started: shelltest.Start.Add(30 * time.Second)}
	w := Walk{Filter: &queue.BulkFilter{}, Seen: seen, Visit: func(*queue.DeadChunk) bool { return true }}
	if w.Of(r, 0); seen.Examined != 1 || len(seen.Marks) != 2 || seen.Last.Index != 1 {
		t.Errorf("%d are counted, marks %v, last %v; want the first of two", seen.Examined, seen.Marks, seen.Last)
	}
}

// A walk that meets little that its filter means breaks off all the same, and says how far it got.
func TestWalkIsSpent(t *testing.T) {
	t.Parallel()
	var seen Survey
	n := 0
	for ; !seen.Spent(); n++ {
		seen.SawSubmission(queue.SubmissionID(n+1), n%1000 == 0)
	}
	if n != mostLooks || seen.Examined != mostLooks || len(seen.Marks) != 5 || seen.Last != (queue.ChunkID{Submission: mostLooks}) {
		t.Errorf("after %d: %d examined, marks %v, last %v", n, seen.Examined, seen.Marks, seen.Last)
	}
	seen.Passed(9, 40)
	if seen.Examined != mostLooks+40 || seen.Last.Submission != 9 || seen.Last.Index == 0 {
		t.Errorf("40 chunks at once: %d examined, last %v", seen.Examined, seen.Last)
	}
	var none *Survey
	none.Passed(9, 40)
	if w := (Walk{Seen: none}); none.Spent() || w.Over() {
		t.Error("a walk without a survey is spent")
	}
}

// A letter tells of the last try, and of those before it, in memory of its own.
func TestLetter(t *testing.T) {
	t.Parallel()
	s, r := ended(t, 2)
	s.Failed(r.ID, queue.FailItem{Error: "first"}, 1)
	s.Clock = s.Clock.Add(time.Hour)
	for s.Machine.Step(machine.KindRetry, s.Clock, 9, nil, nil) == 9 {
	}
	s.Failed(r.ID, queue.FailItem{Error: "second", Fatal: true}, 1)
	d := Letter(r, 1)
	if d.Chunk != (queue.ChunkID{Submission: r.ID, Index: 1}) || d.State != queue.Open || d.Attempts != 2 || d.Error != "second" ||
		d.Consumer != "c" || d.Died != s.Clock || len(d.Past) != 2 || d.Past[0].Error != "first" || d.Fingerprint != "" {
		t.Errorf("the letter is %+v", d)
	}
	if d.Past[0].Error = "changed"; r.Tries[1].Past[0].Error != "first" {
		t.Error("a letter shares its past with the machine")
	}
}
