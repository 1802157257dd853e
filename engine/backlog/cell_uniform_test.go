package backlog

import (
	"math/rand/v2"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// nestedRounds is a backlog of pairs of x and y, some without y, of which most values are full. Each round frees one value of
// either key: a pick examines submissions that were behind their gates, most of them for nothing.
type nestedRounds struct {
	b       *Backlog
	v       *View
	rnd     *rand.Rand
	open    int64            // values below are never full
	values  int64            // of each key
	subs    []*Submission    // the submissions for picks
	holders [2][]*Submission // by key and value: a submission whose only chunk keeps the value at its limit
	pair    [2]int64         // the values that are free in this round
	limited bool             // an operator lets nothing of w=1 be taken
}

func newNestedRounds(order strategy.Order, open, values int64) *nestedRounds {
	n := &nestedRounds{b: New(), rnd: rand.New(rand.NewPCG(1, 80)), open: open, values: values}
	for i := range 3 * values * values {
		meta := queue.Meta{is("w", i%3), is("x", i%values), is("y", i/values%values)}
		if i%7 == 0 {
			meta = meta[:2]
		}
		n.subs = append(n.subs, n.b.add(uint32(3+i*i%97), 0, meta...))
	}
	n.v = finished(n.b, limited(order, strategy.Limit{Key: "x", Max: 1}, strategy.Limit{Key: "y", Max: 1}))
	for k, key := range []string{"x", "y"} {
		for i := range values {
			s := n.b.add(1, 0, is(key, i))
			n.b.TakeChunk(s, 0)
			if i < open {
				n.b.Land(s)
			}
			n.holders[k] = append(n.holders[k], s)
		}
	}
	return n
}

// admits says whether the i-th submission may be taken from in this round.
func (n *nestedRounds) admits(i int64) bool {
	x, y := i%n.values, i/n.values%n.values
	return (x < n.open || x == n.pair[0]) && (i%7 == 0 || y < n.open || y == n.pair[1]) && !(n.limited && i%3 == 1)
}

// begin frees a value of either key, and sometimes has the operator change his mind.
func (n *nestedRounds) begin(operator bool) {
	for k := range n.pair {
		n.pair[k] = n.open + n.rnd.Int64N(n.values-n.open)
		n.b.Land(n.holders[k][n.pair[k]])
	}
	if operator && n.rnd.IntN(4) == 0 {
		n.limited = !n.limited
		s := queue.NoSettings()
		if n.limited {
			s.Limit = 0
		}
		n.b.Values.Set("w", queue.IntValue(1), s)
	}
	n.v.cells.found = n.v.cells.found[:0]
}

// end takes a chunk, gives it back, and fills the two values again. It says whether all combinations were looked up.
func (n *nestedRounds) end(t *testing.T) (from *Submission, searched bool) {
	s, index, ok := n.b.Take(n.v, n.rnd)
	if !ok {
		t.Fatalf("nothing found with x=%d and y=%d free", n.pair[0], n.pair[1])
	}
	n.b.Land(s)
	n.b.PutBack(s, index)
	for k := range n.pair {
		holder := n.holders[k][n.pair[k]]
		n.b.PutBack(holder, 0)
		n.b.TakeChunk(holder, 0)
	}
	return s, len(n.v.cells.found) > 0
}

// expect adds the probabilities of the round.
func (n *nestedRounds) expect(want []float64) {
	total := 0.0
	for i, s := range n.subs {
		if n.admits(int64(i)) {
			total += float64(s.Available())
		}
	}
	for i, s := range n.subs {
		if n.admits(int64(i)) {
			want[i] += float64(s.Available()) / total
		}
	}
}

// Under several limits Random hits every submission that none of them holds back in proportion to its available chunks: where
// most draws are good, where most picks look up all combinations, and where an operator limits another key.
func TestRandomIsUniformUnderNestedLimits(t *testing.T) {
	t.Parallel()
	const rounds = 60_000
	for _, test := range []struct {
		name     string
		open     int64
		operator bool
		searches bool // in more than a tenth of the rounds, rather than in less than a hundredth
	}{
		{name: "most is open", open: 11},
		{name: "little is open", open: 0, searches: true},
		{name: "one of each is open", open: 1, searches: true},
		{name: "one of each is open, and less to an operator", open: 1, operator: true, searches: true},
		{name: "most is open, and less to an operator", open: 11, operator: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			n := newNestedRounds(strategy.Random, test.open, 13)
			got, want := make([]float64, len(n.subs)), make([]float64, len(n.subs))
			searched := 0
			for range rounds {
				n.begin(test.operator)
				n.expect(want)
				s, looked := n.end(t)
				if got[s.Seq()-1]++; looked {
					searched++
				}
			}
			t.Logf("%d of %d rounds looked up all combinations", searched, rounds)
			chiSquare(t, test.name, got, want)
			if many := searched > rounds/10; many != test.searches || !many && searched > rounds/100 {
				t.Errorf("%d of %d rounds looked up all combinations, want many: %v", searched, rounds, test.searches)
			}
		})
	}
}

// The orders find the first of all submissions that no limit holds back, also by looking up all combinations.
func TestOrderUnderNestedLimits(t *testing.T) {
	t.Parallel()
	for _, order := range []strategy.Order{strategy.OldestFirst, strategy.NewestFirst} {
		for _, operator := range []bool{false, true} {
			n := newNestedRounds(order, 0, 13)
			searched := 0
			for round := range 5000 {
				n.begin(operator)
				var want *Submission
				for i, s := range n.subs {
					if n.admits(int64(i)) && (want == nil || order == strategy.NewestFirst) {
						want = s
					}
				}
				got, looked := n.end(t)
				if got != want {
					t.Fatalf("%v round %d: took from submission %v, want %v; looked up: %v", order, round, got.ID(), want.ID(), looked)
				}
				if looked {
					searched++
				}
			}
			if searched < 50 {
				t.Errorf("%v: %d rounds looked up all combinations, want at least 50", order, searched)
			}
		}
	}
}
