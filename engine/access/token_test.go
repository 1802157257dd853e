package access

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// drawn makes a token with its text, from a seed.
func drawn(t testing.TB, seed byte, change func(*Token)) (Token, string) {
	t.Helper()
	id, secret, err := Draw(rand.NewChaCha8([32]byte{seed}))
	if err != nil {
		t.Fatal(err)
	}
	made := Token{ID: id, Name: string(id), Scopes: Read, Secret: HashOf(secret), Use: new(Use)}
	if change != nil {
		change(&made)
	}
	return made, Text(id, secret)
}

func find(table *Table, text string, now queue.Time) (*Token, bool) {
	proof, ok := ProofOf(text)
	if !ok {
		return nil, false
	}
	return table.Find(&proof, now)
}

// A token is found by its text and by nothing that differs from it in one byte, is shorter or longer.
func TestFindIsExact(t *testing.T) {
	t.Parallel()
	one, text := drawn(t, 1, nil)
	other, otherText := drawn(t, 2, nil)
	table := NewTable(true, []Token{one, other})
	if got, ok := find(table, text, 1); !ok || got.ID != one.ID {
		t.Fatalf("Find(%q) = %v, %v; want the token", text, got, ok)
	}
	if len(text) != 68 || !strings.HasPrefix(text, "qn_"+string(one.ID)+"_") || !ValidID(string(one.ID)) {
		t.Errorf("text %q of id %q is not qn_<id>_<secret> of 68 bytes", text, one.ID)
	}
	wrong := []string{"", "qn_", text + "a", text[:len(text)-1], " " + text, strings.ToUpper(text), otherText[:16] + text[16:], "Qn" + text[2:]}
	for i := range text {
		b := []byte(text)
		b[i] ^= 1
		wrong = append(wrong, string(b))
		b[i] = 'b'
		if b[i] == text[i] {
			b[i] = 'c'
		}
		wrong = append(wrong, string(b))
	}
	for _, text := range wrong {
		if got, ok := find(table, text, 1); ok {
			t.Errorf("Find(%q) = %v; want none", text, got.ID)
		}
	}
	if _, ok := find(NewTable(true, nil), Text(one.ID, strings.Repeat("a", secretChars)), 1); ok {
		t.Error("an empty table has a token")
	}
}

// A token is good before its expiry and not from it on; after a rotation the secret before is good until the overlap is over, and the
// one before that is not.
func TestExpiryAndRotation(t *testing.T) {
	t.Parallel()
	made, first := drawn(t, 1, func(t *Token) { t.Expires = 1000 })
	good := func(text string, now queue.Time) bool {
		_, ok := find(NewTable(true, []Token{made}), text, now)
		return ok
	}
	if !good(first, 999) || good(first, 1000) {
		t.Errorf("good at 999: %v, at 1000: %v; want true, false", good(first, 999), good(first, 1000))
	}
	second, err := DrawSecret(rand.NewChaCha8([32]byte{9}))
	if err != nil {
		t.Fatal(err)
	}
	made.Rotate(HashOf(second), 500)
	if !good(first, 499) || good(first, 500) || !good(Text(made.ID, second), 600) {
		t.Error("after a rotation the first secret must be good until 500 and the second for good")
	}
	made.Rotate(HashOf("third"), 800)
	if good(first, 499) || !good(Text(made.ID, second), 799) || good(Text(made.ID, second), 800) {
		t.Error("after another the first must be good no more, and the second until 800")
	}
	second = Text(made.ID, second)
	made.Rotate(HashOf("fourth"), 0)
	if good(Text(made.ID, "third"), 0) || good(second, 0) || made.Previous != (Hash{}) {
		t.Error("after a rotation without an overlap a secret before is good at some time, or is kept")
	}
	if _, _, err := Draw(bytes.NewReader(nil)); err == nil {
		t.Error("a token was drawn from no chance")
	}
}

// An expired token, and an old secret whose overlap ended, stay refused even if the clock goes back.
func TestWhatIsOverStaysOver(t *testing.T) {
	t.Parallel()
	made, first := drawn(t, 1, func(t *Token) { t.Expires, t.Subject = 1000, "CN=worker" })
	second, err := DrawSecret(rand.NewChaCha8([32]byte{9}))
	if err != nil {
		t.Fatal(err)
	}
	made.Rotate(HashOf(second), 500)
	for _, step := range []struct {
		at                     queue.Time
		changes, first, second bool // at the time before
	}{{499, false, true, true}, {500, true, false, true}, {999, false, false, true}, {1000, true, false, false}, {2000, false, false, false}} {
		if due, changed := NewTable(true, []Token{made}).Due(step.at), made.Lapse(step.at); due != step.changes || changed != step.changes {
			t.Errorf("at %d: due %v, changed %v; want %v", step.at, due, changed, step.changes)
		}
		table := NewTable(true, []Token{made})
		_, byFirst := find(table, first, 1)
		_, bySecond := find(table, Text(made.ID, second), 1)
		_, certified := table.Certified("CN=worker", 1)
		if byFirst != step.first || bySecond != step.second || certified != step.second {
			t.Errorf("asked at %d and asked at 1: first secret %v, second %v, certificate %v; want %v, %v, %v",
				step.at, byFirst, bySecond, certified, step.first, step.second, step.second)
		}
	}
}

// A bucket whose clock goes back further than it saves up is as good as new, instead of empty until the clock has caught up.
func TestPaceWhenTheClockGoesBack(t *testing.T) {
	t.Parallel()
	var p Pace
	take := func(at time.Duration, want time.Duration) {
		t.Helper()
		if wait := p.Take(at, time.Second, 2*time.Second); wait != want {
			t.Errorf("at %v: wait %v, want %v", at, wait, want)
		}
	}
	for _, at := range []time.Duration{2 * time.Hour, time.Hour, -time.Hour} {
		take(at, 0)
		take(at, 0)
		take(at, time.Second)
	}
}

// A scope allows itself, admin allows everything, and none asks for nothing. Names and scopes are one to one.
func TestScopes(t *testing.T) {
	t.Parallel()
	var all Scopes
	for _, name := range Names() {
		scope := ParseScope(name)
		if scope == None || scope.String() != name || all&scope != 0 {
			t.Errorf("scope %q = %d (%s); want one of its own with that name", name, scope, scope)
		}
		all |= scope
		for _, wanted := range Names() {
			if got, want := scope.Allow(ParseScope(wanted)), name == wanted || name == "admin"; got != want {
				t.Errorf("%s allows %s: %v, want %v", name, wanted, got, want)
			}
		}
		if !scope.Allow(None) || !scope.Allow(scope|Produce) {
			t.Errorf("%s must allow what asks for nothing, and what asks for it or another", name)
		}
	}
	if all != All || len(Names()) != 7 || ParseScope("root") != None || None.Allow(Read) {
		t.Errorf("scopes: %s, want all 7 and no other", all)
	}
}

// A restriction covers the queues that it names and the submissions with its value, and an int is no text.
func TestRestriction(t *testing.T) {
	t.Parallel()
	meta := func(key string, value queue.MetaValue) queue.Meta { return queue.Meta{{Key: key, Value: value}} }
	tenant := Restriction{Entry: queue.MetaEntry{Key: "company", Value: queue.IntValue(7)}}
	for _, test := range []struct {
		r     Restriction
		queue bool
		meta  queue.Meta
		want  bool
	}{
		{Restriction{}, true, nil, true},
		{Restriction{Queues: []string{"b", "a"}}, true, nil, true},
		{Restriction{Queues: []string{"b"}}, false, nil, true},
		{tenant, true, meta("company", queue.IntValue(7)), true},
		{tenant, true, meta("company", queue.StringValue("7")), false},
		{tenant, true, meta("company", queue.IntValue(8)), false},
		{tenant, true, meta("mode", queue.IntValue(7)), false},
		{tenant, true, nil, false},
	} {
		if test.r.CoversQueue("a") != test.queue || test.r.CoversMeta(test.meta) != test.want {
			t.Errorf("%+v: covers queue a: %v, meta %v: %v; want %v, %v", test.r, test.r.CoversQueue("a"), test.meta, test.r.CoversMeta(test.meta), test.queue, test.want)
		}
	}
	if (&Restriction{}).Restricted() || !tenant.Restricted() || !tenant.Tenant() {
		t.Error("only what names something restricts")
	}
}

// The time of last use is kept to the minute and never goes back.
func TestUse(t *testing.T) {
	t.Parallel()
	var u Use
	at := queue.At(time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC))
	u.Note(at)
	u.Note(at.Add(-time.Hour))
	if want := queue.At(time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)); u.Last() != want {
		t.Errorf("last use: %v, want %v", u.Last().Std(), want.Std())
	}
}

// Looking a token up takes no memory.
func TestFindAllocatesNothing(t *testing.T) {
	made, text := drawn(t, 1, nil)
	table := NewTable(true, []Token{made})
	if n := testing.AllocsPerRun(100, func() {
		if _, ok := find(table, text, 1); !ok {
			t.Fatal("not found")
		}
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func BenchmarkFind(b *testing.B) {
	var tokens []Token
	var text string
	for i := range 200 {
		var made Token
		made, text = drawn(b, byte(i), nil)
		tokens = append(tokens, made)
	}
	table := NewTable(true, tokens)
	b.ReportAllocs()
	for b.Loop() {
		find(table, text, 1)
	}
}

// A token has as many requests at once and per second as it may, and a burst of two seconds' worth. Refused requests do not count.
func TestLimits(t *testing.T) {
	t.Parallel()
	const start = time.Hour
	var u Use
	most := Limits{PerSecond: 10, AtOnce: 2}
	for i := range 20 {
		if wait, ok := u.Enter(start, most); !ok {
			t.Fatalf("request %d of the burst must wait %v", i, wait)
		}
		u.Leave()
	}
	if wait, ok := u.Enter(start, most); ok || wait != 100*time.Millisecond {
		t.Errorf("after the burst: %v, %v; want a wait of 100ms", wait, ok)
	}
	later := start + 100*time.Millisecond
	if _, ok := u.Enter(later, most); !ok {
		t.Error("after the wait: refused")
	}
	if _, ok := u.Enter(later, most); ok {
		t.Error("two after one wait")
	}
	much := start + time.Hour
	if _, ok := u.Enter(much, most); !ok {
		t.Error("the second at once: refused")
	}
	if _, ok := u.Enter(much, most); ok {
		t.Error("a third at once")
	}
	for range 100 {
		if _, ok := new(Use).Enter(start, Limits{}); !ok {
			t.Error("without limits: refused")
		}
	}
}

// Mask removes the secret of a token wherever it stands, also one that is cut off. It changes nothing else.
func TestMask(t *testing.T) {
	t.Parallel()
	made, text := drawn(t, 1, nil)
	masked := prefix + string(made.ID) + "_..."
	for given, want := range map[string]string{
		"":                                 "",
		"/v1/tokens/" + string(made.ID):    "/v1/tokens/" + string(made.ID),
		text:                               masked,
		text[:len(text)-51]:                masked,
		text[:len(text)-52]:                text[:len(text)-52],
		"/v1/tokens/" + text + "/rotate":   "/v1/tokens/" + masked + "/rotate",
		text + text:                        masked + masked,
		"qn_" + text + "qn_ " + text:       "qn_" + masked + "qn_ " + masked,
		"qn_Abcdefghijkl_aaaa":             "qn_Abcdefghijkl_aaaa",
		"/v1/queues/qn_/strategies/qn_a_b": "/v1/queues/qn_/strategies/qn_a_b",
	} {
		if got := Mask(given); got != want {
			t.Errorf("Mask(%q) = %q, want %q", given, got, want)
		}
	}
}
