package simtest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// A decision of any feature that cannot be written is undone with its batch: no part of the machine keeps anything of it, and it can be
// asked for again. Each feature has its line here.
func TestNothingIsLeftOfAFailedCommit(t *testing.T) {
	t.Parallel()
	held := func(b *box) queue.Reservation { return mustReserve(b.t, b, "OldestFirst", 1)[0] }
	match := queue.RuleMatch{Entry: queue.MetaEntry{Key: "a", Value: queue.IntValue(1)}}
	rule := func(b *box) queue.Rule {
		set, _, err := b.shard.Rules.Set(queue.Rule{Action: queue.Pause, Match: match}, nil)
		must(b.t, err)
		return set
	}
	def := queue.Schedule{Spec: "@every 10s", Enabled: true, Template: prefixed(1)}
	schedule := func(b *box) {
		_, _, err := b.shard.Schedules.Put("s", def, nil)
		must(b.t, err)
	}
	dead := func(b *box) queue.SubmissionID {
		sub := mustInsert(b.t, b, prefixed(2))
		b.mustFail(mustReserve(b.t, b, "OldestFirst", 1), func(item *queue.FailItem) { item.Fatal = true })
		return sub.ID
	}
	bulk := queue.BulkRequest{Action: queue.BulkRedrive}
	ops := map[string]func(b *box) func() error{
		"complete": func(b *box) func() error {
			mustInsert(b.t, b, prefixed(2))
			token := held(b).Token
			return func() error {
				results, err := b.shard.Complete(ctx, []queue.CompleteItem{{Token: token}}, nil)
				return errors.Join(err, outcome(results))
			}
		},
		"a chunk dies": func(b *box) func() error {
			mustInsert(b.t, b, prefixed(2))
			return func() error { return fatal(b, held(b)) }
		},
		"a submission fails": func(b *box) func() error {
			b.setting(func(s *queue.Settings) { s.OnExhausted = queue.FailSubmission })
			mustInsert(b.t, b, prefixed(2))
			return func() error { return fatal(b, held(b)) }
		},
		"a chunk dies, and goes to another queue": func(b *box) func() error {
			b.setting(func(s *queue.Settings) { s.DeadLetterQueue = "dead" })
			mustInsert(b.t, b, prefixed(2))
			return func() error { return fatal(b, held(b)) }
		},
		"insert with a key": func(b *box) func() error {
			n := prefixed(1)
			n.IdempotencyKey = "k"
			return func() error { _, _, err := b.shard.Insert(ctx, &n); return err }
		},
		"insert many": func(b *box) func() error {
			return func() error {
				return b.shard.InsertMany(ctx, []queue.Insertion{insertion("k", "x"), insertion("", "y")}, true)
			}
		},
		"cancel": func(b *box) func() error {
			sub := mustInsert(b.t, b, prefixed(2))
			return func() error { _, err := b.shard.Submissions.Cancel(ctx, sub.ID); return err }
		},
		"set a rule": func(b *box) func() error {
			return func() error {
				_, _, err := b.shard.Rules.Set(queue.Rule{Action: queue.Pause, Match: match}, nil)
				return err
			}
		},
		"change a rule": func(b *box) func() error {
			rule(b)
			return func() error {
				_, _, err := b.shard.Rules.Set(queue.Rule{Action: queue.Pause, Match: match, Until: b.clock.now().Add(time.Hour)}, nil)
				return err
			}
		},
		"lift a rule": func(b *box) func() error {
			r := rule(b)
			return func() error { _, _, err := b.shard.Rules.Lift(r.ID, "ana"); return err }
		},
		"make a schedule": func(b *box) func() error {
			return func() error { _, _, err := b.shard.Schedules.Put("s", def, nil); return err }
		},
		"change a schedule": func(b *box) func() error {
			schedule(b)
			other := def
			other.Spec = "@every 20s"
			return func() error { _, _, err := b.shard.Schedules.Put("s", other, nil); return err }
		},
		"pause a schedule": func(b *box) func() error {
			schedule(b)
			return func() error { _, err := b.shard.Schedules.Switch("s", false, "why"); return err }
		},
		"delete a schedule": func(b *box) func() error {
			schedule(b)
			return func() error { return b.shard.Schedules.Delete("s", nil) }
		},
		"begin a bulk operation": func(b *box) func() error {
			return func() error { _, err := b.shard.Bulks.Start(bulk); return err }
		},
		"go on with a bulk operation": func(b *box) func() error {
			dead(b)
			op, err := b.shard.Bulks.Start(bulk)
			must(b.t, err)
			return func() error { _, _, err := b.shard.Bulks.Step(ctx, op.ID, 10); return err }
		},
		"end a bulk operation": func(b *box) func() error {
			op, err := b.shard.Bulks.Start(bulk)
			must(b.t, err)
			return func() error { return b.shard.Bulks.End(op.ID, queue.BulkCancelled, "ana", "") }
		},
		"redrive": func(b *box) func() error {
			id := dead(b)
			return func() error { _, err := b.shard.DeadLetters.Redrive(ctx, id, []uint32{0, 1}); return err }
		},
		"delete a dead letter": func(b *box) func() error {
			id := dead(b)
			return func() error { _, err := b.shard.DeadLetters.Delete(ctx, id, []uint32{0, 1}); return err }
		},
		"forward a dead letter": func(b *box) func() error {
			id := dead(b)
			return func() error { _, err := b.shard.DeadLetters.Forward(ctx, id, []uint32{0, 1}, "dead"); return err }
		},
		"a dead letter arrives": func(b *box) func() error {
			n := prefixed(1)
			n.Origin = &queue.Origin{Source: 1, Number: 1, Queue: "other", Chunk: queue.ChunkID{Submission: 99}}
			return func() error { return b.shard.Forwarding.Deliver(ctx, []queue.Delivery{{Number: 1, Submission: n}}) }
		},
	}
	for name, prepare := range ops {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, f := newBox(t, deadLetters()), &faults{spare: true}
			b.wrap, b.fatal = f.wrap, f.fatal
			b.open()
			do := prepare(b)
			before := b.shard.Stats()
			f.arm(full, 0)
			if err := do(); queue.CodeOf(err) != queue.CodeDiskFull {
				t.Fatalf("on a full disk: %v, want %s", err, queue.CodeDiskFull)
			}
			b.shard.SetFull(false)
			must(t, b.shard.Audit())
			after := b.shard.Stats()
			if after.SubmissionsOpen != before.SubmissionsOpen || after.RulesActive != before.RulesActive || after.Schedules != before.Schedules || after.BulkOperationsRunning != before.BulkOperationsRunning ||
				after.DeadLetters != before.DeadLetters || after.Outgoing != before.Outgoing {
				t.Errorf("a failed commit left\n%+v, want\n%+v", after, before)
			}
			must(t, do())
			must(t, b.shard.Audit())
			if got := b.shard.Stats(); got.CommitsTotal == after.CommitsTotal {
				t.Error("the second try wrote nothing")
			}
		})
	}
}

// onlyError is the error of a call that also says whether there is more to do.
func onlyError(_ bool, err error) error { return err }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// setting changes a queue's settings.
func (b *box) setting(change func(s *queue.Settings)) {
	b.t.Helper()
	change(&b.settings)
	must(b.t, b.putSettings(b.settings))
}

// fatal fails a chunk for good.
func fatal(b *box, r queue.Reservation) error {
	results, err := b.shard.Fail(ctx, []queue.FailItem{{Token: r.Token, Error: "no", Fatal: true}}, nil)
	if err != nil {
		_, released := b.shard.Release(ctx, []queue.ReleaseItem{{Token: r.Token}}, nil) // so that the next try finds it
		return errors.Join(err, released)
	}
	return outcome(results)
}

// outcome is an error unless all went well.
func outcome(results []queue.Result) error {
	if i := slices.IndexFunc(results, func(r queue.Result) bool { return r.Outcome != queue.OutcomeOK }); i >= 0 {
		return errors.New(results[i].Outcome.String())
	}
	return nil
}
