package backlog

import "github.com/quern-queue/quern/engine/queue"

// SetValue changes what an operator demands of one value of a key, from the next Take on: queue.NoSettings() removes it.
// The value may be unknown yet.
func (b *Backlog) SetValue(key queue.MetaKey, value queue.MetaValue, s queue.ValueSettings) {
	entry := queue.MetaEntry{Key: key, Value: value}
	if s == queue.NoSettings() {
		delete(b.settings, entry)
		return
	}
	b.settings[entry] = s
}

// ValueSettings are what SetValue set last for the value.
func (b *Backlog) ValueSettings(key queue.MetaKey, value queue.MetaValue) queue.ValueSettings {
	if s, set := b.settings[queue.MetaEntry{Key: key, Value: value}]; set {
		return s
	}
	return queue.NoSettings()
}
