package web

// Sessions that other nodes of a cluster have.
//
//	cookie quern_session=NODE.ID.SEAL ─► this node? sessions.find(ID)
//	                                     another one? ask it over a sealed hop, and believe the answer for a second
//
// The seal shows that a node of the cluster made the cookie. Without it, made-up cookies would make nodes ask each
// other, and fill the memory for the answers.
//
// A session stays with the node that opened it, its home, which counts the idle time and ends it. So a log-out is in
// force everywhere when the answers that the other nodes have are a second old. If the home is gone, so are its
// sessions, as after a restart of a server that is alone.

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
)

const (
	// sessionsPath is where nodes ask each other. It is no part of the API.
	sessionsPath = "/cluster/session"
	// farFresh is how long an answer of the home counts for a new request.
	farFresh = time.Second
	// farStale is how long it counts for a stream: the home is asked again each second, and may take askMost to answer.
	farStale = farFresh + expelEvery + askMost
)

// farSessions are the sessions of other nodes that this node has asked for, by the hash of their cookies. The map is
// bounded by maxSessions, and tidy forgets sessions that no home confirmed within farStale. Only cookies with a good
// seal get an entry.
type farSessions struct {
	nodes   *engine.Nodes // nil: the server is alone
	through *forwarding
	clock   *clock

	mu    sync.Mutex
	known map[access.Hash]*farSession
}

// farSession is this node's knowledge of one. The lock asking guards seen, failed and is. It is held over the call to
// the home, so renew and tidy, which must not wait for another node, use TryLock.
type farSession struct {
	home engine.Elsewhere
	id   string

	asking sync.Mutex // held while the home is asked, so that the requests of a page ask once
	seen   time.Time  // when it answered last; zero: never
	failed time.Time  // when it did not answer last
	is     *session   // nil: there is no such session
}

// askedSession is a node's question to the home of a session, and sessionAnswer is the answer.
type (
	askedSession struct {
		ID  string
		End bool // log out
	}
	// The answer has the time that is left, not the time of the end: clocks of two nodes are never compared.
	sessionAnswer struct {
		Proof *access.Proof // nil: there is no such session, or it is over
		Left  time.Duration // until it ends, even if it is in use
	}
)

// farSessionsRoute answers for the sessions of this node. A question counts as a request of the session (use). So a
// session that is used only through other nodes does not become idle at its home.
func farSessionsRoute(e *echo.Echo, a *auth) {
	e.POST(sessionsPath, func(c echo.Context) error {
		if a.hops.of(c.Request()) == nil {
			return newProblem(codeForbidden, "Only nodes of this cluster ask this.")
		}
		var asked askedSession
		body := http.MaxBytesReader(c.Response(), c.Request().Body, maxSessionBody)
		if err := json.NewDecoder(body).Decode(&asked); err != nil {
			return newProblem(codeMalformed, "The session cannot be read: "+err.Error())
		}
		if asked.End {
			a.sessions.close(asked.ID)
			a.expel()
		}
		var answer sessionAnswer
		now := a.clock.now()
		if found := a.sessions.find(asked.ID, now); found != nil {
			found.use(now)
			answer = sessionAnswer{&found.proof, found.until.Sub(now)}
		}
		return c.JSON(http.StatusOK, answer)
	})
}

// split is the other node that a cookie names, and the id of the session there; nil: the session is one of this node,
// or of a node that is gone (away), or the cookie is made up. A cookie from before the server joined a cluster has no
// seal. It counts as made up, and its owner logs in again.
func (f *farSessions) split(cookie string) (home *engine.Elsewhere, id string, away bool) {
	if f.nodes == nil {
		return nil, cookie, false
	}
	of, seal, _ := cutLast(cookie)
	name, id, ok := cutLast(of)
	if !ok || !hmac.Equal([]byte(seal), []byte(f.seal(of))) {
		return nil, "", false
	}
	if name == f.nodes.Self() {
		return nil, id, false
	}
	home, err := f.nodes.Named(name)
	return home, id, err != nil
}

// cookie is the text of the cookie of a session of this node.
func (f *farSessions) cookie(id string) string {
	if f.nodes == nil {
		return id
	}
	of := f.nodes.Self() + "." + id
	return of + "." + f.seal(of)
}

// seal is 128 bits in base64. The text "session " keeps these seals apart from those of hops, which the same key
// makes: neither can be used as the other.
func (f *farSessions) seal(of string) string {
	mac := hmac.New(sha256.New, f.nodes.HopKey())
	mac.Write([]byte("session " + of))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}

// cutLast cuts a text at its last dot: names of nodes may have dots.
func cutLast(text string) (before, after string, found bool) {
	at := strings.LastIndexByte(text, '.')
	if at < 0 {
		return "", text, false
	}
	return text[:at], text[at+1:], true
}

// errAway says that the home of a session does not answer. It is 401 and not 503, because a page that gets 401 shows
// the login. The session would not survive the loss of its home anyway.
func errAway(node string) error {
	return newProblem(codeUnauthorized,
		fmt.Sprintf("Node %s, at which you logged in, does not answer: log in again.", node))
}

// find is a session of another node, if it is still good.
func (f *farSessions) find(ctx context.Context, home *engine.Elsewhere, id string) (*session, error) {
	if len(id) != sessionIDLength {
		return nil, nil
	}
	known := f.entry(home, id)
	if known == nil {
		return nil, tooMuch("There are as many sessions of other nodes as this one keeps.", farFresh)
	}
	return f.ask(ctx, known)
}

// entry is this node's knowledge of a session; nil: it knows too many. When the map is full, sessions that it does
// not have are refused, and the others go on. tidy makes room.
func (f *farSessions) entry(home *engine.Elsewhere, id string) *farSession {
	hash := access.Hash(sha256.Sum256([]byte(home.Node + "." + id)))
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.known[hash]
	if known == nil && len(f.known) < maxSessions {
		if f.known == nil {
			f.known = map[access.Hash]*farSession{}
		}
		known = &farSession{home: *home, id: id}
		f.known[hash] = known
	}
	return known
}

// ask asks the home of a session, unless it has answered just now. A failure counts as long as an answer does. So a
// page with many requests costs one call to a node that is down, not one after the other, each of them askMost long.
func (f *farSessions) ask(ctx context.Context, s *farSession) (*session, error) {
	s.asking.Lock()
	defer s.asking.Unlock()
	now := f.clock.now()
	if !s.seen.IsZero() && now.Before(s.seen.Add(farFresh)) {
		return s.is, nil
	}
	if now.Before(s.failed.Add(farFresh)) {
		return nil, errAway(s.home.Node)
	}
	// Others wait for the same answer, so it is asked for even if this caller leaves.
	answer, err := f.call(context.WithoutCancel(ctx), &s.home, askedSession{ID: s.id})
	if err != nil {
		s.failed = f.clock.now()
		return nil, errAway(s.home.Node)
	}
	// now was read before the call, so an answer counts from when it was asked for: it is never older than farFresh.
	s.seen = now
	switch {
	case answer.Proof == nil:
		if s.is != nil {
			s.is.end()
		}
		s.is = nil
	case s.is == nil:
		s.is = &session{proof: *answer.Proof, until: now.Add(answer.Left), used: now, far: s, good: now.Add(farStale)}
	default:
		s.is.confirm(now)
	}
	return s.is, nil
}

// confirm notes that the home has the session still. used is only for lives, which asks the same of all sessions: the
// idle time of a far session is counted at its home.
func (s *session) confirm(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used, s.good = now, now.Add(farStale)
}

// It is one attempt. A second one would come from the next request of the page, or a second later from renew.
func (f *farSessions) call(ctx context.Context, home *engine.Elsewhere,
	asked askedSession) (answer sessionAnswer, err error) {
	ctx, done := context.WithTimeout(ctx, askMost)
	defer done()
	body, err := json.Marshal(asked)
	if err != nil {
		return answer, err
	}
	text, err := farLetterbox{f.through, ""}.call(ctx, http.MethodPost, home.URL+sessionsPath, bytes.NewReader(body))
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	if err != nil {
		f.through.warn(&part{at: *home, err: err})
	}
	return answer, err
}

// close ends a session at its home. The other nodes' knowledge of it is a second old at most.
func (f *farSessions) close(ctx context.Context, home *engine.Elsewhere, id string) error {
	known := f.entry(home, id)
	if _, err := f.call(ctx, home, askedSession{ID: id, End: true}); err != nil {
		return &queue.Error{Code: queue.CodeMoving, Message: fmt.Sprintf("Node %s, at which you logged in, does not "+
			"answer. The session may go on there: log out again in a moment.", home.Node)}
	}
	if known != nil {
		known.asking.Lock()
		defer known.asking.Unlock()
		if known.is != nil {
			known.is.end()
		}
		// For this node the log-out is in force now: for farFresh the home is not even asked.
		known.is, known.seen = nil, f.clock.now()
	}
	return nil
}

// renew asks again for the sessions that streams and waits have. It waits for no answer; ended is called after each.
// A session that is being asked for is left out. Should two goroutines meet all the same, the second waits in ask,
// and finds a fresh answer there.
func (f *farSessions) renew(inUse map[*farSession]bool, ended func()) {
	for s := range inUse {
		if !s.asking.TryLock() {
			continue // it is just asked for
		}
		s.asking.Unlock()
		go func() {
			if is, err := f.ask(context.Background(), s); err == nil && is == nil {
				ended()
			}
		}()
	}
}

// tidy forgets the sessions that were not asked for lately. It leaves a session alone that is being asked for.
func (f *farSessions) tidy(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for hash, s := range f.known {
		if s.asking.TryLock() {
			if now.After(s.seen.Add(farStale)) {
				delete(f.known, hash)
			}
			s.asking.Unlock()
		}
	}
}
