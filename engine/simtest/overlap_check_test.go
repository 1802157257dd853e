package simtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// This file compares answers with the disk.

// refresh drops tokens that hold nothing any more on the disk, and checks that the disk has nothing that was refused.
func (o *overlap) refresh() {
	maps.DeleteFunc(o.holding, func(chunk queue.ChunkID, t *token) bool {
		x := o.disk.byID[chunk.Submission]
		c := &x.chunks[chunk.Index]
		return x.state != queue.Open || c.state != queue.ChunkReady || c.returns > t.returns
	})
	for _, a := range o.asked {
		if a.refused && o.disk.byGroup[a.n.Group] != nil {
			o.fail("insert %d was refused, and is on the disk", a.number)
		}
	}
}

// answered says that the caller of every write on the disk has its answer, so that the shard's state is that of the disk. At the end
// several writes go through in one step, and an answer to a caller may be from between two.
func (o *overlap) answered() bool {
	return !o.ending && !o.gates.reloading() && !slices.ContainsFunc(o.gates.list(), func(h *held) bool { return h.what == "append" && h.written })
}

// erred is an answer without a result; unexpected errors end the simulation.
func (o *overlap) erred(err error) string {
	if err == nil {
		return "ok"
	}
	if errors.Is(err, context.Canceled) {
		return "cancelled"
	}
	switch code := queue.CodeOf(err); code {
	case queue.CodeCommitFailed, queue.CodeDiskFull, queue.CodeUnavailable, queue.CodeConflict, queue.CodeUnknownRule, queue.CodeOverloaded, queue.CodeUnknownSubmission:
		return string(code)
	}
	if errors.Is(err, journal.ErrUnknown) {
		return "internal: " + err.Error()
	}
	o.fail("an unexpected error: %v", err)
	return ""
}

// certain says that the answer denies any effect.
func certain(err error) bool {
	code := queue.CodeOf(err)
	return code == queue.CodeDiskFull || code == queue.CodeUnavailable
}

func (o *overlap) inserted(a *asking, sub *queue.Submission, again bool, err error) string {
	a.open--
	x := o.disk.byGroup[a.n.Group]
	if err != nil {
		a.maybe = a.maybe || !certain(err)
		a.refused = !a.maybe && a.open == 0
		return o.erred(err)
	}
	a.maybe = true
	switch {
	case x == nil:
		o.fail("insert %d is answered with %s, and is not on the disk", a.number, sub.ID)
	case x.ID != sub.ID || x.Chunks != sub.Chunks:
		o.fail("insert %d is answered with %s of %d chunks, on the disk it is %s of %d", a.number, sub.ID, sub.Chunks, x.ID, x.Chunks)
	}
	return fmt.Sprintf("%s, again %v", sub.ID, again)
}

func (o *overlap) reserved(q *machine.Request, list []queue.Reservation, limited bool, err error) string {
	if err != nil {
		if len(list) > 0 {
			o.fail("a reserve that failed gives %d reservations", len(list))
		}
		return o.erred(err)
	}
	var text []string
	for i := range list {
		t := o.took(q, &list[i])
		if n := o.inFlightWith(t); limited && n > overlapLimit {
			o.fail("%d chunks of a=%d are held, the limit is %d", n, t.value, overlapLimit)
		}
		text = append(text, naming{token: t}.String())
	}
	return fmt.Sprint(text)
}

// inFlightWith is how many chunks of its value were held when a token was handed out, that one included. Answers of the same moment come
// in any order: those with a later token do not count.
func (o *overlap) inFlightWith(t *token) (n int) {
	for _, other := range o.holding {
		if other.value == t.value && (other.Epoch < t.Epoch || other.Epoch == t.Epoch && other.Sequence <= t.Sequence) {
			n++
		}
	}
	return n
}

// took checks one reservation and notes it.
func (o *overlap) took(q *machine.Request, res *queue.Reservation) *token {
	chunk := chunkOf(&res.Token)
	x := o.disk.byID[chunk.Submission]
	if x == nil {
		o.fail("chunk %s is handed out, its submission is not on the disk", chunk)
	}
	c := &x.chunks[chunk.Index]
	if o.answered() && (x.state != queue.Open || c.state != queue.ChunkReady) {
		o.fail("chunk %s is handed out; on the disk it is %s in a submission that is %s", chunk, c.state, x.state)
	}
	if other := o.holding[chunk]; other != nil {
		o.fail("chunk %s is handed out under %d while %d holds it", chunk, res.Token.Sequence, other.Sequence)
	}
	for _, seen := range o.rules {
		if v, _ := res.Meta.Find(seen.rule.Match.Entry.Key); seen.inForce && v == seen.rule.Match.Entry.Value {
			o.fail("chunk %s is handed out, rule %d covers it", chunk, seen.rule.ID)
		}
	}
	o.checkContent(res)
	v, _ := res.Meta.Find("a")
	t := &token{Token: res.Token, value: v.Int(), returns: c.returns, deadline: res.Deadline, life: o.life, consumer: q.Consumer}
	if before := o.byKey[keyOf(&res.Token)]; before != nil {
		o.fail("token %d of epoch %d is given twice", res.Token.Sequence, res.Token.Epoch)
	}
	for _, earlier := range o.tokens {
		earlier.replaced = earlier.replaced || chunkOf(&earlier.Token) == chunk
	}
	o.byKey[keyOf(&res.Token)] = t
	o.tokens = append(o.tokens, t)
	o.holding[chunk] = t
	return t
}

func (o *overlap) checkContent(res *queue.Reservation) {
	x := o.disk.byID[res.Token.Submission]
	var number int
	fmt.Sscan(x.Group, &number)
	n := &o.asked[number].n
	want := fmt.Appendf(nil, "%s%d", n.Chunks.Prefix, res.Token.Index)
	if len(n.Chunks.Inline) > 0 {
		want = n.Chunks.Inline[res.Token.Index]
	}
	if !bytes.Equal(res.Content.Bytes, want) || !bytes.Equal(res.Attachment, n.Attachment) {
		o.fail("chunk %s/%d carries %q and %q, want %q and %q", res.Token.Submission, res.Token.Index, res.Content.Bytes, res.Attachment, want, n.Attachment)
	}
}

// result checks one outcome of a call about tokens; did says whether the disk has the call's effect.
func (o *overlap) result(what string, n naming, got queue.Result, did bool) {
	n.calls--
	key, chunk := keyOf(&n.Token), chunkOf(&n.Token)
	x := o.disk.byID[chunk.Submission]
	c := &x.chunks[chunk.Index]
	done := o.disk.completed[key] == chunk
	returned := o.disk.returned[key] == chunk
	undisturbed := n.strict && !n.disturbed && n.life == o.life
	switch got.Outcome {
	case queue.OutcomeOK:
		if undisturbed && !did {
			o.fail("%s %s is answered ok, and is not on the disk", what, n)
		}
	case queue.OutcomeAlready:
		if what != "release" && !done && !returned {
			o.fail("%s %s is answered already, and nothing of it is on the disk", what, n)
		}
	case queue.OutcomeGone:
		if !n.gone && x.state == queue.Open && c.state == queue.ChunkReady {
			o.fail("%s %s is answered gone; on the disk the chunk is ready in an open submission", what, n)
		}
	case queue.OutcomeLost:
		if undisturbed && !n.replaced && x.state == queue.Open && c.state == queue.ChunkReady && c.returns == n.returns && !n.busy() {
			o.fail("%s %s is answered lost; it held the chunk", what, n)
		}
	default:
		o.fail("%s %s is answered %s", what, n, got.Outcome)
	}
}

// busy says that another call may have had the chunk's end on its way to the disk.
func (n naming) busy() bool { return n.calls > 0 || n.raced }

func (o *overlap) completed(list []completing, got []queue.Result, err error) string {
	if err != nil {
		for _, x := range list {
			x.calls--
			if certain(err) && x.strict && x.calls == 0 && !x.raced && !x.acceptedOnce && o.disk.completed[keyOf(&x.Token)] == chunkOf(&x.Token) {
				o.fail("complete %s is refused for certain (%v), and is on the disk", x, err)
			}
			x.raced = true
		}
		return o.erred(err)
	}
	text := make([]string, len(got))
	for i, x := range list {
		chunk := chunkOf(&x.Token)
		is := o.disk.completed[keyOf(&x.Token)] == chunk
		if got[i].Outcome == queue.OutcomeOK {
			if !is {
				o.fail("complete %s is answered ok, and is not on the disk", x)
			}
			if x.acceptedOnce {
				o.fail("complete %s is answered ok twice", x)
			}
			x.acceptedOnce, x.accepted = true, x.output
		}
		o.result("complete", x.naming, got[i], is)
		text[i] = got[i].Outcome.String()
	}
	return fmt.Sprint(text)
}

func (o *overlap) failedSome(list []naming, got []queue.Result, err error) string {
	if err != nil {
		for _, n := range list {
			n.calls--
			n.raced = true
		}
		return o.erred(err)
	}
	text := make([]string, len(got))
	for i, n := range list {
		o.result("fail", n, got[i], o.disk.returned[keyOf(&n.Token)] == chunkOf(&n.Token))
		text[i] = got[i].Outcome.String()
	}
	return fmt.Sprint(text)
}

func (o *overlap) extended(n naming, got []queue.Result, err error) string {
	if err != nil {
		n.calls--
		return o.erred(err)
	}
	chunk := chunkOf(&n.Token)
	if got[0].Outcome == queue.OutcomeOK {
		if other := o.holding[chunk]; other != nil && other != n.token {
			o.fail("extend %s is answered ok, %d holds the chunk", n, other.Sequence)
		}
		x := o.disk.byID[chunk.Submission]
		c := &x.chunks[chunk.Index]
		if o.holding[chunk] == nil && x.state == queue.Open && c.state == queue.ChunkReady {
			n.returns, n.disturbed, n.life, n.consumer = c.returns, false, o.life, "w0"
			n.raced = true
			o.holding[chunk] = n.token
		}
		n.deadline = got[0].Deadline
	}
	o.result("extend", n, got[0], true)
	return got[0].Outcome.String()
}

func (o *overlap) released(n naming, got []queue.Result, err error) string {
	if err != nil {
		n.calls--
		return o.erred(err)
	}
	chunk := chunkOf(&n.Token)
	if got[0].Outcome == queue.OutcomeOK && o.holding[chunk] == n.token {
		delete(o.holding, chunk)
	}
	n.raced = true
	o.result("release", n, got[0], true)
	return got[0].Outcome.String()
}

// look reads a submission and its chunks: they agree with the disk, unless a write is on it whose caller does not know it yet.
func (o *overlap) look() {
	o.note("look")
	if o.answered() {
		o.compare(&o.box)
	}
}
