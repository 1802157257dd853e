package api

import "encoding/json"

// NewToken is the body of POST /v1/tokens.
type NewToken struct {
	// Unique name, 1 to 128 bytes; the server records changes under it
	Name   string   `json:"name"`
	Scopes []string `json:"scopes" limit:"..MaxScopes"`                // Scopes; admin includes all others
	Queues []string `json:"queues,omitempty" limit:"..MaxTokenQueues"` // The only queues that it sees; absent: all
	// The only submissions that it sees and inserts: one key with one value; absent: all
	Meta      Meta `json:"meta,omitempty"`
	ExpiresAt Time `json:"expires_at,omitzero"` // Time when it expires; absent: never
	// Subject of a client certificate that stands for the token, as RFC 2253 writes it: CN=worker,O=acme; absent:
	// none. It works over TLS, with certificates of the authorities in --tls-client-ca
	Subject string `json:"certificate_subject,omitempty"`
}

// Token is an access token. Its text is in the answers to POST /v1/tokens and to a rotation, and never again.
type Token struct {
	ID string `json:"id"` // Id, which is not secret
	// Text of the token, qn_<id>_<secret>; only in the answer that made or rotated it
	Token  string   `json:"token,omitempty"`
	Name   string   `json:"name"`             // Name; the server records changes under it
	Scopes []string `json:"scopes"`           // Scopes; admin includes all others
	Queues []string `json:"queues,omitempty"` // The only queues that it sees; absent: all
	Meta   Meta     `json:"meta,omitempty"`   // The only submissions that it sees; absent: all
	// Subject of the client certificate that stands for it; absent: none
	Subject   string `json:"certificate_subject,omitempty"`
	CreatedAt Time   `json:"created_at"`          // Time when it was made
	ExpiresAt Time   `json:"expires_at,omitzero"` // Time when it expires; absent: never
	// Time of the last use, to the minute; after a crash, the last minutes may be missing. Absent: never used
	LastUsedAt Time `json:"last_used_at,omitzero"`
	// Time until which the previous secret is valid; absent: it is not
	Previous Time `json:"previous_secret_until,omitzero"`
}

// RotateToken is the body of POST /v1/tokens/{id}/rotate.
type RotateToken struct {
	// Time that the old secret stays valid; absent: it ends at once
	OverlapSeconds int64 `json:"overlap_seconds,omitempty" limit:"0..MaxRotationOverlapSeconds"`
}

// Whoami is who the server takes the caller for.
type Whoami struct {
	// false: there is no token yet, and everyone who reaches the server may do everything
	Required  bool     `json:"token_required"`
	Name      string   `json:"name,omitempty"`      // Name of the token; absent on an open server
	ID        string   `json:"id,omitempty"`        // Id of the token; absent on an open server
	Scopes    []string `json:"scopes"`              // Scopes of the caller; admin includes all others
	Queues    []string `json:"queues,omitempty"`    // The only queues that the caller sees; absent: all
	Meta      Meta     `json:"meta,omitempty"`      // The only submissions that the caller sees; absent: all
	ExpiresAt Time     `json:"expires_at,omitzero"` // Time when the token expires; absent: never
	Session   *Session `json:"session,omitempty"`   // For a caller with a session: its end
}

// Session is a login.
type Session struct {
	EndsAt Time `json:"ends_at"` // Latest end of the session
	// The session ends after this long without a request or an open stream
	IdleSeconds int64 `json:"idle_seconds"`
}

// NewSession is the body of POST /v1/session.
type NewSession struct {
	Token string `json:"token"` // Text of an access token
}

// Outcomes of an act.
const (
	OutcomeOK      = "ok"
	OutcomeRefused = "refused" // the token did not allow it
)

// PageAuditEntry is one page of the audit log, the latest entry first. It has the name that the document gives to a Page of entries.
type PageAuditEntry struct {
	Items []AuditEntry `json:"items"`          // The entries, the latest first
	Next  string       `json:"next,omitempty"` // Cursor of the older entries; absent if there are none
	// Names of queues whose latest entries may be missing because they are still in their journals: queues in
	// quarantine, and in a cluster those whose node does not answer
	Incomplete []string `json:"incomplete,omitempty"`
}

// AuditEntry is an entry of the audit log: something that an operator, or the holder of a token, changed or was refused.
type AuditEntry struct {
	At Time `json:"at"` // Time of the decision
	// Name of the token. On a server without tokens, the name that the client gave, or empty. Also empty for an act of
	// the server itself
	Actor      string `json:"actor"`
	OnBehalfOf string `json:"on_behalf_of,omitempty"` // Person or service from the header Quern-On-Behalf-Of
	From       string `json:"from,omitempty"`         // Address of the client; absent for an act of the server itself
	Action     string `json:"action"`                 // Action: a resource and a verb, such as rule.create
	Queue      string `json:"queue,omitempty"`        // Queue; absent for an act on the whole server
	// Object of the act, such as `rule 7`; absent for the queue or the server itself
	Target string `json:"target,omitempty"`
	// The state before; absent if there was none. If it takes more than 16 KiB, only its size
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"` // The state afterwards; absent if nothing is left
	// Id of the request, as in the header X-Request-ID of its answer
	RequestID string `json:"request_id,omitempty"`
	Outcome   string `json:"outcome" names:"outcomes"` // Whether the server did it or refused it
}
