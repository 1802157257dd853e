package diagnosis

import (
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/inspect"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

// TestSentence has a case for every kind of sentence.
func TestSentence(t *testing.T) {
	t.Parallel()
	const now = queue.Time(10_000_000_000)
	entry := func(key string, n int64) queue.MetaEntry { return queue.MetaEntry{Key: key, Value: queue.IntValue(n)} }
	seven, ap := entry("company", 7), queue.MetaEntry{Key: "region", Value: queue.StringValue("ap")}
	cause := func(chunks uint64, why inspect.BranchWhy) (c Cause) {
		c.BranchWhy, c.Held.Submissions, c.Held.Chunks = why, 1, chunks
		return c
	}
	limit := func(o queue.Obstacle, at queue.MetaEntry, inFlight, most uint32) inspect.BranchWhy {
		return inspect.BranchWhy{Obstacle: o, Limit: strategy.Limit{Key: at.Key, Max: most}, Value: at.Value, HasValue: true, InFlight: inFlight}
	}
	rule := func(o queue.Obstacle, match queue.RuleMatch, until queue.Time) inspect.BranchWhy {
		return inspect.BranchWhy{Obstacle: o, Until: until, Rule: queue.Rule{ID: 1, Match: match, Until: until}}
	}
	plain := func(o queue.Obstacle, until queue.Time) inspect.BranchWhy {
		return inspect.BranchWhy{Obstacle: o, Until: until}
	}
	of := func(causes ...Cause) (d Diagnosis) {
		d.At, d.Entry, d.Met, d.Present, d.Causes = now, seven, 1, 1, causes
		return d
	}
	held := func(d Diagnosis, n uint64, holders int, by string, since time.Duration) Diagnosis {
		d.InFlight, d.HoldsMet, d.Holders, d.Oldest.Consumer, d.Oldest.Reserved = n, n, holders, by, now.Add(-since)
		return d
	}
	with := func(d Diagnosis, change func(*Diagnosis)) Diagnosis { change(&d); return d }
	used := func(ago time.Duration) func(*Diagnosis) {
		return func(d *Diagnosis) {
			d.Used = []api.StrategyUse{{Strategy: "Random", LastUsed: now.Add(-ago).API()}}
		}
	}
	failed := uint32(17)
	ended := func(state queue.SubmissionState, dead uint32) Diagnosis {
		return Diagnosis{Submission: queue.Submission{State: state, Dead: dead}}
	}
	for _, c := range []struct {
		d    Diagnosis
		want string
	}{
		{held(of(cause(200_000_000, limit(queue.ObstacleValueLimit, seven, 1, 1)), cause(127, rule(queue.ObstaclePaused, queue.RuleMatch{Entry: ap}, 0))),
			1, 1, "crashed-worker-eu-3", 444*time.Second),
			"Held: 1 of 1 in flight, by crashed-worker-eu-3 for 7m 24s; 200 M wait; 127 are paused by region=ap."},
		{held(of(cause(1, limit(queue.ObstacleLimit, seven, 2, 2))), 2, 2, "w\u202e1", time.Hour),
			`Held: 2 of 2 in flight, by 2 consumers, the longest by "w\u202e1" for 1h; 1 waits.`},
		{with(held(of(cause(1, limit(queue.ObstacleLimit, seven, 9000, 9000))), 9000, 2, "w1", time.Hour), func(d *Diagnosis) { d.HoldsMet = 5000 }),
			"Held: 9,000 of 9,000 in flight, by at least 2 consumers; of 5,000 that were looked at, w1 holds one the longest, for 1h; 1 waits."},
		{with(held(of(cause(1, limit(queue.ObstacleLimit, seven, 9000, 9000))), 9000, 1, "w1", time.Hour), func(d *Diagnosis) { d.HoldsMet = 5000 }),
			"Held: 9,000 of 9,000 in flight; 5,000 that were looked at are held by w1, the longest for 1h; 1 waits."},
		{of(cause(12_345, limit(queue.ObstacleValueLimit, seven, 0, 0))), "Held: 12.3 k wait, as company=7 has a limit of 0."},
		{of(cause(5, limit(queue.ObstacleLimit, ap, 5, 5))), "Held: 5 wait for region=ap, which has 5 of 5 in flight."},
		{of(cause(5, limit(queue.ObstacleLimit, queue.MetaEntry{}, 0, 0))), "Held: 5 wait for a limit on a value shared with others."},
		{of(cause(5, inspect.BranchWhy{Obstacle: queue.ObstacleGrace, Until: now.Add(12 * time.Second)})),
			"Held: 5 wait for the end of the restart grace in 12s."},
		{of(cause(1, rule(queue.ObstaclePaused, queue.RuleMatch{}, now.Add(26*time.Hour)))), "Paused: 1 is paused by a rule about the queue for another 1d 2h."},
		{of(cause(2, rule(queue.ObstacleBlocked, queue.RuleMatch{Submission: 9}, 0))), "Blocked: 2 are blocked by a rule about the submission."},
		{of(cause(2, plain(queue.ObstaclePaused, 0))), "Paused: 2 are paused by a rule."},
		{of(cause(41, plain(queue.ObstacleWaiting, now.Add(12*time.Second)))), "Waiting: 41 wait for their next try, the first in 12s."},
		{of(cause(1, plain(queue.ObstacleWaiting, now))), "Waiting: 1 waits for its next try, now."},
		{of(cause(2, plain(queue.ObstacleWaiting, 0))), "Waiting: 2 wait for their next try."},
		{of(cause(9, plain(queue.ObstacleNotDue, now.Add(time.Hour)))), "Not due: 9 are due in 1h."},
		{with(of(cause(9, plain(queue.ObstacleNotDue, now.Add(time.Hour)))), func(d *Diagnosis) { d.Causes[0].Held.Submissions = 2 }),
			"Not due: 9 are due later, the first in 1h."},
		{with(of(cause(3, plain(queue.ObstacleFilter, 0))), func(d *Diagnosis) { d.Since = now.Add(-time.Hour) }),
			"Not asked for: 3 are selected by no strategy of the last hour."},
		{with(of(cause(3, plain(queue.ObstacleFilter, 0))), func(d *Diagnosis) { d.Since = now.Add(-2 * time.Minute) }),
			"Not asked for: 3 are selected by no strategy of the last 2m, which is how far back strategies are known."},
		{with(held(of(cause(3, plain(queue.NoObstacle, 0))), 4, 1, "", time.Second), used(0)),
			"Ready: 3 can be handed out; 4 in flight, by a consumer without a name, the longest for 1s."},
		{with(of(cause(1, plain(queue.NoObstacle, 0))), used(12*time.Minute)),
			"Ready: 1 can be handed out, but none has been reserved by a strategy that selects it for 12m."},
		{of(cause(216, plain(queue.ObstacleDead, 0))), "Dead: 216 are dead."},
		{held(of(cause(216, plain(queue.ObstacleDead, 0))), 1, 1, "w", 0), "In flight: 1, by w for <1s; 216 are dead."},
		{of(cause(216, plain(queue.ObstacleDead, 0)), cause(1, plain(queue.ObstacleWaiting, 0))), "Waiting: 1 waits for its next try; 216 are dead."},
		{held(of(), 3, 1, "w", time.Minute), "In flight: 3, by w, the longest for 1m; nothing else is left."},
		{with(of(), func(d *Diagnosis) { d.Met, d.Present = 0, 0 }), "Empty: no open submission has company=7."},
		{of(), "Empty: nothing is left to hand out."},
		{ended(queue.Cancelled, 0), "Empty: the submission is cancelled."},
		{with(ended(queue.Failed, 1), func(d *Diagnosis) {
			d.Submission.FailedChunk, d.Submission.Failure, d.Submission.Skipped = &failed, "no \x1b[2Jsaw", 998
		}), `Failed: chunk 17 failed the submission with the error "no \x1b[2Jsaw"; 998 other chunks are skipped.`},
		{ended(queue.Failed, 0), "Failed: the submission has failed."},
		{ended(queue.CompletedWithDead, 2), "Empty: the submission has ended, 2 chunks are dead."},
		{with(of(cause(3, plain(queue.ObstacleWaiting, 0))), func(d *Diagnosis) { d.Others.Chunks, d.Met, d.Present = 2, 1000, 100_000 }),
			"Waiting: 3 wait for their next try; 2 wait for other reasons. This is of 1,000 of 100 k submissions."},
	} {
		if got := c.d.sentence(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
