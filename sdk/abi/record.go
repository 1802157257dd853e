package abi

import (
	"errors"
	"math"
)

// Record is the content of a .qbatch file: a batch as it was scored. Replaying it on the same module with the same configuration
// gives the same bits when the plugin's state is "reset" or "fresh".
type Record struct {
	Module  string // which module scored it: name@version sha256, for people; at most 256 bytes
	Config  []byte // the configuration in its canonical form, at most MaxConfigBytes
	Columns []Column
	Batch   Batch
	Scores  []float64 // one per row, or nil when the batch was not scored
}

// The limits of a .qbatch file, checked before anything is allocated.
const (
	RecordMagic     = 0x31425251 // "QRB1" read as a little-endian u32
	MaxRecordBytes  = 16 << 20
	MaxDictionary   = 64 << 10
	maxModuleBytes  = 256
	recordHeader    = 64
	recordHasScores = 1 << 31
	recordValid     = 1 << 2 // of a column: validity bytes follow its values
)

// AppendRecord appends the file's bytes:
//
//	 0 magic "QRB1"   4 header size 64   8 rows   12 columns   16 strings of the dictionary   20 flags, bit 31: scores follow
//	24 now_ms i64    32 seed u64        40 want   44 bytes of module   48 bytes of config      52 zeroes up to 64
//	module, config
//	per column: type u16, flags u16 (bit 0 nullable, 1 single row, 2 validity follows), bytes of name u32, name, values, validity
//	per string: its bytes u32, bytes
//	scores f64, when bit 31 is set
//	FNV-1a of all before it, u64
//
// Numbers are little-endian, nothing is padded. It refuses what ReadRecord would refuse.
func AppendRecord(dst []byte, r *Record) ([]byte, error) {
	if err := r.check(); err != nil {
		return dst, err
	}
	start, b := len(dst), &r.Batch
	w := writer{dst}
	flags := b.Flags &^ uint32(recordHasScores)
	if r.Scores != nil {
		flags |= recordHasScores
	}
	w.u32(RecordMagic, recordHeader, b.Rows, uint32(len(r.Columns)), uint32(len(b.Dictionary)), flags)
	w.u64(uint64(b.Now))
	w.u64(b.Seed)
	w.u32(b.Want, uint32(len(r.Module)), uint32(len(r.Config)), 0, 0, 0)
	w.b = append(append(w.b, r.Module...), r.Config...)
	for i := range r.Columns {
		w.column(&r.Columns[i], &b.Columns[i])
	}
	for _, text := range b.Dictionary {
		w.u32(uint32(len(text)))
		w.b = append(w.b, text...)
	}
	for _, score := range r.Scores {
		w.u64(math.Float64bits(score))
	}
	w.u64(fnv(w.b[start:]))
	if len(w.b)-start > MaxRecordBytes {
		return dst, errors.New("abi: the recording is over 16 MiB")
	}
	return w.b, nil
}

func (r *Record) check() error {
	switch {
	case len(r.Module) > maxModuleBytes:
		return errors.New("abi: the module's name in the recording is over 256 bytes")
	case len(r.Config) > MaxConfigBytes:
		return errors.New("abi: the configuration in the recording is over 64 KiB")
	case len(r.Columns) > MaxColumns:
		return errors.New("abi: the recording has more than 64 columns")
	case len(r.Batch.Dictionary) > MaxDictionary:
		return errors.New("abi: the dictionary of the recording has more than 65536 strings")
	case r.Batch.Flags&recordHasScores != 0:
		return errors.New("abi: bit 31 of a batch's flags belongs to the file")
	case r.Scores != nil && len(r.Scores) != int(r.Batch.Rows):
		return errors.New("abi: the recording has not one score per row")
	}
	for _, c := range r.Columns {
		if len(c.Name) == 0 || len(c.Name) > MaxNameBytes {
			return errors.New("abi: a column of the recording has a name of no or more than 80 bytes")
		}
	}
	return r.Batch.Check(r.Columns)
}

type writer struct{ b []byte }

func (w *writer) u32(values ...uint32) {
	for _, v := range values {
		w.b = append(w.b, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
	}
}

func (w *writer) u64(v uint64) { w.u32(uint32(v), uint32(v>>32)) }

func (w *writer) column(c *Column, v *Values) {
	flags := c.flags()
	if v.Valid != nil {
		flags |= recordValid
	}
	w.u32(uint32(c.Type)|flags<<16, uint32(len(c.Name)))
	w.b = append(w.b, c.Name...)
	for _, x := range v.I64 {
		w.u64(uint64(x))
	}
	for _, x := range v.F64 {
		w.u64(math.Float64bits(x))
	}
	w.u32(v.U32...)
	for _, ok := range v.Valid {
		if ok {
			w.b = append(w.b, 1)
		} else {
			w.b = append(w.b, 0)
		}
	}
}

func fnv(b []byte) uint64 {
	h := uint64(0xcbf29ce484222325)
	for _, c := range b {
		h = (h ^ uint64(c)) * 0x100000001b3
	}
	return h
}
