package backlog

import (
	"github.com/quern-queue/quern/engine/fair"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// Set changes what an operator demands of one value of a key, from the next Take on: queue.NoSettings() removes it. The
// value may be unknown yet. It costs a step for each gate that the value has in a view.
//
// Nothing is looked for that a new limit holds back: a pick that meets such a submission moves it behind the value's gate.
func (x *terms) Set(key queue.MetaKey, value queue.MetaValue, s queue.ValueSettings) {
	entry := queue.MetaEntry{Key: key, Value: value}
	before, limit := x.Settings(key, value), x.limitOf(entry)
	if s == queue.NoSettings() {
		delete(x.settings, entry)
	} else {
		x.settings[entry] = s
	}
	x.relimited(entry, limit)
	if before.Weight != s.Weight {
		x.of.Ledgers.reweight(key, value, weightOf(s))
	}
}

// limitOf is how many chunks of a value may be in flight, whatever strategy asks: what an operator set, and nothing under a rule.
func (x *terms) limitOf(entry queue.MetaEntry) uint32 {
	if len(x.of.Rules.values) > 0 && x.of.Rules.values[entry] != queue.Unruled {
		return 0
	}
	return x.Settings(entry.Key, entry.Value).Limit
}

// relimited is for a value whose limitOf may have changed: it was before.
func (x *terms) relimited(entry queue.MetaEntry, before uint32) {
	after := x.limitOf(entry)
	if before == after {
		return
	}
	if before != queue.NoLimit {
		x.limited--
	}
	if after != queue.NoLimit {
		x.limited++
	}
	if t := x.find(entry.Key, entry.Value); t != nil {
		x.relimit(t, after)
	}
}

// Settings are what Set set last for the value.
func (x *terms) Settings(key queue.MetaKey, value queue.MetaValue) queue.ValueSettings {
	if len(x.settings) > 0 {
		if s, set := x.settings[queue.MetaEntry{Key: key, Value: value}]; set {
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
func (x *terms) find(key queue.MetaKey, value queue.MetaValue) *term {
	if k := x.keys[key]; k != nil {
		return k.byValue[value]
	}
	return nil
}

// SetPriority changes the priority of a submission: views of order CustomPriority give it its new place at once.
func (b *Backlog) SetPriority(s *Submission, priority int64) {
	if s.home == nil {
		return
	}
	s.priority = priority
	for _, m := range s.members {
		if f := b.Views.frames[m.frame]; f.order == strategy.CustomPriority {
			f.rerank(m)
		}
	}
}
