//go:build wasip1

// The guest is a plugin in plain Go for the tests of the rewriter: it scores rows with what Go code does all day, maps, slices,
// sorting, closures, strings and the collector, so that nearly every shape of code that the compiler emits is run.
package main

import (
	"sort"
	"strconv"
	"unsafe"
)

func main() {}

var kept [][]byte

//go:wasmexport quern_abi_1
func marker() {}

//go:wasmexport quern_alloc
func alloc(size int32) int32 {
	b := make([]byte, size)
	kept = append(kept, b)
	return int32(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

// score reads n (u32 at 8), the offset of an i64 column (u32 at 16) and of the scores (u32 at 20).
//
//go:wasmexport quern_score
func score(batch int32) int32 {
	base := unsafe.Pointer(uintptr(uint32(batch)))
	at := func(offset uint32) unsafe.Pointer { return unsafe.Add(base, offset) }
	n := *(*uint32)(at(8))
	column := unsafe.Slice((*int64)(at(*(*uint32)(at(16)))), n)
	scores := unsafe.Slice((*float64)(at(*(*uint32)(at(20)))), n)
	seen := map[string]int{}
	order := make([]int, n)
	for i, v := range column {
		order[i] = i
		seen["key-"+strconv.FormatInt(v%17, 10)]++
	}
	sort.SliceStable(order, func(a, b int) bool { return column[order[a]] < column[order[b]] })
	for rank, i := range order {
		common := seen["key-"+strconv.FormatInt(column[i]%17, 10)]
		scores[i] = float64(rank)*10 + float64(common)/3
	}
	return 0
}
