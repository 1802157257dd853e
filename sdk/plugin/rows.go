//go:build !wasip1

package plugin

import (
	"fmt"
	"slices"

	"github.com/quern-queue/quern/sdk/abi"
)

// Rows is a batch under construction, for tests: NewBatch(2).I64("priority", 1, 2).ContextStr("warm_model", "x").
type Rows struct {
	header abi.Header
	values map[string]any // []int64, []uint32 or []string by column name
}

// NewBatch begins a batch of n candidates at time 0 with seed 0, of which one is wanted. The columns must be those that the
// plugin declares. Context columns that are not set are absent.
func NewBatch(n int) *Rows {
	return &Rows{header: abi.Header{Rows: uint32(n), Want: 1}, values: map[string]any{}}
}

// I64 sets a column; it needs one value per candidate.
func (r *Rows) I64(name string, values ...int64) *Rows { return r.set(name, values) }

// U32 sets a column; it needs one value per candidate.
func (r *Rows) U32(name string, values ...uint32) *Rows { return r.set(name, values) }

// Str sets a column; it needs one string per candidate.
func (r *Rows) Str(name string, values ...string) *Rows { return r.set(name, values) }

// Absent marks rows of a meta column as absent; its values there do not count. Set the column first.
func (r *Rows) Absent(name string, rows ...int) *Rows { return r.set("absent "+name, rows) }

// ContextI64 lets the reservation carry a number.
func (r *Rows) ContextI64(key string, v int64) *Rows { return r.set(abi.ContextPrefix+key, []int64{v}) }

// ContextStr lets the reservation carry a string.
func (r *Rows) ContextStr(key, v string) *Rows { return r.set(abi.ContextPrefix+key, []string{v}) }

// At sets the batch's time, milliseconds since 1970.
func (r *Rows) At(now int64) *Rows { r.header.Now = now; return r }

// Seeded sets the batch's seed.
func (r *Rows) Seeded(seed uint64) *Rows { r.header.Seed = seed; return r }

// Wanting sets how many chunks will be taken.
func (r *Rows) Wanting(n int) *Rows { r.header.Want = uint32(n); return r }

// Flagged sets abi.FlagDryRun and abi.FlagShadow.
func (r *Rows) Flagged(flags uint32) *Rows { r.header.Flags = flags; return r }

func (r *Rows) set(name string, values any) *Rows {
	r.values[name] = values
	return r
}

// data gives the rows of one column as the guest sees them.
func (r *Rows) data(c abi.Column, h host) (data, error) {
	n := int(c.Rows(r.header.Rows))
	var d data
	given := r.values[c.Name]
	present := given != nil
	if !present {
		if !c.Single {
			return data{}, fmt.Errorf("plugin: the batch lacks the column %s", c.Name)
		}
		given = map[abi.Type]any{abi.I64: []int64{0}, abi.Str: []string{""}}[c.Type]
	}
	got := 0
	switch values := given.(type) {
	case []int64:
		d.i64, got = slices.Clone(values), len(values)
	case []uint32:
		d.u32, got = slices.Clone(values), len(values)
	case []string:
		got = len(values)
		for _, text := range values {
			d.u32 = append(d.u32, h.intern(-1, text))
		}
	}
	_, isText := given.([]string)
	if (c.Type == abi.I64) != (d.i64 != nil) && got > 0 || (c.Type == abi.Str) != isText {
		return data{}, fmt.Errorf("plugin: the column %s is of type %v, the batch gives %T", c.Name, c.Type, given)
	}
	if got != n {
		return data{}, fmt.Errorf("plugin: the column %s has %d values, want %d", c.Name, got, n)
	}
	if !c.Nullable {
		return d, nil
	}
	d.valid = make([]bool, n)
	for i := range d.valid {
		d.valid[i] = present
	}
	absent, _ := r.values["absent "+c.Name].([]int)
	for _, i := range absent {
		if i < 0 || i >= n {
			return data{}, fmt.Errorf("plugin: row %d of the column %s is said to be absent; there are %d", i, c.Name, n)
		}
		d.valid[i] = false
	}
	for i, ok := range d.valid {
		if !ok && d.i64 != nil {
			d.i64[i] = 0
		} else if !ok {
			d.u32[i] = 0
		}
	}
	return d, nil
}
