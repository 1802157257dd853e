package simtest

import (
	"bytes"
	"context"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// strayed is a box in which a completion of chunk 1 of 3 was refused when its output was on the disk. Chunk 0 is done, with an output.
type strayed struct {
	*box
	faults *faults
	id     queue.SubmissionID
	tokens []queue.Token
}

func openStrayed(t *testing.T, settings queue.Settings) *strayed {
	s := &strayed{box: newBox(t, settings), faults: &faults{spare: true}}
	s.opBytes = -1 // else an output is in the op of its completion, and cannot go astray
	s.wrap, s.fatal = s.faults.wrap, s.faults.fatal
	s.open()
	s.id = mustInsert(t, s.box, prefixed(3)).ID
	s.tokens = make([]queue.Token, 3)
	for _, r := range mustReserve(t, s.box, "OldestFirst", 3) {
		s.tokens[r.Token.Index] = r.Token
	}
	s.complete(s.tokens[0], []byte("of chunk 0"))
	s.faults.arm(full, 0)
	if _, err := s.shard.Complete(ctx, []queue.CompleteItem{{Token: s.tokens[1], Output: []byte("stray")}}, nil); queue.CodeOf(err) != queue.CodeDiskFull {
		t.Fatalf("a completion whose commit fails: got %v, want %s", err, queue.CodeDiskFull)
	}
	s.shard.SetFull(false)
	return s
}

func (s *strayed) complete(token queue.Token, output []byte) {
	s.t.Helper()
	got, err := s.shard.Complete(ctx, []queue.CompleteItem{{Token: token, Output: output}}, nil)
	if err != nil || got[0].Outcome != queue.OutcomeOK {
		s.t.Fatalf("complete chunk %d: got %+v %v, want ok", token.Index, got, err)
	}
}

// want compares the outputs, as the list of outputs and as single chunks have them. nil: the chunk has none.
func (s *strayed) want(when string, want ...[]byte) {
	s.t.Helper()
	got := make([][]byte, len(want))
	err := s.shard.Submissions.Outputs(ctx, s.id, func(index uint32, output []byte) error {
		got[index] = output
		return nil
	})
	for i := range want {
		chunk, chunkErr := s.shard.Submissions.Chunk(ctx, s.id, uint32(i))
		if err != nil || chunkErr != nil || !bytes.Equal(got[i], want[i]) || (got[i] == nil) != (want[i] == nil) || !bytes.Equal(chunk.Output, want[i]) || (chunk.Output == nil) != (want[i] == nil) {
			s.t.Errorf("%s: chunk %d has the output %q in the list and %q by itself (%v %v), want %q", when, i, got[i], chunk.Output, err, chunkErr, want[i])
		}
	}
}

// kill goes on with the files as they are on the disk at this moment.
func (s *strayed) kill() {
	s.t.Helper()
	left := s.t.TempDir()
	s.copyFiles("store.db", left)
	s.copyFiles("journal.db", left)
	s.close()
	s.dir = left
	s.open()
}

// settleOutputs fills the log of outputs so that it is settled: what is trusted leaves it.
func (s *strayed) settleOutputs() {
	s.t.Helper()
	big := mustInsert(s.t, s.box, prefixed(17))
	for _, r := range mustReserve(s.t, s.box, "NewestFirst", 17) {
		if r.Token.Submission != big.ID {
			s.t.Fatalf("reserved %+v, want chunks of %s", r.Token, big.ID)
		}
		s.complete(r.Token, make([]byte, 1<<20))
	}
	if err := s.store.SettleOutputs(ctx); err != nil {
		s.t.Fatal(err)
	}
}

// TestStrayOutput: an output is shown only if it came with the completion that was accepted. A completion that was refused when its
// output was written leaves it on the disk; when the chunk is completed later, without one, it has none: at once, after a kill, a
// settling of the log, a checkpoint, and all of them.
func TestStrayOutput(t *testing.T) {
	t.Parallel()
	of0 := []byte("of chunk 0")
	checkpoint := func(s *strayed) {
		if err := s.shard.Checkpoint(); err != nil {
			s.t.Fatal(err)
		}
	}
	for name, between := range map[string][]func(*strayed){
		"at once":                       nil,
		"killed":                        {(*strayed).kill},
		"checkpointed, killed":          {checkpoint, (*strayed).kill},
		"settled":                       {(*strayed).settleOutputs},
		"settled, killed":               {(*strayed).settleOutputs, (*strayed).kill},
		"settled, killed, twice":        {(*strayed).settleOutputs, (*strayed).kill, (*strayed).settleOutputs, (*strayed).kill},
		"settled, checkpointed, killed": {(*strayed).settleOutputs, checkpoint, (*strayed).kill},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openStrayed(t, relaxed())
			for _, step := range between {
				step(s)
			}
			s.want("before", of0, nil, nil)
			s.complete(s.tokens[1], nil)
			s.want("completed without an output", of0, nil, nil)
			s.kill()
			s.want("completed, killed", of0, nil, nil)
			s.settleOutputs()
			s.complete(s.tokens[2], []byte("of chunk 2"))
			checkpoint(s)
			s.want("ended", of0, nil, []byte("of chunk 2"))
			s.kill()
			s.want("ended, killed", of0, nil, []byte("of chunk 2"))
		})
	}
}

// TestStrayOutputIsReplaced: a completion with an output of its own shows that one, also when the stray one stayed in the log behind
// a settling.
func TestStrayOutputIsReplaced(t *testing.T) {
	t.Parallel()
	s := openStrayed(t, relaxed())
	s.settleOutputs()
	s.complete(s.tokens[1], []byte("of chunk 1"))
	s.want("completed", []byte("of chunk 0"), []byte("of chunk 1"), nil)
	s.settleOutputs()
	s.want("settled", []byte("of chunk 0"), []byte("of chunk 1"), nil)
	s.kill()
	s.want("killed", []byte("of chunk 0"), []byte("of chunk 1"), nil)
}

// TestStrayOutputOfARedrivenChunk: the chunk dies, its submission ends and leaves memory, the server is killed, the chunk is redriven
// and completed without an output.
func TestStrayOutputOfARedrivenChunk(t *testing.T) {
	t.Parallel()
	settings := relaxed()
	settings.OnExhausted = queue.DeadLetter
	for name, checkpoints := range map[string]bool{"checkpointed": true, "not checkpointed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openStrayed(t, settings)
			if got, err := s.shard.Fail(ctx, []queue.FailItem{{Token: s.tokens[1], Fatal: true}}, nil); err != nil || got[0].Outcome != queue.OutcomeOK {
				t.Fatalf("fail: got %+v %v, want ok", got, err)
			}
			s.complete(s.tokens[2], nil)
			s.settleOutputs()
			if checkpoints {
				if err := s.shard.Checkpoint(); err != nil {
					t.Fatal(err)
				}
			}
			s.kill()
			if sub, err := s.shard.Submissions.Get(ctx, s.id); err != nil || sub.State != queue.CompletedWithDead {
				t.Fatalf("got %+v %v, want it completed_with_dead", sub, err)
			}
			if n, err := s.shard.DeadLetters.Redrive(ctx, s.id, []uint32{1}); n != 1 || err != nil {
				t.Fatalf("redrive: got %d %v, want 1", n, err)
			}
			again := mustReserve(t, s.box, "OldestFirst", 1)
			if len(again) != 1 || again[0].Token.Submission != s.id {
				t.Fatalf("reserved %+v, want chunk 1 of %s", again, s.id)
			}
			s.complete(again[0].Token, nil)
			s.want("redriven and done", []byte("of chunk 0"), nil, nil)
			s.kill()
			s.want("killed", []byte("of chunk 0"), nil, nil)
		})
	}
}

// TestStrayOutputCannotBeWithdrawn: a completion without an output that cannot take the stray one away is refused, and may be repeated.
func TestStrayOutputCannotBeWithdrawn(t *testing.T) {
	t.Parallel()
	s := openStrayed(t, relaxed())
	given, up := context.WithCancel(ctx)
	up()
	if got, err := s.shard.Complete(given, []queue.CompleteItem{{Token: s.tokens[1]}}, nil); err == nil {
		t.Fatalf("complete when the store cannot be written: got %+v, want an error", got)
	}
	if chunk, err := s.shard.Submissions.Chunk(ctx, s.id, 1); err != nil || chunk.State != queue.ChunkReserved {
		t.Errorf("after a refused completion: got %+v %v, want the chunk reserved", chunk, err)
	}
	s.complete(s.tokens[1], nil)
	s.want("completed", []byte("of chunk 0"), nil, nil)
}
