package shard

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/strategy"
)

// Request is one reserve call.
type Request struct {
	Plan     *strategy.Plan
	Max      int
	Consumer string
	Context  queue.Meta    // what the consumer says of itself to scorers
	Timeout  time.Duration // 0: the queue's
	Wait     time.Duration // how long to wait for the first chunk
	Limited  int           // how many saturated values an answer without chunks names at most: 0 to queue.MaxLimited
	Now      queue.Time    // when the call came, for its first look at what there is; 0: the shard reads its clock

	restrained bool        // Plan is without what limits count, because of the restart grace
	over       *time.Timer // ends Wait; runs from the first time on that there was nothing
	waited     time.Duration
}

// Reserved is its answer. Waited is how long the call waited for work. The other fields are set when Reservations is
// empty: RetryAfter 0 means "no idea", and Limited is for queue.AllLimited: as many as were asked for of the values
// that are in the way.
type Reserved struct {
	Reservations []queue.Reservation
	Reason       queue.EmptyReason
	RetryAfter   time.Duration
	Limited      []queue.Saturated
	Waited       time.Duration
}

// pick is one reservation as the machine makes it; what else an answer needs is gathered outside the mutex.
type pick struct {
	r        *record
	token    queue.Token
	attempt  uint16
	at       queue.Time
	deadline queue.Time
	meta     queue.Meta
	priority int64
}

// buildSlice is how many submissions one hold of the mutex puts into a view that is being built.
const buildSlice = 1000

// views finds the standing views of a plan's branches; unbuilt is the first one that has to be built before the plan can
// be followed, nil when there is none.
func (m *machine) views(plan *strategy.Plan, dst []*backlog.View) (views []*backlog.View, unbuilt *backlog.View) {
	return viewsBy(plan, m.backlog.View, dst)
}

// viewsBy is views, which are found by view.
func viewsBy(plan *strategy.Plan, view func(*strategy.Branch) *backlog.View,
	dst []*backlog.View) (views []*backlog.View, unbuilt *backlog.View) {
	eachStanding(plan, func(br *strategy.Branch) {
		v := view(br)
		if !v.Built() && unbuilt == nil {
			unbuilt = v
		}
		dst = append(dst, v)
	})
	return dst, unbuilt
}

// eachStanding calls fn for every branch of a plan that has a view: of a scored one, those inside of it.
func eachStanding(plan *strategy.Plan, fn func(*strategy.Branch)) {
	for i := range plan.Branches {
		switch br := &plan.Branches[i]; {
		case br.OnFault: // it is inside of the scored one before
		case br.Scored == nil:
			fn(br)
		default:
			for j := range br.Inner {
				fn(&br.Inner[j])
			}
		}
	}
}

// timeout is how long a request may hold its chunks.
func (m *machine) timeout(q *Request) time.Duration {
	timeout := q.Timeout
	if timeout == 0 {
		timeout = m.settings.ReservationTimeout
	}
	return min(timeout, m.settings.MaxReservation)
}

// reserve follows the views of the plan's branches in their order until `most` chunks are picked, and says how many there
// were. When there is nothing else it borrows suspects.
func (m *machine) reserve(q *Request, views []*backlog.View, most int, now queue.Time, picks *[]pick) int {
	n := m.follow(q, views, most, now, picks)
	if n == 0 && len(*picks) == 0 && m.suspects.borrow(q, most, now) {
		n = m.follow(q, views, most, now, picks)
		m.suspects.lend(now, tickMost) // what was borrowed without success goes back
	}
	return n
}

func (m *machine) follow(q *Request, views []*backlog.View, most int, now queue.Time, picks *[]pick) int {
	timeout := m.timeout(q)
	n := 0
	for _, view := range views {
		if m.backlog.Tired() {
			break // what it gives is not known yet, and so not whose turn comes after it
		}
		for ; n < most; n++ {
			sub, index, ok := m.backlog.Take(view, m.rnd)
			if !ok {
				break
			}
			*picks = append(*picks, m.hold(sub.Data.(*record), index, view.Charged(), q.Consumer, now, now.Add(timeout)))
			if m.suspects.shelved > 0 && m.suspects.strict() {
				m.suspects.lend(now, 1) // it may be its turn now
			}
		}
	}
	m.stats.reserved += uint64(n)
	return n
}

// shelveMost is how many submissions that something holds back one hold of the mutex moves aside.
const shelveMost = 500

// reserveBriefly is reserve, but it gives up when it meets too much on its way that rules or limits hold back; tired says so: the
// caller is to give way to others and go on.
func (m *machine) reserveBriefly(q *Request, views []*backlog.View, most int, now queue.Time, picks *[]pick) (n int, tired bool) {
	m.backlog.Allow(shelveMost)
	n = m.reserve(q, views, most, now, picks)
	tired = m.backlog.Tired()
	m.backlog.Allow(0)
	return n, tired
}

func (m *machine) hold(r *record, index uint32, charge backlog.Charge, consumer string, now, deadline queue.Time) pick {
	m.stats.operations -= uint64(r.details().operations)
	if r.known == nil {
		r.known = r.sub.Meta()
	}
	p := pick{r: r, attempt: r.attempt(index), at: now, deadline: deadline, meta: r.known, priority: r.priority}
	p.token = queue.Token{Submission: r.id, Index: index, Epoch: m.epoch, Sequence: m.holds.NextSequence()}
	p.token.Slot = m.holds.Add(&r.holds, reserver.Hold{
		Sequence: p.token.Sequence, Epoch: m.epoch, Seq: r.seq, Index: index, Attempt: p.attempt, Counted: true,
		Ledger: charge.Ledger, Reserved: now, Deadline: deadline,
	}, consumer)
	m.charged(p.token.Slot, charge)
	m.suspects.taken(r, index)
	m.suspects.heldMore(now)
	return p
}

// attempt is the number of a chunk's next try.
func (r *record) attempt(index uint32) uint16 {
	if t := r.tries[index]; t != nil {
		return t.attempts + 1
	}
	return 1
}

// undo gives picks back that no one will get.
func (m *machine) undo(picks []pick) {
	for i := range picks {
		if r, slot, s := m.resolvePick(&picks[i]); s == holder {
			m.unhold(r, slot)
		}
	}
}

// unhold gives back a chunk that no one worked on: the one that was charged for it is refunded.
func (m *machine) unhold(r *record, slot uint32) {
	h := m.holds.At(slot)
	index, charge := h.Index, m.charge(slot, h)
	m.drop(r, slot)
	m.putBack(r, index)
	m.backlog.Refund(r.sub, charge)
}

func (m *machine) resolvePick(p *pick) (*record, uint32, standing) {
	t := p.token
	t.MAC = m.key.MAC(&t)
	return m.resolve(&t)
}

// errAgain has a reserve begin again: what keeps its consumer from work, or no longer does, has changed.
var errAgain = errors.New("shard: reserve again")

// Reserve hands out up to q.Max chunks by the plan, waiting up to q.Wait for the first. The reservations are appended to
// dst.
func (s *Shard) Reserve(ctx context.Context, q Request, dst []queue.Reservation) (Reserved, error) {
	asked := q.Plan
	defer func() {
		if q.over != nil {
			q.over.Stop()
		}
	}()
	for {
		q.Plan, q.restrained = asked, false
		if s.special.Load() {
			q.Now = 0 // it may wait
			if answer, over := s.restrict(&q, asked); over {
				answer.Reservations, answer.Waited = dst, q.waited
				return answer, nil
			}
		}
		reserve := s.reservePlain
		if scores(q.Plan) {
			reserve, q.Now = s.Scoring.reserve, 0
		}
		if answer, err := reserve(ctx, &q, dst); err != errAgain {
			answer.Waited = q.waited
			return answer, err
		}
	}
}

// stale says that restrict would decide otherwise now. The mutex is held.
func (s *Shard) stale(q *Request) bool {
	return (s.m.valueLimits.grace != nil) != q.restrained || s.roster.orderOf(q.Consumer) != queue.NoOrder
}

// lookAt is the time of a call's next look: when the call came, which its caller has just read, and after that the present.
func (s *Shard) lookAt(q *Request) queue.Time {
	now := q.Now
	q.Now = 0
	if now == 0 {
		return s.now()
	}
	return now
}

func (s *Shard) reservePlain(ctx context.Context, q *Request, dst []queue.Reservation) (Reserved, error) {
	got := s.takePicks()
	for len(*got) < q.Max {
		now, seed := s.lookAt(q), s.options.Seed()
		s.mu.Lock()
		if err := s.handsOut(now); err != nil {
			s.m.undo(*got)
			s.mu.Unlock()
			s.givePicks(got)
			return Reserved{Reservations: dst}, err
		}
		if s.stale(q) {
			s.m.undo(*got)
			s.mu.Unlock()
			s.givePicks(got)
			return Reserved{Reservations: dst}, errAgain
		}
		if err := s.m.backlog.Admit(q.Plan); err != nil {
			s.m.undo(*got)
			s.mu.Unlock()
			s.givePicks(got)
			return Reserved{Reservations: dst}, err
		}
		views, unbuilt := s.m.views(q.Plan, s.views[:0])
		s.views = views
		if unbuilt != nil {
			if err := s.Views.build(ctx, unbuilt); err != nil {
				s.m.undo(*got)
				s.mu.Unlock()
				s.givePicks(got)
				return Reserved{Reservations: dst}, err
			}
			s.mu.Unlock()
			continue
		}
		s.m.seed(seed)
		most := min(q.Max-len(*got), sliceItems)
		n, tired := s.m.reserveBriefly(q, views, most, now, got)
		if len(*got) == 0 && !tired {
			s.givePicks(got)
			return s.empty(ctx, q, now, dst) // unlocks
		}
		s.mu.Unlock()
		if n < most && !tired {
			break
		}
	}
	answer, err := s.fill(ctx, *got, dst)
	s.givePicks(got)
	return answer, err
}

// empty answers a reserve that found nothing, or waits for work. The mutex is held and given up.
func (s *Shard) empty(ctx context.Context, q *Request, now queue.Time, dst []queue.Reservation) (Reserved, error) {
	if q.Wait <= 0 {
		answer := s.m.empty(q, now)
		s.mu.Unlock()
		answer.Reservations = dst
		return answer, nil
	}
	w := s.waiters.park(q)
	s.mu.Unlock()
	if q.over == nil {
		q.over = time.NewTimer(q.Wait)
	}
	parked := s.options.Now()
	answer, err := s.waiters.waitFor(ctx, w, q.over, dst)
	q.waited += s.options.Now().Sub(parked)
	return answer, err
}

// waitFor waits until the waiter is served or its time is over.
func (p *waiters) waitFor(ctx context.Context, w *waiter, over *time.Timer, dst []queue.Reservation) (Reserved, error) {
	select {
	case picks, ok := <-w.served:
		switch {
		case !ok:
			return Reserved{Reservations: dst}, errClosing
		case len(picks) == 0:
			return Reserved{Reservations: dst}, errAgain
		}
		return p.s.fill(ctx, picks, dst)
	case <-over.C:
	case <-ctx.Done():
	}
	return p.leave(ctx, w, dst)
}

// leave ends a wait. What was handed over at the last moment is delivered when the caller is still there, and given back
// when it is not.
func (p *waiters) leave(ctx context.Context, w *waiter, dst []queue.Reservation) (Reserved, error) {
	s := p.s
	now := s.now()
	s.mu.Lock()
	p.unpark(w, nil)
	var picks []pick
	select {
	case picks = <-w.served:
	default:
	}
	if ctx.Err() != nil {
		s.m.undo(picks)
		p.serve(now)
		s.mu.Unlock()
		return Reserved{Reservations: dst}, ctx.Err()
	}
	if len(picks) > 0 {
		s.mu.Unlock()
		return s.fill(ctx, picks, dst)
	}
	answer := s.m.empty(&w.q, now)
	s.mu.Unlock()
	answer.Reservations = dst
	return answer, nil
}

// fill makes the answer: tokens are signed and contents gathered outside the mutex. When contents cannot be read the
// chunks are given back and the error is returned, unless they are damaged: such chunks are set aside, and the others go out.
func (s *Shard) fill(ctx context.Context, picks []pick, dst []queue.Reservation) (Reserved, error) {
	from := len(dst)
	var arena []byte
	for i := range picks {
		p := &picks[i]
		p.token.MAC = s.options.Key.MAC(&p.token)
		d := p.r.details()
		res := queue.Reservation{Token: p.token, Attempt: p.attempt, Deadline: p.deadline, Meta: p.meta,
			Priority: p.priority, Trace: d.trace}
		if arena == nil {
			arena = make([]byte, 0, len(picks)*(len(p.r.prefix)+len(d.template)+12))
		}
		if !p.r.inline {
			start := len(arena)
			arena = appendContent(arena, p.r, p.token.Index)
			res.Content = queue.Content{Bytes: arena[start:len(arena):len(arena)], IsKey: d.template == ""}
		}
		dst = append(dst, res)
	}
	if err := s.contents.read(ctx, picks, dst[from:]); err != nil && isDamage(err) {
		return s.contents.withoutDamaged(ctx, picks, dst[:from])
	} else if err != nil {
		s.contents.unreserve(picks)
		return Reserved{Reservations: dst[:from]}, err
	}
	s.waited(picks)
	return Reserved{Reservations: dst}, nil
}

// waited measures how long the chunks of an answer waited for their first reservation; those of one submission waited equally
// long.
func (s *Shard) waited(picks []pick) {
	for i := 0; i < len(picks); {
		first, n := &picks[i], uint64(0)
		for ; i < len(picks) && picks[i].r == first.r && picks[i].at == first.at; i++ {
			if picks[i].attempt == 1 {
				n++
			}
		}
		s.options.WaitSeconds.Observe(first.at.Sub(max(first.r.id.Time(), first.r.details().runAt)).Seconds(), n)
	}
}

// appendContent makes the content of a chunk that is stored nowhere: the key below the prefix, or the filled-in template.
func appendContent(dst []byte, r *record, index uint32) []byte {
	template := r.details().template
	if template == "" {
		dst = append(dst, r.prefix...)
		return strconv.AppendUint(dst, uint64(r.first()+index), 10)
	}
	const hole = "{index}"
	rest := []byte(template)
	for {
		at := bytes.Index(rest, []byte(hole))
		if at < 0 {
			return append(dst, rest...)
		}
		dst = strconv.AppendUint(append(dst, rest[:at]...), uint64(r.first()+index), 10)
		rest = rest[at+len(hole):]
	}
}
