package shard

import "github.com/quern-queue/quern/engine/journal"

// parts are the features of the machine. Each has its own state and its own ops, and a file with its name says what changes it; the
// machine itself has submissions, their chunks and reservations. A part reaches the machine, and others through it.
type parts struct {
	actLog      actLog
	asides      asides
	bulks       bulks
	ends        ends
	forwarding  forwarding
	letters     deadLetters
	lifecycle   lifecycle
	orphans     orphans
	recount     recount
	rules       activeRules
	schedules   schedules
	scorings    scorings
	stops       stops
	suspects    suspects
	valueLimits valueLimits
}

// of makes them for a machine.
func (p *parts) of(m *machine) {
	*p = parts{
		actLog: actLog{m: m}, asides: asides{m: m, rows: map[aside]struct{}{}}, bulks: bulks{m: m},
		ends:       ends{m: m},
		forwarding: newForwarding(m), letters: newDeadLetters(m), lifecycle: lifecycle{m: m}, orphans: orphans{m: m},
		recount: recount{m: m}, rules: newActiveRules(m), schedules: newSchedules(m),
		scorings: scorings{m: m, byKey: map[string]*scoring{}}, stops: stops{m: m}, suspects: suspects{m: m},
		valueLimits: valueLimits{m: m},
	}
}

// ApplyPart gives an op to the part that owns it.
func (m *machine) ApplyPart(op journal.PartOp) error {
	switch op := op.(type) {
	case *journal.Act: // an entry for the audit log
		return m.actLog.apply(op)
	case *journal.Bulk: // a bulk operation begins, or got further
		return m.bulks.apply(op)
	case *journal.Contents: // the bytes of a submission whose insert follows
		m.storage.contents(op)
	case *journal.Held: // what a consumer held when the shard was closed
		return m.stops.apply(op)
	case journal.Move: // dead letters are given up, or leave for another queue
		return m.letters.applyMove(op)
	case *journal.Output: // of a chunk whose completion follows: before it, no one reads the output
		m.storage.output(op)
	case journal.Redrive: // dead letters are offered again
		return m.letters.applyRedrive(op)
	case journal.Rule: // a rule is set or lifted
		return m.rules.apply(op)
	case *journal.Schedule: // a schedule changes, or a tick of it is over
		return m.schedules.apply(op)
	}
	return nil
}

// intended counts what the intents of each part have left, for the audit: nothing, while nothing is on its way to the disk.
func (p *parts) intended(count func(what string, n int)) {
	p.bulks.intended(count)
	p.forwarding.intended(count)
	p.letters.intended(count)
	p.rules.intended(count)
	p.schedules.intended(count)
}
