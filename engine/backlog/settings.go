package backlog

import (
	"slices"

	"github.com/quern-queue/quern/engine/fair"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// Set changes an operator's settings for one value of a key, from the next Take on: queue.NoSettings()
// removes them. The value may be unknown yet. It costs a step for each gate that the value has in a
// view.
//
// Set does not look for submissions that a new limit holds back: a pick that meets one moves it behind
// the value's gate.
func (v *values) Set(key queue.MetaKey, value queue.MetaValue, s queue.ValueSettings) {
	entry := queue.MetaEntry{Key: key, Value: value}
	before, limit := v.Settings(key, value), v.ownLimit(entry)
	if s == queue.NoSettings() {
		delete(v.settings, entry)
	} else {
		v.settings[entry] = s
	}
	v.relimited(entry, limit)
	after := v.Settings(key, value)
	if before.Weight != after.Weight {
		v.bases.reweight(key, value, weightOf(after))
	}
	if t := v.find(key, value); t != nil && before.Rate != after.Rate {
		v.repace(t)
	}
}

// SetDefault changes an operator's settings for all values of a key that Set gave none, from the next
// Take on: queue.NoSettings() removes them. It costs a step for each value in use.
func (v *values) SetDefault(key queue.MetaKey, s queue.ValueSettings) {
	before := v.Default(key)
	if s == queue.NoSettings() {
		delete(v.defaults, key)
	} else {
		v.defaults[key] = s
	}
	v.countLimit(before.Limit, s.Limit)
	k := v.keys[key]
	if k == nil {
		return
	}
	for _, t := range k.terms {
		if limit := v.limitOf(queue.MetaEntry{Key: key, Value: t.value}); limit != t.limit() {
			v.relimit(tally{t, strategy.Simultaneous}, limit)
		}
		if before.Weight != s.Weight {
			v.bases.reweight(key, t.value, weightOf(v.Settings(key, t.value)))
		}
	}
	if before.Rate != s.Rate {
		for _, t := range slices.Clone(k.terms) { // one that owes nothing any more may go
			v.repace(t)
		}
	}
}

// limitOf is how many chunks of a value may be in flight, whatever strategy asks: the operator's
// number, or 0 under a rule.
func (v *values) limitOf(entry queue.MetaEntry) uint32 {
	limit := v.ownLimit(entry)
	if limit == queue.NoLimit {
		return v.Default(entry.Key).Limit
	}
	return limit
}

// ownLimit is limitOf without the default of the key.
func (v *values) ownLimit(entry queue.MetaEntry) uint32 {
	if len(v.rules.ofValues) > 0 && v.rules.ofValues[entry] != queue.Unruled {
		return 0
	}
	return v.Own(entry).Limit
}

// relimited is called when the ownLimit of a value may have changed from `before`.
func (v *values) relimited(entry queue.MetaEntry, before uint32) {
	after := v.ownLimit(entry)
	if before == after {
		return
	}
	v.countLimit(before, after)
	if t := v.find(entry.Key, entry.Value); t != nil {
		v.relimit(tally{t, strategy.Simultaneous}, v.limitOf(entry))
	}
}

// countLimit keeps the number of limits when one changes.
func (v *values) countLimit(before, after uint32) {
	if before != queue.NoLimit {
		v.limited--
	}
	if after != queue.NoLimit {
		v.limited++
	}
}

// Settings are the settings in effect for the value: those of the last Set, and else the default.
func (v *values) Settings(key queue.MetaKey, value queue.MetaValue) queue.ValueSettings {
	return v.Own(queue.MetaEntry{Key: key, Value: value}).Or(v.Default(key))
}

// Own is the settings of the last Set of the value.
func (v *values) Own(entry queue.MetaEntry) queue.ValueSettings {
	if len(v.settings) > 0 {
		if s, set := v.settings[entry]; set {
			return s
		}
	}
	return queue.NoSettings()
}

// Default is the settings of the last SetDefault for the key.
func (v *values) Default(key queue.MetaKey) queue.ValueSettings {
	if len(v.defaults) > 0 {
		if s, set := v.defaults[key]; set {
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
		if on := b.bases.list[m.base]; on.order == strategy.CustomPriority {
			on.rerank(m)
		}
	}
}
