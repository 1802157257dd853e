//go:build !race

package plugins_test

const childMemory = 1 << 30
