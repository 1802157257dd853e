package simtest

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// putSettings has an operator give the queue other settings.
func (b *box) putSettings(settings queue.Settings) error {
	return b.shard.Settings.Put(&journal.Set{Kind: journal.SetQueue, Changed: b.clock.now(), Settings: settings.Row()}, nil, nil)
}

// putValue has an operator set something for a value, or take it back.
func (b *box) putValue(entry queue.MetaEntry, demand queue.ValueSettings) error {
	set := journal.Set{Kind: journal.SetValue, Changed: b.clock.now(), Entry: entry, Demand: demand}
	if demand != queue.NoSettings() {
		set.Version = 1
	}
	return b.shard.Settings.Put(&set, nil, nil)
}

// putDefault has an operator set something for all values of a key, or take it back.
func (b *box) putDefault(key queue.MetaKey, demand queue.ValueSettings) error {
	set := journal.Set{Kind: journal.SetKey, Changed: b.clock.now(), Entry: queue.MetaEntry{Key: key}, Demand: demand}
	if demand != queue.NoSettings() {
		set.Version = 1
	}
	return b.shard.Settings.Put(&set, nil, nil)
}

// setValue is putValue, which has to go well.
func (b *box) setValue(entry queue.MetaEntry, demand queue.ValueSettings) {
	b.t.Helper()
	must(b.t, b.putValue(entry, demand))
}
