package inserts

import (
	"fmt"
	"sync/atomic"

	"github.com/quern-queue/quern/engine/queue"
)

// LiveLimit bounds how many submissions may be open in all shards of a server together, so that inserts are refused
// before memory is at its end. Existing submissions are not affected: they are recovered, redriven and ended as always.
// Schedules go on inserting, a submission for each tick. Dead letters that come from another queue wait there until
// there is room. It is safe for concurrent use.
//
// An insert counts as pending until after it counts as open, so for a moment it counts twice: the limit errs on the
// safe side. Both are atomics, because every insert of every shard would contend for a lock.
type LiveLimit struct {
	most    int64 // 0: any number
	open    atomic.Int64
	pending atomic.Int64 // inserts on their way
}

// NewLiveLimit allows this many open submissions; 0: any number.
func NewLiveLimit(most int64) *LiveLimit { return &LiveLimit{most: most} }

// Admit lets inserts in as long as there is room for one. They count until Release, which
// is to be called when they are committed and count as open, or failed.
func (l *LiveLimit) Admit(n int) error {
	if n == 0 {
		return nil
	}
	if now := l.open.Load() + l.pending.Add(int64(n)) - int64(n); l.most > 0 && now >= l.most {
		l.Release(n)
		return &queue.Error{Code: queue.CodeTooManySubmissions, Message: fmt.Sprintf(
			"The server has %d open submissions, the most that its option max-live-submissions allows. Send this "+
				"again when some have ended, put more chunks into fewer submissions, or have the option raised.",
			l.most)}
	}
	return nil
}

// Release takes back Admit.
func (l *LiveLimit) Release(n int) { l.pending.Add(-int64(n)) }

// Opened adds to the submissions that are open.
func (l *LiveLimit) Opened(n int64) { l.open.Add(n) }
