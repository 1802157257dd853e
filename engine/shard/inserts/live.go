package inserts

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// LiveLimit bounds how many submissions may be open in all shards of a server together, and how much memory the server
// may use, so that inserts are refused before memory is at its end. Existing submissions are not affected: they are
// recovered, redriven and ended as always. An insert that takes the place of a submission that ends in the same commit
// needs no room. Schedules go on inserting, a submission for each tick. Dead letters that come from another queue wait
// there until there is room. It is safe for concurrent use.
//
// An insert counts as pending until after it counts as open, so for a moment it counts twice: the limit errs on the
// safe side. Both are atomics, because every insert of every shard would contend for a lock.
type LiveLimit struct {
	most    int64 // 0: any number
	open    atomic.Int64
	pending atomic.Int64 // inserts on their way
	used    atomic.Int64 // memory of the process, in bytes, when it was last measured
	memory  atomic.Int64 // the most that it may use while inserts are admitted; 0: any
}

// NewLiveLimit allows this many open submissions; 0: any number.
func NewLiveLimit(most int64) *LiveLimit { return &LiveLimit{most: most} }

// Admit lets inserts in as long as there is room for one. They count until Release, which
// is to be called when they are committed and count as open, or failed.
func (l *LiveLimit) Admit(n int) error {
	if n == 0 {
		return nil
	}
	if l.MemoryFull() {
		return &queue.Error{Code: queue.CodeOverloaded, RetryAfter: fullMemoryPause, Message: fmt.Sprintf(
			"The server uses %d MiB of memory, and inserts only while it uses less than its option memory-limit, %d "+
				"MiB. Send this again when work has ended, or have the option raised.",
			l.used.Load()>>20, l.memory.Load()>>20)}
	}
	if now := l.open.Load() + l.pending.Add(int64(n)) - int64(n); l.most > 0 && now >= l.most {
		l.Release(n)
		return &queue.Error{Code: queue.CodeTooManySubmissions, Message: fmt.Sprintf(
			"The server has %s, the most that its option max-live-submissions allows. Send this "+
				"again when some have ended, put more chunks into fewer submissions, or have the option raised.",
			queue.Exactly(uint64(l.most), "open submission"))}
	}
	return nil
}

// Replace lets an insert in that takes the place of a submission that ends in the same commit.
func (l *LiveLimit) Replace() { l.pending.Add(1) }

// Release takes back Admit or Replace.
func (l *LiveLimit) Release(n int) { l.pending.Add(-int64(n)) }

// Opened adds to the submissions that are open.
func (l *LiveLimit) Opened(n int64) { l.open.Add(n) }

// fullMemoryPause is how long a client should wait after a refusal for want of memory: work must end, and its memory be
// collected.
const fullMemoryPause = 10 * time.Second

// Uses says how many bytes of memory the process uses now, and from how many on inserts are refused; most 0: never.
func (l *LiveLimit) Uses(bytes, most int64) {
	l.used.Store(bytes)
	l.memory.Store(most)
}

// MemoryFull says whether inserts are refused because of the memory in use.
func (l *LiveLimit) MemoryFull() bool {
	most := l.memory.Load()
	return most > 0 && l.used.Load() >= most
}

// MemoryShort says whether the memory in use nears the limit, from 90 % of it on, so that an operator is warned before
// inserts are refused.
func (l *LiveLimit) MemoryShort() bool {
	most := l.memory.Load()
	return most > 0 && l.used.Load() >= most/10*9
}

// Memory returns what Uses said last.
func (l *LiveLimit) Memory() (bytes, most int64) { return l.used.Load(), l.memory.Load() }
