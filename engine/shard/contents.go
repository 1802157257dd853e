package shard

import (
	"sync"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/deadletters"
	"github.com/quern-queue/quern/engine/shard/disk"
	"github.com/quern-queue/quern/engine/store"
)

// This file brings inline chunks, attachments and outputs to the disk. They travel in the
// batch of the op that they belong to: one append makes both durable, the store keeps them
// in memory, and the next checkpoint writes them. Large contents would make everyone wait
// who shares the append, so they are blobs, which the op names (blobs.go).

// contents are the bytes of chunks and attachments in the store.
//
// Callers that bring bytes wait in room while too many wait for a checkpoint. It is called without
// the mutex: the checkpoint that it waits for needs it. One caller makes the checkpoint for all
// (relieving); the others find room when they get the lock.
type contents struct {
	options     *Options
	disk        *disk.Disk
	checkpoints *checkpointer
	relieving   sync.Mutex // held by the caller that makes room for all
	naming      naming
}

// keptTimes bounds the bytes in memory that wait for a checkpoint, as a multiple of
// Options.CheckpointBytes.
const keptTimes = 4

// most is how many bytes may wait.
func (c *contents) most() int64 { return keptTimes * c.options.CheckpointBytes }

func (c *contents) over() bool { return c.options.Store.Memtable.Bytes() > c.most() }

// room has a caller that brings so many bytes wait for a checkpoint while too much waits
// for one. Its error is that of the checkpoint: a disk that takes nothing has to be
// noticed by those who bring more. The mutex is not held.
func (c *contents) room(bytes int) error {
	if bytes == 0 || !c.over() {
		return nil
	}
	c.relieving.Lock()
	defer c.relieving.Unlock()
	if !c.over() { // another caller made room meanwhile
		return nil
	}
	return storeError(c.checkpoints.now())
}

// itemCost is the approximate size of a chunk or an output in an op beside its bytes.
const itemCost = 8

// bytesOf is the size of a submission's chunks and attachment in an op.
func bytesOf(n *queue.NewSubmission) (bytes int) {
	for _, chunk := range n.Chunks.Inline {
		bytes += len(chunk) + itemCost
	}
	if len(n.Attachment) > 0 {
		bytes += len(n.Attachment) + itemCost
	}
	return bytes
}

// pack makes the op that carries the bytes of as many submissions as `times` says, which have the same
// ones and go into one batch; nil if they have none. large: they are too many, and have to be blobs.
func (c *contents) pack(n *queue.NewSubmission, times int) (op *journal.Contents, large bool) {
	bytes := bytesOf(n)
	if times == 0 || bytes == 0 {
		return nil, false
	}
	if bytes > c.options.OpBytes || bytes*times > fullBatch {
		return nil, true
	}
	op = &journal.Contents{Pages: store.PackContent(n.Chunks.Inline)}
	if len(n.Attachment) > 0 {
		op.Attachment = n.Attachment
	}
	return op, false
}

// intake is how dead letters of other queues come in.
func (s *Shard) intake() deadletters.Intake {
	return deadletters.Intake{
		Room: func(list []queue.Delivery) error {
			if s.full.Load() {
				return commitError(journal.ErrFull)
			}
			bytes := 0
			for i := range list {
				bytes += bytesOf(&list[i].Submission)
			}
			return s.contents.room(bytes)
		},
		Admit: s.options.Live.admit, Release: s.options.Live.release, Pack: s.contents.pack,
		Blobs: emitted{&s.contents}, Bytes: s.options.bytes(),
	}
}
