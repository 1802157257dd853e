package together

import (
	"slices"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// Limits by the group are in one shard, so they do not cross shards. All others do, in whichever branch they are.
func TestCrossingOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		keys        []queue.MetaKey
		rates       int
		fair, draws bool
	}{
		`Random`: {},
		`MaxSimultaneous("group", 2, MaxRate("group", 1, "1s", OldestFirst))`:            {},
		`MaxSimultaneous("user", 2, OldestFirst)`:                                        {keys: []queue.MetaKey{"user"}},
		`OrElse(MaxSimultaneous("user", 2, Random), MaxSimultaneous("host", 1, Random))`: {keys: []queue.MetaKey{"host", "user"}},
		`MaxRate("user", 5, "1m", Random)`:                                               {rates: 1},
		`PreferDistinct("user", Random)`:                                                 {keys: []queue.MetaKey{"user"}, draws: true},
		`Fair("user", OldestFirst)`:                                                      {fair: true},
		`Fair("user", MaxSimultaneous("host", 2, OldestFirst))`:                          {keys: []queue.MetaKey{"host"}, fair: true},
	} {
		parsed, err := strategy.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got := CrossingOf(parsed.Plan())
		if !slices.Equal(got.Keys, want.keys) || len(got.Rates) != want.rates || got.Fair != want.fair || got.Draws != want.draws {
			t.Errorf("%s crosses %+v, want %+v", text, got, want)
		}
		if counts := len(want.keys)+want.rates > 0; got.Counts() != counts || got.Any() != (counts || want.fair) {
			t.Errorf("%s: counts %t, any %t", text, got.Counts(), got.Any())
		}
	}
}
