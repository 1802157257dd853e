package main

import (
	"math"
	"testing"
)

// The memory of the machine is read from the kernel's text, and any other text means no limit. The options that follow from memory
// are within their ranges.
func TestUsableMemory(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"MemTotal:       24117248 kB\nMemFree:         1 kB\n": 24117248 << 10,
		"MemFree:         1 kB\n":                              math.MaxInt64,
		"MemTotal: lots kB\n":                                  math.MaxInt64,
		"":                                                     math.MaxInt64,
	} {
		if got := totalMemory(text); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
	var c Config
	if err := setViewMemory(&c, auto); err != nil || c.ViewMemory < minViewMemory || c.ViewMemory > usableMemory() {
		t.Errorf("views may take %d of %d bytes: %v", c.ViewMemory, usableMemory(), err)
	}
	if err := setMaxLive(&c, auto); err != nil || c.MaxLive < 1000 || c.MaxLive*1000 > max(usableMemory(), 1_000_000) {
		t.Errorf("%d submissions of a kilobyte may be open in %d bytes: %v", c.MaxLive, usableMemory(), err)
	}
	if err := setMaxLive(&c, "0"); err != nil || c.MaxLive != 0 {
		t.Errorf("any number: %d, %v", c.MaxLive, err)
	}
}
