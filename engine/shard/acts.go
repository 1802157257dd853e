package shard

import (
	"context"
	"fmt"
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// This file is the queue's part of the audit log. An act stands in the batch of what it tells of, so that the log has it if and only if
// it took effect. Until a checkpoint hands it to the log it is kept here, and the journal keeps it too.

// actLog is what the audit log does not have yet of the queue.
type actLog struct {
	m     *machine
	last  uint64 // the largest number given out
	fresh []journal.Act
}

// tell encodes what an operator does, in the batch of the op that does it, with what was there before and what is there now; nil for
// nothing. The commands take the act as their last argument; without one it is the engine's own doing, which is not acts.
func (p *actLog) tell(now queue.Time, acts []queue.Act, before, after any) {
	for _, act := range acts {
		act.At = now
		act.Change(before, after)
		p.last++
		p.m.encode(now).Act(&journal.Act{Number: p.last, Act: act})
	}
}

// apply keeps an entry until the log has it. A replay may meet entries that the log has already; it takes each number once.
func (p *actLog) apply(a *journal.Act) error {
	p.last = max(p.last, a.Number)
	p.fresh = append(p.fresh, *a)
	return nil
}

// Acts are the entries of the audit log that lie in a shard's journal.
type Acts struct{ s *Shard }

// Record makes an entry of the audit log durable by itself, for acts that change only what memory has.
func (p *Acts) Record(act queue.Act) error {
	s := p.s
	now := s.now()
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return err
	}
	s.m.actLog.tell(now, []queue.Act{act}, nil, nil)
	waits := commits{first: s.m.batch}
	s.mu.Unlock()
	return s.writer.wait(waits)
}

// Fresh are the entries that the audit log does not have yet, the oldest first. The list must not be changed.
func (p *Acts) Fresh() []journal.Act {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clip(s.m.actLog.fresh)
}

// acts hands what is not in the audit log yet over to it.
func (p *checkpointer) acts(ctx context.Context, m *machine) error {
	s := p.s
	fresh := s.Acts.Fresh()
	if len(fresh) == 0 || s.options.Acts == nil {
		return nil
	}
	if err := s.disk.roomy(func() error { return s.options.Acts(ctx, fresh) }); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == m { // else a reload has them again, and the log takes each once
		m.actLog.fresh = slices.Clone(m.actLog.fresh[len(fresh):])
	}
	return nil
}

// aimed is the act with a target that was drawn just now.
func aimed(acts []queue.Act, target string) []queue.Act {
	return edited(acts, func(a *queue.Act) { a.Target = target })
}

// named is the act with another action: what was asked for as a creation turned out to be a change.
func named(acts []queue.Act, action string) []queue.Act {
	return edited(acts, func(a *queue.Act) { a.Action = action })
}

func edited(acts []queue.Act, edit func(*queue.Act)) []queue.Act {
	acts = slices.Clone(acts)
	for i := range acts {
		edit(&acts[i])
	}
	return acts
}

// tellRule is tell for a change of a rule: there says whether it stood before, after is nil when it is lifted.
func (p *actLog) tellRule(now queue.Time, acts []queue.Act, there bool, before, after *queue.Rule) {
	var was, is any
	id := before.ID
	if there {
		was = ruleState(before)
	}
	if after != nil {
		is, id = ruleState(after), after.ID
		if there {
			acts = named(acts, "rule.change")
		}
	}
	p.tell(now, aimed(acts, fmt.Sprintf("rule %d", id)), was, is)
}

// ruleState is what the audit log says of a rule, with the names of the HTTP API.
func ruleState(r *queue.Rule) map[string]any {
	state := map[string]any{"action": r.Action.String(), "match": r.Match.String()}
	if r.Reason != "" {
		state["reason"] = r.Reason
	}
	if r.Until != 0 {
		state["until"] = r.Until.Std().UTC()
	}
	if r.Insert || r.Revoke {
		state["effects"] = map[string]bool{"insert": r.Insert, "revoke": r.Revoke}
	}
	return state
}
