// Package roster lists the consumers of a queue: their streams, which of them are away and
// since when, and operators' orders to them. It is pure: callers pass the time, and the
// shard's mutex guards it.
//
//quern:tests pure
package roster

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// Roster lists the attached consumers, and operators' orders to consumers. Like reservations, it
// is only in memory. It survives a reload of the shard, because the streams are still open. The
// reserver knows which chunks a consumer holds.
type Roster struct {
	ByName map[string]*Consumer
	List   []*Consumer // the same, in no useful order
	// of consumers whose last stream broke, the earliest first; those that came back are passed over
	Away     []Absence
	Attached int // consumers with a stream
	Gone     int // consumers that are away
	Ordered  int // consumers with an order

	ended map[string]string // consumers whose last stream the server ended, as it stops: their incarnations

	Lost, Revoked uint64 // reservations, since the server's start
}

// Consumer is one that is attached or was a moment ago, or has an order.
type Consumer struct {
	Name    string
	at      int // in Roster.List
	Streams []*Stream
	Since   queue.Time // attached or away since; 0: neither
	Away    queue.Time // its last stream broke; 0: it did not
	Seen    queue.Time
	Order   queue.ConsumerOrder
	LostTo  reserver.Place // up to here its reservations are ended, when it was away for too long
	Breaks  uint32         // how often its last stream broke, which distinguishes absences

	Incarnation string // of the last process that attached and named its incarnation
	// the last incarnations that others succeeded: such a process may live on, and takes nothing back
	succeeded []string
}

// Stream delivers notices to an attached consumer.
type Stream struct {
	Of      *Consumer
	Ordered bool // its order is news
	Over    bool // nothing more comes
	Revokes []queue.Revoked
	Stir    func() // there may be something new
}

// maxRevokes is how much a stream may fall behind. A consumer whose stream ends because of it attaches again, and
// learns which chunks it still holds by extending them.
const maxRevokes = 10_000

// Revoke notifies the stream that a reservation was taken. A stream that is behind by too many ends instead.
func (a *Stream) Revoke(r queue.Revoked) {
	if len(a.Revokes) >= maxRevokes {
		a.Over = true
	} else {
		a.Revokes = append(a.Revokes, r)
	}
	a.Stir()
}

// Absence is the absence of a consumer from a moment on.
type Absence struct {
	Of     *Consumer
	Breaks uint32
	At     queue.Time // it was heard of last
}

// New knows no one.
func New() *Roster {
	return &Roster{ByName: map[string]*Consumer{}, ended: map[string]string{}}
}

// Enter finds the consumer of a name or makes it.
func (r *Roster) Enter(name string) *Consumer {
	c := r.ByName[name]
	if c == nil {
		c = &Consumer{Name: name, at: len(r.List)}
		r.ByName[name] = c
		r.List = append(r.List, c)
	}
	return c
}

// tidy forgets a consumer that is not attached or away and has no order.
func (r *Roster) tidy(c *Consumer) {
	if len(c.Streams) > 0 || c.Away != 0 || c.Order != queue.NoOrder || r.ByName[c.Name] != c {
		return
	}
	delete(r.ByName, c.Name)
	last := r.List[len(r.List)-1]
	r.List[c.at], last.at = last, c.at
	r.List[len(r.List)-1] = nil
	r.List = r.List[:len(r.List)-1]
}

// SetOrder sets a consumer's order, and notifies its streams.
func (r *Roster) SetOrder(c *Consumer, order queue.ConsumerOrder) {
	if c.Order != queue.NoOrder {
		r.Ordered--
	}
	if order != queue.NoOrder {
		r.Ordered++
	}
	c.Order = order
	for _, a := range c.Streams {
		a.Ordered = true
		a.Stir()
	}
	r.tidy(c)
}

// OrderOf is an operator's order to the consumer of this name.
func (r *Roster) OrderOf(name string) queue.ConsumerOrder {
	if r.Ordered == 0 {
		return queue.NoOrder
	}
	if c := r.ByName[name]; c != nil {
		return c.Order
	}
	return queue.NoOrder
}

// Join adds a stream of a process; "": it has not named its incarnation.
func (r *Roster) Join(name, incarnation string, a *Stream, now queue.Time) {
	before := r.ended[name]
	delete(r.ended, name)
	c := r.Enter(name)
	if !slices.Contains(c.succeeded, incarnation) {
		c.follow(cmp.Or(incarnation, c.Incarnation, before), cmp.Or(c.Incarnation, before))
	}
	c.Since = cmp.Or(c.Since, now)
	if len(c.Streams) == 0 {
		r.Attached++
	}
	r.back(c)
	c.Seen = max(c.Seen, now)
	c.Streams = append(c.Streams, a)
	a.Of = c
}

// Part takes a stream out. If it was the last and is missed, the consumer is away from now on.
func (r *Roster) Part(a *Stream, missed bool, now queue.Time) {
	c := a.Of
	at := slices.Index(c.Streams, a)
	if at < 0 {
		return // the consumer left before
	}
	c.Streams = slices.Delete(c.Streams, at, at+1)
	if len(c.Streams) > 0 {
		return
	}
	r.Attached--
	c.Since = 0
	if missed {
		r.Miss(c.Name, now)
	} else {
		r.ended[c.Name] = c.Incarnation
	}
	r.tidy(c)
}

// Miss marks a consumer as away from now on.
func (r *Roster) Miss(name string, now queue.Time) {
	c := r.Enter(name)
	if c.Away != 0 {
		return
	}
	c.Away, c.Since = now, now
	r.Gone++
	c.Breaks++
	r.Await(Absence{c, c.Breaks, now})
}

// KeepsStream says whether a consumer is attached, or was until the server ended its stream, or is away; and which
// process had its last stream, if that is known.
func (r *Roster) KeepsStream(name string) (incarnation string, keeps bool) {
	if c := r.ByName[name]; c != nil && (len(c.Streams) > 0 || c.Away != 0) {
		return c.Incarnation, true
	}
	incarnation, ended := r.ended[name]
	return incarnation, ended
}

// maxSucceeded bounds how many processes are remembered that worked under one name.
const maxSucceeded = 8

// follow notes which process the name's last stream is of.
func (c *Consumer) follow(incarnation, before string) {
	if before != "" && before != incarnation {
		c.succeeded = append(c.succeeded[max(0, len(c.succeeded)-maxSucceeded+1):], before)
	}
	c.Incarnation = incarnation
}

// Succeeds says whether a process that attaches as a consumer is another one than the process of the last stream, and
// ends the streams of that one. A process without an incarnation succeeds no one, and neither does one that was
// succeeded itself: else two processes that share a name by mistake would take turns in ending each other's work.
func (r *Roster) Succeeds(name, incarnation string) bool {
	before, keeps := r.KeepsStream(name)
	if incarnation == "" || !keeps || before == incarnation {
		return false
	}
	if c := r.ByName[name]; c != nil {
		if slices.Contains(c.succeeded, incarnation) {
			return false
		}
		for _, a := range c.Streams {
			a.Over = true
			a.Stir()
		}
	}
	return true
}

// back ends an absence, if there is one.
func (r *Roster) back(c *Consumer) {
	if c.Away != 0 {
		c.Away = 0
		r.Gone--
	}
}

// Rewind makes Lose begin at the first reservation of each consumer again: in a new table reservations have other
// places.
func (r *Roster) Rewind() {
	for _, c := range r.List {
		c.LostTo = reserver.Place{}
	}
}

// Await puts an absence into the order of time.
func (r *Roster) Await(x Absence) {
	at, _ := slices.BinarySearchFunc(r.Away, x.At, func(a Absence, at queue.Time) int {
		return cmp.Compare(a.At, at+1) // behind those of the same moment
	})
	r.Away = slices.Insert(r.Away, at, x)
}

// Forget ends an attachment for good, with its order: the consumer has left.
func (r *Roster) Forget(c *Consumer) {
	if len(c.Streams) > 0 {
		r.Attached--
	}
	for _, a := range c.Streams {
		a.Over = true
		a.Stir()
	}
	r.back(c)
	c.Streams, c.Since = nil, 0
	r.SetOrder(c, queue.NoOrder)
}

// orderKept is how long an order holds for a consumer that is not attached and was not heard of.
const orderKept = time.Hour

// SweepOrders forgets orders for consumers that are long gone. seen says when the reserver last heard of one.
func (r *Roster) SweepOrders(now queue.Time, seen func(name string) queue.Time) {
	if r.Ordered == 0 {
		return
	}
	for _, c := range slices.Clone(r.List) {
		if c.Order == queue.NoOrder || len(c.Streams) > 0 || c.Away != 0 {
			continue
		}
		if c.Seen = max(c.Seen, seen(c.Name)); c.Seen.Add(orderKept) < now {
			r.SetOrder(c, queue.NoOrder)
		}
	}
}

// Audit counts those that are attached and away again.
func (r *Roster) Audit() error {
	attached, gone := 0, 0
	for _, c := range r.List {
		if len(c.Streams) > 0 {
			attached++
		}
		if c.Away != 0 {
			gone++
		}
	}
	if attached != r.Attached || gone != r.Gone {
		return fmt.Errorf("consumers attached %d and away %d are counted as %d and %d", attached, gone, r.Attached,
			r.Gone)
	}
	return nil
}
