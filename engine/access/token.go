package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/quern-queue/quern/engine/queue"
)

// A token's text is qn_<id>_<secret>: 60 random bits that name it, and 256 that prove it, both in the lower-case letters a to z
// and the digits 2 to 7, so that a double click selects all of it and a scanner for secrets finds it.
const (
	prefix      = "qn_"
	idLength    = 12
	secretBytes = 32
	secretChars = 52 // 32 bytes in base 32
	textLength  = len(prefix) + idLength + 1 + secretChars
)

const alphabet = "abcdefghijklmnopqrstuvwxyz234567"

var encoding = base32.NewEncoding(alphabet).WithPadding(base32.NoPadding)

// ID names a token. It is no secret.
type ID string

// Hash is the SHA-256 of a secret's text. A secret has 256 bits of chance, so no slow hash is needed.
type Hash [sha256.Size]byte

// Token is what is known of an access token: everything but its secret.
type Token struct {
	ID     ID
	Name   string // who it is for: the actor of what is done with it. Unique among the tokens
	Scopes Scopes
	Restriction
	Subject string // of the client certificate that stands for the token beside its secret, as RFC 2253 writes it; "": none does

	Created queue.Time
	Expires queue.Time // 0: never
	Expired bool       // it was found to have expired, and stays so when the clock is set back
	Used    queue.Time // as of the last time that it was written down; 0: never

	Secret        Hash
	Previous      Hash       // the secret before the last rotation; zero without an overlap, and from its end on
	PreviousUntil queue.Time // until when Previous is good; 0: there is none

	*Use // what is counted while the server runs, shared by all copies of the token
}

// Draw makes the id and the secret of a new token.
func Draw(random io.Reader) (id ID, secret string, err error) {
	var b [8]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", "", fmt.Errorf("access: draw an id: %w", err)
	}
	secret, err = DrawSecret(random)
	return ID(encoding.EncodeToString(b[:])[:idLength]), secret, err
}

// DrawSecret makes another secret for a token.
func DrawSecret(random io.Reader) (string, error) {
	var b [secretBytes]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("access: draw a secret: %w", err)
	}
	return encoding.EncodeToString(b[:]), nil
}

// Text is a token as its holder keeps it.
func Text(id ID, secret string) string { return prefix + string(id) + "_" + secret }

// parse takes a token's text apart. It does not check the letters. A text that Text did not make belongs to no token anyway. And a
// processor learns to predict the letters of a secret that it sees often, so the time of a check would show how near a guess is.
func parse(text string) (id ID, secret string, ok bool) {
	if len(text) != textLength || text[:len(prefix)] != prefix || text[len(prefix)+idLength] != '_' {
		return "", "", false
	}
	return ID(text[len(prefix) : len(prefix)+idLength]), text[len(prefix)+idLength+1:], true
}

// Mask is a text without the secrets of tokens in it, for logs: a token that was pasted where its id belongs stands in a path.
func Mask(text string) string {
	for from := 0; ; {
		at := strings.Index(text[from:], prefix)
		if at < 0 {
			return text
		}
		from += at + len(prefix)
		end := from + idLength + 1
		if len(text) <= end || text[end-1] != '_' || !plain(text[from:end-1]) {
			continue
		}
		secret := text[end:min(len(text), end+secretChars)]
		if length := len(secret) - len(strings.TrimLeft(secret, alphabet)); length > 0 {
			text = text[:end] + "..." + text[end+length:]
		}
	}
}

// ValidID says whether text can be the id of a token.
func ValidID(text string) bool { return len(text) == idLength && plain(text) }

func plain(text string) bool {
	for i := range len(text) {
		if c := text[i]; !(c >= 'a' && c <= 'z' || c >= '2' && c <= '7') {
			return false
		}
	}
	return true
}

// HashOf is the hash of a secret, which the server keeps.
func HashOf(secret string) Hash {
	var b [secretChars]byte // on the stack
	return sha256.Sum256(b[:copy(b[:], secret)])
}

// Live says whether the token is good at that time.
func (t *Token) Live(now queue.Time) bool { return !t.Expired && (t.Expires == 0 || now < t.Expires) }

// Lapse ends for good the token, or the secret before the last rotation, if it is over at that time. So a clock that is set back makes
// nothing good that was refused. It says whether anything ended.
func (t *Token) Lapse(now queue.Time) (changed bool) {
	if !t.Expired && !t.Live(now) {
		t.Expired, changed = true, true
	}
	if t.PreviousUntil != 0 && now >= t.PreviousUntil {
		t.Previous, t.PreviousUntil, changed = Hash{}, 0, true
	}
	return changed
}

// due is the first moment at which there is something to end.
func (t *Token) due() queue.Time {
	due := queue.Time(math.MaxInt64)
	if t.Expires != 0 && !t.Expired {
		due = t.Expires
	}
	if t.PreviousUntil != 0 {
		due = min(due, t.PreviousUntil)
	}
	return due
}

// proves says whether the hash is that of a secret of the token. It takes the same time for every hash.
func (t *Token) proves(hash *Hash, now queue.Time) bool {
	current := subtle.ConstantTimeCompare(t.Secret[:], hash[:])
	previous := subtle.ConstantTimeCompare(t.Previous[:], hash[:])
	return current == 1 || previous == 1 && now < t.PreviousUntil
}

// Rotate gives the token another secret. The current one stays good until that time (0: it ends now), and the one before it ends. Ended
// secrets are not kept: no clock makes them good again.
func (t *Token) Rotate(secret Hash, until queue.Time) {
	t.Previous, t.PreviousUntil = Hash{}, until
	if until != 0 {
		t.Previous = t.Secret
	}
	t.Secret = secret
}

// Table has all tokens at one moment. It never changes: a change makes another table. A nil table has no tokens and requires none.
type Table struct {
	required  bool
	byID      map[ID]*Token
	bySubject map[string]*Token
	none      Token // stands for tokens that are not there: a wrong id takes as long as a wrong secret
	due       queue.Time
}

// NewTable makes a table of these tokens. If tokens are required nothing can be done without one.
func NewTable(required bool, tokens []Token) *Table {
	t := &Table{required: required, byID: make(map[ID]*Token, len(tokens)), bySubject: map[string]*Token{}, due: math.MaxInt64}
	for i := range tokens {
		token := tokens[i]
		t.byID[token.ID] = &token
		t.due = min(t.due, token.due())
		if token.Subject != "" {
			t.bySubject[token.Subject] = &token
		}
	}
	return t
}

// Required says whether every request needs a token.
func (t *Table) Required() bool { return t != nil && t.required }

// Due says whether a token has something to end at that time.
func (t *Table) Due(now queue.Time) bool { return t != nil && now >= t.due }

// Proof is the token that a caller showed: its id, and the hash of its secret.
type Proof struct {
	ID   ID
	Hash Hash
}

// ProofOf is what a token's text proves, whether or not there is such a token.
func ProofOf(text string) (p Proof, ok bool) {
	id, secret, ok := parse(text)
	if !ok {
		return p, false
	}
	return Proof{ID: id, Hash: HashOf(secret)}, true
}

// Find is the token that the proof is of, if it is good at that time.
func (t *Table) Find(p *Proof, now queue.Time) (*Token, bool) {
	token, known := t.byID[p.ID]
	if !known {
		token = &t.none
	}
	if proven := token.proves(&p.Hash, now); !known || !proven || !token.Live(now) {
		return nil, false
	}
	return token, true
}

// Certified is the token that a client certificate with this subject stands for, if it is good at that time. The caller must verify the
// certificate.
func (t *Table) Certified(subject string, now queue.Time) (*Token, bool) {
	token, known := t.bySubject[subject]
	if !known || !token.Live(now) {
		return nil, false
	}
	return token, true
}

// Token is the one of that id.
func (t *Table) Token(id ID) (Token, bool) {
	token, ok := t.byID[id]
	if !ok {
		return Token{}, false
	}
	return *token, true
}

// Tokens are all, by time of creation.
func (t *Table) Tokens() []Token {
	if t == nil {
		return nil
	}
	list := make([]Token, 0, len(t.byID))
	for _, token := range t.byID {
		list = append(list, *token)
	}
	slices.SortFunc(list, func(a, b Token) int {
		if a.Created != b.Created {
			return int(a.Created - b.Created)
		}
		return strings.Compare(string(a.ID), string(b.ID))
	})
	return list
}

// Administered says whether a token with the scope admin is good at that time.
func (t *Table) Administered(now queue.Time) bool {
	for _, token := range t.byID {
		if token.Scopes&Admin != 0 && !token.Restricted() && token.Live(now) {
			return true
		}
	}
	return false
}

// Restriction is the part of the server that a token is bound to: it can read and change nothing else. The zero value does not restrict.
type Restriction struct {
	Queues []string        // names of queues; empty: all
	Entry  queue.MetaEntry // submissions with this value of this meta key; no key: all
}

// Restricted says whether the token is bound to anything.
func (r *Restriction) Restricted() bool { return len(r.Queues) > 0 || r.Tenant() }

// Tenant says whether the token is bound to a value of a meta key.
func (r *Restriction) Tenant() bool { return r.Entry.Key != "" }

// Bounds is the restriction in words.
func (r *Restriction) Bounds() string {
	var parts []string
	if len(r.Queues) > 0 {
		parts = append(parts, "the queues "+strings.Join(r.Queues, ", "))
	}
	if r.Tenant() {
		parts = append(parts, r.Entry.Key+" = "+r.Entry.Value.Quoted())
	}
	return strings.Join(parts, " and ")
}

// CoversQueue says whether the queue of this name is within. A name may be that of one shard of a queue.
func (r *Restriction) CoversQueue(name string) bool {
	whole, _ := queue.CutShard(name)
	return len(r.Queues) == 0 || slices.Contains(r.Queues, whole)
}

// CoversMeta says whether a submission with this meta is within.
func (r *Restriction) CoversMeta(meta queue.Meta) bool {
	if !r.Tenant() {
		return true
	}
	value, ok := meta.Find(r.Entry.Key)
	return ok && value == r.Entry.Value
}

// Scopes is a set of rights. An operation names scopes of which any one is enough. A token has the scopes that it was made with.
type Scopes uint8

// The scopes. Admin implies all others: a token that may make tokens can make one with every scope.
const (
	Produce Scopes = 1 << iota // insert
	Consume                    // reserve and finish; pause
	Read                       // look at everything but metrics
	Metrics                    // GET /metrics
	Operate                    // change what runs: pause, cancel, limits, redrive, schedules, named strategies
	Plugins                    // upload and switch plugins
	Admin                      // queues, tokens, blocks; implies all others

	None Scopes = 0
	All         = Produce | Consume | Read | Metrics | Operate | Plugins | Admin
)

// names has each scope's name in the order of the bits.
var names = [...]string{"produce", "consume", "read", "metrics", "operate", "plugins", "admin"}

// Names are the names of all scopes.
func Names() []string { return All.Names() }

// Names are the names of the scopes in s, in a fixed order.
func (s Scopes) Names() []string {
	list := make([]string, 0, bits.OnesCount8(uint8(s)))
	for i, name := range names {
		if s&(1<<i) != 0 {
			list = append(list, name)
		}
	}
	return list
}

// String is the names with a comma between two.
func (s Scopes) String() string { return strings.Join(s.Names(), ",") }

// ParseScope is the scope of that name; None if there is none.
func ParseScope(name string) Scopes {
	for i, known := range names {
		if known == name {
			return 1 << i
		}
	}
	return None
}

// Allow says whether s has one of the wanted scopes. None wants no scope.
func (s Scopes) Allow(wanted Scopes) bool {
	return wanted == None || s&(wanted|Admin) != 0
}
