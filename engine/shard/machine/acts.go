package machine

import (
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// This file is the queue's part of the audit log. An act is in the batch of its change, so that the log has it if and
// only if the change took effect. Until a checkpoint hands it to the log, it is kept here, and in the journal too.

// actLog has the queue's acts that the audit log does not have yet.
type actLog struct {
	encode func(now queue.Time) *journal.Encoder // of the open batch
	Last   uint64                                // the largest number given out
	Fresh  []journal.Act
}

// Tell encodes an operator's acts, in the batch of the op that they are about, with the state before and after; nil for
// none. Commands take the acts as their last argument; without one the engine itself acts, which the log does not have.
func (p *actLog) Tell(now queue.Time, acts []queue.Act, before, after any) {
	for _, act := range acts {
		act.At = now
		act.Change(before, after)
		p.Last++
		p.encode(now).Act(&journal.Act{Number: p.Last, Act: act})
	}
}

// apply keeps an entry until the log has it. A replay may meet entries that the log already has; the log takes each
// number once.
func (p *actLog) apply(a *journal.Act) error {
	p.Last = max(p.Last, a.Number)
	p.Fresh = append(p.Fresh, *a)
	return nil
}

// Aimed returns the acts with a target that was just drawn.
func Aimed(acts []queue.Act, target string) []queue.Act {
	return edited(acts, func(a *queue.Act) { a.Target = target })
}

// Named returns the act with another action, for a creation that turned out to be a change.
func Named(acts []queue.Act, action string) []queue.Act {
	return edited(acts, func(a *queue.Act) { a.Action = action })
}

func edited(acts []queue.Act, edit func(*queue.Act)) []queue.Act {
	acts = slices.Clone(acts)
	for i := range acts {
		edit(&acts[i])
	}
	return acts
}
