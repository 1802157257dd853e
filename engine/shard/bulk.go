package shard

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

type bulks struct{}
type bulkRun struct{}

func (b *bulks) find(queue.BulkID) *bulkRun      { return nil }
func (b *bulkRun) row() []byte                   { return nil }
func (m *machine) loadBulk([]byte) error         { return nil }
func (m *machine) ApplyBulk(*journal.Bulk) error { return nil }
