package backlog

import (
	"github.com/quern-queue/quern/engine/fair"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// Set changes what an operator demands of one value of a key, from the next Take on: queue.NoSettings()
// removes it. The value may be unknown yet. It costs a step for each gate that the value has in a view.
//
// Nothing is looked for that a new limit holds back: a pick that meets such a submission
// moves it behind the value's gate.
func (v *values) Set(key queue.MetaKey, value queue.MetaValue, s queue.ValueSettings) {
	entry := queue.MetaEntry{Key: key, Value: value}
	before, limit := v.Settings(key, value), v.limitOf(entry)
	if s == queue.NoSettings() {
		delete(v.settings, entry)
	} else {
		v.settings[entry] = s
	}
	v.relimited(entry, limit)
	if before.Weight != s.Weight {
		v.frames.reweight(key, value, weightOf(s))
	}
}

// limitOf is how many chunks of a value may be in flight, whatever strategy asks: what an
// operator set, and nothing under a rule.
func (v *values) limitOf(entry queue.MetaEntry) uint32 {
	if len(v.rules.ofValues) > 0 && v.rules.ofValues[entry] != queue.Unruled {
		return 0
	}
	return v.Settings(entry.Key, entry.Value).Limit
}

// relimited is for a value whose limitOf may have changed: it was before.
func (v *values) relimited(entry queue.MetaEntry, before uint32) {
	after := v.limitOf(entry)
	if before == after {
		return
	}
	if before != queue.NoLimit {
		v.limited--
	}
	if after != queue.NoLimit {
		v.limited++
	}
	if t := v.find(entry.Key, entry.Value); t != nil {
		v.relimit(tally{t, strategy.Simultaneous}, after)
	}
}

// Settings are what Set set last for the value.
func (v *values) Settings(key queue.MetaKey, value queue.MetaValue) queue.ValueSettings {
	if len(v.settings) > 0 {
		if s, set := v.settings[queue.MetaEntry{Key: key, Value: value}]; set {
			return s
		}
	}
	return queue.NoSettings()
}

func weightOf(s queue.ValueSettings) fair.Weight {
	if s.Weight == 0 {
		return fair.DefaultWeight
	}
	return fair.Weight(s.Weight)
}

// find is the term of a key and value; nil when nothing uses it.
func (v *values) find(key queue.MetaKey, value queue.MetaValue) *term {
	if k := v.keys[key]; k != nil {
		return k.byValue[value]
	}
	return nil
}

// SetPriority changes the priority of a submission: views of order CustomPriority give it
// its new place at once.
func (b *Backlog) SetPriority(s *Submission, priority int64) {
	if s.home == nil {
		return
	}
	s.priority = priority
	for _, m := range s.members {
		if f := b.frames.list[m.frame]; f.order == strategy.CustomPriority {
			f.rerank(m)
		}
	}
}
