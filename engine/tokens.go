package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// Tokens are the access tokens of the server. A look-up takes no lock and reads no disk: all tokens are in a table, which a change replaces
// as a whole, after the catalogue has it.
//
// Before the first token, no request needs one. From then on every request does, for good: neither revoking nor expiry of the last opens
// the server again. When none with the scope admin is good, the next start writes one to the file AdminTokenFile.
type Tokens struct {
	dir       string
	now       func() time.Time
	log       *slog.Logger
	catalogue *store.Catalogue

	table  atomic.Pointer[access.Table]
	change sync.Mutex  // held while the table is replaced
	wrote  time.Time   // when the last uses were written down
	ended  []access.ID // tokens whose last state is still to be written

	refusals refusals
}

// AdminTokenFile is the name, in the data directory, of the file with the token that the server made by itself.
const AdminTokenFile = "admin-token"

// usesEvery is how often the times of last use are written down: no one needs them to the minute after a crash.
const usesEvery = 5 * time.Minute

// Tokens are the server's access tokens.
func (e *Engine) Tokens() *Tokens { return &e.tokens }

// open reads the tokens; room fails on a full disk. It makes a token that may make others, if tokens are required and none may, or if an
// operator asks for one by a file in the data directory.
func (t *Tokens) open(o *Options, catalogue *store.Catalogue, room func() error) error {
	t.dir, t.now, t.log, t.catalogue, t.wrote = o.Dir, o.Now, o.Logger, catalogue, o.Now()
	t.refusals = refusals{now: o.Now, began: o.Now(), log: o.Logger, put: catalogue.PutAct, room: room, by: map[string]*refused{}}
	all, required, err := catalogue.Tokens()
	if err != nil {
		return err
	}
	t.table.Store(access.NewTable(required, all))
	t.At(queue.At(o.Now()))
	switch {
	case !required && !o.Auth:
		return nil
	case !t.Table().Administered(queue.At(o.Now())):
		return t.makeAdmin("requests need a token, and none could make others")
	case t.askedForAdmin():
		return t.makeAdmin("there was an empty file for it")
	}
	return nil
}

// askedForAdmin says whether an operator left an empty file for a token, as the tokens that may make others are lost. This gives no new
// rights: those who can write to the data directory can do everything anyway.
func (t *Tokens) askedForAdmin() bool {
	info, err := os.Lstat(filepath.Join(t.dir, AdminTokenFile))
	return err == nil && info.Mode().IsRegular() && info.Size() == 0
}

// reload takes over changes of another node of the cluster.
func (t *Tokens) reload() error {
	t.change.Lock()
	defer t.change.Unlock()
	all, required, err := t.catalogue.Tokens()
	if err == nil {
		t.table.Store(access.NewTable(required, all))
	}
	return err
}

// Table is all tokens as they are now.
func (t *Tokens) Table() *access.Table { return t.table.Load() }

// At is all tokens as they are at that time. Tokens and secrets that are over by then end for good. The catalogue records it before anyone
// is refused for it, unless the write fails.
func (t *Tokens) At(now queue.Time) *access.Table {
	if table := t.Table(); !table.Due(now) {
		return table
	}
	t.change.Lock()
	defer t.change.Unlock()
	list := t.Table().Tokens()
	for i := range list {
		if list[i].Lapse(now) {
			t.ended = append(t.ended, list[i].ID)
		}
	}
	t.table.Store(access.NewTable(t.Table().Required(), list))
	t.keepEnded()
	return t.Table()
}

// keepEnded writes down the tokens that ended. While it cannot, they are ended only in memory. The caller holds t.change.
func (t *Tokens) keepEnded() {
	if len(t.ended) == 0 {
		return
	}
	var list []access.Token
	for _, id := range t.ended {
		if token, there := t.Table().Token(id); there { // else it was revoked since
			list = append(list, token)
		}
	}
	if err := t.catalogue.EndTokens(list); err != nil {
		t.log.Error("recording ended access tokens failed; the server tries again", "error", err)
		return
	}
	t.ended = nil
}

// makeAdmin writes a token with the scope admin to the data directory. The file comes first: if the server ends before the token is stored,
// no token is good that no one has, and the next start makes one again.
func (t *Tokens) makeAdmin(why string) error {
	id, secret, err := access.Draw(rand.Reader)
	if err != nil {
		return err
	}
	name := "admin"
	if taken(t.Table(), name) {
		name += "-" + string(id)
	}
	path := filepath.Join(t.dir, AdminTokenFile)
	if err := writeSecret(path, access.Text(id, secret)+"\n"); err != nil {
		return fmt.Errorf("the admin token cannot be written to %s: %w", path, err)
	}
	if err := t.put(context.Background(),
		access.Token{ID: id, Name: name, Scopes: access.Admin, Secret: access.HashOf(secret)}); err != nil {
		return err
	}
	t.log.Warn("an admin token was made, as "+why+"; move it to a safe place", "path", path, "name", name, "id", id)
	return nil
}

// writeSecret puts a file in place of the one there may be, which only its owner can read.
func writeSecret(path, text string) (err error) {
	temporary := path + ".new"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// TokenRequest describes a new token.
type TokenRequest struct {
	Name   string
	Scopes access.Scopes
	access.Restriction
	Expires queue.Time // 0: never
	Subject string     // of a client certificate that is to stand for it, as RFC 2253 writes it: CN=worker,O=acme; "": none
}

// New makes a token, durably, and returns it with its text, which is shown this once and not kept.
func (t *Tokens) New(ctx context.Context, r TokenRequest) (access.Token, string, error) {
	t.change.Lock()
	defer t.change.Unlock()
	if err := t.valid(&r); err != nil {
		return access.Token{}, "", err
	}
	id, secret, err := access.Draw(rand.Reader)
	if err != nil {
		return access.Token{}, "", err
	}
	made := access.Token{ID: id, Name: r.Name, Scopes: r.Scopes, Restriction: r.Restriction, Expires: r.Expires,
		Subject: r.Subject, Secret: access.HashOf(secret)}
	if err := t.put(ctx, made); err != nil {
		return access.Token{}, "", err
	}
	made, err = t.Token(id)
	return made, access.Text(id, secret), err
}

// put stores a new token and puts it into the table.
func (t *Tokens) put(ctx context.Context, made access.Token) error {
	made.Created, made.Use = queue.At(t.now()), new(access.Use)
	if err := t.catalogue.PutToken(made, t.act(ctx, "token.create", nil, &made)); err != nil {
		return err
	}
	t.table.Store(access.NewTable(true, append(t.Table().Tokens(), made)))
	return nil
}

func (t *Tokens) valid(r *TokenRequest) error {
	table := t.Table()
	switch now := queue.At(t.now()); {
	case r.Name == "" || len(r.Name) > queue.MaxActorBytes || !utf8.ValidString(r.Name):
		return queue.Invalid("/name", "has %d bytes; a name has 1 to %d, in UTF-8", len(r.Name), queue.MaxActorBytes)
	case slices.ContainsFunc([]rune(r.Name), func(c rune) bool { return !unicode.IsPrint(c) }):
		return queue.Invalid("/name", "has a character that cannot be printed")
	case r.Name == queue.ServerActor:
		return queue.Invalid("/name", "is %s, under which the server records what it does itself; choose another", r.Name)
	case strings.TrimSpace(r.Name) != r.Name:
		return queue.Invalid("/name", "begins or ends with a space, so that it looks like another in the audit log")
	case r.Scopes == access.None:
		return queue.Invalid("/scopes", "is empty; give at least one scope")
	case r.Restricted() && r.Scopes&^restrictable != 0:
		return queue.Invalid("/scopes", "has more than a token that is bound to queues or a meta value can have: %s "+
			"reaches the whole server; allowed are %s", r.Scopes&^restrictable, restrictable)
	case r.Expires != 0 && r.Expires <= now:
		return queue.Invalid("/expires_at", "is over already; give a time to come, or none")
	case len(r.Queues) > queue.MaxTokenQueues:
		return queue.Invalid("/queues", "has %d names; at most %d are allowed", len(r.Queues), queue.MaxTokenQueues)
	case r.Tenant() && queue.ValidMetaKey(r.Entry.Key) != nil:
		return queue.Invalid("/meta", "has a key that is none: 1 to %d letters, digits, '_', '-' and '.'", queue.MaxMetaKeyBytes)
	case len(r.Entry.Value.Text()) > queue.MaxMetaValueBytes || !utf8.ValidString(r.Entry.Value.Text()):
		return queue.Invalid("/meta/"+r.Entry.Key, "has %d bytes; a value has at most %d, in UTF-8",
			len(r.Entry.Value.Text()), queue.MaxMetaValueBytes)
	case len(r.Subject) > queue.MaxSubjectBytes || !utf8.ValidString(r.Subject):
		return queue.Invalid("/certificate_subject", "has %d bytes; a subject has at most %d, in UTF-8", len(r.Subject),
			queue.MaxSubjectBytes)
	case r.Subject != "" && slices.ContainsFunc(table.Tokens(), func(t access.Token) bool { return t.Subject == r.Subject }):
		return &queue.Error{Code: queue.CodeConflict, Message: "A certificate with this subject stands for another " +
			"token already. Revoke that one first, or give the client another certificate."}
	case taken(table, r.Name):
		return &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf("There is a token named %q already. What "+
			"is done is recorded under the name, so choose another, or rotate or revoke that one.", r.Name)}
	case len(table.Tokens()) >= queue.MaxTokens:
		return &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf("There are %d tokens already, the most "+
			"that the server keeps. Revoke some first.", queue.MaxTokens)}
	case !table.Required() && r.Scopes&access.Admin == 0:
		return queue.Invalid("/scopes", "must have admin: from the first token on every request needs one, and "+
			"without the scope admin no one could make the others")
	}
	if r.Subject != "" {
		if err := access.CheckSubject(r.Subject); err != nil {
			return queue.Invalid("/certificate_subject", "%s. Write it as openssl x509 -noout -subject -nameopt RFC2253 does", err)
		}
	}
	for i, name := range r.Queues {
		if ValidQueueName(name) != nil {
			return queue.Invalid(fmt.Sprintf("/queues/%d", i), "is not a queue's name")
		}
	}
	return nil
}

// restrictable are the scopes that mean something within a restriction.
const restrictable = access.Produce | access.Consume | access.Read | access.Operate

func taken(table *access.Table, name string) bool {
	return slices.ContainsFunc(table.Tokens(), func(t access.Token) bool { return t.Name == name })
}

// All are all tokens, the oldest first.
func (t *Tokens) All() []access.Token {
	list := t.Table().Tokens()
	for i := range list {
		list[i].Used = max(list[i].Used, list[i].Last())
	}
	return list
}

// Token is the one of that id.
func (t *Tokens) Token(id access.ID) (access.Token, error) {
	token, ok := t.Table().Token(id)
	if !ok {
		return token, &queue.Error{Code: queue.CodeUnknownToken, Message: "There is no access token of this id; it may have been revoked."}
	}
	token.Used = max(token.Used, token.Last())
	return token, nil
}

// Rotate gives a token another secret, durably, and returns the token's new text. The present secret stays good for overlap; one that was
// still good from an earlier rotation ends.
func (t *Tokens) Rotate(ctx context.Context, id access.ID, overlap time.Duration) (access.Token, string, error) {
	if overlap < 0 || overlap > queue.MaxRotationOverlap {
		return access.Token{}, "", queue.Invalid("/overlap_seconds", "is %d; 0 to %d are allowed",
			int64(overlap/time.Second), int64(queue.MaxRotationOverlap/time.Second))
	}
	t.change.Lock()
	defer t.change.Unlock()
	token, err := t.Token(id)
	if err != nil {
		return token, "", err
	}
	secret, err := access.DrawSecret(rand.Reader)
	if err != nil {
		return token, "", err
	}
	before := token
	until := queue.Time(0)
	if overlap > 0 {
		until = queue.At(t.now()).Add(overlap)
	}
	token.Rotate(access.HashOf(secret), until)
	if err := store.RotateToken(t.catalogue, &token, before.Secret, t.act(ctx, "token.rotate", &before, &token)); err != nil {
		return token, "", err
	}
	t.replace(id, &token)
	return token, access.Text(id, secret), nil
}

// Revoke ends a token, durably. One that is not there is revoked already.
func (t *Tokens) Revoke(ctx context.Context, id access.ID) error {
	t.change.Lock()
	defer t.change.Unlock()
	token, there := t.Table().Token(id)
	if !there {
		return nil
	}
	if err := t.catalogue.DeleteToken(id, t.act(ctx, "token.revoke", &token, nil)); err != nil {
		return err
	}
	t.replace(id, nil)
	return nil
}

// act is the entry of the audit log for a change of a token. Nothing in it helps to guess a secret.
func (t *Tokens) act(ctx context.Context, action string, before, after *access.Token) queue.Act {
	of := before
	if of == nil {
		of = after
	}
	act := actOf(ctx, queue.At(t.now()), "", action, "", "token "+string(of.ID))
	act.Change(tokenState(before), tokenState(after))
	return act
}

// tokenState is a token as the audit log shows it; nil for none.
func tokenState(t *access.Token) any {
	if t == nil {
		return nil
	}
	state := map[string]any{"name": t.Name, "scopes": t.Scopes.Names()}
	if len(t.Queues) > 0 {
		state["queues"] = t.Queues
	}
	if t.Tenant() {
		state["meta"] = t.Entry.Key + "=" + t.Entry.Value.Quoted()
	}
	if t.Subject != "" {
		state["certificate_subject"] = t.Subject
	}
	if t.Expires != 0 {
		state["expires_at"] = t.Expires.Std().UTC()
	}
	if t.PreviousUntil != 0 {
		state["previous_until"] = t.PreviousUntil.Std().UTC()
	}
	return state
}

// replace installs a table in which this token replaces the one of that id; nil: in which that one is missing.
func (t *Tokens) replace(id access.ID, by *access.Token) {
	list := slices.DeleteFunc(t.Table().Tokens(), func(t access.Token) bool { return t.ID == id })
	if by != nil {
		list = append(list, *by)
	}
	t.table.Store(access.NewTable(t.Table().Required(), list))
}

// keepUses writes down which tokens ended, and when they were used last, unless it did a short while ago.
func (t *Tokens) keepUses(now time.Time, atOnce bool) error {
	t.At(queue.At(now))
	t.change.Lock()
	defer t.change.Unlock()
	t.keepEnded()
	if !atOnce && now.Sub(t.wrote) < usesEvery {
		return nil
	}
	t.wrote = now
	list, newer := t.Table().Tokens(), map[access.ID]queue.Time{}
	for i := range list {
		if last := list[i].Last(); last > list[i].Used {
			newer[list[i].ID], list[i].Used = last, last
		}
	}
	if len(newer) == 0 {
		return nil
	}
	if err := t.catalogue.UseTokens(maps.Clone(newer)); err != nil {
		return err
	}
	t.table.Store(access.NewTable(t.Table().Required(), list))
	return nil
}
