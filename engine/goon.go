package engine

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// SpareEpochs is the assumed number of epochs that may have begun and cannot be counted, as what came after a backup or a damage is lost.
const SpareEpochs = 1 << 10

// GoOn gives the restored files of a shard the identity of their new directory, and appends a batch that begins another epoch. So the shard
// does not give out again the numbers that it gave out between the backup and the restore. Places among its ends that are lost have earlier
// epochs. newest is the newest epoch that is known from other files. GoOn returns the epoch in which the shard goes on.
//
// Epochs count starts and failed commits, and numbers of the outbox count dead letters. So the time in seconds is ahead of the epochs, and
// the time in millionths of a millisecond ahead of the numbers. If the clock was set back, or the journal is lost, the newest known epoch
// and some to spare are.
func GoOn(ctx context.Context, folder string, id queue.Identity, now queue.Time, newest uint32) (epoch uint32, err error) {
	path := filepath.Join(folder, journalFile)
	if err := errors.Join(store.Assign(filepath.Join(folder, storeFile), id), store.Assign(path, id)); err != nil {
		return 0, err
	}
	log, err := sqlitelog.Open(ctx, path, sqlitelog.Options{Identity: id.Opened()})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	tail, err := log.Tail(ctx)
	if err != nil {
		return 0, err
	}
	err = log.Read(ctx, max(tail, 1)-1, func(_ journal.Position, batch []byte) error {
		last, err := journal.Epoch(batch)
		newest = max(newest, last)
		return err
	})
	if err != nil {
		return 0, err
	}
	epoch = max(uint32(now/1000), newest+SpareEpochs)
	var batch journal.Encoder
	batch.Reset(epoch, now)
	batch.Epoch(epoch)
	// A letter that is put and removed again uses up its number.
	number := uint64(epoch) * 1000 << 20
	batch.Move(journal.Move{Kind: journal.MoveRenumber, Number: number, Queue: DefaultQueue, Indexes: []uint32{0}})
	batch.Move(journal.Move{Kind: journal.MoveDelivered, Number: number, Indexes: []uint32{0}})
	_, err = log.Append(ctx, tail, batch.Packed())
	return epoch, err
}
