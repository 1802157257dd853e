package store

import (
	"fmt"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// StrategyRow is one version of a named strategy as the catalogue keeps it.
type StrategyRow struct {
	Shard   queue.ShardID // of the queue that it belongs to
	Name    string
	Version uint32 // from 1
	Text    string // canonical
	Created queue.Time
}

// Strategies lists the newest version of every named strategy of all queues, by shard and name.
func (c *Catalogue) Strategies() (all []StrategyRow, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err = c.strategies.Query(func(row sqlitedb.Row) (bool, error) {
		s, err := c.strategyOf(row)
		all = append(all, s)
		return true, err
	})
	if err != nil {
		return nil, wrap("strategies", err)
	}
	return all, nil
}

// Strategy is one version of a named strategy, if it is kept.
func (c *Catalogue) Strategy(shard queue.ShardID, name string, version uint32) (s StrategyRow, found bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err = c.strategyAt.Query(func(row sqlitedb.Row) (more bool, err error) {
		found = true
		s, err = c.strategyOf(row)
		return false, err
	}, int64(shard), name, int64(version))
	return s, found && err == nil, wrap("strategy", err)
}

func (c *Catalogue) strategyOf(row sqlitedb.Row) (StrategyRow, error) {
	version := row.Int(2)
	if version < 1 || version > 1<<32-1 {
		return StrategyRow{}, &journal.FormatError{
			Path: c.path, Reason: fmt.Sprintf("has a strategy %q of version %d", row.Text(1), version), Advice: sqlitedb.AdviceDamaged,
		}
	}
	return StrategyRow{Shard: queue.ShardID(row.Int(0)), Name: row.Text(1), Version: uint32(version), Text: row.Text(3),
		Created: queue.Time(row.Int(4))}, nil
}

// PutStrategy stores a new version durably and forgets all versions of the name but the newest `keep`. A version that is
// there already is an error.
func (c *Catalogue) PutStrategy(s StrategyRow, keep uint32, acts ...queue.Act) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changing("put strategy", acts, func() error {
		if _, err := c.putStrategy.Exec(int64(s.Shard), s.Name, int64(s.Version), s.Text, int64(s.Created)); err != nil {
			return err
		}
		_, err := c.trimStrategy.Exec(int64(s.Shard), s.Name, int64(s.Version)-int64(keep))
		return err
	})
}

// DeleteStrategy removes a named strategy with all its versions, durably. One that is not there is removed already.
func (c *Catalogue) DeleteStrategy(shard queue.ShardID, name string, acts ...queue.Act) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changing("delete strategy", acts, func() error {
		_, err := c.dropStrategy.Exec(int64(shard), name)
		return err
	})
}
