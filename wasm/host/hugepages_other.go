//go:build unix && !linux

package host

func hugePages([]byte) {}
