package plugins

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/wasm/compile"
	"github.com/quern-queue/quern/wasm/host"
	"github.com/quern-queue/quern/wasm/instrument"
	"github.com/quern-queue/quern/wasm/scan"
)

// sandboxes are the versions and configurations that are open, and how they are opened: one at a time, as that takes a core.
type sandboxes struct {
	*environment
	known    *registry
	compiler *compile.Compiler
	memory   *host.Memory           // of all sandboxes and their code
	opened   func(*plugin)          // is called when something of a plugin was opened
	started  func(*use, host.Start) // is called when a sandbox was made

	opening  sync.Mutex // one opening at a time; taken after registry.changes
	openings openings   // configurations of consumers' blocks
	refusing *rejections
	uses     uses
}

// newSandboxes keeps compiled code in dir. child are the program and arguments that compile.
func newSandboxes(env *environment, known *registry, dir string, child []string) *sandboxes {
	limits := compile.DefaultLimits()
	limits.Pages, limits.MemoryBytes = uint32(env.limits.Scan.MemoryPages), env.limits.CompileMemory
	limits.CPU = env.limits.CompileCPU
	limits.Wall = max(limits.Wall, 6*limits.CPU) // on a busy machine a child has a part of a core
	memory := host.NewMemory(env.limits.Memory)
	return &sandboxes{
		environment: env, known: known, memory: memory, uses: uses{open: map[useKey]*use{}},
		refusing: newRejections(maxRefusing),
		compiler: compile.New(compile.Config{Dir: dir, Command: child, Limits: limits, Budget: memory}),
	}
}

// use gives a version with a configuration, opening it if it is not open, one at a time. Errors that the caller can
// act on are *queue.Error.
func (b *sandboxes) use(ctx context.Context, sum queue.SHA256, config []byte) (*use, error) {
	b.opening.Lock()
	defer b.opening.Unlock()
	u, err := b.openInTurn(ctx, sum, config)
	return u, crowded(err)
}

// crowded has an operator learn that the server, and not the plugin, has no room for a sandbox now.
func crowded(err error) error {
	switch {
	case errors.Is(err, host.ErrMemory), errors.Is(err, host.ErrClosed): // it made room for another one
		return &queue.Error{Code: queue.CodeOverloaded, Err: err, Message: "All plugins together have the memory that they may " +
			"have (plugin-memory). Deactivate a plugin that is not needed, or start the server with more."}
	case errors.Is(err, compile.ErrBusy):
		return &queue.Error{Code: queue.CodeOverloaded, Err: err, Message: "Other plugins are being compiled; send this again in a moment."}
	}
	return err
}

// openInTurn is use for a caller that holds opening.
func (b *sandboxes) openInTurn(ctx context.Context, sum queue.SHA256, config []byte) (*use, error) {
	b.known.mu.RLock()
	v, store, closed := b.known.versions[sum], b.known.store, b.known.closed
	b.known.mu.RUnlock()
	if v == nil || store == nil || closed {
		return nil, &queue.Error{Code: queue.CodeUnknownPlugin, Message: "The version was deleted, or the server stops."}
	}
	key := useKey{sum, string(config)}
	now := b.now()
	if open := b.uses.find(key); open != nil {
		open.asked.Store(now.UnixNano())
		return open, nil
	}
	if v.manifest == nil {
		return nil, errors.New("plugins: " + v.state.Load().reason)
	}
	u, code := b.newUse(key, v), b.uses.share(sum)
	if code == nil {
		var err error
		if code, err = b.load(ctx, store, v); err != nil {
			return nil, err
		}
	}
	if err := b.start(ctx, u, code, config, b.limits.Host); err != nil {
		return nil, err
	}
	b.keep(u)
	if p := b.known.named(v.Name); p != nil {
		b.opened(p) // it may be what is in use and was waited for
	}
	return u, nil
}

// newUse is a version with a configuration before it is opened.
func (b *sandboxes) newUse(key useKey, v *version) *use {
	u := &use{key: key, version: v, breaker: breaker{limits: &b.limits}}
	u.needless = func() bool { return b.retire(u) }
	u.asked.Store(b.now().UnixNano())
	return u
}

// keep enters an open version, and closes one that is not needed if there are too many now.
func (b *sandboxes) keep(u *use) {
	b.uses.mu.Lock()
	b.uses.open[u.key] = u
	b.uses.mu.Unlock()
	if old := b.uses.oldest(b.limits.Uses, func(one *use) bool { return one == u || b.known.keeps(one) }); old != nil {
		b.close(old)
	}
}

// close closes a version that was taken out of uses.
func (b *sandboxes) close(u *use) {
	if err := u.host.Close(); err != nil {
		b.log.Error("closing a plugin's version failed", "plugin", u.version.Name, "error", err)
	}
}

// retire closes a version because memory is short, if it is open only for callers that are not in it.
func (b *sandboxes) retire(u *use) bool {
	gone := b.uses.retire(u, b.known.keeps)
	if gone {
		b.close(u)
	}
	return gone
}

// code is a version's module, compiled. Its configurations share it.
type code struct {
	compiled *compile.Compiled
	globals  []instrument.State
	hidden   bool // see host.Options
}

// load reads, checks and instruments a module, and takes its code from the cache or has it compiled.
func (b *sandboxes) load(ctx context.Context, store Store, v *version) (*code, error) {
	module, found, err := store.PluginModule(v.SHA256)
	if err != nil {
		return nil, fmt.Errorf("plugins: read the module: %w", err)
	}
	if !found { // another node did it, and this one hears of it in a moment
		return nil, &queue.Error{Code: queue.CodeUnknownPlugin, Message: "The version was just deleted."}
	}
	if sha256.Sum256(module) != v.SHA256 {
		return nil, errors.New("plugins: the module in the store is not the one that was uploaded")
	}
	report, violations := scan.Scan(module, scan.Ceilings())
	if len(violations) > 0 {
		return nil, errors.New("plugins: the module is refused now: " + violations[0].String())
	}
	rewritten, err := instrument.Instrument(module, report, b.limits.rewriting(v.manifest))
	if err != nil {
		return nil, fmt.Errorf("plugins: %w", err)
	}
	compiled, err := b.compiler.Load(ctx, rewritten.Bytes)
	if err != nil {
		return nil, err
	}
	if compiled.Rebuilt {
		b.log.Warn("the compiled code of a plugin was damaged and has been rebuilt", "plugin", v.Name, "version", v.Version)
	}
	return &code{compiled, rewritten.Globals, report.HiddenState}, nil
}

// start makes the first sandbox of compiled code, which it closes when that fails.
func (b *sandboxes) start(ctx context.Context, u *use, c *code, config []byte, limits host.Limits) (err error) {
	u.code = c
	u.host, err = host.Open(ctx, c.compiled, host.Options{
		Manifest: u.version.manifest, Config: config, Globals: c.globals, Hidden: c.hidden,
		Instances: b.limits.Instances, Capacity: u.version.manifest.WindowMax, Clock: b.clock, Limits: limits, Memory: b.memory,
		Needless: u.needless, Started: func(s host.Start) { b.started(u, s) },
	})
	return err
}

// starvedEvery is how often it is logged that a plugin has no memory.
const starvedEvery = time.Minute

// starved logs that a plugin goes without a sandbox for no fault of its own.
func (b *sandboxes) starved(p *plugin, why error) {
	now := b.now().UnixNano()
	last := p.starved.Load()
	if last != 0 && now >= last && now-last < int64(starvedEvery) || !p.starved.CompareAndSwap(last, now) {
		return
	}
	memory := b.memory.Use()
	b.log.Warn("a plugin has no sandbox, and requests go on without it", "plugin", p.name, "reason", why,
		"memory_bytes", memory.Bytes, "memory_limit_bytes", memory.Most)
}

// isStarting says whether something that is in use may be opened and is not open.
func (b *sandboxes) isStarting(use *queue.PluginUse) bool {
	v := b.known.of(use.SHA256)
	return v != nil && v.manifest != nil && v.ready() && b.uses.find(keyOf(use)) == nil
}

// unstarted lists what is in use, may be opened and is not.
func (b *sandboxes) unstarted() (list []toStart) {
	for _, p := range b.known.all() {
		record, _ := p.state()
		for as, use := range []*queue.PluginUse{&record.Active, &record.Canary, &record.Shadow} {
			if b.isStarting(use) {
				missed := uint64(0)
				if as == 0 {
					missed = p.totals.fallbacks[fellStarting].Load()
				}
				list = append(list, toStart{p, keyOf(use), as, missed, record.Changed})
			}
		}
	}
	return list
}

// codeKey is the name of a version's code in the cache. It is "" if the version can have none, because its module or manifest is gone or
// refused now.
func (b *sandboxes) codeKey(v *version) (string, error) {
	store, err := b.known.opened()
	if err != nil || v.manifest == nil {
		return "", err
	}
	module, found, err := store.PluginModule(v.SHA256)
	if err != nil {
		return "", fmt.Errorf("plugins: read the module: %w", err)
	}
	if !found {
		return "", nil // it was deleted meanwhile
	}
	report, violations := scan.Scan(module, scan.Ceilings())
	if len(violations) > 0 {
		return "", nil
	}
	rewritten, err := instrument.Instrument(module, report, b.limits.rewriting(v.manifest))
	if err != nil {
		return "", nil // load fails with it too
	}
	return compile.Key(rewritten.Bytes), nil
}
