package client

import (
	"context"

	"github.com/quern-queue/quern/sdk/api"
)

// Ready asks whether all parts of the server work. It fails with api.CodeNotReady if one does not. checks has every part by name, which
// takes a token with the scope read at a server with access control; without it nothing is listed, and no token is needed.
func Ready(ctx context.Context, c *Client, checks bool) (*api.Readiness, error) {
	path := "/readyz"
	if checks {
		path += "?verbose"
	}
	return get[api.Readiness](ctx, c, "ready", path)
}
