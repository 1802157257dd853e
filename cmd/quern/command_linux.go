package main

import (
	"os/exec"
	"syscall"
)

// tie has the kernel kill the program when the thread that starts it ends, which it does at the latest with this process: after a kill -9
// the chunk is handed out again, and must not be worked on twice.
func tie(program *exec.Cmd) { program.SysProcAttr.Pdeathsig = syscall.SIGKILL }
