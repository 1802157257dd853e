package access

import (
	"cmp"
	"context"

	"github.com/quern-queue/quern/engine/queue"
)

// Caller is the caller of a request. A context carries it from the HTTP face to the code that records it.
type Caller struct {
	Token      *Token // nil: no one had to show one, or the server asks by itself
	OnBehalfOf string // whom the caller acts for, as the client said; at most queue.MaxActorBytes
	From       string // the address that the request came from; "": the server itself
	RequestID  string
	Limits     *Limits // of the token; nil: there are none
	Answer     *Answer // counts the answer; nil: it is not counted
}

type callerKey struct{}

// IsCallerKey says whether a key of a context's Value is that of the caller, for contexts that find the caller only on demand.
func IsCallerKey(key any) bool { return key == callerKey{} }

// With puts the caller into a context.
func With(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

var noCaller = new(Caller)

// Of is the caller in a context, never nil.
func Of(ctx context.Context) *Caller {
	if c, ok := ctx.Value(callerKey{}).(*Caller); ok {
		return c
	}
	return noCaller
}

// Actor is the name under which the caller's acts are recorded: that of the token, never the client's word. If no token is needed, it is
// the name that the client gave, in the request or as the one that it acts for.
func (c *Caller) Actor(said string) string {
	if c.Token == nil {
		return cmp.Or(said, c.OnBehalfOf)
	}
	return c.Token.Name
}

// Share is the counts of the caller's token and their limits; nil if nothing is limited.
func (c *Caller) Share() (*Use, *Limits) {
	if c.Token == nil || c.Limits == nil {
		return nil, nil
	}
	return c.Token.Use, c.Limits
}

// The [queue.Who] of a caller is how the audit log names it.
func (c *Caller) Who(said string) queue.Who {
	who := queue.Who{Actor: c.Actor(said), OnBehalfOf: c.OnBehalfOf, From: c.From, RequestID: c.RequestID}
	if who.Actor == who.OnBehalfOf {
		who.OnBehalfOf = "" // they act for themselves
	}
	return who
}
