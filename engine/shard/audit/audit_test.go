package audit

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell/shelltest"
)

// filled is a machine with two submissions of nine chunks. In the first one chunk is held, one waits and one is dead;
// in the other one chunk is held.
func filled(t *testing.T) (*machine.Machine, *machine.Record) {
	s := shelltest.New(t)
	s.Machine.Settings.RetryBackoff = queue.Backoff{Base: time.Hour, Cap: time.Hour, Factor: 1}
	n := &queue.NewSubmission{
		Meta: queue.Meta{{Key: "k", Value: queue.IntValue(1)}}, Chunks: queue.Chunks{Count: 9, Prefix: "p/"}, OnExhausted: queue.DeadLetter,
	}
	id, other := s.Insert(n), s.Insert(n)
	s.Take(id, 0)
	s.Failed(id, queue.FailItem{Error: "later"}, 1)
	s.Failed(id, queue.FailItem{Error: "never", Fatal: true}, 2)
	s.Take(other, 0)
	return s.Machine, s.Machine.Live(id)
}

// Every wrong counter is found and named. Nothing is found when all are right.
func TestEachCounterIsAudited(t *testing.T) {
	t.Parallel()
	m, r := filled(t)
	if err := Machine(m); err != nil {
		t.Fatal(err)
	}
	add := func(n *uint64) func() func() {
		return func() func() { *n++; return func() { *n-- } }
	}
	ofRecord := func(n *uint32) func() func() {
		return func() func() { *n++; return func() { *n-- } }
	}
	suspects := func(n *int) func() func() {
		return func() func() { *n++; return func() { *n-- } }
	}
	c := &m.Stats
	for want, change := range map[string]func() (undo func()){
		"waiting: 2 are counted, 1 there":                          add(&c.Waiting),
		"parked: 1 are counted, 0 there":                           add(&c.Parked),
		"dead: 2 are counted, 1 there":                             add(&c.Dead),
		"done: 1 are counted, 0 there":                             add(&c.Completed),
		"skipped: 1 are counted, 0 there":                          add(&c.Skipped),
		"operations: 15 are counted, 14 there":                     add(&c.Operations),
		"operations of what is ready: 15 are counted":              add(&c.Operations),
		"orphaned: 1 are counted, 0 there":                         add(&c.Orphaned),
		"shelved: 1 are counted, 0 there":                          suspects(&m.Suspects.Shelved),
		"lent: 1 are counted, 0 there":                             suspects(&m.Suspects.Lent),
		"lent and ready: 1 are counted, 0 there":                   suspects(&m.Suspects.Ready),
		"1 wait, 1 are dead, 0 skipped; counted are 2, 1":          ofRecord(&r.Waiting),
		"1 wait, 1 are dead, 0 skipped; counted are 1, 2":          ofRecord(&r.Dead),
		"0 skipped; counted are 1, 1 and 1":                        ofRecord(&r.Skips),
		"0 are shelved, 0 lent, 0 of them not held; counted are 1": ofRecord(&r.Shelved),
		"not held; counted are 0, 1 and 0":                         ofRecord(&r.Lent),
		"not held; counted are 0, 0 and 1":                         ofRecord(&r.Ready),
		"its states sum up to 10 of 9 chunks":                      ofRecord(&r.Done),
		"are in flight and": func() func() {
			h := heldOf(m, r)
			h.Counted = false
			return func() { h.Counted = true }
		},
		"it counts as under ruling": func() func() {
			m.Joined.Rules = pausing{m.Joined.Rules}
			return func() { m.Joined.Rules = m.Joined.Rules.(pausing).Rules }
		},
		"a part says so": func() func() {
			m.Joined.Audited = []func() error{func() error { return errors.New("a part says so") }}
			return func() { m.Joined.Audited = nil }
		},
		"is dead or skipped, and offered or held too": func() func() {
			r.Tries[2].Waiting = true
			return func() { r.Tries[2].Waiting = false }
		},
	} {
		undo := change()
		if err := Machine(m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want one that says %q", err, want)
		}
		undo()
		if err := Machine(m); err != nil {
			t.Fatalf("after %q was undone: %v", want, err)
		}
	}
}

// heldOf is a reservation of a submission.
func heldOf(m *machine.Machine, r *machine.Record) (held *reserver.Hold) {
	m.Holds.Each(&r.Holds, func(_ uint32, h *reserver.Hold) bool { held = h; return false })
	return held
}

// pausing are rules that say that everything is paused.
type pausing struct{ machine.Rules }

func (pausing) Covering(queue.SubmissionID, queue.Meta) (queue.Rule, bool) {
	return queue.Rule{Action: queue.Pause}, true
}
