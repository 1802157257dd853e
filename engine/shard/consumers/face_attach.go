package consumers

import (
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/consumers/roster"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
)

// Attached is one stream of an attached consumer. Its server waits for Wake, calls Next, and ends with
// Close. A consumer may have several, as when it comes back before the server notices that it was gone.
type Attached struct {
	consumers *Consumers
	wake      chan struct{}

	// The shard's mutex guards the rest.
	greeted bool // Hello was given
	stream  roster.Stream
}

// Notice is one message for an attached consumer.
type Notice struct {
	Hello   bool // Epoch, Grace and Held are set: in the first notice
	Epoch   uint32
	Grace   time.Duration
	Held    int  // reservations of the consumer that the server knows
	Ordered bool // Order is set
	Order   queue.ConsumerOrder
	Revoked []queue.Revoked
	Over    bool // nothing more comes: the consumer left or was lost, the stream fell behind, or the queue closes
}

// maxAttached bounds the streams of a queue.
const maxAttached = 20_000

// Attach makes a consumer known: if its last stream ends other than by Detach, its reservations are lost after the
// queue's consumer grace. incarnation names the process of the stream. A new process under the name is a successor, and
// the reservations of its predecessor are lost at once. It fails while the shard is closed or cannot work, and beyond
// maxAttached streams.
func (c *Consumers) Attach(name, incarnation string) (*Attached, error) {
	if err := c.succeed(name, incarnation); err != nil {
		return nil, err
	}
	a := &Attached{consumers: c, wake: make(chan struct{}, 1)}
	a.stream.Stir = a.stir
	err := c.Locked(func(_ *machine.Machine, now queue.Time) error {
		if c.roster.Attached >= maxAttached {
			return &queue.Error{Code: queue.CodeOverloaded, Message: "So many consumers are attached to the queue " +
				"that it takes no more. Work goes on without: only deadlines count then."}
		}
		c.roster.Join(name, incarnation, &a.stream, now)
		a.stream.Ordered = a.stream.Of.Order != queue.NoOrder
		a.stir()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

// succeed ends the reservations of a process's predecessor, slice by slice, if there is one. A commit that fails leaves
// the rest for the next attempt to attach: until it joins, the process is a successor.
func (c *Consumers) succeed(name, incarnation string) (err error) {
	succeeds, began := false, queue.Time(0)
	if err := c.Locked(func(_ *machine.Machine, now queue.Time) error {
		succeeds, began = c.roster.Succeeds(name, incarnation), now
		return nil
	}); err != nil || !succeeds {
		return err
	}
	for more := true; more && err == nil; {
		err = shell.Change(c, func(m *machine.Machine, now queue.Time) error {
			slots, _ := heldNow(m, name, reserver.Place{}, nil, shell.SliceItems)
			more = len(slots) == shell.SliceItems
			for _, slot := range slots {
				if m.Holds.At(slot).Reserved > began { // the predecessor lives, and goes on
					more = false
					break
				}
				m.Tries.Succeed(slot, now)
			}
			c.Wake(now)
			return nil
		})
	}
	return err
}

// Wake receives when there may be something new.
func (a *Attached) Wake() <-chan struct{} { return a.wake }

// Next takes the next notice.
func (a *Attached) Next() (n Notice) {
	a.consumers.Look(func(m *machine.Machine) {
		of := a.stream.Of
		n = Notice{Over: a.stream.Over || a.consumers.closed, Ordered: a.stream.Ordered, Order: of.Order,
			Revoked: a.stream.Revokes}
		if n.Over {
			return
		}
		if !a.greeted {
			held, _ := m.Holds.Holding(of.Name)
			n.Hello, n.Epoch, n.Grace, n.Held = true, m.Epoch, m.Settings.ConsumerGrace, held.Held
			a.greeted = true
		}
		a.stream.Ordered, a.stream.Revokes = false, nil
	})
	return n
}

// Alive notes that the stream works.
func (a *Attached) Alive() {
	now := a.consumers.Now()
	a.consumers.Look(func(*machine.Machine) { a.stream.Of.Seen = max(a.stream.Of.Seen, now) })
}

// Close ends the stream. missed says that the consumer is missed from now on, if this was its last stream: false when
// the server ends the stream.
func (a *Attached) Close(missed bool) {
	c := a.consumers
	now := c.Now()
	c.Look(func(*machine.Machine) { c.roster.Part(&a.stream, missed && !c.closed, now) })
}

func (a *Attached) stir() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// Detach ends a consumer's attachment: all its streams end, and its chunks go back with no try counted. It says how
// many chunks these were. A consumer that is not attached and holds nothing has already left.
func (c *Consumers) Detach(name string) (released int, err error) {
	c.Look(func(*machine.Machine) {
		if of := c.roster.ByName[name]; of != nil {
			c.roster.Forget(of)
			c.ordered()
		}
	})
	return c.giveBack(name, func(*machine.Machine, queue.SubmissionID, uint32) {})
}
