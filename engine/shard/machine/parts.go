package machine

import "github.com/quern-queue/quern/engine/journal"

// parts are the features of the machine. Each has its own state and its own ops, and a file with its name says what changes it; the
// machine itself has submissions, their chunks and reservations. A part reaches the machine, and others through it.
type parts struct {
	ActLog      actLog
	Asides      asides
	Bulks       bulks
	Ends        ends
	Forwarding  forwarding
	Letters     deadLetters
	Lifecycle   lifecycle
	Orphans     orphans
	Recount     Recount
	Rules       activeRules
	Schedules   schedules
	Scorings    scorings
	Stops       stops
	Suspects    Suspects
	ValueLimits valueLimits
}

// of makes them for a machine.
func (p *parts) of(m *Machine) {
	*p = parts{
		ActLog: actLog{m: m}, Asides: asides{m: m, Rows: map[Aside]struct{}{}}, Bulks: bulks{m: m},
		Ends:       ends{m: m},
		Forwarding: newForwarding(m), Letters: newDeadLetters(m), Lifecycle: lifecycle{m: m}, Orphans: orphans{m: m},
		Recount: Recount{m: m}, Rules: newActiveRules(m), Schedules: newSchedules(m),
		Scorings: scorings{m: m, ByKey: map[string]*Scoring{}}, Stops: stops{m: m}, Suspects: Suspects{m: m},
		ValueLimits: valueLimits{m: m},
	}
}

// ApplyPart gives an op to the part that owns it.
func (m *Machine) ApplyPart(op journal.PartOp) error {
	switch op := op.(type) {
	case *journal.Act: // an entry for the audit log
		return m.ActLog.apply(op)
	case *journal.Bulk: // a bulk operation begins, or got further
		return m.Bulks.apply(op)
	case *journal.Contents: // the bytes of a submission whose insert follows
		m.Storage.Contents(op)
	case *journal.Held: // what a consumer held when the shard was closed
		return m.Stops.apply(op)
	case journal.Move: // dead letters are given up, or leave for another queue
		return m.Letters.applyMove(op)
	case *journal.Output: // of a chunk whose completion follows: before it, no one reads the output
		m.Storage.Output(op)
	case journal.Redrive: // dead letters are offered again
		return m.Letters.ApplyRedrive(op)
	case journal.Rule: // a rule is set or lifted
		return m.Rules.apply(op)
	case *journal.Schedule: // a schedule changes, or a tick of it is over
		return m.Schedules.apply(op)
	}
	return nil
}

// Intended counts what the intents of each part have left, for the audit: nothing, while nothing is on its way to the disk.
func (p *parts) Intended(count func(what string, n int)) {
	p.Bulks.intended(count)
	p.Forwarding.intended(count)
	p.Letters.intended(count)
	p.Rules.intended(count)
	p.Schedules.intended(count)
}
