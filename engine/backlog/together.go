package backlog

import (
	"maps"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// together is for keys that several backlogs of one queue count together. Each counter of such a key counts the
// chunks in flight here and in the others. So limits, gates and orders by count need not know about it.
//
//	here: taken, landed ─► changed ─► OwnCounts ─► the caller, which knows all backlogs
//	                                               │
//	counters here ◄─ correct ◄─ CountOthers ◄──────┘
//
// OwnCounts gives the chunks in flight here as numbers, not as differences. So after a restart a new backlog gives
// all its numbers, and the rest follows from that.
type together struct {
	id      uint64 // of the whole of backlogs
	keys    []queue.MetaKey
	others  map[queue.MetaEntry]uint32
	changed map[queue.MetaEntry]struct{}
	lost    bool // there were too many changes to remember

	rates     []*rate                   // that are kept together, too (together_rates.go)
	taken     map[queue.MetaEntry]Takes // reservations here
	lostTaken bool                      // of too many values to remember
}

// changedMost is how many changed values are remembered. If no one asks for them for long, the next answer has all.
const changedMost = 50_000

// OwnCount is how many chunks of a value are in flight in one backlog.
type OwnCount struct {
	queue.MetaEntry
	InFlight uint32
}

// Together lists the keys and rates that several backlogs count together.
type Together struct {
	Keys  []queue.MetaKey  // whose chunks in flight they count
	Rates []strategy.Limit // that they keep
}

// CountTogether counts together with the backlogs that have the same id. fresh says that the counts begin now:
// OwnCounts returns all of them, and those of the other backlogs are unknown. began are the rates that begin now.
func (v *values) CountTogether(id uint64, what Together) (fresh bool, began []strategy.Limit, err error) {
	if v.together != nil && v.together.id != id {
		v.countAlone()
	}
	if x := v.together; x == nil || x.lost || !slices.Equal(x.keys, what.Keys) {
		v.countFromNow(id, what.Keys)
		fresh = true
	}
	began, err = v.holdRates(v.together, what.Rates)
	return fresh, began, err
}

// countFromNow begins to count the chunks in flight of these keys.
func (v *values) countFromNow(id uint64, keys []queue.MetaKey) {
	if v.together == nil {
		v.together = &together{id: id, taken: map[queue.MetaEntry]Takes{}}
	}
	v.ForgetOthers()
	x := v.together
	x.keys, x.others, x.changed, x.lost = slices.Clone(keys), map[queue.MetaEntry]uint32{},
		map[queue.MetaEntry]struct{}{}, false
	for _, name := range keys {
		if key := v.keys[name]; key != nil {
			for _, t := range key.terms {
				if t.inFlight() > 0 {
					x.changed[queue.MetaEntry{Key: name, Value: t.value}] = struct{}{}
				}
			}
		}
	}
}

// ForgetOthers is for a backlog that missed some counts of the others. It gets all of them again.
func (v *values) ForgetOthers() {
	if v.together == nil {
		return
	}
	for _, entry := range slices.Collect(maps.Keys(v.together.others)) {
		v.CountOthers(OwnCount{entry, 0})
	}
}

// countAlone is the inverse of CountTogether.
func (v *values) countAlone() {
	v.ForgetOthers()
	for _, r := range slices.Clone(v.together.rates) {
		v.letRateGo(v.together, r)
	}
	v.together = nil
}

// OwnCounts appends the counts that may have changed since the last call to dst.
func (v *values) OwnCounts(dst []OwnCount) []OwnCount {
	if v.together == nil {
		return dst
	}
	for entry := range v.together.changed {
		n := uint32(0)
		if t := v.find(entry.Key, entry.Value); t != nil {
			n = t.own()
		}
		dst = append(dst, OwnCount{entry, n})
	}
	clear(v.together.changed)
	return dst
}

// CountOthers notes how many chunks of a value are in flight in the other backlogs. Gates open and shut by it.
func (v *values) CountOthers(n OwnCount) {
	if v.together == nil { // it is a new backlog, which CountTogether is about to find
		return
	}
	before := v.together.others[n.MetaEntry]
	if n.InFlight == before {
		return
	}
	if n.InFlight == 0 {
		delete(v.together.others, n.MetaEntry)
	} else {
		v.together.others[n.MetaEntry] = n.InFlight
	}
	if t := v.find(n.Key, n.Value); t != nil {
		v.correct(tally{t, strategy.Simultaneous}, int64(n.InFlight)-int64(before))
	}
}

// elsewhere is how many chunks of the term are in flight in the other backlogs.
func (t *term) elsewhere() uint32 {
	if all := t.key.values.together; all != nil {
		return all.others[queue.MetaEntry{Key: t.key.name, Value: t.value}]
	}
	return 0
}

// own is how many chunks of the term are in flight here.
func (t *term) own() uint32 { return t.inFlight() - t.elsewhere() }

// note remembers that the count of a term changed.
func (x *together) note(t *term) {
	if x.lost || !slices.Contains(x.keys, t.key.name) {
		return
	}
	if x.changed[queue.MetaEntry{Key: t.key.name, Value: t.value}] = struct{}{}; len(x.changed) > changedMost {
		x.lost = true
		clear(x.changed)
	}
}
