package shard

import (
	"context"
	"math"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

const takenNow = backlog.Taken

// sliceItems is how many items one hold of the mutex works on, so that a large batch never stalls the others.
const sliceItems = 256

// mark makes a reservation Finishing in a batch.
func (m *machine) mark(slot uint32, in *batch) {
	h := m.holds.At(slot)
	h.State = reserver.Finishing
	in.mark(slot, h.Sequence)
}

// fails checks failures and encodes what becomes of their chunks. rests gets what an "already" rests on.
func (m *machine) fails(items []queue.FailItem, now queue.Time, dst []queue.Result, rests *commits) []queue.Result {
	for i := range items {
		item := &items[i]
		t := &item.Token
		r, slot, s := m.resolve(t)
		switch {
		case s == holder:
			m.mark(slot, m.batch)
			m.holds.Saw(m.holds.At(slot), now)
		case s == free || s == waiting || s == onShelf:
			dst = append(dst, m.failsLate(r, s, item, now))
			continue
		default:
			rests.add(m.writing[slot])
			dst = append(dst, answer(s))
			continue
		}
		m.failed(r, item, now)
		dst = append(dst, queue.Result{})
	}
	return dst
}

// failsLate is a failure that is told when no one holds the chunk any more. A try that was not counted yet is: its consumer worked through
// a restart, or was told to give the chunk back. To one that was, by its deadline or with its consumer, what the consumer says is added.
func (m *machine) failsLate(r *record, s standing, item *queue.FailItem, now queue.Time) queue.Result {
	t, last := &item.Token, r.tries[item.Token.Index]
	same := last != nil && last.sequence == t.Sequence && last.epoch == t.Epoch
	switch {
	case last == nil || !same && last.before(t):
	case !same || last.reason == journal.Redriven:
		return answer(lost) // another try came after it
	case last.reason == journal.Failed && !item.Fatal:
		return queue.Result{} // sent before
	}
	slot, ok := m.claim(r, t, s, now)
	if !ok {
		return tooManyLate
	}
	m.batch.mark(slot, t.Sequence)
	if same {
		m.revised(r, item, last, now)
	} else {
		m.failed(r, item, now)
	}
	return queue.Result{}
}

// before says that the try ended under a token that was handed out before this one.
func (t *try) before(token *queue.Token) bool {
	return t.epoch < token.Epoch || t.epoch == token.Epoch && t.sequence < token.Sequence
}

// revised encodes what a consumer says of a try that is counted already. It counts no other one: the chunk ends if it says so, otherwise
// it is offered when the consumer wishes, or when it was to be.
func (m *machine) revised(r *record, item *queue.FailItem, last *try, now queue.Time) {
	op := journal.Returned{
		Seq: r.seq, Index: item.Token.Index, Reason: journal.Failed, Epoch: last.epoch, Sequence: last.sequence,
		Attempts: last.attempts, Expiries: last.expiries, NotBefore: last.notBefore, Error: last.err,
	}
	if item.Error != "" {
		op.Error = clip(item.Error, queue.MaxErrorBytes)
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
	m.encode(now).Return(op)
}

// failed decides what a failed try leads to and encodes it.
func (m *machine) failed(r *record, item *queue.FailItem, now queue.Time) {
	op := m.tried(r, item.Token.Index, journal.Failed, now)
	op.Epoch, op.Sequence = item.Token.Epoch, item.Token.Sequence
	op.Error = clip(item.Error, queue.MaxErrorBytes)
	switch {
	case item.Fatal || m.spent(r, &op):
		m.exhausted(r, op, now)
		return
	case item.RetryAt != 0:
		op.NotBefore = item.RetryAt
	case item.HasRetry:
		op.NotBefore = now + item.RetryAfter
	default:
		op.NotBefore = m.backoff(m.settings.RetryBackoff, int(op.Attempts), now)
	}
	m.encode(now).Return(op)
}

// tried counts one more try of a chunk.
func (m *machine) tried(r *record, index uint32, reason journal.ReturnReason, now queue.Time) journal.Returned {
	op := journal.Returned{Seq: r.seq, Index: index, Reason: reason, Attempts: 1}
	if slot, held := m.holds.Find(r.seq, index); held {
		h := m.holds.At(slot)
		op.Consumer, op.Held = m.holds.Consumer(h), uint32(min(max(now-h.Reserved, 0), math.MaxUint32))
	}
	if t := r.tries[index]; t != nil {
		op.Attempts, op.Expiries = max(t.attempts, t.attempts+1), t.expiries
	}
	if reason == journal.Expired {
		op.Expiries = max(op.Expiries, op.Expiries+1)
	}
	return op
}

// spent says whether that was a chunk's last try. A limit of 0 is none.
func (m *machine) spent(r *record, op *journal.Returned) bool {
	attempts, expiries := m.maxAttempts(r), m.settings.MaxExpiries
	return attempts > 0 && op.Attempts >= attempts || op.Reason == journal.Expired && expiries > 0 && op.Expiries >= expiries
}

func (m *machine) maxAttempts(r *record) uint16 {
	if own := r.details().attempts; own != 0 {
		return own
	}
	return m.settings.MaxAttempts
}

// exhausted ends a chunk that has no try left, and with it the submission unless its policy keeps the damage to the chunk.
func (m *machine) exhausted(r *record, op journal.Returned, now queue.Time) {
	op.Reason, op.NotBefore = journal.Dead, 0
	policy := r.details().policy
	if policy == queue.Inherit {
		policy = m.settings.OnExhausted
	}
	if policy == queue.Skip {
		op.Reason = journal.Skipped
	}
	m.encode(now).Return(op)
	budget := r.details().maxFailed
	if policy == queue.FailSubmission || policy == queue.Inherit || budget > 0 && r.dead+r.skips+r.dying >= budget {
		m.close(r, queue.Failed, op.Error, now)
		return
	}
	m.dies(r)
	if to := m.settings.DeadLetterQueue; to != "" && op.Reason == journal.Dead {
		m.forwarding.send(r, []uint32{op.Index}, to, now)
		m.letters.moves(r, nil, []uint32{op.Index})
	}
	m.encode(now).End(journal.End{Seq: r.seq, State: queue.CompletedWithDead})
}

// dies notes that a chunk is about to end for good while its submission goes on: it counts against its budget from now on.
func (m *machine) dies(r *record) {
	r.dying++
	m.intend((*dying)(r))
}

type dying record

func (r *dying) Applied(*machine) { r.dying-- }
func (r *dying) Undo(*machine)    { r.dying-- }

// backoff draws a delay with full jitter (Brooker, "Exponential Backoff And Jitter", AWS 2015).
func (m *machine) backoff(b queue.Backoff, tries int, now queue.Time) queue.Time {
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
	return now.Add(time.Duration(m.rnd.Int64N(int64(delay)+1))) + 1
}

// extends moves deadlines, and takes a chunk up again for a consumer that worked through a restart.
func (m *machine) extends(items []queue.ExtendItem, now queue.Time, dst []queue.Result) []queue.Result {
	for i := range items {
		t := &items[i].Token
		timeout := items[i].Timeout
		if timeout == 0 {
			timeout = queue.Time(m.settings.ReservationTimeout / time.Millisecond)
		}
		r, slot, s := m.resolve(t)
		if s == free || s == onShelf {
			if taken, is := m.rules.takenBack(r); is {
				dst = append(dst, taken)
				continue
			}
		}
		if s == onShelf {
			m.suspects.lendOut(r, t.Index, r.tries[t.Index], now)
			s = free
		}
		if s == free && m.backlog.TakeChunk(r.sub, t.Index) {
			m.ready(r, -1)
			m.suspects.taken(r, t.Index)
			slot = m.holds.Add(&r.holds, reserver.Hold{
				Sequence: t.Sequence, Epoch: t.Epoch, Seq: r.seq, Index: t.Index, Attempt: r.attempt(t.Index), Counted: true,
				Reserved: now, Deadline: now,
			}, items[i].Consumer)
			s = holder
		}
		if s != holder || m.holds.At(slot).State == reserver.Expiring {
			dst = append(dst, answer(extendStanding(s)))
			continue
		}
		deadline := min(now+timeout, m.holds.At(slot).Reserved.Add(m.settings.MaxReservation))
		m.holds.Extend(slot, deadline)
		m.holds.Saw(m.holds.At(slot), now)
		dst = append(dst, queue.Result{Deadline: deadline})
	}
	return dst
}

// extendStanding: what is finished or finishing cannot be extended.
func extendStanding(s standing) standing {
	switch s {
	case already, busy, free, waiting, holder:
		return lost
	}
	return s
}

// releases gives chunks back unworked; no try is counted and nothing is journaled, as reservations are memory only.
func (m *machine) releases(items []queue.ReleaseItem, dst []queue.Result) []queue.Result {
	for i := range items {
		t := &items[i].Token
		r, slot, s := m.resolve(t)
		switch s {
		case holder:
			if m.holds.At(slot).State == reserver.Expiring {
				dst = append(dst, answer(lost))
				continue
			}
			m.unhold(r, slot)
			m.stats.released++
			dst = append(dst, queue.Result{})
		case free, waiting, onShelf:
			dst = append(dst, queue.Result{Outcome: queue.OutcomeAlready})
		case busy, already:
			dst = append(dst, answer(lost))
		default:
			dst = append(dst, answer(s))
		}
	}
	return dst
}

// Fail reports failed tries: one result per item, in order, appended to dst. It returns after the commit.
func (s *Shard) Fail(ctx context.Context, items []queue.FailItem, dst []queue.Result) ([]queue.Result, error) {
	from := len(dst)
	var waits commits
	for start := 0; start < len(items); start += sliceItems {
		slice := items[start:min(start+sliceItems, len(items))]
		now := s.now()
		s.mu.Lock()
		if err := s.usable(); err != nil {
			s.mu.Unlock()
			return dst, err
		}
		s.m.seed(s.options.Seed())
		dst = s.m.fails(slice, now, dst, &waits)
		waits.add(s.writer.pending())
		s.mu.Unlock()
	}
	if err := s.writer.wait(waits); err != nil {
		return dst, err
	}
	token := func(i int) *queue.Token { return &items[i].Token }
	if waits.late() {
		s.again(dst[from:], token)
	}
	return dst, s.askHistory(ctx, dst[from:], token)
}

// Extend moves deadlines: one result per item, in order, appended to dst. Nothing is written to disk; before it
// says that a chunk is gone it waits for what ended it to be there.
func (s *Shard) Extend(ctx context.Context, items []queue.ExtendItem, dst []queue.Result) ([]queue.Result, error) {
	from := len(dst)
	now := s.now()
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return dst, err
	}
	dst = s.m.extends(items, now, dst)
	waits := s.untilGone(dst[from:])
	s.mu.Unlock()
	if err := s.writer.wait(waits); err != nil {
		return dst, err
	}
	return dst, s.askHistory(ctx, dst[from:], func(i int) *queue.Token { return &items[i].Token })
}

// Release gives chunks back: one result per item, in order, appended to dst. Otherwise it is as Extend.
func (s *Shard) Release(ctx context.Context, items []queue.ReleaseItem, dst []queue.Result) ([]queue.Result, error) {
	from := len(dst)
	now := s.now()
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return dst, err
	}
	dst = s.m.releases(items, dst)
	waits := s.untilGone(dst[from:])
	s.waiters.serve(now)
	s.mu.Unlock()
	if err := s.writer.wait(waits); err != nil {
		return dst, err
	}
	return dst, s.askHistory(ctx, dst[from:], func(i int) *queue.Token { return &items[i].Token })
}

// untilGone is what has to be waited for before someone is told that a chunk is gone: what ends it may be on its way to the disk. The
// mutex is held.
func (s *Shard) untilGone(results []queue.Result) (waits commits) {
	for i := range results {
		if results[i].Outcome == queue.OutcomeGone {
			waits.add(s.writer.pending())
			break
		}
	}
	return waits
}

// askHistory replaces "unknown submission" by what the history knows: the submission ended long ago. When it cannot be read, that is an
// error: who hears "unknown" drops the work.
func (s *Shard) askHistory(ctx context.Context, results []queue.Result, token func(i int) *queue.Token) error {
	for i := range results {
		if results[i].Code != "unknown_submission" {
			continue
		}
		row, found, err := s.store.History.Ended(ctx, token(i).Submission)
		switch {
		case err != nil:
			return err
		case !found:
		case row.State == queue.Completed || row.State == queue.CompletedWithDead:
			results[i] = answer(lost)
		default:
			results[i] = answer(ended)
		}
	}
	return nil
}

func clip(text string, most int) string {
	if len(text) > most {
		return text[:most]
	}
	return text
}
