//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup gives the program a process group of its own: an interrupt typed at the terminal then reaches only this process, which lets its
// programs finish, and killing the group leaves no grandchild behind.
func ownGroup(program *exec.Cmd) {
	program.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	tie(program)
	program.Cancel = func() error { return syscall.Kill(-program.Process.Pid, syscall.SIGKILL) }
}
