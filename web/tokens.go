package web

// Access tokens over HTTP: made, listed, rotated, revoked. The text of a token is in exactly one
// answer, that of its creation or rotation. Neither the log nor the audit log nor any later answer
// has it, as the server keeps only a hash.

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

const (
	newTokenAbout = "The answer has the token's text. The server shows it only this once, and keeps a hash. The " +
		"server records changes under the token's name, which is unique. `queues` and `meta` (one key with one " +
		"value) bind the token: it inserts, sees and changes nothing else. Once a token exists, every request " +
		"needs one, for good. The first token needs the scope admin. Admin includes all other scopes."
	rotateTokenAbout = "The answer has the token's new text. The previous secret stays valid for `overlap_seconds` " +
		"(0 if absent), so that you can change its holders one by one. If the secret of an earlier rotation is " +
		"still valid, it ends."
	openSessionAbout = "For the dashboard: the answer sets a cookie that stands for the token and that no script " +
		"can read. The session ends after an hour without a request or an open stream, and after 12 hours in any " +
		"case. It also ends with the token, with the secret that opened it, and when the server stops. In a " +
		"cluster it is valid at all nodes, until the node that opened it stops. An open server opens no session."
	revokeTokenAbout = "From the answer on, the server refuses requests with the token, and its sessions and " +
		"streams end. Revoking the last token does not open the server: if no token with the scope admin is left, " +
		"the next start writes one to the file admin-token in the data directory."
)

// tokens are the handlers of access tokens.
type tokens struct {
	tokens *engine.Tokens
	auth   *auth
	bodies *bodies
}

// routes are the part of the table about access tokens.
// Sessions are here and not in a table of their own, because a session is another way to show a token: it has the
// token's scopes, and ends with it.
func (t *tokens) routes(r *router) {
	const all, one = "/v1/tokens", "/v1/tokens/{id}"
	register(r, operation{id: "create-token", act: act{"token.create", ""}, brings: true, method: "POST", path: all,
		scope: scopeAdmin, tag: tagAccess, creates: reflect.TypeFor[api.Token](),
		summary: "Make an access token", about: newTokenAbout}, t.create)
	register(r, operation{id: "list-tokens", method: "GET", path: all, scope: scopeAdmin, tag: tagAccess,
		compress: true, summary: "List the access tokens, the oldest first",
		about: "The list has no secrets."}, t.list)
	register(r, operation{id: "get-token", method: "GET", path: one, scope: scopeAdmin, tag: tagAccess,
		summary: "Read an access token"}, t.get)
	register(r, operation{id: "revoke-token", act: act{"token.revoke", "token {id}"},
		method: "DELETE", path: one, scope: scopeAdmin, tag: tagAccess,
		summary: "Revoke an access token", about: revokeTokenAbout}, t.revoke)
	register(r, operation{id: "rotate-token", act: act{"token.rotate", "token {id}"},
		method: "POST", path: one + "/rotate", scope: scopeAdmin, tag: tagAccess,
		summary: "Rotate the secret of an access token", about: rotateTokenAbout}, t.rotate)
	register(r, operation{id: "whoami", method: "GET", path: "/v1/whoami", scope: access.None, narrow: free,
		tag: tagAccess, summary: "Show which identity the server sees in the request",
		about: "Any token may call this. On an open server the caller has all scopes."}, t.whoami)
	r.raw(operation{id: "open-session", method: "POST", path: "/v1/session", public: true, tag: tagAccess,
		summary: "Log in with an access token", about: openSessionAbout}, openSessionShape, t.openSession)
	r.raw(operation{id: "close-session", method: "DELETE", path: "/v1/session", public: true, tag: tagAccess,
		summary: "Log out", about: "Ends the session of the cookie, and its streams. Without " +
			"a session it changes nothing."}, closeSessionShape, t.closeSession)
}

// Creating, listing and revoking tokens takes the scope admin, because the caller could make one with every
// scope.
type newTokenInput struct {
	Body decoded[api.NewToken]
}

// create returns the secret, once. The server keeps only a hash, so a lost secret cannot be shown again, only
// rotated.
func (t *tokens) create(ctx context.Context, in *newTokenInput) (*creation[api.Token], error) {
	asked, err := tokenRequest(&in.Body.value)
	if err != nil {
		return nil, err
	}
	token, text, err := t.tokens.New(ctx, asked)
	out := apiToken(&token)
	out.Token = text
	return answeredCreation(out, true, "/v1/tokens/"+out.ID, err)
}

// tokenRequest refuses an empty list of queues: it would bind the token to nothing, which is never meant. A client
// that forgot to fill the list would get a token that does not work. nil is "all queues".
func tokenRequest(in *api.NewToken) (r engine.TokenRequest, err error) {
	r = engine.TokenRequest{Name: in.Name, Subject: in.Subject, Expires: queue.At(in.ExpiresAt.Time)}
	if r.Scopes, err = scopesOf(in.Scopes); err != nil {
		return r, err
	}
	if in.Queues != nil && len(in.Queues) == 0 {
		return r, queue.Invalid("/queues", "is empty; name the queues that the token is bound to, or leave it out")
	}
	// The order of the request does not matter, and two tokens for the same queues look the same.
	r.Queues = slices.Compact(slices.Sorted(slices.Values(in.Queues)))
	// One value of one key: a check is then one comparison, and a list needs one filter.
	if in.Meta != nil && len(in.Meta) != 1 {
		return r, queue.Invalid("/meta", "has %d keys; a token is bound to one value of one key", len(in.Meta))
	}
	for key, value := range in.Meta {
		r.Entry = queue.MetaEntry{Key: key, Value: value}
		if key == "" {
			return r, queue.Invalid("/meta", "has an empty key")
		}
	}
	return r, nil
}

func scopesOf(list []string) (scopes access.Scopes, err error) {
	for i, name := range list {
		scope := access.ParseScope(name)
		if scope == access.None {
			return scopes, queue.Invalid("/scopes/"+strconv.Itoa(i), "is not a scope; the scopes are %s", access.All)
		}
		scopes |= scope
	}
	return scopes, nil
}

// TokenPath names a token; exported like QueuePath.
type TokenPath struct {
	ID string `path:"id" maxLength:"12" doc:"Id of the token: the part between qn_ and the secret"`
}

// The oldest first, by a fixed number of digits, so that a cursor compares as a text. Ids are random and only make
// the order total.
func (t *tokens) list(_ context.Context, in *Cursor) (*output[api.Page[api.Token]], error) {
	made := func(t *access.Token) string { return fmt.Sprintf("%016d.%s", t.Created, t.ID) }
	return answeredList(t.tokens.All(), *in, made, apiToken)
}

// get shows a token without its secret, which the server does not have.
func (t *tokens) get(_ context.Context, in *TokenPath) (*output[api.Token], error) {
	token, err := t.tokens.Token(access.ID(in.ID))
	return answered(token, err, apiToken)
}

// revoke also ends the streams and sessions that the token opened (expel), even if the revocation could not be
// written: an operator who revokes wants them closed, and a client with a good token connects again.
func (t *tokens) revoke(ctx context.Context, in *TokenPath) (*struct{}, error) {
	err := t.tokens.Revoke(ctx, access.ID(in.ID))
	t.auth.expel()
	return nil, err
}

type rotateTokenInput struct {
	TokenPath
	Body decoded[api.RotateToken]
}

// The old secret stays good for the overlap, so that running clients can be changed one after another. With 0, its
// streams end now.
func (t *tokens) rotate(ctx context.Context, in *rotateTokenInput) (*output[api.Token], error) {
	overlap := in.Body.value.OverlapSeconds
	if most := int64(queue.MaxRotationOverlap / time.Second); overlap < 0 || overlap > most {
		return nil, queue.Invalid("/overlap_seconds", "is %d; 0 to %d are allowed", overlap, most)
	}
	token, text, err := t.tokens.Rotate(ctx, access.ID(in.ID), time.Duration(overlap)*time.Second)
	if err != nil {
		return nil, err
	}
	t.auth.expel()
	out := &output[api.Token]{Body: apiToken(&token)}
	out.Body.Token = text
	return out, nil
}

// whoami takes no scope, so that a client can find out why another call was refused.
func (t *tokens) whoami(ctx context.Context, _ *struct{}) (*output[api.Whoami], error) {
	by := credentialIn(ctx)
	if by == nil {
		return &output[api.Whoami]{Body: openWhoami()}, nil
	}
	return &output[api.Whoami]{Body: whoamiOf(access.Of(ctx).Token, by.session)}, nil
}

// openWhoami is the answer for everybody while no token is needed.
func openWhoami() api.Whoami { return api.Whoami{Scopes: access.Names()} }

func whoamiOf(token *access.Token, by *session) api.Whoami {
	out := api.Whoami{
		Required: true, Name: token.Name, ID: string(token.ID), Scopes: token.Scopes.Names(), Queues: token.Queues,
		Meta: boundMeta(token), ExpiresAt: token.Expires.API(),
	}
	if by != nil {
		out.Session = &api.Session{EndsAt: api.At(by.until), IdleSeconds: int64(sessionIdle / time.Second)}
	}
	return out
}

// `previous` says until when the secret before the last rotation works, so an operator sees which rotations are not
// finished.
func apiToken(in *access.Token) api.Token {
	return api.Token{
		ID: string(in.ID), Name: in.Name, Scopes: in.Scopes.Names(), Queues: in.Queues, Meta: boundMeta(in),
		Subject: in.Subject, CreatedAt: in.Created.API(), ExpiresAt: in.Expires.API(),
		LastUsedAt: in.Used.API(), Previous: in.PreviousUntil.API(),
	}
}

func boundMeta(t *access.Token) api.Meta {
	if !t.Tenant() {
		return nil
	}
	return api.Meta{t.Entry.Key: t.Entry.Value}
}
