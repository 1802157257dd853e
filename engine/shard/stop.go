package shard

import (
	"context"
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// This file is what makes a planned restart invisible to consumers: a shard that is closed in order writes what is held at the end of
// its journal, and the next start takes it up again, each reservation with the time that was left to it. The epoch that the start then
// writes ends it: should that life be killed, what it handed out is known to no one, and the restart grace is there for it.

// stops is the part of the machine that has what was held when the shard was closed, while it starts.
type stops struct {
	m       *machine
	inOrder bool // the life before ended so, and held is all of it
	at      queue.Time
	held    []*journal.Held
}

func (p *stops) apply(op *journal.Held) error {
	if len(op.Chunks) == 0 {
		p.inOrder = true
		return nil
	}
	p.at, p.held = p.m.now, append(p.held, op)
	return nil
}

// began is for a new life.
func (p *stops) began() { *p = stops{m: p.m} }

// resume holds again what was held. It is called when the replay is through, before anything is offered.
func (p *stops) resume(now queue.Time) {
	m := p.m
	var missed []string
	for _, op := range p.held {
		for i := range op.Chunks {
			c := &op.Chunks[i]
			r := m.liveSeq(c.Seq)
			if r == nil || c.Index >= r.chunks {
				continue
			}
			p.retake(r, reserver.Hold{
				Sequence: c.Sequence, Epoch: c.Epoch, Seq: c.Seq, Index: c.Index, Attempt: r.attempt(c.Index), Counted: true,
				Reserved: c.Reserved, Deadline: now.Add(c.Deadline.Sub(p.at)),
			}, op.Consumer, op.Seen)
		}
		if op.Attached {
			missed = append(missed, op.Consumer)
		}
	}
	slices.Sort(missed)
	for _, name := range missed {
		m.roster.miss(name, now)
	}
}

// retake has a chunk be held as it was before the machine was made, unless it is done.
func (p *stops) retake(r *record, h reserver.Hold, consumer string, seen queue.Time) {
	m := p.m
	t := r.tries[h.Index]
	if t != nil && t.waiting { // promotions are not in the journal
		m.undelay(r, h.Index, t)
		m.backlog.PutBack(r.sub, h.Index)
	}
	if !m.backlog.Retake(r.sub, h.Index) {
		return
	}
	if t != nil && m.suspects.suspicious(t.reason) {
		m.suspects.lends(r, t, h.Reserved)
	}
	m.holds.Saw(m.holds.At(m.holds.Add(&r.holds, h, consumer)), seen)
}

// eachHeld tells what each consumer holds, in ops that are good during the call only. What was on its way to the disk is not any more: what
// of it came through holds nothing, and the rest is held as before.
func (p *stops) eachHeld(tell func(*journal.Held)) {
	m := p.m
	for from, more := 0, true; more; more = from != 0 {
		from = m.holds.Consumers(from, lookMost, func(of reserver.Holding) {
			op := &journal.Held{Consumer: of.Name, Attached: m.roster.keepsStream(of.Name), Seen: of.Seen}
			m.holds.HeldBy(of.Name, reserver.Place{}, func(_ reserver.Place, h *reserver.Hold) bool {
				if !h.Counted || m.liveSeq(h.Seq) == nil {
					return true
				}
				if len(op.Chunks) == journal.MaxHeld {
					tell(op)
					op.Chunks = op.Chunks[:0]
				}
				op.Chunks = append(op.Chunks, journal.HeldChunk{Seq: h.Seq, Index: h.Index, Epoch: h.Epoch,
					Sequence: h.Sequence, Reserved: h.Reserved, Deadline: h.Deadline})
				return true
			})
			if len(op.Chunks) > 0 {
				tell(op)
			}
		})
	}
}

// heldBatch is about how many bytes of what is held go into one batch.
const heldBatch = 8 << 20

// leaveHeld is the last thing that is written to the journal of a shard that is closed in order. Should it fail, the next start knows as
// much as after a kill.
func (s *Shard) leaveHeld() {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.m
	if s.broken != nil || s.lost != nil || (m.holds.Len() == 0 && m.settings.RestartGrace == 0) {
		return
	}
	var (
		enc journal.Encoder
		err error
		now = s.now()
		end = m.applied
	)
	flush := func() {
		if err == nil {
			end, err = s.journal.Append(context.Background(), end, enc.Bytes())
		}
		enc.Reset(m.epoch, now)
	}
	enc.Reset(m.epoch, now)
	m.stops.eachHeld(func(op *journal.Held) {
		if enc.Held(op); len(enc.Bytes()) > heldBatch {
			flush()
		}
	})
	enc.Held(&journal.Held{}) // that is all
	flush()
	if err != nil {
		s.options.Logger.Warn("what consumers hold could not be written: the next start offers it again, after the restart grace "+
			"where there is one", "queue", s.options.Queue, "held", m.holds.Len(), "error", err)
	}
}
