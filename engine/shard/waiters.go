package shard

import (
	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// waiter is a reserve call that found nothing and waits on every view of its plan. Work is handed over by the one who
// makes it available, first come first served: no one is woken without success, and no one runs for a chunk another one got.
type waiter struct {
	q      machine.Request
	served chan []machine.Pick // one send; closed when the shard closes
	over   bool                // served or gone: queues drop it when they meet it
}

// tellScored is how many waiters whose strategy scores are told at once that there is something.
const tellScored = 16

// line is the queue of waiters of one view.
type line struct {
	waiters []*waiter
	over    int // how many of them are over
}

// waiters are the reserve calls that wait.
type waiters struct {
	s       *Shard
	all     map[*waiter]struct{}
	stirred []*backlog.View // being served
}

// park puts a waiter into the lines of all views of its plan. The mutex is held.
func (p *waiters) park(q *machine.Request) *waiter {
	w := &waiter{q: *q, served: make(chan []machine.Pick, 1)}
	p.all[w] = struct{}{}
	machine.EachStanding(q.Plan, func(br *strategy.Branch) {
		v := p.s.m.Backlog.Views.Of(br)
		l, _ := v.Data.(*line)
		if l == nil {
			l = new(line)
			v.Data = l
		}
		v.Watch = true
		l.waiters = append(l.waiters, w)
	})
	return w
}

// unpark takes a waiter out of all lines; `walked` is the one that the caller is walking along and tidies itself. The
// mutex is held.
func (p *waiters) unpark(w *waiter, walked *line) {
	if w.over {
		return
	}
	w.over = true
	delete(p.all, w)
	machine.EachStanding(w.q.Plan, func(br *strategy.Branch) {
		v := p.s.m.Backlog.Views.Of(br)
		if l, _ := v.Data.(*line); l != nil {
			l.over++
			if l != walked {
				l.tidy(v)
			}
		}
	})
}

// tidy drops the waiters that are over when they are half of the line, and stops watching when no one waits.
func (l *line) tidy(v *backlog.View) {
	if l.over*2 < len(l.waiters) {
		return
	}
	keep := l.waiters[:0]
	for _, w := range l.waiters {
		if !w.over {
			keep = append(keep, w)
		}
	}
	clear(l.waiters[len(keep):])
	l.waiters, l.over = keep, 0
	v.Watch = len(keep) > 0
}

// serve hands what became available to those who wait for it. Every input ends with it. The mutex is held.
func (p *waiters) serve(now queue.Time) {
	p.s.m.Suspects.Lend(now, machine.LendMost)
	for {
		stirred := p.s.m.Backlog.Views.Stirred()
		if len(stirred) == 0 {
			return
		}
		p.stirred = append(p.stirred[:0], stirred...)
		for _, v := range p.stirred {
			if l, _ := v.Data.(*line); l != nil {
				p.serveOne(l, now)
				l.tidy(v)
			}
		}
	}
}

// serveOne serves from the front until someone cannot be served: the view is empty again then. Waiters cannot want
// less than the view gives, as the view is one of their branches. Those whose strategy scores are told to ask again, a few at a
// time: the others do so anyway before long.
func (p *waiters) serveOne(l *line, now queue.Time) {
	s := p.s
	asked := 0
	for i := 0; i < len(l.waiters); i++ {
		w := l.waiters[i]
		if w.over {
			continue
		}
		if s.stale(&w.q) {
			p.unpark(w, l)
			w.served <- nil
			continue
		}
		if machine.Scores(w.q.Plan) {
			if asked++; asked <= tellScored {
				p.unpark(w, l)
				w.served <- nil
			}
			continue
		}
		s.m.Seed(s.options.Seed())
		var got []machine.Pick
		s.views, _ = s.m.Views(w.q.Plan, s.views[:0])
		if s.m.Reserve(&w.q, s.views, min(w.q.Max, sliceItems), now, &got) == 0 {
			return
		}
		p.unpark(w, l)
		w.served <- got
	}
}
