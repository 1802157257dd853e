//go:build race

package plugins_test

// The race detector alone reserves more address space than any limit.
const childMemory = 0
