package machine

import (
	"math"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/marks"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/commit"
)

const takenNow = backlog.Taken

// Mark makes a reservation Finishing in a batch.
func (m *Machine) Mark(slot uint32, in *Batch) {
	h := m.Holds.At(slot)
	h.State = reserver.Finishing
	in.Mark(slot, h.Sequence)
}

// Fails checks failures and encodes what becomes of their chunks. rests gets what an "already" rests on.
func (m *Machine) Fails(items []queue.FailItem, now queue.Time, dst []queue.Result, rests *commit.Set) []queue.Result {
	for i := range items {
		item := &items[i]
		t := &item.Token
		r, slot, s := m.Resolve(t)
		switch {
		case s == Holder:
			m.Mark(slot, m.Batch)
			m.Holds.Saw(m.Holds.At(slot), now)
		case s == free || s == waiting || s == onShelf:
			dst = append(dst, m.failsLate(r, s, item, now))
			continue
		default:
			rests.Add(m.Writing[slot])
			dst = append(dst, Answer(s))
			continue
		}
		m.failed(r, item, now)
		dst = append(dst, queue.Result{})
	}
	return dst
}

// failsLate is a failure that is told when no one holds the chunk any more. A try that was not counted yet is: its consumer worked through
// a restart, or was told to give the chunk back. To one that was, by its deadline or with its consumer, what the consumer says is added.
func (m *Machine) failsLate(r *Record, s standing, item *queue.FailItem, now queue.Time) queue.Result {
	t, last := &item.Token, r.Tries[item.Token.Index]
	same := last != nil && last.sequence == t.Sequence && last.epoch == t.Epoch
	switch {
	case last == nil || !same && last.before(t):
	case !same || last.Reason == journal.Redriven:
		return Answer(Lost) // another try came after it
	case last.Reason == journal.Failed && !item.Fatal:
		return queue.Result{} // sent before
	}
	slot, ok := m.claim(r, t, s, now)
	if !ok {
		return tooManyLate
	}
	m.Batch.Mark(slot, t.Sequence)
	if same {
		marks.Hit("a consumer says why after its deadline")
		m.revised(r, item, last, now)
	} else {
		m.failed(r, item, now)
	}
	return queue.Result{}
}

// before says that the try ended under a token that was handed out before this one.
func (t *Try) before(token *queue.Token) bool {
	return t.epoch < token.Epoch || t.epoch == token.Epoch && t.sequence < token.Sequence
}

// revised encodes what a consumer says of a try that is counted already. It counts no other one: the chunk ends if it says so, otherwise
// it is offered when the consumer wishes, or when it was to be.
func (m *Machine) revised(r *Record, item *queue.FailItem, last *Try, now queue.Time) {
	op := journal.Returned{
		Seq: r.Seq, Index: item.Token.Index, Reason: journal.Failed, Epoch: last.epoch, Sequence: last.sequence,
		Attempts: last.Attempts, Expiries: last.Expiries, NotBefore: last.NotBefore, Error: last.Err,
	}
	if item.Error != "" {
		op.Error = Clip(item.Error, queue.MaxErrorBytes)
	}
	switch {
	case item.Fatal:
		m.exhausted(r, op, now)
		return
	case item.RetryAt != 0:
		op.NotBefore = item.RetryAt
	case item.HasRetry:
		op.NotBefore = now + item.RetryAfter
	}
	m.Encode(now).Return(op)
}

// failed decides what a failed try leads to and encodes it.
func (m *Machine) failed(r *Record, item *queue.FailItem, now queue.Time) {
	op := m.Tried(r, item.Token.Index, journal.Failed, now)
	op.Epoch, op.Sequence = item.Token.Epoch, item.Token.Sequence
	op.Error = Clip(item.Error, queue.MaxErrorBytes)
	switch {
	case item.Fatal || m.spent(r, &op):
		m.exhausted(r, op, now)
		return
	case item.RetryAt != 0:
		op.NotBefore = item.RetryAt
	case item.HasRetry:
		op.NotBefore = now + item.RetryAfter
	default:
		op.NotBefore = m.backoff(m.Settings.RetryBackoff, int(op.Attempts), now)
	}
	m.Encode(now).Return(op)
}

// Tried counts one more try of a chunk.
func (m *Machine) Tried(r *Record, index uint32, reason journal.ReturnReason, now queue.Time) journal.Returned {
	op := journal.Returned{Seq: r.Seq, Index: index, Reason: reason, Attempts: 1}
	if slot, held := m.Holds.Find(r.Seq, index); held {
		h := m.Holds.At(slot)
		op.Consumer, op.Held = m.Holds.Consumer(h), uint32(min(max(now-h.Reserved, 0), math.MaxUint32))
	}
	if t := r.Tries[index]; t != nil {
		op.Attempts, op.Expiries = max(t.Attempts, t.Attempts+1), t.Expiries
	}
	if reason == journal.Expired {
		op.Expiries = max(op.Expiries, op.Expiries+1)
	}
	return op
}

// spent says whether that was a chunk's last try. A limit of 0 is none.
func (m *Machine) spent(r *Record, op *journal.Returned) bool {
	attempts, expiries := m.MaxAttempts(r), m.Settings.MaxExpiries
	return attempts > 0 && op.Attempts >= attempts || op.Reason == journal.Expired && expiries > 0 && op.Expiries >= expiries
}

// MaxAttempts is how many tries a chunk of the submission has.
func (m *Machine) MaxAttempts(r *Record) uint16 {
	if own := r.Details().attempts; own != 0 {
		return own
	}
	return m.Settings.MaxAttempts
}

// exhausted ends a chunk that has no try left, and with it the submission unless its policy keeps the damage to the chunk.
func (m *Machine) exhausted(r *Record, op journal.Returned, now queue.Time) {
	op.Reason, op.NotBefore = journal.Dead, 0
	policy := r.Details().policy
	if policy == queue.Inherit {
		policy = m.Settings.OnExhausted
	}
	if policy == queue.Skip {
		op.Reason = journal.Skipped
	}
	m.Encode(now).Return(op)
	budget := r.Details().maxFailed
	if policy == queue.FailSubmission || policy == queue.Inherit || budget > 0 && r.Dead+r.Skips+r.Dying >= budget {
		m.Close(r, queue.Failed, op.Error, now)
		return
	}
	m.Dies(r)
	if op.Reason == journal.Dead {
		for _, dying := range m.Joined.Dying {
			dying(r, op.Index, now)
		}
	}
	m.Encode(now).End(journal.End{Seq: r.Seq, State: queue.CompletedWithDead})
}

// Dies notes that a chunk is about to end for good while its submission goes on: it counts against its budget from now on.
func (m *Machine) Dies(r *Record) {
	r.Dying++
	m.Intend((*dying)(r))
}

type dying Record

func (r *dying) Applied(*Machine) { r.Dying-- }

func (r *dying) Undo(*Machine) { r.Dying-- }

// backoff draws a delay with full jitter (Brooker, "Exponential Backoff And Jitter", AWS 2015).
func (m *Machine) backoff(b queue.Backoff, tries int, now queue.Time) queue.Time {
	if b.Base <= 0 {
		return 0
	}
	delay := float64(b.Base)
	for ; tries > 1 && delay < float64(b.Cap); tries-- {
		delay *= max(b.Factor, 1)
	}
	if b.Cap > 0 {
		delay = min(delay, float64(b.Cap))
	}
	return now.Add(time.Duration(m.Rnd.Int64N(int64(delay)+1))) + 1
}

// Extends moves deadlines, and takes a chunk up again for a consumer that worked through a restart.
func (m *Machine) Extends(items []queue.ExtendItem, now queue.Time, dst []queue.Result) []queue.Result {
	for i := range items {
		t := &items[i].Token
		timeout := items[i].Timeout
		if timeout == 0 {
			timeout = queue.Time(m.Settings.ReservationTimeout / time.Millisecond)
		}
		r, slot, s := m.Resolve(t)
		if s == free || s == onShelf {
			if taken, is := m.Joined.Rules.TakenBack(r); is {
				dst = append(dst, taken)
				continue
			}
		}
		if s == onShelf {
			marks.Hit("a shelved chunk is taken up by the consumer that had it")
			m.Suspects.lendOut(r, t.Index, r.Tries[t.Index], now)
			s = free
		}
		if s == free && m.Backlog.TakeChunk(r.Sub, t.Index) {
			m.Ready(r, -1)
			m.Suspects.taken(r, t.Index)
			marks.Hit("a chunk is held again by an extend after a crash")
			slot = m.Holds.Add(&r.Holds, reserver.Hold{
				Sequence: t.Sequence, Epoch: t.Epoch, Seq: r.Seq, Index: t.Index, Attempt: r.Attempt(t.Index), Counted: true,
				Reserved: now, Deadline: now,
			}, items[i].Consumer)
			s = Holder
		}
		if s != Holder || m.Holds.At(slot).State == reserver.Expiring {
			dst = append(dst, Answer(extendStanding(s)))
			continue
		}
		deadline := min(now+timeout, m.Holds.At(slot).Reserved.Add(m.Settings.MaxReservation))
		m.Holds.Extend(slot, deadline)
		m.Holds.Saw(m.Holds.At(slot), now)
		dst = append(dst, queue.Result{Deadline: deadline})
	}
	return dst
}

// extendStanding: what is finished or finishing cannot be extended.
func extendStanding(s standing) standing {
	switch s {
	case already, busy, free, waiting, Holder:
		return Lost
	}
	return s
}

// Releases gives chunks back unworked; no try is counted and nothing is journaled, as reservations are memory only.
func (m *Machine) Releases(items []queue.ReleaseItem, dst []queue.Result) []queue.Result {
	for i := range items {
		t := &items[i].Token
		r, slot, s := m.Resolve(t)
		switch s {
		case Holder:
			if m.Holds.At(slot).State == reserver.Expiring {
				dst = append(dst, Answer(Lost))
				continue
			}
			m.Unhold(r, slot)
			m.Stats.Released++
			dst = append(dst, queue.Result{})
		case free, waiting, onShelf:
			dst = append(dst, queue.Result{Outcome: queue.OutcomeAlready})
		case busy, already:
			dst = append(dst, Answer(Lost))
		default:
			dst = append(dst, Answer(s))
		}
	}
	return dst
}

// Clip cuts text to at most that many bytes, between two characters.
func Clip(text string, most int) string {
	if len(text) > most {
		return text[:most]
	}
	return text
}
