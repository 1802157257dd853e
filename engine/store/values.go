package store

import (
	"fmt"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// ValueRow is what an operator set for one value of a meta key, as the catalogue keeps it.
type ValueRow struct {
	Shard    queue.ShardID // of the queue that it belongs to
	Entry    queue.MetaEntry
	Settings queue.ValueSettings
	Version  uint32     // from 1
	Changed  queue.Time // when this version was set
}

// Values lists what is set for all values of all queues, by shard, key and value.
func (c *Catalogue) Values() (all []ValueRow, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err = c.values.Query(func(row sqlitedb.Row) (bool, error) {
		v, err := c.valueOf(row)
		all = append(all, v)
		return true, err
	})
	if err != nil {
		return nil, wrap("values", err)
	}
	return all, nil
}

// valueOf reads a row: most and weight are NULL where none is set, and a value keeps its kind in a column of type ANY.
func (c *Catalogue) valueOf(row sqlitedb.Row) (ValueRow, error) {
	v := ValueRow{Shard: queue.ShardID(row.Int(0)), Settings: queue.NoSettings(), Changed: queue.Time(row.Int(6))}
	v.Entry.Key = row.Text(1)
	known := true
	switch value := row[2].(type) {
	case int64:
		v.Entry.Value = queue.IntValue(value)
	case string:
		v.Entry.Value = queue.StringValue(value)
	default:
		known = false
	}
	most, weight, version := row.Int(3), row.Int(4), row.Int(5)
	if !known || most < 0 || most > queue.MaxValueLimit || weight < 0 || weight > queue.MaxWeight || version < 1 || version > 1<<32-1 {
		return ValueRow{}, &journal.FormatError{
			Path: c.path, Reason: fmt.Sprintf("has settings of the value %s of %q that cannot be (limit %d, weight "+
				"%d, version %d)", v.Entry.Value, v.Entry.Key, most, weight, version),
			Advice: sqlitedb.AdviceDamaged,
		}
	}
	if row[3] != nil {
		v.Settings.Limit = uint32(most)
	}
	v.Settings.Weight, v.Version = uint32(weight), uint32(version)
	return v, nil
}

// PutValue stores what is set for a value durably, in the place of what was.
func (c *Catalogue) PutValue(v ValueRow, acts ...queue.Act) error {
	var most, weight any // NULL where none is set
	if v.Settings.Limit != queue.NoLimit {
		most = int64(v.Settings.Limit)
	}
	if v.Settings.Weight != 0 {
		weight = int64(v.Settings.Weight)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changing("put value", acts, func() error {
		_, err := c.putValue.Exec(int64(v.Shard), v.Entry.Key, valueArgument(v.Entry.Value), most, weight,
			int64(v.Version), int64(v.Changed))
		return err
	})
}

// DeleteValue removes what is set for a value, durably. What is not there is removed already.
func (c *Catalogue) DeleteValue(shard queue.ShardID, entry queue.MetaEntry, acts ...queue.Act) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changing("delete value", acts, func() error {
		_, err := c.dropValue.Exec(int64(shard), entry.Key, valueArgument(entry.Value))
		return err
	})
}

func valueArgument(v queue.MetaValue) any {
	if v.IsInt() {
		return v.Int()
	}
	return v.Text()
}
