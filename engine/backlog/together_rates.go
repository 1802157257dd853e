package backlog

import (
	"fmt"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// Rates that several backlogs of one queue keep together. Each backlog counts the reservations of all of them, so gates
// and answers need not know about it.
//
//	here: a reservation ─► Takes ─► the caller, which knows all backlogs ─► there: TakenElsewhere
//
// There is no lock and no clock here, as in the rest of the package. The caller decides when backlogs hear of each
// other: before each reserve by such a rate, so that no reservation is missed, and from time to time, so that little
// has to be said at once.
//
// A backlog keeps such a rate as long as the caller says so, because it counts reservations of others also while no
// base of its own limits by it. When backlogs begin to keep rates together, the caller asks all of them for the debts
// of their values (Owed), and gives them the sum or the largest (Owes).

// Takes are reservations of a value.
//
// A backlog counts them as if all were made when the last one was, or when it looked at its clock last, if that was
// later. So a value may wait longer than necessary, by the time between the first and the last. With an earlier time it
// could wait too short: a value without debt is forgotten, and a reservation from before that would start with no debt.
type Takes struct {
	queue.MetaEntry
	Count uint32
	At    int64 // when the last one was made, in nanoseconds
}

// Owed is the debt of one value of a rate: its theoretical arrival time, in nanoseconds. It is in the future.
type Owed struct {
	Value queue.MetaValue
	At    int64
}

// takenMost is the number of values whose reservations are remembered. OwnTaken says when there were more, as no one
// asked for long.
const takenMost = 50_000

// holdRates keeps these rates from now on, and no others. began are those that it did not keep before. If there is no
// room for one of them, none begins, because the caller would not learn which of the others did.
func (v *values) holdRates(x *together, limits []strategy.Limit) (began []strategy.Limit, err error) {
	for _, r := range slices.Clone(x.rates) {
		if !slices.Contains(limits, r.limit) {
			v.letRateGo(x, r)
		}
	}
	more := 0
	for _, l := range limits {
		if slices.ContainsFunc(x.rates, func(r *rate) bool { return r.limit == l }) {
			continue
		}
		if began = append(began, l); v.Rates.find(l) == nil {
			more++
		}
	}
	if v.Rates.count+more > MostRates {
		v.Rates.refused++
		return nil, tooManyRates(v.Rates.count)
	}
	for _, l := range began {
		r := v.acquire(l)
		r.together = true
		x.rates = append(x.rates, r)
	}
	return began, nil
}

func tooManyRates(known int) error {
	return &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf(
		"This queue knows %d rates already, and at most %d are allowed: one for every MaxRate with another key, max, "+
			"per or burst. A rate that no strategy uses any more is forgotten when its time is over. Use one of the "+
			"rates in use.", known, MostRates)}
}

// letRateGo goes on counting as for any rate: a value's debt is kept until it is zero.
func (v *values) letRateGo(x *together, r *rate) {
	x.rates = slices.DeleteFunc(x.rates, func(held *rate) bool { return held == r })
	r.together = false
	v.released(r)
}

// noteTaken remembers a reservation of a value with such a rate. Only real reservations come here: a lookahead gives
// its chunks back, and the other shards must not learn of them.
func (x *together) noteTaken(t *term) {
	if len(x.taken) >= takenMost {
		clear(x.taken)
		x.lostTaken = true
	}
	entry := queue.MetaEntry{Key: t.key.name, Value: t.value}
	x.taken[entry] = Takes{entry, x.taken[entry].Count + 1, t.key.values.Rates.now}
}

// OwnTaken appends the reservations since the last call to dst. lost: there were more than are remembered.
func (v *values) OwnTaken(dst []Takes) (list []Takes, lost bool) {
	x := v.together
	if x == nil {
		return dst, false
	}
	for _, takes := range x.taken {
		dst = append(dst, takes)
	}
	clear(x.taken)
	lost, x.lostTaken = x.lostTaken, false
	return dst, lost
}

// TakenElsewhere counts reservations that other backlogs made. The caller has the backlog Advance to now afterwards.
func (v *values) TakenElsewhere(list []Takes, now int64) {
	if v.together == nil || len(v.together.rates) == 0 { // one without together is new: CountTogether will find that
		return
	}
	now = max(now, v.Rates.now)
	// All reservations of a value are counted at once: one by one, owe would drop a debt that is over by now, although
	// the next one adds to it.
	sums := make(map[queue.MetaEntry]Takes, len(list))
	for _, x := range list {
		sum := sums[x.MetaEntry]
		sums[x.MetaEntry] = Takes{x.MetaEntry, sum.Count + x.Count, max(sum.At, min(max(x.At, v.Rates.now), now))}
	}
	for _, x := range sums {
		// A value may have no term here, as no submission here has it. It counts all the same: one may come.
		for _, r := range v.together.rates {
			if r.limit.Key != x.Key {
				continue
			}
			of, was := r.stands(x.Value)
			count := min(int64(x.Count), of.most/of.apart+1) // a value owes no more than that
			r.owe(x.Value, min(max(was, x.At)+count*of.apart, max(was, x.At+of.most)), now)
		}
	}
}

// stands is the tempo of a value and its theoretical arrival time. It makes no pace, as most values that others report
// owe nothing by then.
func (r *rate) stands(value queue.MetaValue) (of *tempo, at int64) {
	if t := r.key.byValue[value]; t != nil {
		if p := r.paces.of(t); p != nil {
			return p.tempo, p.at
		}
	}
	of = r.tempoFor(value)
	return of, r.first(of)
}

// owe raises the debt of a value to at least this.
func (r *rate) owe(value queue.MetaValue, at, now int64) {
	v := r.key.values
	if _, was := r.stands(value); at <= was || at <= now {
		return // a debt that is over has no effect
	}
	t := v.intern(r.key.name, value)
	p := r.pace(t)
	if p.at = at; p.place == asleep {
		v.wake(p)
	} else {
		v.openByTime(p)
	}
}

// Owed lists the debts of the values of a rate that is kept together with other backlogs.
func (v *values) Owed(l strategy.Limit) (list []Owed) {
	r := v.Rates.find(l)
	if r == nil {
		return nil
	}
	for p := range r.paces.each {
		if p.place != asleep {
			list = append(list, Owed{p.term.value, p.at})
		}
	}
	return list
}

// Owes raises the debts of values by a rate to at least these. With unknown, others may have used their burst just now.
//
// It never lowers a debt here. So the caller may repeat it, also after a failure in between.
func (v *values) Owes(l strategy.Limit, list []Owed, unknown bool) {
	r := v.Rates.find(l)
	if r == nil {
		return
	}
	if unknown {
		r.since = max(r.since, v.Rates.now)
		for p := range r.paces.each {
			r.owe(p.term.value, r.first(p.tempo), v.Rates.now)
		}
	}
	for _, x := range list {
		r.owe(x.Value, x.At, v.Rates.now)
	}
}
