package machine

// How the machine hands out chunks: it follows the views in the order of the plan's branches, each until it is empty.
// The result is picks. The rest of an answer (contents, signed tokens) is gathered outside of the mutex, because that
// may read the disk.
//
// Taking a chunk and counting it are one step under the mutex (Backlog.Take, then Hold). That is
// why a hard limit is exact, whatever the number of callers.

import (
	"bytes"
	"cmp"
	"strconv"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/strategy"
)

// Request is one reserve call.
type Request struct {
	Plan     *strategy.Plan
	Max      int
	Consumer string
	Context  queue.Meta    // for scorers: data that the consumer sends about itself
	Timeout  time.Duration // 0: the queue's
	Wait     time.Duration // how long to wait for the first chunk
	Limited  int           // how many saturated values an answer without chunks names at most: 0 to queue.MaxLimited
	Came     time.Time     // when the call came, as the time of its first look; zero: the shard reads its clock

	Answered int   // bytes that the answer has already, from other shards of the queue
	Turn     *Turn // of a shard that is one of several of its queue; nil: it is the only one
	Whole    bool  // the caller takes the shard for the only one of its queue
	Asks     bool  // it waits for a sign of work, and gets no chunks: it then asks all shards of its queue

	Restrained bool        // Plan is without work that limits count, because of the restart grace
	Numbered   bool        // Plan has numbers in place of percentages
	Over       *time.Timer // ends Wait; runs from the first time on that there was nothing
	Waited     time.Duration
}

// LookAt is the time of the call's next look: when the call came, which its caller has just
// read, and after that the present.
func (q *Request) LookAt(present func() time.Time) time.Time {
	came := q.Came
	q.Came = time.Time{}
	if came.IsZero() {
		return present()
	}
	return came
}

// Rechecks says that a waiting call is not handed work: it gets a sign to ask again, and also asks from time to time.
// Scores change with the time alone, and a percentage of the chunks in flight is another number after every
// reservation.
func (q *Request) Rechecks() bool { return q.Numbered || Scores(q.Plan) }

// Turn is how far a shard may be taken from before the turn passes to another shard of its queue.
// The plan has one branch then. At most one of Bound, Weight and Tenant is set.
type Turn struct {
	Bound  *backlog.Head       // of an ordered branch: the first candidate of the other shards
	Weight uint64              // of a Random one: the shard's weight in the draw
	Tenant *backlog.TenantTurn // of a Fair one
	Why    bool                // the call takes nothing: it only asks why there is nothing
}

// Reserved is the answer of a reserve. Waited is how long the call waited for work. The other fields are set when
// Reservations is empty: RetryAfter 0 means "no idea", and Limited, for queue.AllLimited, names as many saturated
// values as the request asked for.
type Reserved struct {
	Reservations []queue.Reservation
	Reason       queue.EmptyReason
	RetryAfter   time.Duration
	Limited      []queue.Saturated
	Waited       time.Duration
}

// Pick is one reservation as the machine makes it. The rest of the answer is gathered without the
// mutex.
type Pick struct {
	R        *Record
	Token    queue.Token
	Attempt  uint16
	At       queue.Time
	Ready    queue.Time // since when it waited for this attempt, if that is not the first
	Deadline queue.Time
	Meta     queue.Meta
	Priority int64
}

// Waited is how long the chunk waited for its first reservation, if this is it: from its insert, or from its run_at.
func (p *Pick) Waited() time.Duration {
	return p.At.Sub(max(p.R.ID.Time(), p.R.Details().RunAt))
}

// followed is the plan that was followed last, with its views: as a rule the next call has the same.
type followed struct {
	plan  *strategy.Plan // nil: not all of its views are built
	views []*backlog.View
}

// Admitted are the Views of a plan that may have all the views that it needs. They are valid until the next call.
func Admitted(m *Machine, plan *strategy.Plan) (views []*backlog.View, unbuilt *backlog.View, err error) {
	f, all := &m.followed, &m.Backlog.Views
	if f.plan == plan && all.Stand(f.views) {
		return f.views, nil, nil
	}
	f.plan = nil
	if err := all.Admit(plan); err != nil {
		return nil, nil, err
	}
	if f.views, unbuilt = m.Views(plan, f.views[:0]); unbuilt == nil {
		f.plan = plan
	}
	return f.views, unbuilt, nil
}

// Views finds the standing views of a plan's branches; unbuilt is the first one that has
// to be built before the plan can be followed, nil when there is none.
func (m *Machine) Views(plan *strategy.Plan, dst []*backlog.View) (views []*backlog.View, unbuilt *backlog.View) {
	return ViewsBy(plan, m.Backlog.Views.Of, dst)
}

// ViewsBy is views, which are found by view.
func ViewsBy(plan *strategy.Plan, view func(*strategy.Branch) *backlog.View,
	dst []*backlog.View) (views []*backlog.View, unbuilt *backlog.View) {
	EachStanding(plan, func(br *strategy.Branch) {
		v := view(br)
		if !v.Built() && unbuilt == nil {
			unbuilt = v
		}
		dst = append(dst, v)
	})
	return dst, unbuilt
}

// EachStanding calls fn for every branch of a plan that has a view: of a scored one, those inside of it.
func EachStanding(plan *strategy.Plan, fn func(*strategy.Branch)) {
	for i := range plan.Branches {
		switch br := &plan.Branches[i]; {
		case br.OnFault: // it is inside of the scored one before
		case br.Scored == nil:
			fn(br)
		default:
			for j := range br.Inner {
				fn(&br.Inner[j])
			}
		}
	}
}

// Timeout is how long a request may hold its chunks.
func (m *Machine) Timeout(q *Request) time.Duration {
	return min(cmp.Or(q.Timeout, m.Settings.ReservationTimeout), m.Settings.MaxReservation)
}

// Reserve follows the views of the plan's branches in their order until `most` chunks are
// picked, and says how many there were. When there is nothing else it borrows suspects.
func (m *Machine) Reserve(q *Request, views []*backlog.View, most int, now queue.Time, picks *[]Pick) int {
	n := m.Follow(q, views, most, now, picks)
	if n == 0 && len(*picks) == 0 && q.Turn == nil && m.Suspects.Borrow(q, most, now) {
		n = m.Follow(q, views, most, now, picks)
		m.Suspects.Lend(now, TickMost) // borrowed suspects that no one took go back
	}
	return n
}

// Follow picks chunks by the branches of the plan, one after another, until there are `most`. It says how many it
// picked.
func (m *Machine) Follow(q *Request, views []*backlog.View, most int, now queue.Time, picks *[]Pick) int {
	timeout := m.Timeout(q)
	n := 0
	for _, view := range views {
		if m.Backlog.Tired() {
			break // its chunks are not known yet, and so it is not known whose turn comes next
		}
		for tries := most - n; tries > 0; tries-- {
			sub, index, ok := takeOf(m, q, view)
			if !ok {
				if q.Turn == nil || q.Turn.Weight == 0 {
					break
				}
				continue // each draw counts, also one that fell on nothing
			}
			n++
			*picks = append(*picks, m.Hold(sub.Data.(*Record), index, view.Charged(), q.Consumer, now,
				now.Add(timeout)))
			if m.Suspects.Shelved > 0 && m.Suspects.strict() {
				m.Suspects.Lend(now, 1) // it may be its turn now
			}
		}
	}
	m.Stats.Reserved += uint64(n)
	return n
}

// takeOf takes the next chunk of a view, as far as the request's turn goes.
func takeOf(m *Machine, q *Request, view *backlog.View) (sub *backlog.Submission, index uint32, ok bool) {
	switch {
	case q.Turn == nil:
		return m.Backlog.Take(view, m.Rnd)
	case q.Turn.Why:
		return nil, 0, false
	case q.Turn.Tenant != nil:
		return m.Backlog.TakeTenant(view, q.Turn.Tenant, m.Rnd)
	case q.Turn.Bound != nil:
		return m.Backlog.TakeWithin(view, q.Turn.Bound, m.Rnd)
	case q.Turn.Weight > 0:
		return m.Backlog.TakeOnce(view, q.Turn.Weight, m.Rnd)
	}
	return m.Backlog.Take(view, m.Rnd)
}

// Heads are the next candidates of the views of a plan, in the order of its branches; the zero Head: none. They are
// appended to dst. tired says that it gave up, as ReserveBriefly does, and is to be asked again.
func Heads(m *Machine, views []*backlog.View, dst []backlog.Head) (heads []backlog.Head, tired bool) {
	m.Backlog.Allow(ShelveMost)
	for _, view := range views {
		h, _ := m.Backlog.Head(view, m.Rnd)
		dst = append(dst, h)
	}
	tired = m.Backlog.Tired()
	m.Backlog.Allow(0)
	return dst, tired
}

// ShelveMost is how many held-back submissions one hold of the mutex moves aside.
const ShelveMost = 500

// ReserveBriefly is Reserve, but it gives up when it meets too many submissions that rules or limits hold back. Then
// tired is true: the caller lets others have the mutex, and goes on.
//
// Without that bound, a reserve behind a million paused submissions would hold the mutex until all of them are moved
// aside. The next slice goes on where this one stopped, since moved submissions stay moved.
func (m *Machine) ReserveBriefly(q *Request, views []*backlog.View, most int, now queue.Time,
	picks *[]Pick) (n int, tired bool) {
	m.Backlog.Allow(ShelveMost)
	n = m.Reserve(q, views, most, now, picks)
	tired = m.Backlog.Tired()
	m.Backlog.Allow(0)
	return n, tired
}

// Hold holds a chunk that was taken from a view, and draws its token.
func (m *Machine) Hold(r *Record, index uint32, charge backlog.Charge, consumer string, now, deadline queue.Time) Pick {
	d := r.Details()
	m.Stats.Operations -= uint64(d.Operations)
	m.Stats.cover(r, -uint64(d.Operations)) // a rule that is about to be set may cover it already
	if d.timeout != 0 {
		deadline = min(deadline, now.Add(d.timeout))
	}
	if r.Known == nil {
		r.Known = r.Sub.Meta() // nil again without meta
		r.Begun.begin(r.ID.Time(), now)
	}
	p := Pick{R: r, Attempt: 1, At: now, Deadline: deadline, Meta: r.Known, Priority: r.Priority}
	if t := r.Tries[index]; t != nil {
		p.Attempt, p.Ready = OneMore(t.Attempts), t.ready()
	}
	p.Token = queue.Token{Submission: r.ID, Index: index, Epoch: m.Epoch, Sequence: m.Holds.NextSequence()}
	p.Token.Slot = m.Holds.Add(&r.Holds, reserver.Hold{
		Sequence: p.Token.Sequence, Epoch: m.Epoch, Seq: r.Seq, Index: index, Attempt: p.Attempt, Counted: true,
		Ledger: charge.Ledger, Reserved: now, Deadline: deadline,
	}, consumer)
	m.charges.note(p.Token.Slot, charge)
	m.Suspects.taken(r, index)
	m.Suspects.slots.rose(m.InFlight(), now)
	return p
}

// Attempt is the number of a chunk's next try. From the 65,535th try on it stays 65,535.
func (r *Record) Attempt(index uint32) uint16 {
	if t := r.Tries[index]; t != nil {
		return OneMore(t.Attempts)
	}
	return 1
}

// ready is the time from which on a chunk waits for its next attempt: the end of its back-off, or of the attempt
// before.
func (t *Try) ready() queue.Time {
	if n := len(t.Past); n > 0 {
		return max(t.NotBefore, t.Past[n-1].Ended)
	}
	return t.NotBefore
}

// Undo gives back picks that no consumer will get.
func (m *Machine) Undo(picks []Pick) {
	for i := range picks {
		if r, slot, s := m.Tokens.OfPick(&picks[i]); s == Holder {
			m.Unhold(r, slot)
		}
	}
}

// Unhold gives back a chunk that no one worked on: its tenant gets the charge back.
func (m *Machine) Unhold(r *Record, slot uint32) {
	h := m.Holds.At(slot)
	index, charge := h.Index, m.charges.of(slot, h)
	m.drop(r, slot)
	m.PutBack(r, index)
	m.Backlog.Ledgers.Refund(r.Sub, charge)
}

// AppendContent makes the content of a chunk that is stored nowhere: the key below the
// prefix, or the filled-in template.
func AppendContent(dst []byte, r *Record, index uint32) []byte {
	template := r.Details().Template
	if template == "" {
		dst = append(dst, r.Prefix...)
		return strconv.AppendUint(dst, uint64(r.First()+index), 10)
	}
	const hole = "{index}"
	rest := []byte(template)
	for {
		at := bytes.Index(rest, []byte(hole))
		if at < 0 {
			return append(dst, rest...)
		}
		dst = strconv.AppendUint(append(dst, rest[:at]...), uint64(r.First()+index), 10)
		rest = rest[at+len(hole):]
	}
}
