package shard

import (
	"math/rand/v2"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/measure"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// machine is the shard's state. Every input carries its time and its random seed; there is no clock, no goroutine and no
// I/O in here. The caller holds the shard's mutex.
type machine struct {
	parts

	id       queue.ShardID
	key      reserver.Key
	epoch    uint32
	settings queue.Settings

	backlog *backlog.Backlog
	holds   *reserver.Reserver
	recent  recent
	keys    keys

	latest queue.Time // the latest end of a submission
	// of ended submissions whose last dead letters went since retention looked, the earliest end; 0: there are none
	freed   queue.Time
	opened  int                            // records whose older row the history may still have
	rows    uint64                         // history rows written since the start
	closing int                            // submissions whose end is on its way to the disk
	order   *ordered                       // live submissions and ended ones without their history row, by id
	ended   map[queue.SubmissionID]*record // ended, history row not yet written
	gone    []*record                      // the same, in the order of their end
	dirty   []*record                      // changed since their last row
	loose   loosened
	watch   map[queue.SubmissionID][]watcher // told when the submission ends

	batch   *batch                      // the open one
	writing map[uint32]*batch           // by slot: reservations whose outputs are being written
	applied journal.Position            // the last one applied
	now     queue.Time                  // the time of the batch being applied
	gaveUp  struct{ seq, index uint32 } // the chunk that the last Return ended: if it fails its submission, the End follows at once
	nextSeq uint32
	lastID  queue.SubmissionID
	source  rand.PCG
	rnd     *rand.Rand
	replay  bool
	newest  latest  // completions with outputs, of the replay
	history history // at recovery

	storage storage

	roster *roster // the shard's

	charges reserver.Pages[backlog.Charge] // by slot of holds that have a ledger, what Hold.Ledger does not say; may be shorter

	stats counters
	ran   *measure.Histogram // Options.RunSeconds
}

// watcher waits for submissions to end.
type watcher interface {
	Settle() // one of them has ended
}

// counters are what the backlog and the reserver do not count themselves. The totals count from the server's start.
type counters struct {
	waiting, parked, dead, operations uint64
	// of operations, by book those of submissions that rules about values or themselves cover
	covered                                       [2]uint64
	completed, skipped                            uint64 // chunks of open submissions
	endedLetters                                  uint64 // dead letters of ended submissions
	orphaned                                      uint64 // reservations of ended submissions
	inserted, reserved, done, failed              uint64
	bulk                                          queue.BulkCounts
	aged                                          uint64 // dead letters given up because they were too old
	damaged                                       uint64 // chunks set aside because their content cannot be read
	forwarded, arrived                            uint64 // dead letters that left for other queues, and came from them
	expired, released, submissions, submissionEnd uint64
	commits, commitBytes                          uint64
	acts                                          [kindCount]acts
	schedules                                     scheduleTotals
	endedAs                                       [queue.SubmissionStates]uint64
}

func newMachine(id queue.ShardID, key reserver.Key, settings queue.Settings, now queue.Time) *machine {
	m := &machine{
		id: id, key: key, settings: settings,
		backlog: backlog.New(),
		holds:   reserver.New(now, 0),
		order:   &ordered{},
		freed:   1, // retention looks at all of the history first
		ended:   map[queue.SubmissionID]*record{},
		watch:   map[queue.SubmissionID][]watcher{},
		keys:    newKeys(),
		writing: map[uint32]*batch{},
		batch:   newBatch(),
		roster:  newRoster(),
		storage: noStorage,
	}
	m.parts.of(m)
	m.backlog.OnRuling(m.rules.ruled)
	m.rnd = rand.New(&m.source)
	return m
}

// seed makes the next draws follow from the command's seed alone.
func (m *machine) seed(seed uint64) { m.source.Seed(seed, seed^seedStream) }

// seedStream makes the second half of a seed from the first.
const seedStream = 0x9E3779B97F4A7C15

// live finds an open submission, record finds any that is in memory.
func (m *machine) live(id queue.SubmissionID) *record {
	if sub := m.backlog.ByID(id); sub != nil {
		return sub.Data.(*record)
	}
	return nil
}

func (m *machine) liveSeq(seq uint32) *record {
	if sub := m.backlog.BySeq(seq); sub != nil {
		return sub.Data.(*record)
	}
	return nil
}

func (m *machine) record(id queue.SubmissionID) *record {
	if r := m.live(id); r != nil {
		return r
	}
	return m.ended[id]
}

// encode is the open batch's encoder; the first op of a batch gives it its time.
func (m *machine) encode(now queue.Time) *journal.Encoder {
	if !m.batch.begun {
		m.batch.begun = true
		m.batch.enc.Reset(m.epoch, now)
	}
	return &m.batch.enc
}

// storage is what the machine tells the store, which it does not know: it does no I/O.
type storage struct {
	trust    func(seq, index uint32)   // a chunk is done: what is stored for it is its output
	contents func(c *journal.Contents) // copies bytes that are durable in the journal
	output   func(o *journal.Output)   // the same
}

var noStorage = storage{trust: func(uint32, uint32) {}, contents: func(*journal.Contents) {}, output: func(*journal.Output) {}}

// touch notes that r changed at the position being applied.
func (m *machine) touch(r *record) {
	r.applied = m.applied
	if !r.dirty {
		r.dirty = true
		m.dirty = append(m.dirty, r)
	}
}

// The following keep the counters beside the backlog's own.

func (m *machine) show(r *record) {
	m.backlog.Show(r.sub)
	operations := uint64(r.sub.Available()) * uint64(r.details().operations)
	m.stats.operations += operations
	m.rules.cover(r, operations)
}

func (m *machine) ready(r *record, delta int) {
	if r.parked {
		m.stats.parked += uint64(delta)
	} else {
		operations := uint64(delta * int(r.details().operations))
		m.stats.operations += operations
		m.rules.cover(r, operations)
	}
}

// putBack offers a taken chunk again.
func (m *machine) putBack(r *record, index uint32) {
	m.backlog.PutBack(r.sub, index)
	m.ready(r, 1)
	m.suspects.offered(r, index)
}

// withdraw takes an available chunk without counting it in flight.
func (m *machine) withdraw(r *record, index uint32, bounded bool) backlog.Withdrawn {
	w := m.backlog.Withdraw(r.sub, index, bounded)
	if w == backlog.Taken {
		m.ready(r, -1)
		m.suspects.taken(r, index)
	}
	return w
}

// drop removes a reservation; the chunk stays taken.
func (m *machine) drop(r *record, slot uint32) {
	m.changing(r)
	h := m.holds.At(slot)
	m.loose.note(r, h.Index)
	if h.Counted {
		m.backlog.Land(r.sub)
	}
	m.holds.Remove(&r.holds, slot)
}

// concluded removes the reservation of a chunk that someone held until now, whatever came of it; the chunk stays taken.
func (m *machine) concluded(r *record, slot uint32) {
	if h := m.holds.At(slot); h.Ledger != 0 {
		m.backlog.Ended(r.sub, m.charge(slot, h), m.now.Sub(h.Reserved))
	}
	m.drop(r, slot)
}

// timed measures how long the reservation was held by someone who tells now what came of it.
func (m *machine) timed(slot uint32) {
	if h := m.holds.At(slot); h.Counted {
		m.ran.Observe(m.now.Sub(h.Reserved).Seconds(), 1)
	}
}

// charge is what was charged for a reservation.
func (m *machine) charge(slot uint32, h *reserver.Hold) (c backlog.Charge) {
	if int(slot) < m.charges.Len() {
		c = *m.charges.At(slot)
	}
	c.Ledger = h.Ledger
	return c
}

// charged notes it. Nearly always the ledger says it all, and nothing is kept.
func (m *machine) charged(slot uint32, c backlog.Charge) {
	c.Ledger = 0
	if int(slot) >= m.charges.Len() && c == (backlog.Charge{}) {
		return
	}
	for int(slot) >= m.charges.Len() {
		m.charges.Grow()
	}
	*m.charges.At(slot) = c
}

// delay makes a taken chunk wait until t.notBefore.
func (m *machine) delay(r *record, index uint32, t *try) {
	if !t.waiting {
		m.waits(r, index, t)
		m.stats.waiting++
	}
	m.lifecycle.schedule(KindRetry, due{at: t.notBefore, seq: r.seq, index: index})
}

// waits notes that a taken chunk waits.
func (m *machine) waits(r *record, index uint32, t *try) {
	m.changing(r)
	t.waiting = true
	r.waiting++
	m.recount.tallied(r, t).waiting++
	if r.delays == nil {
		r.delays = &indexes{}
	}
	r.delays.add(index)
}

// undelay ends a chunk's waiting; it stays taken.
func (m *machine) undelay(r *record, index uint32, t *try) {
	if t.waiting {
		m.changing(r)
		m.suspects.unshelve(r, t)
		m.loose.note(r, index)
		t.waiting = false
		r.waiting--
		m.recount.tallied(r, t).waiting--
		r.delays.remove(index)
		m.stats.waiting--
	}
}
