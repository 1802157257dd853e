package shard

import (
	"context"
	"errors"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// buildSlice is how many submissions one hold of the mutex puts into a view that is being built.
const buildSlice = 1000

// errAgain has a reserve begin again: what keeps its consumer from work, or no longer does, has changed.
var errAgain = errors.New("shard: reserve again")

// Reserve hands out up to q.Max chunks by the plan, waiting up to q.Wait for the first. The reservations are appended to
// dst.
func (s *Shard) Reserve(ctx context.Context, q machine.Request, dst []queue.Reservation) (machine.Reserved, error) {
	asked := q.Plan
	defer func() {
		if q.Over != nil {
			q.Over.Stop()
		}
	}()
	for {
		q.Plan, q.Restrained = asked, false
		if s.special.Load() {
			q.Now = 0 // it may wait
			if answer, over := s.restrict(&q, asked); over {
				answer.Reservations, answer.Waited = dst, q.Waited
				return answer, nil
			}
		}
		reserve := s.reservePlain
		if machine.Scores(q.Plan) {
			reserve, q.Now = s.Scoring.reserve, 0
		}
		if answer, err := reserve(ctx, &q, dst); err != errAgain {
			answer.Waited = q.Waited
			return answer, err
		}
	}
}

// stale says that restrict would decide otherwise now. The mutex is held.
func (s *Shard) stale(q *machine.Request) bool {
	return (s.m.ValueLimits.Grace != nil) != q.Restrained || s.roster.OrderOf(q.Consumer) != queue.NoOrder
}

// lookAt is the time of a call's next look: when the call came, which its caller has just read, and after that the present.
func (s *Shard) lookAt(q *machine.Request) queue.Time {
	now := q.Now
	q.Now = 0
	if now == 0 {
		return s.now()
	}
	return now
}

// reservePlain picks in slices, so that no one waits for the mutex for long.
func (s *Shard) reservePlain(ctx context.Context, q *machine.Request, dst []queue.Reservation) (machine.Reserved, error) {
	got := s.takePicks()
	var p picked
	var err error
	for err == nil && len(*got) < q.Max && !p.all {
		err = s.pick(ctx, q, got, &p)
	}
	answer := machine.Reserved{Reservations: dst}
	if err == nil && len(*got) > 0 {
		answer, err = s.fill(ctx, *got, dst)
	}
	s.givePicks(got)
	switch {
	case p.waiter != nil:
		return s.waiters.await(ctx, q, p.waiter, dst)
	case p.empty != nil:
		answer, answer.Reservations = *p.empty, dst
	}
	return answer, err
}

// picked is what the slices of a reserve came to.
type picked struct {
	all    bool              // nothing more can be had
	empty  *machine.Reserved // nothing was had at all, and why
	waiter *waiter           // nothing was had at all, and the caller waits
}

// pick takes the next slice of picks, in one hold of the mutex. With an error those that were taken before are given back.
func (s *Shard) pick(ctx context.Context, q *machine.Request, got *[]machine.Pick, p *picked) (err error) {
	now, seed := s.lookAt(q), s.options.Seed()
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		if err != nil {
			s.m.Undo(*got)
		}
	}()
	if err := s.handsOut(now); err != nil {
		return err
	}
	if s.stale(q) {
		return errAgain
	}
	if err := s.m.Backlog.Views.Admit(q.Plan); err != nil {
		return err
	}
	views, unbuilt := s.m.Views(q.Plan, s.views[:0])
	if s.views = views; unbuilt != nil {
		return s.Views.build(ctx, unbuilt)
	}
	s.m.Seed(seed)
	most := min(q.Max-len(*got), sliceItems)
	n, tired := s.m.ReserveBriefly(q, views, most, now, got)
	p.all = n < most && !tired
	switch nothing := p.all && len(*got) == 0; {
	case nothing && q.Wait > 0:
		p.waiter = s.waiters.park(q)
	case nothing:
		empty := s.m.Empty(q, now)
		p.empty = &empty
	}
	return nil
}

// await waits for work, as long as the caller does.
func (p *waiters) await(ctx context.Context, q *machine.Request, w *waiter, dst []queue.Reservation) (machine.Reserved, error) {
	if q.Over == nil {
		q.Over = time.NewTimer(q.Wait)
	}
	parked := p.s.options.Now()
	answer, err := p.waitFor(ctx, w, q.Over, dst)
	q.Waited += p.s.options.Now().Sub(parked)
	return answer, err
}

// waitFor waits until the waiter is served or its time is over.
func (p *waiters) waitFor(ctx context.Context, w *waiter, over *time.Timer, dst []queue.Reservation) (machine.Reserved, error) {
	select {
	case picks, ok := <-w.served:
		switch {
		case !ok:
			return machine.Reserved{Reservations: dst}, errClosing
		case len(picks) == 0:
			return machine.Reserved{Reservations: dst}, errAgain
		}
		return p.s.fill(ctx, picks, dst)
	case <-over.C:
	case <-ctx.Done():
	}
	return p.leave(ctx, w, dst)
}

// leave ends a wait. What was handed over at the last moment is delivered when the caller is still there, and given back
// when it is not.
func (p *waiters) leave(ctx context.Context, w *waiter, dst []queue.Reservation) (machine.Reserved, error) {
	s := p.s
	now := s.now()
	s.mu.Lock()
	p.unpark(w, nil)
	var picks []machine.Pick
	select {
	case picks = <-w.served:
	default:
	}
	if ctx.Err() != nil {
		s.m.Undo(picks)
		p.serve(now)
		s.mu.Unlock()
		return machine.Reserved{Reservations: dst}, ctx.Err()
	}
	if len(picks) > 0 {
		s.mu.Unlock()
		return s.fill(ctx, picks, dst)
	}
	answer := s.m.Empty(&w.q, now)
	s.mu.Unlock()
	answer.Reservations = dst
	return answer, nil
}

// fill makes the answer: tokens are signed and contents gathered outside the mutex. When contents cannot be read the
// chunks are given back and the error is returned, unless they are damaged: such chunks are set aside, and the others go out. What is more
// than an answer may hold is given back too: no try is counted, and it is ready for the next call.
func (s *Shard) fill(ctx context.Context, picks []machine.Pick, dst []queue.Reservation) (machine.Reserved, error) {
	from := len(dst)
	var arena []byte
	for i := range picks {
		p := &picks[i]
		p.Token.MAC = s.options.Key.MAC(&p.Token)
		d := p.R.Details()
		res := queue.Reservation{Token: p.Token, Attempt: p.Attempt, Deadline: p.Deadline, Meta: p.Meta,
			Priority: p.Priority, Trace: d.Trace}
		if arena == nil {
			arena = make([]byte, 0, len(picks)*(len(p.R.Prefix)+len(d.Template)+12))
		}
		if !p.R.Inline {
			start := len(arena)
			arena = machine.AppendContent(arena, p.R, p.Token.Index)
			res.Content = queue.Content{Bytes: arena[start:len(arena):len(arena)], IsKey: d.Template == ""}
		}
		dst = append(dst, res)
	}
	fit, err := s.contents.read(ctx, picks, dst[from:])
	if err != nil && isDamage(err) {
		return s.contents.withoutDamaged(ctx, picks, dst[:from])
	} else if err != nil {
		s.contents.unreserve(picks)
		return machine.Reserved{Reservations: dst[:from]}, err
	}
	if fit < len(picks) {
		s.contents.unreserve(picks[fit:])
		picks, dst = picks[:fit], dst[:from+fit]
	}
	s.waited(picks)
	return machine.Reserved{Reservations: dst}, nil
}

// waited measures how long the chunks of an answer waited for their first reservation; those of one submission waited equally
// long.
func (s *Shard) waited(picks []machine.Pick) {
	for i := 0; i < len(picks); {
		first, n := &picks[i], uint64(0)
		for ; i < len(picks) && picks[i].R == first.R && picks[i].At == first.At; i++ {
			if picks[i].Attempt == 1 {
				n++
			}
		}
		s.options.Seconds.Wait.Observe(first.At.Sub(max(first.R.ID.Time(), first.R.Details().RunAt)).Seconds(), n)
	}
}
