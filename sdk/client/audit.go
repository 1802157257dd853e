package client

import (
	"context"
	"iter"
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
}

func (f *AuditFilter) query() url.Values {
	query := url.Values{}
	for name, value := range map[string]string{"actor": f.Actor, "action": f.Action, "queue": f.Queue, "target": f.Target,
		"outcome": f.Outcome} {
		if value != "" {
			query.Set(name, value)
		}
	}
	for name, at := range map[string]time.Time{"since": f.Since, "until": f.Until} {
		if !at.IsZero() {
			query.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return query
}

// Audit goes through the entries of the audit log that the filter means, the latest first.
func (c *Client) Audit(ctx context.Context, f AuditFilter) iter.Seq2[api.AuditEntry, error] {
	return pages[api.AuditEntry](ctx, c, "audit", "/v1/audit", f.query())
}
