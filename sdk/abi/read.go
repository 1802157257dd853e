package abi

import (
	"errors"
	"math"
	"strconv"
)

// ReadRecord reads a .qbatch file. It refuses files over 16 MiB, a wrong checksum, counts that the bytes cannot hold, and every batch
// that Check refuses. It allocates nothing larger than a small multiple of the file. The Record shares no memory with the file.
func ReadRecord(file []byte) (*Record, error) {
	if len(file) > MaxRecordBytes {
		return nil, errors.New("abi: the recording is over 16 MiB")
	}
	if len(file) < recordHeader+8 || ReadU32(file) != RecordMagic {
		return nil, errors.New("abi: this is no recorded batch: it does not begin with QRB1")
	}
	body := file[:len(file)-8]
	if fnv(body) != ReadU64(file[len(body):]) {
		return nil, errors.New("abi: the recording is damaged: its checksum is another")
	}
	r := &reader{b: body}
	out := r.record()
	if r.failed {
		return nil, errors.New("abi: the recording is not valid near byte " + strconv.Itoa(r.at) +
			": it ends early or has a count, a flag or a name outside of its limits")
	}
	if r.at != len(body) {
		return nil, errors.New("abi: the recording has " + strconv.Itoa(len(body)-r.at) + " bytes too many")
	}
	if err := out.check(); err != nil {
		return nil, err
	}
	return out, nil
}

// reader walks over the file. After the first failure everything it returns is zero or empty.
type reader struct {
	b      []byte
	at     int
	failed bool
}

func (r *reader) take(n int) []byte {
	if r.failed || n < 0 || n > len(r.b)-r.at {
		r.failed = true
		return nil
	}
	r.at += n
	return r.b[r.at-n : r.at]
}

func (r *reader) u32() uint32 {
	if b := r.take(4); b != nil {
		return ReadU32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.take(8); b != nil {
		return ReadU64(b)
	}
	return 0
}

// most reads a count of at most limit.
func (r *reader) most(limit uint32) int {
	n := r.u32()
	if n > limit {
		r.failed = true
		return 0
	}
	return int(n)
}

func (r *reader) record() *Record {
	out := &Record{}
	b := &out.Batch
	r.u32() // the magic
	if r.u32() != recordHeader {
		r.failed = true
	}
	b.Rows = uint32(r.most(MaxCapacity))
	columns, texts := r.most(MaxColumns), r.most(MaxDictionary)
	flags := r.u32()
	b.Flags = flags &^ uint32(recordHasScores)
	b.Now, b.Seed, b.Want = int64(r.u64()), r.u64(), r.u32()
	module, config := r.most(maxModuleBytes), r.most(MaxConfigBytes)
	for range 3 { // reserved
		if r.u32() != 0 {
			r.failed = true
		}
	}
	out.Module = string(r.take(module))
	if config > 0 {
		out.Config = append([]byte(nil), r.take(config)...)
	}
	for i := 0; i < columns && !r.failed; i++ {
		c, v := r.column(b.Rows)
		out.Columns, b.Columns = append(out.Columns, c), append(b.Columns, v)
	}
	for i := 0; i < texts && !r.failed; i++ {
		b.Dictionary = append(b.Dictionary, string(r.take(r.most(MaxStringBytes))))
	}
	if flags&recordHasScores != 0 {
		out.Scores = r.floats(int(b.Rows))
	}
	return out
}

func (r *reader) column(rows uint32) (Column, Values) {
	kind := r.u32()
	flags := kind >> 16
	c := Column{Type: Type(kind & 0xffff), Nullable: flags&FlagNullable != 0, Single: flags&FlagSingle != 0}
	if flags&^uint32(FlagNullable|FlagSingle|recordValid) != 0 {
		r.failed = true
	}
	c.Name = string(r.take(r.most(MaxNameBytes)))
	n := int(c.Rows(rows))
	var v Values
	switch c.Type {
	case I64:
		v.I64 = make([]int64, 0, min(n, (len(r.b)-r.at)/8))
		for range n {
			v.I64 = append(v.I64, int64(r.u64()))
		}
	case F64:
		v.F64 = r.floats(n)
	case U32, Str:
		v.U32 = make([]uint32, 0, min(n, (len(r.b)-r.at)/4))
		for range n {
			v.U32 = append(v.U32, r.u32())
		}
	default:
		r.failed = true
	}
	if flags&recordValid != 0 {
		v.Valid = r.bools(n)
	}
	return c, v
}

func (r *reader) floats(n int) []float64 {
	out := make([]float64, 0, min(n, (len(r.b)-r.at)/8))
	for range n {
		out = append(out, math.Float64frombits(r.u64()))
	}
	return out
}

func (r *reader) bools(n int) []bool {
	out := make([]bool, 0, n)
	for _, x := range r.take(n) {
		if x > 1 {
			r.failed = true
		}
		out = append(out, x == 1)
	}
	return out
}
