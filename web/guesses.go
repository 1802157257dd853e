package web

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
)

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

// makeRoom forgets the addresses that have nothing to wait for, and, if all of them do, all. Forgetting all of them
// lets guessing go on for a moment. Refusing new addresses instead would let one attacker with many addresses shut
// out everyone else's first mistake.
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

// tooMuch is the problem of who asks for more than a token or an address may.
func tooMuch(what string, wait time.Duration) *problem {
	p := newProblem(queue.CodeOverloaded, what+" Wait as long as Retry-After says.")
	p.retry = max(time.Second, (wait + time.Second - 1).Truncate(time.Second))
	return p
}
