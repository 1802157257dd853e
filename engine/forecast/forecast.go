// Package forecast estimates when work ends, from counts and measured paces. It splits work by its obstacle: each value at a limit, the
// chunks that a rule or a time holds, and the rest. Each part has its own pace, and the whole ends with its latest part. It has no clock
// and does no I/O.
package forecast

import (
	"slices"
	"time"
)

const (
	window = 10 * time.Second // the time that one pace is counted over
	kept   = 60               // windows: ten minutes
	wide   = 6                // windows that a pace is averaged over: chunks may take longer than one window
	spread = 1.35             // the slow pace is at least so much below the middle one: the future varies more than the past

	// longest is the end that is reported at most: a later one says nothing.
	longest = 365 * 24 * time.Hour
)

// Pace is how fast work is done, in chunks per second: rarely slower than Slow, half of the time faster than Middle, rarely faster than
// Fast. Zero: nothing was done.
type Pace struct{ Slow, Middle, Fast float64 }

// Times is the pace of this many places.
func (p Pace) Times(places float64) Pace {
	return Pace{p.Slow * places, p.Middle * places, p.Fast * places}
}

// Paces remembers how fast work of one kind was done in each of the last windows, for each place in which it can be done.
type Paces struct {
	windows       [kept]float32
	count         int     // of windows that have ended
	done, seconds float64 // of the window that runs
	pace          Pace    // of the windows that have ended
}

// Note adds chunks that were done within some seconds in this many places.
func (p *Paces) Note(done, places, seconds float64) {
	p.done += done / places
	p.seconds += seconds
	if p.seconds < window.Seconds() {
		return
	}
	p.windows[p.count%kept] = float32(p.done / p.seconds)
	p.count++
	p.done, p.seconds = 0, 0
	p.pace = p.ended()
}

// Pace is the pace of one place, by what was seen so far.
func (p *Paces) Pace() Pace {
	if p.count == 0 && p.seconds > 0 {
		return around(p.done / p.seconds)
	}
	return p.pace
}

// Known says that a pace was measured for long enough.
func (p *Paces) Known() bool { return p.count >= wide }

func around(middle float64) Pace { return Pace{middle / spread, middle, middle * spread} }

// ended is the pace of the windows that have ended. If nothing was done in the newest ones, nothing moves.
func (p *Paces) ended() Pace {
	n := min(p.count, kept)
	most := min(n, wide)
	means := make([]float64, 0, kept)
	for from := p.count - n; from <= p.count-most; from++ {
		sum := 0.0
		for i := from; i < from+most; i++ {
			sum += float64(p.windows[i%kept])
		}
		means = append(means, sum/float64(most))
	}
	if means[len(means)-1] == 0 {
		return Pace{}
	}
	since := means // as long as it has not stood still
	for i, mean := range means {
		if mean == 0 {
			since = means[i+1:]
		}
	}
	since = slices.Clone(since)
	if slices.Sort(means); means[len(means)/2] == 0 { // it stood still for most of the time, which does not say how fast it is now
		means = since
		slices.Sort(means)
	}
	at := func(share float64) float64 { return means[int(share*float64(len(means)-1)+0.5)] }
	pace := around(at(0.5))
	return Pace{min(pace.Slow, at(0.1)), pace.Middle, max(pace.Fast, at(0.9))}
}

// Part is work that waits for one thing.
type Part struct {
	Chunks uint64
	Pace   Pace
	From   time.Duration // from now until it can begin: a rule ends, a time comes; 0: it goes on now
	Bound  bool          // a limit or a rule binds, so that more consumers do not make it end earlier
	Stuck  bool          // nothing that is known will let it go on
}

// Forecast is when work ends, from now.
type Forecast struct {
	P50, P90  time.Duration
	NotBefore time.Duration // 0: no limit and no rule binds
	Moving    bool          // false: some of it does not move, and the times are of the rest
}

// Of is when the last part ends; false where nothing moves.
func Of(parts []Part) (f Forecast, moves bool) {
	f.Moving = true
	for _, p := range parts {
		switch {
		case p.Chunks == 0:
			continue
		case p.Stuck || p.Pace.Middle <= 0:
			f.Moving = false
		default:
			moves = true
			f.P50 = max(f.P50, p.after(p.Pace.Middle))
			f.P90 = max(f.P90, p.after(p.Pace.Slow))
		}
		if p.Bound && !p.Stuck {
			f.NotBefore = max(f.NotBefore, p.earliest())
		}
	}
	f.P50, f.P90 = max(f.P50, f.NotBefore), max(f.P90, f.NotBefore)
	return f, moves
}

func (p *Part) earliest() time.Duration {
	if p.Pace.Fast <= 0 {
		return p.From
	}
	return p.after(p.Pace.Fast)
}

// after is when the part ends at a pace.
func (p *Part) after(pace float64) time.Duration {
	if pace <= 0 {
		return longest
	}
	seconds := p.From.Seconds() + float64(p.Chunks)/pace
	return time.Duration(min(seconds, longest.Seconds()) * float64(time.Second)).Round(time.Millisecond)
}
