//go:build race

package plugins_test

import "time"

// The race detector alone reserves more address space than any limit, and slows a compiling child down many times.
const (
	childMemory = 0
	childCPU    = 40 * time.Second
)
