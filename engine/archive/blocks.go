package archive

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
)

// This file compares files by their blocks. An increment has of each file the blocks that are not as they were in the backup before it.

const (
	// BlockSize is the length of a block of a file; the last one may be shorter. A few pages of SQLite: with smaller ones the checksums
	// take more room, with larger ones an increment has more that did not change.
	BlockSize = 16 << 10
	// SumSize is the length of the checksum of a block: the first bytes of its SHA-256. Two blocks of the same checksum would be taken for
	// the same, so it is long enough that no one can make them.
	SumSize    = 16
	numberSize = 4
	maxFile    = BlockSize << 32 >> 1 // bytes; the numbers of blocks have 32 bits
)

func blocksOf(size int64) int64 { return (size + BlockSize - 1) / BlockSize }

// Sum reads a file and describes it: its size and checksum. It writes the checksums of its blocks to sums. With changed it writes there
// those blocks that `before`, the checksums of an earlier state, has otherwise or not at all.
func Sum(from io.Reader, sums io.Writer, before []byte, changed io.Writer) (f File, err error) {
	whole, part := sha256.New(), (*changes)(nil)
	if changed != nil {
		part = &changes{w: bufio.NewWriter(changed), hash: sha256.New()}
	}
	buf := make([]byte, BlockSize)
	for number := 0; ; number++ {
		n, err := io.ReadFull(from, buf)
		if n > 0 {
			whole.Write(buf[:n])
			sum := sha256.Sum256(buf[:n])
			if _, err := sums.Write(sum[:SumSize]); err != nil {
				return f, err
			}
			f.Size += int64(n)
			was := before[min(number*SumSize, len(before)):]
			if part != nil && !bytes.HasPrefix(was, sum[:SumSize]) {
				part.add(uint32(number), buf[:n])
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return f, err
		}
	}
	f.SHA256 = hex.EncodeToString(whole.Sum(nil))
	if part != nil {
		f.Changed = &Changed{Size: part.size, SHA256: hex.EncodeToString(part.hash.Sum(nil))}
		err = part.w.Flush()
	}
	return f, err
}

// changes is the entry of a file in an increment, as it is written: for each changed block its number and its bytes.
type changes struct {
	w    *bufio.Writer
	hash hash.Hash
	size int64
}

// add adds a block. An error of the writer comes again with its Flush.
func (c *changes) add(number uint32, block []byte) {
	head := binary.BigEndian.AppendUint32(nil, number)
	for _, b := range [][]byte{head, block} {
		_, _ = c.w.Write(b)
		c.hash.Write(b)
		c.size += int64(len(b))
	}
}

// Apply writes the changed blocks of a file of this size to their places.
func Apply(changed io.Reader, size int64, to io.WriterAt) error {
	from, buf := bufio.NewReader(changed), make([]byte, BlockSize)
	var head [numberSize]byte
	for next := int64(0); ; {
		if _, err := io.ReadFull(from, head[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return cut(err)
		}
		number := int64(binary.BigEndian.Uint32(head[:]))
		if number < next || number >= blocksOf(size) {
			return fmt.Errorf("archive: a file of %d blocks has block %d behind block %d", blocksOf(size), number, next-1)
		}
		next = number + 1
		block := buf[:min(BlockSize, size-number*BlockSize)]
		if _, err := io.ReadFull(from, block); err != nil {
			return cut(err)
		}
		if _, err := to.WriteAt(block, number*BlockSize); err != nil {
			return err
		}
	}
}
