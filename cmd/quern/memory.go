package main

import (
	"bytes"
	"errors"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"
)

// auto is the value of an option that the server computes from the memory that the process may use.
const auto = "auto"

// memoryConfig bounds the memory of the process.
type memoryConfig struct {
	ViewMemory  int64 // bytes, of indexes
	MaxLive     int64 // submissions; 0: any number
	MemoryLimit int64 // bytes, of all; 0: none
}

// setViewMemory reads a size, or takes an eighth of the usable memory. It takes no more, because dropped indexes stay in memory until
// the garbage collector frees them.
func setViewMemory(c *Config, text string) error {
	if text == auto {
		c.ViewMemory = max(usableMemory()/8, minViewMemory)
		return nil
	}
	if sizeBetween(&c.ViewMemory, text, minViewMemory, maxViewMemory) != nil {
		return errors.New("must be auto, or from " + formatSize(minViewMemory) + " to " + formatSize(maxViewMemory))
	}
	return nil
}

// setMemoryLimit reads a size, or takes four fifths of the usable memory.
func setMemoryLimit(c *Config, text string) error {
	switch {
	case text == auto:
		c.MemoryLimit = max(usableMemory()/5*4, minMemoryLimit)
	case text == "0":
		c.MemoryLimit = 0
	case sizeBetween(&c.MemoryLimit, text, minMemoryLimit, maxMemoryLimit) != nil:
		return errors.New("must be auto, from " + formatSize(minMemoryLimit) + " to " + formatSize(maxMemoryLimit) + ", or 0 for none")
	}
	return nil
}

// setMaxLive reads a number of submissions, or takes as many as fit into half of the usable memory: each takes about a kilobyte.
func setMaxLive(c *Config, text string) error {
	if text == auto {
		c.MaxLive = max(usableMemory()/2000, 1000)
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > maxLive {
		return errors.New("must be auto, a number from 1 to 1,000,000,000, or 0 for any number")
	}
	c.MaxLive = n
	return nil
}

const maxLive = 1_000_000_000

const (
	minMemoryLimit = 64 << 20
	maxMemoryLimit = 1 << 40
	minViewMemory  = 16 << 20
	maxViewMemory  = 1 << 40
)

// usableMemory returns how many bytes of memory the process may use: the least of GOMEMLIMIT, the limits of its control groups, and the
// memory of the machine; or 4 GiB if none of these is known.
func usableMemory() int64 {
	least := debug.SetMemoryLimit(-1)
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if text, err := os.ReadFile(file); err == nil {
			if n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64); err == nil && n > 0 { // else it is "max"
				least = min(least, n)
			}
		}
	}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		least = min(least, totalMemory(string(text)))
	}
	if least == math.MaxInt64 {
		return 4 << 30
	}
	return least
}

// totalMemory returns the memory of the machine, from the text of /proc/meminfo.
func totalMemory(meminfo string) int64 {
	for line := range strings.Lines(meminfo) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == "MemTotal:" && fields[2] == "kB" {
			if n, err := strconv.ParseInt(fields[1], 10, 64); err == nil && n > 0 {
				return n << 10
			}
		}
	}
	return math.MaxInt64
}

// limitMemory makes the garbage collector work harder before the process uses an eighth more than the limit above which the server
// refuses inserts. The eighth is for the collector: with less room it would run all the time. 0: no limit.
func limitMemory(limit int64) {
	if limit > 0 {
		debug.SetMemoryLimit(min(debug.SetMemoryLimit(-1), limit+limit/8))
	}
}

// collectEvery is how long the server waits at least between two garbage collections of its own.
const collectEvery = 5 * time.Second

// measured returns usedMemory for a server with this limit, 0 for none. Above the limit it collects the garbage first, now and then: an
// idle server would not, so it would not notice that work has ended, and go on refusing inserts.
func measured(limit int64) func() int64 {
	var collected time.Time
	return func() int64 {
		used := usedMemory()
		if limit > 0 && used >= limit && time.Since(collected) >= collectEvery {
			runtime.GC()
			collected, used = time.Now(), usedMemory()
		}
		return used
	}
}

// usedMemory returns the memory of the process in bytes, without what the garbage collector can free: the live part of Go's heap as of
// the last collection, and everything outside of this heap, such as SQLite's caches and the memory of plugins.
func usedMemory() int64 {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(samples)
	of := func(i int) int64 { return int64(samples[i].Value.Uint64()) }
	live, heap, all := of(0), of(1)+of(2)+of(3), of(4)-of(5)
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		all = max(all, residentMemory(string(text)))
	}
	return live + max(all-heap, 0)
}

// residentMemory returns the bytes that a process has in memory without files, from the text of /proc/PID/statm; 0 if it has none.
func residentMemory(statm string) int64 {
	fields := strings.Fields(statm)
	if len(fields) < 3 {
		return 0
	}
	resident, failed := strconv.ParseInt(fields[1], 10, 64)
	shared, failedToo := strconv.ParseInt(fields[2], 10, 64)
	if failed != nil || failedToo != nil {
		return 0
	}
	return (resident - shared) * int64(os.Getpagesize())
}
