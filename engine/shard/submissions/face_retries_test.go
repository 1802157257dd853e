package submissions

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// Errors of one kind are one row, whatever digits and ids are in them, with the numbers of tries; kinds beyond
// MostKinds are only counted.
func TestKindsOfFailures(t *testing.T) {
	t.Parallel()
	k := kinds{of: map[string]*kind{}}
	for i := range 50 {
		k.add(&failing{chunk: queue.ChunkID{Submission: queue.SubmissionID(i/10 + 1), Index: uint32(i)},
			err: fmt.Sprintf("HTTP 503 from node %x%d, request %x", i%16, i, 0xa000+i*7), tries: uint16(i % 3), next: queue.Time(1000 - i)})
	}
	k.add(&failing{chunk: queue.ChunkID{Submission: 9}, err: "no route", tries: 40, next: 7})
	list := k.list()
	if len(list) != 2 || list[0].Count != 50 || list[0].Submissions != 5 || len(list[0].Tries) != 3 || list[0].NextAt.UnixMilli() != 951 {
		t.Fatalf("got %+v, want one kind of 50 in 5 submissions and another one", list)
	}
	if last := list[1]; last.Tries[0].Tries != mostTries || last.Tries[0].Count != 1 || last.Example != "no route" {
		t.Errorf("the other kind: %+v", last)
	}
	for i := range MostKinds {
		k.add(&failing{err: strings.Repeat("z", i+1)})
	}
	if len(k.of) != MostKinds || k.others != 2 {
		t.Errorf("%d kinds and %d others, want %d and 2", len(k.of), k.others, MostKinds)
	}
}
