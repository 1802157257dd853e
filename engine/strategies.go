package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

// StrategyGuard decides, by the present strategy (exists false: there is none), whether a change may go on. It is called while no other
// caller can change the name, and its error is the change's. nil allows every change.
type StrategyGuard func(now api.NamedStrategy, exists bool) error

// named are the named strategies of one queue, as they stand. A reserve reads a map that never changes: a change that the shard reports
// puts a new map in its place.
type named struct {
	change sync.Mutex // one change at a time; taken before the shard's mutex
	byName atomic.Pointer[map[string]*namedStrategy]
}

type namedStrategy struct {
	api.NamedStrategy
	// compiled is its plan, or why it has none: a language that this program does not know any more.
	compiled func() (*strategy.Plan, error)

	warned atomic.Int64 // when it was last logged that it names a plugin that cannot be used, in nanoseconds of the clock
}

func (n *named) all() map[string]*namedStrategy {
	if m := n.byName.Load(); m != nil {
		return *m
	}
	return nil
}

// namedOf makes a strategy of what its shard has. It is compiled when it is used first. One that does not compile fails where it is used,
// so that one bad name does not keep a queue from starting.
func (q *Queue) namedOf(set *journal.Set) *namedStrategy {
	n := &namedStrategy{NamedStrategy: strategyOf(set)}
	n.compiled = sync.OnceValues(func() (*strategy.Plan, error) {
		s, err := strategy.Parse(set.Text)
		if err != nil {
			return nil, err
		}
		return q.e.plans.plan(s), nil
	})
	return n
}

func strategyOf(set *journal.Set) api.NamedStrategy {
	return api.NamedStrategy{Name: set.Name, Version: set.Version, Strategy: set.Text, CreatedAt: set.Changed.API(),
		ETag: queue.ETag(set.Version, []byte(set.Text))}
}

// byName finds a strategy that a request asks for by its name, to use it.
func (p Strategies) byName(name string) (*namedStrategy, error) {
	n := p.q.named.all()[name]
	if n == nil {
		return nil, queue.Invalid("/strategy/name",
			"is the name of no strategy of the queue %q; GET /v1/queues/{queue}/strategies lists the queue's strategies", p.q.name)
	}
	if _, wrong := n.compiled(); wrong != nil {
		return nil, queue.Invalid("/strategy/name", "names a strategy that this server cannot read (%v); put it again", wrong)
	}
	return n, nil
}

// knowable refuses a text that cannot be a name before it is remembered as one.
func knowable(name string) error {
	if !strategyName(name) {
		return queue.Invalid("/strategy/name",
			"is no name: 1 to %d letters, digits, '.', '_' and '-', the first a letter or digit", queue.MaxStrategyNameBytes)
	}
	return nil
}

func strategyName(name string) bool {
	if name == "" || len(name) > queue.MaxStrategyNameBytes {
		return false
	}
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || c != '-' && c != '_' && c != '.') {
			return false
		}
	}
	return true
}

// List lists a queue's named strategies by name, from the one after `after` on: at most limit (1 to
// queue.MaxListLimit), and no more once their texts pass a mebibyte. Next of the page is the `after` of the following one.
func (p Strategies) List(after string, limit int) (Page[api.NamedStrategy], error) {
	var all []api.NamedStrategy
	named := p.q.named.all()
	for _, name := range slices.Sorted(maps.Keys(named)) {
		all = append(all, named[name].NamedStrategy)
	}
	return pageByName(all, after, limit, maxListedText, func(s *api.NamedStrategy) (string, int) { return s.Name, len(s.Strategy) })
}

// maxListedText ends a page of strategies: a thousand of the longest would be 64 MiB.
const maxListedText = 1 << 20

// Get reads a named strategy: a version of it, or the present one for version 0. CodeUnknownStrategy: there is no such name, or the version
// is none of the newest queue.MaxStrategyVersions.
func (p Strategies) Get(name string, version uint32) (api.NamedStrategy, error) {
	now := p.q.named.all()[name]
	if now == nil {
		return api.NamedStrategy{}, unknownStrategy(p.q.name, name)
	}
	if version == 0 || version == now.Version {
		return now.NamedStrategy, nil
	}
	set, found := p.q.shard.Settings.Strategy(name, version)
	if !found {
		return api.NamedStrategy{}, &queue.Error{Code: queue.CodeUnknownStrategy, Message: fmt.Sprintf("The strategy %q has no "+
			"version %d: the newest is %d, and the last %d are kept.", name, version, now.Version, queue.MaxStrategyVersions)}
	}
	return strategyOf(&set), nil
}

func unknownStrategy(queueName, name string) error {
	return &queue.Error{Code: queue.CodeUnknownStrategy, Message: fmt.Sprintf("The queue %q has no strategy %q. PUT "+
		"makes it; GET /v1/queues/{queue}/strategies lists the queue's strategies.", queueName, clip(name, queue.MaxStrategyNameBytes))}
}

// Put stores a strategy, given as a JSON value, under a name. The same text as before changes nothing; another one
// becomes the next version, durably, and every reservation from now on uses it.
func (p Strategies) Put(ctx context.Context, name string, raw []byte,
	guard StrategyGuard) (s api.NamedStrategy, created bool, err error) {
	if !strategyName(name) {
		return s, false, queue.Invalid("/path/name", "is %d bytes long; 1 to %d letters, digits, '.', '_' and '-' "+
			"are allowed, the first a letter or digit", len(name), queue.MaxStrategyNameBytes)
	}
	parsed, err := written(raw)
	if err != nil {
		return s, false, err
	}
	stay, err := p.q.stay()
	if err != nil {
		return s, false, err
	}
	defer stay()
	p.q.named.change.Lock()
	defer p.q.named.change.Unlock()
	now, err := p.q.named.guarded(name, guard)
	switch {
	case err != nil:
		return s, false, err
	case now != nil && now.Strategy == parsed.String():
		return now.NamedStrategy, false, nil
	case now == nil && len(p.q.named.all()) >= queue.MaxStrategies:
		return s, false, &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf("The queue has %d named "+
			"strategies already, the most it keeps. Delete one first.", queue.MaxStrategies)}
	}
	next := journal.Set{Kind: journal.SetStrategy, Name: name, Version: 1, Text: parsed.String(), Changed: queue.At(p.q.e.options.Now())}
	act, before := p.q.act(ctx, "", "strategy.create", "strategy "+name), any(nil)
	if now != nil {
		next.Version, act.Action, before = now.Version+1, "strategy.change", now.Strategy
	}
	err = p.q.shard.Settings.Put(&next, before, next.Text, act)
	return strategyOf(&next), now == nil && err == nil, err
}

// guarded reads the strategy that a change is about, and asks the guard. The caller holds n.change.
func (n *named) guarded(name string, guard StrategyGuard) (*namedStrategy, error) {
	now := n.all()[name]
	if guard == nil {
		return now, nil
	}
	if now == nil {
		return nil, guard(api.NamedStrategy{}, false)
	}
	return now, guard(now.NamedStrategy, true)
}

// written reads a strategy that must be written out: a name that stands for another name is not allowed.
func written(raw []byte) (*strategy.Strategy, error) {
	if len(raw) == 0 {
		return nil, queue.Invalid("/strategy", "is missing")
	}
	if _, byName, _ := strategy.ParseName(raw); byName {
		return nil, queue.Invalid("/strategy", "must be written out here, not asked for by a name")
	}
	return strategy.ParseJSON(raw)
}

// Delete removes a name with all its versions. Reservations that ask for it are refused from now on.
func (p Strategies) Delete(ctx context.Context, name string, guard StrategyGuard) error {
	stay, err := p.q.stay()
	if err != nil {
		return err
	}
	defer stay()
	p.q.named.change.Lock()
	defer p.q.named.change.Unlock()
	now, err := p.q.named.guarded(name, guard)
	if err != nil {
		return err
	}
	if now == nil {
		return unknownStrategy(p.q.name, name)
	}
	return p.q.shard.Settings.Put(&journal.Set{Kind: journal.SetStrategy, Name: name, Changed: queue.At(p.q.e.options.Now())},
		now.Strategy, nil, p.q.act(ctx, "", "strategy.delete", "strategy "+name))
}

// Read reads a strategy as a reservation of the queue would, by its name too, without keeping it.
func (p Strategies) Read(raw []byte) (*strategy.Strategy, error) {
	if len(raw) == 0 {
		return nil, queue.Invalid("/strategy", "is missing")
	}
	name, ok, err := strategy.ParseName(raw)
	if err != nil {
		return nil, err
	}
	if !ok {
		return strategy.ParseJSON(raw)
	}
	n, err := p.byName(name)
	if err != nil {
		return nil, err
	}
	return strategy.Parse(n.Strategy)
}
