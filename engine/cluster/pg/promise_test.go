package pg

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/cluster"
	"github.com/quern-queue/quern/engine/cluster/pg/pgtest"
	"github.com/quern-queue/quern/engine/queue"
)

func asFormatError(err error) (*queue.FormatError, bool) {
	return errors.AsType[*queue.FormatError](err)
}

// wantRefused expects that a start is refused with a text, and that no tables are made.
func wantRefused(t *testing.T, at *pgtest.Server, o Options, want string, is error) {
	t.Helper()
	b, err := Open(ctx, o)
	if err == nil {
		err = b.Close()
		t.Fatalf("Open succeeded (%v); want it refused with %q", err, want)
	}
	if !strings.Contains(err.Error(), want) || is != nil && !errors.Is(err, is) {
		t.Errorf("Open = %v; want %q", err, want)
	}
	if at != nil {
		at.Until(t, fmt.Sprintf("SELECT to_regclass('%s.batch') IS NULL", o.Schema))
	}
}

// A database is refused if it is too old, lacks rights, or could lose acknowledged work.
func TestRefusals(t *testing.T) {
	t.Parallel()
	good := facts{version: 140000, fsync: "on", fullPageWrites: "on", standbys: "b"}
	for _, c := range []struct {
		change func(f *facts, o *Options)
		want   string
	}{
		{func(*facts, *Options) {}, ""},
		{func(f *facts, _ *Options) { f.version = 130012 }, "It is PostgreSQL 13: upgrade it to 14 or later."},
		{func(f *facts, _ *Options) { f.fsync = "off" }, "fsync is off"},
		{func(f *facts, _ *Options) { f.fullPageWrites = "off" }, "full_page_writes is off"},
		{func(f *facts, _ *Options) { f.standbys = "" }, "no synchronous standby"},
		{func(f *facts, o *Options) { f.standbys, o.AcceptAsync = "", true }, ""},
		{func(f *facts, _ *Options) { f.standbys = "FIRST 0 (a)" }, "no synchronous standby"},
		{func(f *facts, _ *Options) { f.missing = []string{"INSERT on batch"} }, "INSERT on batch"},
	} {
		f, o := good, Options{Schema: "quern"}
		c.change(&f, &o)
		switch err := f.refusal(o); {
		case c.want == "" && err != nil:
			t.Errorf("%+v is refused: %v", f, err)
		case c.want != "" && (!errors.Is(err, cluster.ErrPromise) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%+v: %v; want %q", f, err, c.want)
		}
	}
	for names, want := range map[string]int{"": 0, " ": 0, "*": 1, "a, b": 1, "2 (a, b, c)": 2, "FIRST 3 (*)": 3, "any 1 (a)": 1, `"first"`: 1} {
		if got := (facts{standbys: names}).waitedFor(); got != want {
			t.Errorf("%q: %d standbys are waited for, want %d", names, got, want)
		}
	}
}

// A database that could lose acknowledged work is refused, with a list of all changes to make, and left as it was.
func TestUnsafeServerIsRefused(t *testing.T) {
	t.Parallel()
	own := pgtest.Begin(t, "fsync=off", "full_page_writes=off")
	o := Options{URL: own.URL(), Schema: "unsafe"}
	for _, want := range []string{"fsync is off", "full_page_writes is off", "accept the loss with --accept-async"} {
		wantRefused(t, own, o, want, cluster.ErrPromise)
	}
}

// A database with a synchronous standby promises more than one without, which must be accepted.
func TestPromise(t *testing.T) {
	t.Parallel()
	own := pgtest.Begin(t)
	o := Options{URL: own.URL(), Schema: "promise"}
	wantRefused(t, own, o, "no synchronous standby", cluster.ErrPromise)
	b := begin(t, o)
	p, err := b.Promise(ctx)
	if err != nil || p.Standbys != 0 || !strings.HasPrefix(p.Engine, "PostgreSQL 1") {
		t.Fatalf("Promise = %+v, %v", p, err)
	}
	withStandby(t, own, "ANY 2 (a, b, c)")
	if p, err = b.Promise(ctx); err != nil || p.Standbys != 2 || !strings.Contains(p.String(), "2 standbys") {
		t.Errorf("Promise = %+v, %v; want 2 standbys", p, err)
	}
}

// as is the URL of the shared server for another role.
func as(t *testing.T, role string) string {
	t.Helper()
	u, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(role)
	return u.String()
}

// A role without a right gets the name of the right, before anything is half done.
func TestMissingRights(t *testing.T) {
	t.Parallel()
	server.Exec(t, "CREATE ROLE stranger LOGIN")
	o := Options{URL: as(t, "stranger"), Schema: "not_its", AcceptAsync: true}
	wantRefused(t, server, o, "GRANT CREATE ON DATABASE", cluster.ErrPromise)
	server.Exec(t, "CREATE ROLE tenant LOGIN; CREATE SCHEMA own AUTHORIZATION tenant")
	o = Options{URL: as(t, "tenant"), Schema: "own", AcceptAsync: true}
	appendTo(t, openLog(t, begin(t, o), "j"), 0, "x")
	server.Exec(t, "REVOKE INSERT ON own.batch FROM tenant")
	if _, err := Open(ctx, o); !errors.Is(err, cluster.ErrPromise) || !strings.Contains(err.Error(), "INSERT on batch") {
		t.Errorf("Open = %v; want the right that is missing", err)
	}
}

// A schema that a newer program has made is refused, and left as it is.
func TestNewerSchema(t *testing.T) {
	t.Parallel()
	b := begin(t, Options{})
	server.Exec(t, "INSERT INTO "+b.o.Schema+".goose_db_version (version_id, is_applied) VALUES (99, true)")
	wantRefused(t, nil, Options{URL: server.URL(), Schema: b.o.Schema, AcceptAsync: true}, "has version 99, and this Quern knows versions up to 1", cluster.ErrPromise)
}

// The error of a wrong address says what to do.
func TestWrongAddresses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{URL: "http://host"}, "write postgres://USER:PASSWORD@HOST:PORT/DATABASE"},
		{Options{URL: "postgres://127.0.0.1:1/x?sslmode=disable", Patience: 1}, "check host and port"},
		{Options{URL: strings.Replace(server.URL(), "/postgres?", "/nowhere?", 1), Patience: 1}, "create it with CREATE DATABASE"},
		{Options{URL: as(t, "no_one"), Patience: 1}, "check the user in the URL"},
		{Options{URL: server.URL(), Schema: "Quern"}, "the schema"},
		{Options{URL: server.URL(), Schema: "pg_quern"}, "the schema"},
		{Options{URL: server.URL(), Conns: -1}, "connections"},
	} {
		wantRefused(t, nil, c.o, c.want, nil)
	}
}

// A pooler that gives connections away after each transaction is refused; one that keeps sessions is not.
func TestPoolers(t *testing.T) {
	t.Parallel()
	for mode, refused := range map[string]bool{"transaction": true, "statement": true, "session": false} {
		for _, size := range []int{1, 20} {
			if mode == "session" && size == 1 {
				continue // not even enough for one node
			}
			o := Options{URL: server.Pooled(t, mode, size), Schema: "pooled_" + mode, AcceptAsync: true}
			if refused {
				wantRefused(t, server, o, "pool_mode = session", cluster.ErrPromise)
				continue
			}
			appendTo(t, openLog(t, begin(t, o), "j"), 0, "x")
		}
	}
}
