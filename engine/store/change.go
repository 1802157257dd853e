package store

import (
	"errors"
	"fmt"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// Everything that changes the catalogue is a list of steps: statements by their names,
// with plain arguments. The steps of one change, and the entries of the audit log about
// it, are one transaction. Servers that share a catalogue apply the same steps in the same order, so the effect of a
// statement depends on its arguments and on the tables alone.

// changeStatements are the statements that change the catalogue. Their names are in the
// journals of shared catalogues: a name keeps its meaning for good.
var changeStatements = map[string]string{
	"queue.put":        "INSERT INTO queue (shard, name, settings, created) VALUES (?, ?, ?, ?)",
	"queue.settings":   "UPDATE queue SET settings = ? WHERE name = ? AND created = ?",
	"queue.drop":       "DELETE FROM queue WHERE name = ?", // of earlier versions
	queueEnd:           "DELETE FROM queue WHERE name = ? AND created = ?",
	"queue.quarantine": "UPDATE queue SET quarantined = nullif(?, 0), oldest = nullif(?, 0) WHERE name = ?",
	"leftover.put":     "INSERT OR REPLACE INTO leftover (shard) VALUES (?)",
	"leftover.of":      "INSERT OR REPLACE INTO leftover (shard) SELECT shard FROM queue WHERE name = ?",
	"leftover.drop":    "DELETE FROM leftover WHERE shard = ?",
	"group.put":        "INSERT INTO queue_group (queue, name, shard, created) VALUES (?, ?, ?, ?)",
	"group.move":       groupMove,
	"group.drop":       "DELETE FROM queue_group WHERE queue = ?",
	putInitialRule: "INSERT INTO initial_rule (id, action, match, reason, actor, since, until, inserts, revokes) " +
		"SELECT coalesce(max(id), 0) + 1, ?, ?, ?, ?, ?, ?, ?, ? FROM initial_rule WHERE true " +
		"ON CONFLICT (action, match) DO UPDATE SET reason = excluded.reason, actor = excluded.actor, " +
		"until = excluded.until, inserts = excluded.inserts, revokes = excluded.revokes",
	"initial.move": "INSERT INTO initial_rule (id, action, match, reason, actor, since, until, inserts, revokes) " +
		"VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
	"initial.drop": "DELETE FROM initial_rule WHERE id = ?",
	"initial.end":  "DELETE FROM initial_rule WHERE until > 0 AND until <= ?",
	"secret.put":   "INSERT INTO secret (name, bytes) VALUES (?, ?) ON CONFLICT (name) DO NOTHING",

	"plugin.version": "INSERT INTO plugin_version (sha256, name, version, state, reason, size, manifest, " +
		"report, created, actor, module) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	pluginState:           "UPDATE plugin_version SET state = ?, reason = ? WHERE sha256 = ?",
	"plugin.version.drop": "DELETE FROM plugin_version WHERE sha256 = ?",
	"plugin.put": "INSERT INTO plugin (name, revision, active, active_config, previous, previous_config, " +
		"shadow, shadow_config, canary, canary_config, percent, settings, changed, actor) VALUES (?, ?, ?, ?, ?, ?, " +
		"?, ?, ?, ?, ?, ?, ?, ?) " +
		"ON CONFLICT (name) DO UPDATE SET revision = excluded.revision, active = excluded.active, active_config = " +
		"excluded.active_config, previous = excluded.previous, previous_config = excluded.previous_config, " +
		"shadow = excluded.shadow, shadow_config = excluded.shadow_config, canary = excluded.canary, canary_config = " +
		"excluded.canary_config, percent = excluded.percent, settings = excluded.settings, changed = " +
		"excluded.changed, actor = excluded.actor",
	"plugin.versions.drop": "DELETE FROM plugin_version WHERE name = ?",
	"plugin.drop":          "DELETE FROM plugin WHERE name = ?",

	"token.put": "INSERT INTO token (id, name, scopes, queues, meta_key, meta_value, created, expires, used, secret, " +
		"previous, previous_until, subject) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	"token.rotate":    "UPDATE token SET secret = ?, previous = ?, previous_until = ? WHERE id = ?",
	"token.drop":      "DELETE FROM token WHERE id = ?",
	"token.used":      "UPDATE token SET used = max(coalesce(used, 0), ?) WHERE id = ?",
	"token.end":       "UPDATE token SET expires = ?, previous = ?, previous_until = ? WHERE id = ? AND secret = ?",
	"access.required": "INSERT INTO access (one, required) VALUES (1, 1) ON CONFLICT (one) DO UPDATE SET required = 1",

	"audit.put": "INSERT OR IGNORE INTO audit (shard, number, at, queue, crc, bytes) VALUES (?, ?, ?, ?, ?, ?)",
	"audit.trim": "DELETE FROM audit WHERE rowid IN (SELECT rowid FROM audit WHERE at < ? ORDER BY at, shard, number " +
		"LIMIT ?)",
}

// These statements are an error when they change nothing.
const (
	pluginState = "plugin.state"
	queueEnd    = "queue.end"
)

var errNothingChanged = errors.New("there is none")

// conditions are steps that refuse a change unless their statement finds a row. Servers decide from what they read,
// and another server may have changed that before the change comes to the tables. Without a condition, such a change
// would undo the other one: a token that was rotated here and revoked there would be good again.
var conditions = map[string]string{
	"if.plugin":  "SELECT 1 WHERE coalesce((SELECT revision FROM plugin WHERE name = ?), 0) = ?",
	"if.version": "SELECT 1 FROM plugin_version WHERE sha256 = ?",
	"if.token":   "SELECT 1 FROM token WHERE id = ? AND secret = ?",
}

var errOvertaken = errors.New("it was changed meanwhile")

// do is a step of a change.
func do(name string, args ...any) journal.Step { return journal.Step{Name: name, Args: args} }

// change makes a change that an operator asked for, perhaps twice: see Around.
func (c *Catalogue) change(operation string, acts []queue.Act, steps ...journal.Step) error {
	defer c.shared.begin(&c.mu)()
	x := journal.Change{Steps: steps, Acts: acts}
	change := func() error {
		_, err := c.make(&x)
		return wrap(operation, err)
	}
	if c.Around != nil {
		return c.Around(change)
	}
	return change()
}

// note makes a change that no operator asked for, and says how many rows it changed. No room is made for it on a full
// disk.
func (c *Catalogue) note(operation string, acts []queue.Act, steps ...journal.Step) (rows int64, err error) {
	defer c.shared.begin(&c.mu)()
	rows, err = c.make(&journal.Change{Steps: steps, Acts: acts})
	return rows, wrap(operation, err)
}

// make makes a change durable, and does it. It is the caller's turn (begin). A shared catalogue has the change in its
// journal first, and then in its own tables.
func (c *Catalogue) make(x *journal.Change) (rows int64, err error) {
	if c.shared != nil {
		return c.append(x)
	}
	return c.apply(x)
}

// apply does a change in one transaction. The caller holds c.mu. The entries of the audit log are in the same
// transaction, so there is no change without its entry.
func (c *Catalogue) apply(x *journal.Change) (rows int64, err error) {
	err = c.conn.Tx(func() error {
		for i := range x.Steps {
			n, err := c.step(&x.Steps[i])
			if err != nil {
				return err
			}
			rows += n
			if x.Steps[i].Name == putInitialRule {
				if err := aimAtRule(c.initialRules, &x.Steps[i], x.Acts); err != nil {
					return err
				}
			}
		}
		return c.logActs(x.Acts)
	})
	return rows, err
}

func (c *Catalogue) step(s *journal.Step) (rows int64, err error) {
	if s.Name == restoreBegins || s.Name == restoreEnds {
		c.restoring = s.Name == restoreBegins
		return 0, nil
	}
	stmt := c.changes[s.Name]
	if stmt == nil {
		// Passing over it would let this node decide from another catalogue than the others have.
		return 0, fmt.Errorf("the change %q is not known: a newer Quern made it", s.Name)
	}
	if conditions[s.Name] != "" {
		overtaken := errOvertaken
		err = stmt.Query(func(sqlitedb.Row) (bool, error) { overtaken = nil; return false, nil }, s.Args...)
		return 0, errors.Join(err, overtaken)
	}
	rows, err = stmt.Exec(s.Args...)
	if err == nil && rows == 0 && (s.Name == pluginState || s.Name == queueEnd) {
		err = errNothingChanged
	}
	return rows, err
}

// prepareChanges prepares the statements that change the catalogue. At the start, so that a statement that does not
// fit the tables is found before any change needs it.
func (c *Catalogue) prepareChanges() (err error) {
	c.changes = map[string]*sqlitedb.Stmt{}
	for _, statements := range []map[string]string{changeStatements, conditions} {
		for name, sql := range statements {
			if c.changes[name], err = c.conn.Prepare(sql); err != nil {
				return err
			}
		}
	}
	return nil
}
