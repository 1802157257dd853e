package store

import (
	"fmt"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// Initial rules: the rules that each new queue begins with. They are in the catalogue, so that all nodes of a cluster
// know them, and a queue has them wherever it is created.

// initialRuleTable is version 3 of the catalogue. match is the text of conditions, and empty for the whole queue.
const initialRuleTable = "CREATE TABLE initial_rule (id INTEGER PRIMARY KEY, action TEXT NOT NULL, " +
	"match TEXT NOT NULL, reason TEXT NOT NULL, actor TEXT NOT NULL, since INTEGER NOT NULL, until INTEGER NOT NULL, " +
	"inserts INTEGER NOT NULL, revokes INTEGER NOT NULL, UNIQUE (action, match)) STRICT"

// InitialRules lists the initial rules by ascending id, also those that are over.
func InitialRules(c *Catalogue) (all []queue.Rule, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, err = rowsOf(c.initialRules, func(row sqlitedb.Row) (queue.Rule, error) {
		r := queue.Rule{ID: queue.RuleID(row.Int(0)), Reason: row.Text(3), Actor: row.Text(4),
			Since: queue.Time(row.Int(5)), Until: queue.Time(row.Int(6)), Insert: row.Int(7) != 0,
			Revoke: row.Int(8) != 0}
		known := false
		if r.Action, known = queue.ParseRuleAction(row.Text(1)); !known {
			return r, c.damaged(nil, "an initial rule with the action %q", row.Text(1))
		}
		if text := row.Text(2); text != "" {
			conditions, err := queue.ParseConditions(text)
			if err != nil {
				return r, c.damaged(err, "an initial rule about %q", text)
			}
			r.Match = queue.MatchOf(conditions)
		}
		return r, nil
	})
	return all, wrap("initial rules", err)
}

// PutInitialRule stores an initial rule durably. One with the same action and match takes its place, and keeps its id
// and its beginning. Rules that had ended by the time `now` are removed.
func PutInitialRule(c *Catalogue, r *queue.Rule, now queue.Time, acts ...queue.Act) error {
	match := ""
	if !r.Match.Whole() {
		match = r.Match.Conditions().Text()
	}
	return c.change("put initial rule", acts, do("initial.end", int64(now)),
		do(putInitialRule, r.Action.String(), match, r.Reason, r.Actor, int64(r.Since),
			int64(r.Until), oneIf(r.Insert), oneIf(r.Revoke)))
}

const putInitialRule = "initial.put"

// aimAtRule has the entries of the audit log name the rule that a step has put. Only the tables know its id.
func aimAtRule(rules *sqlitedb.Stmt, put *journal.Step, acts []queue.Act) error {
	return rules.Query(func(row sqlitedb.Row) (bool, error) {
		if row.Text(1) == put.Args[0] && row.Text(2) == put.Args[1] {
			for i := range acts {
				acts[i].Target = fmt.Sprintf("initial rule %d", row.Int(0))
			}
		}
		return true, nil
	})
}

// DropInitialRule removes an initial rule durably. One that is not there is removed already.
func DropInitialRule(c *Catalogue, id queue.RuleID, acts ...queue.Act) error {
	return c.change("drop initial rule", acts, do("initial.drop", int64(id)))
}

// oneIf is a yes or no as a column of whole numbers has it.
func oneIf(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
