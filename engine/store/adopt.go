package store

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// Until version 10 the catalogue had what operators set for values of meta keys, and named strategies. Now they are in the journal of
// their queue, which takes them over from here when it is opened.

// Adoptable lists what a queue has to take over: values, then versions of strategies, from the oldest on.
func (c *Catalogue) Adoptable(shard queue.ShardID) (all []journal.Set, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, err = rowsOf(c.values, c.valueOf, int64(shard))
	if err != nil {
		return nil, wrap("adoptable", err)
	}
	strategies, err := rowsOf(c.strategies, c.strategyOf, int64(shard))
	return append(all, strategies...), wrap("adoptable", err)
}

// Adopted forgets, durably, what the queue of that name has taken over.
func (c *Catalogue) Adopted(name string) error {
	return c.running("adopted", nil, []any{name}, c.dropValues, c.dropStrategies)
}

// valueOf reads a row: most and weight are NULL where none is set, and a value keeps its kind in a column of type ANY.
func (c *Catalogue) valueOf(row sqlitedb.Row) (journal.Set, error) {
	set := journal.Set{Kind: journal.SetValue, Demand: queue.NoSettings(), Changed: queue.Time(row.Int(5))}
	set.Entry.Key = row.Text(0)
	known := true
	switch value := row[1].(type) {
	case int64:
		set.Entry.Value = queue.IntValue(value)
	case string:
		set.Entry.Value = queue.StringValue(value)
	default:
		known = false
	}
	most, weight, version := row.Int(2), row.Int(3), row.Int(4)
	if !known || most < 0 || most > queue.MaxValueLimit || weight < 0 || weight > queue.MaxWeight || version < 1 || version > 1<<32-1 {
		return set, c.damaged(nil, "settings of the value %s of %q that cannot be (limit %d, weight %d, version %d)",
			set.Entry.Value.Quoted(), set.Entry.Key, most, weight, version)
	}
	if row[2] != nil {
		set.Demand.Limit = uint32(most)
	}
	set.Demand.Weight, set.Version = uint32(weight), uint32(version)
	return set, nil
}

func (c *Catalogue) strategyOf(row sqlitedb.Row) (journal.Set, error) {
	version := row.Int(1)
	if version < 1 || version > 1<<32-1 {
		return journal.Set{}, c.damaged(nil, "a strategy %q of version %d", row.Text(0), version)
	}
	return journal.Set{Kind: journal.SetStrategy, Name: row.Text(0), Version: uint32(version), Text: row.Text(2),
		Changed: queue.Time(row.Int(3))}, nil
}
