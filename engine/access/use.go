package access

import (
	"sync/atomic"

	"github.com/quern-queue/quern/engine/queue"
)

// Use is what is counted of a token while the server runs. It takes no lock.
type Use struct {
	minute atomic.Int64 // of the last use, since 1970
}

// Note remembers that the token was used. It writes at most once a minute: cores that serve one token do not fight over it.
func (u *Use) Note(now queue.Time) {
	if minute := int64(now) / 60_000; u.minute.Load() < minute {
		u.minute.Store(minute)
	}
}

// Last is the minute of the last use since the start; 0: none.
func (u *Use) Last() queue.Time { return queue.Time(u.minute.Load() * 60_000) }
