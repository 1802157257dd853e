package engine

import (
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/ends"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/submissions"
)

type (
	// Ends are the ends of a queue's submissions, in the order in which they became durable.
	Ends = ends.Ends

	// EndFilter says which ends are meant. Before and From mean nothing.
	EndFilter = machine.Filter
)

// Ends are those of the queue.
func (q *Queue) Ends() *Ends { return q.shard.Ends }

// PlaceSealer encrypts the ids of ends, so that only the server can read them. An id has the position of the journal, from which a
// tenant could count the commits of others.
type PlaceSealer struct{ block cipher.Block }

// sealerSecret is the name, in the catalogue, of the key that seals places.
const sealerSecret = "ends"

// loadSealer reads the durable key that seals places, and makes it at the first start that has none.
func (e *Engine) loadSealer() error {
	secret, err := e.catalogue.Secret(sealerSecret, 16, rand.Reader)
	if err != nil {
		return err
	}
	e.sealer.block, err = aes.NewCipher(secret)
	return err
}

// Sealer seals the places of all queues.
func (e *Engine) Sealer() PlaceSealer { return e.sealer }

// A sealed id is two chained blocks of AES: position, number and 32 bits of salt; then shard, epoch and zeros, by which Open knows its own.
const sealedBytes = 2 * aes.BlockSize

// Seal writes an id. With another salt all of it looks different.
func (s PlaceSealer) Seal(id queue.EndID, salt uint32) string {
	b := make([]byte, 0, sealedBytes)
	b = binary.BigEndian.AppendUint64(b, id.Position)
	b = binary.BigEndian.AppendUint32(b, id.Seq)
	b = binary.BigEndian.AppendUint32(b, salt)
	b = binary.BigEndian.AppendUint32(b, uint32(id.Shard))
	b = binary.BigEndian.AppendUint32(b, id.Epoch)
	b = b[:sealedBytes]
	cipher.NewCBCEncrypter(s.block, make([]byte, aes.BlockSize)).CryptBlocks(b, b)
	return hex.EncodeToString(b)
}

// Open reads a sealed id.
func (s PlaceSealer) Open(text string) (id queue.EndID, ok bool) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != sealedBytes {
		return id, false
	}
	cipher.NewCBCDecrypter(s.block, make([]byte, aes.BlockSize)).CryptBlocks(b, b)
	id.Position, id.Seq = binary.BigEndian.Uint64(b), binary.BigEndian.Uint32(b[8:])
	shard, zero := binary.BigEndian.Uint32(b[16:]), binary.BigEndian.Uint64(b[24:])
	id.Shard, id.Epoch = queue.ShardID(shard), binary.BigEndian.Uint32(b[20:])
	return id, shard <= math.MaxUint16 && zero == 0 && id.Position <= math.MaxInt64
}

// WaitEnds returns when one of the submissions has ended, or with `all` when all have, or when `wait` (at most queue.MaxWait) is over, or
// with the error of ctx. An unknown submission never ends, so it counts as ended. The ids, 1 or more, may be of several queues.
func (e *Engine) WaitEnds(ctx context.Context, ids []queue.SubmissionID, wait time.Duration, all bool) error {
	enough := 1
	if all {
		enough = len(ids)
	}
	w := submissions.NewWatch(enough)
	of := map[*Queue][]queue.SubmissionID{}
	for _, id := range ids {
		q, err := e.QueueOf(id)
		if err != nil {
			w.Ended()
			continue
		}
		of[q] = append(of[q], id)
	}
	for q, ids := range of {
		q.shard.Submissions.Watch(w, ids...)
		defer q.shard.Submissions.Unwatch(w, ids...)
	}
	return w.Wait(ctx, min(wait, queue.MaxWait))
}

// watchEvery is how often the server looks whether the files of the data directory are still there. Work that it acknowledges between their
// loss and the next look is lost with them.
const watchEvery = 250 * time.Millisecond

// watched are files that a server has open, as they were when it opened them. If one is deleted or replaced, later writes go to a file
// without a name, and are lost when the server ends.
type watched struct {
	mu    sync.Mutex
	files map[string]*watchedFile
}

type watchedFile struct {
	was   os.FileInfo
	least int64 // bytes that it has at least: a journal is never made shorter; -1: it may be
}

// add notes the files of a database. Its log is there for as long as it is in use.
func (w *watched) add(database string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.files == nil {
		w.files = map[string]*watchedFile{}
	}
	for _, path := range []string{database, database + "-wal"} {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		w.files[path] = &watchedFile{was: info, least: -1}
		if filepath.Base(path) == journalFile {
			w.files[path].least = info.Size()
		}
	}
	return nil
}

// changed says which file is not what it was, nil: none.
func (w *watched) changed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for path, file := range w.files {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%s was deleted or moved under the running server", path)
		case err == nil && !os.SameFile(info, file.was):
			return fmt.Errorf("%s was replaced under the running server", path)
		case err == nil && info.Size() < file.least:
			return fmt.Errorf("%s was cut from %d to %d bytes under the running server", path, file.least, info.Size())
		case err == nil && file.least >= 0:
			file.least = info.Size()
		}
	}
	return nil
}

// watch stops the acknowledgements of a queue whose files are gone, and of all queues if the catalogue is gone.
func (e *Engine) watch() {
	lost := e.files.changed()
	if lost != nil {
		e.catalogue.Lose(lost)
	}
	for _, q := range e.all() {
		if q.lost || lost == nil && q.files.changed() == nil {
			continue
		}
		if now, err := e.Queue(q.name); err != nil || now != q {
			continue // it was deleted meanwhile, with its files
		}
		cause := q.shard.Lose(func() error { return cmp.Or(lost, q.files.changed()) })
		if cause == nil {
			continue // its journal was opened again meanwhile
		}
		q.lost = true
		e.options.Logger.Error("a file of the data directory is not where it was: the queue acknowledges nothing any "+
			"more. Its readable data can be read until the server ends. Put the file back, or restore a backup, "+
			"and restart the server",
			"queue", q.name, "error", cause)
	}
}

// watchAlways watches until ctx ends.
func (e *Engine) watchAlways(ctx context.Context) { every(ctx, watchEvery, e.watch) }
