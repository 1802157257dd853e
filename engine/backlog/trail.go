package backlog

import (
	"math/rand/v2"

	"github.com/quern-queue/quern/engine/strategy"
)

// A trail notes what picks change, so that a preview can walk back: cursors, put-back and skipped chunks, counters, and the
// places of submissions in views. It is walked from its end, and each step is undone exactly, not just in effect: the next
// draw of the same seed finds every entry of a sampler and of a pile where it lay.
type trail struct {
	steps     []step
	recording bool
	returning bool // being walked back: nobody is told
}

type stepKind uint8

const (
	stepPick    stepKind = iota // the submission's cursors and counts, as they were
	stepBack                    // a put-back chunk left the pile at a place
	stepSkip                    // a cursor passed a skipped chunk
	stepRaise                   // a term counted one more in flight
	stepTake                    // a submission left a gate
	stepPut                     // it entered a gate
	stepOut                     // an entry left a sampler of a Random view
	stepIn                      // it entered one
	stepUnoffer                 // a submission's members were dropped
)

// step is one change. Which fields count depends on the kind.
type step struct {
	kind    stepKind
	exp     uint8
	s       *Submission
	v       *View
	t       *term
	gate    uint32 // topGate: the view's top
	at      uint32 // the member, or its place
	x       entry
	index   uint32
	last    uint32
	before  cursors
	members []member
}

type cursors struct{ p, l, upcoming, upcomingAt, available uint32 }

// topGate stands for a view's top in the place of a gate's number.
const topGate = none

func (t *trail) note(s step) {
	if t.recording {
		t.steps = append(t.steps, s)
	}
}

func (t *trail) notePick(s *Submission) {
	if t.recording {
		t.note(step{kind: stepPick, s: s, before: cursors{s.p, s.l, s.upcoming, s.upcomingAt, s.available}})
	}
}

func (t *trail) noteUnoffer(s *Submission) {
	if t.recording {
		t.note(step{kind: stepUnoffer, s: s, members: append([]member(nil), s.members...)})
	}
}

// Pick is one chunk that Preview says would be taken next, by the view of this number.
type Pick struct {
	Submission *Submission
	Index      uint32
	View       int
}

// Preview appends what Take would give now, from the first view that has something, at most `most` chunks. It takes them
// and takes everything back: what is available, in flight, put back and skipped is as before, and so is what any later
// draw will meet. The cost is that of the picks, twice.
func (b *Backlog) Preview(views []*View, most int, rnd *rand.Rand, dst []Pick) []Pick {
	examined := b.examined
	b.trail.recording = true
	from := len(dst)
	for i, v := range views {
		for len(dst)-from < most {
			s, index, ok := b.Take(v, rnd)
			if !ok {
				break
			}
			dst = append(dst, Pick{s, index, i})
		}
	}
	b.trail.recording = false
	b.walkBack()
	b.examined = examined
	return dst
}

func (b *Backlog) walkBack() {
	b.trail.returning = true
	steps := b.trail.steps
	for i := len(steps) - 1; i >= 0; i-- {
		b.undo(&steps[i])
	}
	clear(steps)
	b.trail.steps = trimmed(steps[:0])
	b.trail.returning = false
}

func (b *Backlog) undo(x *step) {
	switch x.kind {
	case stepPick:
		b.unpick(x.s, x.before)
	case stepBack:
		b.pileOf(x.s).untake(x.index, int(x.at), x.last)
		b.putBack++
	case stepSkip:
		if x.s.ahead == nil {
			x.s.ahead = newTable(true)
		}
		x.s.ahead.put(x.index, 0)
	case stepRaise:
		b.unraise(x.t)
	case stepTake:
		if x.v.order == strategy.Random {
			x.v.size++
		} else {
			x.v.put(x.s, x.at, x.gate)
		}
	case stepPut:
		if x.v.order == strategy.Random {
			x.v.size--
		} else {
			x.v.take(x.s, x.at)
		}
	case stepOut:
		x.v.enter(x)
	case stepIn:
		x.v.leave(x)
	case stepUnoffer:
		x.s.members = append(x.s.members[:0], x.members...)
		b.oldest = heapPush(byID{b}, b.oldest, x.s.slot)
	}
}

// unpick is the inverse of Take but for the views. The submission is shown: a view gave it.
func (b *Backlog) unpick(s *Submission, before cursors) {
	s.p, s.l, s.upcoming, s.upcomingAt, s.available = before.p, before.l, before.upcoming, before.upcomingAt, before.available
	s.inFlight--
	b.available++
	for _, ref := range s.terms {
		b.terms[ref.term].available++
	}
}

// unraise is the inverse of raise. Samplers have steps of their own.
func (b *Backlog) unraise(t *term) {
	t.inFlight--
	for t.shut > 0 && t.gates[t.shut-1].max > t.inFlight {
		t.shut--
		ref := t.gates[t.shut]
		if v := b.views[ref.view]; v.order != strategy.Random {
			v.refresh(ref.gate)
		}
	}
}

// enter puts an entry back where it lay in a sampler.
func (v *View) enter(x *step) {
	if x.gate == topGate {
		if y, last, moved := v.top.restore(x.exp, x.at, x.x); moved {
			v.gates[y.of].place = last
		}
		g := &v.gates[x.x.of]
		g.exp, g.place, g.offered = x.exp, x.at, true
		return
	}
	if y, last, moved := v.gates[x.gate].restore(x.exp, x.at, x.x); moved {
		v.in.subs[y.of].members[y.at].place = last
	}
	m := &v.in.subs[x.x.of].members[x.x.at]
	m.gate, m.place = x.gate, x.at
}

// leave takes out the entry that was added last.
func (v *View) leave(x *step) {
	if x.gate == topGate {
		v.top.remove(x.exp, x.at)
		v.gates[x.x.of].offered = false
		return
	}
	v.gates[x.gate].remove(x.exp, x.at)
}

// restore is the exact inverse of remove: x comes to its place again, and the entry that had moved there goes back to the
// end; it is returned with its new place.
func (p *sampler) restore(exp uint8, place uint32, x entry) (moved entry, last uint32, ok bool) {
	last = p.add(exp, x)
	if last == place {
		return moved, last, false
	}
	entries := p.buckets[p.search(exp)].entries
	moved = entries[place]
	entries[place], entries[last] = x, moved
	return moved, last, true
}

// untake is the exact inverse of takeAt: index lay at place, and last was the heap's last element, which takeAt moved up or
// down from there.
func (p *pile) untake(index uint32, place int, last uint32) {
	if p.places == nil && len(p.heap) >= pileScan {
		p.places = newTable(false)
		for i, x := range p.heap {
			p.places.put(x, uint32(i))
		}
	}
	end := len(p.heap)
	if index == last {
		p.heap = append(p.heap, index)
		p.moved(index, end)
		return
	}
	hole := p.find(last)
	p.heap = append(p.heap, last)
	p.moved(last, end)
	for hole > place { // it went down, and those on its way up
		p.shift(hole, (hole-1)/2)
		hole = (hole - 1) / 2
	}
	if hole < place { // it went up, and those on its way down
		p.lift(hole, place)
	}
	p.heap[place] = index
	p.moved(index, place)
}

// lift moves the elements between an ancestor and `from` one step up.
func (p *pile) lift(top, from int) {
	if parent := (from - 1) / 2; parent > top {
		p.lift(top, parent)
	}
	p.shift((from-1)/2, from)
}

func (p *pile) shift(to, from int) {
	p.heap[to] = p.heap[from]
	p.moved(p.heap[to], to)
}
