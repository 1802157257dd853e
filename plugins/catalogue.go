package plugins

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/wasm/compile"
	"github.com/quern-queue/quern/wasm/host"
)

// Store keeps versions and what is in use of them. Its methods are durable when they return.
type Store interface {
	PluginVersions() ([]queue.PluginVersion, error)
	PluginRecords() ([]queue.PluginRecord, error)
	PluginModule(sum queue.SHA256) (module []byte, found bool, err error)
	PutPluginVersion(v queue.PluginVersion, module []byte, acts ...queue.Act) error
	SetPluginState(sum queue.SHA256, state, reason string) error
	DeletePluginVersion(sum queue.SHA256, acts ...queue.Act) error
	PutPluginRecord(r queue.PluginRecord, acts ...queue.Act) error
	DeletePlugin(name string, acts ...queue.Act) error
}

// Queues is what the catalogue asks of those who use its plugins.
type Queues interface {
	// PluginUsers lists the stored strategies that name a plugin.
	PluginUsers(plugin string) []queue.PluginUser

	// Candidates gives up to so many candidates of a strategy (its text form), in its order, with these columns, for a
	// reservation with this context. Nothing is reserved. Errors are *queue.Error.
	Candidates(ctx context.Context, queueName, inner string, about queue.Meta, reads []strategy.Column, rows int) (*strategy.Window, error)
}

// Options are what a catalogue is made of. All but Logger and Registerer are required.
type Options struct {
	Dir        string                // of compiled code; made when missing; no other account may write to it
	Child      []string              // program and arguments that end up in compile.Child
	Now        func() time.Time      // the clock
	Limits     Limits                // see DefaultLimits
	Logger     *slog.Logger          // nil: silent
	Registerer prometheus.Registerer // nil: no metrics
}

// Catalogue holds all plugins. Its methods may be called by many goroutines. Make it with New.
type Catalogue struct {
	options  Options
	limits   Limits
	log      *slog.Logger
	compiler *compile.Compiler
	began    time.Time
	metrics  *metrics
	shadow   *shadowWorker

	changes   sync.Mutex    // one change at a time; held while what it is about is opened
	opening   sync.Mutex    // one opening at a time, which takes a core; taken after changes
	openers   atomic.Int32  // requests that wait for that
	reopening sync.Mutex    // held while something is opened that a request came across
	turn      chan struct{} // holds one token while an upload is checked
	memory    *host.Memory  // of all sandboxes

	mu       sync.RWMutex // guards what follows, for moments
	store    Store        // nil until Open
	closed   bool
	queues   Queues
	plugins  map[string]*plugin
	versions map[queue.SHA256]*version
	bytes    int64
	ranks    int // plugins that there ever were
	waiting  int
	rejected rejections

	scratches   sync.Pool // *scratch
	uses        uses
	expressions expressions
}

// New makes a catalogue that has no plugins yet: Check refuses every name and Scorer finds none, until Open has read the store.
func New(o Options) (*Catalogue, error) {
	if o.Dir == "" || len(o.Child) == 0 || o.Now == nil {
		return nil, errors.New("plugins: options: Dir, Child and Now are required")
	}
	if err := o.Limits.check(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	dir, err := filepath.Abs(o.Dir) // the child has another working directory in mind
	if err != nil {
		return nil, fmt.Errorf("plugins: %w", err)
	}
	limits := compile.DefaultLimits()
	limits.Pages, limits.MemoryBytes, limits.CPU = uint32(o.Limits.Scan.MemoryPages), o.Limits.CompileMemory, o.Limits.CompileCPU
	c := &Catalogue{
		options: o, limits: o.Limits, log: o.Logger, began: o.Now(),
		compiler: compile.New(compile.Config{Dir: dir, Command: o.Child, Limits: limits}),
		turn:     make(chan struct{}, 1), memory: host.NewMemory(o.Limits.Memory),
		plugins: map[string]*plugin{}, versions: map[queue.SHA256]*version{},
	}
	c.uses.open = map[useKey]*use{}
	c.shadow = newShadowWorker(c)
	if c.metrics, err = newMetrics(c, o.Registerer); err != nil {
		return nil, err
	}
	return c, nil
}

// Open reads the store, and nothing more: what is in use is opened by Run, or by Start, and is starting until then. queues may be nil.
func (c *Catalogue) Open(store Store, queues Queues) error {
	c.changes.Lock()
	defer c.changes.Unlock()
	versions, err := store.PluginVersions()
	if err != nil {
		return fmt.Errorf("plugins: open: %w", err)
	}
	records, err := store.PluginRecords()
	if err != nil {
		return fmt.Errorf("plugins: open: %w", err)
	}
	c.mu.Lock()
	c.store, c.queues = store, queues
	for i := range versions {
		c.enter(c.read(&versions[i]))
	}
	c.mu.Unlock()
	for i := range records {
		c.restore(&records[i])
	}
	return nil
}

// restore brings a plugin back to what was in use of it, but for opening that.
func (c *Catalogue) restore(r *queue.PluginRecord) {
	p := c.named(r.Name)
	if p == nil {
		c.log.Error("a plugin's versions are gone from the store; it is left out", "plugin", r.Name)
		return
	}
	settings, err := parseSettings(r.Settings)
	if err != nil {
		c.log.Error("a plugin's settings cannot be read; the defaults hold", "plugin", r.Name, "error", err)
	}
	p.adopt(*r, settings)
}

// Close takes everything out of use, waits for what runs and frees it. Scorers that were given out fail from then on.
func (c *Catalogue) Close() error {
	c.changes.Lock()
	defer c.changes.Unlock()
	c.opening.Lock()
	defer c.opening.Unlock()
	c.mu.Lock()
	c.closed = true // nothing is opened any more
	for _, p := range c.plugins {
		p.now.Store(nil)
	}
	c.mu.Unlock()
	c.shadow.close()
	c.metrics.unregister()
	return errors.Join(c.uses.closeAll(), c.expressions.close())
}

// Run does what time demands until ctx ends: it opens what is in use and not open, scores for shadows and closes what is not used any more.
// Once, when all is open that was in use at its beginning, it sweeps the cache of compiled code.
func (c *Catalogue) Run(ctx context.Context) error {
	var group sync.WaitGroup
	group.Go(func() { c.shadow.run(ctx) })
	group.Go(func() {
		c.Start(ctx)
		c.sweep(ctx)
		for pause(ctx, time.Second) {
			c.Start(ctx) // what had no memory or no turn
		}
	})
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			group.Wait()
			return nil
		case <-ticker.C:
			c.Tidy()
		}
	}
}

// Tidy closes versions that were replaced, or not asked for, a while ago.
func (c *Catalogue) Tidy() {
	c.changes.Lock()
	keep := c.inUse()
	stale := c.uses.stale(c.options.Now(), c.limits.Linger, keep)
	c.changes.Unlock()
	for _, u := range stale {
		if err := u.host.Close(); err != nil {
			c.log.Error("closing a plugin's version failed", "plugin", u.version.Name, "error", err)
		}
	}
}

// inUse are the versions and configurations that stay open even when no strategy asks for them.
func (c *Catalogue) inUse() map[useKey]bool {
	keep := map[useKey]bool{}
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, p := range c.plugins {
		record, _ := p.state()
		for _, use := range []*queue.PluginUse{&record.Active, &record.Previous, &record.Canary, &record.Shadow} {
			keep[useKey{use.SHA256, string(use.Config)}] = true
		}
	}
	return keep
}

// clock is the time that only goes forward, as the host wants it.
func (c *Catalogue) clock() time.Duration { return c.options.Now().Sub(c.began) }

func (c *Catalogue) named(name string) *plugin {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.plugins[name]
}
