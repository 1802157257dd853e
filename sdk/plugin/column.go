package plugin

import (
	"math"

	"github.com/quern-queue/quern/sdk/abi"
)

// Column is a column handle, made by I64, U32, Str, ContextI64 or ContextStr.
type Column interface{ handle() *column }

type column struct {
	abi.Column
	index int // in the batch; -1 until it is registered
}

func (c *column) handle() *column { return c }

func fresh(c abi.Column) column { return column{Column: c, index: -1} }

// I64Column is a column of int64 values.
type I64Column struct{ column }

// U32Column is a column of uint32 values.
type U32Column struct{ column }

// StrColumn is a column of strings, as dictionary ids.
type StrColumn struct{ column }

// I64 is the candidate column of that name: submission_id, priority, age_ms, meta_i64:KEY, limit:KEY.
func I64(name string) *I64Column {
	return &I64Column{fresh(abi.Column{Name: name, Type: abi.I64})}
}

// U32 is the candidate column of that name: index, attempts, max_attempts, available, total, skipped,
// inflight_submission, inflight:KEY.
func U32(name string) *U32Column {
	return &U32Column{fresh(abi.Column{Name: name, Type: abi.U32})}
}

// Str is the candidate column of that name: meta_str:KEY.
func Str(name string) *StrColumn {
	return &StrColumn{fresh(abi.Column{Name: name, Type: abi.Str})}
}

// ContextI64Value is a whole number of the reservation's context.
type ContextI64Value struct{ column }

// ContextStrValue is a string of the reservation's context.
type ContextStrValue struct{ column }

// ContextI64 is the number that the reservation carries under key.
func ContextI64(key string) *ContextI64Value {
	return &ContextI64Value{fresh(abi.Context(key, abi.I64))}
}

// ContextStr is the string that the reservation carries under key.
func ContextStr(key string) *ContextStrValue {
	return &ContextStrValue{fresh(abi.Context(key, abi.Str))}
}

// Of gives one value per candidate; 0 where it is absent.
func (c *I64Column) Of(b *Batch) []int64 { return b.columns[c.index].i64[:b.rows] }

// Valid says for each candidate whether the value is present. Only meta columns may be absent; of others it is nil.
func (c *I64Column) Valid(b *Batch) []bool { return b.valid(c.index) }

// Of gives one value per candidate.
func (c *U32Column) Of(b *Batch) []uint32 { return b.columns[c.index].u32[:b.rows] }

// Of gives one id per candidate: equal ids are equal strings, in all string columns of the batch; 0 is absent.
func (c *StrColumn) Of(b *Batch) []uint32 { return b.columns[c.index].u32[:b.rows] }

// Valid says for each candidate whether the string is present.
func (c *StrColumn) Valid(b *Batch) []bool { return b.valid(c.index) }

// Of gives the number, or false when the reservation does not carry it.
func (c *ContextI64Value) Of(b *Batch) (int64, bool) {
	d := &b.columns[c.index]
	return d.i64[0], d.valid[0]
}

// Of gives the string's id, or 0 when the reservation does not carry it.
func (c *ContextStrValue) Of(b *Batch) uint32 { return b.columns[c.index].u32[0] }

// Batch is the batch of one call of Score. It and its slices are valid during the call only.
type Batch struct {
	rows    int
	header  abi.Header
	columns []data
	scores  []float64
	host    host
}

// data are the rows of one column, as many as ever fit.
type data struct {
	i64   []int64
	u32   []uint32
	valid []bool
}

func (b *Batch) valid(index int) []bool {
	if v := b.columns[index].valid; v != nil {
		return v[:b.rows]
	}
	return nil
}

// Rows is the number of candidates.
func (b *Batch) Rows() int { return b.rows }

// Now is the time of the batch in milliseconds since 1970. It does not move during the call.
func (b *Batch) Now() int64 { return b.header.Now }

// Seed is the only source of chance: the same batch scored again has the same seed.
func (b *Batch) Seed() uint64 { return b.header.Seed }

// Want is how many chunks will be taken.
func (b *Batch) Want() int { return int(b.header.Want) }

// DryRun says that the scores are not acted on.
func (b *Batch) DryRun() bool { return b.header.Flags&abi.FlagDryRun != 0 }

// Shadow says that the scores are only compared with those of another version.
func (b *Batch) Shadow() bool { return b.header.Flags&abi.FlagShadow != 0 }

// Scores is where the scores go, one per candidate in the order of the columns.
func (b *Batch) Scores() []float64 { return b.scores[:b.rows] }

// Skip passes candidate i over in this window.
func (b *Batch) Skip(i int) { b.scores[:b.rows][i] = math.NaN() }

// Text appends the string of an id to dst; an id that does not exist appends nothing. Comparing ids is 40 times cheaper.
func (b *Batch) Text(dst []byte, id uint32) []byte {
	n := len(dst)
	for cap(dst)-n < abi.MaxStringBytes {
		dst = append(dst[:cap(dst)], make([]byte, abi.MaxStringBytes)...)[:n]
	}
	got := b.host.text(id, dst[n:n+abi.MaxStringBytes])
	return dst[:n+max(0, min(got, abi.MaxStringBytes))]
}
