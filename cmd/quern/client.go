package main

import (
	"github.com/quern-queue/quern/sdk/client"
)

// quickRetries is how often a command that a person waits for tries again: often enough for a server that restarts,
// seldom enough to say soon that none is there.
const quickRetries = 2

// client connects to the server that the flags and the environment name.
func (a *app) client(options ...client.Option) (*client.Client, error) {
	secure, err := a.trusted().config()
	if err != nil {
		return nil, usageError{err}
	}
	c, err := client.New(a.serverURL(), append([]client.Option{client.WithRetries(quickRetries), client.WithTLS(secure)}, options...)...)
	if err != nil {
		return nil, usageError{err}
	}
	a.asked = true
	return c, nil
}
