package engine

// Errands as bytes between nodes. Each type lists its fields once, for writing and for reading (package coding). Tokens, results and
// reservations come in thousands, so they are no JSON. Nodes of one cluster may have different versions: a node refuses bytes that begin
// with another version, and its caller sends the call again.

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/coding"
	"github.com/quern-queue/quern/engine/queue"
)

// errandVersion is the first byte of errands and their answers.
const errandVersion = 1

// The size of most items, results and reservations in an errand and its answer.
const (
	itemBytes        = 32
	resultBytes      = 4
	reservationBytes = 96
)

// appendErrand writes an errand.
func appendErrand(dst []byte, in *errand) []byte {
	f := &in.finish
	dst = slices.Grow(dst, 256+len(in.strategy)+itemBytes*(len(f.Complete)+len(f.Fail)+len(f.Extend)+len(f.Release)))
	c := coding.Coder{B: append(dst, errandVersion)}
	in.fields(&c)
	return c.B
}

// readErrand reads what appendErrand wrote. Outputs stay in b.
func readErrand(b []byte, in *errand) error { return readVersioned(b, in.fields) }

// appendErrandDone writes the answer.
func appendErrandDone(dst []byte, out *errandDone) []byte {
	n := 0
	for i := range out.took {
		n += len(out.took[i].Reservations)
	}
	f := &out.finished
	dst = slices.Grow(dst, 256+reservationBytes*n+resultBytes*(len(f.Complete)+len(f.Fail)+len(f.Extend)+len(f.Release)))
	c := coding.Coder{B: append(dst, errandVersion)}
	out.fields(&c)
	return c.B
}

// readErrandDone reads what appendErrandDone wrote. Contents and attachments stay in b.
func readErrandDone(b []byte, out *errandDone) error { return readVersioned(b, out.fields) }

func readVersioned(b []byte, fields func(*coding.Coder)) error {
	if len(b) == 0 || b[0] != errandVersion {
		return errors.New("another node of the cluster has a version that this one does not understand")
	}
	c := coding.Coder{B: b[1:], Reading: true}
	if fields(&c); !c.Whole() {
		return errors.New("what another node sent is cut short or damaged")
	}
	return nil
}

func (in *errand) fields(c *coding.Coder) {
	most := uint64(queue.MaxBatch)
	coding.Many(c, &in.finish.Complete, most, func(x *queue.CompleteItem) { tokenFields(c, &x.Token); optional(c, &x.Output) })
	coding.Many(c, &in.finish.Fail, most, func(x *queue.FailItem) {
		tokenFields(c, &x.Token)
		c.Text(&x.Error)
		c.Yes(&x.Fatal)
		c.Yes(&x.HasRetry)
		coding.Signed(c, &x.RetryAfter)
		coding.Signed(c, &x.RetryAt)
	})
	coding.Many(c, &in.finish.Extend, most, func(x *queue.ExtendItem) {
		tokenFields(c, &x.Token)
		coding.Signed(c, &x.Timeout)
		c.Text(&x.Consumer)
		c.Yes(&x.Reported.HasProgress)
		progress := math.Float64bits(x.Reported.Progress)
		if c.Fixed(&progress); c.Reading {
			x.Reported.Progress = math.Float64frombits(progress)
		}
		c.Text(&x.Reported.Note)
	})
	coding.Many(c, &in.finish.Release, most, func(x *queue.ReleaseItem) { tokenFields(c, &x.Token); coding.Signed(c, &x.Delay) })
	c.Text(&in.strategy)
	c.Text(&in.named)
	c.Text(&in.consumer)
	metaFields(c, &in.context)
	coding.Signed(c, &in.timeout)
	coding.Signed(c, &in.wait)
	whole(c, &in.limited)
	coding.Many(c, &in.takes, queue.MaxQueueShards*queue.MaxQueueShards, func(t *taking) { t.fields(c) })
	coding.Many(c, &in.looks, queue.MaxQueueShards, func(n *int) { whole(c, n) })
}

func (t *taking) fields(c *coding.Coder) {
	whole(c, &t.shard)
	whole(c, &t.branch)
	whole(c, &t.most)
	whole(c, &t.answered)
	c.Yes(&t.whole)
	coding.Unsigned(c, &t.Weight)
	bound := t.Bound != nil
	if c.Yes(&bound); bound {
		if c.Reading {
			t.Bound = new(backlog.Head)
		}
		headFields(c, t.Bound)
	}
}

func (out *errandDone) fields(c *coding.Coder) {
	for _, list := range []*[]queue.Result{&out.finished.Complete, &out.finished.Fail, &out.finished.Extend, &out.finished.Release} {
		coding.Many(c, list, queue.MaxBatch, func(r *queue.Result) {
			coding.AtMost(c, &r.Outcome, queue.OutcomeRefused)
			c.Text(&r.Code)
			c.Text(&r.Detail)
			coding.Signed(c, &r.Deadline)
		})
	}
	coding.Many(c, &out.took, queue.MaxQueueShards*queue.MaxQueueShards, func(t *took) { t.fields(c) })
	coding.Many(c, &out.looked, queue.MaxQueueShards, func(l *looking) {
		headsFields(c, &l.heads)
		refusalFields(c, &l.err)
	})
}

func (t *took) fields(c *coding.Coder) {
	var last queue.Meta // chunks of one submission have the same
	coding.Many(c, &t.Reservations, queue.MaxReserve, func(r *queue.Reservation) {
		tokenFields(c, &r.Token)
		coding.Unsigned(c, &r.Attempt)
		coding.Signed(c, &r.Deadline)
		coding.Signed(c, &r.Ready)
		c.Bytes(&r.Content.Bytes)
		c.Yes(&r.Content.IsKey)
		same := slices.Equal(r.Meta, last)
		if c.Yes(&same); !same {
			metaFields(c, &r.Meta)
		} else if c.Reading {
			r.Meta = last
		}
		last = r.Meta
		coding.Signed(c, &r.Priority)
		optional(c, &r.Attachment)
		c.Text(&r.Trace)
	})
	coding.AtMost(c, &t.Reason, queue.EmptyReason(queue.EmptyReasons-1))
	coding.Signed(c, &t.RetryAfter)
	coding.Many(c, &t.Limited, queue.MaxLimited, func(s *queue.Saturated) {
		entryFields(c, &s.MetaEntry)
		coding.Unsigned(c, &s.InFlight)
		coding.Unsigned(c, &s.Limit)
	})
	headsFields(c, &t.heads)
	refusalFields(c, &t.err)
}

// tokenFields are those of a token. Its check is random bits, and so are ids, so both have their full size.
func tokenFields(c *coding.Coder, t *queue.Token) {
	id := uint64(t.Submission)
	if c.Fixed(&id); c.Reading {
		t.Submission = queue.SubmissionID(id)
	}
	coding.Unsigned(c, &t.Index)
	coding.Unsigned(c, &t.Epoch)
	coding.Unsigned(c, &t.Sequence)
	coding.Unsigned(c, &t.Slot)
	c.Fixed(&t.MAC)
}

func headsFields(c *coding.Coder, heads *[]backlog.Head) {
	coding.Many(c, heads, math.MaxUint16, func(h *backlog.Head) { headFields(c, h) })
}

func headFields(c *coding.Coder, h *backlog.Head) {
	coding.Unsigned(c, &h.Flight)
	coding.Signed(c, &h.Priority)
	coding.Unsigned(c, &h.ID)
	coding.Unsigned(c, &h.Weight)
}

func metaFields(c *coding.Coder, m *queue.Meta) {
	coding.Many(c, m, math.MaxUint16, func(e *queue.MetaEntry) { entryFields(c, e) })
}

func entryFields(c *coding.Coder, e *queue.MetaEntry) {
	c.Text(&e.Key)
	number := e.Value.IsInt()
	if c.Yes(&number); number {
		n := e.Value.Int()
		if coding.Signed(c, &n); c.Reading {
			e.Value = queue.IntValue(n)
		}
		return
	}
	text := e.Value.Text()
	if c.Text(&text); c.Reading {
		e.Value = queue.StringValue(text)
	}
}

// optional are bytes that may be nil, which differs from empty.
func optional(c *coding.Coder, b *[]byte) {
	some := *b != nil
	if c.Yes(&some); some {
		c.Bytes(b)
	}
}

// whole is a number that may be below zero.
func whole(c *coding.Coder, n *int) {
	v := int64(*n)
	if coding.Signed(c, &v); c.Reading {
		*n = int(v)
	}
}

// refusalFields are an error that is an answer: a refusal, and where the shard is. It is rare, so it is JSON.
func refusalFields(c *coding.Coder, err *error) {
	var text []byte
	if *err != nil {
		text = appendRefusal(nil, *err)
	}
	if c.Bytes(&text); c.Reading && len(text) > 0 {
		*err = readRefusal(text)
	}
}

// refusalText is the form in which an error travels that the caller can act on.
type refusalText struct {
	Refused *queue.Error
	At      *Elsewhere `json:",omitempty"` // who serves the shard by now
}

// appendRefusal writes an error. An error that is no refusal is a fault of this node: the caller learns that it has failed.
func appendRefusal(dst []byte, err error) []byte {
	said := refusalText{Refused: &queue.Error{Code: queue.CodeUnavailable,
		Message: "A node that serves a part of the queue failed: " + err.Error()}}
	if refused, is := errors.AsType[*queue.Error](err); is {
		plain := *refused
		plain.Err, said.Refused = nil, &plain
		said.At, _ = errors.AsType[*Elsewhere](err)
	}
	text, _ := json.Marshal(said)
	return append(dst, text...)
}

func readRefusal(text []byte) error {
	var said refusalText
	if err := json.Unmarshal(text, &said); err != nil || said.Refused == nil {
		return fmt.Errorf("what a node answers cannot be read: %w", err)
	}
	if said.At != nil {
		said.Refused.Err = said.At
	}
	return said.Refused
}
