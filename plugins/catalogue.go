package plugins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// Store keeps versions and records of their use. Its methods are durable when they return.
type Store interface {
	PluginVersions() ([]queue.PluginVersion, error)
	PluginRecords() ([]queue.PluginRecord, error)
	PluginModule(sum queue.SHA256) (module []byte, found bool, err error)
	PutPluginVersion(v queue.PluginVersion, module []byte, acts ...queue.Act) error
	SetPluginState(sum queue.SHA256, state, reason string) error
	DeletePluginVersion(sum queue.SHA256, name string, revision uint64, acts ...queue.Act) error
	PutPluginRecord(r queue.PluginRecord, acts ...queue.Act) error
	DeletePlugin(name string, revision uint64, acts ...queue.Act) error
}

// Queues has the calls of the catalogue to the users of its plugins.
type Queues interface {
	// PluginUsers lists the blocks that name a plugin: of stored strategies, and of those that consumers sent lately.
	PluginUsers(plugin string) []queue.PluginUser

	// Candidates gives up to this many candidates of a strategy (its text form), in its order, with these columns, for a
	// reservation with this context. Nothing is reserved. Errors are *queue.Error.
	Candidates(ctx context.Context, queueName, inner string, about queue.Meta, reads []strategy.Column, rows int) (*strategy.Window, error)
}

// Options are the settings of a catalogue. All but Logger and Registerer are required.
type Options struct {
	Dir        string                // of compiled code; made when missing; no other account may write to it
	Child      []string              // program and arguments that end up in compile.Child
	Now        func() time.Time      // the clock
	Limits     Limits                // see DefaultLimits
	Logger     *slog.Logger          // nil: silent
	Registerer prometheus.Registerer // nil: no metrics
}

// Catalogue holds all plugins. The calls about them are methods of its fields. The Catalogue itself says which version scores for a
// block, and begins and ends. All methods may be called by many goroutines. Make it with New.
type Catalogue struct {
	Plugins      Plugins
	Versions     Versions
	Rollout      Rollout
	Observations Observations

	*scorers
	metrics *metrics
}

// environment is common to all parts of a catalogue.
type environment struct {
	limits Limits
	log    *slog.Logger
	now    func() time.Time
	began  time.Time
}

// clock is the time that only goes forward, as the host wants it.
func (e *environment) clock() time.Duration { return e.now().Sub(e.began) }

// New makes a catalogue that has no plugins yet: Check refuses every name and Scorer finds none, until Open has read the store.
func New(o Options) (*Catalogue, error) {
	if o.Dir == "" || len(o.Child) == 0 || o.Now == nil {
		return nil, errors.New("plugins: options: Dir, Child and Now are required")
	}
	if err := o.Limits.check(); err != nil {
		return nil, err
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	dir, err := filepath.Abs(o.Dir) // the child has another working directory in mind
	if err != nil {
		return nil, fmt.Errorf("plugins: %w", err)
	}
	shown := newMetrics()
	env := &environment{limits: o.Limits, log: o.Logger, now: o.Now, began: o.Now()}
	known := newRegistry(env, shown)
	open := newSandboxes(env, known, dir, o.Child)
	c := &Catalogue{scorers: newScorers(env, known, open, shown), metrics: shown}
	c.Plugins = Plugins{env, known, open}
	c.Versions = Versions{
		environment: env, known: known, open: open, scorers: c.scorers,
		turns: newTurns(env.limits.Waiting), refused: newRejections(maxRejections),
	}
	c.Rollout = Rollout{env, known, open, c.scorers, c.Plugins}
	c.Observations = Observations{env, known, open, c.Plugins}
	if err := shown.register(c, o.Registerer); err != nil {
		return nil, err
	}
	return c, nil
}

// Open reads the store, and nothing more. Run or Start opens the versions in use, which are starting until then. queues may be nil.
func (c *Catalogue) Open(store Store, queues Queues) error { return c.known.open(store, queues) }

// Close takes everything out of use, waits for running batches and frees everything. Scorers that were given out fail from then on.
func (c *Catalogue) Close() error {
	defer c.open.openings.close() // they find the catalogue closed
	c.known.changes.Lock()
	defer c.known.changes.Unlock()
	c.open.opening.Lock()
	defer c.open.opening.Unlock()
	c.known.mu.Lock()
	c.known.closed = true // nothing is opened any more
	for _, p := range c.known.plugins {
		p.now.Store(nil)
	}
	c.known.mu.Unlock()
	c.shadows.close()
	c.metrics.unregister()
	return errors.Join(c.open.uses.closeAll(), c.formulas.close())
}

// Run runs the timed work until ctx ends: it opens what is in use and not open, scores for shadows and closes what is not used any more.
// Once, when all is open that was in use at its beginning, it sweeps the cache of compiled code.
func (c *Catalogue) Run(ctx context.Context) error {
	var group sync.WaitGroup
	group.Go(func() { c.shadows.run(ctx) })
	group.Go(func() {
		c.Start(ctx)
		c.sweep(ctx)
		for pause(ctx, time.Second) {
			c.Start(ctx) // versions that had no memory or no turn
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
	c.known.changes.Lock()
	stale := c.open.uses.stale(c.now(), c.limits.Linger, c.known.keeps)
	c.known.changes.Unlock()
	for _, u := range stale {
		c.open.close(u)
	}
}
