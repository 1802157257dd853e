package clienttest

import (
	"os/exec"
	"syscall"
)

// tie has the kernel kill the server when the thread that starts it ends, which it does at the latest with the test's
// process: a test that panics or runs out of time cleans nothing up.
func tie(server *exec.Cmd) { server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
