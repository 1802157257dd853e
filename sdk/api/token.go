package api

// NewToken is the body of POST /v1/tokens.
type NewToken struct {
	// Who it is for, 1 to 128 bytes: what is done with it is recorded under this name, which no other token may have
	Name   string   `json:"name"`
	Scopes []string `json:"scopes" limit:"..MaxScopes"`                // What it may do; admin implies all others
	Queues []string `json:"queues,omitempty" limit:"..MaxTokenQueues"` // The only queues that it sees; absent: all
	// The only submissions that it sees, and the only ones that it inserts: one key with one value; absent: all
	Meta      Meta `json:"meta,omitempty"`
	ExpiresAt Time `json:"expires_at,omitzero"` // When it ends by itself; absent: when it is revoked
	// Subject of a client certificate that is to stand for the token, as RFC 2253 writes it: CN=worker,O=acme; absent: none. It counts
	// over TLS, from authorities of --tls-client-ca
	Subject string `json:"certificate_subject,omitempty"`
}

// Token is an access token. Its text is in the answers to POST /v1/tokens and to a rotation, and never again.
type Token struct {
	ID string `json:"id"` // Names it; no secret
	// Its text, qn_<id>_<secret>, in the answer that made or rotated it and never again
	Token     string   `json:"token,omitempty"`
	Name      string   `json:"name"`                          // Who it is for: what is done with it is recorded under this name
	Scopes    []string `json:"scopes"`                        // What it may do; admin implies all others
	Queues    []string `json:"queues,omitempty"`              // The only queues that it sees; absent: all
	Meta      Meta     `json:"meta,omitempty"`                // The only submissions that it sees; absent: all
	Subject   string   `json:"certificate_subject,omitempty"` // Subject of the client certificate that stands for it; absent: none
	CreatedAt Time     `json:"created_at"`                    // When it was made
	ExpiresAt Time     `json:"expires_at,omitzero"`           // When it ends by itself; absent: when it is revoked
	// When it was used last, to the minute; after a crash the last minutes may be missing. Absent: never
	LastUsedAt Time `json:"last_used_at,omitzero"`
	Previous   Time `json:"previous_secret_until,omitzero"` // Until when the secret before the last rotation is good; absent: it is not
}

// RotateToken is the body of POST /v1/tokens/{id}/rotate.
type RotateToken struct {
	// How long the secret before stays good; absent: it ends at once
	OverlapSeconds int64 `json:"overlap_seconds,omitempty" limit:"0..MaxRotationOverlapSeconds"`
}

// Whoami is who the server takes the caller for.
type Whoami struct {
	// false: there is no token yet, and everything is open to those who reach the server
	Required  bool     `json:"token_required"`
	Name      string   `json:"name,omitempty"`      // The token's name; absent where none is required
	ID        string   `json:"id,omitempty"`        // The token's id; likewise
	Scopes    []string `json:"scopes"`              // What may be done; admin implies all others
	Queues    []string `json:"queues,omitempty"`    // The only queues that are seen; absent: all
	Meta      Meta     `json:"meta,omitempty"`      // The only submissions that are seen; absent: all
	ExpiresAt Time     `json:"expires_at,omitzero"` // When the token ends by itself; absent: when it is revoked
	Session   *Session `json:"session,omitempty"`   // Of a caller with a session: when that ends
}

// Session is a login.
type Session struct {
	EndsAt      Time  `json:"ends_at"`      // When it ends, however busy it is
	IdleSeconds int64 `json:"idle_seconds"` // After so long without a request and without an open stream it ends
}

// NewSession is the body of POST /v1/session.
type NewSession struct {
	Token string `json:"token"` // An access token's text
}
