package store

import (
	"context"
	"encoding/binary"
	"fmt"
)

// What a repair could not keep of submissions that are still there stands in the store,
// under the name "lost". Reading it goes on being an error, as it was before the repair;
// what it is for is that a check can tell a loss that was told from one that is new.

const lostName = "lost"

// LossKind is the kind of data that a submission lost.
type LossKind uint8

// The kinds.
const (
	LostContent    LossKind = 1 + iota // of the chunks from First on, Count of them
	LostAttachment                     //
	LostOutputs                        // Count of them, and First is the sum of their indexes, modulo 2^32
)

// Loss is something that is lost of a submission.
type Loss struct {
	Kind         LossKind
	Seq          uint32
	First, Count uint32
}

// Covers says whether a loss that was told is, or has in it, this one.
func (l *Loss) Covers(o Loss) bool {
	if l.Kind == LostContent && o.Kind == LostContent && l.Seq == o.Seq {
		return o.First >= l.First && uint64(o.First)+uint64(o.Count) <= uint64(l.First)+uint64(l.Count)
	}
	return *l == o
}

// PutLosses stores the losses durably, and replaces the stored ones.
func PutLosses(ctx context.Context, s *Store, list []Loss) error {
	enc := binary.AppendUvarint(nil, uint64(len(list)))
	for _, l := range list {
		for _, n := range []uint64{uint64(l.Kind), uint64(l.Seq), uint64(l.First), uint64(l.Count)} {
			enc = binary.AppendUvarint(enc, n)
		}
	}
	return s.PutStanding(ctx, lostName, enc)
}

// Losses returns the losses that PutLosses stored last.
func Losses(ctx context.Context, s *Store) (list []Loss, err error) {
	state, err := s.Standing(ctx, lostName)
	if err != nil || state == nil {
		return nil, err
	}
	d := pageReader{rest: state}
	n := d.uint()
	if n > uint64(len(state)) {
		return nil, fmt.Errorf("store: losses: %w", errPage)
	}
	for range n {
		list = append(list, Loss{LossKind(d.uint()), uint32(d.uint()), uint32(d.uint()), uint32(d.uint())})
	}
	return list, d.err()
}
