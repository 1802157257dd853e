package store

// Access tokens in the catalogue: their hashes, never their secrets. An expired token stays expired
// although the clock may be set back: its expiry is then stored negative (token.end).

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// tokenStatements read the tables about access tokens.
type tokenStatements struct{ list, required *sqlitedb.Stmt }

// The list has all tokens: there are few, the server keeps them in memory, and it only reads them at its start. The
// order is that of their creation, so that a list does not change its order when a token is rotated.
func (s *tokenStatements) prepare() []prepared {
	return []prepared{
		{&s.list, "SELECT id, name, scopes, queues, meta_key, meta_value, created, expires, used, secret, previous, " +
			"previous_until, subject FROM token ORDER BY created, id"},
		{&s.required, "SELECT required FROM access"},
	}
}

// Tokens are all access tokens, the oldest first, and whether requests need one.
// `required` is a row of its own. It stays true when the last token is revoked, so that revoking a token never opens a
// server to everyone.
func (c *Catalogue) Tokens() (all []access.Token, required bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, err = rowsOf(c.token.list, func(row sqlitedb.Row) (access.Token, error) {
		t, err := tokenOf(row)
		if err != nil {
			err = c.damaged(err, "an access token %q that cannot be read", row.Text(0))
		}
		return t, err
	})
	if err == nil {
		err = c.token.required.Query(func(row sqlitedb.Row) (bool, error) {
			required = row.Int(0) != 0
			return false,
				nil
		})
	}
	if err != nil {
		return nil, false, wrap("tokens", err)
	}
	return all, required, nil
}

// A row that cannot be read fails the whole list. To pass over one would take a client's access away silently, or,
// for a token with a restriction that is lost, give it more than it had.
func tokenOf(row sqlitedb.Row) (t access.Token, err error) {
	t = access.Token{
		ID: access.ID(row.Text(0)), Name: row.Text(1), Created: queue.Time(row.Int(6)),
		Expires:       queue.Time(max(row.Int(7), -row.Int(7))),
		Expired:       row.Int(7) < 0,
		Used:          queue.Time(row.Int(8)),
		PreviousUntil: queue.Time(row.Int(11)), Subject: row.Text(12), Use: new(access.Use),
	}
	for name := range strings.SplitSeq(row.Text(2), ",") {
		scope := access.ParseScope(name)
		if scope == access.None {
			return t, fmt.Errorf("scope %q", name)
		}
		t.Scopes |= scope
	}
	if err := json.Unmarshal([]byte(row.Text(3)), &t.Queues); err != nil {
		return t, fmt.Errorf("queues: %w", err)
	}
	if row[4] != nil {
		t.Entry.Key = row.Text(4)
		switch value := row[5].(type) {
		case int64:
			t.Entry.Value = queue.IntValue(value)
		case string:
			t.Entry.Value = queue.StringValue(value)
		default:
			return t, fmt.Errorf("no value of the key %q", t.Entry.Key)
		}
	}
	for _, at := range []struct {
		from []byte
		to   *access.Hash
	}{{row.Blob(9), &t.Secret}, {row.Blob(10), &t.Previous}} {
		if at.from != nil && copy(at.to[:], at.from) != len(at.from) || at.from != nil && len(at.from) != len(at.to) {
			return t, fmt.Errorf("a hash of %d bytes", len(at.from))
		}
	}
	if t.Secret == (access.Hash{}) || !access.ValidID(string(t.ID)) {
		return t, fmt.Errorf("no secret, or an id that is none")
	}
	return t, nil
}

// PutToken stores a new token durably, and that requests need one from now on.
// The first token closes the server: `required` is set in the same commit, so there is no moment with a token and
// an open server after a crash.
func (c *Catalogue) PutToken(t access.Token, acts ...queue.Act) error {
	queues, err := json.Marshal(t.Queues)
	if err != nil {
		return wrap("put token", err)
	}
	args := []any{string(t.ID), t.Name, t.Scopes.String(), string(queues), nil, nil, int64(t.Created),
		expiresOf(&t), orNull(t.Used), t.Secret[:], nil, orNull(t.PreviousUntil), nil}
	if t.Tenant() {
		args[4], args[5] = t.Entry.Key, any(t.Entry.Value.Text())
		if t.Entry.Value.IsInt() {
			args[5] = t.Entry.Value.Int()
		}
	}
	if t.Subject != "" {
		args[12] = t.Subject
	}
	args[10] = previousOf(&t)
	return c.change("put token", acts, do("token.put", args...), do("access.required"))
}

// expiresOf is the column expires: negative once the token has expired for good.
func expiresOf(t *access.Token) any {
	if t.Expired {
		return -int64(t.Expires)
	}
	return orNull(t.Expires)
}

func previousOf(t *access.Token) any {
	if t.PreviousUntil == 0 {
		return nil
	}
	return t.Previous[:]
}

// RotateToken stores the secrets of a token durably. The token must still be there, with the secret that it had when
// the caller read it: of two servers that rotate it at once, only one may hand out a new secret, because the secret of
// the other one would not be good.
func RotateToken(c *Catalogue, t *access.Token, had access.Hash, acts ...queue.Act) error {
	return c.change("rotate token", acts, do("if.token", string(t.ID), had[:]),
		do("token.rotate", t.Secret[:], previousOf(t), orNull(t.PreviousUntil), string(t.ID)))
}

// EndTokens stores durably, in one commit, that these tokens, or their secrets from before the last rotation, have
// ended. It passes over a token that was rotated meanwhile. These changes are the server's own, made when a time has
// come, and so have no entry in the audit log.
func (c *Catalogue) EndTokens(list []access.Token) error {
	var steps []journal.Step
	for i := range list {
		t := &list[i]
		steps = append(steps, do("token.end", expiresOf(t), previousOf(t), orNull(t.PreviousUntil), string(t.ID),
			t.Secret[:]))
	}
	_, err := c.note("end tokens", nil, steps...)
	return err
}

func orNull(t queue.Time) any {
	if t == 0 {
		return nil
	}
	return int64(t)
}

// DeleteToken removes a token durably. One that is not there is removed already.
func (c *Catalogue) DeleteToken(id access.ID, acts ...queue.Act) error {
	return c.change("delete token", acts, do("token.drop", string(id)))
}

// UseTokens writes down when tokens were used last, all in one commit.
// It is called every now and then for all that were used since, not at each use: a write per call would cost more
// than the call.
func (c *Catalogue) UseTokens(last map[access.ID]queue.Time) error {
	var steps []journal.Step
	for id, at := range last {
		steps = append(steps, do("token.used", int64(at), string(id)))
	}
	_, err := c.note("use tokens", nil, steps...)
	return err
}
