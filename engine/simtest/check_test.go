package simtest

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/inspect"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/sdk/api"
)

// tick ticks and runs the timed work in the model.
func (s *sim) tick() {
	s.shard.Worker.Tick()
	err := s.settle()
	if err == nil && s.faults != nil && s.faults.fired != noFault {
		err = s.faults.expected() // the tick's commit failed before settle could wait for it: no one else does
	}
	failed, _ := s.commitFailed("tick", err)
	again := failed && s.faults.fired == full // behind a reload there is another tick anyway
	for key, known := range s.m.keys {
		if known.at.Add(queue.IdempotencyWindow) < s.now {
			delete(s.m.keys, key)
		}
	}
	s.m.promote(s.now)
	if s.m.grace != 0 && s.m.grace <= s.now {
		s.m.grace = 0
		s.tally.add("restart grace ends", 1)
	}
	lost, later := s.absent()
	s.takeEffect([]func(){func() {
		if s.faults != nil {
			s.overtake(slices.Concat(lost, later))
			s.m.expireAll(s.now)
			s.syncTotals()
		} else {
			for _, x := range s.m.subs {
				if x.state == queue.Open {
					s.expire(x)
				}
			}
			s.loseAll(lost)
			s.m.expireAll(s.now)
			s.loseAll(later)
		}
		s.m.lift(s.now, queue.RuleOver, "", func(r *queue.Rule) bool { return r.Until != 0 && r.Until <= s.now && s.counts("rule ends by itself") })
	}}, failed, false) // one of the tick's commits failed: the next tick does the rest, and reports all
	if again {
		s.tick()
		return
	}
	s.adopt()
	s.checkSuspects()
}

// expire ends the overdue reservations of one submission. When one of them ends the submission, the order in which the
// shard took them decides which others are counted. Then the model takes over the shard's choice.
func (s *sim) expire(x *modelSub) {
	const why = errorLate
	var late []int
	ends, last := false, uint32(0)
	for i, c := range x.chunks {
		if c.state == queue.ChunkReserved && c.hold.deadline <= s.now {
			late = append(late, i)
			if s.lastExpiry(x, c) {
				ends = ends || s.m.endsSubmission(x, last)
				last++
			}
		}
	}
	s.m.totals.expired += uint64(len(late))
	s.tally.add("deadline passes", len(late))
	if ends {
		s.expireLast(x, late, why)
		return
	}
	for _, i := range late {
		c := x.chunks[i]
		last := s.lastExpiry(x, c)
		c.try(c.hold.token, true, why, s.now)
		if last {
			s.m.totals.failed++
			s.tally.add("deadline of the last try passes", 1)
			s.m.kill(x, c, why, s.now)
		} else {
			s.putBack(x, c, s.backedOff(x, uint32(i), s.settings.ExpiryBackoff, int(c.expiries)))
		}
	}
}

func (s *sim) lastExpiry(x *modelSub, c *modelChunk) bool {
	return c.attempts+1 >= s.m.maxAttempts(x) || c.expiries+1 >= s.settings.MaxExpiries
}

func (s *sim) expireLast(x *modelSub, late []int, why string) {
	var died []uint32
	allowed := 1
	for s.m.onExhausted(x) != queue.FailSubmission && !s.m.endsSubmission(x, uint32(allowed-1)) {
		allowed++
	}
	for _, i := range late {
		c := x.chunks[i]
		got, err := s.shard.Submissions.Chunk(ctx, x.id, uint32(i))
		s.must("chunk", err)
		if got.Attempts == c.attempts {
			continue // the end came first
		}
		if got.Attempts != c.attempts+1 || got.Error != why {
			s.fail("chunk %s/%d after its deadline: %+v, it had %d attempts", x.id, i, got, c.attempts)
		}
		if got.State == queue.ChunkDead || got.State == queue.ChunkForwarded || got.State == queue.ChunkSkipped && s.m.gone(x) == queue.ChunkSkipped && s.lastExpiry(x, c) {
			died = append(died, uint32(i))
			if !s.lastExpiry(x, c) {
				s.fail("chunk %s/%d is dead with a try left", x.id, i)
			}
			s.m.totals.failed++
			c.try(c.hold.token, true, why, s.now)
			if c.state = s.m.gone(x); got.State == queue.ChunkForwarded {
				s.m.forward(x, c, s.settings.DeadLetterQueue)
			}
			continue
		}
		c.try(c.hold.token, true, why, s.now)
	}
	if len(died) != allowed {
		s.fail("%d chunks of %s died at once, want %d: the end of the submission comes before the others", len(died), x.id, allowed)
	}
	got, err := s.shard.Submissions.Get(ctx, x.id)
	s.must("submission", err)
	if got.FailedChunk == nil || !slices.Contains(died, *got.FailedChunk) {
		s.fail("%s says that chunk %v failed it, want one of %d", x.id, got.FailedChunk, died)
	}
	s.m.fail(x, *got.FailedChunk, why, s.now)
}

func (s *sim) checkSubmission(x *modelSub) {
	got, err := s.shard.Submissions.Get(ctx, x.id)
	s.must("submission", err)
	s.equal("submission", got, s.m.info(x))
	s.record.asked(got)
	d, open, err := s.shard.Inspect.DiagnoseSubmission(x.id, inspect.Asked{})
	s.must("diagnosis", err)
	if want := x.begun; open && d.FirstReserved != want {
		s.fail("%s was first reserved at %d, want %d", x.id, d.FirstReserved, want)
	}
}

func (s *sim) checkStats() {
	s.adopt()
	s.checkDemands()
	s.must("audit", s.shard.Audit())
	got := s.shard.Stats()
	t := &s.m.totals
	want := queue.Stats{
		Stats: api.Stats{
			InsertedTotal: t.inserted, ReservedTotal: t.reserved, DoneTotal: t.done, FailedTotal: t.failed, ExpiredTotal: t.expired,
			ReleasedTotal: t.released, SubmissionsInsertedTotal: t.submissions, SubmissionsEndedTotal: t.ended,
			LostTotal: t.lost, RevokedTotal: got.RevokedTotal, ConsumersAttached: s.m.roster.attached(),
			ForwardedTotal: t.forwarded, Outgoing: uint64(len(s.m.outbox)), Empty: 1,
			CommitsTotal: got.CommitsTotal, CommitBytesTotal: got.CommitBytesTotal, JournalBytes: got.JournalBytes, StoreBytes: got.StoreBytes,
		},
		BulkTotal: t.bulk, AgedTotal: got.AgedTotal, EndedAs: got.EndedAs, RulesActive: got.RulesActive, ConsumersAway: got.ConsumersAway,
		OperationsWaiting: got.OperationsWaiting, ViewBytes: got.ViewBytes, QuestionViewBytes: got.QuestionViewBytes,
		Unsaved: got.Unsaved, UnsavedMost: got.UnsavedMost, // which a checkpoint writes
		Keys: got.Keys, KeysMost: got.KeysMost, // those of a slot leave together
	}
	known := 0
	for _, key := range s.m.keys {
		if key.at.Add(queue.IdempotencyWindow) >= s.now {
			known++
		}
	}
	if got.Keys < uint64(known) {
		s.fail("%d idempotency keys are counted, and %d are known", got.Keys, known)
	}
	for _, b := range s.m.bulks {
		if b.State == queue.BulkRunning {
			want.BulkOperationsRunning++
		}
	}
	for _, x := range s.m.subs {
		if x.state == queue.Open || x.state == queue.CompletedWithDead {
			want.DeadLetters += uint64(x.count(queue.ChunkDead))
		}
		if x.state != queue.Open {
			continue
		}
		info := s.m.info(x)
		want.SubmissionsOpen++
		want.Empty = 0
		want.Ready += uint64(info.Ready)
		want.Paused += uint64(info.Paused)
		want.Blocked += uint64(info.Blocked)
		want.Waiting += uint64(info.Waiting)
		want.Retrying += uint64(x.count(queue.ChunkWaiting))
		want.Reserved += uint64(info.Reserved)
		want.Dead += uint64(info.Dead)
		want.Done += uint64(info.Done)
		want.Skipped += uint64(info.Skipped)
		want.OperationsReady += uint64(info.Ready) * uint64(x.operations())
		if want.OldestReadySeconds == 0 && info.Ready > 0 {
			want.OldestReadySeconds = max(0, s.now.Sub(info.Created).Seconds())
		}
	}
	want.Rates.Known, want.Rates.Values = uint64(len(s.m.rates)), got.Rates.Values
	s.equal("stats", got, want)
	got.JournalBytes, got.StoreBytes, got.Unsaved = 0, 0, 0 // of files
	s.record.asked(got)
	ended := uint64(0)
	for _, n := range got.EndedAs {
		ended += n
	}
	s.equal("submissions that ended, over all states", ended, got.SubmissionsEndedTotal)
}

// checkAll compares everything that can be read.
func (s *sim) checkAll() {
	s.checkStats()
	for _, x := range s.m.subs {
		s.checkSubmission(x)
		s.checkChunks(x, nil, 1000)
		s.checkOutputs(x)
	}
	s.checkLetters(queue.BulkFilter{}, 1000)
	s.checkBulks()
	s.checkList(machine.Filter{}, 0, 1000)
	for _, key := range []string{"a", "b", "c", "no one"} {
		s.checkValues(key)
	}
}

func (s *sim) readChunks() {
	if len(s.m.subs) == 0 {
		return
	}
	states := []queue.ChunkState{queue.ChunkReady, queue.ChunkWaiting, queue.ChunkReserved, queue.ChunkDone, queue.ChunkDead, queue.ChunkSkipped, queue.ChunkForwarded}
	s.r.Shuffle(len(states), func(i, j int) { states[i], states[j] = states[j], states[i] })
	s.checkChunks(s.m.subs[s.r.IntN(len(s.m.subs))], states[:s.r.IntN(len(states))], pickOf(s, 1, 3, 100))
}

// checkChunks reads the chunks page by page.
func (s *sim) checkChunks(x *modelSub, states []queue.ChunkState, limit int) {
	var got, want []queue.Chunk
	for from := uint32(0); from < x.asked.Chunks.Count; {
		page, next, err := s.shard.Submissions.Chunks(ctx, x.id, states, from, limit)
		s.must("chunks", err)
		if len(page) > limit || next <= from {
			s.fail("chunks of %s from %d: a page of %d (at most %d wanted), next %d", x.id, from, len(page), limit, next)
		}
		got, from = append(got, page...), next
	}
	for i := range x.chunks {
		if c := x.chunk(i); len(states) == 0 || slices.Contains(states, c.State) {
			want = append(want, c)
		}
	}
	if len(got) != len(want) {
		s.fail("chunks %v of %s: got %d, want %d:\n  %+v\n  %+v", states, x.id, len(got), len(want), got, want)
	}
	for i := range got {
		if !reflect.DeepEqual(got[i], want[i]) {
			s.fail("chunk of %s:\n   got %+v\n  want %+v", x.id, got[i], want[i])
		}
	}
}

func (s *sim) readOutputs() {
	if len(s.m.subs) > 0 {
		s.checkOutputs(s.m.subs[s.r.IntN(len(s.m.subs))])
	}
}

func (s *sim) checkOutputs(x *modelSub) {
	var want, got []string
	name := func(index uint32, output []byte) string { return fmt.Sprintf("%d:%x", index, bytes.Clone(output)) }
	for i, c := range x.chunks {
		if c.state == queue.ChunkDone && c.output != nil {
			want = append(want, name(uint32(i), c.output))
		}
	}
	s.must("outputs", s.shard.Submissions.Outputs(ctx, x.id, func(index uint32, output []byte) error {
		got = append(got, name(index, output))
		return nil
	}))
	if !slices.Equal(got, want) {
		s.fail("outputs of %s: got %d, want %d\n   got %.300v\n  want %.300v", x.id, len(got), len(want), got, want)
	}
}

func (s *sim) list() {
	f := machine.Filter{}
	if s.chance(50) {
		f.States = append(f.States, pickOf(s, queue.Open, queue.Completed, queue.Failed, queue.Cancelled, queue.CompletedWithDead))
	}
	if s.chance(20) {
		f.States = append(f.States, queue.Completed)
	}
	if s.chance(40) {
		f.Meta = queue.Meta{{Key: "a", Value: queue.IntValue(int64(s.r.IntN(3)))}}
	}
	before := queue.SubmissionID(0)
	if s.chance(50) && len(s.m.subs) > 0 {
		before = s.m.subs[s.r.IntN(len(s.m.subs))].id
	}
	s.checkList(f, before, pickOf(s, 1, 3, 1000))
}

func (s *sim) checkList(f machine.Filter, before queue.SubmissionID, limit int) {
	got, _, err := s.shard.Submissions.List(ctx, f, before, limit)
	s.must("list", err)
	var want []queue.Submission
	for _, x := range slices.Backward(s.m.subs) {
		matches := len(f.States) == 0 || slices.Contains(f.States, x.state)
		for _, entry := range f.Meta {
			v, there := x.asked.Meta.Find(entry.Key)
			matches = matches && there && v == entry.Value
		}
		if matches && (before == 0 || x.id < before) && len(want) < limit {
			want = append(want, s.m.info(x))
		}
	}
	if len(got) != len(want) {
		s.fail("list %+v before %s limit %d: got %d, want %d", f, before, limit, len(got), len(want))
	}
	for i := range got {
		s.equal(fmt.Sprintf("entry %d of the list %+v", i, f), got[i], want[i])
	}
}

func (s *sim) readValues() { s.checkValues(pickOf(s, "a", "b", "c", "no one")) }

func (s *sim) checkValues(key queue.MetaKey) {
	got, want := map[queue.MetaValue]backlog.ValueCount{}, map[queue.MetaValue]backlog.ValueCount{}
	list, whole := s.shard.Values.List(key, math.MaxInt, nil)
	for _, v := range list {
		got[v.Value] = v
	}
	if !whole || len(got) != len(list) {
		s.fail("values of %s: %d of which %d differ, whole %v; want each once, and all", key, len(list), len(got), whole)
	}
	for _, x := range s.m.subs {
		v, there := x.asked.Meta.Find(key)
		if x.state != queue.Open || !there {
			continue
		}
		count := want[v]
		count.Value = v
		count.Submissions++
		count.InFlight += uint64(x.count(queue.ChunkReserved))
		info := s.m.info(x)
		count.Available += uint64(info.Ready)
		count.Paused += uint64(info.Paused)
		count.Blocked += uint64(info.Blocked)
		want[v] = count
	}
	s.equal("values of "+key, got, want)
}
