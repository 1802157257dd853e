package pg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/quern-queue/quern/engine/cluster/pg/pgtest"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// wantBatches expects that a new handle reads exactly these batches.
func wantBatches(t *testing.T, b *Backend, name string, want ...string) {
	t.Helper()
	var got []string
	err := openLog(t, b, name).Read(ctx, 0, func(_ journal.Position, batch []byte) error {
		got = append(got, string(batch))
		return nil
	})
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("journal %s has %.200q, %v; want %.200q", name, got, err, want)
	}
}

// A server that is killed again and again in the middle of appends loses none that it acknowledged, and no append fails.
//
//quern:killing
func TestKilledServerLosesNothing(t *testing.T) {
	t.Parallel()
	own := pgtest.Begin(t)
	b := begin(t, Options{URL: own.URL(), Schema: "killed"})
	const writers, kills, between = 4, 5, 40
	var (
		all          sync.WaitGroup
		count        atomic.Int64
		acknowledged [writers][]string
		stop         = make(chan struct{})
		some         = make(chan struct{}, 1)
	)
	for w := range writers {
		l := openLog(t, b, fmt.Sprint("w", w))
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				batch := fmt.Sprintf("%d of %d", i, w)
				if at, err := l.Append(ctx, journal.Position(i), []byte(batch)); err != nil || at != journal.Position(i+1) {
					t.Errorf("Append = %d, %v; want %d", at, err, i+1)
					return
				}
				acknowledged[w] = append(acknowledged[w], batch)
				if count.Add(1)%between == 0 {
					select {
					case some <- struct{}{}:
					default:
					}
				}
			}
		})
	}
	for range kills {
		<-some
		if err := own.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := own.Run(); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	all.Wait()
	for w := range writers {
		wantBatches(t, b, fmt.Sprint("w", w), acknowledged[w]...)
	}
	t.Logf("%d appends were acknowledged over %d kills", count.Load(), kills)
}

// After a primary is killed for good, and its synchronous standby promoted, every acknowledged batch is there, and the appends go on.
//
//quern:killing
func TestPromotedStandbyHasAll(t *testing.T) {
	t.Parallel()
	own := pgtest.Begin(t)
	standby := own.Standby(t)
	withStandby(t, own, "*")
	own.Until(t, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')")
	b := begin(t, Options{URL: own.URL(standby), Schema: "promoted"})
	if p, err := b.Promise(ctx); err != nil || p.Standbys != 1 {
		t.Fatalf("Promise = %+v, %v; want one standby", p, err)
	}
	l := openLog(t, b, "j")
	const before, all = 50, 150
	reached, ended := make(chan struct{}), make(chan []string, 1)
	go func() {
		var acknowledged []string
		reach := sync.OnceFunc(func() { close(reached) })
		defer reach()
		for i := range all {
			if i == before {
				reach()
			}
			batch := fmt.Sprint("batch ", i)
			if at, err := l.Append(ctx, journal.Position(i), []byte(batch)); err != nil || at != journal.Position(i+1) {
				t.Errorf("Append = %d, %v; want %d", at, err, i+1)
				break
			}
			acknowledged = append(acknowledged, batch)
		}
		ended <- acknowledged
	}()
	<-reached
	if err := own.Kill(); err != nil {
		t.Fatal(err)
	}
	standby.Exec(t, "SELECT pg_promote(true)")
	acknowledged := <-ended
	wantBatches(t, b, "j", acknowledged...)
}

const waitsForStandby = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%UPDATE journal SET tail%')"

// cancelWait cancels the wait of an append for its standby: the database answers it as done, with a warning.
func cancelWait(t *testing.T, own *pgtest.Server) {
	t.Helper()
	own.Until(t, waitsForStandby)
	own.Exec(t, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%UPDATE journal SET tail%'")
	own.Until(t, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%UPDATE journal SET confirmed%')")
}

func withStandby(t *testing.T, own *pgtest.Server, names string) {
	t.Helper()
	if err := own.Synchronous(t.Context(), names); err != nil {
		t.Fatal(err)
	}
}

// An append whose wait for a standby was cancelled is visible, but it is not acknowledged before a standby has it.
func TestCancelledWaitIsUnknown(t *testing.T) {
	t.Parallel()
	own := pgtest.Begin(t)
	b := begin(t, Options{URL: own.URL(), Schema: "waits", Try: time.Minute})
	l := openLog(t, b, "j")
	appendTo(t, l, 0, "one")
	withStandby(t, own, "absent")
	type answer struct {
		at  journal.Position
		err error
	}
	answers := make(chan answer, 1)
	over, cancel := context.WithCancel(ctx)
	start := func(expect journal.Position, batch string) {
		go func() {
			at, err := l.Append(over, expect, []byte(batch))
			answers <- answer{at, err}
		}()
	}
	start(1, "two")
	cancelWait(t, own)
	withStandby(t, own, "")
	if got := <-answers; got.err != nil || got.at != 2 {
		t.Fatalf("Append = %d, %v; want 2, once nothing is waited for", got.at, got.err)
	}
	withStandby(t, own, "absent")
	start(2, "three")
	cancelWait(t, own)
	if err := l.Read(ctx, 2, func(journal.Position, []byte) error { return nil }); err != nil { // the batch is there to be read
		t.Fatal(err)
	}
	const confirms = "FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%UPDATE journal SET confirmed%'"
	own.Exec(t, "SET synchronous_commit TO off; CREATE TABLE canceled AS SELECT pid, pg_cancel_backend(pid) "+confirms)
	own.Until(t, "SELECT EXISTS (SELECT "+confirms+" AND pid NOT IN (SELECT pid FROM canceled))") // it is confirmed again
	cancel()
	if got := <-answers; !errors.Is(got.err, journal.ErrUnknown) || !errors.Is(got.err, context.Canceled) {
		t.Fatalf("Append = %d, %v; want ErrUnknown", got.at, got.err)
	}
	withStandby(t, own, "")
	if _, err := l.Append(ctx, 2, []byte("other")); !errors.Is(err, journal.ErrConflict) {
		t.Fatalf("Append = %v; want ErrConflict, as the batch is there", err)
	}
	appendTo(t, l, 3, "four")
	wantBatches(t, b, "j", "one", "two", "three", "four")
}

// An append does not wait for a standby when durability is relaxed.
func TestRelaxedDoesNotWait(t *testing.T) {
	t.Parallel()
	own := pgtest.Begin(t)
	b := begin(t, Options{URL: own.URL(), Schema: "relaxed"})
	l := openLog(t, b, "j")
	withStandby(t, own, "absent")
	if err := l.SetDurability(queue.Relaxed); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		appendTo(t, l, journal.Position(i), "x")
	}
	appendTo(t, l, 3, string(make([]byte, 2*partBytes)))
	withStandby(t, own, "")
	if err := l.SetDurability(queue.Full); err != nil {
		t.Fatal(err)
	}
	appendTo(t, l, 4, "x")
}

// After a link is cut in one direction, so that no answer comes, or is reset, the append is made once, on another connection.
func TestLinksThatFail(t *testing.T) {
	t.Parallel()
	proxy := server.Front(t)
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	b := begin(t, Options{URL: proxy.URL(), Try: 300 * time.Millisecond})
	l := openLog(t, b, "j")
	var want []string
	for i := range 6 {
		if i%2 == 0 {
			proxy.Mute()
		} else {
			proxy.Cut()
		}
		want = append(want, fmt.Sprint("batch ", i))
		appendTo(t, l, journal.Position(i), want[i])
	}
	wantBatches(t, b, "j", want...)
}

// The end of the server's session during an append is no answer, whatever ends it.
func TestEndedSessions(t *testing.T) {
	t.Parallel()
	b := begin(t, Options{})
	l := openLog(t, b, "j")
	appendTo(t, l, 0, "one")
	schema := b.o.Schema
	var locked sync.WaitGroup
	for i, how := range []string{"pg_cancel_backend", "pg_terminate_backend"} {
		holder, err := b.pool.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := holder.Exec(ctx, "SELECT FROM journal FOR UPDATE"); err != nil {
			t.Fatal(err)
		}
		locked.Go(func() {
			if at, err := l.Append(ctx, journal.Position(i+1), []byte(how)); err != nil || at != journal.Position(i+2) {
				t.Errorf("Append = %d, %v; want %d", at, err, i+2)
			}
		})
		waits := fmt.Sprintf(`FROM pg_stat_activity a JOIN pg_locks l USING (pid) JOIN pg_locks r ON r.pid = a.pid AND r.relation = '%s.journal'::regclass
			WHERE NOT l.granted AND a.query LIKE '%%UPDATE journal SET tail%%'`, schema)
		server.Until(t, "SELECT EXISTS (SELECT "+waits+")")
		server.Exec(t, "SELECT "+how+"(a.pid) "+waits)
		if err := holder.Rollback(ctx); err != nil {
			t.Fatal(err)
		}
		locked.Wait()
	}
	wantBatches(t, b, "j", "one", "pg_cancel_backend", "pg_terminate_backend")
}

// On a full disk a write returns ErrFull and writes nothing. Once there is room, writes succeed again.
func TestDatabaseWithoutRoom(t *testing.T) {
	t.Parallel()
	b := begin(t, Options{})
	l := openLog(t, b, "j")
	appendTo(t, l, 0, "one")
	server.Exec(t, fmt.Sprintf(`SET search_path TO %s;
		CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100'; END $$;
		CREATE TRIGGER full_disk BEFORE INSERT ON batch FOR EACH ROW EXECUTE FUNCTION full_disk();
		CREATE TRIGGER full_disk BEFORE INSERT ON blob FOR EACH ROW EXECUTE FUNCTION full_disk();`, b.o.Schema))
	for _, batch := range []string{"two", string(make([]byte, partBytes+1))} {
		if _, err := l.Append(ctx, 1, []byte(batch)); !errors.Is(err, journal.ErrFull) {
			t.Fatalf("Append of %d bytes on a full disk = %v; want ErrFull", len(batch), err)
		}
	}
	if err := putBlob(b, "k", "x"); !errors.Is(err, journal.ErrFull) {
		t.Fatalf("Put on a full disk = %v; want ErrFull", err)
	}
	server.Exec(t, fmt.Sprintf("DROP FUNCTION %s.full_disk CASCADE", b.o.Schema))
	appendTo(t, l, 1, "two")
	if err := putBlob(b, "k", "x"); err != nil {
		t.Fatal(err)
	}
	wantBatches(t, b, "j", "one", "two")
}

// Each failure of a statement has the right class.
func TestClasses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want class
	}{
		{&pgconn.PgError{Code: "53100", SeverityUnlocalized: "ERROR"}, noRoom},
		{&pgconn.PgError{Code: "42501", SeverityUnlocalized: "ERROR"}, refused},
		{&pgconn.PgError{Code: "57014", SeverityUnlocalized: "ERROR"}, undone},
		{&pgconn.PgError{Code: "40001", SeverityUnlocalized: "ERROR"}, undone},
		{&pgconn.PgError{Code: "57P01", SeverityUnlocalized: "FATAL"}, unknown},
		{&pgconn.PgError{Code: "XX001", SeverityUnlocalized: "ERROR"}, corrupted},
		{&warningError{&pgconn.Notice{Code: "01000", Message: "canceling wait"}}, unknown},
		{&acquireError{context.DeadlineExceeded}, undone},
		{&acquireError{&pgconn.PgError{Code: "57P03", SeverityUnlocalized: "FATAL"}}, undone},
		{&acquireError{&pgconn.PgError{Code: "28P01", SeverityUnlocalized: "FATAL"}}, refused},
		{context.DeadlineExceeded, unknown},
		{errors.New("unexpected EOF"), unknown},
	} {
		if got := classOf(c.err); got != c.want {
			t.Errorf("classOf(%v) = %d, want %d", c.err, got, c.want)
		}
	}
}
