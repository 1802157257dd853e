package simtest

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// seedGroup is how many seeds are started at a time: each has a goroutine from its start on.
const seedGroup = 1000

var seedRange = regexp.MustCompile(`^(?:(\d+)-)?(\d+)$`)

// seedsToPlay says which seeds a test plays: usually n from 1 on, or the one of -seed. QUERN_SIM_SEEDS=10000 plays as many that were
// not played before, from the present time on; QUERN_SIM_SEEDS=1-10000 plays these.
func seedsToPlay(t *testing.T, n uint64) (first, last uint64) {
	first, last = 1, n
	text := os.Getenv("QUERN_SIM_SEEDS")
	switch parts := seedRange.FindStringSubmatch(text); {
	case *oneSeed != 0:
		return *oneSeed, *oneSeed
	case text == "":
	case parts == nil:
		t.Fatalf("QUERN_SIM_SEEDS=%q: want a number, as 10000, or a range, as 1-10000", text)
	default:
		var errs [2]error
		last, errs[0] = strconv.ParseUint(parts[2], 10, 63)
		switch {
		case parts[1] != "":
			first, errs[1] = strconv.ParseUint(parts[1], 10, 63)
		case *recordFile == "": // a recording is compared with the same seeds
			first = uint64(time.Now().Unix())
			last += first - 1
		}
		if errs[0] != nil || errs[1] != nil || first == 0 || last < first {
			t.Fatalf("QUERN_SIM_SEEDS=%q: want a number, as 10000, or a range, as 1-10000", text)
		}
	}
	return first, last
}

// playSeeds plays seeds at the same time, and says of one that fails how to play it again, in a line of its own.
func playSeeds(t *testing.T, first, last uint64, play func(t *testing.T, seed uint64)) {
	t.Logf("seeds %d to %d", first, last)
	for from := first; from <= last; from += seedGroup {
		t.Run(fmt.Sprint("from ", from), func(t *testing.T) {
			for seed := from; seed <= min(last, from+seedGroup-1); seed++ {
				t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
					t.Parallel()
					name := t.Name()
					t.Cleanup(func() { sayHowToReplay(t, name, seed) })
					play(t, seed)
				})
			}
		})
	}
}

var testName = regexp.MustCompile(`^[^/]*`)

func sayHowToReplay(t *testing.T, name string, seed uint64) {
	if t.Failed() {
		t.Logf("REPLAY: go test ./engine/simtest -count 1 -run '^%s$' -seed %d", testName.FindString(name), seed)
	}
}
