//go:build !linux

package clienttest

import "os/exec"

// tie does nothing: this system has no signal for the death of a parent.
func tie(*exec.Cmd) {}
