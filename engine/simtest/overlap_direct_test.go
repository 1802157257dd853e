package simtest

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Each of these tests is one kind of overlap that the simulation meets by chance, as short as possible.

// behindGates runs a test in a bubble, with a shard behind gates that are shut.
func behindGates(t *testing.T, run func(o *overlap)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOverlap(t, 1)
		o.settings.OnExhausted = queue.DeadLetter
		o.ballast = nil
		o.start()
		defer func() {
			o.gates.throw()
			synctest.Wait()
			o.close()
		}()
		run(o)
	})
}

// freely runs calls that are not the test's subject, with the gates open.
func (o *overlap) freely(run func()) {
	shut := o.gates.throw()
	run()
	synctest.Wait()
	shut()
}

// let waits for a write to be held and lets it go on to an ending, of which its caller learns.
func (o *overlap) let(what string, end ending) {
	o.t.Helper()
	synctest.Wait()
	o.letOne(o.gates.list(), what, end)
}

// letLast is let for the write of its kind that was held last.
func (o *overlap) letLast(what string, end ending) {
	o.t.Helper()
	synctest.Wait()
	list := o.gates.list()
	slices.Reverse(list)
	o.letOne(list, what, end)
}

func (o *overlap) letOne(list []*held, what string, end ending) {
	o.t.Helper()
	for _, h := range list {
		if h.what == what {
			o.gates.drop(h)
			h.begin <- end
			close(h.answer)
			synctest.Wait()
			return
		}
	}
	o.t.Fatalf("no write %q is held, of %d", what, len(list))
}

// later is a call in a goroutine of its own.
type later struct {
	done bool
	got  []queue.Result
	err  error
}

func (o *overlap) later(run func() ([]queue.Result, error)) *later {
	l := new(later)
	go func() {
		l.got, l.err = run()
		l.done = true
	}()
	synctest.Wait()
	return l
}

func (l *later) is(t testing.TB, what string, want queue.Outcome) {
	t.Helper()
	if !l.done || l.err != nil || l.got[0].Outcome != want {
		t.Errorf("%s: answered %v, %v, %v; want %s", what, l.done, l.got, l.err, want)
	}
}

func (l *later) waits(t testing.TB, what string) {
	t.Helper()
	if l.done {
		t.Errorf("%s is answered %v, %v before anything is on the disk", what, l.got, l.err)
	}
}

// oneHeld is a submission of one chunk, and the token that holds it.
func (o *overlap) oneHeld() (held queue.Token) {
	o.freely(func() {
		mustInsert(o.t, &o.box, prefixed(1))
		held = mustReserve(o.t, &o.box, "OldestFirst", 1)[0].Token
	})
	return held
}

func (o *overlap) completeLater(held queue.Token, output []byte) *later {
	return o.later(func() ([]queue.Result, error) {
		return o.shard.Complete(ctx, []queue.CompleteItem{{Token: held, Output: output}}, nil)
	})
}

// A completion that is repeated while the first one is on its way to the disk is answered when the first one is there, at whatever stage it
// is.
//
//quern:overlapping
func TestAlreadyWaits(t *testing.T) {
	for _, test := range []struct {
		name   string
		output []byte
		held   []string // the writes in the way, in their order; the call is repeated before each
	}{{"without an output", nil, []string{"append"}}, {"with an output", []byte("x"), []string{"append"}},
		{"with a large output", make([]byte, 100_000), []string{"append"}}} {
		t.Run(test.name, func(t *testing.T) {
			behindGates(t, func(o *overlap) {
				held := o.oneHeld()
				first := o.completeLater(held, test.output)
				var repeats []*later
				for _, what := range test.held {
					repeats = append(repeats, o.completeLater(held, nil), o.later(func() ([]queue.Result, error) {
						return o.shard.Fail(ctx, []queue.FailItem{{Token: held}}, nil)
					}))
					for _, r := range append(repeats, first) {
						r.waits(o.t, "a completion before "+what)
					}
					o.let(what, succeeds)
				}
				first.is(o.t, "the completion", queue.OutcomeOK)
				for _, r := range repeats {
					r.is(o.t, "its repeat", queue.OutcomeAlready)
				}
			})
		})
	}
}

// A checkpoint that fails forgets nothing: the next one writes its rows.
func TestFailedCheckpoint(t *testing.T) {
	behindGates(t, func(o *overlap) {
		var sub queue.Submission
		checkpoint := func(end ending, want bool) {
			l := o.later(func() ([]queue.Result, error) { return nil, o.shard.Checkpoint() })
			o.let("Checkpoint", end)
			o.freely(func() {})
			if !l.done || (l.err == nil) != want {
				o.t.Fatalf("a checkpoint whose rows end so: %v; %v", end, l.err)
			}
		}
		o.freely(func() {
			sub = mustInsert(o.t, &o.box, prefixed(1))
			o.must("checkpoint", o.shard.Checkpoint())
			_, err := o.shard.Submissions.SetPriority(ctx, sub.ID, 77, nil)
			o.must("priority", err)
		})
		checkpoint(isFull, false)
		checkpoint(succeeds, true)
		o.freely(func() {
			o.close()
			o.start()
		})
		if got, err := o.shard.Submissions.Get(ctx, sub.ID); err != nil || got.Priority != 77 {
			o.t.Errorf("after a restart: priority %d, %v; want 77", got.Priority, err)
		}
	})
}

// An insert whose content is being written when the shard reloads is refused, and the next insert has content of its own.
//
//quern:overlapping
func TestReloadWhileContentIsWritten(t *testing.T) {
	behindGates(t, func(o *overlap) {
		o.freely(func() {
			o.close()
			o.opBytes = -1 // contents are written before their ops, however small they are
			o.start()
		})
		insert := func(text string, attachment []byte) *later {
			return o.later(func() ([]queue.Result, error) {
				_, _, err := o.shard.Insert(ctx, &queue.NewSubmission{Attachment: attachment, Chunks: queue.Chunks{Inline: [][]byte{[]byte(text)}, Count: 1}})
				return []queue.Result{{}}, err
			})
		}
		first := insert("first", make([]byte, 4<<20)) // an attachment that fills a commit, so that its content is in another one, later
		lost := o.later(func() ([]queue.Result, error) {
			_, _, err := o.shard.Insert(ctx, &queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Prefix: "x/"}})
			return nil, err
		})
		o.let("append", isLost)
		second := insert("second", nil)
		written := 0
		for heldWrite(o.gates.list(), "content") { // the content of the second, then the attachment and the content of the first
			o.letLast("content", succeeds)
			written++
		}
		if written == 0 {
			o.t.Error("no content was on its way when the shard reloaded: this shows nothing")
		}
		o.freely(func() {})
		if queue.CodeOf(first.err) != queue.CodeCommitFailed || queue.CodeOf(lost.err) != queue.CodeCommitFailed {
			o.t.Errorf("inserts of before the reload: %v, %v; want %s", first.err, lost.err, queue.CodeCommitFailed)
		}
		second.is(o.t, "the insert after the reload", queue.OutcomeOK)
		got := mustReserve(o.t, &o.box, "OldestFirst", 5)
		if len(got) != 1 || string(got[0].Content.Bytes) != "second" || got[0].Attachment != nil {
			o.t.Errorf("got %+v, want the content of the second insert", got)
		}
	})
}

// Dead letters of an ended submission are redriven after a checkpoint began that writes its end. The journal before the checkpoint is
// forgotten. After a crash the submission is there all the same, and open.
func TestFoldWhileLettersGo(t *testing.T) {
	behindGates(t, func(o *overlap) {
		held := o.oneHeld()
		var checkpoint *later
		o.freely(func() {
			_, err := o.shard.Fail(ctx, []queue.FailItem{{Token: held, Fatal: true}}, nil)
			o.must("fail", err)
			_, _, err = o.shard.Rules.Set(queue.Rule{Action: queue.Pause, Match: queue.RuleMatch{Entry: number("b", 9)}}, nil) // which a checkpoint writes first
			o.must("rule", err)
		})
		checkpoint = o.later(func() ([]queue.Result, error) { return nil, o.shard.Checkpoint() })
		redriven := o.later(func() ([]queue.Result, error) {
			n, err := o.shard.DeadLetters.Redrive(ctx, held.Submission, []uint32{0})
			return make([]queue.Result, n), err
		})
		o.let("append", succeeds)
		o.freely(func() {})
		if redriven.is(o.t, "the redrive", queue.OutcomeOK); !checkpoint.done || checkpoint.err != nil {
			o.t.Fatalf("the checkpoint: %v, %v", checkpoint.done, checkpoint.err)
		}
		dir := o.copyTo()
		o.freely(func() {
			o.close()
			o.dir = dir
			o.start()
		})
		if got, err := o.shard.Submissions.Get(ctx, held.Submission); err != nil || got.State != queue.Open || got.Ready != 1 {
			o.t.Errorf("after the crash: %+v, %v; want it open with a ready chunk", got, err)
		}
	})
}

// No call hears that a chunk is gone before its end is on the disk; and when that write fails, the chunk is not gone.
//
//quern:overlapping
func TestGoneWaits(t *testing.T) {
	calls := map[string]func(s *shard.Shard, held queue.Token) ([]queue.Result, error){
		"extend": func(s *shard.Shard, held queue.Token) ([]queue.Result, error) {
			return s.Extend(context.Background(), []queue.ExtendItem{{Token: held, Timeout: queue.Time(time.Hour / time.Millisecond)}}, nil)
		},
		"release": func(s *shard.Shard, held queue.Token) ([]queue.Result, error) {
			return s.Release(context.Background(), []queue.ReleaseItem{{Token: held}}, nil)
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			behindGates(t, func(o *overlap) {
				held := o.oneHeld()
				for _, end := range []ending{isFull, succeeds} {
					cancelled := o.later(func() ([]queue.Result, error) {
						_, err := o.shard.Submissions.Cancel(ctx, held.Submission)
						return nil, err
					})
					l := o.later(func() ([]queue.Result, error) { return call(o.shard, held) })
					l.waits(o.t, name)
					o.let("append", end)
					if end == succeeds {
						l.is(o.t, name, queue.OutcomeGone)
					} else if queue.CodeOf(l.err) != queue.CodeDiskFull || queue.CodeOf(cancelled.err) != queue.CodeDiskFull {
						o.t.Errorf("%s while the end fails: %v, %v; want %s", name, l.got, l.err, queue.CodeDiskFull)
					}
				}
			})
		})
	}
}

// A priority that reaches the disk after the end of its submission is refused, and one that reaches it before is accepted.
func TestPriorityAroundAnEnd(t *testing.T) {
	for _, c := range []struct {
		name  string
		after bool
		want  queue.Code
	}{{"after", true, queue.CodeConflict}, {"before", false, ""}} {
		t.Run(c.name, func(t *testing.T) {
			behindGates(t, func(o *overlap) {
				held := o.oneHeld()
				o.later(func() ([]queue.Result, error) { // it keeps the writer busy: the next two calls share a batch
					_, err := o.shard.Submissions.SetPriority(ctx, held.Submission, 5, nil)
					return nil, err
				})
				var got queue.Submission
				prioritise := func() *later {
					return o.later(func() (_ []queue.Result, err error) {
						got, err = o.shard.Submissions.SetPriority(ctx, held.Submission, 7, nil)
						return nil, err
					})
				}
				var l *later
				if c.after {
					o.completeLater(held, nil)
					l = prioritise()
				} else {
					l = prioritise()
					o.completeLater(held, nil)
				}
				o.let("append", succeeds)
				l.waits(o.t, "the priority")
				o.let("append", succeeds)
				if !l.done || queue.CodeOf(l.err) != c.want || c.want == "" && (l.err != nil || got.Priority != 7 || got.State != queue.Completed) {
					o.t.Errorf("answered %v: priority %d, %s, %v; want the code %q", l.done, got.Priority, got.State, l.err, c.want)
				}
			})
		})
	}
}

// A late completion takes the chunk from those who wait for it only if it reaches the disk: otherwise one of them has it at once.
func TestLateCompletionThatFails(t *testing.T) {
	behindGates(t, func(o *overlap) {
		held := o.oneHeld()
		o.freely(func() {
			_, err := o.shard.Release(ctx, []queue.ReleaseItem{{Token: held}}, nil)
			o.must("release", err)
		})
		late := o.completeLater(held, nil)
		var got machine.Reserved
		waiter := o.later(func() (_ []queue.Result, err error) {
			got, err = o.shard.Reserve(ctx, machine.Request{Plan: plan(o.t, "OldestFirst"), Max: 1, Timeout: time.Hour, Wait: time.Hour}, nil)
			return nil, err
		})
		late.waits(o.t, "the completion")
		waiter.waits(o.t, "the reserve")
		o.let("append", isFull)
		if queue.CodeOf(late.err) != queue.CodeDiskFull || !waiter.done || waiter.err != nil || len(got.Reservations) != 1 {
			o.t.Errorf("the completion: %v, %v; the reserve: answered %v, %d chunks, %v; want %s, and the chunk", late.got, late.err, waiter.done, len(got.Reservations), waiter.err, queue.CodeDiskFull)
		}
	})
}
