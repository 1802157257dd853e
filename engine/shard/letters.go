package shard

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// This file keeps what the machine knows of dead letters: dead chunks of open submissions, and of those that completed with
// dead ones.

// deadLetters is the part of the machine that knows the dead letters.
type deadLetters struct {
	m       *machine
	index   *ordered                      // the submissions that have some, open or not yet in the history, by id
	ofEnded map[queue.SubmissionID]uint32 // how many the ended ones have
	groups  *letterGroups                 // all by what went wrong; during a replay nothing
	moving  map[uint32]*moving            // by seq: the submissions with ops on their way to the disk about what is dead in them
}

func newDeadLetters(m *machine) deadLetters {
	return deadLetters{m: m, index: &ordered{}, ofEnded: map[queue.SubmissionID]uint32{},
		groups: newLetterGroups(maxLetterGroups), moving: map[uint32]*moving{}}
}

// died notes that a chunk of an open submission is dead, or (delta -1) no longer.
func (p *deadLetters) died(r *record, index uint32, delta int) {
	p.count(r, index, delta)
	if p.m.replay {
		return // settle groups the letters
	}
	switch t := r.tries[index]; {
	case delta < 0:
		p.groups.remove(r.id, queue.Fingerprint(t.err), t.died())
	default:
		p.groups.add(r.id, queue.Fingerprint(t.err), t.err, t.died())
	}
}

func (p *deadLetters) count(r *record, index uint32, delta int) {
	m := p.m
	m.changing(r)
	r.dead += uint32(delta)
	m.recount.tallied(r, r.tries[index]).dead += uint32(delta)
	m.stats.dead += uint64(delta)
	if delta < 0 {
		r.deads.remove(index)
		if r.dead == 0 {
			p.index.remove(r)
		}
		return
	}
	if r.deads == nil {
		r.deads = &indexes{}
	}
	r.deads.add(index)
	if r.dead == 1 {
		p.index.add(r)
	}
}

// reindex finds the dead chunks of a submission that is open again, or was when the shard closed. They are in their
// groups already, or will be.
func (p *deadLetters) reindex(r *record) {
	r.dead = 0
	for index, t := range r.tries {
		if t.reason == journal.Dead {
			p.count(r, index, 1)
		}
	}
}

// ended counts the dead chunks of a submission that ends. Only those of one that completed can be redriven.
func (p *deadLetters) ended(r *record, state queue.SubmissionState) {
	p.m.stats.dead -= uint64(r.dead)
	if state == queue.CompletedWithDead {
		p.keep(r.id, r.dead)
		return
	}
	p.index.remove(r)
	if r.dead > 0 && !p.m.replay {
		p.groups.drop(r.id, r.dead)
	}
}

// keep notes how many dead letters an ended submission has.
func (p *deadLetters) keep(id queue.SubmissionID, letters uint32) {
	p.m.stats.endedLetters += uint64(letters) - uint64(p.ofEnded[id])
	if letters == 0 {
		delete(p.ofEnded, id)
		return
	}
	p.ofEnded[id] = letters
}

// deleted gives a dead chunk up for good. Anything else that comes for a chunk that is gone is late, and changes nothing.
func (p *deadLetters) deleted(r *record, index uint32, t *try, reason journal.ReturnReason) {
	if reason != journal.Skipped || t.reason != journal.Dead {
		return
	}
	t.reason = journal.Skipped
	p.giveUp(r, index)
	p.m.touch(r)
}

// applyRedrive offers dead chunks again, and opens their submission if it has ended with dead ones.
func (p *deadLetters) applyRedrive(op journal.Redrive) error {
	m := p.m
	r := m.liveSeq(op.Seq)
	switch {
	case r == nil:
		row, known, err := p.endedFor(op.Seq, p.idOf(op.Seq))
		if row == nil || err != nil || m.younger(known) || row.State != queue.CompletedWithDead {
			return err
		}
		if r, err = p.reopen(row); err != nil {
			return err
		}
	case m.replay && m.applied <= r.applied && !r.dirty:
		return nil
	}
	for _, index := range op.Indexes {
		t := r.tries[index]
		if t == nil || t.reason != journal.Dead {
			continue
		}
		t.reason, t.attempts, t.expiries, t.notBefore = journal.Redriven, 0, 0, 0
		t.redrives++
		p.died(r, index, -1)
		m.putBack(r, index)
	}
	m.touch(r)
	if r.over() {
		m.finish(r) // nothing of it was dead any more
	}
	return nil
}

// reopen brings an ended submission back, from what endedFor found.
func (p *deadLetters) reopen(row *store.Ended) (*record, error) {
	m := p.m
	state, err := finalState(row.Final)
	if err != nil {
		return nil, err
	}
	if old := m.ended[row.ID]; old != nil { // its row is not to be written any more
		old.replaced = true
		m.rowed(old)
		m.order.remove(old)
		p.index.remove(old)
		delete(m.ended, row.ID)
	}
	r, err := m.restored(row.Spec, state)
	if err != nil {
		return nil, err
	}
	p.keep(r.id, 0)
	r.reopened = true
	m.opened++
	m.stats.completed += uint64(r.done)
	m.stats.skipped += uint64(r.skips)
	p.reindex(r)
	if !m.replay {
		m.expires(r)
		m.backlog.Settle(r.sub)
		m.show(r)
	}
	return r, nil
}

// idOf finds the id of a submission that has ended, when it is in memory; 0: it is not.
func (p *deadLetters) idOf(seq uint32) queue.SubmissionID {
	m := p.m
	if !m.replay {
		return 0 // moving knows it
	}
	for _, r := range m.gone {
		if r.seq == seq && m.ended[r.id] == r {
			return r.id
		}
	}
	return 0
}

// rowed notes that the history has no older row of this record any more.
func (m *machine) rowed(r *record) {
	if r.reopened {
		r.reopened = false
		m.opened--
	}
}

// expires has the submission end at its dead deadline.
func (m *machine) expires(r *record) {
	if at := r.details().deadDeadline; at != 0 {
		m.lifecycle.schedule(KindDeadDeadline, due{at: at, seq: r.seq})
	}
}

// intended counts what intents have left.
func (p *deadLetters) intended(count func(what string, n int)) {
	count("submissions with moving dead letters", len(p.moving))
}
