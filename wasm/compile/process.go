package compile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// usage is what a child took.
type usage struct {
	cpu       time.Duration
	peakBytes int64
}

// child runs one compilation to its end. The directory then holds the code, or there is an error.
func (c *Compiler) child(ctx context.Context, module []byte, dir string) (usage, error) {
	l := c.config.Limits
	timed, cancel := context.WithTimeout(ctx, l.Wall)
	defer cancel()
	if len(c.config.Command) == 0 {
		return usage{}, errors.New("compile: no command is configured")
	}
	args := append(c.config.Command[1:len(c.config.Command):len(c.config.Command)],
		"-dir", dir, "-pages", strconv.FormatUint(uint64(l.Pages), 10), "-cpu", l.CPU.String(), "-memory",
		strconv.FormatUint(l.MemoryBytes, 10))
	cmd := exec.CommandContext(timed, c.config.Command[0], args...)
	cmd.Stdin = bytes.NewReader(module)
	said := &head{}
	cmd.Stderr = said
	cmd.Env = []string{"GOMAXPROCS=1", "GOTRACEBACK=none"} // nothing of ours is the child's business
	cmd.WaitDelay = time.Second
	tie(cmd)
	// A tied child ends with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	if cmd.ProcessState == nil {
		return usage{}, fmt.Errorf("compile: the child cannot be started: %w", err)
	}
	used := usage{cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), peakBytes: peak(cmd.ProcessState)}
	return used, c.outcome(ctx, timed, err, cmd, used, said.String())
}

// outcome reads how the child ended.
func (c *Compiler) outcome(ctx, timed context.Context, err error, cmd *exec.Cmd, used usage, said string) error {
	l := c.config.Limits
	switch code := cmd.ProcessState.ExitCode(); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case timed.Err() != nil:
		return fmt.Errorf("compile: %w: more than %v of wall time", ErrBudget, l.Wall)
	case code == exitInvalid:
		return fmt.Errorf("compile: %w: %s", ErrInvalid, strings.TrimPrefix(said, "compile: "))
	}
	return c.cause(err, cmd.ProcessState, used, said)
}

// cause tells which limit ended the child. SIGKILL comes from the kernel, either beyond the hard limit of CPU time or because the machine
// has no more memory: the limit of memory never kills, it refuses. The kernel counts CPU time in ticks and reports it as measured; on a
// busy machine that is less, so that half of the limit tells the first from the second.
func (c *Compiler) cause(err error, state *os.ProcessState, used usage, said string) error {
	l := c.config.Limits
	overCPU, killed := killedBy(state)
	switch {
	case overCPU || strings.Contains(said, "SIGXCPU") || used.cpu >= l.CPU || killed && used.cpu >= l.CPU/2:
		return fmt.Errorf("compile: %w: more than %v of CPU time", ErrBudget, l.CPU)
	case killed:
		limits := fmt.Sprintf("%v of CPU time", l.CPU)
		if l.MemoryBytes > 0 {
			limits += fmt.Sprintf(" and %d MiB", l.MemoryBytes>>20)
		}
		return fmt.Errorf("compile: %w: the system killed the process, as it does when the machine has no more memory; it had used %v and "+
			"%d MiB, of the %s that it may use", ErrMemory, used.cpu.Round(time.Millisecond), used.peakBytes>>20, limits)
	case strings.Contains(said, "out of memory") || strings.Contains(said, "cannot allocate memory"):
		if l.MemoryBytes == 0 {
			return fmt.Errorf("compile: %w: more than this machine has", ErrMemory)
		}
		return fmt.Errorf("compile: %w: more than %d MiB", ErrMemory, l.MemoryBytes>>20)
	}
	return fmt.Errorf("compile: the child failed (%w): %s", err, said)
}

// head keeps the first kilobytes of what a child says, on one line: messages come first, and what a dying runtime prints has no end.
type head struct{ b []byte }

const maxSaid = 4 << 10

func (h *head) Write(p []byte) (int, error) {
	h.b = append(h.b, p[:min(len(p), maxSaid-len(h.b))]...)
	return len(p), nil
}

func (h *head) String() string { return strings.Join(strings.Fields(string(h.b)), " ") }
