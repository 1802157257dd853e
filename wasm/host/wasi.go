package host

import (
	"math"
	"strings"

	"github.com/quern-queue/quern/sdk/abi"
)

// The 17 functions of WASI preview 1 that the runtimes of Go, Rust and Zig import. There are no arguments, no environment and no
// files but stdout and stderr, which go to the log; the clock stands and chance is seeded.

// Numbers of WASI's errno.
const (
	success        = 0
	badDescriptor  = 8
	fault          = 21
	invalid        = 28
	notSupported   = 58
	illegalSeek    = 70
	maxVectors     = 1024
	maxSubscribed  = 64
	characterType  = 2 // of a file descriptor: a terminal or a pipe
	subscription   = 48
	event          = 32
	clockRealtime  = 0
	clockMonotonic = 1
)

// guestClock is the time that a guest sees: the batch's, plus the time that the guest slept. The monotonic clock also moves a
// microsecond with each look, because some runtimes spin until it has.
type guestClock struct {
	real      int64 // nanoseconds since 1970
	monotonic int64
}

// set begins a batch. keep goes on from the monotonic clock of the batch before; without it, what is read depends on the batch only.
func (c *guestClock) set(now int64, keep bool) {
	const most = math.MaxInt64 / 4
	c.real = min(max(now, 0), most/1_000_000) * 1_000_000
	if !keep || c.monotonic < c.real {
		c.monotonic = c.real
	}
}

func (c *guestClock) sleep(ns uint64) {
	const most = math.MaxInt64 / 4
	step := int64(min(ns, most))
	c.real = min(c.real, most) + step
	c.monotonic = min(c.monotonic, most) + step
}

func wasiFunctions() []function {
	constant := func(errno uint64) func(*guestCall) {
		return func(g *guestCall) { g.stack[0] = errno }
	}
	list := []function{
		{name: "args_get", shape: "ii:i", do: constant(success)},
		{name: "args_sizes_get", shape: "ii:i", do: noStrings},
		{name: "environ_get", shape: "ii:i", do: constant(success)},
		{name: "environ_sizes_get", shape: "ii:i", do: noStrings},
		{name: "clock_time_get", shape: "iIi:i", do: clockTime},
		{name: "random_get", shape: "ii:i", do: random},
		{name: "fd_write", shape: "iiii:i", do: fdWrite},
		{name: "fd_close", shape: "i:i", do: onStandard(success)},
		{name: "fd_fdstat_get", shape: "ii:i", do: fdStat},
		{name: "fd_fdstat_set_flags", shape: "ii:i", do: onStandard(success)},
		{name: "fd_prestat_get", shape: "ii:i", do: constant(badDescriptor)},
		{name: "fd_prestat_dir_name", shape: "iii:i", do: constant(badDescriptor)},
		{name: "fd_read", shape: "iiii:i", do: fdRead},
		{name: "fd_seek", shape: "iIii:i", do: onStandard(illegalSeek)},
		{name: "poll_oneoff", shape: "iiii:i", do: poll},
		{name: "proc_exit", shape: "i:", do: exit},
		{name: "sched_yield", shape: ":i", do: constant(success)},
	}
	for k := range list {
		list[k].module = "wasi_snapshot_preview1"
	}
	return list
}

// onStandard answers for stdin, stdout and stderr; other descriptors do not exist.
func onStandard(errno uint64) func(*guestCall) {
	return func(g *guestCall) {
		if g.u32(0) > 2 {
			g.stack[0] = badDescriptor
			return
		}
		g.stack[0] = errno
	}
}

// answer is success when all was written, else the error of an address outside of the memory.
func (g *guestCall) answer(ok bool) {
	g.stack[0] = fault
	if ok {
		g.stack[0] = success
	}
}

func noStrings(g *guestCall) {
	g.answer(g.memory.WriteUint32Le(g.u32(0), 0) && g.memory.WriteUint32Le(g.u32(1), 0))
}

func clockTime(g *guestCall) {
	c := &g.call.clock
	now := c.real
	switch g.u32(0) {
	case clockRealtime:
	case clockMonotonic:
		c.monotonic += 1000
		now = c.monotonic
	default:
		g.stack[0] = invalid
		return
	}
	g.answer(g.memory.WriteUint64Le(g.u32(2), uint64(now)))
}

// random fills with SplitMix64 (Steele, Lea, Flood 2014), which goes on from the batch's seed.
func random(g *guestCall) {
	b := g.bytes("random_get", g.u32(0), g.u32(1))
	var word [8]byte
	for len(b) > 0 {
		g.call.chance += 0x9e3779b97f4a7c15
		z := g.call.chance
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		abi.PutU64(word[:], z^z>>31)
		b = b[copy(b, word[:]):]
	}
	g.stack[0] = success
}

func fdWrite(g *guestCall) {
	fd, vectors, n, written := g.u32(0), g.u32(1), g.u32(2), g.u32(3)
	switch {
	case fd != 1 && fd != 2:
		g.stack[0] = badDescriptor
		return
	case n > maxVectors:
		g.stack[0] = invalid
		return
	}
	list := g.bytes("fd_write", vectors, n*8)
	total := uint64(0)
	for k := range n {
		p := g.bytes("fd_write", abi.ReadU32(list[k*8:]), abi.ReadU32(list[k*8+4:]))
		g.call.log.write(fd, p)
		total += uint64(len(p))
	}
	g.answer(total <= math.MaxUint32 && g.memory.WriteUint32Le(written, uint32(total)))
}

func fdRead(g *guestCall) {
	if g.u32(0) != 0 {
		g.stack[0] = badDescriptor
		return
	}
	g.answer(g.memory.WriteUint32Le(g.u32(3), 0)) // the end of the file
}

func fdStat(g *guestCall) {
	if g.u32(0) > 2 {
		g.stack[0] = badDescriptor
		return
	}
	var stat [24]byte
	stat[0] = characterType
	g.answer(g.memory.Write(g.u32(1), stat[:]))
}

// poll is how guests sleep: the clock moves to the end of the shortest sleep at once. Descriptors are never ready.
func poll(g *guestCall) {
	in, out, n, count := g.u32(0), g.u32(1), g.u32(2), g.u32(3)
	if n == 0 || n > maxSubscribed {
		g.stack[0] = invalid
		return
	}
	list := append([]byte(nil), g.bytes("poll_oneoff", in, n*subscription)...)
	g.bytes("poll_oneoff", out, n*event)
	c := &g.call.clock
	least, others := uint64(math.MaxUint64), 0
	until := func(s []byte) uint64 {
		timeout := abi.ReadU64(s[24:])
		if abi.ReadU32(s[40:])&1 == 0 {
			return timeout
		}
		now := c.real
		if abi.ReadU32(s[16:]) == clockMonotonic {
			now = c.monotonic
		}
		return timeout - min(timeout, uint64(now))
	}
	waits := make([]uint64, n)
	for k := range n {
		s := list[k*subscription:][:subscription]
		if s[8] != 0 {
			others++
			continue
		}
		waits[k] = until(s)
		least = min(least, waits[k])
	}
	if others == 0 {
		c.sleep(least)
	}
	events := uint32(0)
	for k := range n {
		s := list[k*subscription:][:subscription]
		if s[8] == 0 && (others > 0 && waits[k] > 0 || waits[k] > least) {
			continue
		}
		var e [event]byte
		copy(e[:8], s[:8])
		if e[10] = s[8]; s[8] != 0 {
			e[8] = notSupported
		}
		g.memory.Write(out+events*event, e[:])
		events++
	}
	g.answer(g.memory.WriteUint32Le(count, events))
}

// exit ends the instance. A Go guest that panics has said why on stderr before.
func exit(g *guestCall) {
	g.call.log.flush(1)
	g.call.log.flush(2)
	detail := lastOf(g.call.log.lines)
	for _, line := range g.call.log.lines {
		if strings.HasPrefix(line.Text, "panic: ") || strings.HasPrefix(line.Text, "fatal error: ") {
			detail = line.Text
			break
		}
	}
	g.fail(&Fault{Kind: Exit, Code: int32(g.u32(0)), Detail: detail})
}
