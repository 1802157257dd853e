package compile

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"
)

// What the child says with its exit status. Others are those of a process that the system or the Go runtime ended.
const (
	exitOK      = 0
	exitInvalid = 40 // the module is wrong; stderr has the message
	exitUsage   = 41 // the child was started wrongly, or has no cache directory
)

// maxModuleBytes bounds what a child reads: the ceiling of the pre-scan's limit, with room for what the rewriting adds.
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
	CPU       time.Duration // what the child used
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
