package lettergroups

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// Errors that differ in every word make no more groups than the bound, and the letters of the others are counted. When
// all letters are gone, the groups and the count are empty.
func TestGroupsAreBounded(t *testing.T) {
	t.Parallel()
	const letters = 200_000
	g := New(Max)
	for i := range letters {
		g.Add(queue.SubmissionID(1+i%100), fmt.Sprint(i), "text", queue.Time(i))
	}
	list, known := g.List(&queue.DeadFilter{}, 0)
	if len(list.Items) != Max || list.Others != letters-Max || !known {
		t.Errorf("got %d groups and %d others, known %v; want %d and %d, known", len(list.Items), list.Others, known, Max, letters-Max)
	}
	if _, known := g.List(&queue.DeadFilter{Fingerprint: fmt.Sprint(letters - 1)}, 0); known {
		t.Error("the counters say that they know the letters of a fingerprint without a group")
	}
	for id := range queue.SubmissionID(50) {
		g.Drop(1+id, letters/100)
	}
	for i := range letters {
		if i%100 >= 50 {
			g.Remove(queue.SubmissionID(1+i%100), fmt.Sprint(i), queue.Time(i))
		}
	}
	if len(g.Of) != 0 || g.Others != 0 {
		t.Errorf("without letters there are %d groups and %d others", len(g.Of), g.Others)
	}
}

// modelLetter is a letter as the test knows it.
type modelLetter struct {
	id   queue.SubmissionID
	kind string
	died queue.Time
}

// Whatever letters come and go, the counters are right: every group has all letters of its kind, and Others counts
// those of kinds without a group.
func TestGroupsTellTheTruth(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		most := 1 + r.IntN(5)
		g := New(most)
		var there []modelLetter
		for step := range queue.Time(400) {
			switch n := len(there); {
			case r.IntN(20) == 0:
				there = dropModel(g, there, queue.SubmissionID(1+r.IntN(4)))
			case n > 0 && r.IntN(5) < 2:
				i := r.IntN(n)
				g.Remove(there[i].id, there[i].kind, there[i].died)
				there[i] = there[n-1]
				there = there[:n-1]
			default:
				l := modelLetter{queue.SubmissionID(1 + r.IntN(4)), fmt.Sprint("kind ", r.IntN(7)), step}
				g.Add(l.id, l.kind, l.kind, l.died)
				there = append(there, l)
			}
			f := queue.DeadFilter{}
			if r.IntN(2) == 0 {
				f.Submission = queue.SubmissionID(1 + r.IntN(4))
			}
			if r.IntN(3) == 0 {
				f.Fingerprint = fmt.Sprint("kind ", r.IntN(7))
			}
			compareGroups(t, fmt.Sprintf("seed %d, step %d", seed, step), g, &f, there)
		}
	}
}

func dropModel(g *Groups, there []modelLetter, id queue.SubmissionID) (left []modelLetter) {
	for _, l := range there {
		if l.id != id {
			left = append(left, l)
		}
	}
	g.Drop(id, uint32(len(there)-len(left)))
	return left
}

func compareGroups(t *testing.T, where string, g *Groups, f *queue.DeadFilter, there []modelLetter) {
	t.Helper()
	ofSubmission := uint32(0)
	want, submissions := map[string]Share{}, map[string]map[queue.SubmissionID]bool{}
	total := uint64(0)
	for _, l := range there {
		if l.id == f.Submission {
			ofSubmission++
		}
		if f.Submission != 0 && l.id != f.Submission || f.Fingerprint != "" && l.kind != f.Fingerprint {
			continue
		}
		x, known := want[l.kind]
		if !known {
			submissions[l.kind] = map[queue.SubmissionID]bool{}
		}
		submissions[l.kind][l.id] = true
		x.add(l.died)
		want[l.kind] = x
		total++
	}
	list, known := g.List(f, ofSubmission)
	if len(g.Of) > g.Most {
		t.Fatalf("%s: %d groups, want at most %d", where, len(g.Of), g.Most)
	}
	if !known {
		if g.Others == 0 {
			t.Fatalf("%s: every letter has a group, and the counters do not know those of %+v", where, f)
		}
		return
	}
	for _, x := range list.Items {
		w := want[x.Fingerprint]
		if int64(x.Count) != w.Count || int(x.Submissions) != len(submissions[x.Fingerprint]) || x.FirstDiedAt.After(w.First.Std()) ||
			x.LastDiedAt.Before(w.Last.Std()) || x.Example != x.Fingerprint {
			t.Fatalf("%s: of %+v the group %+v, want %+v", where, f, x, w)
		}
		total -= x.Count
	}
	groups := len(list.Items)
	if list.Others != total || total == 0 && groups != len(want) || total > 0 && groups > g.Most {
		t.Fatalf("%s: of %+v %d groups and %d others, want %d others", where, f, groups, list.Others, total)
	}
}
