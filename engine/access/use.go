package access

import (
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// Use is what is counted of a token while the server runs. It takes no lock.
type Use struct {
	minute atomic.Int64 // of the last use, since 1970
	asked  atomic.Int32 // requests that are being answered
	pace   Pace

	Formulas    Pace         // of formulas of Score blocks that were not known
	Bodies      atomic.Int64 // bytes that its large bodies hold while they are read and decoded
	Answers     atomic.Int64 // bytes that its large answers hold until they are sent
	Views       atomic.Int64 // bytes of the views that were made for it
	Reads       Turns
	Submissions Share[queue.SubmissionID]
	Values      Share[ValueAt]
	Consumers   Share[ConsumerAt]
}

// ValueAt is a value of a meta key in a queue, ConsumerAt an attached consumer of one.
type (
	ValueAt struct {
		Shard queue.ShardID
		queue.MetaEntry
	}
	ConsumerAt struct {
		Shard queue.ShardID
		Name  string
	}
)

// Note remembers that the token was used. It writes at most once a minute: cores that serve one token do not fight over it.
func (u *Use) Note(now queue.Time) {
	if minute := int64(now) / 60_000; u.minute.Load() < minute {
		u.minute.Store(minute)
	}
}

// Last is the minute of the last use since the start; 0: none.
func (u *Use) Last() queue.Time { return queue.Time(u.minute.Load() * 60_000) }

// Limits are what one token may ask for; 0: as much as it likes.
type Limits struct {
	PerSecond int // requests, after a burst of two seconds' worth
	AtOnce    int // requests that are being answered, those that wait for work included

	Bodies      int64 // bytes that its large bodies hold while they are read and decoded
	Answers     int64 // bytes that its large answers hold until they are sent
	Views       int64 // bytes of the views that were made for it
	Submissions int   // open ones that it inserted
	Values      int   // of meta keys, that its open submissions brought
	Consumers   int   // attached ones
	Rules       int   // of one queue, that it set; those of admins are not bounded by it
	Bulks       int   // bulk operations of one queue that it started and that run; those of admins are not bounded by it
}

// Enter counts a request in, unless the token has as many as it may: then wait says when to come back. What entered has to Leave. The
// moment is counted from any start, the same for all calls.
func (u *Use) Enter(at time.Duration, most Limits) (wait time.Duration, ok bool) {
	if n := u.asked.Add(1); most.AtOnce > 0 && int(n) > most.AtOnce {
		u.asked.Add(-1)
		return time.Second, false
	}
	if most.PerSecond > 0 {
		if wait = u.pace.Take(at, time.Second/time.Duration(most.PerSecond), 2*time.Second); wait > 0 {
			u.asked.Add(-1)
			return wait, false
		}
	}
	return 0, true
}

// Leave counts a request out.
func (u *Use) Leave() { u.asked.Add(-1) }

// Pace is a token bucket that is kept as one number: the moment up to which what was taken is paid for. Moments are counted from a reading
// of the monotonic clock: setting the wall clock back must not make a caller wait.
type Pace struct{ paid atomic.Int64 }

// Take takes one of what comes every so often, of which at most burst's worth is saved up. It returns how long to wait where there is none,
// and takes nothing then.
func (p *Pace) Take(at, every, burst time.Duration) (wait time.Duration) {
	for {
		was := p.paid.Load()
		paid := time.Duration(was)
		if paid < at || paid > at+burst { // the latter only if the clock that was passed in is not monotonic, and went back
			paid = at
		}
		next := paid + every
		if ahead := next - at; ahead > burst {
			return ahead - burst
		}
		if p.paid.CompareAndSwap(was, int64(next)) {
			return 0
		}
	}
}

// Spent says whether nothing is owed any more, so that the bucket is as good as a new one.
func (p *Pace) Spent(at time.Duration) bool { return p.paid.Load() <= int64(at) }
