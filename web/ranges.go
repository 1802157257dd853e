package web

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// allowedAt says which numbers the field at a pointer of a request may have, as docs/LIFECYCLE.md and the document do; "" where its
// type says it all. The engine refuses with the same words what fits the type. This is for numbers that do not: their refusal must
// name the limit of the field too, not that of some type.
func allowedAt(pointer string) string {
	if below, ok := strings.CutPrefix(pointer, "/settings"); ok {
		if r, ok := queue.SettingRange(below); ok {
			return r.String()
		}
		return ""
	}
	switch pointer {
	case "/max_attempts", "/template/max_attempts":
		return upTo("0 (the queue's)", queue.MaxMaxAttempts)
	case "/max_failed_chunks", "/template/max_failed_chunks":
		return upTo("0 (any number)", queue.MaxChunks)
	case "/priority", "/template/priority":
		return fmt.Sprintf("%d to %d", -queue.MaxPriority, queue.MaxPriority)
	case "/operations_per_chunk", "/template/operations_per_chunk":
		return upTo("0 (counts as 1)", math.MaxUint32)
	case "/chunks/count", "/template/chunks/count":
		return upTo("1", queue.MaxChunks)
	case "/template/dead_after_ms":
		return upTo("0 (none)", queue.MaxRetention.Milliseconds())
	case "/catchup_limit":
		return upTo("1", queue.MaxCatchUp)
	case "/catchup_window_ms":
		return upTo("1000", queue.MaxCatchUpWindow.Milliseconds())
	case "/jitter_ms":
		return upTo("0", queue.MaxJitter.Milliseconds())
	}
	return ""
}

func upTo(least string, most int64) string { return fmt.Sprintf("%s to %d", least, most) }

// durationOf is a number of units as a duration. What is negative or does not fit is refused with what is allowed there: at the pointer,
// which is below another one in the request.
func durationOf(below, pointer string, n int64, unit time.Duration) (time.Duration, error) {
	if n >= 0 && n <= math.MaxInt64/int64(unit) {
		return time.Duration(n) * unit, nil
	}
	return 0, queue.Invalid(pointer, "is %d; %s are allowed", n, allowedAt(below+pointer))
}
