// Package contents brings the bytes of submissions to the disk: contents of chunks, attachments and outputs.
//
// They travel in the batch of the op that they belong to: one append makes both durable, the store keeps them in
// memory, and the next checkpoint writes them. Large contents would delay all callers in the same append, so they are
// blobs, which the op names.
package contents

import (
	"context"
	"log/slog"
	"sync"

	"github.com/quern-queue/quern/engine/blobs"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/disk"
	"github.com/quern-queue/quern/engine/shard/stored"
	"github.com/quern-queue/quern/engine/store"
)

// Files are where a shard has its bytes.
type Files struct {
	ID     queue.ShardID
	Queue  string
	Logger *slog.Logger
	Store  *store.Store
	Blobs  blobs.Blobs // bytes that are too large for a batch
}

// Bytes reads the bytes of submissions.
func (f *Files) Bytes() stored.Bytes { return stored.Bytes{ID: f.ID, Store: f.Store} }

// Remote says that the store has copies of blobs only.
func (f *Files) Remote() bool { return f.Blobs != blobs.Blobs(&f.Store.Blobs) }

// Limits are those of the bytes in memory.
type Limits struct {
	Op         int   // of an insert, in its batch. With more, its bytes become blobs
	Batch      int   // of all ops of a batch
	Checkpoint int64 // after which a checkpoint is made
}

// Contents are the bytes that calls bring.
//
// Callers that bring bytes wait in Room while too many wait for a checkpoint. Room is called without the shard's mutex,
// because the checkpoint that it waits for needs that. One caller makes the checkpoint for all (relieving). The others
// find room when they get the lock.
type Contents struct {
	Files
	Limits
	Disk       *disk.Disk
	Checkpoint func() error    // makes a checkpoint now
	Kept       func(bytes int) // called for bytes that wait in memory for a checkpoint

	relieving sync.Mutex   // held by the caller that makes room for all
	naming    sync.RWMutex // held for reading while inserts name blobs that no batch has yet
}

// keptTimes bounds the bytes in memory that wait for a checkpoint, as a multiple of those
// after which one is made.
const keptTimes = 4

// Most is how many bytes may wait.
func (c *Contents) Most() int64 { return keptTimes * c.Limits.Checkpoint }

func (c *Contents) over() bool { return c.Store.Memtable.Bytes() > c.Most() }

// Room makes a caller that brings this many bytes wait while too many bytes wait for a checkpoint. If the checkpoint
// fails, the caller gets its error, so that memory does not fill up while the disk fails. The mutex is not held.
func (c *Contents) Room(bytes int) error {
	if bytes == 0 || !c.over() {
		return nil
	}
	c.relieving.Lock()
	defer c.relieving.Unlock()
	if !c.over() { // another caller made room meanwhile
		return nil
	}
	return commit.StoreFailed(c.Checkpoint())
}

// ItemCost is the approximate size of a chunk or an output in an op beside its bytes.
const ItemCost = 8

// Size is the size of a submission's chunks and attachment in an op, in bytes.
func Size(n *queue.NewSubmission) (bytes int) {
	for _, chunk := range n.Chunks.Inline {
		bytes += len(chunk) + ItemCost
	}
	if len(n.Attachment) > 0 {
		bytes += len(n.Attachment) + ItemCost
	}
	return bytes
}

// Pack makes the op that carries the bytes of `times` submissions with the same contents, in one batch; nil if they
// have none. large: there are too many bytes, and they have to be blobs.
func (c *Contents) Pack(n *queue.NewSubmission, times int) (op *journal.Contents, large bool) {
	bytes := Size(n)
	if times == 0 || bytes == 0 {
		return nil, false
	}
	if bytes > c.Op || bytes*times > c.Batch {
		return nil, true
	}
	op = &journal.Contents{Pages: store.PackContent(n.Chunks.Inline)}
	if len(n.Attachment) > 0 {
		op.Attachment = n.Attachment
	}
	return op, false
}

// Naming begins an insert with blobs. The caller calls end once the batch with the insert is durable. Still waits for
// that. Where the blobs are in the store, its file has them before the journal names them, so no one waits.
func (c *Contents) Naming() (end func()) {
	if !c.Remote() {
		return func() {}
	}
	c.naming.RLock()
	return c.naming.RUnlock
}

// Still flushes the memtable of the store, and keeps inserts with blobs away until release
// is called: the file has all blobs that the journal names.
func (c *Contents) Still(ctx context.Context) (release func(), err error) {
	if !c.Remote() {
		return func() {}, nil
	}
	if err := c.Store.Memtable.Flush(ctx); err != nil { // most of it while inserts go on
		return nil, err
	}
	c.naming.Lock()
	if err := c.Store.Memtable.Flush(ctx); err != nil {
		c.naming.Unlock()
		return nil, err
	}
	return c.naming.Unlock, nil
}
