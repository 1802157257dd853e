package simtest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// refused is a box in which the commit of a completion with an output failed, for chunk 1 of 3. Chunk 0 is done, with an output.
type refused struct {
	*box
	faults *faults
	id     queue.SubmissionID
	tokens []queue.Token
}

func openRefused(t *testing.T, settings queue.Settings, how fault) *refused {
	s := &refused{box: newBox(t, settings), faults: &faults{spare: true}}
	s.wrap, s.fatal = s.faults.wrap, s.faults.fatal
	s.open()
	s.id = mustInsert(t, s.box, prefixed(3)).ID
	s.tokens = make([]queue.Token, 3)
	for _, r := range mustReserve(t, s.box, "OldestFirst", 3) {
		s.tokens[r.Token.Index] = r.Token
	}
	s.complete(s.tokens[0], []byte("of chunk 0"))
	s.faults.arm(how, 0)
	if _, err := s.shard.Complete(ctx, []queue.CompleteItem{{Token: s.tokens[1], Output: []byte("stray")}}, nil); err == nil {
		t.Fatalf("a completion whose commit fails: got no error")
	}
	s.shard.SetFull(false)
	return s
}

func (s *refused) complete(token queue.Token, output []byte) {
	s.t.Helper()
	got, err := s.shard.Complete(ctx, []queue.CompleteItem{{Token: token, Output: output}}, nil)
	if err != nil || got[0].Outcome != queue.OutcomeOK {
		s.t.Fatalf("complete chunk %d: got %+v %v, want ok", token.Index, got, err)
	}
}

// want compares the outputs, as the list of outputs and as single chunks have them. nil: the chunk has none.
func (s *refused) want(when string, want ...[]byte) {
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
func (s *refused) kill() {
	s.t.Helper()
	left := s.t.TempDir()
	s.copyFiles("store.db", left)
	s.copyFiles("journal.db", left)
	s.close()
	s.dir = left
	s.open()
}

// TestOutputOfARefusedCompletion: an output is shown only if it came with the completion that was accepted. One whose commit failed leaves
// nothing: when the chunk is completed later, it has the output of that completion, or none, also after a kill, a checkpoint, and both.
func TestOutputOfARefusedCompletion(t *testing.T) {
	t.Parallel()
	of0 := []byte("of chunk 0")
	checkpoint := func(s *refused) {
		if err := s.shard.Checkpoint(); err != nil {
			s.t.Fatal(err)
		}
	}
	for name, between := range map[string][]func(*refused){
		"at once":              nil,
		"killed":               {(*refused).kill},
		"checkpointed, killed": {checkpoint, (*refused).kill},
	} {
		for _, how := range []fault{full, unknownLost} {
			for _, own := range [][]byte{nil, []byte("of chunk 1")} {
				t.Run(fmt.Sprintf("%s, fault %d, %q", name, how, own), func(t *testing.T) {
					t.Parallel()
					s := openRefused(t, relaxed(), how)
					for _, step := range between {
						step(s)
					}
					s.want("before", of0, nil, nil)
					s.complete(s.tokens[1], own)
					s.want("completed", of0, own, nil)
					s.kill()
					s.want("completed, killed", of0, own, nil)
					s.complete(s.tokens[2], []byte("of chunk 2"))
					checkpoint(s)
					s.want("ended", of0, own, []byte("of chunk 2"))
					s.kill()
					s.want("ended, killed", of0, own, []byte("of chunk 2"))
				})
			}
		}
	}
}
