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
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

// ValueSettings are what an operator set for one value of a meta key. Versions count from 1; each change makes the next.
// Version 0: nothing is set.
type ValueSettings struct {
	queue.ValueSettings
	Version uint32
	Changed queue.Time // when this version was set
	ETag    string     // names this version; "" when nothing is set
}

// saturated says that the limit is reached by so many chunks in flight.
func (s *ValueSettings) saturated(inFlight uint64) bool {
	return s.Limit != queue.NoLimit && strategy.Reached(uint32(inFlight), s.Limit)
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
		s.ETag = queue.ETag(s.Version, fmt.Appendf(nil, "%d %d", s.Limit, s.Weight))
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
	guard ValueGuard) (v api.ValueCount, created bool, err error) {
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
		state["weight"] = float64(s.Weight) / queue.DefaultWeight
	}
	return state
}

// Get tells what there is of one value of a meta key, and what is set for it. CodeUnknownValue: no open submission has it,
// and nothing is set.
func (p Values) Get(_ context.Context, entry queue.MetaEntry) (v api.ValueCount, err error) {
	if err := validEntry(entry); err != nil {
		return v, err
	}
	v = p.q.value(entry)
	if v.Submissions == 0 && v.ETag == "" {
		return v, &queue.Error{Code: queue.CodeUnknownValue,
			Message: fmt.Sprintf("No open submission has the value %s of %q, and nothing is set for it.", entry.Value.Quoted(), entry.Key)}
	}
	return v, nil
}

func (q *Queue) value(entry queue.MetaEntry) api.ValueCount {
	count := q.shard.Values.Get(entry)
	return q.showValue(entry.Key, &count)
}

// showValue is a value of a key as the API has it: what was counted of it, and what is set for it.
func (q *Queue) showValue(key queue.MetaKey, count *backlog.ValueCount) api.ValueCount {
	entry := queue.MetaEntry{Key: key, Value: count.Value}
	set := q.values.find(entry)
	v := api.ValueCount{
		Value: count.Value, Ready: count.Available, Paused: count.Paused, Blocked: count.Blocked, InFlight: count.InFlight,
		Submissions: uint64(count.Submissions), Saturated: set.saturated(count.InFlight), ETag: set.ETag, ChangedAt: set.Changed.API(),
	}
	if since := q.frames.full.since(entry); since != 0 {
		v.SaturatedSince = new(since.API())
	}
	if set.Limit != queue.NoLimit {
		v.Limit = new(set.Limit)
	}
	if set.Weight != 0 {
		v.Weight = new(float64(set.Weight) / queue.DefaultWeight)
	}
	return v
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
func (p Values) List(_ context.Context, key queue.MetaKey, sort string, limit int) ([]api.ValueCount, error) {
	limit, err := validLimit(limit)
	if err != nil {
		return nil, err
	}
	size := map[string]func(*backlog.ValueCount) uint64{
		"":          func(v *backlog.ValueCount) uint64 { return v.InFlight },
		"in_flight": func(v *backlog.ValueCount) uint64 { return v.InFlight },
		"ready":     func(v *backlog.ValueCount) uint64 { return v.Available },
	}[sort]
	if size == nil {
		return nil, queue.Invalid("/query/sort", "is not known; use in_flight or ready")
	}
	counts, _ := p.q.shard.Values.List(key, math.MaxInt, nil)
	set := p.q.values.of(key)
	for i := range counts {
		delete(set, counts[i].Value)
	}
	for value := range set {
		counts = append(counts, backlog.ValueCount{Value: value})
	}
	slices.SortFunc(counts, func(a, b backlog.ValueCount) int {
		return cmp.Or(cmp.Compare(size(&b), size(&a)), a.Value.Compare(b.Value))
	})
	list := make([]api.ValueCount, min(limit, len(counts)))
	for i := range list {
		list[i] = p.q.showValue(key, &counts[i])
	}
	return list, nil
}

// Keys lists the meta keys that open submissions have or that something is set for, by name, from the one after `after` on: at
// most limit (1 to queue.MaxListLimit). Next of the page is the `after` of the following one.
func (p Values) Keys(_ context.Context, after string, limit int) (page Page[api.MetaKey], err error) {
	if limit, err = validLimit(limit); err != nil {
		return page, err
	}
	if after != "" && queue.ValidMetaKey(after) != nil {
		return page, badCursor()
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
