package strategy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// The number is exact up to 32. Above, it is at most a sixteenth too small, and an octave has 16 numbers.
func TestPercentOf(t *testing.T) {
	t.Parallel()
	seen := map[uint32]bool{}
	for chunks := range 1 << 18 {
		exact, got := uint32(max(1, chunks/2)), percentOf(50, chunks)
		seen[got] = true
		if got > exact || got < 1 || exact <= 32 && got != exact || got*16 < exact*15 {
			t.Fatalf("50%% of %d chunks: got %d, want at most %d and nearly that", chunks, got, exact)
		}
	}
	if most := 32 + 12*16 + 1; len(seen) > most {
		t.Errorf("50%% of up to 2^18 chunks are %d numbers, want at most %d", len(seen), most)
	}
	for _, c := range []struct {
		percent uint8
		chunks  int
		want    uint32
	}{{1, 0, 1}, {1, -5, 1}, {20, 4, 1}, {20, 10, 2}, {99, 1, 1}, {99, 2, 1}, {20, 1000, 200}, {20, 999, 192}, {99, 1 << 62, 62 << 25}} {
		if got := percentOf(c.percent, c.chunks); got != c.want {
			t.Errorf("%d%% of %d: got %d, want %d", c.percent, c.chunks, got, c.want)
		}
	}
}

// A plan with numbers is that of the strategy which has these numbers in its text.
func TestPlanNow(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`MaxSimultaneous("a", "20%", Random)`,
		`MaxSimultaneous("a", 7, SelectOnly("b", 1, MaxSimultaneous("a", "20%", missing=never, OldestFirst)))`,
		`OrElse(MaxSimultaneous("a", "20%", Random), MaxSimultaneous("b", "20%", Random), OldestFirst)`,
		`PreferDistinct("a", 3, MaxSimultaneous("a", "20%", Random))`,
		`Score(priority, OrElse(MaxSimultaneous("a", "20%", OldestFirst), NewestFirst))`,
	} {
		s, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		plan := s.Plan()
		if !plan.Percents() {
			t.Errorf("%s has no percentages", text)
		}
		for chunks := range 500 {
			number := fmt.Sprint(percentOf(20, chunks))
			want, err := Parse(strings.ReplaceAll(text, `"20%"`, number))
			if err != nil {
				t.Fatal(err)
			}
			now := plan.Now(chunks)
			if now.String() != want.Plan().String() || now.Text() != want.String() || now.Percents() || now.Tag() != plan.Tag() {
				t.Fatalf("%s with %d chunks: got %s and the plan\n%s\nwant\n%s", text, chunks, now.Text(), now, want.Plan())
			}
			if got, want := plan.NumbersAt(chunks), " "+number; got != want {
				t.Fatalf("%s with %d chunks: got the numbers %q, want %q", text, chunks, got, want)
			}
		}
		if plan.Text() != s.String() || plan.Restrained().Percents() {
			t.Errorf("%s: the plan is %s, restrained it has percentages: %v", text, plan.Text(), plan.Restrained().Percents())
		}
	}
}

// A plan with percentages admits no chunk under their limits, which protects a caller that forgets to ask
// for the plan of now.
func TestPercentsAdmitNothing(t *testing.T) {
	t.Parallel()
	s, err := Parse(`MaxSimultaneous("a", "20%", Random)`)
	if err != nil {
		t.Fatal(err)
	}
	if l := s.Plan().Branches[0].Limits[0]; !l.Reached(0) || l.Key != queue.MetaKey("a") {
		t.Errorf("the limit %s admits a value with nothing in flight", l)
	}
}
