package abi_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/quern-queue/quern/sdk/abi"
)

func columns(t testing.TB, names ...string) (out []abi.Column) {
	t.Helper()
	for _, name := range names {
		c, ok := abi.Candidate(name)
		if !ok {
			t.Fatalf("no column is called %q", name)
		}
		out = append(out, c)
	}
	return out
}

// The bytes of a small region are exactly those of the picture.
func TestLayoutBytes(t *testing.T) {
	t.Parallel()
	l, err := abi.NewLayout(append(columns(t, "priority", "attempts", "meta_str:model"), abi.Context("zone", abi.I64)), 3)
	if err != nil {
		t.Fatal(err)
	}
	if want := (abi.Layout{Columns: l.Columns, Capacity: 3, Offset: []uint32{128, 160, 176, 208}, Validity: []uint32{0, 0, 192, 224}, Scores: 240, Size: 272}); !reflect.DeepEqual(l, want) {
		t.Fatalf("got %+v, want %+v", l, want)
	}
	region := bytes.Repeat([]byte{0xee}, int(l.Size))
	l.Start(region)
	l.Begin(region, abi.Header{Rows: 2, Now: 0x0102030405060708, Seed: 0x1112131415161718, Want: 7, Flags: abi.FlagShadow})
	want := []byte("QRN1" + "\x40\x00\x00\x00" + "\x02\x00\x00\x00" + "\x04\x00\x00\x00" + "\x40\x00\x00\x00" + "\xf0\x00\x00\x00" +
		"\x08\x07\x06\x05\x04\x03\x02\x01" + "\x18\x17\x16\x15\x14\x13\x12\x11" + "\x07\x00\x00\x00" + "\x02\x00\x00\x00" + "\x03\x00\x00\x00" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
		"\x80\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
		"\xa0\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
		"\xb0\x00\x00\x00\x04\x00\x01\x00\xc0\x00\x00\x00\x00\x00\x00\x00" +
		"\xd0\x00\x00\x00\x01\x00\x03\x00\xe0\x00\x00\x00\x00\x00\x00\x00")
	if got := region[:128]; !bytes.Equal(got, want) {
		t.Errorf("got  %x\nwant %x", got, want)
	}
	for i, c := range region[128:] {
		if c != 0xee {
			t.Fatalf("byte %d of the values is written: %#x", 128+i, c)
		}
	}
}

// Nothing of a region overlaps, whatever the columns, and everything is aligned.
func TestLayoutNeverOverlaps(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 300 {
		var cols []abi.Column
		for range rnd.IntN(abi.MaxColumns + 1) {
			cols = append(cols, abi.Column{Name: "x", Type: abi.Type(1 + rnd.IntN(4)), Nullable: rnd.IntN(2) == 0, Single: rnd.IntN(4) == 0})
		}
		capacity := 1 + rnd.IntN(abi.MaxCapacity)
		l, err := abi.NewLayout(cols, capacity)
		if err != nil {
			t.Fatal(err)
		}
		used := make([]bool, l.Size)
		mark := func(what string, at, size uint32) {
			if at%abi.Align != 0 {
				t.Fatalf("round %d: %s at %d is not aligned", round, what, at)
			}
			for i := at; i < at+size; i++ {
				if used[i] {
					t.Fatalf("round %d: %s overlaps at byte %d", round, what, i)
				}
				used[i] = true
			}
		}
		mark("header", 0, abi.HeaderSize+uint32(len(cols))*abi.DescriptorSize)
		for i, c := range cols {
			mark("values", l.Offset[i], c.Rows(uint32(capacity))*c.Type.Size())
			if c.Nullable {
				mark("validity", l.Validity[i], c.Rows(uint32(capacity)))
			}
		}
		mark("scores", l.Scores, uint32(capacity)*8)
	}
	for _, capacity := range []int{-1, 0, abi.MaxCapacity + 1} {
		if _, err := abi.NewLayout(nil, capacity); err == nil {
			t.Errorf("capacity %d was accepted", capacity)
		}
	}
}

// The table of columns knows each name once, with its type, and no other.
func TestColumnNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]abi.Column{
		"priority": {Type: abi.I64}, "available": {Type: abi.U32}, "limit:k": {Type: abi.I64}, "inflight:a.b-C_9": {Type: abi.U32},
		"meta_i64:k": {Type: abi.I64, Nullable: true}, "meta_str:k": {Type: abi.Str, Nullable: true},
	} {
		want.Name = name
		if got, ok := abi.Candidate(name); !ok || got != want {
			t.Errorf("Candidate(%q) = %+v %v, want %+v", name, got, ok, want)
		}
	}
	for _, name := range []string{"", "Priority", "remaining", "size_hint", "meta_i64", "meta_i64:", "meta_f64:k", "priority:x", "limit:a b", "context.zone", "inflight:" + string(bytes.Repeat([]byte{'a'}, 65))} {
		if got, ok := abi.Candidate(name); ok {
			t.Errorf("Candidate(%q) = %+v, want none", name, got)
		}
	}
}

func record(t testing.TB) *abi.Record {
	return &abi.Record{
		Module: "deadline-first@1.0.0 sha256:00", Config: []byte(`{"a":1}`),
		Columns: append(columns(t, "priority", "attempts", "meta_str:model"), abi.Column{Name: "x", Type: abi.F64}, abi.Context("zone", abi.I64)),
		Batch: abi.Batch{
			Header: abi.Header{Rows: 2, Now: -5, Seed: 9, Want: 1, Flags: abi.FlagDryRun},
			Columns: []abi.Values{
				{I64: []int64{1, -2}},
				{U32: []uint32{3, 4}},
				{U32: []uint32{0, 2}, Valid: []bool{false, true}},
				{F64: []float64{math.Inf(1), 0.5}},
				{I64: []int64{7}, Valid: []bool{true}},
			},
			Dictionary: []string{"", "llama"},
		},
		Scores: []float64{1, math.Inf(-1)},
	}
}

// A recording comes back as it was, NaN bits included.
func TestRecordRoundTrip(t *testing.T) {
	t.Parallel()
	r := record(t)
	file, err := abi.AppendRecord([]byte("before"), r)
	if err != nil {
		t.Fatal(err)
	}
	got, err := abi.ReadRecord(file[6:])
	if err != nil || !reflect.DeepEqual(got, r) {
		t.Errorf("got  %+v %v\nwant %+v", got, err, r)
	}
	r.Scores[0] = math.Float64frombits(0x7ff8000000001234)
	file, _ = abi.AppendRecord(nil, r)
	if got, err := abi.ReadRecord(file); err != nil || math.Float64bits(got.Scores[0]) != 0x7ff8000000001234 {
		t.Errorf("a NaN changed its bits: %v %v", got, err)
	}
}

// Every damaged byte is noticed, and so is every shortened file.
func TestRecordDamage(t *testing.T) {
	t.Parallel()
	file, err := abi.AppendRecord(nil, record(t))
	if err != nil {
		t.Fatal(err)
	}
	for i := range file {
		damaged := bytes.Clone(file)
		damaged[i] ^= 0x20
		if _, err := abi.ReadRecord(damaged); err == nil {
			t.Fatalf("byte %d of %d was changed without an error", i, len(file))
		}
		if _, err := abi.ReadRecord(file[:i]); err == nil {
			t.Fatalf("the first %d of %d bytes were accepted", i, len(file))
		}
	}
}

// AppendRecord refuses a record whose parts do not fit.
func TestRecordRefuses(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*abi.Record){
		"rows":       func(r *abi.Record) { r.Batch.Rows = 3 },
		"id":         func(r *abi.Record) { r.Batch.Columns[2].U32[1] = 3 },
		"validity":   func(r *abi.Record) { r.Batch.Columns[0].Valid = []bool{true, true} },
		"columns":    func(r *abi.Record) { r.Columns = r.Columns[1:] },
		"scores":     func(r *abi.Record) { r.Scores = r.Scores[1:] },
		"flag":       func(r *abi.Record) { r.Batch.Flags = 1 << 31 },
		"name":       func(r *abi.Record) { r.Columns[0].Name = "" },
		"dictionary": func(r *abi.Record) { r.Batch.Dictionary[0] = string(make([]byte, abi.MaxStringBytes+1)) },
		"config":     func(r *abi.Record) { r.Config = make([]byte, abi.MaxConfigBytes+1) },
	} {
		r := record(t)
		spoil(r)
		if file, err := abi.AppendRecord(nil, r); err == nil {
			t.Errorf("%s: %d bytes were written", name, len(file))
		}
	}
}

// FuzzRecord holds: whatever is read can be written again, to the same bytes.
func FuzzRecord(f *testing.F) {
	file, err := abi.AppendRecord(nil, record(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(file[:len(file)-8])
	f.Fuzz(func(t *testing.T, body []byte) {
		// The checksum would hide everything behind it from the fuzzer: it is put right.
		file := make([]byte, len(body)+8)
		copy(file, body)
		h := uint64(0xcbf29ce484222325)
		for _, c := range body {
			h = (h ^ uint64(c)) * 0x100000001b3
		}
		abi.PutU64(file[len(body):], h)
		r, err := abi.ReadRecord(file)
		if err != nil {
			return
		}
		again, err := abi.AppendRecord(nil, r)
		if err != nil || !bytes.Equal(again, file) {
			t.Errorf("read and written again: %v\ngot  %x\nwant %x", err, again, file)
		}
	})
}
