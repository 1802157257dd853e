package machine

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/consumers/roster"
)

// parts are the features of the machine. Each has its own state, and the code that changes it is in a file with its
// name; the machine itself has submissions, their chunks and reservations. Most parts do not know the machine: they get
// the data that they need, or ask for it by a small interface. Recovery, Tokens and Tries decide about submissions, so
// they have the machine.
type parts struct {
	Joined Joined

	ActLog      actLog
	Asides      asides
	Counting    Counting // for a recount
	Delays      delays
	Endings     endings
	Lifecycle   lifecycle
	Orphans     orphans
	Quotas      quotas // of groups
	Recovery    recovery
	Roster      *roster.Roster // the shard's: which consumers are attached, and which are away
	Suspects    Suspects
	Tokens      tokens
	Tries       tries
	Uniques     uniques
	Afters      afters
	ValueLimits valueLimits
}

// Part is a feature in a package of its own, with its own state and its own ops. The machine knows it by this interface
// only; the part knows the machine, and hears of changes by the events of Joined.
type Part interface {
	// Apply changes the part by an op, if the op is one of its own.
	Apply(op journal.PartOp) (mine bool, err error)
	// Intended counts the marks of the part's intents: there are none while no op is on its way to the disk.
	Intended(count func(what string, n int))
}

// Step does the due actions of a part's kind, at most `most` and without the parked ones, and says how many it looked
// at: with `most`, there may be more.
type Step func(now queue.Time, most int, parked map[Action]*Parking) int

// Rows are rows of a kind that a part keeps beside the submissions.
type Rows interface {
	// Row returns the content that the row must have now; nil: no row.
	Row(key uint64) []byte
	// Load reads a row.
	Load(key uint64, row []byte) error
}

// Joined are the parts in packages of their own, and the events that they hear of. The shard fills it in when it makes
// a machine, in one place.
type Joined struct {
	Parts []Part
	Rows  map[uint8]Rows // by kind
	Steps map[Kind]Step  // of the life-cycle worker, by kind
	Rules Rules          // the machine's questions about operators' rules

	Began     []func()                  // another life of the shard begins
	Uncounted []func()                  // the life before counted the ops that were replayed until now
	Replayed  []func()                  // a replay is through; nothing is offered yet
	Offered   []func()                  // then: all is
	Inserting []func(s *journal.Insert) // an insert is applied, at a replay perhaps once more
	Opened    []func(r *Record)         // a submission was inserted
	// That a chunk is dead was encoded, and its submission goes on: more ops may follow.
	Dying []func(r *Record, index uint32, now queue.Time)
	Died  []func(r *Record, index uint32, delta int) // a chunk of an open submission is dead, or (delta -1) no longer
	// That a submission fails or expires, or has its first dead letter, was encoded: more ops may follow.
	Failing []func(r *Record, reason string, now queue.Time)
	Ended   []func(r *Record)            // a submission has ended
	Ruled   []func()                     // a rule was set or lifted
	Retried []func(a Action) (mine bool) // an operator has an action tried again
	Audited []func() error               // finds contradictions in the state of a part
}

// of makes the parts for a machine.
func (p *parts) of(m *Machine) {
	*p = parts{
		ActLog: actLog{encode: m.Encode},
		Roster: roster.New(),
		Endings: endings{
			ByID: map[queue.SubmissionID]*Record{}, Watch: map[queue.SubmissionID][]Watcher{},
			Freed: 1, // retention looks at all of the history first
		},
		Quotas:   quotas{settings: &m.Settings, backlog: m.Backlog, stats: &m.Stats},
		Recovery: recovery{m: m},
		Tokens:   tokens{m: m}, Tries: tries{m: m, overdue: overdue{}},
		Uniques:     uniques{asides: &p.Asides, Limit: queue.MaxUniqueWindows},
		Afters:      afters{shard: m, asides: &p.Asides, Limit: queue.MaxAwaited},
		ValueLimits: valueLimits{backlog: m.Backlog},
	}
	p.Asides = asides{
		changed: map[Aside]struct{}{}, joined: &p.Joined, recent: &p.Tokens.Recent, seq: (*lastSeq)(&m.NextSeq),
		uniques: &p.Uniques, afters: &p.Afters,
	}
	p.Counting = Counting{stats: &m.Stats, backlog: m.Backlog}
	p.Delays = delays{stats: &m.Stats, counting: &p.Counting, loose: &m.Loose, suspects: &p.Suspects}
	p.Suspects = Suspects{
		shard: m, settings: &m.Settings, backlog: m.Backlog, stats: &m.Stats, counting: &p.Counting, delays: &p.Delays,
	}
}

// ApplyPart gives an op to the part that owns it.
func (m *Machine) ApplyPart(op journal.PartOp) error {
	switch op := op.(type) {
	case *journal.Act: // an entry for the audit log
		return m.ActLog.apply(op)
	case *journal.Awaited: // a submission waits for another one no longer
		m.Afters.met(m, op)
	case *journal.Contents: // the bytes of a submission whose insert follows
		m.Storage.Contents(op)
	case *journal.Output: // of a chunk whose completion follows
		m.brought.add(op)
	}
	for _, p := range m.Joined.Parts {
		if mine, err := p.Apply(op); mine {
			return err
		}
	}
	return nil
}

// Intended counts the marks of each part's intents, for the audit: there are none while no op is on its way to the
// disk.
func (p *parts) Intended(count func(what string, n int)) {
	count("scopes of quotas with inserts on their way", len(p.Quotas.pending))
	for _, part := range p.Joined.Parts {
		part.Intended(count)
	}
}
