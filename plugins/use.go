package plugins

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/wasm/compile"
	"github.com/quern-queue/quern/wasm/host"
	"github.com/quern-queue/quern/wasm/instrument"
	"github.com/quern-queue/quern/wasm/manifest"
	"github.com/quern-queue/quern/wasm/scan"
)

// useKey names a version with a configuration in canonical form.
type useKey struct {
	sum    queue.SHA256
	config string
}

// use is a version with a configuration, open.
type use struct {
	key     useKey
	version *version
	host    *host.Version
	breaker breaker
	asked   atomic.Int64 // when it was last asked for, in nanoseconds of the catalogue's clock
	running atomic.Int32 // batches in it or waiting for an instance
	pages   atomic.Uint32
	fuel    atomic.Int64 // of the last batch
	samples samples
}

// uses are all that are open.
type uses struct {
	mu   sync.Mutex
	open map[useKey]*use

	asking sync.Mutex // held while a window is scored for a question
}

func (u *uses) find(key useKey) *use {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.open[key]
}

// all lists what is open of a plugin.
func (u *uses) all(name string) (list []*use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, one := range u.open {
		if one.version.Name == name {
			list = append(list, one)
		}
	}
	return list
}

// stale takes out what has not been asked for within linger, except what keep names.
func (u *uses) stale(now time.Time, linger time.Duration, keep map[useKey]bool) (list []*use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, one := range u.open {
		if !keep[key] && now.UnixNano()-one.asked.Load() >= int64(linger) {
			delete(u.open, key)
			list = append(list, one)
		}
	}
	return list
}

// oldest takes out the one that was asked for longest ago if there are more than most that need not be kept.
func (u *uses) oldest(most int, keep map[useKey]bool) *use {
	u.mu.Lock()
	defer u.mu.Unlock()
	var found *use
	n := 0
	for key, one := range u.open {
		if keep[key] {
			continue
		}
		n++
		if found == nil || one.asked.Load() < found.asked.Load() {
			found = one
		}
	}
	if n <= most {
		return nil
	}
	delete(u.open, found.key)
	return found
}

// remove takes one out.
func (u *uses) remove(sum queue.SHA256) (list []*use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, one := range u.open {
		if key.sum == sum {
			delete(u.open, key)
			list = append(list, one)
		}
	}
	return list
}

func (u *uses) closeAll() error {
	u.mu.Lock()
	all := u.open
	u.open = map[useKey]*use{}
	u.mu.Unlock()
	var errs []error
	for _, one := range all {
		errs = append(errs, one.host.Close())
	}
	return errors.Join(errs...)
}

// openUse gives a version with a configuration, opening it if it is not open, one at a time. Errors that the caller can
// act on are *queue.Error.
func (c *Catalogue) openUse(ctx context.Context, sum queue.SHA256, config []byte) (*use, error) {
	c.opening.Lock()
	defer c.opening.Unlock()
	return c.openInTurn(ctx, sum, config)
}

// openInTurn is openUse for one who holds Catalogue.opening.
func (c *Catalogue) openInTurn(ctx context.Context, sum queue.SHA256, config []byte) (*use, error) {
	c.mu.RLock()
	v, store, closed := c.versions[sum], c.store, c.closed
	c.mu.RUnlock()
	if v == nil || store == nil || closed {
		return nil, errors.New("plugins: there is no such version")
	}
	key := useKey{sum, string(config)}
	now := c.options.Now()
	if open := c.uses.find(key); open != nil {
		open.asked.Store(now.UnixNano())
		return open, nil
	}
	if v.manifest == nil {
		return nil, errors.New("plugins: " + c.stateOf(v).reason)
	}
	module, found, err := store.PluginModule(sum)
	if err != nil {
		return nil, fmt.Errorf("plugins: read the module: %w", err)
	}
	if !found || sha256.Sum256(module) != sum {
		return nil, errors.New("plugins: the module in the store is not the one that was uploaded")
	}
	report, violations := scan.Scan(module, scan.Ceilings())
	if len(violations) > 0 {
		return nil, errors.New("plugins: the module is refused now: " + violations[0].String())
	}
	u := c.newUse(key, v)
	if err := c.openModule(ctx, u, module, report); err != nil {
		return nil, err
	}
	c.keep(u)
	if p := c.named(v.Name); p != nil {
		p.swap(c) // it may be what is in use and was waited for
	}
	return u, nil
}

// newUse is a version with a configuration before it is opened.
func (c *Catalogue) newUse(key useKey, v *version) *use {
	u := &use{key: key, version: v, breaker: breaker{limits: &c.limits}}
	u.asked.Store(c.options.Now().UnixNano())
	return u
}

// keep enters an open version, and closes one that is not needed if there are too many now.
func (c *Catalogue) keep(u *use) {
	c.uses.mu.Lock()
	c.uses.open[u.key] = u
	c.uses.mu.Unlock()
	keep := c.inUse()
	keep[u.key] = true
	if old := c.uses.oldest(c.limits.Uses, keep); old != nil {
		if err := old.host.Close(); err != nil {
			c.log.Error("closing a plugin's version failed", "plugin", old.version.Name, "error", err)
		}
	}
}

// openModule instruments a scanned module, takes its code from the cache or has it compiled, and starts it.
func (c *Catalogue) openModule(ctx context.Context, u *use, module []byte, report *scan.Report) error {
	m := u.version.manifest
	rewritten, err := instrument.Instrument(module, report, c.limits.rewriting(m))
	if err != nil {
		return fmt.Errorf("plugins: %w", err)
	}
	compiled, err := c.compiler.Load(ctx, rewritten.Bytes)
	if err != nil {
		return err
	}
	if compiled.Rebuilt {
		c.log.Warn("the compiled code of a plugin was damaged and has been rebuilt", "plugin", m.Name, "version", m.Version)
	}
	return c.start(ctx, u, compiled, rewritten, report, []byte(u.key.config), c.limits.Host)
}

// start makes the first sandbox of compiled code, which it closes when that fails.
func (c *Catalogue) start(ctx context.Context, u *use, compiled *compile.Compiled, rewritten *instrument.Module,
	report *scan.Report, config []byte, limits host.Limits) (err error) {
	u.host, err = host.Open(ctx, compiled, host.Options{
		Manifest: u.version.manifest, Config: config, Globals: rewritten.Globals, Hidden: report.HiddenState,
		Instances: c.limits.Instances, Capacity: u.version.manifest.WindowMax, Clock: c.clock, Limits: limits, Memory: c.memory,
		Started: func(s host.Start) { c.started(u, s) },
	})
	return err
}

// rewriting is how a module is instrumented: the slice and depth that the host arms, and the memory that the manifest asks for.
func (l *Limits) rewriting(m *manifest.Manifest) instrument.Options {
	return instrument.Options{
		Slice: l.Host.Slice, Depth: l.Host.Depth, MemoryPages: uint32(min(m.Pages, l.Scan.MemoryPages)),
		TableEntries: uint32(l.Scan.TableEntries),
	}
}
