package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	shardvalues "github.com/quern-queue/quern/engine/shard/values"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

// ValueSettings are the settings of an operator for one value of a meta key, or the default of all its values. Versions count from 1; each
// change makes the next. Version 0: nothing is set.
type ValueSettings struct {
	queue.ValueSettings
	Version uint32
	Changed queue.Time // when this version was set
	ETag    string     // names this version; "" when nothing is set
}

// saturated says that the limit is reached by this many chunks in flight.
func saturated(inFlight uint64, limit uint32) bool {
	return limit != queue.NoLimit && strategy.Reached(uint32(inFlight), limit)
}

// ValueGuard decides, by the present settings, whether a change may go on. It is called while no other caller can change settings of the
// queue, and its error is the change's. nil allows every change.
type ValueGuard func(now ValueSettings) error

// values are the settings for values of meta keys in one queue, as its shard reported them last.
type values struct {
	change sync.Mutex // one change at a time; taken before the shard's mutex

	mu    sync.RWMutex // guards what follows; its holder calls nothing else, so that the shard may ask while it holds its own
	byKey map[queue.MetaKey]map[queue.MetaValue]ValueSettings
	// for all values of a key without settings of their own
	defaults map[queue.MetaKey]ValueSettings
	count    int // of values and of defaults
}

func nothingSet() ValueSettings { return ValueSettings{ValueSettings: queue.NoSettings()} }

func (v *values) find(of queue.ValueTarget) ValueSettings {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if of.All {
		return v.byDefault(of.Key)
	}
	if s, set := v.byKey[of.Key][of.Value]; set {
		return s
	}
	return nothingSet()
}

// byDefault is the default of a key. v.mu is held.
func (v *values) byDefault(key queue.MetaKey) ValueSettings {
	if s, set := v.defaults[key]; set {
		return s
	}
	return nothingSet()
}

// limit is how many chunks of a value may be in flight: its own limit, or that of the default. v.mu is held.
func (v *values) limit(entry queue.MetaEntry) uint32 {
	if s, set := v.byKey[entry.Key][entry.Value]; set && s.Limit != queue.NoLimit {
		return s.Limit
	}
	return v.byDefault(entry.Key).Limit
}

// none says that nothing is set for a key and its values. v.mu is held.
func (v *values) none(key queue.MetaKey) bool {
	_, set := v.defaults[key]
	return !set && len(v.byKey[key]) == 0
}

// counts says that a shard would have to count what other shards have too.
func (s *ValueSettings) counts() bool { return s.Limit != queue.NoLimit || s.Quota != queue.Quota{} }

// limitsBut says whether a limit or a quota is set for a value of another key, or for all values of another key.
func (v *values) limitsBut(key queue.MetaKey) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for k, ofKey := range v.byKey {
		for _, s := range ofKey {
			if k != key && s.counts() {
				return true
			}
		}
	}
	for k, s := range v.defaults {
		if k != key && s.counts() {
			return true
		}
	}
	return false
}

// set replaces the settings of one value or of a key; version 0 removes them.
func (v *values) set(of queue.ValueTarget, s ValueSettings) {
	v.mu.Lock()
	defer v.mu.Unlock()
	is := fmt.Appendf(nil, "%d %d", s.Limit, s.Weight)
	if s.Rate != (queue.Rate{}) {
		is = fmt.Appendf(is, " %d/%d", s.Rate.Max, s.Rate.Per)
	}
	if s.Quota != (queue.Quota{}) {
		is = fmt.Appendf(is, " q%d/%d/%d", s.Quota.Waiting, s.Quota.Submissions, s.Quota.Bytes)
	}
	s.ETag = queue.ETag(s.Version, is)
	if of.All {
		v.count += replace(&v.defaults, of.Key, s)
		return
	}
	ofKey := v.byKey[of.Key]
	v.count += replace(&ofKey, of.Value, s)
	if v.byKey == nil {
		v.byKey = map[queue.MetaKey]map[queue.MetaValue]ValueSettings{}
	}
	if v.byKey[of.Key] = ofKey; len(ofKey) == 0 {
		delete(v.byKey, of.Key)
	}
}

// replace enters settings, or removes those of version 0, and returns by how many there are more.
func replace[K comparable](in *map[K]ValueSettings, at K, s ValueSettings) (more int) {
	if *in == nil {
		*in = map[K]ValueSettings{}
	}
	before := len(*in)
	if (*in)[at] = s; s.Version == 0 {
		delete(*in, at)
	}
	return len(*in) - before
}

// of is a copy of the settings for the values of a key.
func (v *values) of(key queue.MetaKey) map[queue.MetaValue]ValueSettings {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return maps.Clone(v.byKey[key])
}

// all is everything that is set.
func (v *values) all() map[queue.ValueTarget]ValueSettings {
	v.mu.RLock()
	defer v.mu.RUnlock()
	list := make(map[queue.ValueTarget]ValueSettings, v.count)
	for key, of := range v.byKey {
		for value, set := range of {
			list[queue.ValueTarget{MetaEntry: queue.MetaEntry{Key: key, Value: value}}] = set
		}
	}
	for key, set := range v.defaults {
		list[allOf(key)] = set
	}
	return list
}

// clear forgets everything.
func (v *values) clear() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.byKey, v.defaults, v.count = nil, nil, 0
}

// Put sets a limit, a weight and a rate for a value of a meta key, durably, and replaces the previous settings. They hold from the next
// reservation on. The same settings as before change nothing. Settings that set nothing are refused: Delete removes.
func (p Values) Put(ctx context.Context, entry queue.MetaEntry, settings queue.ValueSettings,
	guard ValueGuard) (v api.ValueCount, created bool, err error) {
	return changeValue(p.q, func() (api.ValueCount, bool, error) {
		created, err := p.put(ctx, queue.ValueTarget{MetaEntry: entry}, settings, guard)
		return p.q.value(entry), created, err
	})
}

// PutDefault is Put for all values of a key for which nothing of their own is set.
func (p Values) PutDefault(ctx context.Context, key queue.MetaKey, settings queue.ValueSettings,
	guard ValueGuard) (k api.MetaKey, created bool, err error) {
	return changeValue(p.q, func() (api.MetaKey, bool, error) {
		created, err := p.put(ctx, allOf(key), settings, guard)
		return p.q.countValues(key), created, err
	})
}

func allOf(key queue.MetaKey) queue.ValueTarget {
	return queue.ValueTarget{MetaEntry: queue.MetaEntry{Key: key}, All: true}
}

// changeValue makes a change while no one else changes settings for values.
func changeValue[T any](q *Queue, change func() (T, bool, error)) (now T, created bool, err error) {
	stay, err := q.stay()
	if err != nil {
		return now, false, err
	}
	defer stay()
	q.values.change.Lock()
	defer q.values.change.Unlock()
	return change()
}

func (p Values) put(ctx context.Context, of queue.ValueTarget, settings queue.ValueSettings,
	guard ValueGuard) (created bool, err error) {
	if err := validValue(of, settings); err != nil {
		return false, err
	}
	if p.q.many.Load() != nil && of.Key != queue.GroupKey && (&ValueSettings{ValueSettings: settings}).counts() {
		pointer := "/limit"
		if settings.Limit == queue.NoLimit {
			pointer = "/quota"
		}
		return false, queue.Invalid(pointer, "cannot be kept, because the queue has several shards, and each counts for itself: "+
			"only values of the key %q can have one", queue.GroupKey)
	}
	now := p.q.values.find(of)
	if guard != nil {
		err = guard(now)
	}
	switch {
	case err != nil:
		return false, err
	case now.ValueSettings == settings && now.Version != 0:
		return false, nil
	case now.Version == 0 && p.q.values.count >= queue.MaxSetValues:
		return false, &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf("The queue has settings for %d "+
			"values already, the most it keeps. Delete those of values that are not needed any more.", queue.MaxSetValues)}
	}
	next := ValueSettings{ValueSettings: settings, Version: now.Version + 1, Changed: queue.At(p.q.e.options.Now())}
	return now.Version == 0, p.set(ctx, "set", of, now, next)
}

// Delete removes the settings of a value, durably: it is not limited any more, and weighs as much as any other. CodeUnknownValue: nothing
// is set.
func (p Values) Delete(ctx context.Context, entry queue.MetaEntry, guard ValueGuard) error {
	return p.remove(ctx, queue.ValueTarget{MetaEntry: entry}, guard)
}

// DeleteDefault removes the settings for all values of a key, durably. CodeUnknownValue: nothing is set.
func (p Values) DeleteDefault(ctx context.Context, key queue.MetaKey, guard ValueGuard) error {
	return p.remove(ctx, allOf(key), guard)
}

func (p Values) remove(ctx context.Context, of queue.ValueTarget, guard ValueGuard) error {
	if err := validTarget(of); err != nil {
		return err
	}
	_, _, err := changeValue(p.q, func() (none struct{}, created bool, err error) {
		now := p.q.values.find(of)
		if guard != nil {
			err = guard(now)
		}
		switch {
		case err != nil:
			return none, false, err
		case now.Version == 0:
			return none, false, &queue.Error{Code: queue.CodeUnknownValue, Message: "Nothing is set for " + nameOf(of) + "."}
		}
		return none, false, p.set(ctx, "delete", of, now, nothingSet())
	})
	return err
}

// nameOf is a target as sentences name it.
func nameOf(of queue.ValueTarget) string {
	if of.All {
		return fmt.Sprintf("all values of %q", of.Key)
	}
	return fmt.Sprintf("the value %s of %q", of.Value.Quoted(), of.Key)
}

// set gives the shard the settings of a value or a key.
func (p Values) set(ctx context.Context, verb string, of queue.ValueTarget, before, after ValueSettings) error {
	set := journal.Set{Kind: journal.SetValue, Entry: of.MetaEntry, Version: after.Version, Changed: after.Changed,
		Demand: after.ValueSettings}
	action, target := "value."+verb, of.Key+"="+of.Value.Quoted()
	if of.All {
		set.Kind, action, target = journal.SetKey, "key."+verb, of.Key
	}
	return p.q.shard.Settings.Put(&set, before.state(), after.state(), p.q.act(ctx, "", action, target))
}

// state is the settings as the audit log shows them; nil for none.
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
	_, _, rate, quota := s.shown()
	if rate != nil {
		state["rate"] = rate
	}
	if quota != nil {
		state["quota"] = quota
	}
	return state
}

// Get describes one value of a meta key and its settings. CodeUnknownValue: no open submission has it,
// and nothing is set.
func (p Values) Get(_ context.Context, entry queue.MetaEntry) (v api.ValueCount, err error) {
	if err := validTarget(queue.ValueTarget{MetaEntry: entry}); err != nil {
		return v, err
	}
	v = p.q.value(entry)
	if v.Submissions == 0 && v.ETag == "" {
		return v, &queue.Error{Code: queue.CodeUnknownValue,
			Message: fmt.Sprintf("No open submission has the value %s of %q, and nothing is set for it.", entry.Value.Quoted(), entry.Key)}
	}
	return v, nil
}

// Key describes a meta key and the settings of all its values. CodeUnknownValue: no open submission has it,
// and nothing is set for it or for a value of it.
func (p Values) Key(_ context.Context, key queue.MetaKey) (k api.MetaKey, err error) {
	if err := validTarget(allOf(key)); err != nil {
		return k, err
	}
	if k = p.q.countValues(key); k.Values == 0 && k.ETag == "" {
		return k, &queue.Error{Code: queue.CodeUnknownValue,
			Message: fmt.Sprintf("No open submission has the meta key %q, and nothing is set for it.", key)}
	}
	return k, nil
}

func (q *Queue) value(entry queue.MetaEntry) api.ValueCount {
	of := map[queue.MetaValue]shardvalues.Total{entry.Value: {}}
	q.shard.Values.Totals(entry.Key, of, false)
	count := q.shard.Values.Get(entry)
	return q.showValue(entry.Key, &count, of[entry.Value])
}

// showValue is a value of a key as the API has it: its counts and totals, and its settings.
func (q *Queue) showValue(key queue.MetaKey, count *backlog.ValueCount, total shardvalues.Total) api.ValueCount {
	entry := queue.MetaEntry{Key: key, Value: count.Value}
	set, byDefault := q.values.find(queue.ValueTarget{MetaEntry: entry}), q.values.find(allOf(key))
	v := api.ValueCount{
		Value: count.Value, Ready: count.Available, Paused: count.Paused, Blocked: count.Blocked, InFlight: count.InFlight,
		Waiting: total.Waiting, Dead: total.Dead, Done: total.Done, OldestReadyAt: total.Oldest.API(),
		Submissions: uint64(count.Submissions), Saturated: saturated(count.InFlight, set.Or(byDefault.ValueSettings).Limit),
		ETag: set.ETag, ChangedAt: set.Changed.API(),
	}
	if since := q.frames.full.since(entry); since != 0 {
		v.SaturatedSince = new(since.API())
	}
	v.Limit, v.Weight, v.Rate, v.Quota = set.shown()
	v.DefaultLimit, v.DefaultWeight, v.DefaultRate, v.DefaultQuota = byDefault.shown()
	return v
}

// shown are the settings as the API has them: nil for none.
func (s *ValueSettings) shown() (limit *uint32, weight *float64, rate *api.Rate, quota *api.GroupLimits) {
	if s.Limit != queue.NoLimit {
		limit = new(s.Limit)
	}
	if s.Weight != 0 {
		weight = new(float64(s.Weight) / queue.DefaultWeight)
	}
	if s.Rate != (queue.Rate{}) {
		rate = &api.Rate{Max: s.Rate.Max, PerMS: s.Rate.Per.Milliseconds()}
	}
	if s.Quota != (queue.Quota{}) {
		quota = new(s.Quota.API())
	}
	return limit, weight, rate, quota
}

// validValue refuses settings that are not allowed. Pointers are those of the body of the HTTP face.
func validValue(of queue.ValueTarget, s queue.ValueSettings) error {
	switch {
	case s == queue.NoSettings():
		return queue.Invalid("/limit", "weight, rate and quota are all null, which sets nothing; set one of them, or use DELETE to "+
			"remove all")
	case s.Quota != queue.Quota{} && of.Key == queue.GroupKey:
		return queue.Invalid("/quota", "cannot be set for the key %q: set the limits of the group", queue.GroupKey)
	case s.Limit > queue.MaxValueLimit && s.Limit != queue.NoLimit:
		return queue.Invalid("/limit", "is %d; 0 to %d are allowed, or null for none", s.Limit, queue.MaxValueLimit)
	case s.Weight > queue.MaxWeight:
		return queue.Invalid("/weight", "is %g; 0.001 to %d are allowed, or null for none",
			float64(s.Weight)/queue.DefaultWeight, queue.MaxWeight/queue.DefaultWeight)
	case s.Rate != queue.Rate{}:
		if _, err := queue.RateOf(s.Rate.Max, s.Rate.Per.Milliseconds()); err != nil {
			return err
		}
	}
	if err := s.Quota.Valid("/quota"); err != nil {
		return err
	}
	return validTarget(of)
}

func validTarget(of queue.ValueTarget) error {
	if queue.ValidMetaKey(of.Key) != nil {
		return queue.Invalid("/path/key", "is not a meta key: 1 to %d letters, digits, '_', '-' and '.'", queue.MaxMetaKeyBytes)
	}
	if n := len(of.Value.Text()); n > queue.MaxMetaValueBytes {
		return queue.Invalid("/path/value", "is %d bytes long; at most %d are allowed", n, queue.MaxMetaValueBytes)
	}
	return nil
}

// List lists the values of a meta key that open submissions have or that something is set for, the largest first by `sort`:
// one of ValueSorts, or "" for the first. It looks at every value of the key, and at every open submission.
func (p Values) List(_ context.Context, key queue.MetaKey, sort string, limit int) ([]api.ValueCount, error) {
	limit, err := validLimit(limit)
	if err != nil {
		return nil, err
	}
	totals := map[queue.MetaValue]shardvalues.Total{}
	size, added := p.q.valueSize(key, cmp.Or(sort, ValueSorts[0]), totals)
	if size == nil {
		return nil, queue.Invalid("/query/sort", "is not known; use one of %s", strings.Join(ValueSorts, ", "))
	}
	if added {
		p.q.shard.Values.Totals(key, totals, true)
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
	counts = counts[:min(limit, len(counts))]
	if !added {
		for i := range counts {
			totals[counts[i].Value] = shardvalues.Total{}
		}
		p.q.shard.Values.Totals(key, totals, false)
	}
	list := make([]api.ValueCount, len(counts))
	for i := range list {
		list[i] = p.q.showValue(key, &counts[i], totals[counts[i].Value])
	}
	return list, nil
}

// ValueSorts are what values can be sorted by.
var ValueSorts = []string{"in_flight", "ready", "waiting", "dead", "done", "oldest", "paused", "blocked", "submissions", "weight"}

// valueSize is the number by which values of a key are sorted; nil: sort is none of ValueSorts. added: the totals have it.
func (q *Queue) valueSize(key queue.MetaKey, sort string, totals map[queue.MetaValue]shardvalues.Total) (
	size func(*backlog.ValueCount) uint64, added bool) {
	switch sort {
	case "in_flight":
		return func(v *backlog.ValueCount) uint64 { return v.InFlight }, false
	case "ready":
		return func(v *backlog.ValueCount) uint64 { return v.Available }, false
	case "paused":
		return func(v *backlog.ValueCount) uint64 { return v.Paused }, false
	case "blocked":
		return func(v *backlog.ValueCount) uint64 { return v.Blocked }, false
	case "submissions":
		return func(v *backlog.ValueCount) uint64 { return uint64(v.Submissions) }, false
	case "weight":
		set, byDefault := q.values.of(key), q.values.find(allOf(key)).Weight
		return func(v *backlog.ValueCount) uint64 {
			return uint64(cmp.Or(set[v.Value].Weight, byDefault, queue.DefaultWeight))
		}, false
	case "waiting":
		return func(v *backlog.ValueCount) uint64 { return totals[v.Value].Waiting }, true
	case "dead":
		return func(v *backlog.ValueCount) uint64 { return totals[v.Value].Dead }, true
	case "done":
		return func(v *backlog.ValueCount) uint64 { return totals[v.Value].Done }, true
	case "oldest":
		return func(v *backlog.ValueCount) uint64 { return agedBy(totals[v.Value].Oldest) }, true
	}
	return nil, false
}

// agedBy is larger the longer ago a time is, and 0 for none.
func agedBy(t queue.Time) uint64 {
	if t == 0 {
		return 0
	}
	return math.MaxUint64 - uint64(t)
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
		if info := p.q.countValues(key); info.Values > 0 || info.ETag != "" {
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
	keys = slices.AppendSeq(keys, maps.Keys(q.values.defaults))
	q.values.mu.RUnlock()
	slices.Sort(keys)
	return slices.Compact(keys)
}

func (q *Queue) countValues(key queue.MetaKey) api.MetaKey {
	set := q.values.of(key)
	byDefault := q.values.find(allOf(key))
	info := api.MetaKey{Key: key, Values: uint64(len(set)), ValuesSet: uint64(len(set)), ETag: byDefault.ETag,
		ChangedAt: byDefault.Changed.API()}
	info.Limit, info.Weight, info.Rate, info.Quota = byDefault.shown()
	counts, _ := q.shard.Values.List(key, math.MaxInt, nil)
	for _, count := range counts {
		if _, is := set[count.Value]; !is {
			info.Values++
		}
	}
	return info
}
