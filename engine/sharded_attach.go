package engine

import (
	"context"

	"github.com/quern-queue/quern/engine/shard/consumers"
)

// Attachment is the stream of an attached consumer.
type Attachment interface {
	Wake() <-chan struct{} // something is new
	Next() Notice
	Alive()            // the connection works
	Close(missed bool) // missed: the consumer is missed from now on
}

var _ Attachment = (*consumers.Attached)(nil)

// Attach is Consumers.Attach of a queue, or of one shard. In a queue of several shards, a consumer is attached to each.
func (x *Sharding) Attach(ctx context.Context, queueName, consumer, incarnation string) (Attachment, error) {
	work, err := x.Work(queueName)
	if err != nil {
		return nil, err
	}
	s, several := work.(*Sharded)
	if !several {
		return work.(*Queue).Consumers.Attach(ctx, consumer, incarnation)
	}
	all, refused := s.shards()
	a := &attachedTo{wake: make(chan struct{}, 1), over: make(chan struct{})}
	for _, q := range all {
		if q == nil {
			continue
		}
		stream, err := q.Consumers.Attach(ctx, consumer, incarnation)
		if err != nil {
			a.Close(false)
			return nil, err
		}
		a.add(stream)
	}
	if len(a.streams) == 0 {
		return nil, refused
	}
	return a, nil
}

// Detach is Consumers.Detach of a queue, or of one shard. From a queue of several shards a consumer leaves as a whole.
func (x *Sharding) Detach(queueName, consumer string) (released int, err error) {
	work, err := x.Work(queueName)
	if err != nil {
		return 0, err
	}
	s, several := work.(*Sharded)
	if !several {
		return work.(*Queue).Consumers.Detach(consumer)
	}
	all, _ := s.shards()
	for _, q := range all {
		if q == nil {
			continue
		}
		n, err := q.Consumers.Detach(consumer)
		if released += n; err != nil {
			return released, err
		}
	}
	return released, nil
}

// attachedTo is a consumer that is attached to several shards, as one stream. When the stream of one shard is over, it ends, and the
// consumer attaches again.
type attachedTo struct {
	streams []*Attached
	wake    chan struct{}
	over    chan struct{} // closed by Close
}

func (a *attachedTo) add(stream *Attached) {
	a.streams = append(a.streams, stream)
	go func() {
		for {
			select {
			case <-stream.Wake():
				select {
				case a.wake <- struct{}{}:
				default:
				}
			case <-a.over:
				return
			}
		}
	}()
}

func (a *attachedTo) Wake() <-chan struct{} { return a.wake }

// Next joins what is new in the shards. The sum of their epochs changes when one of them does.
func (a *attachedTo) Next() (all Notice) {
	for _, stream := range a.streams {
		n := stream.Next()
		all.Over = all.Over || n.Over
		if n.Hello {
			all.Hello, all.Grace = true, n.Grace
			all.Epoch += n.Epoch
			all.Held += n.Held
		}
		if n.Ordered {
			all.Ordered, all.Order = true, max(all.Order, n.Order)
		}
		all.Revoked = append(all.Revoked, n.Revoked...)
	}
	return all
}

func (a *attachedTo) Alive() {
	for _, stream := range a.streams {
		stream.Alive()
	}
}

func (a *attachedTo) Close(missed bool) {
	close(a.over)
	for _, stream := range a.streams {
		stream.Close(missed)
	}
}
