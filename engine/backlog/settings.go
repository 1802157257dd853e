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
	before := b.ValueSettings(key, value)
	entry := queue.MetaEntry{Key: key, Value: value}
	if s == queue.NoSettings() {
		delete(b.settings, entry)
	} else {
		b.settings[entry] = s
	}
	if before.Limit != queue.NoLimit {
		b.limited--
	}
	if s.Limit != queue.NoLimit {
		b.limited++
	}
	if before.Limit != s.Limit {
		if t := b.termOf(key, value); t != nil {
			b.relimit(t, s.Limit)
		}
	}
	if before.Weight != s.Weight {
		b.reweight(key, value, weightOf(s))
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
		if v := b.views[m.view]; v.order == strategy.CustomPriority {
			v.rerank(m)
		}
	}
}
