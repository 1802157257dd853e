package web

// Authentication and authorization. A request names its sender in one of four ways. The first
// of these that is present counts:
//
//	a hop header    another node of the cluster forwarded the call, and vouches for its sender (forward.go)
//	Authorization   Bearer qn_ID_SECRET: an access token
//	certificate     of the TLS client, whose subject stands for a token
//	cookie          a session of the dashboard, which stands for the token that opened it (sessions.go)
//
// All four end in an *access.Token, which has the scopes, the restriction and the use of the
// token. Without any token the server is open.
//
// Hot calls (reserve, complete and the like) must not pay for a caller that they rarely need. For
// an unrestricted token, admit looks the token up and forgets it again: no context value, no
// allocation. A hot call that turns out to need its caller, because it waits or its answer is
// large, asks through the type asking, which looks the token up a second time. The token can end
// between the two lookups: credentialOf then returns a credential that is good for nothing, never
// nil, as nil means that no credential was needed.

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// This file decides who may do what, in one place and before a body is read: observe (middleware.go)
// calls admit for every request, and the operation's line in the table says what it takes.

const (
	codeUnauthorized queue.Code = api.CodeUnauthorized
	codeForbidden    queue.Code = api.CodeForbidden

	headerOnBehalfOf = "Quern-On-Behalf-Of"
)

// credential is a request's proof of its sender: a token, or the session that a token opened. A request that waits
// keeps it, and ends when good says that it is no longer accepted.
type credential struct {
	proof   access.Proof
	session *session // nil: the token itself
	subject string   // of the certificate that the connection showed in the place of a token; "": none was needed
}

// auth authenticates requests, and says what their callers may do.
type auth struct {
	engine   *engine.Engine // which has the tokens, and the submissions that they are bound to
	clock    *clock
	waits    *waits        // which end with the credential that they began with
	limits   access.Limits // of each token
	answers  access.Answers
	sessions sessions
	far      *farSessions
	guesses  guesses
	hops     *hops // of a server that is alone, for its calls to itself
}

// good says whether a credential would be accepted now.
func (a *auth) good(by *credential) bool {
	now := a.clock.now()
	table := a.engine.Tokens().At(queue.At(now))
	if by.subject != "" {
		_, ok := table.Certified(by.subject, queue.At(now))
		return ok
	}
	_, ok := table.Find(&by.proof, queue.At(now))
	return ok && (by.session == nil || a.sessions.lives(by.session, now))
}

// ended says that the credential of a request that was admitted is not good any more.
func (a *auth) ended(r *http.Request) bool {
	by := a.credentialOf(r)
	return by != nil && !a.good(by)
}

// noLongerGood is the problem of a request that waited when its token ended.
func noLongerGood() *problem {
	return newProblem(codeUnauthorized, "The access token or the session ended while the request ran.")
}

// admit finds the caller of a request and refuses a caller that may not make it. The refusal is
// recorded with the caller. For allowed calls of producers and consumers, admit only looks the token
// up, without a lock and without an allocation: no entry says who made them.
//
// Three outcomes are easily confused. With err, the request is refused. With use and no err, it was
// counted against the limits of its token, and the caller must call Leave exactly once. With
// neither, the server is open, or the operation is public. A refusal for want of a scope returns
// both: the request was counted, and is refused.
func (a *auth) admit(c echo.Context, op *operation, started time.Time) (use *access.Use, err error) {
	if op == nil {
		return nil, nil // there is no such path, which is no secret
	}
	r, now := c.Request(), queue.At(started)
	var by credential
	var token *access.Token
	if table := a.engine.Tokens().At(now); table.Required() && !isProbe(r) {
		by, token, err = a.authenticate(table, r, started)
		switch {
		case err != nil && !op.public:
			return nil, err
		case token == nil:
			err = nil // the operation is for all
		default:
			token.Note(now)
			if !ofShardCall(c) { // the call that asks for this part has entered
				if err := a.enter(token, started); err != nil {
					return nil, err
				}
				use = token.Use
			}
			err = a.authorize(c, op, token)
		}
	}
	if op.hot && err == nil && (token == nil || !token.Restricted()) {
		return use, nil
	}
	caller, malformed := a.callerOf(c, token)
	caller.Limits = &a.limits
	if !op.hot { // of a hot call, asking has it
		answer := a.answers.Answer(token, &a.limits)
		caller.Answer = &answer
	}
	ctx := access.With(r.Context(), caller)
	if token != nil {
		held := by
		ctx = context.WithValue(ctx, credentialKey{}, &held)
	}
	c.SetRequest(r.WithContext(ctx))
	if body, is := r.Body.(*arriving); is && token != nil && !op.hot {
		body.r, body.auth = c.Request(), a
	}
	if err == nil {
		err = malformed
	}
	return use, err
}

// asking is the context of a hot call. It finds the caller only when something asks for
// it. The fast path never asks.
//
// It is never used for another call: a connection to another node that is still being made
// holds the context of a call that is over.
type asking struct {
	context.Context
	auth    *auth
	request *http.Request
	making  sync.Mutex    // held while the answer is made: shards of one queue work for a call at the same time
	answer  access.Answer // zero until something asks for the caller
	by      *credential   // of a call that waits, whose headers are gone
}

// asking makes the context of one hot call. The caller ends it with done, if the answer was held.
func (a *auth) asking(c echo.Context) *asking {
	return &asking{Context: c.Request().Context(), auth: a, request: c.Request()}
}

func (a *asking) Value(key any) any {
	value := a.Context.Value(key)
	if key == (credentialKey{}) && value == nil && a.request != nil {
		if by := cmp.Or(a.by, a.auth.credentialOf(a.request)); by != nil {
			return by
		}
		return nil
	}
	if !access.IsCallerKey(key) {
		return value
	}
	var caller access.Caller
	if known, is := value.(*access.Caller); is {
		caller = *known
	} else {
		caller.Token, caller.Limits = a.auth.tokenOf(a.request), &a.auth.limits
	}
	a.making.Lock()
	if a.answer == (access.Answer{}) {
		a.answer = a.auth.answers.Answer(caller.Token, &a.auth.limits)
	}
	a.making.Unlock()
	caller.Answer = &a.answer
	return &caller
}

// hold counts the answer as this many bytes.
func (a *asking) hold(bytes int) error {
	if bytes > access.SmallAnswer {
		access.Of(a) // which makes the answer
	}
	return a.answer.Hold(int64(bytes))
}

// done is called when the answer is sent.
func (a *asking) done() {
	_ = a.answer.Hold(0) // less always fits
}

// tokenOf is the token of a request that was admitted; nil: it needed none. Hot calls
// carry none: it is looked up once more.
func (a *auth) tokenOf(r *http.Request) *access.Token {
	if caller := access.Of(r.Context()); caller.Token != nil {
		return caller.Token
	}
	now := a.clock.now()
	table := a.engine.Tokens().At(queue.At(now))
	if !table.Required() {
		return nil
	}
	_, token, _ := a.authenticate(table, r, now)
	return token
}

type credentialKey struct{}

// credentialIn is the credential that a cold request was admitted with; nil: it needed none.
func credentialIn(ctx context.Context) *credential {
	by, _ := ctx.Value(credentialKey{}).(*credential)
	return by
}

// credentialOf is the credential of a request that begins to wait. Hot calls carry none:
// it is read from their headers once more.
func (a *auth) credentialOf(r *http.Request) *credential {
	if by := credentialIn(r.Context()); by != nil {
		return by
	}
	now := a.clock.now()
	table := a.engine.Tokens().At(queue.At(now))
	if !table.Required() {
		return nil
	}
	by, _, err := a.authenticate(table, r, now)
	if err != nil {
		return &credential{} // it ended since the request was admitted, and is good for nothing
	}
	return &by
}

// authenticate finds the token of a request: from its header, else from the session that its cookie names. An
// Authorization header that is there decides alone: a wrong token beside a good cookie is refused.
func (a *auth) authenticate(table *access.Table, r *http.Request,
	now time.Time) (by credential, token *access.Token, err error) {
	given := r.Header["Authorization"]
	hop := a.hops.of(r)
	switch {
	case hop != nil && hop.Subject != "":
		if token, good := table.Certified(hop.Subject, queue.At(now)); good {
			by.subject = hop.Subject
			return by, token, nil
		}
		return by, nil, a.badToken(r)
	case hop != nil && hop.Proof != nil:
		by.proof = *hop.Proof
	case len(given) == 0:
		subject, token := certified(table, r, queue.At(now))
		if token != nil {
			by.subject = subject
			return by, token, nil
		}
		if by.session, err = a.sessionOf(r, now); err != nil {
			return by, nil, err
		}
		if by.session == nil && subject != "" {
			return by, nil, newProblem(codeUnauthorized, "No access token that is good has the certificate_subject "+
				strconv.Quote(subject)+", which is that of the client's certificate. Make one, or send a token.")
		}
		if by.session == nil {
			return by, nil, newProblem(codeUnauthorized,
				"This server needs an access token: send it as Authorization: Bearer qn_...")
		}
		by.proof = by.session.proof
	default:
		const scheme = "Bearer "
		ok := len(given) == 1 && len(given[0]) >= len(scheme) && equalFold(given[0][:len(scheme)], scheme)
		if ok {
			by.proof, ok = access.ProofOf(given[0][len(scheme):])
		}
		if !ok {
			return by, nil, newProblem(codeUnauthorized,
				"The Authorization header is not of the form Bearer qn_...: send it once, with the token and nothing "+
					"else.")
		}
	}
	token, ok := table.Find(&by.proof, queue.At(now))
	if !ok {
		return by, nil, a.badToken(r)
	}
	return by, token, nil
}

// certified is the subject of the client's certificate, if an authority that the server
// trusts for clients signed it, and the token that the subject stands for, if there is
// one.
func certified(table *access.Table, r *http.Request, now queue.Time) (subject string, token *access.Token) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return "", nil
	}
	subject = subjectOf(r, r.TLS.PeerCertificates[0])
	token, _ = table.Certified(subject, now)
	return subject, token
}

// enter counts a request of a token in, unless the token has as many as it may. A request that entered has to leave.
// The moment is counted from the start of the server, on the monotonic clock.
func (a *auth) enter(token *access.Token, now time.Time) error {
	if wait, ok := token.Enter(now.Sub(a.clock.began), a.limits); !ok {
		return tooMuch("The token "+strconv.Quote(token.Name)+" asks for more than one token may.", wait)
	}
	return nil
}

// authorize refuses operations that the token has no scope for, and requests beyond the token's restriction.
func (a *auth) authorize(c echo.Context, op *operation, token *access.Token) error {
	if !token.Scopes.Allow(op.scope) {
		return missingScope(token, op.scope)
	}
	if token.Restricted() && !op.public {
		return a.narrowed(c, op, token)
	}
	return nil
}

// missingScope names the scope that is missing.
func missingScope(token *access.Token, wanted access.Scopes) *problem {
	return newProblem(codeForbidden, "This takes the scope "+strings.Join(wanted.Names(), " or ")+"; the token "+
		strconv.Quote(token.Name)+" has "+strings.Join(token.Scopes.Names(), ", ")+".")
}

// callerOf is what is recorded of a caller. With an error, it lacks the invalid part.
func (a *auth) callerOf(c echo.Context, token *access.Token) (*access.Caller, error) {
	r := c.Request()
	caller := &access.Caller{Token: token, OnBehalfOf: r.Header.Get(headerOnBehalfOf), From: a.fromOf(r),
		RequestID: c.Response().Header().Get(headerRequestID)}
	if !printable(caller.OnBehalfOf) {
		caller.OnBehalfOf = ""
		return caller, queue.Invalid("/header/"+headerOnBehalfOf,
			"must be at most %d bytes of UTF-8 that can be printed", queue.MaxActorBytes)
	}
	return caller, nil
}

func printable(text string) bool {
	return len(text) <= queue.MaxActorBytes && utf8.ValidString(text) &&
		!strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) })
}

// fromOf is where a request came from, also one that another node has sent on.
func (a *auth) fromOf(r *http.Request) string {
	if hop := a.hops.of(r); hop != nil {
		return hop.From
	}
	return addressOf(r)
}

// addressOf is where a connection came from, without the port.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return "unix" // by a Unix socket
	}
	return host
}

// scopeText names the scopes that an operation takes, for the document.
func scopeText(op operation) string {
	switch {
	case op.public:
		return "none"
	case op.scope == access.None:
		return "any"
	}
	return strings.Join(op.scope.Names(), " or ")
}

// securitySchemes are the ways in which a caller can authenticate, for the document.
func securitySchemes() map[string]*huma.SecurityScheme {
	return map[string]*huma.SecurityScheme{
		"session": {Type: "apiKey", In: "cookie", Name: sessionCookie,
			Description: "The dashboard's cookie, which POST /v1/session sets"},
		"token": {Type: "http", Scheme: "bearer", BearerFormat: "qn_<id>_<secret>",
			Description: "An access token. Once a token exists, every request needs one. Before that, a server on " +
				"loopback is open."},
	}
}

// securityOf is scopeText for programs: of several requirements any one is enough.
func securityOf(op operation) []map[string][]string {
	if op.public {
		return []map[string][]string{{}}
	}
	var list []map[string][]string
	for _, scheme := range []string{"token", "session"} {
		for _, name := range op.scope.Names() {
			list = append(list, map[string][]string{scheme: {name}})
		}
		if len(op.scope.Names()) == 0 {
			list = append(list, map[string][]string{scheme: {}})
		}
	}
	return list
}

// A client that sends wrong tokens has to wait. Right ones are always let in: a consumer
// that has an old secret must not shut out those at the same address that have the new
// one, and 256 random bits are not found by asking.
const (
	guessEvery   = time.Second      // a wrong token per address and second,
	guessBurst   = 30 * time.Second // after this many seconds' worth of them
	maxGuessFrom = 10_000           // addresses that are remembered; a network of IPv6 counts as one
)

// guesses are the wrong tokens of late, by address.
type guesses struct {
	mu   sync.Mutex
	from map[netip.Prefix]*access.Pace
}

// wrong counts a wrong token and says how long its sender has to wait; 0: it may go on.
func (g *guesses) wrong(r *http.Request, at time.Duration) time.Duration {
	address, err := netip.ParseAddr(addressOf(r))
	if err != nil {
		return 0 // no socket: embedded, or in a test
	}
	// One customer of IPv6 has at least 64 bits of addresses to change through, so the network counts as one.
	bits := 32
	if address = address.Unmap().WithZone(""); address.Is6() {
		bits = 64
	}
	prefix, err := address.Prefix(bits)
	if err != nil {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	pace := g.from[prefix]
	if pace == nil {
		g.makeRoom(at)
		pace = new(access.Pace)
		g.from[prefix] = pace
	}
	return pace.Take(at, guessEvery, guessBurst)
}

// makeRoom forgets the addresses that need not wait, or all addresses if all of them have to wait. Forgetting all of
// them lets guessing go on for a moment. Refusing new addresses instead would let one attacker with many addresses
// shut out everyone else's first mistake.
func (g *guesses) makeRoom(at time.Duration) {
	if len(g.from) >= maxGuessFrom {
		for prefix, pace := range g.from {
			if pace.Spent(at) {
				delete(g.from, prefix)
			}
		}
	}
	if g.from == nil || len(g.from) >= maxGuessFrom {
		g.from = map[netip.Prefix]*access.Pace{}
	}
}

// badToken is the problem of a token that is not good.
func (a *auth) badToken(r *http.Request) *problem {
	if wait := a.guesses.wrong(r, a.clock.elapsed()); wait > 0 {
		return tooMuch("Too many wrong access tokens came from this address.", wait)
	}
	return newProblem(codeUnauthorized,
		"The access token is not good: it is wrong, it has expired, or it was rotated or revoked.")
}

// tooMuch is the problem of a caller that asks for more than a token or an address may.
func tooMuch(what string, wait time.Duration) *problem {
	p := newProblem(queue.CodeOverloaded, what+" Wait as long as Retry-After says.")
	p.retry = max(time.Second, (wait + time.Second - 1).Truncate(time.Second))
	return p
}
