//go:build !linux

package host

func hugePages([]byte) {}
