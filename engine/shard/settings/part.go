package settings

// Settings of the queue, limits and weights of values and keys, and named strategies are kinds of one thing: a row with
// a version. So they share one op (journal.Set), one form of storage, and one replay.

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Part has the current settings, and the rows in which checkpoints keep them.
type Part struct {
	m *machine.Machine
	// Report gets all settings at the end of a replay, and then each change; nil: no one does.
	Report func(list []journal.Set, all bool)

	queue      *row // nil: the settings are those that the machine was made with
	values     map[queue.ValueTarget]*row
	strategies map[string][]*row // the newest versions of each, the newest last
	groups     map[string]*row   // that someone created, or deleted

	rows map[uint64]*row // by number
	last uint64          // the largest number of a row
}

// row is a version of a setting. The number is the key of its row in the store. It is given once, and stays when the
// version grows.
type row struct {
	number uint64
	set    journal.Set
}

// New is the part of a machine without settings.
func New(m *machine.Machine) *Part {
	return &Part{
		m: m, values: map[queue.ValueTarget]*row{}, strategies: map[string][]*row{}, groups: map[string]*row{},
		rows: map[uint64]*row{},
	}
}

// Queue is the version of the queue's settings; 0: none was set.
func (p *Part) Queue() uint32 {
	if p.queue == nil {
		return 0
	}
	return p.queue.set.Version
}

// Group returns the settings of a group, or none if no one created it or it was deleted.
func (p *Part) Group(name string) (set journal.Set, created bool) {
	if r := p.groups[name]; r != nil && isHere(&r.set) {
		return r.set, true
	}
	return journal.Set{Kind: journal.SetGroup, Name: name}, false
}

// isHere says that someone created a group, and that it is here.
func isHere(set *journal.Set) bool {
	return set.Version > 0 && !set.Deleted && !set.Moves.Unset && !set.Moves.Gone
}

// create applies the settings of a group to the machine.
func (p *Part) create(set *journal.Set) {
	to := set.Moves.To
	if !set.Moves.Gone {
		to = 0
	}
	p.m.Quotas.Went(set.Name, to)
	if isHere(set) {
		p.m.Quotas.Set(set.Name, set.Quota)
	} else {
		p.m.Quotas.Remove(set.Name)
	}
}

// demand applies the settings of a value or a key to the machine.
func (p *Part) demand(set *journal.Set) {
	p.m.Quotas.Watch(set.Entry.Key, set.Demand.Quota)
	p.m.ValueLimits.Set(set.Target(), set.Demand)
}

// Strategy is a version of a strategy, if it is kept.
func (p *Part) Strategy(name string, version uint32) (set journal.Set, found bool) {
	of := p.strategies[name]
	if at, found := place(of, version); found {
		return of[at].set, true
	}
	return journal.Set{}, false
}

// place is the place of a version, or the place where it would be.
func place(of []*row, version uint32) (at int, found bool) {
	return slices.BinarySearchFunc(of, version, func(r *row, version uint32) int {
		return cmp.Compare(r.set.Version, version)
	})
}

// Apply makes a change of settings effective.
func (p *Part) Apply(op journal.PartOp) (mine bool, err error) {
	set, mine := op.(*journal.Set)
	if !mine {
		return false, nil
	}
	switch set.Kind {
	case journal.SetQueue:
		p.queue = p.keep(p.queue, set)
	case journal.SetValue, journal.SetKey:
		p.setValue(set)
	case journal.SetStrategy:
		p.setStrategy(set)
	case journal.SetGroup:
		p.setGroup(set)
	}
	return true, p.takeEffect(set)
}

// Version 0 is the removal.
func (p *Part) setValue(set *journal.Set) {
	of := set.Target()
	r := p.values[of]
	if set.Version > 0 {
		p.values[of] = p.keep(r, set)
		return
	}
	p.drop(r)
	delete(p.values, of)
}

// setGroup is setValue for a group.
func (p *Part) setGroup(set *journal.Set) {
	r := p.groups[set.Name]
	if set.Version > 0 {
		p.groups[set.Name] = p.keep(r, set)
		return
	}
	p.drop(r)
	delete(p.groups, set.Name)
}

// setStrategy adds a version, and keeps the newest of the earlier ones; version 0 removes them all. A replay may come
// to a version that a younger row already has, or that has been forgotten since. Old versions stay, so that an operator
// can read them, and put one back.
func (p *Part) setStrategy(set *journal.Set) {
	of := p.strategies[set.Name]
	gone := len(of)
	if set.Version > 0 {
		at, found := place(of, set.Version)
		if found {
			p.keep(of[at], set)
		} else {
			of = slices.Insert(of, at, p.keep(nil, set))
		}
		gone = max(0, len(of)-queue.MaxStrategyVersions)
	}
	for _, r := range of[:gone] {
		p.drop(r)
	}
	if p.strategies[set.Name] = slices.Delete(of, 0, gone); len(of) == gone {
		delete(p.strategies, set.Name)
	}
}

// takeEffect applies a setting to the machine. At a replay only the last value counts, and Replayed applies that.
func (p *Part) takeEffect(set *journal.Set) error {
	if set.Kind == journal.SetQueue {
		settings, err := queue.SettingsOf(set.Settings)
		if err != nil {
			return fmt.Errorf("settings of the queue cannot be read: %w", err)
		}
		p.m.Settings = settings
		p.m.Quotas.Watch("", settings.Quota())
		p.m.ValueLimits.Shorten(settings.RestartGrace)
	}
	if p.m.Replay {
		return nil
	}
	switch set.Kind {
	case journal.SetValue, journal.SetKey:
		p.demand(set)
	case journal.SetGroup:
		p.create(set)
	}
	if p.Report != nil {
		p.Report([]journal.Set{*set}, false)
	}
	return nil
}

// Replayed ends a replay: it applies all settings before any call is served. Only the last values count: a limit that
// was set and removed again must not hold for a moment.
func (p *Part) Replayed() {
	p.m.ValueLimits.Shorten(p.m.Settings.RestartGrace) // of a reload: a change that it has found may end the grace
	list := make([]journal.Set, 0, len(p.rows))
	for _, number := range slices.Sorted(maps.Keys(p.rows)) {
		set := &p.rows[number].set
		switch set.Kind {
		case journal.SetValue, journal.SetKey:
			p.demand(set)
		case journal.SetGroup:
			p.create(set)
		case journal.SetStrategy:
			if of := p.strategies[set.Name]; of[len(of)-1].number != number {
				continue
			}
		}
		list = append(list, *set)
	}
	if p.Report != nil {
		p.Report(list, true)
	}
}

// Intended has nothing to count: the caller waits for its commit, and no decision depends on the setting before.
func (p *Part) Intended(func(what string, n int)) {}

// keep stores a setting in a row; nil is a new one.
func (p *Part) keep(r *row, set *journal.Set) *row {
	if r == nil {
		p.last++
		r = &row{number: p.last}
		p.rows[r.number] = r
	}
	r.set = *set
	p.m.Asides.Changed(machine.AsideSet, r.number)
	return r
}

// drop removes a row; nil is none.
func (p *Part) drop(r *row) {
	if r != nil {
		delete(p.rows, r.number)
		p.m.Asides.Changed(machine.AsideSet, r.number)
	}
}

// Row returns the bytes for a row; nil: the row is not needed.
func (p *Part) Row(key uint64) []byte {
	if r := p.rows[key]; r != nil {
		return journal.AppendSet(nil, &r.set)
	}
	return nil
}

// Load reads a row.
// Rows come in the order of their numbers, and versions of a strategy need not: place finds where each belongs.
func (p *Part) Load(key uint64, bytes []byte) error {
	set, err := journal.DecodeSet(bytes)
	if err != nil {
		return machine.AsideError(machine.AsideSet)
	}
	r := &row{key, set}
	p.rows[key], p.last = r, max(p.last, key)
	switch set.Kind {
	case journal.SetQueue:
		p.queue = r
	case journal.SetValue, journal.SetKey:
		p.values[set.Target()] = r
	case journal.SetGroup:
		p.groups[set.Name] = r
	case journal.SetStrategy:
		of := p.strategies[set.Name]
		at, _ := place(of, set.Version)
		p.strategies[set.Name] = slices.Insert(of, at, r)
	}
	return p.takeEffect(&r.set)
}
