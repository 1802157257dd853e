package simtest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// drawStrategy makes up a strategy in its text form.
func (s *sim) drawStrategy(depth int) string {
	key := pickOf(s, "a", "b", "c")
	if depth == 0 {
		return pickOf(s, "Random", "Random", "OldestFirst", "NewestFirst", "CustomPriority")
	}
	inner := func() string { return s.drawStrategy(s.r.IntN(depth)) }
	if s.rates != nil && s.rates.IntN(5) == 0 {
		return s.drawRate(inner())
	}
	switch s.r.IntN(6) {
	case 0:
		return s.drawFilter(key, inner())
	case 1:
		return fmt.Sprintf("OrElse(%s, %s)", inner(), inner())
	case 2:
		number, text := 1+s.r.IntN(3), inner()
		if s.lists != nil && s.lists.IntN(3) == 0 {
			return fmt.Sprintf("PreferDistinct(%q, %s%s)", key, s.drawMissing(), s.drawOne())
		}
		return fmt.Sprintf("PreferDistinct(%q, %d, %s%s)", key, number, s.drawMissing(), text)
	case 3:
		return fmt.Sprintf("MaxSimultaneous(%q, %s, %s%s)", key, s.drawMost(), s.drawMissing(), inner())
	case 4:
		key, cost := pickOf(s, "a", "b", "$submission"), pickOf(s, "", "", "time, ")
		switch s.r.IntN(6) {
		case 0:
			return fmt.Sprintf("Fair(%q, %sOrElse(%s, %s))", key, cost, s.drawShared(), s.drawStrategy(0))
		case 1:
			return fmt.Sprintf("Fair(%q, %sFair(%q, %s))", key, cost, pickOf(s, "b", "$submission"), s.drawShared())
		case 2:
			return fmt.Sprintf("Fair(%q, %sPreferDistinct(\"b\", 1, %s))", key, cost, s.drawStrategy(0))
		}
		return fmt.Sprintf("Fair(%q, %s%s)", key, cost, s.drawShared())
	}
	return s.drawStrategy(0)
}

// drawOne makes up a strategy that PreferDistinct without a number can hold: one order, which may be under a filter or a limit.
func (s *sim) drawOne() string {
	order := []string{"Random", "OldestFirst", "NewestFirst", "CustomPriority"}[s.lists.IntN(4)]
	switch key := []string{"a", "b", "c"}[s.lists.IntN(3)]; s.lists.IntN(3) {
	case 0:
		return fmt.Sprintf("SelectOnly(%q, %d, %s)", key, s.lists.IntN(2), order)
	case 1:
		return fmt.Sprintf("MaxSimultaneous(%q, %d, %s%s)", key, 1+s.lists.IntN(4), s.drawMissing(), order)
	}
	return order
}

// drawValid draws until the language admits the strategy: it may not hold Random under several limits everywhere.
func (s *sim) drawValid(depth int) string {
	for {
		text := s.drawStrategy(depth)
		if _, err := strategy.Parse(text); err == nil {
			return text
		}
	}
}

// drawFilter makes up a filter of a key around a strategy.
func (s *sim) drawFilter(key, inner string) string {
	value := pickOf(s, "0", "1", "2", "9", `"1"`)
	if s.lists == nil || s.lists.IntN(2) == 0 {
		return fmt.Sprintf("SelectOnly(%q, %s, %s)", key, value, inner)
	}
	name, more := []string{"SelectAny", "Except"}[s.lists.IntN(2)], []string{"", ", 1", ", 2", ", 0, 2", `, "1", 9`}[s.lists.IntN(5)]
	return fmt.Sprintf("%s(%q, [%s%s], %s)", name, key, value, more, inner)
}

// drawShared makes up a strategy that Fair can hold.
func (s *sim) drawShared() string {
	order := s.drawStrategy(0)
	switch s.r.IntN(4) {
	case 0:
		return fmt.Sprintf("SelectOnly(%q, %d, %s)", pickOf(s, "b", "c"), s.r.IntN(2), order)
	case 1:
		return fmt.Sprintf("MaxSimultaneous(%q, %d, %s)", pickOf(s, "a", "b"), 1+s.r.IntN(4), order)
	}
	return order
}

// refused says whether a reserve was refused for want of ledgers, and checks that so many were really asked for.
func (s *sim) refused(plan *strategy.Plan, err error) bool {
	branches := plan.Branches
	if s.m.grace != 0 {
		branches = append(slices.Clone(branches), plan.Restrained().Branches...)
	}
	for i := range branches {
		if br := &branches[i]; br.Fair != "" {
			s.ledgers[br.Key()] = true
		}
	}
	if queue.CodeOf(err) != queue.CodeConflict {
		return false
	}
	if len(s.ledgers) <= backlog.MaxLedgers {
		s.fail("refused after %d fair branches: %v; plan\n%s", len(s.ledgers), err, plan)
	}
	return true
}

func (s *sim) reserve() {
	text := s.drawText()
	for s.reserveBy(text) {
	}
}

// reserveBy reserves by a strategy. When a rate holds everything back, it lets the time that the answer names pass, or all but a
// millisecond of it, so that the next reserve comes at the moment that matters. more says that one should follow.
func (s *sim) reserveBy(text string) (more bool) {
	parsed, err := strategy.Parse(text)
	s.must(text, err)
	q := machine.Request{Plan: parsed.Plan(), Max: pickOf(s, 1, 1, 2, 5, 20), Consumer: s.drawConsumer(), Limited: queue.MaxLimited}
	if s.chance(40) {
		q.Timeout = pickOf(s, 100*time.Millisecond, 3*time.Second, 2*time.Hour, 30*time.Hour)
	}
	s.log.add("reserve %d by %s, timeout %s", q.Max, text, q.Timeout)
	got, err := s.shard.Reserve(ctx, q, nil)
	q.Plan = s.numbered(text, q.Max)
	if s.refused(q.Plan, err) {
		return false
	}
	s.must("reserve", err)
	if len(got.Reservations) == 0 {
		s.adopt()
	}
	if s.obeys(&q, &got) {
		s.m.rated(q.Plan)
		s.checkReserved(&q, &got)
	}
	switch {
	case s.rates == nil || !strings.Contains(text, "MaxRate"):
		return false
	case got.Reason == queue.RateLimited:
		s.pass(got.RetryAfter - time.Duration(s.rates.IntN(2))*time.Millisecond)
	}
	return s.rates.IntN(8) > 0
}

// checkReserved plays the picks in the model: the first branch that has something must be allowed to give each.
func (s *sim) checkReserved(q *machine.Request, got *machine.Reserved) {
	if len(got.Reservations) == 0 {
		s.checkEmpty(q, got)
		s.tally.add("reserve that finds nothing", 1)
	}
	if len(got.Reservations) > q.Max {
		s.fail("reserved %d, asked for %d", len(got.Reservations), q.Max)
	}
	branches := q.Plan.Branches
	for i := range got.Reservations {
		res := &got.Reservations[i]
		t := res.Token
		s.log.add("  got %s/%d sequence %d", t.Submission, t.Index, t.Sequence)
		s.borrowed(t)
		for len(branches) > 0 && s.m.first(&branches[0]) == nil {
			branches = branches[1:]
		}
		if len(branches) == 0 {
			s.fail("reservation %d of %s, but no branch has anything left:\n%s", i, t.Submission, q.Plan)
		}
		x := s.m.sub(t.Submission)
		if x == nil || !s.m.admits(&branches[0], x) {
			s.fail("reservation %d of %s, which branch %s does not admit", i, t.Submission, branches[0].Key())
		}
		if first, leaf := s.m.firstBeside(&branches[0], x, s.m.subs); first != x {
			s.fail("reservation %d of %s by %s (%s), want one of %s", i, x.id, branches[0].Key(), leaf.Key(), first.id)
		}
		s.checkRates(&branches[0], x)
		s.checkReservation(q, x, res)
	}
	if len(got.Reservations) == q.Max {
		return
	}
	for i := range branches {
		if first := s.m.first(&branches[i]); first != nil {
			s.fail("reserved %d of %d, but branch %s has %s", len(got.Reservations), q.Max, branches[i].Key(), first.id)
		}
	}
}

func (s *sim) checkReservation(q *machine.Request, x *modelSub, res *queue.Reservation) {
	t := res.Token
	if t.Index >= x.asked.Chunks.Count || x.chunks[t.Index].state != queue.ChunkReady {
		s.fail("reserved chunk %s/%d, which is not ready", x.id, t.Index)
	}
	if t.Epoch != s.epoch || t.Sequence <= s.sequence {
		s.fail("token with epoch %d sequence %d, want epoch %d and more than %d", t.Epoch, t.Sequence, s.epoch, s.sequence)
	}
	s.sequence = t.Sequence
	c := x.chunks[t.Index]
	timeout := q.Timeout
	if timeout == 0 {
		timeout = s.settings.ReservationTimeout
	}
	want := queue.Reservation{
		Token: t, Attempt: c.attempts + 1, Ready: res.Ready, Deadline: s.now.Add(min(timeout, s.longest(x))), Content: x.content(t.Index),
		Meta: x.asked.Meta, Priority: x.asked.Priority, Attachment: x.asked.Attachment, Trace: x.asked.Trace,
	}
	if !bytes.Equal(res.Content.Bytes, want.Content.Bytes) || res.Content.IsKey != want.Content.IsKey {
		s.fail("content of %s/%d: got %q (key: %v), want %q (key: %v)", x.id, t.Index, res.Content.Bytes, res.Content.IsKey, want.Content.Bytes, want.Content.IsKey)
	}
	if !slices.Equal(res.Meta, want.Meta) {
		s.fail("meta of %s: got %v, want %v", x.id, res.Meta, want.Meta)
	}
	if from := x.readyFrom(c); res.Ready < from || res.Ready > s.now {
		s.fail("%s/%d is ready since %d, want %d to %d", x.id, t.Index, res.Ready, from, s.now)
	}
	rest := *res
	rest.Content, rest.Meta = want.Content, want.Meta
	s.equal("reservation", rest, want)

	x.begin(s.now)
	s.m.pace(x, s.now)
	c.state = queue.ChunkReserved
	c.hold = modelHold{token: t, deadline: res.Deadline, reserved: s.now, consumer: q.Consumer, made: s.m.roster.next()}
	s.m.roster.hear(q.Consumer, s.now)
	s.m.totals.reserved++
	s.tally.add("reserve", 1)
	s.tokens = append(s.tokens, t)
	if len(s.tokens) > 300 {
		s.tokens = s.tokens[50:]
	}
}

// manyDue is the number of due entries up to which the shard looks for the reason of an empty answer; some may be stale.
const manyDue = 30

func (s *sim) checkEmpty(q *machine.Request, got *machine.Reserved) {
	reason, after := s.m.empty(q.Plan, s.now)
	s.checkNamed(q, got)
	if reason == queue.AllLimited && (got.Reason == queue.AllLimited || got.Reason == queue.RateLimited) {
		if !s.m.mayWait(q.Plan, s.now, got.RetryAfter) || (got.RetryAfter > 0) != (got.Reason == queue.RateLimited) {
			alone, limited := s.m.rateWaits(q.Plan, s.now)
			s.fail("nothing reserved: %s after %s; rates hold back %v, and %v that are at a limit; plan\n%s", got.Reason,
				got.RetryAfter, alone, limited, q.Plan)
		}
		if got.Reason == queue.RateLimited {
			s.tally.add("reserve that finds a rate", 1)
		}
		return
	}
	if got.Reason == reason && got.RetryAfter == after {
		return
	}
	due := 0
	for _, x := range s.m.subs {
		due += int(x.count(queue.ChunkWaiting))
		if x.parked {
			due++
		}
	}
	if due > manyDue && (reason == queue.NotYetDue || reason == queue.Nothing) && got.Reason != queue.AllLimited && got.Reason != queue.RestartGrace {
		return
	}
	s.fail("nothing reserved: got the reason %s after %s, want %s after %s; plan\n%s", got.Reason, got.RetryAfter, reason, after, q.Plan)
}

// checkNamed checks the values that an answer names as in the way: each holds back a chunk that no rule covers and that the plan would hand
// out.
func (s *sim) checkNamed(q *machine.Request, got *machine.Reserved) {
	if len(got.Limited) > q.Limited || len(got.Limited) > 0 && got.Reason != queue.AllLimited {
		s.fail("%d values are named for %s, where at most %d were asked for", len(got.Limited), got.Reason, q.Limited)
	}
	for _, named := range got.Limited {
		holds := slices.ContainsFunc(s.m.subs, func(x *modelSub) bool {
			value, has := x.find(named.Key)
			return has && value == named.Value && x.offered() && s.m.ruling(x) == queue.Unruled &&
				slices.ContainsFunc(q.Plan.Branches, func(br strategy.Branch) bool { return x.matches(&br) })
		})
		if inFlight := s.m.inFlight(named.Key, named.Value); !holds || named.InFlight != inFlight || inFlight < named.Limit {
			s.fail("%s=%s is named with %d of %d in flight, it has %d and holds back something: %v", named.Key, named.Value.Text(), named.InFlight, named.Limit, inFlight, holds)
		}
	}
}

// readyFrom is the earliest time since when a chunk may wait for its next attempt: a back-off comes on top, which the model forgets once it
// is over. TestReservationsSayHowLongTheyWaited has the exact times.
func (x *modelSub) readyFrom(c *modelChunk) queue.Time {
	from := x.id.Time() // a run_at that is almost there counts as now
	if n := len(c.past); n > 0 {
		from = max(from, c.past[n-1].Ended)
	}
	return from
}
