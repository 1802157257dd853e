package compile

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// The outcomes of a compilation that are not success. Errors of Load wrap one of them, or are failures of the machine.
var (
	ErrInvalid = errors.New("the module is not valid")
	ErrBudget  = errors.New("compiling takes too much time")
	ErrMemory  = errors.New("compiling takes too much memory")
	ErrBusy    = errors.New("too many modules wait to be compiled")
	ErrNoRoom  = errors.New("all plugins together have the memory that they may have")
)

// Limits of one compilation.
type Limits struct {
	CPU         time.Duration // of the child, in whole seconds
	MemoryBytes uint64        // address space on top of the child's own at its start; 0 for no limit
	Wall        time.Duration // from the child's start to its end
	Queue       int           // compilations that may wait for the running one
	Pages       uint32        // memory of an instance, in pages of 64 KiB
}

// DefaultLimits fit the largest modules that the pre-scan lets through, with a factor of three: a Go module with a JSON
// parser takes 3 s and 300 MB.
func DefaultLimits() Limits {
	return Limits{CPU: 10 * time.Second, MemoryBytes: 1 << 30, Wall: 60 * time.Second, Queue: 8, Pages: 256}
}

// Config is the configuration of a Compiler.
type Config struct {
	Dir     string   // of the cache; made when it is missing; no other account may write to it, its content is executed
	Command []string // program and arguments that end up in Child
	Limits  Limits
	Budget  Budget // of the code that is loaded; nil: no limit
}

// Compiler compiles modules in child processes, one at a time. It is safe for use by many goroutines.
type Compiler struct {
	config  Config
	turn    chan struct{} // holds one token while a child runs
	mu      sync.Mutex
	waiting int
	claims  map[string]int // how often each entry was loaded since New
}

// New makes a compiler. It touches nothing yet.
func New(config Config) *Compiler {
	return &Compiler{config: config, turn: make(chan struct{}, 1)}
}

// Load gives the module as machine code: from the cache, or by a child first. The caller closes the result. It fails with
// ErrInvalid, ErrBudget, ErrMemory, ErrBusy or ErrNoRoom, with ctx's error, or with the machine's. After ErrNoRoom the code stays in the
// cache: a later Load finds it.
func (c *Compiler) Load(ctx context.Context, module []byte) (*Compiled, error) {
	key := Key(module)
	c.claim(key)
	compiled, err := c.obtain(ctx, module, filepath.Join(c.config.Dir, key))
	if err != nil {
		c.unclaim(key)
	}
	return compiled, err
}

func (c *Compiler) obtain(ctx context.Context, module []byte, dir string) (*Compiled, error) {
	compiled, damaged, err := c.cached(ctx, module, dir)
	if compiled != nil || err != nil {
		return compiled, err
	}
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	defer func() { <-c.turn }()
	// Another may have compiled the same module meanwhile.
	if !damaged {
		if compiled, damaged, err = c.cached(ctx, module, dir); compiled != nil || err != nil {
			return compiled, err
		}
	}
	if err := remake(dir); err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	used, err := c.child(ctx, module, dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	compiled, err = c.load(ctx, module, dir)
	if errors.Is(err, ErrNoRoom) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("compile: the child left no code that can be loaded: %w", errors.Join(err, os.RemoveAll(dir)))
	}
	compiled.Rebuilt, compiled.CPU, compiled.PeakBytes = damaged, used.cpu, used.peakBytes
	return compiled, nil
}

// Forget removes code from the cache, by its Key.
func (c *Compiler) Forget(key string) error {
	if err := os.RemoveAll(filepath.Join(c.config.Dir, key)); err != nil {
		return fmt.Errorf("compile: forget: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.claims, key)
	return nil
}

// remake empties a module's directory of code that is damaged or of another processor or version.
func remake(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.MkdirAll(dir, 0o700)
}

// cached loads from the cache, or gives nil. damaged says that there was something that could not be used; the error is ErrNoRoom.
func (c *Compiler) cached(ctx context.Context, module []byte, dir string) (compiled *Compiled, damaged bool, err error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, false, nil
	}
	compiled, err = c.load(ctx, module, dir)
	switch {
	case errors.Is(err, ErrNoRoom):
		return nil, false, err
	case err != nil:
		return nil, !errors.Is(err, context.Canceled), nil
	}
	compiled.FromCache = true
	return compiled, false, nil
}

// load takes the code from the directory and never compiles: with two workers the engine asks the context before each function that it
// compiles, and this context has ended. The engine takes code from the cache without asking. TestParentNeverCompiles holds the engine to
// it.
func (c *Compiler) load(ctx context.Context, module []byte, dir string) (*Compiled, error) {
	size, err := sizeOf(dir)
	if err != nil {
		return nil, err
	}
	ended, end := context.WithCancel(experimental.WithCompilationWorkers(context.WithoutCancel(ctx), 2))
	end()
	return c.counted(codeBytes(module, size), func() (*Compiled, error) { return build(ended, module, dir, c.config.Limits.Pages) })
}

// enter waits for the turn.
func (c *Compiler) enter(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
		return nil
	default:
	}
	c.mu.Lock()
	if c.waiting >= c.config.Limits.Queue {
		c.mu.Unlock()
		return fmt.Errorf("compile: %w: %d are waiting; try again later", ErrBusy, c.config.Limits.Queue)
	}
	c.waiting++
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.waiting--
		c.mu.Unlock()
	}()
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// runtimeConfig is the same for child and parent: a difference would make other code.
func runtimeConfig(pages uint32) wazero.RuntimeConfig {
	return wazero.NewRuntimeConfigCompiler().
		WithCoreFeatures(api.CoreFeaturesV2).
		WithDebugInfoEnabled(false).
		WithMemoryLimitPages(pages)
}

// Supported says whether there is a compiler for this processor and system. The interpreter is 40 times slower and is not used.
func Supported() bool {
	return slices.Contains([]string{"amd64", "arm64"}, runtime.GOARCH) &&
		slices.Contains([]string{"linux", "darwin", "freebsd", "netbsd", "dragonfly", "windows"}, runtime.GOOS)
}

// Budget counts the memory of code that is loaded.
type Budget interface {
	TakeCode(bytes int64) bool // false: there is no room
	GiveCode(bytes int64)
}

// The memory of code beside itself and its module: 50 KB for a runtime, 20 KB for the host's functions, and 80 to 100 bytes for each
// entry.
const (
	runtimeBytes = 64 << 10
	entryBytes   = 100
)

// codeBytes estimates the memory of a module as machine code of this many bytes. It is at most 10 % less than was measured: Go guests,
// thousands of small functions, globals, exports, segments (TestCodeBytes).
func codeBytes(module []byte, code int64) int64 {
	return code + 2*int64(len(module)) + entryBytes*entries(module) + runtimeBytes
}

// entries counts the types, functions, exports, globals and segments of a module: the engine keeps a record of each.
func entries(module []byte) (n int64) {
	const header = 8
	for rest := module[min(header, len(module)):]; len(rest) > 0; {
		id := rest[0]
		size, width := binary.Uvarint(rest[1:])
		if width <= 0 || size > uint64(len(rest)-1-width) {
			return n // it is no module
		}
		content := rest[1+width:][:size]
		rest = rest[1+width+int(size):]
		switch id {
		case 1, 3, 6, 7, 9, 11:
			count, _ := binary.Uvarint(content)
			n += int64(min(count, size))
		}
	}
	return n
}

// counted has code built for which the budget has room, and gives that back when the code is closed.
func (c *Compiler) counted(bytes int64, build func() (*Compiled, error)) (*Compiled, error) {
	budget := c.config.Budget
	if budget == nil {
		return build()
	}
	if !budget.TakeCode(bytes) {
		return nil, ErrNoRoom
	}
	compiled, err := build()
	if err != nil {
		budget.GiveCode(bytes)
		return nil, err
	}
	compiled.freed = func() { budget.GiveCode(bytes) }
	return compiled, nil
}

// codePerByte is the most machine code that a byte of WebAssembly was seen to become: small functions have a beginning and an end.
const codePerByte = 8

// InProcess compiles a module that the program made itself, without a child and without the cache.
func (c *Compiler) InProcess(ctx context.Context, module []byte) (*Compiled, error) {
	return c.counted(codeBytes(module, codePerByte*int64(len(module))), func() (*Compiled, error) {
		return InProcess(ctx, module, c.config.Limits.Pages)
	})
}
