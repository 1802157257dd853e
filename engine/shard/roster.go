package shard

import (
	"cmp"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// roster is which consumers are attached, and what operators told consumers. It is memory only, as reservations are, but it
// outlives a reload of the shard: the streams are still there. What consumers hold is the reserver's to know. The shard's
// mutex guards it.
type roster struct {
	byName   map[string]*consumer
	list     []*consumer // the same, in no useful order
	away     []absence   // of consumers whose last stream broke, the earliest first; those who came back are passed over
	attached int         // consumers with a stream
	gone     int         // consumers that are away
	ordered  int         // consumers with an order

	ended map[string]struct{} // names of consumers whose last stream the server ended: it stops

	lost, revoked uint64 // reservations, since the server's start
}

// consumer is one that is attached or was a moment ago, or has an order.
type consumer struct {
	name    string
	at      int // in roster.list
	streams []*stream
	since   queue.Time // attached since; 0: neither attached nor away
	away    queue.Time // its last stream broke; 0: it did not
	seen    queue.Time
	order   queue.ConsumerOrder
	lostTo  reserver.Place // so far its reservations are ended
	breaks  uint32         // how often its last stream broke: tells absences apart
}

// stream is how an attached consumer hears of what is new.
type stream struct {
	of      *consumer
	ordered bool // its order is news
	over    bool // nothing more comes
	revokes []queue.Revoked
	stir    func() // there may be something new
}

// maxRevokes is how much a stream may fall behind. A consumer whose stream ends by it attaches again, and learns what it holds by
// extending it.
const maxRevokes = 10_000

func (a *stream) revoke(r queue.Revoked) {
	if len(a.revokes) >= maxRevokes {
		a.over = true
	} else {
		a.revokes = append(a.revokes, r)
	}
	a.stir()
}

// absence is a consumer's being away from a moment on.
type absence struct {
	of     *consumer
	breaks uint32
	at     queue.Time // it was heard of last
}

func newRoster() *roster {
	return &roster{byName: map[string]*consumer{}, ended: map[string]struct{}{}}
}

// enter finds the consumer of a name or makes it.
func (r *roster) enter(name string) *consumer {
	c := r.byName[name]
	if c == nil {
		c = &consumer{name: name, at: len(r.list)}
		r.byName[name] = c
		r.list = append(r.list, c)
	}
	return c
}

// tidy forgets a consumer of which there is nothing to know.
func (r *roster) tidy(c *consumer) {
	if len(c.streams) > 0 || c.away != 0 || c.order != queue.NoOrder || r.byName[c.name] != c {
		return
	}
	delete(r.byName, c.name)
	last := r.list[len(r.list)-1]
	r.list[c.at], last.at = last, c.at
	r.list[len(r.list)-1] = nil
	r.list = r.list[:len(r.list)-1]
}

// setOrder tells a consumer something, also through its streams.
func (r *roster) setOrder(c *consumer, order queue.ConsumerOrder) {
	if c.order != queue.NoOrder {
		r.ordered--
	}
	if order != queue.NoOrder {
		r.ordered++
	}
	c.order = order
	for _, a := range c.streams {
		a.ordered = true
		a.stir()
	}
	r.tidy(c)
}

// orderOf is what an operator told the consumer of this name.
func (r *roster) orderOf(name string) queue.ConsumerOrder {
	if r.ordered == 0 {
		return queue.NoOrder
	}
	if c := r.byName[name]; c != nil {
		return c.order
	}
	return queue.NoOrder
}

// join adds a stream.
func (r *roster) join(name string, a *stream, now queue.Time) {
	delete(r.ended, name)
	c := r.enter(name)
	if c.since == 0 {
		c.since = now
	}
	if len(c.streams) == 0 {
		r.attached++
	}
	r.back(c)
	c.seen = max(c.seen, now)
	c.streams = append(c.streams, a)
	a.of = c
}

// part takes a stream out. If it was the last and is missed, the consumer is away from now on.
func (r *roster) part(a *stream, missed bool, now queue.Time) {
	c := a.of
	at := slices.Index(c.streams, a)
	if at < 0 {
		return // the consumer left before
	}
	c.streams = slices.Delete(c.streams, at, at+1)
	if len(c.streams) > 0 {
		return
	}
	r.attached--
	c.since = 0
	if missed {
		r.miss(c.name, now)
	} else {
		r.ended[c.name] = struct{}{}
	}
	r.tidy(c)
}

// miss has a consumer be away from now on.
func (r *roster) miss(name string, now queue.Time) {
	c := r.enter(name)
	if c.away != 0 {
		return
	}
	c.away, c.since = now, now
	r.gone++
	c.breaks++
	r.await(absence{c, c.breaks, now})
}

// keepsStream says whether a consumer is attached, or was until the server ended its stream, or is away.
func (r *roster) keepsStream(name string) bool {
	if c := r.byName[name]; c != nil && (len(c.streams) > 0 || c.away != 0) {
		return true
	}
	_, ended := r.ended[name]
	return ended
}

// back ends an absence, if there is one.
func (r *roster) back(c *consumer) {
	if c.away != 0 {
		c.away = 0
		r.gone--
	}
}

// rewind has the ends of what consumers hold begin at the first reservation again: in a new table they have other places.
func (r *roster) rewind() {
	for _, c := range r.list {
		c.lostTo = reserver.Place{}
	}
}

// await puts an absence into the order of time.
func (r *roster) await(x absence) {
	at, _ := slices.BinarySearchFunc(r.away, x.at, func(a absence, at queue.Time) int {
		return cmp.Compare(a.at, at+1) // behind those of the same moment
	})
	r.away = slices.Insert(r.away, at, x)
}

// forget ends an attachment for good, with its order: the consumer has left.
func (r *roster) forget(c *consumer) {
	if len(c.streams) > 0 {
		r.attached--
	}
	for _, a := range c.streams {
		a.over = true
		a.stir()
	}
	r.back(c)
	c.streams, c.since = nil, 0
	r.setOrder(c, queue.NoOrder)
}

// orderKept is how long an order holds for a consumer that is not attached and was not heard of.
const orderKept = time.Hour

// sweepOrders forgets orders for consumers that are long gone. seen says when one was heard of, beside what the roster knows.
func (r *roster) sweepOrders(now queue.Time, seen func(name string) queue.Time) {
	if r.ordered == 0 {
		return
	}
	for _, c := range slices.Clone(r.list) {
		if c.order == queue.NoOrder || len(c.streams) > 0 || c.away != 0 {
			continue
		}
		if c.seen = max(c.seen, seen(c.name)); c.seen.Add(orderKept) < now {
			r.setOrder(c, queue.NoOrder)
		}
	}
}

// revoked tells a consumer that is attached that a reservation of its was taken.
func (m *machine) revoked(id queue.SubmissionID, slot uint32, why queue.RevokeReason) {
	if m.roster.attached == 0 {
		return
	}
	h := m.holds.At(slot)
	c := m.roster.byName[m.holds.Consumer(h)]
	if c == nil || len(c.streams) == 0 {
		return
	}
	t := queue.Token{Submission: id, Index: h.Index, Epoch: h.Epoch, Sequence: h.Sequence, Slot: slot}
	t.MAC = m.key.MAC(&t)
	m.roster.revoked++
	for _, a := range c.streams {
		a.revoke(queue.Revoked{Token: t, Why: why})
	}
}
