package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// AuditFilter selects entries of the audit log. Zero fields select everything.
type AuditFilter struct {
	Since, Until time.Time // entries at Since or later, and before Until
	Actor        string
	Action       string // such as "rule.create", or "rule" for all actions on rules
	Queue        string
	Target       string // such as "rule 7"
	Outcome      string // api.OutcomeOK or api.OutcomeRefused
	// Audit calls Incomplete at most once, before the first entry, with the names of queues whose latest entries may
	// be missing: those in quarantine, and in a cluster those whose node does not answer. It may be nil.
	Incomplete func(queues []string)
}

func (f *AuditFilter) query() url.Values {
	query := given("actor", f.Actor, "action", f.Action, "queue", f.Queue, "target", f.Target, "outcome", f.Outcome)
	for name, at := range map[string]time.Time{"since": f.Since, "until": f.Until} {
		if !at.IsZero() {
			query.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return query
}

// Audit returns the entries of the audit log that match the filter, the latest first.
func (c *Client) Audit(ctx context.Context, f AuditFilter) iter.Seq2[api.AuditEntry, error] {
	return pagesOf(ctx, c, "audit", "/v1/audit", f.query(), func(page *api.PageAuditEntry) ([]api.AuditEntry, string) {
		if len(page.Incomplete) > 0 && f.Incomplete != nil {
			f.Incomplete(page.Incomplete)
			f.Incomplete = nil
		}
		return page.Items, page.Next
	})
}

// FollowAudit returns new entries of the audit log that match the filter, the oldest first, until ctx ends. It begins
// at Since or, without it, now. If the stream breaks or the server restarts, it reconnects and continues, and returns
// each entry once. If the stream breaks before the first entry and there is no Since, it may also return entries of
// the ten seconds before its start. It ends after an error that a repetition does not fix: it cannot reach the server
// at the start, the server refuses the call, or cannot read the log any further. The filter must not have an Until.
func (c *Client) FollowAudit(ctx context.Context, f AuditFilter) iter.Seq2[api.AuditEntry, error] {
	return func(yield func(api.AuditEntry, error) bool) {
		if !f.Until.IsZero() {
			yield(api.AuditEntry{}, errors.New("quern: follow audit: Until must not be set: a log that is followed has no end"))
			return
		}
		follow(ctx, c, "follow audit", queried("/v1/audit", f.query()), &followed{seen: map[string]time.Time{}})(yield)
	}
}

// followed is how far a stream of the audit log has come. One that goes on sends again the entries of ten seconds before the last id, as
// entries of different queues do not come in the order of their times.
type followed struct {
	last   string               // the last id
	seen   map[string]time.Time // ids of the entries of the last minute, and perhaps of older ones, with their times
	most   time.Time            // the latest of those times
	tidied int                  // how many were left in seen when the old ones were removed
}

func (a *followed) at() (id string, begun bool) { return a.last, a.last != "" }

// take returns the entry of an event, and says whether it is new.
func (a *followed) take(got event) (entry api.AuditEntry, fresh bool, err error) {
	switch {
	case got.name == "" && got.data == "":
		a.last = got.id
		return entry, false, nil
	case got.name == "problem":
		return entry, false, problemIn(got)
	case got.name != "act":
		return entry, false, nil // of a later version
	case got.id == "":
		return entry, false, fmt.Errorf("%w: it has no id", errUnreadable)
	}
	if err := json.Unmarshal([]byte(got.data), &entry); err != nil {
		return entry, false, fmt.Errorf("%w: %s: %w", errUnreadable, got.id, err)
	}
	a.last = got.id
	if _, again := a.seen[got.id]; again {
		return entry, false, nil
	}
	a.seen[got.id] = entry.At.Time
	if entry.At.After(a.most) {
		a.most = entry.At.Time
	}
	if old := a.most.Add(-time.Minute); len(a.seen) >= 2*a.tidied+1000 {
		maps.DeleteFunc(a.seen, func(_ string, at time.Time) bool { return at.Before(old) })
		a.tidied = len(a.seen)
	}
	return entry, true, nil
}

// Whoami returns the identity that the server sees in this client.
func (c *Client) Whoami(ctx context.Context) (*api.Whoami, error) {
	return get[api.Whoami](ctx, c, "whoami", "/v1/whoami")
}

// Tokens returns the access tokens, the oldest first.
func (c *Client) Tokens(ctx context.Context) iter.Seq2[api.Token, error] {
	return pages[api.Token](ctx, c, "tokens", "/v1/tokens", nil)
}

// Token reads an access token, without its secret. api.CodeUnknownToken: there is no token with this id.
func (c *Client) Token(ctx context.Context, id string) (*api.Token, error) {
	return get[api.Token](ctx, c, "token", tokenPath(id))
}

// NewToken creates an access token. Only this answer has its text. It makes one attempt: if the answer were lost, a
// second attempt would report that the name is taken, and no one would have the text.
func (c *Client) NewToken(ctx context.Context, t *api.NewToken) (*api.Token, error) {
	return send[api.Token](ctx, c, "new token", &request{method: http.MethodPost, path: "/v1/tokens"}, t)
}

// RotateToken gives an access token a new secret. Only this answer has its text. The previous secret stays valid for
// overlap, in whole seconds. Like NewToken, it makes one attempt.
func (c *Client) RotateToken(ctx context.Context, id string, overlap time.Duration) (*api.Token, error) {
	q := &request{method: http.MethodPost, path: tokenPath(id) + "/rotate"}
	return send[api.Token](ctx, c, "rotate token", q, api.RotateToken{OverlapSeconds: int64(overlap / time.Second)})
}

// RevokeToken ends an access token. It is no error if there is no such token.
func (c *Client) RevokeToken(ctx context.Context, id string) error {
	return c.do(ctx, c.cold, "revoke token", &request{method: http.MethodDelete, path: tokenPath(id), safe: true}, new(reply))
}

func tokenPath(id string) string { return "/v1/tokens/" + url.PathEscape(id) }
