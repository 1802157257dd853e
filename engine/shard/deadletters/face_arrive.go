package deadletters

import (
	"context"
	"errors"
	"sync"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
)

// Intake has the functions of the shard for the bytes of arriving submissions, and for their bounds.
type Intake struct {
	// Room waits until there is room for the bytes. It fails while the disk is full.
	Room func(list []queue.Delivery) error
	// Admit lets this many submissions in, unless too many are open. They count until release.
	Admit   func(n int) error
	Release func(n int)
	// Pack makes the op that carries the bytes of a submission, which is one of `times` in its batch; nil: it has no
	// bytes. large: there are too many bytes for an op, and they have to be blobs.
	Pack  func(n *queue.NewSubmission, times int) (op *journal.Contents, large bool)
	Blobs Blobs
	Bytes Bytes // of submissions here
}

// Bytes reads the contents and the attachment of a submission.
type Bytes interface {
	Chunks(ctx context.Context, r *machine.Record, indexes []uint32, most int) ([][]byte, error)
	Attachment(ctx context.Context, r *machine.Record) ([]byte, error)
}

// Blobs puts bytes that are too many for an op before the inserts that name them.
type Blobs interface {
	// Begin comes before Put, and its end after the commit of the inserts.
	Begin() (end func())
	// Put stores the bytes of a submission for each of the inserts, and has these name
	// them. The mutex is not held.
	Put(ctx context.Context, inserts []*journal.Insert, of *queue.NewSubmission) error
	// Discard deletes the blobs of inserts that were not made. The mutex is not held.
	Discard(inserts []*journal.Insert)
}

// Deliver makes submissions of dead letters that another queue forwards, and leaves out
// those that have arrived before. They come from one outbox, by ascending number, at most
// journal.MaxRedrive. It returns after the commit.
func (f *Forwarding) Deliver(ctx context.Context, list []queue.Delivery) error {
	if err := f.intake.Room(list); err != nil {
		return err
	}
	arrivals := make([]arrival, 0, len(list))
	seed := f.Queue.Seed()
	var of *machine.Machine
	var epoch uint32
	err := f.Locked(func(m *machine.Machine, now queue.Time) error {
		of, epoch = m, m.Epoch
		m.Seed(seed)
		for i := range list {
			if n := &list[i].Submission; f.Part().expects(n.Origin) {
				arrivals = append(arrivals, arrival{NewSubmission: n, op: m.Draw(n, now)})
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := f.intake.Admit(len(arrivals)); err != nil {
		return err
	}
	defer f.intake.Release(len(arrivals))
	defer f.intake.Blobs.Begin()()
	large, err := f.writeContents(ctx, arrivals, epoch)
	published := false
	if err == nil {
		err = f.publish(of, arrivals, &published)
	}
	if err != nil && (!published || errors.Is(err, journal.ErrFull)) {
		f.intake.Blobs.Discard(large)
	}
	return err
}

// publish makes the inserts, and waits for their commit.
func (f *Forwarding) publish(of *machine.Machine, arrivals []arrival, published *bool) error {
	return shell.Change(f, func(m *machine.Machine, now queue.Time) error {
		if m != of {
			return commit.Unknown(journal.ErrUnknown) // the shard reloaded meanwhile
		}
		*published = true
		for i := range arrivals {
			if op := arrivals[i].op; f.Part().expects(op.Origin) { // no other call delivered it meanwhile
				m.Insert(op, arrivals[i].carried, now)
				f.Part().arrives(op.Origin)
			}
		}
		return nil
	})
}

// Arrived is the number up to which the dead letters of an outbox have arrived here. It returns an error while that is
// not known.
func (f *Forwarding) Arrived(source uint64) (number uint64, err error) {
	err = f.Locked(func(*machine.Machine, queue.Time) error {
		number = f.Part().inbox[source]
		return nil
	})
	return number, err
}

// arrival is a dead letter that is being delivered.
type arrival struct {
	*queue.NewSubmission
	op      *journal.Insert
	carried *journal.Contents // the bytes of its insert; nil: there are none, or blobs have them
}

// deliverAtOnce is how many contents are written at a time: they share commits of the store.
const deliverAtOnce = 16

// writeContents packs the contents of several inserts for their batch. Those that are too
// large it puts as blobs, which the inserts name.
func (f *Forwarding) writeContents(ctx context.Context, arrivals []arrival,
	epoch uint32) (large []*journal.Insert, err error) {
	var group sync.WaitGroup
	var mu sync.Mutex
	turn := make(chan struct{}, deliverAtOnce)
	for i := range arrivals {
		a := &arrivals[i]
		var is bool
		if a.carried, is = f.intake.Pack(a.NewSubmission, len(arrivals)); !is {
			continue
		}
		a.op.Blobs = &journal.Blobs{Epoch: epoch}
		large = append(large, a.op)
		turn <- struct{}{}
		group.Go(func() {
			defer func() { <-turn }()
			if failed := f.intake.Blobs.Put(ctx, []*journal.Insert{a.op}, a.NewSubmission); failed != nil {
				mu.Lock()
				err = failed
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return large, err
}
