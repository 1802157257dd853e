//go:build !race

package plugins_test

import "time"

const (
	childMemory = 1 << 30
	childCPU    = 10 * time.Second
)
