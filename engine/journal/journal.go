// Package journal is the durable log of a shard: the interface for its writer, the
// failures that the writer tells apart, and the encoding of the ops in a batch. The
// implementations are in the folders below; nothing else knows which one is used.
//
// A batch is the unit of durability: either all of its ops survive a crash or none does.
// So ops that belong together, such as an output and its completion, are in one batch.
//
//	┌─────────┬──────┬───────┬─────────────┬─────────────┬─────
//	│ version │ time │ epoch │ code fields │ code fields │ ...    one batch, one append
//	└─────────┴──────┴───────┴─────────────┴─────────────┴─────
//	            │      │       └ an op; it has no length, so a reader must know every op of its version
//	            │      └ the shard's start or reload that wrote it, so that a batch can be read alone
//	            └ when the first op was decided: replay uses this time and reads no clock
//
//quern:tests pure
package journal

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/cespare/xxhash/v2"

	"github.com/quern-queue/quern/engine/queue"
)

// Position is the number of a batch. The first batch is 1, every further one is one more;
// 0 is the position of an empty journal.
type Position uint64

// MaxBatchBytes is the size of the largest batch that Append takes: the ops that arrived during one
// sync, and the contents of one call, which are up to 64 MiB where all bytes go through the journal.
const MaxBatchBytes = 80 << 20

// Journal is a handle of the durable log of one shard: batches in order, each chained to the one
// before it. It knows the batches that were there when it was opened, and those that it has appended or
// read since, and it appends only behind these. All methods may be called from several goroutines at
// once. journaltest has the conformance suite that every implementation passes.
type Journal interface {
	// Append adds one batch behind `expect` and returns its position, if the journal ends there and
	// has the batches that this handle knows. Else it is ErrConflict: the batch is certainly not in
	// the journal, and will not come into it; another writer has taken its place, and this handle is
	// never to be used again for writing. While the outcome is not known it tries again, until it
	// knows or ctx ends: then it is ErrUnknown, and the next Append finds out first. ErrFull says that
	// the batch is certainly not in the journal, and may be tried again, any other error that it is
	// not and would be refused again; after ErrSync the process must end. On nil the batch is durable,
	// as far as the durability set promises. An empty batch is a batch. It is not kept after the call.
	Append(ctx context.Context, expect Position, batch []byte) (Position, error)

	// Read calls fn for every batch behind `after`, in order and without a gap, up to the
	// tail of the moment it gets there. `batch` is valid during the call only. fn may call
	// Append and Trim. The first error of fn ends the reading and is returned. ErrTrimmed means that the
	// batch after `after` is trimmed, *queue.FormatError that a stored batch is damaged: it does not
	// match its chain. ErrConflict means that a batch is not the one that this handle knows: the journal
	// was taken back, and has grown again.
	Read(ctx context.Context, after Position, fn func(pos Position, batch []byte) error) error

	// Trimmed is the position up to which nothing can be read any more, as this handle
	// knows it: the journal begins behind it.
	Trimmed() Position
	// Tail is the position of the last batch.
	Tail(ctx context.Context) (Position, error)

	// Wait returns when there is a batch behind `after`, or with the error of ctx.
	Wait(ctx context.Context, after Position) error

	// Trim says that the batches up to and including `upTo` are not needed any more. It is
	// cheap: the room is reclaimed in slices by the following appends and by Close.
	// Positions past the tail are taken as the tail; the tail never moves back. A trim that
	// was not yet reclaimed may be forgotten by a crash: then the batches are there again.
	Trim(ctx context.Context, upTo Position) error

	// Hold keeps every batch that can be read now from being trimmed, until release is called, so that a
	// reader does not lose batches to a Trim. A trim that comes while it is held takes effect with the
	// release. After a Close it holds nothing.
	Hold() (release func())

	// SetDurability sets the promise that a nil from the following appends makes.
	SetDurability(d queue.Durability) error

	// Size is the room that the journal takes on its medium, in bytes. Trimmed room is
	// used again but need not be given back.
	Size() (bytes int64)

	// Close reclaims the room of trimmed batches and lets go of the journal. No other method may be
	// called after it.
	Close() error
}

// The failures of a journal; errors wrap them, so test with errors.Is.
var (
	ErrConflict = errors.New("journal: it does not end where this writer left it: another one has taken its place")
	ErrTrimmed  = errors.New("journal: the batch is trimmed")
	ErrUnknown  = errors.New("journal: the outcome of the write is unknown")
	ErrSync     = errors.New("journal: the disk failed to sync: what it holds is unknown until a restart")
)

// ErrFull says that the disk is full and that nothing was written. Callers at any level can act on it.
var ErrFull error = &queue.Error{Code: queue.CodeDiskFull,
	Message: "The disk is full: nothing of this request was done. Free some space; the server recovers by itself."}

// Sum is the sum of a chain of batches: of the last one, of its position, and of the sum
// before it. Two journals that have the same sum at a position have the same batches up to
// there. A position alone does not say so: a journal that lost its end may have grown again to the same
// length. The zero Sum is that of a chain without batches.
type Sum [16]byte

// The seeds of the two halves of a sum.
const (
	seedOfFirst  = 0x5175_6572_6e31 // "Quern1"
	seedOfSecond = 0x5175_6572_6e32
)

// Next is the sum with one batch more, which is at this position.
func (s Sum) Next(at Position, batch []byte) (next Sum) {
	var before [len(s) + 8]byte
	binary.BigEndian.PutUint64(before[copy(before[:], s[:]):], uint64(at))
	var d xxhash.Digest
	for half, seed := range [2]uint64{seedOfFirst, seedOfSecond} {
		d.ResetWithSeed(seed)
		d.Write(before[:]) // never fails
		d.Write(batch)
		binary.BigEndian.PutUint64(next[8*half:], d.Sum64())
	}
	return next
}
