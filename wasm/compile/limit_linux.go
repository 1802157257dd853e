package compile

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// limitSelf puts the limits on the process that it runs in. At the limit of CPU time the Go runtime gets a signal and ends the process;
// if it does not, the system does a second later. Beyond the limit of address space the runtime ends the process, because it gets no
// more.
func limitSelf(cpu time.Duration, memory uint64) error {
	seconds := uint64((cpu + time.Second - 1) / time.Second)
	if seconds > 0 {
		if err := syscall.Setrlimit(syscall.RLIMIT_CPU, &syscall.Rlimit{Cur: seconds, Max: seconds + 1}); err != nil {
			return fmt.Errorf("compile: limit of CPU time: %w", err)
		}
	}
	if memory > 0 {
		begun, err := addressSpace()
		if err != nil {
			return err
		}
		memory += begun
		if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: memory, Max: memory}); err != nil {
			return fmt.Errorf("compile: limit of address space: %w", err)
		}
	}
	return syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
}

// addressSpace is how many bytes the process has reserved. A Go process begins with more than a gigabyte, which differs from version to
// version and is mostly never touched, so limits count from there.
func addressSpace() (uint64, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, fmt.Errorf("compile: size of the process: %w", err)
	}
	var pages uint64
	if _, err := fmt.Sscan(string(text), &pages); err != nil {
		return 0, fmt.Errorf("compile: size of the process: %w", err)
	}
	return pages * uint64(os.Getpagesize()), nil
}

// tie lets the child end with its parent.
func tie(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// killedBy says whether the process was ended by the signal of the limit of CPU time, or by SIGKILL.
func killedBy(state *os.ProcessState) (overCPU, killed bool) {
	status, ok := state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGXCPU, ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// peak is the most memory that the process held, in bytes.
func peak(state *os.ProcessState) int64 {
	if used, ok := state.SysUsage().(*syscall.Rusage); ok {
		return used.Maxrss << 10
	}
	return 0
}
