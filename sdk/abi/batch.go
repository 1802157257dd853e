package abi

import (
	"errors"
	"strconv"
)

// Values are the rows of one column: the slice that its type names is set, the others are nil. U32 serves Str columns as well.
type Values struct {
	I64   []int64
	U32   []uint32
	F64   []float64
	Valid []bool // of a nullable column: which rows are present; nil when all are
}

// Batch is one batch outside of any sandbox: the host is given one, a recording holds one, and tests of a plugin build one.
type Batch struct {
	Header
	Columns    []Values // in the manifest's order, context columns last, with one row each
	Dictionary []string // the strings of Str columns: id k is Dictionary[k-1], 0 is absent
}

// Check returns an error if the batch does not fit the columns: numbers of columns and rows, ids outside of the dictionary, strings
// that are too long.
func (b *Batch) Check(columns []Column) error {
	if b.Rows > MaxCapacity {
		return errors.New("abi: the batch has " + number(b.Rows) + " rows; at most " + number(MaxCapacity) + " fit")
	}
	if len(b.Columns) != len(columns) {
		return errors.New("abi: the batch has " + strconv.Itoa(len(b.Columns)) + " columns, want " + strconv.Itoa(len(columns)))
	}
	for _, text := range b.Dictionary {
		if len(text) > MaxStringBytes {
			return errors.New("abi: the dictionary has a string of " + strconv.Itoa(len(text)) + " bytes; at most " +
				number(MaxStringBytes) + " are allowed")
		}
	}
	for i := range columns {
		if err := b.checkColumn(&columns[i], &b.Columns[i]); err != nil {
			return err
		}
	}
	return nil
}

func (b *Batch) checkColumn(c *Column, v *Values) error {
	rows := int(c.Rows(b.Rows))
	got := 0
	switch c.Type {
	case I64:
		got = len(v.I64)
	case F64:
		got = len(v.F64)
	case U32, Str:
		got = len(v.U32)
	default:
		return errors.New("abi: column " + c.Name + " has no known type")
	}
	if got != rows {
		return errors.New("abi: column " + c.Name + " has " + strconv.Itoa(got) + " values of type " + c.Type.String() +
			", want " + strconv.Itoa(rows))
	}
	if v.Valid != nil && !c.Nullable {
		return errors.New("abi: column " + c.Name + " is not nullable and has validity")
	}
	if v.Valid != nil && len(v.Valid) != rows {
		return errors.New("abi: column " + c.Name + " has validity for " + strconv.Itoa(len(v.Valid)) + " rows, want " + strconv.Itoa(rows))
	}
	if c.Type == Str {
		if highest := highestOf(v.U32); int64(highest) > int64(len(b.Dictionary)) {
			return errors.New("abi: column " + c.Name + " has the id " + number(highest) + "; the dictionary has " +
				strconv.Itoa(len(b.Dictionary)) + " strings")
		}
	}
	return nil
}

func number(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

// highestOf is the largest number, 0 of none. It follows four maxima at a time: of one alone, each row would wait for the one before.
func highestOf(ids []uint32) uint32 {
	var a, b, c, d uint32
	for ; len(ids) >= 4; ids = ids[4:] {
		a, b, c, d = max(a, ids[0]), max(b, ids[1]), max(c, ids[2]), max(d, ids[3])
	}
	for _, id := range ids {
		a = max(a, id)
	}
	return max(a, b, c, d)
}
