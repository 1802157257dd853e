package store

import (
	"fmt"
	"slices"
	"testing"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// tenants has a history of n submissions, in several checkpoints: every tenth hundred is of tenant 1, the others of
// tenant 0.
func tenants(t *testing.T, n int) *Store {
	t.Helper()
	s := fresh(t)
	for begin := 0; begin < n; begin += 500 {
		var ended []checkpoint.Ended
		for i := begin; i < min(begin+500, n); i++ {
			spec := &journal.Insert{Seq: uint32(i), ID: queue.SubmissionID(i + 1), Chunks: 1,
				Meta: queue.Meta{{Key: "name", Value: queue.StringValue(fmt.Sprint("n", i))}, {Key: "tenant", Value: queue.IntValue(tenantOf(i))}}}
			ended = append(ended, checkpoint.Ended{Seq: spec.Seq, ID: spec.ID, State: queue.Completed, Finished: queue.Time(i + 1),
				Spec: journal.AppendInsert(nil, spec)})
		}
		must(t, s.Checkpoint(ctx, nil, ended))
	}
	return s
}

func tenantOf(i int) int64 {
	if i/100%10 == 3 {
		return 1
	}
	return 0
}

// A scan looks at about as many submissions as it may; page after page it lists all that it should, once, in order; and
// the second time it passes over pages without the tenant.
func TestScanIsBounded(t *testing.T) {
	t.Parallel()
	const n, look = 20_000, 1000
	s := tenants(t, n)
	meta := queue.Meta{{Key: "tenant", Value: queue.IntValue(1)}}
	var want []queue.SubmissionID
	for i := n - 1; i >= 0; i-- {
		if tenantOf(i) == 1 {
			want = append(want, queue.SubmissionID(i+1))
		}
	}
	all := func() (calls, asked int) {
		t.Helper()
		var got []queue.SubmissionID
		for before := queue.SubmissionID(0); ; calls++ {
			looked := 0
			list, to, err := s.History.ScanEnded(ctx, EndedScan{Before: before, States: []queue.SubmissionState{queue.Completed}, Meta: meta,
				Limit: 300, Look: look, Want: func(e *checkpoint.Ended) (bool, error) {
					looked++
					spec, err := journal.DecodeInsert(e.Spec)
					return err == nil && spec.Meta[1] == meta[0], err
				}})
			must(t, err)
			if asked += looked; looked > 2*look {
				t.Errorf("a scan that is to look at %d looked at %d", look, looked)
			}
			for i := range list {
				got = append(got, list[i].ID)
			}
			if to == 0 {
				break
			}
			if before != 0 && to >= before {
				t.Fatalf("a scan below %d goes on below %d", before, to)
			}
			before = to
		}
		if !slices.Equal(got, want) {
			t.Errorf("listed %d, want the %d of the tenant, in order", len(got), len(want))
		}
		return calls, asked
	}
	if calls, asked := all(); calls < n/look/2 || asked < n*9/10 {
		t.Errorf("%d calls looked at %d; the first time they know nothing of the pages, so the test proves nothing", calls, asked)
	}
	if _, asked := all(); asked > n/3 {
		t.Errorf("the second time the calls looked at %d of %d, want little more than the %d of the tenant", asked, n, len(want))
	}
}
