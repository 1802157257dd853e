package machine

import (
	"math/rand/v2"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// Machine is the shard's state. Every input carries its time and its random seed; there is
// no clock, no goroutine and no I/O in here. The caller holds the shard's mutex.
//
//	Encode(now) ─► op in the open batch, with its mark or intent     decided, not durable
//	   commit of the batch
//	Apply...    ─► the only changes of durable state                 durable
//	Undo        ─► marks and intents of a batch that failed          as if never decided
//
// Decisions look at both the applied state and the ops on their way. A decision that looked at applied state alone
// would end a chunk twice, once in each of two batches.
type Machine struct {
	parts

	ID       queue.ShardID
	Epoch    uint32
	Settings queue.Settings

	Backlog  *backlog.Backlog
	Holds    *reserver.Reserver
	charges  charges
	followed followed
	Keys     keys

	Rows  uint64    // history rows written since the start
	Order *Ordered  // live submissions and ended ones without their history row, by id
	Dirty []*Record // changed since their last row
	Loose Loosened

	Batch      *Batch           // the open one
	AppliedAt  journal.Position // the last one applied
	Now        queue.Time       // the time of the batch being applied
	Replay     bool
	NextSeq    uint32
	LastID     queue.SubmissionID
	lastPrefix string // of the submission that was adopted last
	source     rand.PCG
	Rnd        *rand.Rand

	Storage Storage
	brought brought

	Stats Stats
	Runs  Runs
}

// Stats are the counts that the backlog and the reserver do not keep themselves.
type Stats struct {
	Totals

	Waiting, Parked, Dead, Operations uint64
	// of operations, by book those of submissions that rules about values or themselves cover
	Covered            [2]uint64
	Completed, Skipped uint64 // chunks of open submissions
	EndedLetters       uint64 // dead letters of ended submissions
	Orphaned           uint64 // reservations of ended submissions
}

// Totals count from the server's start. A reload keeps them: recovery.Uncounted.
type Totals struct {
	Inserted, Reserved, Done, Failed              uint64
	Aged                                          uint64 // dead letters given up because they were too old
	Damaged                                       uint64 // chunks whose content could not be read: dead letters
	Forwarded, Arrived                            uint64 // dead letters that left for other queues, and came from them
	Expired, Released, Submissions, SubmissionEnd uint64
	Commits, CommitBytes                          uint64
	Acts                                          [KindCount]acts
	EndedAs                                       [queue.SubmissionStates]uint64
}

// New is the machine of an empty shard.
func New(id queue.ShardID, key reserver.Key, settings queue.Settings, now queue.Time) *Machine {
	m := &Machine{
		ID: id, Settings: settings,
		Backlog: backlog.New(),
		Holds:   reserver.New(now, 0),
		Order:   &Ordered{},
		Keys:    newKeys(),
		Batch:   NewBatch(),
		Storage: noStorage,
	}
	m.parts.of(m)
	m.Tokens.key = key
	m.Joined.Rules = noRules{}
	m.Quotas.Watch("", settings.Quota())
	m.Backlog.Rules.OnChange(m.Stats.Ruled)
	m.Rnd = rand.New(&m.source)
	return m
}

// Seed makes the next draws follow from the command's seed alone.
func (m *Machine) Seed(seed uint64) { m.source.Seed(seed, seed^seedStream) }

// seedStream makes the second half of a seed from the first.
const seedStream = 0x9E3779B97F4A7C15

// Live finds an open submission, Record finds any that is in memory.
func (m *Machine) Live(id queue.SubmissionID) *Record {
	if sub := m.Backlog.ByID(id); sub != nil {
		return sub.Data.(*Record)
	}
	return nil
}

// LiveSeq finds an open submission by its number in the shard; nil: there is none.
func (m *Machine) LiveSeq(seq uint32) *Record {
	if sub := m.Backlog.BySeq(seq); sub != nil {
		return sub.Data.(*Record)
	}
	return nil
}

// Record finds a submission that is in memory, open or ended; nil: it is not.
func (m *Machine) Record(id queue.SubmissionID) *Record {
	if r := m.Live(id); r != nil {
		return r
	}
	return m.Endings.ByID[id]
}

// Encode is the open batch's encoder; the first op of a batch gives it its time.
func (m *Machine) Encode(now queue.Time) *journal.Encoder {
	if !m.Batch.Begun {
		m.Batch.Begun = true
		m.Batch.Enc.Reset(m.Epoch, now)
	}
	return &m.Batch.Enc
}

// Storage is how the machine gives bytes to the store, which it does not know: it does no I/O.
type Storage struct {
	Contents func(c *journal.Contents)        // copies bytes that are durable in the journal
	Output   func(o *journal.Output)          // the same
	Replaced func(key uint64, content []byte) // keeps another content of a chunk; nil: the one of its insert
}

var noStorage = Storage{Contents: func(*journal.Contents) {}, Output: func(*journal.Output) {},
	Replaced: func(uint64, []byte) {}}

// Touch notes that r changed at the position being applied.
func (m *Machine) Touch(r *Record) {
	r.AppliedAt = m.AppliedAt
	if !r.Dirty {
		r.Dirty = true
		m.Dirty = append(m.Dirty, r)
	}
}

// InFlight is how many reservations of open submissions there are.
func (m *Machine) InFlight() uint64 { return uint64(m.Holds.Len()) - m.Stats.Orphaned }

// The following keep the counters beside the backlog's own.

func (m *Machine) show(r *Record) {
	m.Backlog.Show(r.Sub)
	operations := uint64(r.Sub.Available()) * uint64(r.Details().Operations)
	m.Stats.Operations += operations
	m.Stats.cover(r, operations)
}

// Ready counts chunks of a submission that became available, or, below 0, no longer are.
func (m *Machine) Ready(r *Record, delta int) {
	if r.Parked {
		countParked(m, r, delta)
	} else {
		operations := uint64(delta * int(r.Details().Operations))
		m.Stats.Operations += operations
		m.Stats.cover(r, operations)
	}
}

// countParked counts available chunks of a hidden submission, or, below 0, no longer.
func countParked(m *Machine, r *Record, delta int) {
	m.Stats.Parked += uint64(delta)
	m.Quotas.park(r, delta)
}

// PutBack offers a taken chunk again.
func (m *Machine) PutBack(r *Record, index uint32) {
	m.Backlog.PutBack(r.Sub, index)
	m.Ready(r, 1)
	m.Suspects.offered(r, index)
}

// Withdraw takes an available chunk without counting it in flight.
func (m *Machine) Withdraw(r *Record, index uint32, bounded bool) backlog.Withdrawn {
	w := m.Backlog.Withdraw(r.Sub, index, bounded)
	if w == backlog.Taken {
		m.Ready(r, -1)
		m.Suspects.taken(r, index)
	}
	return w
}

// drop removes a reservation; the chunk stays taken.
func (m *Machine) drop(r *Record, slot uint32) {
	m.Counting.Changing(r)
	h := m.Holds.At(slot)
	m.Loose.note(r, h.Index)
	if h.Counted {
		m.Backlog.Land(r.Sub)
	}
	m.Holds.Remove(&r.Holds, slot)
}

// concluded removes the reservation of a chunk that a consumer held until now, whatever its result; the chunk stays
// taken.
func (m *Machine) concluded(r *Record, slot uint32) {
	if h := m.Holds.At(slot); h.Ledger != 0 {
		m.Backlog.Ledgers.Ended(r.Sub, m.charges.of(slot, h), m.Now.Sub(h.Reserved))
	}
	m.drop(r, slot)
}
