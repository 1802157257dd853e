package rules

import (
	"fmt"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// Rows are what the store is to know of rules, and of those that have ended; nil: it does.
type Rows struct{ Standing, Past []byte }

// Rows makes them. The mutex is held.
func (p *Part) Rows(now queue.Time) (rows Rows) {
	if p.changed {
		p.changed = false
		row := journal.Rules{Position: p.m.AppliedAt, Last: p.Last(), Rules: p.List()}
		p.Graces(now, func(match queue.RuleMatch, until queue.Time) {
			row.Graces = append(row.Graces, journal.Grace{Match: match, Until: until})
		})
		rows.Standing = journal.AppendRules(nil, &row)
	}
	if p.pastChanged {
		p.pastChanged = false
		rows.Past = journal.AppendEndedRules(nil, p.past.List())
	}
	return rows
}

// Unstored has rows be made again that could not be written.
func (p *Part) Unstored(rows Rows) {
	p.changed = p.changed || rows.Standing != nil
	p.pastChanged = p.pastChanged || rows.Past != nil
}

// Load reads rows.
func (p *Part) Load(rows Rows) error {
	known, err := journal.DecodeRules(rows.Standing)
	if err != nil {
		return fmt.Errorf("store: rules: %w", err)
	}
	p.stored = known.Position
	p.SetLast(known.Last)
	for _, r := range known.Rules {
		p.Put(r)
	}
	for _, g := range known.Graces {
		p.SetGrace(g.Match, g.Until)
	}
	ended, err := journal.DecodeEndedRules(rows.Past)
	if err != nil {
		return fmt.Errorf("store: rules that have ended: %w", err)
	}
	for _, r := range ended {
		p.past.Add(r)
	}
	return nil
}

// Ends lists the last queue.MaxEndedRules rules that have ended, the one that ended first in front.
func (p *Part) Ends() []queue.EndedRule { return p.past.List() }
