package rules

import (
	"fmt"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// changed has the row written again.
func (p *Part) changed() { p.m.Asides.Changed(machine.AsideRules, 0) }

// Row is the row that the store keeps of rules. It says up to where it is true: a replay
// of what came before would not be without effect, as a submission may have been opened
// again since, and have new rules.
func (p *Part) Row(uint64) []byte {
	row := journal.Rules{Position: p.m.AppliedAt, Last: p.Last(), Rules: p.List(), Ended: p.past.list}
	p.Graces(p.m.Now, func(match queue.RuleMatch, until queue.Time) {
		row.Graces = append(row.Graces, journal.Grace{Match: match, Until: until})
	})
	return journal.AppendRules(nil, &row)
}

// Load reads the row.
func (p *Part) Load(_ uint64, row []byte) error {
	known, err := journal.DecodeRules(row)
	if err != nil {
		return fmt.Errorf("%w: %w", machine.AsideError(machine.AsideRules), err)
	}
	p.stored = known.Position
	p.SetLast(known.Last)
	for _, r := range known.Rules {
		p.Put(r)
	}
	for _, g := range known.Graces {
		p.SetGrace(g.Match, g.Until)
	}
	p.past.list = known.Ended
	return nil
}
