package web

import (
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// An error that says when to send the request again does so in Retry-After, in whole seconds that are not too few.
func TestRetryAfterOfAnError(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]string{0: "1", time.Millisecond: "1", time.Hour + time.Millisecond: "3601"} {
		p := new(answers).problemOf(&queue.Error{Code: queue.CodeOverloaded, RetryAfter: after})
		if got := p.GetHeaders().Get("Retry-After"); got != want {
			t.Errorf("after %s: Retry-After is %q, want %q", after, got, want)
		}
	}
}
