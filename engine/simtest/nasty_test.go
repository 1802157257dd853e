package simtest

import "testing"

// nasty are the ten seeds of 2,000 of each simulation with the most rare events; rare_test.go says how they were found. Each name is a
// succession that hardly any other seed has.
var nasty = []struct {
	name string
	seed uint64
	play func(t *testing.T, seed uint64)
}{
	{"held over a restart, then redrive opens a submission", 1301, plainly},
	{"consumer lost in the last try, then insert repeated", 75, plainly},
	{"dead letter forwarded, then submission cancelled", 1400, plainly},
	{"bulk delete, then fail of a try that its deadline counted", 1217, plainly},
	{"crash between the steps of a checkpoint, then redrive opens a submission, with appends that fail", 1693, withFaults},
	{"held over a restart, then restart in the middle of a bulk operation, with appends that fail", 1053, withFaults},
	{"retention over, then submission completed_with_dead, with appends that fail", 1218, withFaults},
	{"content ends unknown, not written, then Checkpoint finds the disk full", 1622, overlapping},
	{"outputs ends well, then reload", 1978, overlapping},
	{"outputs ends unknown, not written, then checkpoint", 1080, overlapping},
}

func plainly(t *testing.T, seed uint64)     { simulate(t, seed, 300, nil) }
func withFaults(t *testing.T, seed uint64)  { simulate(t, seed, 250, new(faults)) }
func overlapping(t *testing.T, seed uint64) { playOverlap(t, seed, overlapSteps) }

// The nastiest seeds are played always.
func TestNastySeeds(t *testing.T) {
	t.Parallel()
	for _, n := range nasty {
		t.Run(n.name, func(t *testing.T) {
			t.Parallel()
			n.play(t, n.seed)
		})
	}
}

// Seeds that failed once, each with what was wrong.
func TestSeedsThatFailed(t *testing.T) {
	t.Parallel()
	for what, seed := range map[string]uint64{
		"a deletion of dead letters was lost at a recovery, in the batch that ended the submission": 3313,
		"a redrive was lost at a recovery, in the batch that ended the submission":                  2693,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			overlapping(t, seed)
		})
	}
}
