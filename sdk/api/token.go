package api

// NewToken is the body of POST /v1/tokens.
type NewToken struct {
	Name      string   `json:"name"`                // who it is for: what is done with it is recorded under this name
	Scopes    []string `json:"scopes" maxItems:"7"` // produce, consume, read, metrics, operate, plugins, admin
	Queues    []string `json:"queues,omitempty" maxItems:"64"`
	Meta      Meta     `json:"meta,omitempty"` // one key with one value
	ExpiresAt Time     `json:"expires_at,omitzero"`
	Subject   string   `json:"certificate_subject,omitempty"` // of a client certificate that stands for it, such as CN=worker,O=acme
}

// Token is an access token. Its text is in the answers to POST /v1/tokens and to a rotation, and never again.
type Token struct {
	ID         string   `json:"id"`
	Token      string   `json:"token,omitempty"` // qn_<id>_<secret>
	Name       string   `json:"name"`
	Scopes     []string `json:"scopes"`
	Queues     []string `json:"queues,omitempty"`
	Meta       Meta     `json:"meta,omitempty"`
	Subject    string   `json:"certificate_subject,omitempty"` // of the client certificate that stands for it
	CreatedAt  Time     `json:"created_at"`
	ExpiresAt  Time     `json:"expires_at,omitzero"`
	LastUsedAt Time     `json:"last_used_at,omitzero"`          // to the minute
	Previous   Time     `json:"previous_secret_until,omitzero"` // until when the secret before the last rotation is good
}

// RotateToken is the body of POST /v1/tokens/{id}/rotate.
type RotateToken struct {
	OverlapSeconds int64 `json:"overlap_seconds,omitempty"` // how long the secret before stays good
}

// Whoami is who the server takes the caller for.
type Whoami struct {
	Required  bool     `json:"token_required"`   // false: no token exists, and everything is open to those who reach the server
	Name      string   `json:"name,omitempty"`   // of the token
	ID        string   `json:"id,omitempty"`     // likewise
	Scopes    []string `json:"scopes"`           // what may be done; admin implies all others
	Queues    []string `json:"queues,omitempty"` // the only queues that are seen
	Meta      Meta     `json:"meta,omitempty"`   // the only submissions that are seen
	ExpiresAt Time     `json:"expires_at,omitzero"`
	Session   *Session `json:"session,omitempty"` // of a caller that logged in with POST /v1/session
}

// Session is a login.
type Session struct {
	EndsAt      Time  `json:"ends_at"`      // however busy it is
	IdleSeconds int64 `json:"idle_seconds"` // without a request and without an open stream it ends after so long
}

// NewSession is the body of POST /v1/session.
type NewSession struct {
	Token string `json:"token"`
}
