//go:build unix

package main

import "syscall"

// fileLimit is how many files the process may have open, connections included; 0: it is not known. Go has raised the soft limit to the
// hard one.
func fileLimit() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int(min(limit.Cur, 1<<30))
}
