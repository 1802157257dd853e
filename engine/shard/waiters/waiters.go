// Package waiters has the reserve calls that found nothing and wait. The goroutine that
// makes work available hands it to them, in the order in which they came. So no call wakes
// up for nothing, and no two calls race for a chunk. All of it happens under the shard's
// mutex.
package waiters

import (
	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/strategy"
)

// Waiter is a reserve call that waits on every view of its plan.
type Waiter struct {
	Request machine.Request
	// one send: work, or nothing, and then the caller asks again; closed when the shard closes, unless it Asks
	Served chan []machine.Pick
	over   bool // served or gone: lines drop it when they meet it
}

// tellScored is how many waiters that have to ask again get a sign of work at once.
const tellScored = 16

// line is the queue of waiters of one view.
type line struct {
	waiters []*Waiter
	over    int // how many of them are over
}

// Waiters are the reserve calls that wait.
//
// A waiter stands in the line of each view of its plan. Once one line has served it, it is over, and the other lines
// drop it when they come to it: taking it out of all lines at once would be a search in each. over counts them, so that
// a line that holds mostly served ones is cleaned.
//
// A waiter whose request Rechecks gets a sign to ask again, and no work, as nothing is scored under the mutex. So does
// a call that waits in several shards: whose turn it is depends on all of them. At most tellScored get the sign at
// once, as all of them would ask for one chunk.
type Waiters struct {
	machine func() *machine.Machine
	stale   func(q *machine.Request) error
	seed    func() uint64
	rates   Rates
	all     map[*Waiter]struct{}
	asked   int             // the number of chunks that all of them ask for
	stirred []*backlog.View // being served
	views   []*backlog.View // of the plan that is being followed
}

// Rates let time pass for waiters that a rate holds back. Advance opens the gates whose time has come; Arm has Serve
// called again when the next one may open.
type Rates struct{ Advance, Arm func() }

// New is the lines of a shard without waiters. machine returns the present state. stale says why a waiter has to ask
// again before it is served: its consumer may have an order, or the restart grace may have begun or ended.
func New(machine func() *machine.Machine, stale func(q *machine.Request) error, seed func() uint64,
	rates Rates) *Waiters {
	return &Waiters{machine: machine, stale: stale, seed: seed, rates: rates, all: map[*Waiter]struct{}{}}
}

// Asked is the number of chunks that calls ask for that wait in this shard alone. The mutex is held.
func (w *Waiters) Asked() int { return w.asked }

func askedBy(q *machine.Request) int {
	if q.Asks { // the call waits in other shards, too
		return 0
	}
	return q.Max
}

// Len is how many calls wait.
func (w *Waiters) Len() int { return len(w.all) }

// Park puts a waiter into the lines of all views of its plan. The mutex is held.
func (w *Waiters) Park(q *machine.Request) *Waiter {
	return w.ParkAt(q, make(chan []machine.Pick, 1))
}

// ParkAt is Park for a call that waits in several shards. All of them serve it through the same channel, which has room
// for a message of each. The mutex is held.
func (w *Waiters) ParkAt(q *machine.Request, served chan []machine.Pick) *Waiter {
	x := &Waiter{Request: *q, Served: served}
	m := w.machine()
	w.all[x] = struct{}{}
	w.asked += askedBy(q)
	machine.EachStanding(q.Plan, func(br *strategy.Branch) {
		v := m.Backlog.Views.Of(br)
		l, _ := v.Data.(*line)
		if l == nil {
			l = new(line)
			v.Data = l
		}
		v.Watch = true
		l.waiters = append(l.waiters, x)
	})
	w.rates.Arm()
	return x
}

// Unpark takes a waiter out of all lines. The mutex is held.
func (w *Waiters) Unpark(x *Waiter) { w.unpark(x, nil) }

// unpark leaves one line to its caller, who is walking along it and tidies it itself.
func (w *Waiters) unpark(x *Waiter, walked *line) {
	if x.over {
		return
	}
	x.over = true
	delete(w.all, x)
	w.asked -= askedBy(&x.Request)
	m := w.machine()
	machine.EachStanding(x.Request.Plan, func(br *strategy.Branch) {
		v := m.Backlog.Views.Of(br)
		if l, _ := v.Data.(*line); l != nil {
			l.over++
			if l != walked {
				l.tidy(v)
			}
		}
	})
}

// Again makes waiters ask again. The mutex is held.
func (w *Waiters) Again(which func(q *machine.Request) bool) {
	var list []*Waiter
	for x := range w.all {
		if which(&x.Request) {
			list = append(list, x)
		}
	}
	for _, x := range list {
		w.Unpark(x)
		x.Served <- nil
	}
}

// Recall makes the waiters of a consumer ask again. The mutex is held.
func (w *Waiters) Recall(consumer string) {
	w.Again(func(q *machine.Request) bool { return q.Consumer == consumer })
}

// Waits says whether a consumer waits. The mutex is held.
func (w *Waiters) Waits(consumer string) bool {
	for x := range w.all {
		if x.Request.Consumer == consumer {
			return true
		}
	}
	return false
}

// Dismiss ends every wait, as the shard serves no one any more. The mutex is held.
func (w *Waiters) Dismiss() {
	for x := range w.all {
		w.Unpark(x)
		if x.Request.Asks { // it asks again, and learns from which shard it gets nothing
			x.Served <- nil
		} else {
			close(x.Served)
		}
	}
}

// tidy drops the waiters that are over when they are half of the line, and stops watching
// when no one waits.
func (l *line) tidy(v *backlog.View) {
	if l.over*2 < len(l.waiters) {
		return
	}
	keep := l.waiters[:0]
	for _, x := range l.waiters {
		if !x.over {
			keep = append(keep, x)
		}
	}
	clear(l.waiters[len(keep):])
	l.waiters, l.over = keep, 0
	v.Watch = len(keep) > 0
}

// Serve hands available work to the calls that wait for it. Every input ends with it. The mutex is
// held.
func (w *Waiters) Serve(now queue.Time) {
	m := w.machine()
	m.Suspects.Lend(now, machine.LendMost)
	w.rates.Advance()
	defer w.rates.Arm()
	for {
		stirred := m.Backlog.Views.Stirred()
		if len(stirred) == 0 {
			return
		}
		w.stirred = append(w.stirred[:0], stirred...)
		for _, v := range w.stirred {
			if l, _ := v.Data.(*line); l != nil {
				w.serve(m, l, now)
				l.tidy(v)
			}
		}
	}
}

// serve serves from the front until a waiter cannot be served: then the view is empty again. Each waiter takes any
// chunk that the view gives, as the view is one of its branches. Waiters that have to ask again get the sign a few at a
// time: the others ask again anyway before long.
func (w *Waiters) serve(m *machine.Machine, l *line, now queue.Time) {
	asked := 0
	for i := 0; i < len(l.waiters); i++ {
		x := l.waiters[i]
		if x.over {
			continue
		}
		if w.stale(&x.Request) != nil {
			w.unpark(x, l)
			x.Served <- nil
			continue
		}
		if x.Request.Asks || x.Request.Rechecks() {
			if asked++; asked <= tellScored {
				w.unpark(x, l)
				x.Served <- nil
			}
			continue
		}
		m.Seed(w.seed())
		var got []machine.Pick
		w.views, _ = m.Views(x.Request.Plan, w.views[:0])
		if m.Reserve(&x.Request, w.views, min(x.Request.Max, shell.SliceItems), now, &got) == 0 {
			return
		}
		w.unpark(x, l)
		x.Served <- got
	}
}
