package shard

import "github.com/quern-queue/quern/engine/journal"

// parts are the features of the machine. Each has its own state and its own ops, and a file with its name says what changes it; the
// machine itself has submissions, their chunks and reservations. A part reaches the machine, and others through it.
type parts struct {
	actLog      actLog
	asides      asides
	auditor     auditor
	bulks       bulks
	forwarding  forwarding
	letters     deadLetters
	lifecycle   lifecycle
	orphans     orphans
	questions   questions
	recount     recount
	rules       activeRules
	schedules   schedules
	scorings    scorings
	suspects    suspects
	valueLimits valueLimits
}

// of makes them for a machine.
func (p *parts) of(m *machine) {
	*p = parts{
		actLog: actLog{m: m}, asides: asides{m: m, rows: map[aside]struct{}{}}, auditor: auditor{m}, bulks: bulks{m: m},
		forwarding: newForwarding(m), letters: newDeadLetters(m), lifecycle: lifecycle{m: m}, orphans: orphans{m: m},
		questions: questions{m}, recount: recount{m: m}, rules: newActiveRules(m), schedules: newSchedules(m),
		scorings: scorings{m: m, byKey: map[string]*scoring{}}, suspects: suspects{m: m}, valueLimits: valueLimits{m: m},
	}
}

// The ops that a part owns.

// ApplyAct: an entry for the audit log.
func (m *machine) ApplyAct(a *journal.Act) error { return m.actLog.apply(a) }

// ApplyBulk: a bulk operation begins, or got further.
func (m *machine) ApplyBulk(op *journal.Bulk) error { return m.bulks.apply(op) }

// ApplyMove: dead letters are given up, or leave for another queue.
func (m *machine) ApplyMove(op journal.Move) error { return m.letters.applyMove(op) }

// ApplyRedrive: dead letters are offered again.
func (m *machine) ApplyRedrive(op journal.Redrive) error { return m.letters.applyRedrive(op) }

// ApplyRule: a rule is set or lifted.
func (m *machine) ApplyRule(op journal.Rule) error { return m.rules.apply(op) }

// ApplySchedule: a schedule changes, or a tick of it is over.
func (m *machine) ApplySchedule(op *journal.Schedule) error { return m.schedules.apply(op) }

// intended counts what the intents of each part have left, for the audit: nothing, while nothing is on its way to the disk.
func (p *parts) intended(count func(what string, n int)) {
	p.bulks.intended(count)
	p.forwarding.intended(count)
	p.letters.intended(count)
	p.rules.intended(count)
	p.schedules.intended(count)
}
