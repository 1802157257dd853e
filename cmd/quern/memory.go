package main

import (
	"bytes"
	"errors"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// auto is the value of an option that is worked out from the memory that the process may use.
const auto = "auto"

// usableMemory is how much memory the process may use, in bytes: the least of GOMEMLIMIT, the limits of its control groups and what the
// machine has; where none of them is known, 4 GiB.
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

// totalMemory is what /proc/meminfo says the machine has.
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

// setViewMemory takes a size, or an eighth of the memory there is: the indexes of as many again may be in use for a moment until the
// collector frees them.
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

// setMaxLive takes a number of submissions, or as many as half of the memory there is has room for: each takes about a kilobyte.
func setMaxLive(c *Config, text string) error {
	if text == auto {
		c.MaxLive = max(usableMemory()/2000, 1000)
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > maxLive {
		return errors.New("must be auto, a number from 1 to 1000000000, or 0 for any number")
	}
	c.MaxLive = n
	return nil
}

const maxLive = 1_000_000_000

const (
	minViewMemory = 16 << 20
	maxViewMemory = 1 << 40
)
