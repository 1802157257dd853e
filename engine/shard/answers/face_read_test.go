package answers

import (
	"context"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
)

// The bound of an answer counts the bytes that its reservations have, not those that they might have.
func TestTallyCountsWhatIsThere(t *testing.T) {
	t.Parallel()
	meta := make(queue.Meta, queue.MaxMetaKeys)
	for i := range meta {
		meta[i] = queue.MetaEntry{Key: strings.Repeat("k", i+1), Value: queue.IntValue(int64(i))}
	}
	one := queue.Reservation{Meta: meta, Content: queue.Content{Bytes: make([]byte, 100)}}
	bytes := meta.Bytes() + 100
	full := access.Answers{Most: 0} // no bytes beyond those that are not counted
	answer := full.Answer(nil, &access.Limits{})
	ctx := access.With(context.Background(), &access.Caller{Answer: &answer})

	got := tally{Gathering: access.Gather(ctx)}
	var all []queue.Reservation
	for range 10 * access.SmallAnswer / bytes {
		all = append(all, one)
		if !got.add(all) {
			break
		}
	}
	if want := access.SmallAnswer/bytes + 1; len(all) != want {
		t.Errorf("reservation %d of %d bytes has no room, want %d", len(all), bytes, want)
	}
	if full.Refused.Load() != 1 {
		t.Errorf("%d refusals are counted, want 1", full.Refused.Load())
	}
}
