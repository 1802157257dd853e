package simtest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// item is one token of a call, with its standing in the model before the call.
type item struct {
	token    queue.Token
	x        *modelSub
	c        *modelChunk
	standing standing
}

// drawItems picks tokens: mostly current ones, some stale, some forged, some twice. ending says that a decision within
// the call ends the item's submission for those behind it.
func (s *sim) drawItems() []item {
	items := make([]item, 1+s.r.IntN(pickOf(s, 1, 2, 6)))
	for i := range items {
		items[i].token = s.drawToken()
		genuine := true
		if s.chance(8) {
			items[i].token, genuine = s.forge(items[i].token)
		}
		items[i].x, items[i].c, items[i].standing = s.m.stand(items[i].token, genuine)
	}
	return items
}

func (s *sim) drawToken() queue.Token {
	if len(s.tokens) == 0 {
		return queue.Token{}
	}
	var held []queue.Token
	if s.chance(65) {
		for _, x := range s.m.subs {
			for _, c := range x.chunks {
				if x.state == queue.Open && c.state == queue.ChunkReserved {
					held = append(held, c.hold.token)
				}
			}
		}
	}
	if len(held) > 0 {
		return held[s.r.IntN(len(held))]
	}
	return s.tokens[s.r.IntN(len(s.tokens))]
}

// forge changes a token. The slot is a hint only, everything else is sealed.
func (s *sim) forge(t queue.Token) (queue.Token, bool) {
	genuine := t != queue.Token{}
	switch s.r.IntN(7) {
	case 0:
		t.MAC ^= 1 << s.r.IntN(48)
	case 1:
		t.Index++
	case 2:
		t.Epoch += uint32(1 + s.r.IntN(3))
	case 3:
		t.Sequence++
	case 4:
		t.Submission += queue.SubmissionID(1 + s.r.IntN(5000))
	case 5:
		t = queue.Token{}
	default:
		t.Slot = s.r.Uint32N(20)
		return t, genuine
	}
	return t, false
}

// check compares one outcome with the table and says whether the item takes effect.
func (s *sim) check(i int, it *item, v verb, got queue.Result) bool {
	names := [...]string{"complete", "fail", "extend", "release"}
	if it.standing == completed {
		if got.Outcome == queue.OutcomeLost && v <= failIt || got.Outcome == queue.OutcomeGone && it.x.state != queue.Open {
			s.evicted[it.token] = true // the table of recent completions is small: another one fell on its place
			return false
		}
		if v <= failIt {
			s.remember++
		}
	}
	if !slices.Contains(answers(it.standing, v), got.Outcome) {
		s.fail("%s item %d, token %+v: got %v (%s), want one of %v (row %d)", names[v], i, it.token, got.Outcome, got.Code, answers(it.standing, v), it.standing)
	}
	if (got.Outcome == queue.OutcomeOK || got.Outcome == queue.OutcomeAlready) != (got.Code == "") {
		s.fail("%s item %d: outcome %v with code %q", names[v], i, got.Outcome, got.Code)
	}
	return got.Outcome == queue.OutcomeOK
}

// decided marks the effect of an item's decision on the rest of the call: the chunk is finishing.
func decided(items []item, i int) {
	for j := i + 1; j < len(items); j++ {
		switch {
		case items[j].c != items[i].c || items[j].c == nil:
		case same(items[j].token, items[i].token):
			items[j].standing = finishing
		default:
			items[j].standing = replaced
		}
	}
}

func (s *sim) completeSome() {
	items := s.drawItems()
	var call []queue.CompleteItem
	for i := range items {
		c := queue.CompleteItem{Token: items[i].token}
		if s.chance(40) {
			c.Output = s.bytes(pickOf(s, 0, 1, 30, 5000))
		}
		// An item with inserts has a hold of the mutex of its own, so a call of several may be several commits. Then a fault hits one of
		// them, and the model only knows whether all of a call was written.
		if whole := s.faults == nil || len(items) == 1; whole && s.lists != nil && s.lists.IntN(100) < 25 {
			c.Insert = s.drawFollowing()
		}
		call = append(call, c)
	}
	s.log.add("complete %s", describe(items))
	drawn := followingOf(call)
	got, err := s.shard.Complete(ctx, call, nil)
	failed, written := s.commitFailed("complete", err)
	following := following{sim: s, failed: failed}
	if !failed {
		s.sameLength(len(got), len(items))
	}
	var effects []func()
	for i := range items {
		it := &items[i]
		accepted := slices.Equal(answers(it.standing, completeIt), []queue.Outcome{queue.OutcomeOK})
		if accepted && s.refusesSome(drawn[i]) {
			if !failed && (got[i].Outcome != queue.OutcomeRefused || got[i].Code != string(queue.CodeRefusedByRule)) {
				s.fail("complete item %d, one of whose submissions a rule refuses: got %+v", i, got[i])
			}
			s.tally.add("complete refused with its inserts", 1)
			continue
		}
		s.heardOf(it)
		if failed {
			if !accepted {
				continue
			}
		} else if !s.check(i, it, completeIt, got[i]) {
			continue
		}
		following.add(drawn[i], call[i].Insert)
		output := call[i].Output // nil: none; an empty one is one
		how := map[standing]string{free: "complete of a ready chunk", overdue: "complete after the deadline"}[it.standing]
		effects = append(effects, func() {
			s.m.complete(it.x, it.c, it.token, output, s.now)
			s.tally.add(cmp.Or(how, "complete"), 1)
		})
		decided(items, i)
	}
	s.takeEffect(append(effects, following.takeEffect), failed, written)
}

func (s *sim) failSome() {
	items := s.drawItems()
	var call []queue.FailItem
	for i := range items {
		if s.m.overtaken(&items[i]) {
			items[i].standing = replaced
		}
		f := queue.FailItem{Token: items[i].token, Error: drawError(s.r.IntN(100)), Fatal: s.chance(8)}
		if s.chance(2) {
			f.Error = strings.Repeat("long ", 300)
		}
		if s.chance(40) {
			f.HasRetry, f.RetryAfter = true, queue.Time(pickOf(s, 0, 1, 5000, 3_600_000))
		}
		call = append(call, f)
	}
	s.log.add("fail %s", describe(items))
	got, err := s.shard.Fail(ctx, call, nil)
	failed, written := s.commitFailed("fail", err)
	if !failed {
		s.sameLength(len(got), len(items))
	}
	var effects []func()
	dying := map[*modelSub]uint32{}
	for i := range items {
		it, f := &items[i], &call[i]
		s.heardOf(it)
		late := it.standing == free || it.standing == overdue
		again := late && same(it.c.tried, it.token) && !it.c.snoozed
		counted := it.standing == holds || late && (!again || it.c.expired || f.Fatal)
		if !failed && !s.check(i, it, failIt, got[i]) || !counted {
			continue
		}
		effects = append(effects, func() {
			switch {
			case again:
				s.revised(it, f)
				s.tally.add("fail of a try that its deadline counted", 1)
				return
			case late:
				s.tally.add("fail after a restart", 1)
			}
			s.failed(it, f)
		})
		decided(items, i)
		if f.Fatal || !again && s.lastTry(it, f) {
			if s.m.endsSubmission(it.x, dying[it.x]) {
				endsFor(items[i+1:], it.x)
			}
			dying[it.x]++
		}
	}
	s.takeEffect(effects, failed, written)
}

func (s *sim) lastTry(it *item, f *queue.FailItem) bool {
	return f.Fatal || it.c.attempts+1 >= s.m.maxAttempts(it.x)
}

// endsFor: the items behind the one that ends a submission find it ended, unless another token holds their chunk.
func endsFor(items []item, x *modelSub) {
	for j := range items {
		if items[j].x == x && (items[j].standing == holds || items[j].standing == free || items[j].standing == overdue) {
			items[j].standing = over
		}
		if items[j].x == x && (items[j].standing == replaced || items[j].standing == completed) {
			items[j].standing = anyEnd
		}
	}
}

// overtaken says that another try was counted after the token's, or that the chunk was redriven since: it can be finished still, but not fail.
func (m *model) overtaken(it *item) bool {
	if it.standing != free || it.c.tried == (queue.Token{}) {
		return false
	}
	a, b := it.c.tried, it.token
	return same(a, b) && it.c.attempts == 0 && !it.c.snoozed || a.Epoch > b.Epoch || a.Epoch == b.Epoch && a.Sequence > b.Sequence
}

// revised adds a consumer's words to a try that was counted already.
func (s *sim) revised(it *item, f *queue.FailItem) {
	x, c := it.x, it.c
	if x.state != queue.Open {
		return
	}
	c.err, c.expired = f.Error[:min(len(f.Error), queue.MaxErrorBytes)], false
	c.past[len(c.past)-1].Error = c.err
	s.m.totals.failed++
	switch {
	case f.Fatal:
		s.m.kill(x, c, c.err, s.now)
	case f.HasRetry:
		s.putBack(x, c, s.now+f.RetryAfter)
	default:
		s.putBack(x, c, c.notBefore)
	}
}

// failed counts a try in the model.
func (s *sim) failed(it *item, f *queue.FailItem) {
	x, c := it.x, it.c
	if x.state != queue.Open {
		return
	}
	last := s.lastTry(it, f)
	text := f.Error[:min(len(f.Error), queue.MaxErrorBytes)]
	c.try(it.token, false, text, s.now)
	s.m.totals.failed++
	switch {
	case last:
		s.m.kill(x, c, text, s.now)
		s.tally.add("fail for good", 1)
		return
	case f.HasRetry:
		s.putBack(x, c, s.now+f.RetryAfter)
	default:
		b := s.settings.RetryBackoff
		if x.asked.RetryBackoff != nil {
			b = *x.asked.RetryBackoff
		}
		s.putBack(x, c, s.backedOff(x, it.token.Index, b, int(c.attempts)))
	}
	s.tally.add("fail, to be tried again", 1)
}

func (s *sim) putBack(_ *modelSub, c *modelChunk, notBefore queue.Time) {
	c.state, c.notBefore, c.shelved = queue.ChunkReady, 0, false
	if notBefore > s.now {
		c.state, c.notBefore = queue.ChunkWaiting, notBefore
	}
}

// backedOff asks until when a chunk waits, and checks that this is within the bounds of the jitter, which chance decides.
func (s *sim) backedOff(x *modelSub, index uint32, b queue.Backoff, tries int) queue.Time {
	delay := b.Base
	for n := 2; n <= tries && b.Kind != queue.Fixed; n++ {
		if b.Kind == queue.Linear {
			delay += b.Base
		} else {
			delay = time.Duration(float64(delay) * b.Factor)
		}
		if b.Cap > 0 {
			delay = min(delay, b.Cap)
		}
	}
	if list := b.Delays.MS(); b.Kind == queue.Listed {
		for len(list) > 1 && tries > 1 {
			list, tries = list[1:], tries-1
		}
		delay = time.Duration(list[0]) * time.Millisecond
	}
	if delay == 0 || s.m.overdue(x, s.now) { // then it waits for nothing any more
		return 0
	}
	least := map[queue.Jitter]time.Duration{queue.FullJitter: time.Millisecond, queue.EqualJitter: delay / 2, queue.NoJitter: delay}[b.Jitter]
	got, err := s.shard.Submissions.Chunk(ctx, x.id, index)
	s.must("chunk", err)
	if got.State == queue.ChunkSkipped {
		return 0 // the submission ended behind it
	}
	if got.NotBefore < s.now.Add(least) || got.NotBefore > s.now.Add(delay) {
		s.fail("chunk %s/%d, which is %s, waits until %d: want %s to %s after %d", x.id, index, got.State, got.NotBefore, least, delay, s.now)
	}
	s.tally.add([]string{"exponential back-off", "linear back-off", "fixed back-off", "back-off by a list"}[b.Kind], 1)
	return got.NotBefore
}

func (s *sim) extendSome() {
	items := s.drawItems()
	var call []queue.ExtendItem
	for i := range items {
		call = append(call, queue.ExtendItem{Token: items[i].token, Timeout: queue.Time(pickOf(s, 0, 100, 60_000, 100_000_000)), Consumer: pickOf(s, "", s.drawConsumer())})
	}
	s.log.add("extend %s", describe(items))
	got, err := s.shard.Extend(ctx, call, nil)
	s.must("extend", err)
	s.sameLength(len(got), len(items))
	for i := range items {
		it := &items[i]
		it.x, it.c, it.standing = s.again(it)
		if it.standing == free && s.m.revokes(it.x) {
			if got[i].Outcome != queue.OutcomeLost || got[i].Code != "reservation_revoked" {
				s.fail("extend item %d, which a rule took back: got %v (%s)", i, got[i].Outcome, got[i].Code)
			}
			s.tally.add("extend of what a rule took back", 1)
			continue
		}
		if !s.check(i, it, extendIt, got[i]) {
			continue
		}
		s.tally.add("extend", 1)
		if it.standing == free {
			s.tally.add("extend after a restart", 1)
			it.c.state, it.c.shelved = queue.ChunkReserved, false
			it.c.hold = modelHold{token: it.token, reserved: s.now, consumer: call[i].Consumer, made: s.m.roster.next()}
		}
		s.m.roster.hear(it.c.hold.consumer, s.now)
		timeout := call[i].Timeout
		if timeout == 0 {
			timeout = queue.Time(s.settings.ReservationTimeout.Milliseconds())
		}
		it.c.hold.deadline = min(s.now+timeout, it.c.hold.reserved.Add(s.longest(it.x)))
		if got[i].Deadline != it.c.hold.deadline {
			s.fail("extend item %d: got the deadline %d, want %d", i, got[i].Deadline, it.c.hold.deadline)
		}
	}
}

// again looks a token up once more, as earlier items of the same call may have changed its standing.
func (s *sim) again(it *item) (*modelSub, *modelChunk, standing) {
	return s.m.stand(it.token, it.standing != forged)
}

func (s *sim) releaseSome() {
	items := s.drawItems()
	var call []queue.ReleaseItem
	for i := range items {
		release := queue.ReleaseItem{Token: items[i].token}
		if s.chance(40) {
			release.Delay = queue.Time(pickOf(s, 1, 5000, 3_600_000))
		}
		call = append(call, release)
	}
	s.log.add("release %s", describe(items))
	got, err := s.shard.Release(ctx, call, nil)
	gaveBack := slices.ContainsFunc(items, func(it item) bool {
		first := slices.IndexFunc(items, func(o item) bool { return o.c == it.c && o.standing == holds })
		return it.standing == holds && call[first].Delay == 0
	})
	failed, written := s.commitFailedBehind("release", gaveBack, err)
	if !failed {
		s.sameLength(len(got), len(items))
	}
	var effects []func()
	delayed := map[*modelChunk]bool{} // by an item before in this call, which decides for the others
	for i := range items {
		it, delay := &items[i], call[i].Delay
		if !delayed[it.c] {
			it.x, it.c, it.standing = s.again(it)
		}
		if failed && it.standing != holds || !failed && !s.check(i, it, releaseIt, got[i]) {
			continue
		}
		if delay == 0 {
			it.c.state, it.c.hold = queue.ChunkReady, modelHold{}
			s.m.totals.released++
			s.tally.add("release", 1)
			continue
		}
		effects = append(effects, func() {
			c := it.c
			c.state, c.notBefore, c.hold = queue.ChunkWaiting, s.now+delay, modelHold{}
			c.tried, c.expired, c.snoozed, c.shelved = it.token, false, true, false
			s.m.totals.released++
			s.tally.add("release with a delay", 1)
		})
		delayed[it.c] = true
		decided(items, i)
	}
	s.takeEffect(effects, failed, written)
}

func (s *sim) sameLength(got, want int) {
	if got != want {
		s.fail("%d results for %d items", got, want)
	}
}

func describe(items []item) string {
	var text []string
	for _, it := range items {
		text = append(text, fmt.Sprintf("%s/%d sequence %d epoch %d (row %d)", it.token.Submission, it.token.Index, it.token.Sequence, it.token.Epoch, it.standing))
	}
	return strings.Join(text, ", ")
}

// drawError is one of some kinds of errors.
func drawError(n int) string {
	return fmt.Sprint([]string{"trouble ", "no answer of host ", "refused "}[n%3], n)
}
