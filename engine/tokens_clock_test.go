package engine

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
)

// A credential that was refused stays refused when the clock is set back by an hour, in this run and after a restart: a secret that was
// rotated without overlap, one whose overlap is over, a token that expired, one that was revoked. Its expiry can still be read.
func TestAClockThatGoesBackMakesNothingGoodAgain(t *testing.T) {
	t.Parallel()
	start := time.Now().Truncate(time.Millisecond)
	var moved atomic.Int64
	now := func() time.Time { return start.Add(time.Duration(moved.Load())) }
	dir := t.TempDir()
	e, _ := guarded(t, dir, false, now)
	defer func() { closed(t, e) }()
	make := func(r TokenRequest) (access.Token, string) {
		t.Helper()
		made, text, err := e.Tokens().New(t.Context(), r)
		fatal(t, err)
		return made, text
	}
	rotate := func(id access.ID, overlap time.Duration) string {
		t.Helper()
		_, text, err := e.Tokens().Rotate(t.Context(), id, overlap)
		fatal(t, err)
		return text
	}
	root, rootFirst := make(TokenRequest{Name: "root", Scopes: access.Admin})
	overlapped, overlappedFirst := make(TokenRequest{Name: "overlapped", Scopes: access.Read})
	expires := queue.At(start.Add(20 * time.Minute))
	expiring, expired := make(TokenRequest{Name: "expiring", Scopes: access.Read, Expires: expires})
	gone, revoked := make(TokenRequest{Name: "gone", Scopes: access.Read})
	rootSecond, overlappedSecond := rotate(root.ID, 0), rotate(overlapped.ID, 10*time.Minute)
	fatal(t, e.Tokens().Revoke(t.Context(), gone.ID))
	good := func(when string, want map[string]bool) {
		t.Helper()
		for text, want := range want {
			proof, _ := access.ProofOf(text)
			if _, got := e.Tokens().At(queue.At(now())).Find(&proof, queue.At(now())); got != want {
				t.Errorf("%s: the token of %s is good: %v, want %v", when, text[:15], got, want)
			}
		}
	}
	all := map[string]bool{rootFirst: false, revoked: false, overlappedFirst: true, expired: true, rootSecond: true, overlappedSecond: true}
	good("at first", all)
	moved.Store(int64(30 * time.Minute))
	all[overlappedFirst], all[expired] = false, false
	good("half an hour later", all)
	kept, _, err := e.tokens.catalogue.Tokens()
	fatal(t, err)
	for _, token := range kept { // durably, before the refusal was answered
		if token.Expired != (token.ID == expiring.ID) || token.Previous != (access.Hash{}) {
			t.Errorf("the catalogue has the token %s with over: %v, and the secret before: %x", token.Name, token.Expired, token.Previous)
		}
	}
	moved.Store(int64(-time.Hour))
	good("an hour before the start", all)
	closed(t, e)
	e, _ = guarded(t, dir, false, now)
	good("after a restart", all)
	if got, err := e.Tokens().Token(expiring.ID); err != nil || got.Expires != expires || !got.Expired {
		t.Errorf("after a restart the token expires at %v (over: %v), %v; want %v and true", got.Expires, got.Expired, err, expires)
	}
}
