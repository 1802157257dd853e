package compile

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// limitSelf puts the limits on the process that it runs in. At the limit of CPU time the system ends the process; beyond that of
// address space the Go runtime does when it gets no more.
func limitSelf(cpu time.Duration, memory uint64) error {
	seconds := uint64((cpu + time.Second - 1) / time.Second)
	if seconds > 0 {
		if err := syscall.Setrlimit(syscall.RLIMIT_CPU, &syscall.Rlimit{Cur: seconds, Max: seconds}); err != nil {
			return fmt.Errorf("compile: limit of CPU time: %w", err)
		}
	}
	if memory > 0 {
		if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: memory, Max: memory}); err != nil {
			return fmt.Errorf("compile: limit of address space: %w", err)
		}
	}
	return syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
}

// tie lets the child end with its parent.
func tie(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

func overCPU(state *os.ProcessState) bool {
	status, ok := state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGXCPU
}

// peak is the most memory that the process held, in bytes.
func peak(state *os.ProcessState) int64 {
	if used, ok := state.SysUsage().(*syscall.Rusage); ok {
		return used.Maxrss << 10
	}
	return 0
}
