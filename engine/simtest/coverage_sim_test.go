package simtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
)

// tally counts how often each thing happened in simulations, with an effect: a step that never does anything tests nothing.
type tally struct {
	mu   sync.Mutex
	n    map[string]int
	last string              // the last event
	next map[succession]bool // pairs of an event and the next one
}

func newTally() *tally { return &tally{n: map[string]int{}, next: map[succession]bool{}} }

func (t *tally) add(what string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n[what] += n
	if n > 0 {
		t.next[succession{t.last, what}] = true
		t.last = what
	}
}

func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for _, what := range slices.Sorted(maps.Keys(t.n)) {
		lines = append(lines, fmt.Sprintf("%7d %s", t.n[what], what))
	}
	return strings.Join(lines, "\n")
}

// happens lists the events that have to happen in the simulation.
var happens = []string{
	"insert", "insert with run_at", "insert refused by a rule", "insert repeated", "insert repeated after its end", "insert repeated after its retention",
	"many inserted in one call", "repeated in one call", "all of a call refused",
	"limit in percent", "limit in percent above one", "reserve under a rate", "reserve that finds a rate",
	"reserve", "reserve that finds nothing", "reserve of what was shelved", "reserve refused to a quiet or draining consumer",
	"complete", "inserted by a completion", "complete refused with its inserts", "complete of a ready chunk", "complete after the deadline", "fail, to be tried again", "fail for good", "fail after a restart", "fail of a try that its deadline counted",
	"exponential back-off", "linear back-off", "fixed back-off", "back-off by a list",
	"extend", "extend after a restart", "extend of what a rule took back", "release", "release with a delay",
	"deadline passes", "deadline of the last try passes", "consumer lost", "consumer lost in the last try", "retry due", "a rule about several values", "a chunk is cancelled under its holder", "a chunk is cancelled that waits", "a chunk is cancelled that is ready", "a submission's own timeout bounds an attempt", "run_at due", "suspect shelved",
	"dead_deadline ends a submission", "a dead_deadline is the queue's", "dead_deadline makes a dead letter",
	"dead_deadline takes a chunk from its holder", "forwarded by its dead_deadline", "redrive after the dead_deadline", "dead_deadline waits for a rule", "restart grace ends", "held over a restart", "missed after a restart",
	"submission completed", "submission completed_with_dead", "submission failed", "submission cancelled", "submission expired",
	"redrive", "redrive opens a submission", "dead letter deleted", "dead letter forwarded", "forwarded for want of tries", "delivered", "priority changed",
	"rule set", "rule set again", "rule lifted", "rule ends by itself", "rule takes back",
	"consumer attached", "consumer away", "consumer succeeded by another process",
	"consumer whose process was succeeded attached again",
	"consumer detached", "consumer released", "consumer told",
	"settings changed", "value set", "default set", "retention over", "checkpoint", "restart", "crash", "crash after a checkpoint", "crash between the steps of a checkpoint",
	"crash between the rows of a checkpoint", "the store is lost",
	"bulk started", "bulk redrive", "bulk delete", "bulk forward", "bulk retry", "bulk give_up", "bulk cancel", "bulk reprioritize",
	"bulk dry run", "bulk unchanged", "bulk refused", "bulk has less to walk over than at its start", "bulk completed", "bulk cancelled in the middle", "restart in the middle of a bulk operation",
}

// check fails the test if an event of the list did not happen, or an unwanted one did.
func (t *tally) check(test *testing.T) {
	for _, what := range happens {
		if t.n[what] == 0 {
			test.Errorf("in all simulations it never happened: %s", what)
		}
	}
	for what := range t.n {
		if !slices.Contains(happens, what) {
			test.Errorf("it is counted, and not in the list of what has to happen: %s", what)
		}
	}
	if test.Failed() || testing.Verbose() {
		test.Logf("what happened:\n%s", t)
	}
}

// counts counts an event, and is true, for use in conditions.
func (s *sim) counts(what string) bool {
	s.tally.add(what, 1)
	return true
}
