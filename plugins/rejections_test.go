package plugins

import (
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// The latest refusals are remembered, within a number and within bytes. One that is larger than all may be is forgotten at once.
func TestRejectionsAreBounded(t *testing.T) {
	t.Parallel()
	sum := func(n int) (s queue.SHA256) { s[0], s[1] = byte(n), byte(n>>8); return s }
	r := newRejections(100)
	for n := range 20 {
		for range 2 { // the second time adds nothing
			r.add(sum(n), queue.Invalid("/module", "%s", strings.Repeat("x", 100<<10)))
		}
	}
	for n := range 20 {
		if got, want := r.of(sum(n)) != nil, n >= 10; got != want {
			t.Errorf("rejection %d of 20 with 100 KiB each: remembered %v, want %v", n, got, want)
		}
	}
	for n := range 150 {
		r.add(sum(1000+n), queue.Invalid("/module", "short"))
	}
	if r.of(sum(1049)) != nil || r.of(sum(1050)) == nil {
		t.Error("want the last 100 of 150 short ones remembered")
	}
	r.add(sum(2000), queue.Invalid("/module", "%s", strings.Repeat("x", maxRejectionBytes)))
	if r.of(sum(2000)) != nil || r.bytes != 0 {
		t.Errorf("one that is too long is remembered, or %d bytes are counted for none", r.bytes)
	}
}
