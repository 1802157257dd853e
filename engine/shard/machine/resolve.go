package machine

// How each call responds to a token. Tokens come back at any time: after their deadline, after a restart, twice, or
// forged. Resolve answers from memory alone. It looks, in the order of likelihood, at the slot that the token names,
// the reservation of its chunk, the state of its chunk, the last completions (recent), and the ended submissions.
//
//	valid MAC? ─ no ─► unknown
//	slot hint fits ─► held ─► Holder, busy or Ended
//	no live submission ─► already, Ended, Lost, or absent: the caller asks the history
//	held under another token ─► Lost
//	ready ─► free       shelved ─► onShelf       waits after this very token ─► waiting       dead ─► Ended
//	completed by this token, as far as is remembered ─► already       else ─► Lost
//
// Each standing is a row of the table in docs/GUARANTEES.md. TestWhatATokenIsWorth goes through all
// of them.

import (
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// standing says how calls respond to a token now: the left column of the table of tokens in docs/GUARANTEES.md.
type standing uint8

const (
	Holder  standing = iota // it holds the chunk
	free                    // no one does, the chunk is ready, and the token is one of ours for it
	waiting                 // the chunk waits since this token's deadline, or the loss or release by its consumer
	onShelf                 // the chunk is due, but held back as a suspect: as if it were ready
	busy                    // this very token's completion or failure is on its way to the disk
	already                 // this very token completed the chunk
	Lost                    // another token holds the chunk or completed it, or its next try waits
	Ended                   // the submission has ended
	unknown                 // no such chunk, or not a token of this server
	absent                  // no such submission in memory: the history has to be asked
)

// tokens is the part of the machine that decides how calls respond to a token, and remembers which
// ones completed chunks.
type tokens struct {
	m      *Machine
	key    reserver.Key
	Recent recent
}

// Resolve finds the standing of a token, and the record and slot of its chunk.
func (p *tokens) Resolve(t *queue.Token) (*Record, uint32, standing) {
	m := p.m
	if !p.key.Valid(t) || t.Epoch > m.Epoch {
		return nil, 0, unknown
	}
	if h := m.Holds.At(t.Slot); h != nil && h.Sequence == t.Sequence && h.Epoch == t.Epoch && h.Index == t.Index {
		if r := m.LiveSeq(h.Seq); r != nil && r.ID == t.Submission {
			return r, t.Slot, heldStanding(r, h)
		}
	}
	r := m.Live(t.Submission)
	if r == nil {
		return p.endedStanding(t)
	}
	if t.Index >= r.Chunks {
		return r, 0, unknown
	}
	if slot, held := m.Holds.Find(r.Seq, t.Index); held {
		if h := m.Holds.At(slot); h.Sequence == t.Sequence && h.Epoch == t.Epoch {
			return r, slot, heldStanding(r, h)
		}
		return r, slot, Lost
	}
	if r.Ending {
		return r, 0, Ended
	}
	if r.Sub.IsAvailable(t.Index) {
		return r, 0, free
	}
	tried := r.Tries[t.Index]
	switch {
	case tried != nil && tried.Suspect == Shelved:
		return r, 0, onShelf
	case tried != nil && tried.Waiting && tried.over() && tried.of(t):
		return r, 0, waiting
	case tried != nil && tried.Gone():
		return r, 0, Ended
	case p.Recent.by(t):
		return r, 0, already
	}
	return r, 0, Lost
}

// Completes reports whether a token can complete its chunk now, and if not, the answer to the
// call.
func (p *tokens) Completes(t *queue.Token) (queue.Result, bool) {
	switch _, _, s := p.Resolve(t); s {
	case Holder, free, waiting, onShelf:
		return queue.Result{}, true
	default:
		return Answer(s), false
	}
}

// OfPick finds the reservation of a pick, and its standing now.
func (p *tokens) OfPick(pick *Pick) (*Record, uint32, standing) {
	t := pick.Token
	t.MAC = p.key.MAC(&t)
	return p.Resolve(&t)
}

// held is the reservation that a token holds now and may finish, in the common case: the slot hint is right. Sequence
// and epoch are given out once, and the MAC binds them to the chunk, so only the table has to be looked at. nil decides
// nothing: Resolve knows all cases. The caller checks the signature itself, outside of the mutex.
func (m *Machine) held(t *queue.Token) *reserver.Hold {
	if m.Endings.Closing > 0 || len(m.Orphans.List) > 0 {
		return nil // it may be of a submission that ends or has ended
	}
	h := m.Holds.At(t.Slot)
	if h == nil || h.Sequence != t.Sequence || h.Epoch != t.Epoch || h.Index != t.Index {
		return nil
	}
	if h.State != reserver.Held && h.State != reserver.Expiring {
		return nil
	}
	return h
}

func heldStanding(r *Record, h *reserver.Hold) standing {
	switch {
	case h.State == reserver.Finishing:
		return busy
	case r.Ending || h.State == reserver.Dying:
		return Ended
	}
	return Holder
}

func (p *tokens) endedStanding(t *queue.Token) (*Record, uint32, standing) {
	r := p.m.Endings.ByID[t.Submission]
	switch {
	case p.Recent.by(t):
		return r, 0, already
	case r == nil:
		return nil, 0, absent
	case t.Index >= r.Chunks:
		return r, 0, unknown
	case r.State == queue.Completed && r.Skips == 0:
		return r, 0, Lost
	}
	return r, 0, Ended
}

// Answer is the result for a call that a token does not allow.
func Answer(s standing) queue.Result {
	switch s {
	case already, busy:
		return queue.Result{Outcome: queue.OutcomeAlready}
	case Ended:
		return queue.Result{Outcome: queue.OutcomeGone, Code: "submission_ended",
			Detail: "the submission ended (cancelled or failed), or the chunk is out of attempts or " +
				"cancelled: drop this work"}
	case unknown:
		return queue.Result{Outcome: queue.OutcomeUnknown, Code: "unknown_token",
			Detail: "this is not a token of this server for a chunk that exists"}
	case absent:
		return queue.Result{Outcome: queue.OutcomeUnknown, Code: "unknown_submission",
			Detail: "the submission is not known, or aged out of the history"}
	}
	return queue.Result{Outcome: queue.OutcomeLost, Code: "reservation_lost",
		Detail: "the reservation ended and another one holds or finished the chunk: drop this work"}
}

var tooManyLate = queue.Result{Outcome: queue.OutcomeLost, Code: "too_many_late",
	Detail: "too many chunks of this submission were finished without a reservation: this one will be offered again"}

// claim makes an unheld chunk Finishing under an old token, without counting it in flight: a
// completion or failure that comes late. false: the submission has too many such chunks already.
func (p *tokens) claim(r *Record, t *queue.Token, s standing, now queue.Time) (slot uint32, ok bool) {
	m := p.m
	if s == free && m.Withdraw(r, t.Index, true) != takenNow {
		return 0, false
	}
	m.Counting.Changing(r)
	return m.Holds.Add(&r.Holds, reserver.Hold{
		Sequence: t.Sequence, Epoch: t.Epoch, Seq: r.Seq, Index: t.Index, State: reserver.Finishing,
		Reserved: now, Deadline: now,
	}, ""), true
}

// Abandon undoes a Finishing, Expiring or Dying mark after its commit failed.
//
// Counted reservations become held again, with the deadline that they had. A reservation that claim made for a late
// completion was never counted: it is removed, and its chunk is offered again or waits as before.
func (m *Machine) Abandon(slot uint32, sequence uint64) {
	h := m.Holds.At(slot)
	if h == nil || h.Sequence != sequence || h.State == reserver.Held {
		return
	}
	if h.Counted {
		h.State = reserver.Held
		m.Holds.Extend(slot, h.Deadline)
		return
	}
	r, index := m.LiveSeq(h.Seq), h.Index
	if r == nil {
		return // ended since: sweep comes to it
	}
	m.drop(r, slot)
	if t := r.Tries[index]; t != nil && t.Waiting {
		// the worker may have met it while it was held
		m.Lifecycle.Schedule(KindRetry, Due{At: t.NotBefore, Seq: r.Seq, index: index})
		return
	}
	m.PutBack(r, index)
}
