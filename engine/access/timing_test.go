package access

import (
	"cmp"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// guessKind is the fault of a guess.
type guessKind int

const (
	wrongSecret guessKind = iota
	longPrefix
	unknownID
	revokedToken
	expiredToken
	guessKinds
)

func (k guessKind) String() string {
	return [...]string{"wrong secret", "secret that is right but for its end", "unknown id", "revoked token", "expired token"}[k]
}

const (
	expiry = queue.Time(1000) // of all tokens that are guessed at

	// guessBatch are guesses of one kind in a row, which are timed together: the clock of some machines is too coarse for one.
	guessBatch = 16

	// surely is the number of standard deviations from which on times count as different: chance alone reaches it once in 5e8 comparisons.
	surely = 6

	// harmless is the share of its time by which a look-up may differ if that reveals nothing about a secret: an id is no secret, and a
	// caller that has the right secret of an expired token needs no guess. It is some 20 ns, a thousandth of what a network adds by chance.
	harmless = 0.1
)

// guesser makes guesses at the tokens of a table. The tokens are few, and each is shown often, as consumers do: so the processor learns
// about their secrets, and the time of a guess must not show how like them it is.
type guesser struct {
	random *rand.ChaCha8
	choice *rand.Rand
	table  *Table
	texts  []string // of the tokens in the table
	gone   []string // of tokens that were revoked
}

func newGuesser(t *testing.T, seed byte) *guesser {
	g := &guesser{random: rand.NewChaCha8([32]byte{seed}), choice: rand.New(rand.NewPCG(uint64(seed), 0))}
	const tokens = 64
	var kept []Token
	for n := range byte(2 * tokens) {
		made, text := drawn(t, n, func(t *Token) { t.Expires = expiry })
		if n < tokens {
			kept, g.texts = append(kept, made), append(g.texts, text)
		} else {
			g.gone = append(g.gone, text)
		}
	}
	g.table = NewTable(true, kept)
	return g
}

// guess is the text of a guess, and when it is made.
func (g *guesser) guess(t *testing.T, kind guessKind) (text string, at queue.Time) {
	id, secret, err := Draw(g.random)
	if err != nil {
		t.Fatal(err)
	}
	n := g.choice.IntN(len(g.texts))
	right := g.texts[n]
	switch kind {
	case wrongSecret:
		return right[:textLength-secretChars] + secret, expiry - 1
	case longPrefix:
		end := "a"
		if strings.HasSuffix(right, end) {
			end = "b"
		}
		return right[:textLength-1] + end, expiry - 1
	case unknownID:
		return Text(id, secret), expiry - 1
	case revokedToken:
		return g.gone[n], expiry - 1
	}
	return right, expiry
}

// measure gives the times of look-ups by kind, in nanoseconds. The kinds take turns, in an order that is drawn for each round, so that whatever
// else the machine does slows all of them alike.
func (g *guesser) measure(t *testing.T, rounds int, found func(text string, at queue.Time) bool) (times [guessKinds][]float64) {
	var texts [guessKinds][guessBatch]string
	var at [guessKinds]queue.Time
	for range rounds {
		for n := range guessBatch {
			for kind := range guessKinds {
				texts[kind][n], at[kind] = g.guess(t, kind)
			}
		}
		for _, kind := range g.choice.Perm(int(guessKinds)) {
			var shown [guessBatch]string
			for n, text := range texts[kind] {
				shown[n] = strings.Clone(text) // all kinds come from memory that was written just now
			}
			right := false
			began := time.Now()
			for _, text := range shown {
				right = found(text, at[kind]) || right
			}
			times[kind] = append(times[kind], float64(time.Since(began))/guessBatch)
			if right {
				t.Fatalf("a guess of the kind %q is let in", guessKind(kind))
			}
		}
	}
	return times
}

// rankTest says by how many standard deviations the values of a are larger than those of b, as a whole: the U of Mann and Whitney (On a
// test of whether one of two random variables is stochastically larger than the other, 1947), with the normal approximation and the
// correction for ties (Lehmann, Nonparametrics, 1975, section 1.4).
func rankTest(a, b []float64) float64 {
	type ranked struct {
		value float64
		ofA   bool
	}
	all := make([]ranked, 0, len(a)+len(b))
	for _, value := range a {
		all = append(all, ranked{value, true})
	}
	for _, value := range b {
		all = append(all, ranked{value, false})
	}
	slices.SortFunc(all, func(x, y ranked) int { return cmp.Compare(x.value, y.value) })
	var ranksOfA, ties float64
	for from, to := 0, 0; from < len(all); from = to {
		for to = from; to < len(all) && all[to].value == all[from].value; to++ {
			continue
		}
		for _, r := range all[from:to] {
			if r.ofA {
				ranksOfA += float64(from+to+1) / 2 // all of a tie have its middle rank
			}
		}
		equal := float64(to - from)
		ties += equal*equal*equal - equal
	}
	inA, inB := float64(len(a)), float64(len(b))
	n := inA + inB
	u := ranksOfA - inA*(inA+1)/2
	return (u - inA*inB/2) / math.Sqrt(inA*inB/12*(n+1-ties/(n*(n-1))))
}

// differ says by how many standard deviations the times of a and b differ by more than the share `margin`; at most 0: they do not.
func differ(a, b []float64, margin float64) float64 {
	longer := func(times []float64) []float64 {
		list := make([]float64, len(times))
		for i, time := range times {
			list[i] = time * (1 + margin)
		}
		return list
	}
	return max(rankTest(a, longer(b)), rankTest(b, longer(a)))
}

func median(times []float64) float64 {
	return slices.Sorted(slices.Values(times))[len(times)/2]
}

// The times of guesses reveal nothing. A secret that is nearly right takes the time of any other wrong one. Missing and revoked ids, and
// tokens that are over, differ by less than `harmless`. The same measurement sees a look-up that leaks. It only runs in `make soak`:
// QUERN_GUESSES is the number of rounds of guesses.
func TestGuessesTakeTheSameTime(t *testing.T) {
	rounds, _ := strconv.Atoi(os.Getenv("QUERN_GUESSES"))
	if rounds == 0 {
		t.Skip("it compares times, and runs in make soak")
	}
	g := newGuesser(t, byte(rand.Uint32()))
	secrets := map[ID]string{}
	for _, text := range g.texts {
		id, secret, _ := parse(text)
		secrets[id] = secret
	}
	leaks := func(text string, at queue.Time) bool { // as a naive look-up
		id, secret, ok := parse(text)
		token, known := g.table.Token(id)
		if !ok || !known || !token.Live(at) {
			return false
		}
		for i := range secret {
			if secret[i] != secrets[id][i] {
				return false
			}
		}
		return true
	}
	finds := func(text string, at queue.Time) bool {
		_, ok := find(g.table, text, at)
		return ok
	}
	kept, leaked := g.measure(t, rounds, finds), g.measure(t, rounds, leaks)
	for kind := range guessKinds {
		t.Logf("%s: median %.1f ns, of a look-up that leaks %.1f ns", kind, median(kept[kind]), median(leaked[kind]))
		if kind == wrongSecret {
			continue
		}
		margin := harmless
		if kind == longPrefix {
			margin = 0
		}
		here, there := differ(kept[kind], kept[wrongSecret], margin), differ(leaked[kind], leaked[wrongSecret], margin)
		t.Logf("%s against %s, margin %g: %.1f standard deviations, of the one that leaks %.1f", kind, wrongSecret, margin, here, there)
		if here > surely {
			t.Errorf("%s is told from %s by its time: %.1f standard deviations, want at most %d", kind, wrongSecret, here, surely)
		}
		if there <= surely {
			t.Errorf("the leak of %s is not seen: %.1f standard deviations, want more than %d; make more rounds", kind, there, surely)
		}
	}
}

// The rank test tells larger from smaller whatever the order, sees no difference where there is none, and gives ties their middle rank.
func TestRankTest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b []float64
		want float64
	}{
		{[]float64{1, 2, 3}, []float64{4, 5, 6}, -4.5 / math.Sqrt(9.0/12*7)},
		{[]float64{6, 4, 5}, []float64{3, 1, 2}, 4.5 / math.Sqrt(9.0/12*7)},
		{[]float64{1, 4}, []float64{2, 3}, 0},
		{[]float64{1, 2}, []float64{2, 2}, -1 / math.Sqrt(4.0/12*(5-24.0/12))},
	} {
		if got := rankTest(c.a, c.b); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v against %v: got %v, want %v", c.a, c.b, got, c.want)
		}
	}
}
