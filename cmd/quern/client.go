package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/quern-queue/quern/sdk/client"
	"github.com/spf13/cobra"
)

// quickRetries is how often a command that a person waits for tries again: often enough for a server that restarts,
// seldom enough to say soon that none is there.
const quickRetries = 2

// How long one try of a request may take, if --request-timeout does not say so.
const (
	usualTimeout = 10 * time.Second          // a person waits for the answer
	longTimeout  = client.DefaultCallTimeout // much is sent, or the server compiles a plugin
)

// client connects to the server that the flags and the environment name.
func (a *app) client(options ...client.Option) (*client.Client, error) {
	token, err := a.token()
	if err != nil {
		return nil, err
	}
	secure, err := a.trusted().config()
	if err != nil {
		return nil, usageError{err}
	}
	options = append([]client.Option{client.WithRetries(quickRetries), client.WithTLS(secure), client.WithToken(token),
		client.WithCallTimeout(usualTimeout)}, options...)
	switch {
	case a.timeout != 0 && (a.timeout < time.Millisecond || a.timeout > time.Hour):
		return nil, usageError{fmt.Errorf("--request-timeout is %s; it must be from 1ms to 1h, or 0 for the default", a.timeout)}
	case a.timeout > 0:
		options = append(options, client.WithCallTimeout(a.timeout))
	}
	servers := a.serverURLs()
	c, err := client.New(servers[0], append(options, client.WithAddresses(servers[1:]...))...)
	if err != nil {
		return nil, usageError{err}
	}
	a.asked = true
	return c, nil
}

// answers returns an error if no server answers. Commands call it before a request that the server may answer late: a server that is
// silent would be noticed no sooner than one that works.
func answers(ctx context.Context, c *client.Client) error {
	if _, err := client.Ready(ctx, c, false); err != nil && client.CodeOf(err) == "" && unreachable(err) {
		return err
	}
	return nil
}

// token is the access token to show: from the file of --token-file, else from QUERN_TOKEN, else from the file of QUERN_TOKEN_FILE; "" if
// none is given. A flag never has the token itself: other users of the machine see the command lines.
func (a *app) token() (string, error) {
	path, from := a.tokenFile, "--token-file"
	if path == "" {
		if token := a.getenv("QUERN_TOKEN"); token != "" {
			a.tokenFrom = "QUERN_TOKEN"
			return strings.TrimSpace(token), nil
		}
		path, from = a.getenv("QUERN_TOKEN_FILE"), "QUERN_TOKEN_FILE"
	}
	if path == "" {
		return "", nil
	}
	text, err := readAtMost(path, 4<<10)
	if err != nil {
		return "", usageError{fmt.Errorf("%s: %w", from, err)}
	}
	a.tokenFrom = from
	return strings.TrimSpace(string(text)), nil
}

// each makes the RunE of a command that does the same with each of its arguments, until that fails with one.
func (a *app) each(do func(ctx context.Context, c *client.Client, arg string) error) func(*cobra.Command, []string) error {
	return a.asking(func(ctx context.Context, c *client.Client, args []string) error {
		for _, arg := range args {
			if err := do(ctx, c, arg); err != nil {
				return err
			}
		}
		return nil
	})
}

// asking makes the RunE of a command that asks a server: run is given a client of the server that the flags and the environment name.
func (a *app) asking(run func(ctx context.Context, c *client.Client, args []string) error,
	options ...client.Option) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.client(options...)
		if err != nil {
			return err
		}
		return run(cmd.Context(), c, args)
	}
}
