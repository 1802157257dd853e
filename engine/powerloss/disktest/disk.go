// Package disktest is a disk for tests, below SQLite. It records the operations on the databases in one folder, and makes writes and syncs
// fail or wait. From the record it makes possible contents of the disk after a power failure at any moment.
//
//quern:tests processes
package disktest

// #include <stdlib.h>
// #include "vfs.h"
import "C"

import (
	"encoding/binary"
	"errors"
	"sync"
	"unsafe"
)

// The kinds of operations.
const (
	Write    = C.disk_write
	Truncate = C.disk_truncate
	Sync     = C.disk_sync
	Delete   = C.disk_delete
	Marked   = C.disk_marked // At is the number that the test gave
)

// Op is something that happened on the disk.
type Op struct {
	Kind byte
	File int // in Trace.Names
	At   int64
	Data []byte // of a write
}

// Trace has the operations below a folder, in order.
type Trace struct {
	Names []string // of files, below the folder
	Ops   []Op
}

var register = sync.OnceValue(func() error {
	if C.disk_register() != 0 {
		return errors.New("disktest: SQLite takes no VFS")
	}
	return nil
})

// Begin records the operations below a folder from now on, on databases that are opened from now on. One folder at a time.
func Begin(folder string) error {
	if err := register(); err != nil {
		return err
	}
	name := C.CString(folder)
	defer C.free(unsafe.Pointer(name))
	C.disk_begin(name)
	return nil
}

// Mark notes a moment: work acknowledged before it must outlive any power failure after it.
func Mark(n int) { C.disk_mark(C.int64_t(n)) }

// End ends the trace, and gives it.
func End() Trace {
	var n C.size_t
	start := C.disk_end(&n)
	b := C.GoBytes(start, C.int(n))
	var t Trace
	for id := 0; ; id++ {
		name := C.disk_name(C.int(id))
		if name == nil {
			break
		}
		t.Names = append(t.Names, C.GoString(name))
	}
	for len(b) > 0 {
		op := Op{Kind: b[0], File: int(int32(binary.NativeEndian.Uint32(b[1:]))), At: int64(binary.NativeEndian.Uint64(b[5:]))}
		size := int(int32(binary.NativeEndian.Uint32(b[13:])))
		b = b[17:]
		if op.Kind == Write {
			op.Data, b = b[:size:size], b[size:]
		}
		t.Ops = append(t.Ops, op)
	}
	return t
}

// Never is a number of writes or syncs that no test makes.
const Never = -1

// Fail makes all writes and all syncs fail after this many of each: writes as on a full disk. Never: none fails.
func Fail(writes, syncs int) { C.disk_fail(C.long(writes), 1, C.long(syncs)) }

// Refuse makes all writes fail after this many, and no sync: as on a file system that has become read-only, or where files may not grow.
// Never: none fails.
func Refuse(writes int) { C.disk_fail(C.long(writes), 0, Never) }

// Break makes one write fail after this many: as on a medium with a fault, or, with room, for want of room that is there again right after
// it.
func Break(writes int, room bool) {
	noRoom := C.int(0)
	if room {
		noRoom = 1
	}
	C.disk_break(C.long(writes), noRoom)
}

// Count is how many operations of a kind a trace has.
func (t *Trace) Count(kind byte) (n int) {
	for _, op := range t.Ops {
		if op.Kind == kind {
			n++
		}
	}
	return n
}

// Hold makes every sync wait from now on, until release. The channel is closed when the first one waits, or at the release.
func Hold() (waits <-chan struct{}, release func()) {
	C.disk_gate(1)
	first := make(chan struct{})
	go func() {
		C.disk_await()
		close(first)
	}()
	return first, sync.OnceFunc(func() { C.disk_gate(0) })
}
