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

// AuditFilter says which entries of the audit log are meant; what is zero does not count.
type AuditFilter struct {
	Since, Until time.Time // from this time on; before that one
	Actor        string
	Action       string // whole, such as "rule.create", or all of a resource: "rule"
	Queue        string
	Target       string // such as "rule 7"
	Outcome      string // api.OutcomeOK or api.OutcomeRefused
	// Incomplete is called at most once, before the first entry of a list, with the names of queues whose latest entries
	// may be missing: those in quarantine, and in a cluster those whose node does not answer. It may be nil.
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

// Audit goes through the entries of the audit log that the filter means, the latest first.
func (c *Client) Audit(ctx context.Context, f AuditFilter) iter.Seq2[api.AuditEntry, error] {
	return pagesOf(ctx, c, "audit", "/v1/audit", f.query(), func(page *api.PageAuditEntry) ([]api.AuditEntry, string) {
		if len(page.Incomplete) > 0 && f.Incomplete != nil {
			f.Incomplete(page.Incomplete)
			f.Incomplete = nil
		}
		return page.Items, page.Next
	})
}

// FollowAudit goes through the entries of the audit log that the filter means as they come, until ctx ends: those from Since
// on, or, without it, those from now on. It begins with the oldest; an entry that becomes visible late comes late. When the stream is
// cut, or the server restarts, it tries until it can go on where it was: no entry is missed, and none comes twice. When it is cut before
// the first entry, and there is no Since, entries of the ten seconds before it began may come as well. It ends after the first error,
// which is one that trying again does not fix: the server cannot be reached at the start, or refuses, or the log cannot be read further.
// The filter must not have an Until.
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

// take says what an event tells, and whether it is an entry that is new.
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

// Whoami says who the server takes this client for.
func (c *Client) Whoami(ctx context.Context) (*api.Whoami, error) {
	return get[api.Whoami](ctx, c, "whoami", "/v1/whoami")
}

// Tokens goes through the access tokens, the oldest first.
func (c *Client) Tokens(ctx context.Context) iter.Seq2[api.Token, error] {
	return pages[api.Token](ctx, c, "tokens", "/v1/tokens", nil)
}

// Token reads what is known of an access token. api.CodeUnknownToken: there is none of this id.
func (c *Client) Token(ctx context.Context, id string) (*api.Token, error) {
	return get[api.Token](ctx, c, "token", tokenPath(id))
}

// NewToken makes an access token; the answer has its text, which is not shown again. It is tried once: after a lost answer a second try
// would be answered that there is a token of this name, and no one has its text.
func (c *Client) NewToken(ctx context.Context, t *api.NewToken) (*api.Token, error) {
	return send[api.Token](ctx, c, "new token", &request{method: http.MethodPost, path: "/v1/tokens"}, t)
}

// RotateToken gives an access token another secret; the answer has its text, which is not shown again. The secret before stays good for
// overlap, in whole seconds. It is tried once, like NewToken.
func (c *Client) RotateToken(ctx context.Context, id string, overlap time.Duration) (*api.Token, error) {
	q := &request{method: http.MethodPost, path: tokenPath(id) + "/rotate"}
	return send[api.Token](ctx, c, "rotate token", q, api.RotateToken{OverlapSeconds: int64(overlap / time.Second)})
}

// RevokeToken ends an access token. To revoke one that is not there is no error.
func (c *Client) RevokeToken(ctx context.Context, id string) error {
	return c.do(ctx, c.cold, "revoke token", &request{method: http.MethodDelete, path: tokenPath(id), safe: true}, new(reply))
}

func tokenPath(id string) string { return "/v1/tokens/" + url.PathEscape(id) }
