package plugin

import (
	"unsafe"

	"github.com/quern-queue/quern/sdk/abi"
)

// This file is the sandbox's side: the module's exports and imports. Addresses are uint32, the width of the memory.

//go:wasmimport quern_v1 log
func hostLog(level int32, text unsafe.Pointer, n uint32)

//go:wasmimport quern_v1 log_enabled
func hostLogEnabled(level int32) int32

//go:wasmimport quern_v1 metric_add
func hostMetricAdd(id int32, v float64)

//go:wasmimport quern_v1 intern
func hostIntern(column int32, text unsafe.Pointer, n uint32) int32

//go:wasmimport quern_v1 str
func hostStr(id int32, buf unsafe.Pointer, n uint32) int32

type sandbox struct{}

func newHost() host { return sandbox{} }

func (sandbox) log(level int, text string) {
	hostLog(int32(level), unsafe.Pointer(unsafe.StringData(text)), uint32(len(text)))
}
func (sandbox) logEnabled(level int) bool  { return hostLogEnabled(int32(level)) != 0 }
func (sandbox) add(counter int, v float64) { hostMetricAdd(int32(counter), v) }
func (sandbox) intern(column int, text string) uint32 {
	return uint32(hostIntern(int32(column), unsafe.Pointer(unsafe.StringData(text)), uint32(len(text))))
}
func (sandbox) text(id uint32, buf []byte) int {
	return int(hostStr(int32(id), unsafe.Pointer(unsafe.SliceData(buf)), uint32(len(buf))))
}

// rooms keep the memory that the host was given: the collector must see it for as long as the instance lives.
type rooms struct {
	kept [][]uint64
	base unsafe.Pointer // the region whose columns the batch's slices lie over
}

var given = &rooms{}

//go:wasmexport quern_abi_1
func marker() {}

//go:wasmexport quern_alloc
func alloc(size uint32) unsafe.Pointer { return given.add(size) }

func (r *rooms) add(size uint32) unsafe.Pointer {
	room := make([]uint64, size/8+1)
	r.kept = append(r.kept, room)
	return unsafe.Pointer(&room[0])
}

//go:wasmexport quern_init
func start(config unsafe.Pointer, n uint32) int32 {
	s := registered.scorer
	if s == nil {
		sandbox{}.log(abi.LevelError, "plugin: Register was not called; call it in the initialiser of a package variable")
		return 2
	}
	if err := s.start(over[byte](config, 0, n)); err != nil {
		s.host.log(abi.LevelError, err.Error())
		return 1
	}
	return 0
}

//go:wasmexport quern_score
func score(base unsafe.Pointer) int32 {
	s := registered.scorer
	if s == nil {
		return 2
	}
	head := over[byte](base, 0, abi.HeaderSize)
	if given.base != base {
		if abi.ReadU32(head) != abi.Magic || abi.ReadU32(head[abi.OffColumns:]) != uint32(len(s.columns)) {
			return 3
		}
		s.batch.lie(base, head)
		given.set(base)
	}
	b := &s.batch
	b.rows = int(abi.ReadU32(head[abi.OffRows:]))
	b.header.Now = int64(abi.ReadU64(head[abi.OffNow:]))
	b.header.Seed = abi.ReadU64(head[abi.OffSeed:])
	b.header.Want = abi.ReadU32(head[abi.OffWant:])
	b.header.Flags = abi.ReadU32(head[abi.OffFlags:])
	s.plugin.Score(b)
	return 0
}

func (r *rooms) set(base unsafe.Pointer) { r.base = base }

// lie puts the slices of the batch over the region. Descriptors do not change, so once is enough.
func (b *Batch) lie(base unsafe.Pointer, head []byte) {
	capacity := abi.ReadU32(head[abi.OffCapacity:])
	descriptors := abi.ReadU32(head[abi.OffDescriptors:])
	for i := range b.columns {
		d := over[byte](base, descriptors+uint32(i)*abi.DescriptorSize, abi.DescriptorSize)
		at, kind, validity := abi.ReadU32(d), abi.ReadU32(d[4:]), abi.ReadU32(d[8:])
		rows := abi.Column{Single: kind>>16&abi.FlagSingle != 0}.Rows(capacity)
		c := &b.columns[i]
		switch abi.Type(kind & 0xffff) {
		case abi.I64:
			c.i64 = over[int64](base, at, rows)
		case abi.U32, abi.Str:
			c.u32 = over[uint32](base, at, rows)
		}
		if validity != 0 {
			c.valid = over[bool](base, validity, rows)
		}
	}
	b.scores = over[float64](base, abi.ReadU32(head[abi.OffScores:]), capacity)
}

// over is a slice over n values that begin at that offset.
func over[T any](base unsafe.Pointer, at, n uint32) []T {
	return unsafe.Slice((*T)(unsafe.Add(base, at)), n)
}

// Main is for the main function of a plugin. The host never runs it.
func Main() {}
