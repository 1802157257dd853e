package compile

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"
)

// The child's exit statuses. Others are those of a process that the system or the Go runtime ended.
const (
	exitOK      = 0
	exitInvalid = 40 // the module is wrong; stderr has the message
	exitUsage   = 41 // the child was started wrongly, or has no cache directory
)

// maxModuleBytes bounds the input of a child: the ceiling of the pre-scan's limit, with room for the rewriter's additions.
const maxModuleBytes = 64 << 20

// Child is the other side of Compiler: it compiles the module on stdin into the cache directory that args name and returns the
// exit status. args are those that the parent appended to Config.Command.
func Child(args []string, stdin io.Reader, stderr io.Writer) int {
	flags := flag.NewFlagSet("plugin-compile", flag.ContinueOnError)
	flags.SetOutput(stderr)
	dir := flags.String("dir", "", "cache directory of the module")
	pages := flags.Uint("pages", 0, "limit of memory pages")
	cpu := flags.Duration("cpu", 0, "limit of CPU time, whole seconds")
	memory := flags.Uint64("memory", 0, "limit of address space in bytes, 0 for none")
	if err := flags.Parse(args); err != nil || *dir == "" || *pages == 0 || *pages > 65536 {
		fmt.Fprintln(stderr, "this command is started by the server and not by people")
		return exitUsage
	}
	if err := limitSelf(*cpu, *memory); err != nil {
		fmt.Fprintln(stderr, err)
		return exitUsage
	}
	module, err := io.ReadAll(io.LimitReader(stdin, maxModuleBytes+1))
	if err != nil || len(module) > maxModuleBytes {
		fmt.Fprintln(stderr, "the module cannot be read, or has more than 64 MiB")
		return exitUsage
	}
	ctx := context.Background()
	compiled, err := build(ctx, module, *dir, uint32(*pages))
	var io cacheError
	switch {
	case errors.As(err, &io):
		fmt.Fprintln(stderr, err)
		return exitUsage
	case err != nil:
		fmt.Fprintln(stderr, err)
		return exitInvalid
	}
	if err := compiled.Close(ctx); err != nil {
		fmt.Fprintln(stderr, err)
		return exitUsage
	}
	return exitOK
}

// cacheError is a failure to use the cache directory at all.
type cacheError struct{ error }

// Compiled is a module as machine code in a runtime of its own, which users share: the last one that closes it frees everything.
type Compiled struct {
	Runtime wazero.Runtime
	Module  wazero.CompiledModule
	Pages   uint32 // the memory's limit in pages of 64 KiB

	FromCache bool          // no child was needed
	Rebuilt   bool          // the cache entry was damaged and has been rebuilt: worth a line in the log
	CPU       time.Duration // the CPU time of the child
	PeakBytes int64         // the most memory that the child held

	cache wazero.CompilationCache
	more  atomic.Int32 // users beside the first; -1: it is closed
	freed func()       // is called when it is closed; nil: nothing is
}

// Share lets one more user close it; false: it is closed.
func (c *Compiled) Share() bool {
	for {
		more := c.more.Load()
		if more < 0 || c.more.CompareAndSwap(more, more+1) {
			return more >= 0
		}
	}
}

// Close frees the code and the instances with the last user. Nothing may run in them any more. The engine gives the code's memory back to
// the system when the garbage collector next runs.
func (c *Compiled) Close(ctx context.Context) error {
	if c.more.Add(-1) >= 0 {
		return nil
	}
	if c.freed != nil {
		defer c.freed()
	}
	err := c.Runtime.Close(ctx)
	if c.cache != nil {
		err = errors.Join(err, c.cache.Close(ctx))
	}
	return err
}

// build compiles, or loads from the directory when the module is there already. dir may be "": no cache.
func build(ctx context.Context, module []byte, dir string, pages uint32) (*Compiled, error) {
	if !Supported() {
		return nil, errors.New("compile: there is no compiler for this processor or system; plugins need amd64 or arm64")
	}
	config := runtimeConfig(pages)
	c := &Compiled{Pages: pages}
	if dir != "" {
		cache, err := wazero.NewCompilationCacheWithDir(dir)
		if err != nil {
			return nil, cacheError{fmt.Errorf("compile: cache: %w", err)}
		}
		c.cache = cache
		config = config.WithCompilationCache(cache)
	}
	// A runtime may not be made or closed with a context that has ended, as a look into the cache has it.
	lasting := context.WithoutCancel(ctx)
	c.Runtime = wazero.NewRuntimeWithConfig(lasting, config)
	var err error
	if c.Module, err = c.Runtime.CompileModule(ctx, module); err != nil {
		return nil, errors.Join(fmt.Errorf("compile: %w", err), c.Close(lasting))
	}
	return c, nil
}

// InProcess compiles without a child and without a cache, for tests and for tools that may die of a bad module.
func InProcess(ctx context.Context, module []byte, pages uint32) (*Compiled, error) {
	return build(ctx, module, "", pages)
}

// usage is the child's use of time and memory.
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

// cause names the limit that ended the child. SIGKILL comes from the kernel, either beyond the hard limit of CPU time or because the
// machine has no more memory: the limit of memory never kills, it refuses. The kernel counts CPU time in ticks and reports it as
// measured. On a busy machine that is less, so a child with half of the limit counts as beyond it.
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

// head keeps the first kilobytes of a child's output, on one line: messages come first, and the output of a dying runtime has no end.
type head struct{ b []byte }

const maxSaid = 4 << 10

func (h *head) Write(p []byte) (int, error) {
	h.b = append(h.b, p[:min(len(p), maxSaid-len(h.b))]...)
	return len(p), nil
}

func (h *head) String() string { return strings.Join(strings.Fields(string(h.b)), " ") }
