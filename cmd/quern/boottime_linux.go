package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot is a clock that no one sets, and that goes on while the machine sleeps: an owner that slept must know that its time is over.
func sinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic("the kernel has no clock that counts from its start: " + err.Error())
	}
	return time.Duration(t.Nano())
}
