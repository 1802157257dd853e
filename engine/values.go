package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// ValueSettings are what an operator set for one value of a meta key. Versions count from 1; each change makes the next.
// Version 0: nothing is set.
type ValueSettings struct {
	queue.ValueSettings
	Version uint32
	Changed queue.Time // when this version was set
}

// Value is one value of a meta key: what there is of it, and what is set for it.
type Value struct {
	backlog.ValueCount
	Settings ValueSettings
	// SaturatedSince is from when on the value has been at its limit whenever it was looked at, once a second, but for moments
	// shorter than a HeatStep. 0: it is not, or it is not among the values that a frame reads.
	SaturatedSince queue.Time
}

// Saturated says that as many chunks of the value are in flight as its limit lets be.
func (v *Value) Saturated() bool {
	return v.Settings.Limit != queue.NoLimit && v.InFlight >= uint64(v.Settings.Limit)
}

// ValueGuard decides whether a change may go on, seeing what is set now. It is called while no other caller can change what is set
// in the queue, and its error is the change's. nil lets everything pass.
type ValueGuard func(now ValueSettings) error

// values are what is set for values of meta keys in one queue, as its shard told last.
type values struct {
	change sync.Mutex // one change at a time; taken before the shard's mutex

	mu    sync.RWMutex // guards what follows; its holder calls nothing else, so that the shard may ask while it holds its own
	byKey map[queue.MetaKey]map[queue.MetaValue]ValueSettings
	count int
}

func nothingSet() ValueSettings { return ValueSettings{ValueSettings: queue.NoSettings()} }

func (v *values) find(entry queue.MetaEntry) ValueSettings {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if s, set := v.byKey[entry.Key][entry.Value]; set {
		return s
	}
	return nothingSet()
}

// set replaces what is set for one value; version 0 removes it.
func (v *values) set(entry queue.MetaEntry, s ValueSettings) {
	v.mu.Lock()
	defer v.mu.Unlock()
	of := v.byKey[entry.Key]
	before := len(of)
	switch {
	case s.Version != 0:
		if v.byKey == nil {
			v.byKey = map[queue.MetaKey]map[queue.MetaValue]ValueSettings{}
		}
		if of == nil {
			of = map[queue.MetaValue]ValueSettings{}
			v.byKey[entry.Key] = of
		}
		of[entry.Value] = s
	default:
		delete(of, entry.Value)
		if len(of) == 0 {
			delete(v.byKey, entry.Key)
		}
	}
	v.count += len(of) - before
}

// of is a copy of what is set for the values of a key.
func (v *values) of(key queue.MetaKey) map[queue.MetaValue]ValueSettings {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return maps.Clone(v.byKey[key])
}

// clear forgets everything.
func (v *values) clear() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.byKey, v.count = nil, 0
}

// Put sets a limit and a weight for a value of a meta key, in the place of what was set, durably; reservations go by it
// from the next one on. The same settings as before change nothing. Settings that set nothing are refused: Delete removes.
func (p Values) Put(ctx context.Context, entry queue.MetaEntry, settings queue.ValueSettings,
	guard ValueGuard) (v Value, created bool, err error) {
	if err := validValue(entry, settings); err != nil {
		return v, false, err
	}
	stay, err := p.q.stay()
	if err != nil {
		return v, false, err
	}
	defer stay()
	p.q.values.change.Lock()
	defer p.q.values.change.Unlock()
	now := p.q.values.find(entry)
	if guard != nil {
		err = guard(now)
	}
	switch {
	case err != nil:
		return v, false, err
	case now.ValueSettings == settings && now.Version != 0:
		return p.q.value(entry), false, nil
	case now.Version == 0 && p.q.values.count >= queue.MaxSetValues:
		return v, false, &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf("The queue has settings for %d "+
			"values already, the most it keeps. Delete those of values that are not needed any more.", queue.MaxSetValues)}
	}
	next := ValueSettings{ValueSettings: settings, Version: now.Version + 1, Changed: queue.At(p.q.e.options.Now())}
	if err := p.put(ctx, "value.set", entry, now, next); err != nil {
		return v, false, err
	}
	return p.q.value(entry), now.Version == 0, nil
}

// Delete removes what is set for a value, durably: it is not limited any more and weighs as much as any other.
// CodeUnknownValue: nothing is set.
func (p Values) Delete(ctx context.Context, entry queue.MetaEntry, guard ValueGuard) error {
	if err := validEntry(entry); err != nil {
		return err
	}
	stay, err := p.q.stay()
	if err != nil {
		return err
	}
	defer stay()
	p.q.values.change.Lock()
	defer p.q.values.change.Unlock()
	now := p.q.values.find(entry)
	if guard != nil {
		if err := guard(now); err != nil {
			return err
		}
	}
	if now.Version == 0 {
		return &queue.Error{Code: queue.CodeUnknownValue,
			Message: fmt.Sprintf("Nothing is set for the value %s of %q.", entry.Value.Quoted(), entry.Key)}
	}
	return p.put(ctx, "value.delete", entry, now, nothingSet())
}

// put has the shard go by what is set for a value from now on.
func (p Values) put(ctx context.Context, action string, entry queue.MetaEntry, before, after ValueSettings) error {
	return p.q.shard.Settings.Put(&journal.Set{
		Kind: journal.SetValue, Entry: entry, Version: after.Version, Changed: after.Changed, Demand: after.ValueSettings,
	}, before.state(), after.state(), p.q.act(ctx, "", action, entry.Key+"="+entry.Value.Quoted()))
}

// state is what is set as the audit log tells of it; nil for nothing.
func (s ValueSettings) state() any {
	if s.Version == 0 {
		return nil
	}
	state := map[string]any{}
	if s.Limit != queue.NoLimit {
		state["limit"] = s.Limit
	}
	if s.Weight != 0 {
		state["weight"] = float64(s.Weight) / 1000
	}
	return state
}

// Get tells what there is of one value of a meta key, and what is set for it. CodeUnknownValue: no open submission has it,
// and nothing is set.
func (p Values) Get(_ context.Context, entry queue.MetaEntry) (Value, error) {
	if err := validEntry(entry); err != nil {
		return Value{}, err
	}
	v := p.q.value(entry)
	if v.Submissions == 0 && v.Settings.Version == 0 {
		return Value{}, &queue.Error{Code: queue.CodeUnknownValue,
			Message: fmt.Sprintf("No open submission has the value %s of %q, and nothing is set for it.", entry.Value.Quoted(), entry.Key)}
	}
	return v, nil
}

func (q *Queue) value(entry queue.MetaEntry) Value {
	return Value{ValueCount: q.shard.Values.Get(entry), Settings: q.values.find(entry), SaturatedSince: q.frames.full.since(entry)}
}

// validValue refuses what cannot be set for a value. Pointers are those of the body of the HTTP face.
func validValue(entry queue.MetaEntry, s queue.ValueSettings) error {
	switch {
	case s == queue.NoSettings():
		return queue.Invalid("/limit", "and weight are both null, which sets nothing; set one of them, or use DELETE to remove both")
	case s.Limit > queue.MaxValueLimit && s.Limit != queue.NoLimit:
		return queue.Invalid("/limit", "is %d; 0 to %d are allowed, or null for none", s.Limit, queue.MaxValueLimit)
	case s.Weight > queue.MaxWeight:
		return queue.Invalid("/weight", "is %g; 0.001 to %d are allowed, or null for none",
			float64(s.Weight)/queue.DefaultWeight, queue.MaxWeight/queue.DefaultWeight)
	}
	return validEntry(entry)
}

func validEntry(entry queue.MetaEntry) error {
	if queue.ValidMetaKey(entry.Key) != nil {
		return queue.Invalid("/path/key", "is not a meta key: 1 to %d letters, digits, '_', '-' and '.'", queue.MaxMetaKeyBytes)
	}
	if n := len(entry.Value.Text()); n > queue.MaxMetaValueBytes {
		return queue.Invalid("/path/value", "is %d bytes long; at most %d are allowed", n, queue.MaxMetaValueBytes)
	}
	return nil
}

// List lists the values of a meta key that open submissions have or that something is set for, the largest first by `sort`:
// "in_flight" (the default) or "ready".
func (p Values) List(_ context.Context, key queue.MetaKey, sort string, limit int) ([]Value, error) {
	limit, err := validLimit(limit)
	if err != nil {
		return nil, err
	}
	size := map[string]func(*Value) uint64{
		"":          func(v *Value) uint64 { return v.InFlight },
		"in_flight": func(v *Value) uint64 { return v.InFlight },
		"ready":     func(v *Value) uint64 { return v.Available },
	}[sort]
	if size == nil {
		return nil, queue.Invalid("/query/sort", "is not known; use in_flight or ready")
	}
	list := p.q.listValues(key)
	slices.SortFunc(list, func(a, b Value) int {
		return cmp.Or(cmp.Compare(size(&b), size(&a)), a.Value.Compare(b.Value))
	})
	return list[:min(limit, len(list))], nil
}

// listValues is all values of a key, in no useful order.
func (q *Queue) listValues(key queue.MetaKey) (list []Value) {
	set := q.values.of(key)
	counts, _ := q.shard.Values.List(key, math.MaxInt, nil)
	for _, count := range counts {
		list = append(list, Value{ValueCount: count, Settings: nothingSet()})
	}
	for i := range list {
		if s, is := set[list[i].Value]; is {
			list[i].Settings = s
			list[i].SaturatedSince = q.frames.full.since(queue.MetaEntry{Key: key, Value: list[i].Value})
			delete(set, list[i].Value)
		}
	}
	for value, s := range set {
		list = append(list, Value{ValueCount: backlog.ValueCount{Value: value}, Settings: s})
	}
	return list
}

// Keys lists the meta keys that open submissions have or that something is set for, by name, from the one after `after` on: at
// most limit (1 to queue.MaxListLimit). Next of the page is the `after` of the following one.
func (p Values) Keys(_ context.Context, after string, limit int) (page Page[api.MetaKey], err error) {
	if limit, err = validLimit(limit); err != nil {
		return page, err
	}
	if after != "" && queue.ValidMetaKey(after) != nil {
		return page, queue.Invalid("/query/cursor", "is not a cursor of this list; take it from `next` of the page before, unchanged")
	}
	for _, key := range p.q.keys() {
		if key <= after {
			continue
		}
		if len(page.Items) == limit {
			page.Next = page.Items[limit-1].Key
			break
		}
		if info := p.q.countValues(key); info.Values > 0 {
			page.Items = append(page.Items, info)
		}
	}
	return page, nil
}

// keys are the keys that there may be values of, sorted.
func (q *Queue) keys() []queue.MetaKey {
	keys := q.shard.Values.Keys()
	q.values.mu.RLock()
	keys = slices.AppendSeq(keys, maps.Keys(q.values.byKey))
	q.values.mu.RUnlock()
	slices.Sort(keys)
	return slices.Compact(keys)
}

func (q *Queue) countValues(key queue.MetaKey) api.MetaKey {
	set := q.values.of(key)
	info := api.MetaKey{Key: key, Values: uint64(len(set)), ValuesSet: uint64(len(set))}
	counts, _ := q.shard.Values.List(key, math.MaxInt, nil)
	for _, count := range counts {
		if _, is := set[count.Value]; !is {
			info.Values++
		}
	}
	return info
}
