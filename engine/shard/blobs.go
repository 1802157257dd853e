package shard

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"slices"
	"sync"

	"github.com/quern-queue/quern/engine/blobs"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/deadletters"
	"github.com/quern-queue/quern/engine/shard/disk"
	"github.com/quern-queue/quern/engine/shard/stored"
	"github.com/quern-queue/quern/engine/store"
)

// Bytes of a submission that are too many for a batch are blobs. They are durable before the batch with
// the insert that names them, so an insert never waits for its bytes and is never without them. What a
// crash or a failed insert leaves is named by no insert: it is garbage, which the next start finds by
// listing the keys. Keys have the epoch, so garbage is never taken for the blob of a later owner.
//
// The blobs are in the store. Where the store is a cache they are in Options.Blobs, and
// the store gets a copy with its next checkpoint.

// named is an insert with the bytes that its blobs are to have.
type named struct {
	op *journal.Insert
	of *queue.NewSubmission
}

// bytes reads the bytes of submissions.
func (o *Options) bytes() stored.Bytes { return stored.Bytes{ID: o.ID, Store: o.Store} }

// remote says that the store has copies of blobs only.
func (o *Options) remote() bool { return o.Copies.Blobs != blobs.Blobs(&o.Store.Blobs) }

// put stores the bytes of inserts, and has these name them. After an error, and when the
// inserts are not made, the caller discards them.
func (c *contents) put(ctx context.Context, list []named) error {
	w := wave{c: c, ctx: ctx}
	var err error
	for i := 0; i < len(list) && err == nil; i++ {
		err = w.submission(list[i])
	}
	if err == nil {
		err = w.flush()
	}
	return storeError(err)
}

// discard deletes the blobs of inserts that failed. Blobs that it cannot delete are
// garbage until the next start.
func (c *contents) discard(list []named) {
	o := c.options
	for i := range list {
		for _, key := range stored.Keys(o.ID, list[i].op.Seq, list[i].op.Blobs, list[i].op.Attachment) {
			err := c.disk.Roomy(func() error { return c.options.Store.Blobs.Delete(context.Background(), key) })
			if o.remote() {
				err = errors.Join(err, o.Copies.Blobs.Delete(context.Background(), key))
			}
			if err != nil {
				o.Logger.Warn("a blob of an insert that failed is left to the next start", "queue", o.Queue, "key", key,
					"error", err)
				return
			}
		}
	}
}

// wave puts blobs at the same time, as many as one commit of the store has room for.
type wave struct {
	c     *contents
	ctx   context.Context
	parts []blob
	bytes int
}

// spaces has the memory of parts that are in the store: without it, large inserts would keep
// the garbage collector busy.
var spaces = sync.Pool{New: func() any { return new([]byte) }}

type blob struct {
	key   string
	bytes []byte
}

// submission cuts the bytes of a submission into parts. Their sum is for who copies them:
// in the store, each row has one.
func (w *wave) submission(n named) error {
	b, sum, first := n.op.Blobs, hash.Hash(nil), 0
	if w.c.options.remote() {
		sum = sha256.New()
	}
	for chunks := n.of.Chunks.Inline; len(chunks) > 0; {
		space := spaces.Get().(*[]byte)
		packed, fit := store.PackBlob((*space)[:0], chunks)
		if err := w.part(n.op, len(b.Firsts), packed, sum); err != nil {
			return err
		}
		b.Firsts = append(b.Firsts, uint32(first))
		first, chunks = first+fit, chunks[fit:]
	}
	if len(n.of.Attachment) > 0 {
		if err := w.part(n.op, len(b.Firsts), slices.Clone(n.of.Attachment), sum); err != nil {
			return err
		}
	}
	if sum != nil {
		sum.Sum(b.Sum[:0])
	}
	return nil
}

// part adds a part to the wave. Its bytes are the wave's.
func (w *wave) part(op *journal.Insert, number int, b []byte, sum hash.Hash) error {
	if w.bytes+len(b) > blobs.MaxBytes {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if sum != nil {
		sum.Write(b) // never fails
	}
	op.Blobs.Size += uint64(len(b))
	w.parts = append(w.parts, blob{blobs.Key(w.c.options.ID, op.Blobs.Epoch, op.Seq, number), b})
	w.bytes += len(b)
	return nil
}

func (w *wave) flush() error {
	errs := make([]error, len(w.parts))
	var group sync.WaitGroup
	for i, part := range w.parts {
		group.Go(func() { errs[i] = w.c.putOne(w.ctx, part) })
	}
	group.Wait()
	w.parts, w.bytes = nil, 0
	return errors.Join(errs...)
}

func (c *contents) putOne(ctx context.Context, b blob) error {
	o := c.options
	err := o.Copies.Blobs.Put(ctx, b.key, b.bytes)
	switch {
	case !o.remote():
		spaces.Put(&b.bytes)
		return c.disk.Wrote(err)
	case err == nil:
		c.options.Store.Memtable.KeepBlob(b.key, b.bytes)
		c.checkpoints.note(len(b.bytes)) // they wait in memory as the bytes of a batch do
	}
	return err
}

// naming is held for reading from before blobs are put until the batch is durable whose
// inserts name them. Who holds it for writing finds no insert in the journal whose bytes
// have not come to the store's memtable.
type naming struct{ mu sync.RWMutex }

// begin begins an insert with such bytes, unless the blobs are in the store: there its
// file has them before the journal names them.
func (n *naming) begin(o *Options) (end func()) {
	if !o.remote() {
		return func() {}
	}
	n.mu.RLock()
	return n.mu.RUnlock
}

// still flushes the memtable of the store, and keeps inserts with blobs away until release
// is called: the file has all blobs that the journal names.
func (n *naming) still(ctx context.Context, s *Shard) (release func(), err error) {
	if !s.options.remote() {
		return func() {}, nil
	}
	if err := s.store.Memtable.Flush(ctx); err != nil { // most of it while inserts go on
		return nil, err
	}
	n.mu.Lock()
	if err := s.store.Memtable.Flush(ctx); err != nil {
		n.mu.Unlock()
		return nil, err
	}
	return n.mu.Unlock, nil
}

// emitted stores the blobs of submissions that schedules insert, and of dead letters that arrive.
type emitted struct{ *contents }

func (e emitted) Begin() (end func()) { return e.naming.begin(e.options) }

func (e emitted) Put(ctx context.Context, inserts []*journal.Insert, of *queue.NewSubmission) error {
	return e.put(ctx, namedAlike(inserts, of))
}

func (e emitted) Discard(inserts []*journal.Insert) { e.discard(namedAlike(inserts, nil)) }

func namedAlike(inserts []*journal.Insert, of *queue.NewSubmission) (list []named) {
	for _, op := range inserts {
		list = append(list, named{op, of})
	}
	return list
}

// How inline chunks, attachments and outputs come to the disk: they travel in the
// batch of the op that they belong to: one append makes both durable, the store keeps them
// in memory, and the next checkpoint writes them. Large contents would make everyone wait
// who shares the append, so they are blobs, which the op names.

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

// room has a caller that brings this many bytes wait for a checkpoint while too much waits
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
