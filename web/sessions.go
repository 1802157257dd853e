package web

// Sessions of the dashboard.
//
//	POST /v1/session {token} ─► cookie quern_session=ID     HttpOnly, SameSite=Strict, Secure over TLS
//	                            byHash[SHA-256(ID)] = session{proof of the token, until, used}
//
// The map has hashes of ids, so that a dump of the memory opens no session. A session has no rights
// of its own: each request looks up the token again, so a revoked or rotated secret ends its
// sessions with it.

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

// The dashboard authenticates by a session: the token is sent once, and from then on a cookie that no script can read
// stands for it. Sessions are in memory only. A restart of the server ends them, and people log in again. In a
// cluster, so does the loss of the node that has the session (farsessions.go).
const (
	sessionCookie   = "quern_session"
	sessionIdle     = time.Hour      // without a request and without an open stream
	sessionMost     = 12 * time.Hour // however busy: a working day
	maxSessions     = 10_000
	maxOfOneToken   = maxSessions / 10 // so that the sessions of one token do not keep out those of others
	sessionIDLength = 43               // 256 bits in base64
	maxSessionBody  = 4 << 10
)

// session is one login. At any time it may do what its token may do then.
type session struct {
	proof access.Proof // it ends with the secret that opened it
	until time.Time    // this and used are readings of the monotonic clock, too

	far *farSession // this node's knowledge of it, if another one has it; nil: it is one of this node

	mu   sync.Mutex
	used time.Time
	good time.Time // until when the answer of the node that has it counts
}

// sessions are all that are open, by the hash of their id: memory holds no cookie. A session is in byHash and counted
// in open, or in neither: begin and end change both under one lock, so the limit per token cannot leak.
type sessions struct {
	mu     sync.Mutex
	byHash map[access.Hash]*session
	open   map[access.ID]int // how many of them each token has
}

// lives says whether a session is neither idle for too long, nor over, nor ended. It changes nothing, so expel may
// ask it about every session once per second without keeping any of them alive.
func (l *sessions) lives(s *session, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Before(s.until) && now.Before(s.used.Add(sessionIdle)) && (s.far == nil || now.Before(s.good))
}

// use notes a request of the session. Requests of one page overlap, and their readings of the clock may come here in
// another order: the time only moves forward.
func (s *session) use(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.After(s.used) {
		s.used = now
	}
}

// end makes the session good for nothing. A request may have found the session just before it was forgotten. Clearing
// until makes lives refuse it for that request too.
func (s *session) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Time{}
}

// begin makes a session and returns the text of its cookie. It says no when there are too many, of all tokens or of
// this one. Nothing is evicted to make room: a client that opens many sessions would log out everyone else. Idle
// sessions make room within an hour.
func (l *sessions) begin(proof access.Proof, now time.Time) (string, *session, bool) {
	var b [32]byte
	rand.Read(b[:]) // it never fails: the program ends first
	id := base64.RawURLEncoding.EncodeToString(b[:])
	made := &session{proof: proof, until: now.Add(sessionMost), used: now}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.byHash) >= maxSessions || l.open[proof.ID] >= maxOfOneToken {
		return "", nil, false
	}
	if l.byHash == nil {
		l.byHash, l.open = map[access.Hash]*session{}, map[access.ID]int{}
	}
	l.byHash[sha256.Sum256([]byte(id))] = made
	l.open[proof.ID]++
	return id, made, true
}

// end ends a session and forgets it. The mutex is held.
func (l *sessions) end(hash access.Hash, s *session) {
	s.end()
	delete(l.byHash, hash)
	if l.open[s.proof.ID]--; l.open[s.proof.ID] == 0 {
		delete(l.open, s.proof.ID)
	}
}

// find is the session of a cookie, if it is still good. A session that it refuses ends, so a clock that is set back
// does not bring it back. The length is checked first, so that a long cookie is not hashed. The lookup compares
// hashes, not ids, so the time that it takes says nothing about the ids that exist.
func (l *sessions) find(id string, now time.Time) *session {
	if len(id) != sessionIDLength {
		return nil
	}
	l.mu.Lock()
	found := l.byHash[sha256.Sum256([]byte(id))]
	l.mu.Unlock()
	if found != nil && !l.lives(found, now) {
		l.close(id)
		return nil
	}
	return found
}

// close ends the session of a cookie, if there is one.
func (l *sessions) close(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	hash := access.Hash(sha256.Sum256([]byte(id)))
	if found := l.byHash[hash]; found != nil {
		l.end(hash, found)
	}
}

// drop forgets the sessions that are not good any more. It runs once per second over at most maxSessions. good must
// not take the lock of l, which is held meanwhile.
func (l *sessions) drop(good func(*session) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for hash, s := range l.byHash {
		if !good(s) {
			l.end(hash, s)
		}
	}
}

// sessionOf is the session that a request's cookie names; nil: there is none. A cookie counts only for requests of a
// page of this server: browsers send it along from pages of other ports of the same host too. Clients that are no
// browsers, and old browsers, do not send Sec-Fetch-Site. They are let through: the cookie is SameSite=Strict, and
// the check of the origin (crossOrigin) still applies.
func (a *auth) sessionOf(r *http.Request, now time.Time) (*session, error) {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return nil, nil
	}
	cookie, err := r.Cookie(sessionCookie)
	if err != nil {
		return nil, nil
	}
	home, id, away := a.far.split(cookie.Value)
	switch {
	case away:
		return nil, newProblem(codeUnauthorized, "The node at which you logged in is gone: log in again.")
	case home != nil:
		return a.far.find(r.Context(), home, id)
	}
	found := a.sessions.find(id, now)
	if found != nil {
		found.use(now)
	}
	return found, nil
}

// expelEvery is how often the server ends the streams and waits of tokens and sessions that are over.
const expelEvery = time.Second

// tidy ends, at that pace, sessions and waits that are over, and connections that were idle for too long.
func (s *Server) tidy(ctx context.Context) {
	// One goroutine does both for the whole server. A timer for each session and connection would cost memory for
	// each, and a second more or less does not matter to either.
	ticker := time.NewTicker(expelEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.auth.expel()
			s.connections.endIdle()
		case <-ctx.Done():
			return
		}
	}
}

// expel ends the sessions, streams and waits whose token or session is not good any more.
//
// Sessions first, then waits: a wait is judged by its session, which `use` has just kept alive if
// its stream is open.
func (a *auth) expel() {
	now := a.clock.now()
	table := a.engine.Tokens().At(queue.At(now))
	far := map[*farSession]bool{}
	a.waits.each(func(by *credential) {
		switch {
		case by.session == nil:
		case by.session.far != nil:
			far[by.session.far] = true
		default:
			by.session.use(now) // an open stream counts as use
		}
	})
	// The homes of far sessions are asked in goroutines of their own: a node that hangs must not delay the end of the
	// sessions of this one.
	a.far.renew(far, func() { a.waits.end(a.good) })
	a.far.tidy(now)
	a.sessions.drop(func(l *session) bool {
		_, ok := table.Find(&l.proof, queue.At(now))
		return ok && a.sessions.lives(l, now)
	})
	a.waits.end(a.good)
}

// openSession is POST /v1/session. It is public, since its caller has no session yet; so it does by hand what admit
// does for other calls: it counts wrong tokens (badToken) and the requests of the token (enter).
func (t *tokens) openSession(c echo.Context) error {
	body, err := t.bodies.readJSON(c, maxSessionBody)
	if err != nil {
		return err
	}
	defer t.bodies.free(body)
	var asked api.NewSession
	if err := wire.Decode(body.b, &asked); err != nil {
		return wireProblem[api.NewSession](err, body.b, contentJSON)
	}
	now := t.auth.clock.now()
	table := t.tokens.At(queue.At(now))
	// On an open server there is no token that a session could stand for.
	if !table.Required() {
		return answerWhoami(c, openWhoami())
	}
	proof, ok := access.ProofOf(asked.Token)
	token, found := table.Find(&proof, queue.At(now))
	if !ok || !found {
		return t.auth.badToken(c.Request())
	}
	if err := t.auth.enter(token, now); err != nil { // the request itself needs no token, and is not counted yet
		return err
	}
	defer token.Leave()
	id, opened, ok := t.auth.sessions.begin(proof, now)
	if !ok {
		return newProblem(queue.CodeOverloaded,
			"There are as many sessions as the server keeps, or as it keeps of one token. "+
				"They end after an hour without a request; log out where you are logged in.")
	}
	token.Note(queue.At(now))
	c.SetCookie(sessionCookieOf(c.Request(), t.auth.far.cookie(id), int(sessionMost/time.Second)))
	return answerWhoami(c, whoamiOf(token, opened))
}

func answerWhoami(c echo.Context, who api.Whoami) error {
	body, err := json.Marshal(who)
	if err != nil {
		return fmt.Errorf("web: session: %w", err)
	}
	return c.Blob(http.StatusOK, contentJSON, append(body, '\n'))
}

// closeSession is DELETE /v1/session. The cookie is cleared also when there was no session: the browser may keep one
// that the server has forgotten. If the home of a far session does not answer, the cookie stays, so that the log-out
// can be repeated.
func (t *tokens) closeSession(c echo.Context) error {
	if err := plainPath(c.Request()); err != nil {
		return err
	}
	if cookie, err := c.Request().Cookie(sessionCookie); err == nil {
		home, id, _ := t.auth.far.split(cookie.Value)
		if home == nil {
			t.auth.sessions.close(id)
		} else if err := t.auth.far.close(c.Request().Context(), home, id); err != nil {
			return err
		}
		// At once, not with the next tick: a user who logs out expects that the streams of the page have ended when
		// the answer comes.
		t.auth.expel()
	}
	c.SetCookie(sessionCookieOf(c.Request(), "", -1))
	return c.NoContent(http.StatusNoContent)
}

// sessionCookieOf is the cookie of a session, for a browser. Behind a proxy that serves TLS the browser keeps it to
// TLS too. The header X-Forwarded-Proto is believed here though any client can send it: a client that sends a wrong
// one only makes its own cookie stricter.
func sessionCookieOf(r *http.Request, id string, seconds int) *http.Cookie {
	return &http.Cookie{
		Name: sessionCookie, Value: id, Path: "/", MaxAge: seconds, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https"),
	}
}

func openSessionShape(d *document, op *huma.Operation) {
	op.RequestBody = d.body(reflect.TypeFor[api.NewSession]())
	op.Responses["200"] = d.answer(reflect.TypeFor[api.Whoami](), http.StatusOK)
	op.Responses["200"].Headers = map[string]*huma.Param{"Set-Cookie": {Description: sessionCookie +
		": HttpOnly, SameSite=Strict, Secure over TLS", Schema: &huma.Schema{Type: huma.TypeString}}}
}

func closeSessionShape(_ *document, op *huma.Operation) {
	op.Responses["204"] = &huma.Response{Description: http.StatusText(http.StatusNoContent)}
}
