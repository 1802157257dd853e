package simtest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// crowd is many consumers at one shard, watched from outside. The counts here can only be smaller than the shard's, so a
// count that exceeds a limit here exceeded it in the shard.
type crowd struct {
	*box
	t       *testing.T
	plans   []*strategy.Plan
	limit   int32
	holding sync.Map        // queue.ChunkID -> the sequence that has it, as far as its consumer knows
	inUse   [4]atomic.Int32 // chunks held per value of "a"
	done    sync.Map        // queue.ChunkID -> the sequence that completed it
	left    atomic.Int64    // chunks not completed yet
	began   time.Time       // of the history
	mu      sync.Mutex      // guards history
	history []porcupine.Operation
}

// deed is one operation on one chunk.
type deed struct {
	verb     string
	chunk    queue.ChunkID
	sequence uint64
}

func (c *crowd) since() int64 { return int64(time.Since(c.began)) }

func (c *crowd) note(client int, d deed, call int64, outcome queue.Outcome) {
	end := c.since()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, porcupine.Operation{ClientId: client, Input: d, Call: call, Output: outcome, Return: end})
}

// TestCrowd: no chunk is held twice at once, each is completed once, limits hold, and the histories of the chunks are
// linearizable, while inserts, checkpoints, ticks and readers go on beside.
//
//quern:overlapping
func TestCrowd(t *testing.T) {
	t.Parallel()
	const consumers, submissions, chunks, limit = 8, 40, 20, 3
	c := &crowd{box: openBox(t, relaxed()), t: t, limit: limit, began: time.Now()}
	c.left.Store(submissions * chunks)
	for _, text := range []string{"Random", "OldestFirst", `PreferDistinct("a", 1, NewestFirst)`, `OrElse(SelectOnly("a", 1, Random), CustomPriority)`, `Fair("a", OldestFirst)`, `Fair("$submission", Random)`, `Fair("a", OrElse(SelectOnly("a", 1, Random), Fair("$submission", time, OldestFirst)))`} {
		c.plans = append(c.plans, plan(t, fmt.Sprintf(`MaxSimultaneous("a", %d, %s)`, limit, text)))
	}
	var working, beside sync.WaitGroup
	for i := range consumers {
		working.Go(func() {
			c.consume(i, newRand(uint64(i), 77))
		})
	}
	stop := make(chan struct{})
	for _, bother := range []func(){
		func() { c.shard.Worker.Tick(); c.clock.pass(time.Millisecond) },
		func() {
			if err := c.shard.Checkpoint(); err != nil {
				t.Error(err)
			}
		},
		c.recount,
		c.read,
		c.ask,
	} {
		beside.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					bother()
				}
			}
		})
	}
	for i := range submissions {
		mustInsert(t, c.box, prefixed(chunks, number("a", i%4)))
	}
	working.Wait()
	close(stop)
	beside.Wait()
	c.checkEnd(submissions, chunks)
	c.checkHistory()
}

// consume reserves and finishes until nothing is left.
func (c *crowd) consume(client int, r *rand.Rand) {
	var old []queue.Token
	for c.left.Load() > 0 && !c.t.Failed() {
		call := c.since()
		got, err := c.shard.Reserve(ctx, machine.Request{Plan: c.plans[r.IntN(len(c.plans))], Max: 1 + r.IntN(4), Timeout: 24 * time.Hour, Wait: time.Millisecond}, nil)
		if err != nil {
			c.t.Error(err)
			return
		}
		for i := range got.Reservations {
			c.took(client, &got.Reservations[i], call)
		}
		for i := range got.Reservations {
			c.finish(client, r, got.Reservations[i].Token, valueOf(&got.Reservations[i]), true)
			old = append(old, got.Reservations[i].Token)
		}
		if len(old) > 0 && r.IntN(3) == 0 { // a stale token
			c.finish(client, r, old[r.IntN(len(old))], 0, false)
		}
	}
}

func valueOf(res *queue.Reservation) int {
	v, _ := res.Meta.Find("a")
	return int(v.Int())
}

func chunkOf(t *queue.Token) queue.ChunkID {
	return queue.ChunkID{Submission: t.Submission, Index: t.Index}
}

func (c *crowd) took(client int, res *queue.Reservation, call int64) {
	t := &res.Token
	c.note(client, deed{"reserve", chunkOf(t), t.Sequence}, call, queue.OutcomeOK)
	if other, held := c.holding.LoadOrStore(chunkOf(t), t.Sequence); held {
		c.t.Errorf("chunk %s is reserved under %d while %d has it", chunkOf(t), t.Sequence, other)
	}
	if n := c.inUse[valueOf(res)].Add(1); n > c.limit {
		c.t.Errorf("value %d: %d chunks are held, the limit is %d", valueOf(res), n, c.limit)
	}
}

// finish completes, fails or releases, sometimes twice at once. From the call on the chunk may be someone else's.
func (c *crowd) finish(client int, r *rand.Rand, t queue.Token, value int, current bool) {
	if current {
		c.holding.Delete(chunkOf(&t))
		c.inUse[value].Add(-1)
	}
	do := []func(int, queue.Token){c.complete, c.complete, c.complete, c.release}[r.IntN(4)]
	if r.IntN(4) > 0 {
		do(client, t)
		return
	}
	var twin sync.WaitGroup
	twin.Go(func() {
		do(client+100, t)
	})
	do(client, t)
	twin.Wait()
}

func (c *crowd) complete(client int, t queue.Token) {
	call := c.since()
	got, err := c.shard.Complete(ctx, []queue.CompleteItem{{Token: t, Output: fmt.Append(nil, t.Sequence)}}, nil)
	if err != nil {
		c.t.Error(err)
		return
	}
	c.note(client, deed{"complete", chunkOf(&t), t.Sequence}, call, got[0].Outcome)
	if got[0].Outcome != queue.OutcomeOK {
		return
	}
	if other, twice := c.done.LoadOrStore(chunkOf(&t), t.Sequence); twice {
		c.t.Errorf("chunk %s is completed under %d after %d", chunkOf(&t), t.Sequence, other)
	}
	c.left.Add(-1)
}

func (c *crowd) release(client int, t queue.Token) {
	call := c.since()
	got, err := c.shard.Release(ctx, []queue.ReleaseItem{{Token: t}}, nil)
	if err != nil {
		c.t.Error(err)
		return
	}
	c.note(client, deed{"release", chunkOf(&t), t.Sequence}, call, got[0].Outcome)
}

// read looks at everything, as a dashboard does: sums must be right at any moment.
func (c *crowd) read() {
	list, _, err := c.shard.Submissions.List(ctx, everything, 0, 100)
	if err != nil {
		c.t.Error(err)
	}
	for _, s := range list {
		if sum := s.Ready + s.Waiting + s.Reserved + s.Done + s.Dead + s.Skipped; sum != s.Chunks {
			c.t.Errorf("the chunks of %+v add up to %d", s, sum)
		}
		if _, _, err := c.shard.Submissions.Chunks(ctx, s.ID, nil, 0, 100); err != nil {
			c.t.Error(err)
		}
	}
	c.shard.Stats()
}

func (c *crowd) checkEnd(submissions, chunks int) {
	list, _, err := c.shard.Submissions.List(ctx, everything, 0, 1000)
	if err != nil || len(list) != submissions {
		c.t.Fatalf("list: %d submissions, %v, want %d", len(list), err, submissions)
	}
	for _, s := range list {
		if s.State != queue.Completed || s.Done != uint32(chunks) {
			c.t.Errorf("submission %s: %s, %d chunks done, want completed with %d", s.ID, s.State, s.Done, chunks)
		}
		n := 0
		err := c.shard.Submissions.Outputs(ctx, s.ID, func(index uint32, output []byte) error {
			n++
			id := queue.ChunkID{Submission: s.ID, Index: index}
			if by, _ := c.done.Load(id); fmt.Sprint(by) != string(output) {
				c.t.Errorf("the output of %s is that of %s, it was completed by %d", id, output, by)
			}
			return nil
		})
		if err != nil || n != chunks {
			c.t.Errorf("submission %s: %d outputs, %v, want %d", s.ID, n, err, chunks)
		}
	}
}

// chunkLife is the state of one chunk in the linearizability check: ready (0), held under a sequence, or done by one.
type chunkLife struct {
	done     bool
	sequence uint64
}

// lifeOf says whether a deed may have this answer in a state, and returns the next state.
func lifeOf(state chunkLife, d deed, got queue.Outcome) (bool, chunkLife) {
	mine := state.sequence == d.sequence
	switch {
	case d.verb == "reserve":
		return state == chunkLife{}, chunkLife{sequence: d.sequence}
	case state.done && mine && d.verb == "complete":
		return got == queue.OutcomeAlready || got == queue.OutcomeLost, state // lost: the shard remembers only so many
	case state.done || state.sequence != 0 && !mine:
		return got == queue.OutcomeLost, state
	case d.verb == "complete":
		return got == queue.OutcomeOK, chunkLife{true, d.sequence}
	case mine:
		return got == queue.OutcomeOK, chunkLife{}
	}
	return got == queue.OutcomeAlready, state
}

func (c *crowd) checkHistory() {
	model := porcupine.Model{
		Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
			byChunk := map[queue.ChunkID][]porcupine.Operation{}
			for _, op := range history {
				id := op.Input.(deed).chunk
				byChunk[id] = append(byChunk[id], op)
			}
			for _, part := range byChunk {
				parts = append(parts, part)
			}
			return parts
		},
		Init: func() any { return chunkLife{} },
		Step: func(state, input, output any) (bool, any) {
			return lifeOf(state.(chunkLife), input.(deed), output.(queue.Outcome))
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %v", input, output) },
	}
	for _, part := range model.Partition(c.history) {
		if result := porcupine.CheckOperationsTimeout(model, part, time.Minute); result != porcupine.Ok {
			c.t.Errorf("the history of a chunk is not linearizable (%s):", result)
			for _, op := range part {
				c.t.Logf("  %d..%d %s", op.Call, op.Return, model.DescribeOperation(op.Input, op.Output))
			}
			return
		}
	}
}
