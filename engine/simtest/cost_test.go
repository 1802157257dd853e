package simtest

import (
	"testing"
)

// TestCostOfReserve: the submissions looked at per reservation grow neither with the backlog nor with the chunks
// that are held.
func TestCostOfReserve(t *testing.T) {
	t.Parallel()
	small, large := 200, 4000
	for _, text := range []string{
		"Random", "OldestFirst", "NewestFirst", "CustomPriority",
		`SelectOnly("half", 1, Random)`, `SelectOnly("half", 1, SelectOnly("tenth", 1, OldestFirst))`,
		`OrElse(SelectOnly("half", 9, Random), OldestFirst)`,
		`MaxSimultaneous("own", 1, OldestFirst)`, `MaxSimultaneous("own", 1, Random)`, `MaxSimultaneous("own", 1, CustomPriority)`,
		`PreferDistinct("own", 1, OldestFirst)`, `PreferDistinct("own", 1, Random)`,
		`MaxSimultaneous("tenth", 1000000, PreferDistinct("own", 1, NewestFirst))`,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			few, many := costs(t, text, small), costs(t, text, large)
			for phase := range few {
				if few[phase] == 0 {
					t.Errorf("%s: nothing is examined", phases[phase])
				}
				if many[phase] > 2*few[phase] {
					t.Errorf("%s: %.2f submissions are examined per chunk with %d submissions, %.2f with %d", phases[phase], few[phase], small, many[phase], large)
				}
			}
		})
	}
}

var phases = [...]string{"nothing held", "most held"}

// costs are the submissions examined per reserved chunk at first, and when half of the submissions has a chunk held.
func costs(t *testing.T, text string, submissions int) (perChunk [2]float64) {
	b := openBox(t, relaxed())
	for i := range submissions {
		n := prefixed(1000, number("own", i), number("half", i%2), number("tenth", i%10))
		n.Priority = int64(i % 7)
		mustInsert(t, b, n)
	}
	const sample = 20
	for phase := range perChunk {
		before := b.shard.Examined()
		for range sample {
			if got := mustReserve(t, b, text, 1); len(got) != 1 {
				t.Fatalf("%s: %d chunks reserved, want 1", text, len(got))
			}
		}
		perChunk[phase] = float64(b.shard.Examined()-before) / sample
		if phase == 0 {
			mustReserve(t, b, text, submissions/2)
		}
	}
	b.close()
	return perChunk
}
