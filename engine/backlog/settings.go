package backlog

import (
	"github.com/quern-queue/quern/engine/fair"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// SetValue changes what an operator demands of one value of a key, from the next Take on: queue.NoSettings() removes it. The
// value may be unknown yet. It costs a step for each gate that the value has in a view.
//
// Nothing is looked for that a new limit holds back: a pick that meets such a submission moves it behind the value's gate.
func (b *Backlog) SetValue(key queue.MetaKey, value queue.MetaValue, s queue.ValueSettings) {
	entry := queue.MetaEntry{Key: key, Value: value}
	before, limit := b.ValueSettings(key, value), b.limitOf(entry)
	if s == queue.NoSettings() {
		delete(b.settings, entry)
	} else {
		b.settings[entry] = s
	}
	b.relimited(entry, limit)
	if before.Weight != s.Weight {
		b.reweight(key, value, weightOf(s))
	}
}

// limitOf is how many chunks of a value may be in flight, whatever strategy asks: what an operator set, and nothing under a rule.
func (b *Backlog) limitOf(entry queue.MetaEntry) uint32 {
	if len(b.ruled.values) > 0 && b.ruled.values[entry] != queue.Unruled {
		return 0
	}
	return b.ValueSettings(entry.Key, entry.Value).Limit
}

// relimited is for a value whose limitOf may have changed: it was before.
func (b *Backlog) relimited(entry queue.MetaEntry, before uint32) {
	after := b.limitOf(entry)
	if before == after {
		return
	}
	if before != queue.NoLimit {
		b.limited--
	}
	if after != queue.NoLimit {
		b.limited++
	}
	if t := b.termOf(entry.Key, entry.Value); t != nil {
		b.relimit(t, after)
	}
}

// ValueSettings are what SetValue set last for the value.
func (b *Backlog) ValueSettings(key queue.MetaKey, value queue.MetaValue) queue.ValueSettings {
	if len(b.settings) > 0 {
		if s, set := b.settings[queue.MetaEntry{Key: key, Value: value}]; set {
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

// termOf is the term of a key and value; nil when nothing uses it.
func (b *Backlog) termOf(key queue.MetaKey, value queue.MetaValue) *term {
	if k := b.keys[key]; k != nil {
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
		if f := b.frames[m.frame]; f.order == strategy.CustomPriority {
			f.rerank(m)
		}
	}
}
