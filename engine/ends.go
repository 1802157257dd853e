package engine

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/ends"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/submissions"
)

type (
	// Ends are the ends of a queue's submissions, in the order in which they became durable.
	Ends = ends.Ends

	// EndFilter says which of them are meant. Before and From mean nothing.
	EndFilter = machine.Filter
)

// Ends are those of the queue.
func (q *Queue) Ends() *Ends { return q.shard.Ends }

// PlaceSealer writes places among the ends so that only the server can read them. A place has the position of the journal, by
// which a tenant could count what others commit.
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

// A sealed place is one block of AES: the position, in 48 bits, behind 16 bits of 0; the number; and 32 bits of salt.
const sealedPosition = 1<<48 - 1

// Seal writes a place. With another salt it looks different.
func (s PlaceSealer) Seal(place queue.EndPlace, salt uint32) string {
	var b [aes.BlockSize]byte
	binary.BigEndian.PutUint64(b[:], min(place.Position, sealedPosition))
	binary.BigEndian.PutUint32(b[8:], place.Seq)
	binary.BigEndian.PutUint32(b[12:], salt)
	s.block.Encrypt(b[:], b[:])
	return hex.EncodeToString(b[:])
}

// Open reads a sealed place.
func (s PlaceSealer) Open(text string) (place queue.EndPlace, ok bool) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != aes.BlockSize {
		return place, false
	}
	s.block.Decrypt(b, b)
	place = queue.EndPlace{Position: binary.BigEndian.Uint64(b), Seq: binary.BigEndian.Uint32(b[8:])}
	return place, place.Position <= sealedPosition
}

// WaitEnds returns when one of the submissions has ended, or with `all` when all have, or when `wait` (at most queue.MaxWait) is over,
// or with the error of ctx. An unknown one never ends, so it counts as one that has. The ids, 1 or more, may be of several queues.
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
