//go:build !linux

package main

import "time"

var began = time.Now()

// sinceBoot is a clock that no one sets. While the machine sleeps it may stand still.
func sinceBoot() time.Duration { return time.Since(began) }
