package machine

// The consequences of a failed attempt.
//
//	fail, deadline, lost consumer ─► Count: one more ─► spent, or fatal? ── no ──► Return: offered after its back-off
//	                                                       │ yes
//	                                                       ▼ exhausted: on_exhausted, and max_failed_chunks
//	                                       dead letter  │  skipped  │  the submission fails
//
// The decision is made when the attempt ends, with the settings of that moment, and is in the op. A later change of
// settings does not change it.
//
// A submission's failure budget counts chunks that are dying, too: those whose op is on its way to
// the disk. Without them, a batch of many failures would exceed the budget before the first of them
// is applied.

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/marks"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/indexset"
)

// tries is the part of the machine that counts tries of chunks, and decides what follows a failed one: another try, or
// the end of the chunk, and perhaps of its submission.
type tries struct {
	m *Machine
	// the chunk that the last Return ended: if it fails its submission, the End follows at once
	gaveUp struct{ seq, index uint32 }

	overdue overdue
}

// late handles a failure that a consumer reports when no one holds the chunk any more. If the try was not counted yet,
// because the consumer worked through a restart or the chunk was given or taken back, it is counted now. If it was
// counted, by its deadline or with its lost consumer, the consumer's report is added to it.
func (p *tries) late(r *Record, s standing, item *queue.FailItem, now queue.Time) queue.Result {
	m := p.m
	t, last := &item.Token, r.Tries[item.Token.Index]
	same := last != nil && last.of(t)
	switch {
	case same && last.Reason == journal.Snoozed:
		same = false // the token's try was not counted
	case last == nil || !same && last.before(t):
	case !same || last.Reason == journal.Redriven:
		return Answer(Lost) // a later try has ended
	case last.Reason == journal.Failed && !item.Fatal:
		return queue.Result{} // a repeated report
	}
	slot, ok := m.Tokens.claim(r, t, s, now)
	if !ok {
		return tooManyLate
	}
	m.Batch.Mark(slot, t.Sequence)
	if same {
		marks.Hit("a consumer says why after its deadline")
		p.revised(r, item, last, now)
	} else {
		p.failed(r, item, now)
	}
	return queue.Result{}
}

// of says that the try ended under this token.
func (t *Try) of(token *queue.Token) bool {
	return t.sequence == token.Sequence && t.epoch == token.Epoch
}

// before says that the try ended under a token that was handed out before this one.
func (t *Try) before(token *queue.Token) bool {
	return t.epoch < token.Epoch || t.epoch == token.Epoch && t.sequence < token.Sequence
}

// revised encodes a consumer's report on a try that is counted already. It counts no other try. The chunk ends if the
// report is fatal. Otherwise it is offered at the time that the consumer asks for, or at the time already set.
func (p *tries) revised(r *Record, item *queue.FailItem, last *Try, now queue.Time) {
	op := journal.Returned{
		Seq: r.Seq, Index: item.Token.Index, Reason: journal.Failed, Epoch: last.epoch, Sequence: last.sequence,
		Attempts: last.Attempts, Expiries: last.Expiries, NotBefore: last.NotBefore, Error: last.Err,
	}
	if item.Error != "" {
		op.Error = Clip(item.Error, queue.MaxErrorBytes)
	}
	if item.Fatal {
		p.exhausted(r, op, now)
		return
	}
	if at, asked := item.Retry(now); asked {
		op.NotBefore = at
	}
	p.m.Encode(now).Return(op)
}

// failed decides what follows a failed try, and encodes it.
func (p *tries) failed(r *Record, item *queue.FailItem, now queue.Time) {
	m := p.m
	op := p.Count(r, item.Token.Index, journal.Failed, now)
	op.Epoch, op.Sequence = item.Token.Epoch, item.Token.Sequence
	op.Error = Clip(item.Error, queue.MaxErrorBytes)
	if item.Fatal || spent(&op, r.Details().MaxAttempts(&m.Settings), m.Settings.MaxExpiries) {
		p.exhausted(r, op, now)
		return
	}
	at, asked := item.Retry(now)
	if op.NotBefore = at; !asked {
		b := cmp.Or(r.Details().retry, &m.Settings.RetryBackoff)
		op.NotBefore = backoff(b, int(op.Attempts), now, m.Rnd)
	}
	m.Encode(now).Return(op)
}

// GiveUp encodes that chunks that wait for another try get none, as if their last try had used up the limit, and says
// how many; in a dry run, how many it would be. No one can reserve them until then.
func (p *tries) GiveUp(id queue.SubmissionID, indexes []uint32, dry bool, now queue.Time) (n int) {
	m := p.m
	r := m.Live(id)
	for _, index := range indexes {
		if r == nil || r.Ending {
			break // the chunk before failed its submission
		}
		t := r.Tries[index]
		if t == nil || !t.Waiting || t.Attempts == 0 || m.IsHeld(r, index) {
			continue
		}
		if n++; dry {
			continue
		}
		token := queue.Token{Submission: id, Index: index, Epoch: t.epoch, Sequence: t.sequence}
		slot, _ := m.Tokens.claim(r, &token, waiting, now) // only claims of free chunks are bounded
		m.Batch.Mark(slot, t.sequence)
		p.exhausted(r, journal.Returned{
			Seq: r.Seq, Index: index, Epoch: t.epoch, Sequence: t.sequence, Attempts: t.Attempts,
			Expiries: t.Expiries, Error: t.Err,
		}, now)
	}
	return n
}

// errorCancelled is the error of a cancelled chunk.
const errorCancelled = "the chunk was cancelled"

// CancelChunk encodes that a chunk of an open submission is given up: no try is counted, and its consumer loses it. A
// chunk that is done, dead or skipped stays as it is. tryAgain says that an op about the chunk is on its way to the
// disk: its state is known once that is there.
func (p *tries) CancelChunk(r *Record, index uint32, now queue.Time) (cancelled, tryAgain bool) {
	m := p.m
	var op journal.Returned
	t := r.Tries[index]
	switch slot, held := m.Holds.Find(r.Seq, index); {
	case held && m.Holds.At(slot).State != reserver.Held:
		return false, true
	case held:
		op = p.takeHeld(r, slot, journal.Cancelled, errorCancelled, now)
	case r.Sub.IsAvailable(index):
		op = p.takeFree(r, index, free, journal.Cancelled, errorCancelled, now)
	case t != nil && t.Waiting:
		op = p.takeFree(r, index, waiting, journal.Cancelled, errorCancelled, now)
	default:
		return false, false
	}
	m.Encode(now).Return(op)
	m.Batch.Dies(r)
	m.Encode(now).End(journal.End{Seq: r.Seq, State: queue.CompletedWithDead})
	return true, false
}

// snooze encodes that a consumer gives a chunk back for a while. The counts and the error of its tries stay.
func (p *tries) snooze(r *Record, t *queue.Token, until, now queue.Time) {
	op := journal.Returned{
		Seq: r.Seq, Index: t.Index, Epoch: t.Epoch, Sequence: t.Sequence, Reason: journal.Snoozed, NotBefore: until,
	}
	if last := r.Tries[t.Index]; last != nil {
		op.Attempts, op.Expiries, op.Error = last.Attempts, last.Expiries, last.Err
	}
	p.m.Encode(now).Return(op)
}

// unworked files a chunk that its holder gave back for a while: its tenant gets the charge back.
func (p *tries) unworked(r *Record, slot uint32, op journal.Returned) {
	m := p.m
	charge := m.charges.of(slot, m.Holds.At(slot))
	m.drop(r, slot)
	m.returned(r, op)
	m.Backlog.Ledgers.Refund(r.Sub, charge)
}

// Count counts one more try of a chunk.
func (p *tries) Count(r *Record, index uint32, reason journal.ReturnReason, now queue.Time) journal.Returned {
	m := p.m
	op := journal.Returned{Seq: r.Seq, Index: index, Reason: reason, Attempts: 1}
	if slot, held := m.Holds.Find(r.Seq, index); held {
		h := m.Holds.At(slot)
		op.Consumer, op.Held = m.Holds.Consumer(h), heldFor(h, now)
	}
	if t := r.Tries[index]; t != nil {
		op.Attempts, op.Expiries = OneMore(t.Attempts), t.Expiries
	}
	if reason == journal.Expired {
		op.Expiries = OneMore(op.Expiries)
	}
	return op
}

// heldFor is for how many milliseconds a chunk was held.
func heldFor(h *reserver.Hold, now queue.Time) uint32 {
	return uint32(min(max(now-h.Reserved, 0), math.MaxUint32))
}

// over encodes that a reservation ended without its consumer, for the reason Expired or Lost. Until the commit its
// consumer may still come first, unless it was the last try.
func (p *tries) over(r *Record, h *reserver.Hold, reason journal.ReturnReason, why string, now queue.Time) {
	m := p.m
	op := p.Count(r, h.Index, reason, now)
	op.Epoch, op.Sequence, op.Error = h.Epoch, h.Sequence, why
	if spent(&op, r.Details().MaxAttempts(&m.Settings), m.Settings.MaxExpiries) {
		h.State, op.Lost = reserver.Dying, reason == journal.Lost
		p.exhausted(r, op, now)
		return
	}
	tries := int(op.Attempts)
	if reason == journal.Expired {
		tries = int(op.Expiries)
	}
	// The chunk of a process that a supervisor restarted is offered at once. If it kills the process again, it gets a
	// back-off like any other.
	if why != ErrorSucceeded || tries > 1 {
		op.NotBefore = backoff(&m.Settings.ExpiryBackoff, tries, now, m.Rnd)
	}
	m.Encode(now).Return(op)
}

// expire encodes that a deadline passed; the chunk stays shielded until that is committed.
func (p *tries) expire(slot uint32, now queue.Time) {
	m := p.m
	h := m.Holds.At(slot)
	r := m.LiveSeq(h.Seq)
	if r == nil {
		return // the submission has ended, and sweep comes to it
	}
	m.Batch.Mark(slot, h.Sequence)
	m.Stats.Expired++
	if r.Ending {
		return // the end of the submission is being written; if that fails, the deadline is watched again
	}
	p.over(r, h, journal.Expired, "the reservation's deadline passed", now)
}

// Lose encodes that the consumer of a reservation was lost: a try is counted, but not an expiry.
func (p *tries) Lose(slot uint32, now queue.Time) { p.lose(slot, errorLost, now) }

// Succeed encodes that the consumer was lost, because another process attached under its name.
func (p *tries) Succeed(slot uint32, now queue.Time) { p.lose(slot, ErrorSucceeded, now) }

func (p *tries) lose(slot uint32, why string, now queue.Time) {
	m := p.m
	h := m.Holds.At(slot)
	r := m.LiveSeq(h.Seq)
	if r.Ending {
		return // an earlier chunk ends the submission
	}
	h.State = reserver.Expiring
	m.Batch.Mark(slot, h.Sequence)
	p.over(r, h, journal.Lost, why, now)
}

// errorLost is the error of a try whose consumer was lost.
const errorLost = "the consumer was lost: its connection ended and did not come back"

// ErrorSucceeded is the error where a new process took over the consumer's name.
const ErrorSucceeded = "the consumer was lost: another process attached under its name"

// spent says whether the try was the chunk's last one. A limit of 0 is none.
func spent(op *journal.Returned, attempts uint16, expiries uint8) bool {
	return attempts > 0 && op.Attempts >= attempts || op.Reason == journal.Expired && expiries > 0 &&
		op.Expiries >= expiries
}

// MaxAttempts is how many tries a chunk of the submission has.
func (d *details) MaxAttempts(s *queue.Settings) uint16 {
	if d.attempts != 0 {
		return d.attempts
	}
	return s.MaxAttempts
}

// longest is the longest time that an attempt may hold a chunk of the submission, with all its extensions.
func (d *details) longest(s *queue.Settings) time.Duration {
	if d.timeout != 0 {
		return min(d.timeout, s.MaxReservation)
	}
	return s.MaxReservation
}

// exhausted ends a chunk that has no try left, and with it the submission, unless the policy ends only the chunk.
func (p *tries) exhausted(r *Record, op journal.Returned, now queue.Time) {
	m := p.m
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
		m.EndSubmission(r, queue.Failed, op.Error, now)
		return
	}
	m.Batch.Dies(r)
	if op.Reason == journal.Dead {
		p.letter(r, op.Index, op.Error, now)
	}
	m.Encode(now).End(journal.End{Seq: r.Seq, State: queue.CompletedWithDead})
}

// Dies notes that a chunk is about to end for good while its submission goes on: from now on it counts against the
// submission's failure budget.
func (b *Batch) Dies(r *Record) {
	r.Dying++
	b.Intend((*dying)(r))
}

type dying Record

func (r *dying) Applied(*Machine) { r.Dying-- }

func (r *dying) Undo(*Machine) { r.Dying-- }

// backoff draws until when a chunk waits after this many tries; 0: it does not wait. A draw of 0 waits a millisecond,
// so that the delay is in the future.
func backoff(b *queue.Backoff, tries int, now queue.Time, rnd *rand.Rand) queue.Time {
	least, most := b.Bounds(tries)
	if most <= 0 {
		return 0
	}
	return max(now.Add(least+time.Duration(rnd.Int64N(int64(most-least)+1))), now+1)
}

// PastOf lists the tries of a chunk that ended, the oldest first.
func (r *Record) PastOf(index uint32) ([]queue.Attempt, error) {
	if index >= r.Chunks {
		return nil, queue.Invalid("/path/index", "is past the submission's last chunk")
	}
	if t := r.Tries[index]; t != nil {
		return slices.Clone(t.Past), nil
	}
	return nil, nil
}

// delays knows which chunks wait: for another try, or on the shelf of the suspects.
type delays struct {
	stats    *Stats
	counting *Counting
	loose    *Loosened
	suspects *Suspects
}

// begin makes a taken chunk wait.
func (p *delays) begin(r *Record, index uint32, t *Try) {
	if !t.Waiting {
		p.Note(r, index, t)
		p.stats.Waiting++
	}
}

// Note notes that a taken chunk waits, everywhere but in the sum of the shard.
func (p *delays) Note(r *Record, index uint32, t *Try) {
	p.counting.Changing(r)
	t.Waiting = true
	r.Waiting++
	p.counting.tallied(r, t).Waiting++
	if r.Delays == nil {
		r.Delays = &indexset.Set{}
	}
	r.Delays.Add(index)
}

// end ends a chunk's waiting; it stays taken.
func (p *delays) end(r *Record, index uint32, t *Try) {
	if t.Waiting {
		p.counting.Changing(r)
		p.suspects.unshelve(r, t)
		p.loose.note(r, index)
		t.Waiting = false
		r.Waiting--
		p.counting.tallied(r, t).Waiting--
		r.Delays.Remove(index)
		p.stats.Waiting--
	}
}
