package backlog

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// Rates limit reservations per time by the generic cell rate algorithm (GCRA; ITU-T I.371, the "virtual scheduling"
// form). Each value that a rate counts has one number, the theoretical arrival time `at`: when the next reservation
// would come if all came at equal distances.
//
//	a reservation at now:   at = max(at, now) + apart
//	the gate is shut while  at − slack > now
//
//	──●────────●────────●──► time      without a burst: one each `apart`, or up to `slack` earlier
//	   └ apart ┘
//
// To the gates this is a counter like that of chunks in flight: 1 while the value has to wait, otherwise 0. So picks,
// cells, bands and fair shares need to know nothing about time. A heap opens the gates: no value is ever scanned.
//
// An operator may set another number for a value, or for all values of a key. Such a value has a tempo of its own.
//
// All reservations of a value count, whichever strategy made them. Those of strategies without the rate may come
// faster, so a value owes at most `per`: that much later at the latest it may be taken again.
//
// The backlog has no clock. Advance says what time it is.

// MostRates bounds how many rates a backlog may know at once: their numbers must fit a Measure.
const MostRates = math.MaxUint8 - int(strategy.Measures)

// mostRemembered is how many values without submissions a rate remembers at least, before it forgets them all.
const mostRemembered = 1 << 16

// rate is one rate that a strategy asks for. It lives as long as a base limits by it or some value has to be
// remembered.
type rate struct {
	limit strategy.Limit
	key   *metaKey
	slot  strategy.Measure // by which tallies name it
	uses  int              // limits of bases
	paces paces

	together bool // other backlogs hear of its reservations

	since   int64 // a value without a pace counts as if it had used its burst at this moment; never: as if it had not
	sweepAt int   // with this many paces it looks for values to forget

	tempo // of the values for which an operator set no other
}

// tempo is a rate in nanoseconds: between reservations, of a burst, and the most that a value may owe.
type tempo struct{ apart, slack, most int64 }

// pace is a rate's record of a value.
type pace struct {
	// The fields that every reservation of the value reads come first: they share a cache line.
	counter // 1 while the value has to wait
	*tempo
	at    int64 // the theoretical arrival time
	place int   // in rates.due; asleep: at is past
	term  *term
	rate  *rate

	gates []gateRef
	shut  uint32
}

const (
	never  = math.MinInt64
	asleep = -1
)

// rates are all rates of a backlog.
type rates struct {
	values *values
	list   []*rate // by slot; nil where free
	count  int
	due    []*pace // a heap: the values that have to wait, or that owe something
	now    int64
	began  int64 // since when the backlog counts; never: it knows all that happened
	all    *term // counted by rates without a key; nil: there is no such rate

	// since the backlog was made: both happen to consumers that did nothing wrong, and nothing else tells of them
	refused   uint64 // plans for which there was no room
	forgotten uint64 // values that were forgotten as there were too many
}

// tempoOf works out the durations. Per, Max and Burst are bounded so that no sum can overflow.
func tempoOf(l strategy.Limit) tempo {
	apart, slack := l.Pace()
	return tempo{int64(apart), int64(slack), int64(l.Max)*int64(apart) + int64(slack)}
}

// holds is the rate of a value. An operator's rate for the same time replaces the strategy's number.
func (r *rate) holds(value queue.MetaValue) strategy.Limit {
	l := r.limit
	if l.Key != "" {
		if set := r.key.values.Settings(l.Key, value).Rate; set.Per == l.Per {
			l.Max, l.Burst = set.Max, min(l.Burst, set.Max)
		}
	}
	return l
}

// tempoFor is the tempo of a value.
func (r *rate) tempoFor(value queue.MetaValue) *tempo {
	if l := r.holds(value); l != r.limit {
		return new(tempoOf(l))
	}
	return &r.tempo
}

// first is the theoretical arrival time of a value of this tempo that has no pace.
func (r *rate) first(of *tempo) int64 {
	if r.since == never {
		return never
	}
	return r.since + of.slack + of.apart
}

// opens is from when on the value may be taken.
func (p *pace) opens() int64 { return p.at - p.slack }

// waits says that the value has to wait.
func (p *pace) waits(now int64) bool { return p.at != never && p.opens() > now }

// next is the time of the next change: the gates open, or nothing is owed any more.
func (p *pace) next() int64 {
	if p.count > 0 {
		return p.opens()
	}
	return p.at
}

// byNext ranks paces by their next change.
type byNext struct{}

func (byNext) before(a, b *pace) bool   { return a.next() < b.next() }
func (byNext) moved(p *pace, place int) { p.place = place }

// acquire is the rate of a limit, which a base uses from now on.
func (v *values) acquire(l strategy.Limit) *rate {
	key := v.internKey(l.Key)
	r := v.Rates.find(l)
	if r == nil {
		r = &rate{limit: l, key: key, since: v.Rates.began, sweepAt: 2 * mostRemembered, tempo: tempoOf(l)}
		v.Rates.add(r)
		key.rates = append(key.rates, r)
		if l.Key == "" && v.Rates.all == nil {
			v.Rates.all = v.intern("", queue.MetaValue{})
		}
		if l.Key == "" {
			v.Rates.all.uses++
		}
	}
	r.uses++
	return r
}

func (rs *rates) find(l strategy.Limit) *rate {
	for _, r := range rs.list {
		if r != nil && r.limit == l {
			return r
		}
	}
	return nil
}

func (rs *rates) add(r *rate) {
	at := slices.Index(rs.list, nil)
	if at < 0 {
		at = len(rs.list)
		rs.list = append(rs.list, nil)
	}
	if at >= MostRates {
		panic("backlog: a plan with too many rates was not refused")
	}
	rs.list[at], r.slot = r, strategy.Measures+strategy.Measure(at)
	rs.count++
}

// Admit says whether there is room for the rates of a plan.
func (rs *rates) Admit(p *strategy.Plan) error {
	var more []strategy.Limit
	for i := range p.Branches {
		p.Branches[i].Leaves(func(leaf *strategy.Branch) bool {
			for _, l := range leaf.Limits {
				if l.Of == strategy.Rate && rs.find(l) == nil && !slices.Contains(more, l) {
					more = append(more, l)
				}
			}
			return true
		})
	}
	if len(more) == 0 || rs.count+len(more) <= MostRates {
		return nil
	}
	rs.refused++
	return tooManyRates(rs.count)
}

// released is for a rate that one limit less uses.
func (v *values) released(r *rate) {
	r.uses--
	v.retire(r)
}

// retire forgets a rate that nothing uses and that remembers nothing.
func (v *values) retire(r *rate) {
	if r.uses > 0 || r.paces.known > 0 || v.Rates.list[r.slot-strategy.Measures] != r {
		return
	}
	v.Rates.list[r.slot-strategy.Measures] = nil
	v.Rates.count--
	r.key.rates = slices.DeleteFunc(r.key.rates, func(other *rate) bool { return other == r })
	if r.limit.Key == "" {
		all := v.Rates.all
		if all.uses--; all.uses == 0 {
			v.Rates.all = nil
		}
		v.release(all)
		return
	}
	v.releaseKey(r.key)
}

// rate is the one that a tally is of.
func (t tally) rate() *rate {
	for _, r := range t.key.rates {
		if r.slot == t.of {
			return r
		}
	}
	panic("backlog: a tally of a rate that is gone")
}

// pace is that of a tally; made when there is none.
func (t tally) pace() *pace {
	return t.rate().pace(t.term)
}

// pace is that of a term; made when there is none.
func (r *rate) pace(t *term) *pace {
	if p := r.paces.of(t); p != nil {
		return p
	}
	of := r.tempoFor(t.value)
	p := &pace{tempo: of, rate: r, term: t, at: r.first(of), place: asleep}
	p.limit, p.shuts = queue.NoLimit, none
	r.paces.add(p)
	t.key.values.wake(p)
	return p
}

// behind says whether the value has to wait, without making a pace.
func (t tally) behind() bool {
	r := t.rate()
	if p := r.paces.of(t.term); p != nil {
		return p.count > 0
	}
	now := t.key.values.Rates.now
	return r.since != never && r.since+r.tempoFor(t.value).apart > now
}

// wake has a pace that was just made wait, if it has to.
func (v *values) wake(p *pace) {
	if p.place == asleep && p.at > v.Rates.now {
		p.term.uses++
		v.Rates.due = heapPush(byNext{}, v.Rates.due, p)
		v.openByTime(p)
	}
}

// openByTime opens or shuts the gates of a value by the time, and says whether it opened them.
func (v *values) openByTime(p *pace) (opened bool) {
	now := v.Rates.now
	switch waits := p.waits(now); {
	case waits && p.count == 0:
		if p.raise(1) {
			v.shutGates(p.term, p.rate.slot)
		}
	case !waits && p.count > 0:
		opened = true
		if p.lower(1) {
			v.openGates(p.term, p.rate.slot)
		}
	}
	if p.at > now {
		heapFix(byNext{}, v.Rates.due, p.place)
		return opened
	}
	v.Rates.due = trimmed(heapRemove(byNext{}, v.Rates.due, p.place))
	p.place = asleep
	p.term.uses--
	p.forgetIdle()
	v.retire(p.rate)
	if v.list[p.term.number] == p.term { // not the one of all chunks, which goes with the last rate
		v.release(p.term)
	}
	return opened
}

// repace is for a value whose rate an operator may have changed.
func (v *values) repace(t *term) {
	for _, r := range slices.Clone(t.key.rates) {
		p := r.paces.of(t)
		if p == nil {
			continue
		}
		now, was := v.Rates.now, p.apart
		p.tempo = r.tempoFor(t.value)
		if p.at > now { // then it is awake
			p.at = now + min(inTempo(p.at-now, was, p.apart), p.most)
			v.openByTime(p)
		}
	}
}

// inTempo converts a value's debt to another tempo. The debt stays worth as many reservations, so any interval, also
// one over the change, has at most as many as the faster of both rates allows.
func inTempo(owed, was, is int64) int64 {
	high, low := bits.Mul64(uint64(owed), uint64(is))
	low, carry := bits.Add64(low, uint64(was)-1, 0) // rounding never admits more
	if high += carry; high >= uint64(was) {
		return math.MaxInt64
	}
	owes, _ := bits.Div64(high, low, uint64(was))
	return int64(min(owes, math.MaxInt64))
}

// forgetIdle forgets a pace that owes nothing and that no gate asks for.
func (p *pace) forgetIdle() {
	if p.place == asleep && len(p.gates) == 0 {
		p.rate.paces.drop(p.term)
	}
}

// paced counts a reservation of a submission by all rates of its values.
func (v *values) paced(s *Submission, x *trail) {
	if v.Rates.count == 0 {
		return
	}
	for _, ref := range s.refs() {
		v.pacedValue(v.list[ref.term], x)
	}
	for _, t := range v.lacked {
		if s.termOf(t.key) != nil {
			v.pacedValue(t, x)
		}
	}
	if v.Rates.all != nil {
		v.pacedValue(v.Rates.all, x)
	}
}

func (v *values) pacedValue(t *term, x *trail) {
	var crowded *rate
	heard := false
	for _, r := range t.key.rates {
		heard = heard || r.together
		p := r.pace(t)
		x.notePace(p)
		now := v.Rates.now
		p.at = min(max(p.at, now)+p.apart, max(p.at, now+p.most))
		if p.place == asleep {
			v.wake(p)
		} else {
			v.openByTime(p)
		}
		if r.paces.known > r.sweepAt {
			crowded = r
		}
	}
	if heard && x.depth == 0 {
		v.together.noteTaken(t)
	}
	if crowded != nil && x.depth == 0 { // a lookahead is to find the paces that it has noted
		v.forgetUnused(crowded)
	}
}

// forgetUnused forgets the values that no submission has, if they are too many, and counts those that come again as if
// they had just been taken, so that no value is ever taken more often than it may be.
//
// A term that anything else uses stays, with the paces of all its rates: a pace without a place in the heap would
// never open its gates again.
func (v *values) forgetUnused(r *rate) {
	var idle []*term
	for p := range r.paces.each {
		if t := p.term; t.all == 0 && t.uses == t.remembered() {
			idle = append(idle, t)
		}
	}
	if len(idle) > mostRemembered {
		v.Rates.forgotten += uint64(len(idle))
		for _, of := range r.key.rates {
			of.since = v.Rates.now
		}
		for _, t := range idle {
			for _, of := range r.key.rates {
				if p := of.paces.of(t); p != nil && p.place != asleep {
					v.Rates.due = heapRemove(byNext{}, v.Rates.due, p.place)
					p.place = asleep
					t.uses--
				}
			}
			v.release(t)
		}
	}
	r.sweepAt = 2*mostRemembered + 2*r.paces.known
}

// remembered is how many rates keep the term because it waits or owes something.
func (t *term) remembered() (n uint32) {
	for _, r := range t.key.rates {
		if p := r.paces.of(t); p != nil && p.place != asleep {
			n++
		}
	}
	return n
}

// dropPaces gives up the gates of a term that goes, and its paces, which do not matter any more.
func (v *values) dropPaces(t *term) {
	for _, r := range slices.Clone(t.key.rates) {
		if p := r.paces.of(t); p != nil {
			for _, ref := range p.gates {
				v.bases.list[ref.base].dropRef(ref.gate)
			}
			r.paces.drop(t)
			v.retire(r)
		}
	}
}

// Begin says that the backlog knows nothing of the reservations before now: its rates begin as if all of them had just
// been used. now is in nanoseconds, as everywhere.
func (rs *rates) Begin(now int64) { rs.began, rs.now = now, now }

// Any says whether there are rates at all. Without them Advance does nothing.
func (rs *rates) Any() bool { return rs.count > 0 }

// Now is the time that Advance was told last, in nanoseconds.
func (rs *rates) Now() int64 { return rs.now }

// Known is how many rates there are, and of how many values they remember something.
func (rs *rates) Known() (count, values int) { return rs.count, len(rs.due) }

// Stats is how near the backlog is to the bounds of its rates.
func (rs *rates) Stats() queue.RateStats {
	count, values := rs.Known()
	return queue.RateStats{Known: uint64(count), Values: uint64(values), Refused: rs.refused, Forgotten: rs.forgotten}
}

const (
	// advanceMost is how many gates one Advance opens at most: the others wait for the next one.
	advanceMost = 4096
	// leap is the smallest step back of the clock that counts: a smaller one only shows two clocks of different
	// precision.
	leap = int64(1e9)
)

// Advance says what time it is, in nanoseconds, and opens the gates of the values that may be taken again. It returns
// whether there were some. When the clock was set back, a value waits for as long as it would have.
func (rs *rates) Advance(now int64) (opened bool) {
	switch {
	case now < rs.now-leap:
		rs.rewind(now)
	case now > rs.now:
		rs.now = now
	}
	for n := 0; n < advanceMost && len(rs.due) > 0 && rs.due[0].next() <= rs.now; n++ {
		opened = rs.values.openByTime(rs.due[0]) || opened
	}
	return opened
}

// rewind is for a clock that was set back.
func (rs *rates) rewind(now int64) {
	for _, r := range rs.list {
		if r == nil {
			continue
		}
		if r.since != never {
			r.since += now - rs.now
		}
		for p := range r.paces.each {
			if p.place == asleep {
				p.at = never
			} else {
				p.at += now - rs.now // the heap's order stays
			}
		}
	}
	if rs.began != never {
		rs.began += now - rs.now
	}
	rs.now = now
}

// Next is when Advance has something to do, in nanoseconds; false: never, as it is now.
func (rs *rates) Next() (at int64, ok bool) {
	if len(rs.due) == 0 {
		return 0, false
	}
	return rs.due[0].next(), true
}

// RateState is how a value stands in one of its rates.
type RateState struct {
	of      *rate
	tempo   *tempo
	holds   strategy.Limit
	at, now int64
}

// Now is the time by which the state holds, in nanoseconds.
func (s RateState) Now() int64 { return s.now }

// Limit is the rate as strategies have it.
func (s RateState) Limit() strategy.Limit { return s.of.limit }

// Holds is the rate as it is for the value: an operator may have set another number.
func (s RateState) Holds() strategy.Limit { return s.holds }

// Opens is when a reservation may come, in nanoseconds, after `more` others that come now; false: at once.
func (s RateState) Opens(more uint32) (at int64, waits bool) {
	if at = s.at; more > 0 {
		at = max(at, s.now) + int64(more)*s.tempo.apart
	}
	return at - s.tempo.slack, at != never && at-s.tempo.slack > s.now
}

// Owes says that a reservation now would be counted together with earlier ones.
func (s RateState) Owes(now queue.Time) bool {
	return s.at != never && s.at > int64(now)*int64(time.Millisecond)
}

// OfRates is how a value stands in all rates that count it; of the key "" those of all chunks together.
func (v *values) OfRates(entry queue.MetaEntry) (list []RateState) {
	key := v.keys[entry.Key]
	if key == nil {
		return nil
	}
	for _, r := range key.rates {
		of := r.tempoFor(entry.Value)
		s := RateState{r, of, r.holds(entry.Value), r.first(of), v.Rates.now}
		if t := key.byValue[entry.Value]; t != nil {
			if p := r.paces.of(t); p != nil {
				s.at = p.at
			}
		}
		list = append(list, s)
	}
	return list
}
