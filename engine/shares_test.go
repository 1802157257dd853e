package engine

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
)

// After a restart, the open submissions of a token, and the values of meta keys that they brought, count for no token any more. They are
// still open, and count with all others. So each restart, which a token cannot cause, gives it at most one more share, and all tokens
// together never get more than the server has.
func TestWhatARestartForgivesAToken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	limits := access.Limits{Submissions: 3, Values: 3}
	start := func() *Engine {
		e, err := Open(t.Context(), Options{Dir: dir, Now: time.Now, Seed: func() uint64 { return 7 }, BallastBytes: -1, MaxLive: 5,
			Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := start()
	made, _, err := e.Tokens().New(t.Context(), TokenRequest{Name: "greedy", Scopes: access.Admin})
	if err != nil {
		t.Fatal(err)
	}
	insert := func(company int64) error {
		token, err := e.Tokens().Token(made.ID)
		if err != nil {
			t.Fatal(err)
		}
		meta := queue.Meta{{Key: "company", Value: queue.IntValue(company)}}
		_, _, err = queueAt(e, DefaultQueue).Insert(access.With(t.Context(), &access.Caller{Token: &token, Limits: &limits}),
			queue.NewSubmission{Meta: meta, Chunks: queue.Chunks{Count: 1, Prefix: "x/"}})
		return err
	}
	refused := func(when, by string, err error) {
		t.Helper()
		if queue.CodeOf(err) != queue.CodeTooManySubmissions || !strings.Contains(err.Error(), by) {
			t.Errorf("%s: got %v, want it refused by %s", when, err, by)
		}
	}
	for company := range int64(limits.Submissions) {
		if err := insert(company); err != nil {
			t.Fatal(err)
		}
	}
	refused("before the restart", "token-submissions", insert(0))
	closed(t, e)

	e = start()
	defer func() { closed(t, e) }()
	for company := range e.options.MaxLive - int64(limits.Submissions) {
		if err := insert(10 + company); err != nil { // another value too
			t.Fatalf("after the restart: %v", err)
		}
	}
	refused("with the open ones of before", "max-live-submissions", insert(0))
}
