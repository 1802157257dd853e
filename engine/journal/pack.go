package journal

import "github.com/klauspost/compress/s2"

// A batch that brings bytes of clients is mostly texts that resemble each other.
// Compressed it takes fewer pages of the log to write, to sum and to copy back, which
// costs more processor time than compressing does. S2 is the fastest there is in Go that
// keeps up with a disk (https://github.com/klauspost/compress/tree/master/s2).
const (
	packedBit = 0x80    // of the version byte: an S2 block of what stands behind the version follows
	packFrom  = 1 << 10 // bytes: less fits into one page of the log anyway
)

// Packed is the batch so far as the journal keeps it: compressed if that makes it smaller by
// an eighth. It is good until the next Reset. A batch of more than MaxBatchBytes stays as it
// is, so that Append refuses it: packed it might be taken, and no start could read it.
func (e *Encoder) Packed() []byte {
	batch := e.c.b
	if len(batch) < packFrom || len(batch) > MaxBatchBytes {
		return batch
	}
	if most := 1 + s2.MaxEncodedLen(len(batch)-1); len(e.packed) < most {
		e.packed = make([]byte, most)
	}
	e.packed[0] = batch[0] | packedBit
	size := 1 + len(s2.Encode(e.packed[1:], batch[1:]))
	if size > len(batch)-len(batch)/8 {
		return batch
	}
	return e.packed[:size]
}

// Unpack is the batch before Packed, or the batch itself if it is not packed. The error is
// that it is damaged, or over MaxBatchBytes.
func Unpack(batch []byte) ([]byte, error) {
	if len(batch) == 0 || batch[0]&packedBit == 0 {
		return batch, nil
	}
	block := batch[1:]
	size, err := s2.DecodedLen(block)
	if err != nil || size >= MaxBatchBytes {
		return nil, errDamaged
	}
	plain := make([]byte, 1+size)
	plain[0] = batch[0] &^ packedBit
	if _, err := s2.Decode(plain[1:], block); err != nil {
		return nil, errDamaged
	}
	return plain, nil
}
