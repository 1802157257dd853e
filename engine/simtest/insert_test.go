package simtest

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// draw makes up a submission.
func (s *sim) draw() queue.NewSubmission {
	n := queue.NewSubmission{Priority: int64(s.r.IntN(4) - 1), Meta: s.drawMeta(), Chunks: s.drawChunks()}
	if s.chance(15) {
		n.Attachment = s.bytes(1 + s.r.IntN(300))
	}
	if s.chance(15) {
		n.RunAt = s.now.Add(pickOf(s, -time.Hour, 0, 50*time.Millisecond, 101*time.Millisecond, 5*time.Second, time.Hour))
	}
	if s.chance(20) {
		n.OperationsPerChunk = uint32(s.r.IntN(20))
	}
	if s.chance(20) {
		n.MaxAttempts = uint16(1 + s.r.IntN(4))
	}
	if s.chance(30) {
		n.OnExhausted = pickOf(s, queue.FailSubmission, queue.DeadLetter, queue.Skip)
	}
	if s.chance(20) {
		n.RetryBackoff = new(s.drawBackoff())
	}
	if s.chance(20) {
		n.MaxFailedChunks = uint32(1 + s.r.IntN(3))
	}
	if s.chance(15) {
		n.AttemptTimeout = pickOf(s, queue.MinReservation, 5*time.Second, 2*time.Hour)
	}
	if s.chance(6) {
		n.DeadDeadline = s.now.Add(pickOf(s, time.Second, 10*time.Second, time.Hour))
	}
	if s.chance(10) {
		n.Group, n.Trace, n.DeadDeadline = fmt.Sprint("g", s.r.IntN(3)), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", s.now+1000
	}
	if s.late != nil && n.DeadDeadline != 0 && n.DeadDeadline <= n.RunAt { // no one can ask for that
		n.DeadDeadline = n.RunAt.Add(time.Second)
	}
	return n
}

// longest is the longest time that an attempt may hold a chunk of the submission.
func (s *sim) longest(x *modelSub) time.Duration {
	if own := x.asked.AttemptTimeout; own != 0 && own < s.settings.MaxReservation {
		s.tally.add("a submission's own timeout bounds an attempt", 1)
		return own
	}
	return s.settings.MaxReservation
}

func (s *sim) drawMeta() queue.Meta {
	var meta queue.Meta
	for _, key := range []string{"a", "b", "c"} {
		switch x := s.r.IntN(10); {
		case x < 6:
			meta = append(meta, queue.MetaEntry{Key: key, Value: queue.IntValue(int64(x % 3))})
		case x == 6:
			meta = append(meta, queue.MetaEntry{Key: key, Value: queue.StringValue("1")})
		}
	}
	return meta
}

func (s *sim) drawChunks() queue.Chunks {
	c := queue.Chunks{Count: uint32(1 + s.r.IntN(4))}
	if s.chance(25) {
		c.Count = uint32(1 + s.r.IntN(30))
	}
	switch s.r.IntN(3) {
	case 0:
		c.Prefix = pickOf(s, "", "bucket/dir/", "x")
	case 1:
		c.Template = pickOf(s, "no hole", "{index}", `{"n":{index},"again":{index}}`, "{ind{index}")
	case 2:
		for range c.Count {
			c.Inline = append(c.Inline, s.bytes(pickOf(s, 0, 1, 20, 1024, 1025, 9000)))
		}
	}
	return c
}

func (s *sim) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(s.r.Uint32())
	}
	return b
}

func (s *sim) insert() {
	n := s.draw()
	if s.chance(25) {
		s.keys++
		n.IdempotencyKey = fmt.Sprint("key", s.keys)
		binary.LittleEndian.PutUint64(n.Fingerprint[:], s.r.Uint64())
	}
	s.insertThis(n)
}

func (s *sim) insertThis(n queue.NewSubmission) {
	s.log.add("insert %d chunks meta %v priority %d run_at %d key %q", n.Chunks.Count, n.Meta, n.Priority, n.RunAt, n.IdempotencyKey)
	asked := n
	got, replayed, err := s.shard.Insert(ctx, &asked)
	if s.m.refuses(n.Meta) {
		if queue.CodeOf(err) != queue.CodeRefusedByRule {
			s.fail("an insert that a rule refuses: got %v", err)
		}
		s.tally.add("insert refused by a rule", 1)
		return
	}
	if failed, written := s.commitFailed("insert", err); failed {
		s.insertFailed(n, written)
		return
	}
	if replayed {
		s.fail("a new insert is said to be a replay of %s", got.ID)
	}
	if count := len(s.m.subs); count > 0 && s.m.subs[count-1].id >= got.ID {
		s.fail("insert got the id %s after %s", got.ID, s.m.subs[count-1].id)
	}
	s.equal("answer of the insert", got, s.inserted(n, got.ID))
}

// inserted adds a submission to the model.
func (s *sim) inserted(n queue.NewSubmission, id queue.SubmissionID) queue.Submission {
	first := s.m.insert(n, id, s.now).inserted()
	s.tally.add("insert", 1)
	if first.Waiting > 0 {
		s.tally.add("insert with run_at", 1)
	}
	if n.IdempotencyKey != "" {
		s.m.keys[n.IdempotencyKey] = &modelKey{fingerprint: n.Fingerprint, id: id, at: s.now}
	}
	return first
}

// insertFailed: if the insert was written all the same, the submission is there, under an id that no caller knows.
func (s *sim) insertFailed(n queue.NewSubmission, written bool) {
	s.takeEffect([]func(){func() {
		list, _, err := s.shard.Submissions.List(ctx, machine.Filter{}, 0, 1)
		s.must("list", err)
		if len(list) == 0 || s.m.sub(list[0].ID) != nil {
			s.fail("the insert was written, but is not in the list")
		}
		s.inserted(n, list[0].ID)
	}}, true, written)
}

// repeatKey uses an idempotency key again: unchanged, or for another request.
func (s *sim) repeatKey() {
	if s.keys == 0 {
		return
	}
	n := s.draw()
	n.IdempotencyKey = fmt.Sprint("key", 1+s.r.IntN(s.keys))
	known := s.m.keys[n.IdempotencyKey]
	if known == nil || known.at.Add(queue.IdempotencyWindow) < s.now { // a restart lets time pass without a tick
		s.insertThis(n)
		return
	}
	n.Fingerprint = known.fingerprint
	if s.m.forgotten[known.id] {
		if got, replayed, err := s.shard.Insert(ctx, &n); queue.CodeOf(err) != queue.CodeUnknownSubmission {
			s.fail("an insert again under %q, whose submission %s is forgotten: got (%s, %v, %v), want %s", n.IdempotencyKey, known.id,
				got.ID, replayed, err, queue.CodeUnknownSubmission)
		}
		s.tally.add("insert repeated after its retention", 1)
		return
	}
	conflict := s.chance(40)
	if conflict {
		n.Fingerprint[3]++
	}
	s.log.add("insert again under %q, conflict=%v, first was %s", n.IdempotencyKey, conflict, known.id)
	got, replayed, err := s.shard.Insert(ctx, &n)
	if conflict {
		if queue.CodeOf(err) != queue.CodeIdempotencyReuse {
			s.fail("another request under %q: got (%v, %v, %v), want %s", n.IdempotencyKey, got, replayed, err, queue.CodeIdempotencyReuse)
		}
		return
	}
	s.must("repeated insert", err)
	if !replayed {
		s.fail("a repeated insert under %q is not said to be a replay; it got %s, the first one %s", n.IdempotencyKey, got.ID, known.id)
	}
	x := s.m.sub(known.id)
	s.equal("answer of a repeated insert", got, s.m.info(x))
	s.tally.add("insert repeated", 1)
	if x.state != queue.Open {
		s.tally.add("insert repeated after its end", 1)
	}
}

func (s *sim) cancel() {
	if len(s.m.subs) == 0 {
		return
	}
	x := s.m.subs[s.r.IntN(len(s.m.subs))]
	s.log.add("cancel %s", x.id)
	got, err := s.shard.Submissions.Cancel(ctx, x.id)
	failed, written := s.commitFailed("cancel", err)
	effects := []func(){func() {
		if x.state == queue.Open {
			s.m.end(x, queue.Cancelled, "", s.now)
		}
	}}
	if s.takeEffect(effects, failed, written); failed {
		return
	}
	s.equal("answer of the cancel", got, s.m.info(x))
}

// cancelChunk gives up one chunk of a submission.
func (s *sim) cancelChunk() {
	if len(s.m.subs) == 0 {
		return
	}
	x := s.m.subs[s.r.IntN(len(s.m.subs))]
	index := s.r.IntN(len(x.chunks))
	s.log.add("cancel chunk %d of %s", index, x.id)
	got, err := s.shard.Submissions.CancelChunk(ctx, x.id, uint32(index))
	failed, written := s.commitFailed("cancel of a chunk", err)
	effects := []func(){func() {
		if x.state == queue.Open {
			s.m.cancelChunk(x, x.chunks[index], s.now)
		}
	}}
	if s.takeEffect(effects, failed, written); failed {
		return
	}
	s.equal("answer of the cancel of a chunk", got, x.chunk(index))
}

// reprioritise changes a submission's priority; views of order CustomPriority are to see it from the next reserve on.
func (s *sim) reprioritise() {
	if len(s.m.subs) == 0 {
		return
	}
	x := s.m.subs[s.r.IntN(len(s.m.subs))]
	priority := int64(s.r.IntN(7) - 3)
	s.log.add("priority %d for %s", priority, x.id)
	got, err := s.shard.Submissions.SetPriority(ctx, x.id, priority, nil)
	if x.state != queue.Open {
		if queue.CodeOf(err) != queue.CodeConflict {
			s.fail("priority of the %s submission %s: got %v, want a conflict", x.state, x.id, err)
		}
		return
	}
	failed, written := s.commitFailed("priority", err)
	if s.takeEffect([]func(){func() { x.asked.Priority = priority; s.tally.add("priority changed", 1) }}, failed, written); failed {
		return
	}
	s.adopt()
	s.equal("answer of the priority", got, s.m.info(x))
}

func (s *sim) equal(what string, got, want any) {
	if !reflect.DeepEqual(got, want) {
		s.fail("%s:\n   got %+v\n  want %+v", what, got, want)
	}
}
