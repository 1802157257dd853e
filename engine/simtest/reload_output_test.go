package simtest

import (
	"bytes"
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// heldContext holds back the first who asks it for an error: in a Complete, an output that is about to be written.
type heldContext struct {
	context.Context
	once  sync.Once
	begun chan struct{} // closed when someone asks
	hold  func()
}

func (c *heldContext) Err() error {
	c.once.Do(func() {
		close(c.begun)
		c.hold()
	})
	return c.Context.Err()
}

// closingLog tells when a journal has been closed.
type closingLog struct {
	journal.Journal
	closed func()
}

func (l *closingLog) Close() error {
	defer l.closed()
	return l.Journal.Close()
}

// TestOutputOfARefusedCompletion: a completion writes its output when another commit fails and the queue reloads. The completion is
// refused, the consumer repeats it with another output, and that one is what stays: the first output does not come to the disk after
// it and take its place.
func TestOutputOfARefusedCompletion(t *testing.T) {
	t.Parallel()
	f := &faults{spare: true}
	b := newBox(t, relaxed())
	closed, opened, completed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var closing, opening sync.Once
	b.wrap = func(inner journal.Journal) journal.Journal {
		return &closingLog{f.wrap(inner), func() { closing.Do(func() { close(closed) }) }}
	}
	b.fatal = f.fatal
	b.opBytes = -1
	b.open()
	b.opening = func() { opening.Do(func() { close(opened) }) }
	sub := mustInsert(t, b, prefixed(1))
	token := mustReserve(t, b, "OldestFirst", 1)[0].Token

	slow := &heldContext{Context: ctx, begun: make(chan struct{}), hold: func() {
		<-closed // the reload has begun
		for range 100_000 {
			select {
			case <-opened: // it does not wait for this output
				<-completed
				return
			default:
				runtime.Gosched()
			}
		}
	}}
	failed := make(chan error)
	go func() {
		_, err := b.shard.Complete(slow, []queue.CompleteItem{{Token: token, Output: []byte("of the first")}}, nil)
		failed <- err
	}()
	<-slow.begun
	f.arm(unknownLost, 0)
	if _, _, err := b.shard.Insert(ctx, &queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Prefix: "lost/"}}); queue.CodeOf(err) != queue.CodeCommitFailed {
		t.Fatalf("an insert whose commit fails: got %v, want %s", err, queue.CodeCommitFailed)
	}
	results, err := b.shard.Complete(ctx, []queue.CompleteItem{{Token: token, Output: []byte("of the second")}}, nil)
	if err != nil || results[0].Outcome != queue.OutcomeOK {
		t.Fatalf("complete after the reload: %+v, %v", results, err)
	}
	close(completed)
	if err := <-failed; queue.CodeOf(err) != queue.CodeCommitFailed {
		t.Errorf("the completion that the reload cut off: got %v, want %s", err, queue.CodeCommitFailed)
	}
	chunk, err := b.shard.Submissions.Chunk(ctx, sub.ID, 0)
	if err != nil || !bytes.Equal(chunk.Output, []byte("of the second")) {
		t.Errorf("the chunk has the output %q and %v, want that of the second completion, which was answered", chunk.Output, err)
	}
}
