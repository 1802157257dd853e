package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

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
