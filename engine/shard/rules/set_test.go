package rules

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// under says whether a match covers a submission, in the simplest way.
func under(m queue.RuleMatch, id queue.SubmissionID, meta queue.Meta) bool {
	switch {
	case m.Whole():
		return true
	case m.Submission != 0:
		return m.Submission == id
	}
	return slices.Contains(meta, m.Entry)
}

func drawMatch(r *rand.Rand) (m queue.RuleMatch) {
	switch r.IntN(4) {
	case 0:
	case 1:
		m.Submission = queue.SubmissionID(1 + r.IntN(3))
	default:
		m.Entry = queue.MetaEntry{Key: string(rune('a' + r.IntN(2))), Value: queue.IntValue(int64(r.IntN(2)))}
	}
	return m
}

// The set gives the same answers as a search through a list, whatever is set and lifted in whatever order.
func TestSetIsAList(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 7))
		s := New()
		var list []queue.Rule
		graces := map[queue.RuleMatch]queue.Time{}
		for step := range 60 {
			now := queue.Time(step * 10)
			switch r.IntN(5) {
			case 0, 1, 2:
				x := queue.Rule{
					ID: s.Last() + 1, Action: queue.RuleAction(r.IntN(2)), Match: drawMatch(r), Since: now, Reason: fmt.Sprint(r.IntN(3)),
					Until: queue.Time(r.IntN(2) * (step*10 + r.IntN(300))), Insert: r.IntN(3) == 0, Revoke: r.IntN(3) == 0,
				}
				s.Put(x)
				if at := slices.IndexFunc(list, func(y queue.Rule) bool { return y.Action == x.Action && y.Match == x.Match }); at >= 0 {
					x.ID, x.Since = list[at].ID, list[at].Since
					list[at] = x
				} else {
					list = append(list, x)
				}
			case 3:
				id := queue.RuleID(1 + r.IntN(int(s.Last())+2))
				at := slices.IndexFunc(list, func(y queue.Rule) bool { return y.ID == id })
				was, is := s.Lift(id, now+100)
				if is != (at >= 0) || is && was != list[at] {
					t.Fatalf("seed %d step %d: lifting %d gives %+v, %v; want the one at %d of %+v", seed, step, id, was, is, at, list)
				}
				if is {
					graces[was.Match] = max(graces[was.Match], now+100)
					list = slices.Delete(list, at, at+1)
				}
			case 4:
				if id := queue.SubmissionID(1 + r.IntN(3)); r.IntN(4) == 0 {
					s.Drop(id)
					list = slices.DeleteFunc(list, func(y queue.Rule) bool { return y.Match.Submission == id })
					delete(graces, queue.RuleMatch{Submission: id})
				}
			}
			compare(t, fmt.Sprintf("seed %d step %d", seed, step), r, s, list, graces, now)
		}
	}
}

// compare asks the set everything about a submission, and about time.
func compare(t *testing.T, when string, r *rand.Rand, s *Set, list []queue.Rule, graces map[queue.RuleMatch]queue.Time, now queue.Time) {
	t.Helper()
	id := queue.SubmissionID(r.IntN(4))
	var meta queue.Meta
	for _, key := range []string{"a", "b"} {
		if r.IntN(3) > 0 {
			meta = append(meta, queue.MetaEntry{Key: key, Value: queue.IntValue(int64(r.IntN(3)))})
		}
	}
	var grace, next queue.Time
	for match, until := range graces {
		if under(match, id, meta) {
			grace = max(grace, until)
		}
	}
	var due []queue.RuleID
	for _, x := range list {
		if x.Until != 0 && (next == 0 || x.Until < next) {
			next = x.Until
		}
		if x.Until != 0 && x.Until <= now {
			due = append(due, x.ID)
		}
	}
	got := s.Due(now)
	slices.Sort(got)
	slices.Sort(due)
	if s.Grace(id, meta) != grace || s.NextUntil() != next || !slices.Equal(got, due) || s.Len() != len(list) {
		t.Fatalf("%s: grace %d, next end %d, due %v, %d rules; want %d, %d, %v, %d", when, s.Grace(id, meta), s.NextUntil(), got, s.Len(), grace, next, due, len(list))
	}
	sorted := slices.Clone(list)
	slices.SortFunc(sorted, func(a, b queue.Rule) int { return int(a.ID) - int(b.ID) })
	if !slices.Equal(s.List(), sorted) {
		t.Fatalf("%s: the list is %+v, want %+v", when, s.List(), sorted)
	}
	for name, ask := range map[string]struct {
		got    func() (queue.Rule, bool)
		counts func(*queue.Rule) bool
		id     queue.SubmissionID
	}{
		"covering": {func() (queue.Rule, bool) { return s.Covering(id, meta) }, func(*queue.Rule) bool { return true }, id},
		"refusing": {func() (queue.Rule, bool) { return s.Refusing(meta) }, func(x *queue.Rule) bool { return x.Insert }, 0},
		"revoking": {func() (queue.Rule, bool) { return s.Revoking(id, meta) }, func(x *queue.Rule) bool { return x.Revoke }, id},
	} {
		want := queue.Unruled
		for i := range list {
			if under(list[i].Match, ask.id, meta) && (list[i].Match.Submission == 0 || ask.id != 0) && ask.counts(&list[i]) {
				want = max(want, list[i].Ruling())
			}
		}
		x, is := ask.got()
		if is != (want != queue.Unruled) || is && (x.Ruling() != want || !under(x.Match, ask.id, meta) || !ask.counts(&x) || !slices.Contains(list, x)) {
			t.Fatalf("%s: %s of %d %v is %+v, %v; want ruling %d", when, name, ask.id, meta, x, is, want)
		}
	}
}

// Graces that are over are forgotten, and only those.
func TestGracesEnd(t *testing.T) {
	t.Parallel()
	s := New()
	for i := range 5 {
		s.SetGrace(queue.RuleMatch{Submission: queue.SubmissionID(i + 1)}, queue.Time(10*i))
	}
	left := 0
	s.Graces(20, func(match queue.RuleMatch, until queue.Time) {
		if left++; until <= 20 {
			t.Errorf("the grace of %v, until %d, is over at 20", match, until)
		}
	})
	if left != 2 || s.Grace(2, nil) != 0 || s.Grace(5, nil) != 40 {
		t.Errorf("%d graces are left, of submission 2 until %d, of 5 until %d; want 2, 0 and 40", left, s.Grace(2, nil), s.Grace(5, nil))
	}
}
