package abi

import "errors"

// Layout says where everything in a region is. It depends only on the columns and the capacity, so that all instances of a
// version have the same.
type Layout struct {
	Columns  []Column
	Capacity uint32   // rows that fit
	Offset   []uint32 // of each column's values, from the region's first byte
	Validity []uint32 // of each column's validity bytes, 0 when it is not nullable
	Scores   uint32   // offset of the scores
	Size     uint32   // bytes of the whole region
}

// NewLayout lays out columns for batches of up to capacity rows. It refuses more than MaxColumns columns, a capacity outside
// 1..MaxCapacity, and columns of no known type.
func NewLayout(columns []Column, capacity int) (Layout, error) {
	if capacity < MinCapacity || capacity > MaxCapacity {
		return Layout{}, errors.New("abi: the capacity of a region is 1 to 4096 rows")
	}
	if len(columns) > MaxColumns {
		return Layout{}, errors.New("abi: a batch has at most 64 columns")
	}
	l := Layout{
		Columns: columns, Capacity: uint32(capacity),
		Offset: make([]uint32, len(columns)), Validity: make([]uint32, len(columns)),
	}
	at := aligned(HeaderSize + uint32(len(columns))*DescriptorSize)
	place := func(size uint32) uint32 {
		was := at
		at = aligned(at + size)
		return was
	}
	for i, c := range columns {
		if c.Type.Size() == 0 {
			return Layout{}, errors.New("abi: column " + c.Name + " has no known type")
		}
		rows := c.Rows(l.Capacity)
		l.Offset[i] = place(rows * c.Type.Size())
		if c.Nullable {
			l.Validity[i] = place(rows)
		}
	}
	l.Scores = place(l.Capacity * 8)
	l.Size = at
	return l, nil
}

// Rows is how many values the column has in a batch of n rows.
func (c Column) Rows(n uint32) uint32 {
	if c.Single {
		return 1
	}
	return n
}

// Header has the fields of the header that change from batch to batch.
type Header struct {
	Rows  uint32
	Now   int64  // the batch's frozen clock, milliseconds since 1970
	Seed  uint64 // the only chance a guest has
	Want  uint32 // how many chunks will be taken
	Flags uint32 // FlagDryRun, FlagShadow
}

// Start writes what stays the same for all batches of an instance: magic, sizes, descriptors. The region has l.Size bytes.
func (l *Layout) Start(region []byte) {
	clear(region[:HeaderSize])
	PutU32(region[OffMagic:], Magic)
	PutU32(region[OffHeaderSize:], HeaderSize)
	PutU32(region[OffColumns:], uint32(len(l.Columns)))
	PutU32(region[OffDescriptors:], HeaderSize)
	PutU32(region[OffScores:], l.Scores)
	PutU32(region[OffCapacity:], l.Capacity)
	for i, c := range l.Columns {
		d := region[HeaderSize+i*DescriptorSize:]
		flags := c.flags()
		PutU32(d, l.Offset[i])
		PutU32(d[4:], uint32(c.Type)|flags<<16)
		PutU32(d[8:], l.Validity[i])
		PutU32(d[12:], 0)
	}
}

// Begin writes the part of the header that belongs to one batch. It repeats the fields around it, because a guest that
// overwrote them would otherwise harm the batches after it.
func (l *Layout) Begin(region []byte, h Header) {
	PutU32(region[OffRows:], h.Rows)
	PutU32(region[OffColumns:], uint32(len(l.Columns)))
	PutU32(region[OffDescriptors:], HeaderSize)
	PutU32(region[OffScores:], l.Scores)
	PutU64(region[OffNow:], uint64(h.Now))
	PutU64(region[OffSeed:], h.Seed)
	PutU32(region[OffWant:], h.Want)
	PutU32(region[OffFlags:], h.Flags)
}

func aligned(n uint32) uint32 { return (n + Align - 1) &^ (Align - 1) }

// PutU32 writes v little-endian.
func PutU32(b []byte, v uint32) {
	_ = b[3]
	b[0], b[1], b[2], b[3] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
}

// PutU64 writes v little-endian.
func PutU64(b []byte, v uint64) {
	_ = b[7]
	PutU32(b, uint32(v))
	PutU32(b[4:], uint32(v>>32))
}

// ReadU32 reads a little-endian number.
func ReadU32(b []byte) uint32 {
	_ = b[3]
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

// ReadU64 reads a little-endian number.
func ReadU64(b []byte) uint64 {
	_ = b[7]
	return uint64(ReadU32(b)) | uint64(ReadU32(b[4:]))<<32
}
