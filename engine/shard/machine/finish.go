package machine

// Fail, extend and release as the machine decides them: for each item, the standing of its token, and the result.
// Extends and releases change reservations, which are only in memory. Fails encode ops, and mark the reservation as
// finishing until the op is on the disk.

import (
	"cmp"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/marks"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

const takenNow = backlog.Taken

// Mark makes a reservation Finishing in the open batch. From then on other calls with its token find it busy, and a
// deadline that passes leaves it alone. If the commit fails, the batch takes the mark back.
func (m *Machine) Mark(slot uint32) {
	h := m.Holds.At(slot)
	h.State = reserver.Finishing
	m.Batch.Mark(slot, h.Sequence)
}

// Fails checks failures and encodes the ops for their chunks. Results are appended in the order of the items, one for
// each. An item that names the same chunk as an earlier one finds it Finishing, so a batch cannot count a failure
// twice.
func (m *Machine) Fails(items []queue.FailItem, now queue.Time, dst []queue.Result) []queue.Result {
	for i := range items {
		item := &items[i]
		t := &item.Token
		r, slot, s := m.Tokens.Resolve(t)
		switch {
		case s == Holder:
			m.Mark(slot)
			m.Holds.Saw(m.Holds.At(slot), now)
		case s == free || s == waiting || s == onShelf:
			dst = append(dst, m.Tries.late(r, s, item, now))
			continue
		default:
			dst = append(dst, Answer(s))
			continue
		}
		m.Tries.failed(r, item, now)
		dst = append(dst, queue.Result{})
	}
	return dst
}

// Extends moves deadlines, and takes a chunk up again for a consumer that worked through a restart.
func (m *Machine) Extends(items []queue.ExtendItem, now queue.Time, dst []queue.Result) []queue.Result {
	for i := range items {
		t := &items[i].Token
		r, slot, s, refusal := m.Tokens.extendable(t)
		if refusal == nil && s != Holder {
			slot, refusal = m.Tokens.takeUp(r, t, s, items[i].Consumer, now)
		}
		if refusal != nil {
			dst = append(dst, *refusal)
			continue
		}
		// The queue's timeout as it is now, not as it was at the reservation: an operator who raises it wants that
		// for work in progress.
		timeout := cmp.Or(items[i].Timeout, queue.Time(m.Settings.ReservationTimeout/time.Millisecond))
		// The deadline may also move back: a consumer that asks for less than it has gets less. No reservation lasts
		// longer from its beginning than the queue and its submission allow, however often it is extended.
		longest := r.Details().longest(&m.Settings)
		deadline := min(now+timeout, m.Holds.At(slot).Reserved.Add(longest))
		m.Holds.Extend(slot, deadline)
		m.Holds.Saw(m.Holds.At(slot), now)
		m.Holds.Report(slot, items[i].Reported)
		dst = append(dst, queue.Result{Deadline: deadline})
	}
	return dst
}

// Refused appends to dst the places of the items that Extends would not extend now. It changes nothing.
func (p *tokens) Refused(items []queue.ExtendItem, dst []int) []int {
	for i := range items {
		if _, _, _, refusal := p.extendable(&items[i].Token); refusal != nil {
			dst = append(dst, i)
		}
	}
	return dst
}

// extendable finds the reservation of a token (Holder), or the chunk that it may take up again (free, onShelf), or the
// refusal.
func (p *tokens) extendable(t *queue.Token) (r *Record, slot uint32, s standing, refusal *queue.Result) {
	m := p.m
	r, slot, s = p.Resolve(t)
	switch {
	case s == free || s == onShelf:
		// A rule with the effect `revoke` took the chunk back. Its consumer must not get it again by extending.
		if taken, is := m.Joined.Rules.TakenBack(r); is {
			refusal = &taken
		}
	case s != Holder || m.Holds.At(slot).State == reserver.Expiring:
		refusal = new(Answer(extendStanding(s)))
	}
	return r, slot, s, refusal
}

// takeUp makes a reservation again for a token from before a restart.
func (p *tokens) takeUp(r *Record, t *queue.Token, s standing, consumer string,
	now queue.Time) (uint32, *queue.Result) {
	m := p.m
	if s == onShelf {
		marks.Hit("a shelved chunk is taken up by the consumer that had it")
		m.Suspects.lendOut(r, t.Index, r.Tries[t.Index], now)
	}
	if !m.Backlog.TakeChunk(r.Sub, t.Index) {
		return 0, new(Answer(Lost))
	}
	m.Ready(r, -1)
	m.Suspects.taken(r, t.Index)
	marks.Hit("a chunk is held again by an extend after a crash")
	return m.Holds.Add(&r.Holds, reserver.Hold{
		Sequence: t.Sequence, Epoch: t.Epoch, Seq: r.Seq, Index: t.Index, Attempt: r.Attempt(t.Index), Counted: true,
		Reserved: now, Deadline: now,
	}, consumer), nil
}

// extendStanding turns a standing into the refusal of an extend: a chunk that is finished or finishing cannot be
// extended. Holder is among them for a reservation that is just expiring (Extends): its end is on the way to the disk.
func extendStanding(s standing) standing {
	switch s {
	case already, busy, free, waiting, Holder:
		return Lost
	}
	return s
}

// Releases gives chunks back unworked; no try is counted. A release without a delay is not journaled, as reservations
// are only in memory.
func (m *Machine) Releases(items []queue.ReleaseItem, now queue.Time, dst []queue.Result) []queue.Result {
	for i := range items {
		t := &items[i].Token
		r, slot, s := m.Tokens.Resolve(t)
		switch s {
		case Holder:
			if m.Holds.At(slot).State == reserver.Expiring {
				dst = append(dst, Answer(Lost))
				continue
			}
			// A delay has to survive a crash, so it is an op; it is applied when the op is on the disk.
			if delay := items[i].Delay; delay > 0 {
				m.Mark(slot)
				m.Tries.snooze(r, t, now+delay, now)
			} else {
				m.Unhold(r, slot)
				m.Stats.Released++
			}
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

// Completes checks completions and marks their reservations Finishing in the open batch. It appends the completions
// that have to be journaled to list. It answers "unknown submission" where only the history knows the outcome.
func (m *Machine) Completes(items []queue.CompleteItem, valid []bool, now queue.Time, dst []queue.Result,
	list []journal.Completed) ([]queue.Result, []journal.Completed) {
	for i := range items {
		t := &items[i].Token
		if h := m.held(t); h != nil && valid[i] {
			h.State = reserver.Finishing
			m.Holds.Saw(h, now)
			m.Batch.Mark(t.Slot, t.Sequence)
			list = append(list, journal.Completed{Seq: h.Seq, Index: t.Index, Epoch: t.Epoch, Sequence: t.Sequence,
				Output: items[i].Output != nil})
			dst = append(dst, queue.Result{})
			continue
		}
		r, slot, s := m.Tokens.Resolve(t)
		switch s {
		case Holder:
			m.Mark(slot)
			m.Holds.Saw(m.Holds.At(slot), now)
		case free, waiting, onShelf:
			var ok bool
			if slot, ok = m.Tokens.claim(r, t, s, now); !ok {
				dst = append(dst, tooManyLate)
				continue
			}
			m.Batch.Mark(slot, t.Sequence)
		default:
			dst = append(dst, Answer(s))
			continue
		}
		list = append(list, journal.Completed{Seq: r.Seq, Index: t.Index, Epoch: t.Epoch, Sequence: t.Sequence,
			Output: items[i].Output != nil})
		dst = append(dst, queue.Result{})
	}
	return dst, list
}

// Revoked tells a consumer that is attached that a reservation of its was taken.
func (m *Machine) Revoked(id queue.SubmissionID, slot uint32, why queue.RevokeReason) {
	if m.Roster.Attached == 0 {
		return
	}
	h := m.Holds.At(slot)
	c := m.Roster.ByName[m.Holds.Consumer(h)]
	if c == nil || len(c.Streams) == 0 {
		return
	}
	t := queue.Token{Submission: id, Index: h.Index, Epoch: h.Epoch, Sequence: h.Sequence, Slot: slot}
	t.MAC = m.Tokens.key.MAC(&t)
	m.Roster.Revoked++
	for _, a := range c.Streams {
		a.Revoke(queue.Revoked{Token: t, Why: why})
	}
}
