package shard

import (
	"context"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// A consumer with a token of a later life of the queue must not drop the work: the call is refused, and has to be sent
// again to the server that has the queue. A forged token, or one of a deleted queue with the same number, is unknown.
func TestTokenOfALaterLife(t *testing.T) {
	t.Parallel()
	withShard(t, t.TempDir(), func(s *Shard) {
		ctx := context.Background()
		n := queue.NewSubmission{Chunks: queue.Chunks{Count: 5, Prefix: "p/"}}
		sub, _, err := s.Insert(ctx, &n)
		if err != nil {
			t.Fatal(err)
		}
		token := queue.Token{Submission: sub.ID, Index: 1, Epoch: s.m.Epoch + 1, Sequence: 7}
		token.MAC = s.options.Key.MAC(&token)
		ask := func(token queue.Token) (answers map[string]error, outcomes []queue.Outcome) {
			answers = map[string]error{}
			note := func(call string, results []queue.Result, err error) {
				answers[call] = err
				for i := range results {
					outcomes = append(outcomes, results[i].Outcome)
				}
			}
			results, err := s.Complete(ctx, []queue.CompleteItem{{Token: token}}, nil)
			note("complete", results, err)
			results, err = s.Fail(ctx, []queue.FailItem{{Token: token}}, nil)
			note("fail", results, err)
			results, err = s.Extend(ctx, []queue.ExtendItem{{Token: token}}, nil)
			note("extend", results, err)
			results, err = s.Release(ctx, []queue.ReleaseItem{{Token: token}}, nil)
			note("release", results, err)
			return answers, outcomes
		}
		answers, _ := ask(token)
		for call, err := range answers {
			if queue.CodeOf(err) != queue.CodeMoved {
				t.Errorf("%s with a token of a later life = %v; want the code moved", call, err)
			}
		}
		forged, before := token, token
		forged.MAC ^= 1
		before.Submission = queue.MakeSubmissionID(lifeStart-1, 0, 0)
		before.MAC = s.options.Key.MAC(&before)
		s.options.Born = lifeStart
		for what, token := range map[string]queue.Token{"forged": forged, "of a queue before": before} {
			answers, outcomes := ask(token)
			for call, err := range answers {
				if err != nil {
					t.Errorf("%s with a token that is %s: %v", call, what, err)
				}
			}
			for _, outcome := range outcomes {
				if outcome != queue.OutcomeUnknown {
					t.Errorf("a token that is %s is %v; want unknown", what, outcome)
				}
			}
		}
	})
}
