package shard

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/bulks"
	"github.com/quern-queue/quern/engine/shard/deadletters"
	"github.com/quern-queue/quern/engine/shard/deletions"
	"github.com/quern-queue/quern/engine/shard/ends"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/recount"
	"github.com/quern-queue/quern/engine/shard/rules"
	"github.com/quern-queue/quern/engine/shard/schedules"
	"github.com/quern-queue/quern/engine/shard/scoring"
	"github.com/quern-queue/quern/engine/shard/settings"
	"github.com/quern-queue/quern/engine/shard/snapshots"
	"github.com/quern-queue/quern/engine/shard/stops"
)

// parts are the features of a machine that are packages of their own. A recovery makes
// them with their machine, and a reload replaces both.
type parts struct {
	bulks     *bulks.Part
	letters   *deadletters.Part
	deletions *deletions.Part
	ends      *ends.Part
	recount   *recount.Part
	rules     *rules.Part
	schedules *schedules.Part
	scoring   *scoring.Part
	settings  *settings.Part
	snapshots *snapshots.Part
	stops     *stops.Part
}

// join makes the parts of a machine. It has all events that they hear of, in their order.
func join(m *machine.Machine) parts {
	letters := deadletters.New(m)
	p := parts{
		bulks: bulks.New(m, letters), letters: letters, deletions: deletions.New(m),
		ends: ends.New(m), rules: rules.NewPart(m),
		schedules: schedules.New(m), scoring: scoring.New(m), settings: settings.New(m),
		snapshots: snapshots.New(m), stops: stops.New(m),
	}
	p.recount = recount.New(m, map[recount.Counter]recount.Total{recount.QueueEndedLetters: endedLetters(m, letters)})
	p.recount.Relist = letters.Recounted
	m.Joined = machine.Joined{
		Parts: []machine.Part{p.bulks, p.letters, p.deletions, p.rules, p.schedules, p.settings, p.snapshots,
			p.stops},
		Rows:      p.letters.Rows(),
		Steps:     map[machine.Kind]machine.Step{machine.KindRule: p.rules.Step},
		Rules:     p.rules,
		Began:     []func(){p.stops.Began, p.ends.Began},
		Opened:    []func(*machine.Record){p.schedules.Opened},
		Failing:   []func(*machine.Record, string, queue.Time){p.schedules.Failing},
		Uncounted: []func(){p.bulks.Uncounted, p.schedules.Uncounted},
		Replayed:  []func(){p.letters.Replayed, p.rules.Replayed},
		Offered:   []func(){p.schedules.Replayed, p.settings.Replayed},
		Inserting: []func(*journal.Insert){p.letters.Inserting},
		Dying:     []func(*machine.Record, uint32, queue.Time){p.letters.Dying},
		Died:      []func(*machine.Record, uint32, int){p.letters.Died},
		Ended:     []func(*machine.Record){p.letters.Ended, p.rules.Ended, p.ends.Ended, p.schedules.Ended},
		Ruled:     []func(){p.schedules.Ruled},
		Audited:   []func() error{p.letters.Audit, p.rules.Audit},
		Retried:   []func(machine.Action) bool{p.schedules.Retried},
	}
	m.Joined.Rows[machine.AsideBulk], m.Joined.Rows[machine.AsideSet] = p.bulks, p.settings
	m.Joined.Rows[machine.AsideSnapshot], m.Joined.Rows[machine.AsideRules] = p.snapshots, p.rules
	m.Joined.Rows[machine.AsideSchedule], m.Joined.Rows[machine.AsideDeletion] = p.schedules, p.deletions
	m.Joined.Rows[machine.AsideEpoch] = p.ends
	return p
}

// endedLetters is how many dead letters ended submissions have, for recounts.
func endedLetters(m *machine.Machine, p *deadletters.Part) recount.Total {
	total := recount.Of(&m.Stats.EndedLetters)
	total.Parts = func() int { return len(p.OfEnded) }
	total.Sum = func() (n uint64) {
		for _, letters := range p.OfEnded {
			n += uint64(letters)
		}
		return n
	}
	return total
}

// carry takes over the counters that continue over a reload.
func (p *parts) carry(old *parts) {
	p.bulks.Totals.Add(old.bulks.Totals, queue.BulkCounts{})
	p.schedules.Totals.Add(&queue.ScheduleCounts{}, &old.schedules.Totals.ScheduleCounts)
}
