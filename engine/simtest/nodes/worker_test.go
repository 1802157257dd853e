package nodes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// worker is an outsider: it inserts, reserves and completes, at the node that it believes to be the owner.
type worker struct {
	w    *world
	name string
	r    *rand.Rand
	net  *network
	at   *node   // the node that it asks
	held []*hold // that it works on
	owed []*hold // completions whose outcome it does not know: it sends them again
	keys int
}

// call makes a call at a node. The answer may come late, or never; then the outcome is unknown.
func call[T any](x *worker, do func(ctx context.Context, l *life) (T, error)) (got T, err error) {
	n := x.at
	got, err = send(context.Background(), x.net, errAnswer, func() (got T, err error) {
		l, leave, err := n.enter()
		if err != nil {
			return got, err
		}
		defer leave()
		n.gate() // it waits in the socket of a process that stands still
		if got, err = do(l.ctx, l); closed(l.dead) {
			return got, errKilled
		}
		n.gate()
		return got, err
	})
	switch code := queue.CodeOf(err); {
	case errors.Is(err, errKilled):
		err = errAnswer
	case code != "":
		x.w.tally("answer " + string(code))
	}
	if err != nil {
		x.at = x.w.nodes[x.r.IntN(len(x.w.nodes))]
	}
	return got, err
}

// run works until there is nothing to be done any more.
func (x *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		switch k := x.r.IntN(100); {
		case len(x.owed) > 0 && k < 50:
			x.complete(x.owed[0])
		case k < 8 && !closed(x.w.calm):
			x.insert()
		case len(x.held) < 3 && k < 50:
			x.reserve()
		case len(x.held) > 0:
			x.finish(x.held[x.r.IntN(len(x.held))])
		}
		wait(ctx.Done(), time.Duration(x.r.Int64N(int64(400*time.Millisecond))))
	}
}

func (x *worker) insert() {
	n := queue.NewSubmission{Chunks: queue.Chunks{Count: uint32(1 + x.r.IntN(5))},
		Meta: queue.Meta{{Key: "a", Value: queue.IntValue(int64(x.r.IntN(4)))}}}
	if x.r.IntN(2) == 0 {
		for i := range n.Chunks.Count {
			n.Chunks.Inline = append(n.Chunks.Inline, contentOf(&n, i))
		}
	} else {
		n.Chunks.Prefix = "p/"
	}
	if x.keys++; x.r.IntN(3) > 0 {
		n.IdempotencyKey = fmt.Sprintf("%s/%d", x.name, x.keys)
	}
	x.w.inserting.Add(1)
	defer x.w.inserting.Add(-1)
	for try := range 12 { // with a key it can be repeated
		_, err := call(x, func(ctx context.Context, l *life) (none struct{}, err error) {
			copied := n
			sub, _, err := l.shard.Insert(ctx, &copied)
			if err == nil {
				x.w.book.insert(l, sub.ID, int(n.Chunks.Count), n.IdempotencyKey)
			}
			return none, err
		})
		switch {
		case err == nil:
			return
		case queue.CodeOf(err) == queue.CodeUnknownSubmission:
			x.w.fail("%s: an insert with the key %s: %v", x.name, n.IdempotencyKey, err)
		case n.IdempotencyKey == "":
			return
		}
		wait(x.w.calm, time.Duration(try)*200*time.Millisecond)
		wait(nil, time.Duration(x.r.Int64N(int64(100*time.Millisecond))))
	}
}

// contentOf is the content of a chunk. It names its submission.
func contentOf(n *queue.NewSubmission, index uint32) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%d of %v;", index, n.Meta[0].Value), 8)
}

const mostHeld = 2 // chunks of a value in flight, where there is a limit

func (x *worker) reserve() {
	w, sent, timeout := x.w, time.Now(), 3*time.Second+time.Duration(x.r.Int64N(int64(5*time.Second)))
	q := machine.Request{Plan: w.plans[x.r.IntN(len(w.plans))], Max: 1 + x.r.IntN(3), Consumer: x.name, Timeout: timeout}
	if x.r.IntN(2) == 0 && !w.abrupt {
		q.Wait = time.Duration(x.r.Int64N(int64(3 * time.Second)))
	}
	got, err := call(x, func(ctx context.Context, l *life) ([]*hold, error) {
		answer, err := l.shard.Reserve(ctx, q, nil)
		if err != nil || len(answer.Reservations) == 0 {
			return nil, err
		}
		for i := range answer.Reservations {
			x.look(l, &answer.Reservations[i])
		}
		return w.book.reserved(l, x, sent, timeout, w.limit, answer.Reservations), nil
	})
	if err == nil {
		x.held = append(x.held, got...)
	}
}

// look compares the bytes of a chunk with those of the insert.
func (x *worker) look(l *life, r *queue.Reservation) {
	n := queue.NewSubmission{Meta: r.Meta}
	if !r.Content.IsKey && !bytes.Equal(r.Content.Bytes, contentOf(&n, r.Token.Index)) {
		x.w.fail("%s hands out chunk %s/%d with the content %.40q", l, r.Token.Submission, r.Token.Index, r.Content.Bytes)
	}
}

// finish does one thing with a chunk that it holds.
func (x *worker) finish(h *hold) {
	switch k := x.r.IntN(100); {
	case k < 25:
		x.extend(h)
	case k < 32:
		x.drop(h)
		x.result(h, func(ctx context.Context, l *life) ([]queue.Result, error) {
			return l.shard.Release(ctx, []queue.ReleaseItem{{Token: h.token}}, nil)
		})
	case k < 40:
		x.drop(h)
		x.result(h, func(ctx context.Context, l *life) ([]queue.Result, error) {
			return l.shard.Fail(ctx, []queue.FailItem{{Token: h.token, Error: "failed"}}, nil)
		})
	default:
		x.drop(h)
		x.owed = append(x.owed, h)
		x.complete(h)
	}
}

// drop ends the work on a chunk.
func (x *worker) drop(h *hold) {
	x.w.book.finish(h)
	x.held = slices.DeleteFunc(x.held, func(other *hold) bool { return other == h })
}

// result makes a call about one token, which is genuine: it is never unknown.
func (x *worker) result(h *hold, do func(ctx context.Context, l *life) ([]queue.Result, error)) (r queue.Result, err error) {
	var by *life
	results, err := call(x, func(ctx context.Context, l *life) ([]queue.Result, error) {
		by = l
		return do(ctx, l)
	})
	if err != nil {
		return r, err
	}
	if r = results[0]; r.Outcome == queue.OutcomeUnknown && !x.w.book.lostByDatabase(h.chunk.Submission) {
		x.w.fail("%s says %s of %v under %s, which was acknowledged", by, r.Code, h.chunk, outputOf(&h.token))
	}
	return r, nil
}

func (x *worker) extend(h *hold) {
	sent, timeout := time.Now(), 2*time.Second+time.Duration(x.r.Int64N(int64(6*time.Second)))
	x.w.book.asked(h, sent, timeout)
	r, err := x.result(h, func(ctx context.Context, l *life) ([]queue.Result, error) {
		results, err := l.shard.Extend(ctx, []queue.ExtendItem{{Token: h.token, Timeout: queue.Time(timeout.Milliseconds()), Consumer: x.name}}, nil)
		if err == nil && results[0].Outcome == queue.OutcomeOK {
			x.w.book.extended(l, h, sent, timeout)
		}
		return results, err
	})
	if err == nil && r.Outcome != queue.OutcomeOK {
		x.drop(h)
	}
}

// complete sends a completion, again if need be, until its outcome is known.
func (x *worker) complete(h *hold) {
	r, err := x.result(h, func(ctx context.Context, l *life) ([]queue.Result, error) {
		results, err := l.shard.Complete(ctx, []queue.CompleteItem{{Token: h.token, Output: []byte(outputOf(&h.token))}}, nil)
		if err == nil && (results[0].Outcome == queue.OutcomeOK || results[0].Outcome == queue.OutcomeAlready) {
			x.w.book.completed(l, h)
		}
		return results, err
	})
	if err != nil {
		x.owed = append(slices.DeleteFunc(x.owed, func(other *hold) bool { return other == h }), h)
		return
	}
	x.owed = slices.DeleteFunc(x.owed, func(other *hold) bool { return other == h })
	x.w.tally("complete " + r.Outcome.String())
}
