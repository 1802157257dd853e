package engine

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
)

// guarded opens an engine with or without --auth, at a time of the test's.
func guarded(t *testing.T, dir string, auth bool, now func() time.Time) (*Engine, *strings.Builder) {
	t.Helper()
	log := new(strings.Builder)
	e, err := Open(context.Background(), Options{
		Dir: dir, Auth: auth, Now: now, Seed: func() uint64 { return 7 }, BallastBytes: -1, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return e, log
}

func proven(e *Engine, text string) bool {
	proof, ok := access.ProofOf(strings.TrimSpace(text))
	_, found := e.Tokens().Table().Find(&proof, queue.At(e.options.Now()))
	return ok && found
}

// Tokens outlive a restart with all that is known of them. Requests still need one, even after the last is revoked.
func TestTokensOutliveARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e, _ := guarded(t, dir, false, time.Now)
	if e.Tokens().Table().Required() {
		t.Fatal("a new server needs tokens")
	}
	closed(t, e)
	e, _ = guarded(t, dir, false, time.Now)
	if e.Tokens().Table().Required() || len(e.Tokens().All()) != 0 {
		t.Fatal("a restart made tokens of nothing")
	}
	root, rootText, err := e.Tokens().New(t.Context(), TokenRequest{Name: "root", Scopes: access.Admin})
	if err != nil {
		t.Fatal(err)
	}
	bound := access.Restriction{Queues: []string{"default", "späte"}[:1], Entry: queue.MetaEntry{Key: "company", Value: queue.StringValue("7")}}
	full, fullText, err := e.Tokens().New(t.Context(), TokenRequest{Name: "größte", Scopes: access.Produce | access.Consume, Restriction: bound, Expires: queue.At(time.Now().Add(time.Hour))})
	if err != nil {
		t.Fatal(err)
	}
	full, newText, err := e.Tokens().Rotate(t.Context(), full.ID, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	full.Note(queue.At(time.Now()))
	closed(t, e)
	e, _ = guarded(t, dir, false, time.Now)
	got, err := e.Tokens().Token(full.ID)
	full.Used = full.Last() // what was noted is written down at the end
	full.Use, got.Use = nil, nil
	if err != nil || !reflect.DeepEqual(got, full) {
		t.Errorf("after a restart:\n%+v, %v; want\n%+v", got, err, full)
	}
	for text, want := range map[string]bool{rootText: true, fullText: true, newText: true, access.Text(full.ID, strings.Repeat("a", 52)): false} {
		if proven(e, text) != want {
			t.Errorf("after a restart a token of %s is good: %v, want %v", text[:16], !want, want)
		}
	}
	for _, id := range []access.ID{full.ID, root.ID, root.ID} {
		if err := e.Tokens().Revoke(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if !e.Tokens().Table().Required() || proven(e, rootText) {
		t.Error("revoking the last token opened the server")
	}
	closed(t, e)
	e, log := guarded(t, dir, false, time.Now)
	defer closed(t, e)
	text, err := os.ReadFile(filepath.Join(dir, AdminTokenFile))
	if err != nil || !proven(e, string(text)) || proven(e, rootText) {
		t.Errorf("after the last was revoked a start must write an admin token: %q, %v", text, err)
	}
	if strings.Contains(log.String(), strings.TrimSpace(string(text))[20:]) || !strings.Contains(log.String(), AdminTokenFile) {
		t.Errorf("the log must have the file's path and not the secret: %s", log)
	}
}

// If all admin tokens are lost, an empty file in the data directory gets a new one at the next start, which can revoke the lost ones. A
// file with something in it, a link and a server that needs no token change nothing.
func TestEmptyFileAsksForAnAdminToken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, other := filepath.Join(dir, AdminTokenFile), filepath.Join(dir, "other")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	start := func(auth bool, tokens int) {
		t.Helper()
		e, _ := guarded(t, dir, auth, time.Now)
		defer closed(t, e)
		if got := len(e.Tokens().All()); got != tokens {
			t.Errorf("there are %d tokens, want %d", got, tokens)
		}
	}
	start(false, 0)
	write(path, "")
	start(false, 0)
	start(true, 1)
	write(path, "lost\n")
	start(true, 1)
	if err := errors.Join(os.Remove(path), os.WriteFile(other, nil, 0o600), os.Symlink(other, path)); err != nil {
		t.Fatal(err)
	}
	start(true, 1)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write(path, "")
	e, log := guarded(t, dir, false, time.Now)
	defer closed(t, e)
	text, err := os.ReadFile(path)
	if err != nil || !proven(e, string(text)) || len(e.Tokens().All()) != 2 || !strings.Contains(log.String(), "there was an empty file for it") {
		t.Fatalf("got the file %q, %v, %d tokens and the log %s; want a second token that is good", text, err, len(e.Tokens().All()), log)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v, %v; want 0600", info.Mode(), err)
	}
}

// With Auth the first start writes one admin token to a file that only its owner reads; later starts leave it as it is, until it
// expires or is revoked.
func TestAdminTokenIsWrittenOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, AdminTokenFile)
	var later atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	e, _ := guarded(t, dir, true, now)
	first, err := os.ReadFile(path)
	if err != nil || !proven(e, string(first)) || !e.Tokens().Table().Required() {
		t.Fatalf("the first start wrote %q, %v; want a token that is good, and required", first, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v, %v; want 0600", info.Mode(), err)
	}
	token := e.Tokens().All()[0]
	if token.Scopes != access.Admin || token.Name != "admin" || token.Expires != 0 {
		t.Errorf("it is %+v; want admin, for good", token)
	}
	closed(t, e)
	e, _ = guarded(t, dir, false, now) // once required, always required
	if again, err := os.ReadFile(path); err != nil || string(again) != string(first) || !proven(e, string(first)) {
		t.Errorf("a later start wrote %q, %v; want the first, %q", again, err, first)
	}
	if _, _, err := e.Tokens().New(t.Context(), TokenRequest{Name: "short", Scopes: access.All, Expires: queue.At(now().Add(time.Minute))}); err != nil {
		t.Fatal(err)
	}
	if err := e.Tokens().Revoke(t.Context(), token.ID); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	closed(t, e)
	e, _ = guarded(t, dir, true, now)
	if _, err := os.Stat(path); err == nil {
		t.Error("a token was written while another admin's was good")
	}
	closed(t, e)
	later.Store(int64(time.Hour))
	e, _ = guarded(t, dir, true, now)
	defer closed(t, e)
	if third, err := os.ReadFile(path); err != nil || string(third) == string(first) || !proven(e, string(third)) {
		t.Errorf("with no admin's token good a start wrote %q, %v; want another", third, err)
	}
}

// A request for a token that is not allowed is refused with the reason, and leaves the server as it was.
func TestTokensAreChecked(t *testing.T) {
	t.Parallel()
	e, _ := guarded(t, t.TempDir(), false, time.Now)
	defer closed(t, e)
	past := queue.At(time.Now().Add(-time.Second))
	tenant := access.Restriction{Entry: queue.MetaEntry{Key: "company", Value: queue.IntValue(7)}}
	refused := func(pointer string, r TokenRequest) {
		t.Helper()
		_, text, err := e.Tokens().New(t.Context(), r)
		wrong, ok := err.(*queue.Error)
		if !ok || text != "" || pointer != "" && (len(wrong.Problems) != 1 || wrong.Problems[0].Pointer != pointer) || pointer == "" && wrong.Code != queue.CodeConflict {
			t.Errorf("%+v: %v; want a refusal of %s", r, err, pointer)
		}
	}
	refused("/scopes", TokenRequest{Name: "first", Scopes: access.All &^ access.Admin})
	if e.Tokens().Table().Required() {
		t.Error("a refused token closed the server")
	}
	if _, _, err := e.Tokens().New(t.Context(), TokenRequest{Name: "root", Scopes: access.Admin}); err != nil {
		t.Fatal(err)
	}
	refused("", TokenRequest{Name: "root", Scopes: access.Read})
	refused("/name", TokenRequest{Scopes: access.Read})
	refused("/name", TokenRequest{Name: "a\nb", Scopes: access.Read})
	for _, taken := range []string{"root ", "\u3000root", "quern"} { // what looks like another, and the server itself
		refused("/name", TokenRequest{Name: taken, Scopes: access.Read})
	}
	refused("/name", TokenRequest{Name: "\xff", Scopes: access.Read})
	refused("/name", TokenRequest{Name: strings.Repeat("x", 129), Scopes: access.Read})
	refused("/scopes", TokenRequest{Name: "x"})
	refused("/expires_at", TokenRequest{Name: "x", Scopes: access.Read, Expires: past})
	for _, scope := range []access.Scopes{access.Admin, access.Plugins, access.Metrics} {
		refused("/scopes", TokenRequest{Name: "x", Scopes: scope | access.Read, Restriction: tenant})
		refused("/scopes", TokenRequest{Name: "x", Scopes: scope, Restriction: access.Restriction{Queues: []string{"default"}}})
	}
	refused("/queues/1", TokenRequest{Name: "x", Scopes: access.Read, Restriction: access.Restriction{Queues: []string{"ok", "no/queue"}}})
	refused("/queues", TokenRequest{Name: "x", Scopes: access.Read, Restriction: access.Restriction{Queues: make([]string, queue.MaxTokenQueues+1)}})
	refused("/meta", TokenRequest{Name: "x", Scopes: access.Read, Restriction: access.Restriction{Entry: queue.MetaEntry{Key: "$x", Value: queue.IntValue(1)}}})
	refused("/meta/k", TokenRequest{Name: "x", Scopes: access.Read, Restriction: access.Restriction{Entry: queue.MetaEntry{Key: "k", Value: queue.StringValue(strings.Repeat("v", 257))}}})
	if n := len(e.Tokens().All()); n != 1 {
		t.Errorf("%d tokens after refusals, want the one", n)
	}
	if _, _, err := e.Tokens().Rotate(t.Context(), "absent", 0); queue.CodeOf(err) != queue.CodeUnknownToken {
		t.Errorf("rotate: %v", err)
	}
	if _, _, err := e.Tokens().Rotate(t.Context(), e.Tokens().All()[0].ID, queue.MaxRotationOverlap+time.Second); queue.CodeOf(err) != queue.CodeInvalid {
		t.Errorf("rotate with too long an overlap: %v", err)
	}
}
