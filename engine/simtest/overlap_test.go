package simtest

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard"
	"github.com/quern-queue/quern/engine/store"
)

// overlap is the concurrent simulation: calls overlap appends and writes that end late, fail, or end unknown. It runs in a bubble. A step
// does one thing: it begins a call, lets a held write go on, lets time pass, looks, or kills the server. Then everything runs until it
// waits, and the answers of calls are compared with the disk at that moment.
//
// The sequential simulation (sim) knows what every answer has to be. This one only knows that an answer must agree with the disk.
type overlap struct {
	box
	seed        uint64
	r           *rand.Rand
	gates       *gates
	disk        *diskModel
	lines       []string // the history
	stepNo      int
	ending      bool // all gates are open
	begun       int  // calls
	calls       []*call
	asked       []*asking // inserts, by number
	tokens      []*token
	byKey       map[tokenKey]*token
	holding     map[queue.ChunkID]*token // as outsiders know: from the answer on, until the disk or a release says otherwise
	rules       map[queue.RuleID]*ruleSeen
	bulks       []queue.BulkID
	reloads     int
	life        int  // changes with every restart
	afterReload bool // content of an insert from before it is still being written
	tally       *tally
}

// TestOverlaps plays seeds of the concurrent simulation.
//
//quern:overlapping
func TestOverlaps(t *testing.T) {
	n := uint64(60)
	if testing.Short() {
		n = 12
	}
	first, last := seedsToPlay(t, n)
	all := newPlayed()
	t.Cleanup(func() { all.tellNastiest(t) })
	playSeeds(t, first, last, func(t *testing.T, seed uint64) {
		_, happened := playOverlap(t, seed, overlapSteps)
		all.take(seed, happened)
	})
}

const overlapSteps = 160

// TestOverlapsRepeat: the same seed gives the same history, or a failure could not be played again.
//
//quern:overlapping
func TestOverlapsRepeat(t *testing.T) {
	t.Parallel()
	if raceDetector {
		t.Skip("the race detector draws the order in which goroutines run, so that no history repeats")
	}
	for seed := uint64(1001); seed < 1004; seed++ {
		one, _ := playOverlap(t, seed, overlapSteps)
		if other, _ := playOverlap(t, seed, overlapSteps); one != other {
			t.Errorf("seed %d gave two histories; they part at:\n%s", seed, parting(one, other))
		}
	}
}

func parting(one, other string) string {
	a, b := strings.Split(one, "\n"), strings.Split(other, "\n")
	at := 0
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	return strings.Join(a[max(0, at-3):min(at+2, len(a))], "\n") + "\nand\n" + strings.Join(b[max(0, at-3):min(at+2, len(b))], "\n")
}

// playOverlap plays one seed and returns its history and its events.
func playOverlap(t *testing.T, seed uint64, steps int) (lines string, happened *tally) {
	watch := time.AfterFunc(5*time.Minute, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("overlap seed %d does not end", seed))
	})
	defer watch.Stop()
	synctest.Test(t, func(t *testing.T) {
		o := newOverlap(t, seed)
		happened = o.tally
		defer func() {
			problem := recover()
			lines = strings.Join(o.lines, "\n")
			if problem == nil {
				return
			}
			o.end()
			f, ours := problem.(failure)
			if !ours {
				t.Log(o.recent())
				panic(problem)
			}
			t.Errorf("seed %d step %d: %s\n%s", seed, o.stepNo, f.text, o.recent())
		}()
		o.start()
		for ; o.stepNo < steps; o.stepNo++ {
			o.step()
			o.settle()
		}
		o.finish()
	})
	return lines, happened
}

func newOverlap(t *testing.T, seed uint64) *overlap {
	o := &overlap{
		seed: seed, r: newRand(seed, 2), disk: newDiskModel(), byKey: map[tokenKey]*token{}, holding: map[queue.ChunkID]*token{},
		rules: map[queue.RuleID]*ruleSeen{}, tally: newTally(),
	}
	settings := relaxed()
	settings.MaxAttempts = uint16(1 + o.r.IntN(3))
	settings.OnExhausted = pickFrom(o.r, queue.FailSubmission, queue.DeadLetter, queue.DeadLetter, queue.Skip)
	settings.RetryBackoff = pickFrom(o.r, queue.Backoff{}, queue.Backoff{Base: time.Second, Factor: 2, Cap: time.Minute},
		queue.Backoff{Kind: queue.Listed, Delays: queue.NewDelays([]uint32{0, 1000}), Jitter: queue.NoJitter})
	settings.ExpiryBackoff = settings.RetryBackoff
	o.box = box{t: t, dir: t.TempDir(), settings: settings}
	o.seeds.Store(seed << 32)
	if seed%2 == 0 {
		o.opBytes = -1 // contents are written before their ops
	}
	o.ballast = func() bool { return o.seed%3 == 0 }
	return o
}

func pickFrom[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

func (o *overlap) chance(percent int) bool { return o.r.IntN(100) < percent }

func (o *overlap) fail(format string, args ...any) { panic(failure{fmt.Sprintf(format, args...)}) }

func (o *overlap) note(format string, args ...any) {
	o.lines = append(o.lines, fmt.Sprintf("%d: ", o.stepNo)+fmt.Sprintf(format, args...))
}

func (o *overlap) recent() string {
	return "  " + strings.Join(o.lines[max(0, len(o.lines)-60):], "\n  ")
}

// start begins a life of the shard: the first, or one after a crash.
func (o *overlap) start() {
	ctx := o.t.Context()
	o.gates = newGates(o.disk)
	o.wrap = o.gates.wrap
	shut := o.gates.throw()
	var err error
	if o.store, err = store.Open(ctx, filepath.Join(o.dir, "store.db"), store.Options{Durability: o.settings.Durability, Around: o.gates.around, SlotKeys: 3}); err != nil {
		o.t.Fatal(err)
	}
	options := o.options()
	options.Now = time.Now // the bubble's
	options.CheckpointBytes, options.CheckpointEnded = 1<<40, 1<<30
	options.RecountEvery = -1
	if o.shard, err = shard.Open(ctx, options); err != nil {
		o.t.Fatal(err)
	}
	shut()
	o.reloads = o.gates.reloads
	o.life++
	clear(o.holding)
}

// step does one thing.
func (o *overlap) step() {
	choices := []struct {
		weight int
		do     func()
	}{
		{45, o.beginCall}, {45, o.goOn}, {4, o.pass}, {6, o.look}, {3, o.cancelWait}, {2, o.auditCopy}, {1, o.crash}, {2, o.makeRoom},
	}
	all := 0
	for i := range choices {
		all += choices[i].weight
	}
	n := o.r.IntN(all)
	for i := range choices {
		if n -= choices[i].weight; n < 0 {
			choices[i].do()
			return
		}
	}
}

// settle lets everything run until it waits, and checks the answers.
func (o *overlap) settle() {
	synctest.Wait()
	if len(o.disk.problems) > 0 {
		o.fail("the journal says: %s", o.disk.problems[0])
	}
	if o.gates.reloads != o.reloads {
		o.reloads = o.gates.reloads
		o.note("the shard has reloaded") // those who held chunks hold them still
		o.afterReload = heldWrite(o.gates.list(), "content")
		o.tally.add("reload", 1)
	}
	o.afterReload = o.afterReload && heldWrite(o.gates.list(), "content")
	o.refresh()
	o.collect()
}

// heldWrite says whether such a write is held.
func heldWrite(list []*held, what string) bool {
	return slices.ContainsFunc(list, func(h *held) bool { return h.what == what })
}

// goOn lets one of the held writes go on: first its turn comes, with its ending; at another time its caller learns of that.
func (o *overlap) goOn() {
	list := o.gates.list()
	if len(list) == 0 {
		o.beginCall()
		return
	}
	h := list[0] // the append, which everybody waits for
	if o.chance(50) {
		h = list[o.r.IntN(len(list))]
	}
	if !h.written {
		end, fails := succeeds, 12
		if h.what == "Checkpoint" || h.what == "append" && heldWrite(list, "content") {
			fails = 30 // so that rare events happen
		}
		if o.chance(fails) {
			end = pickFrom(o.r, isFull, isLost, isLostInSecret)
		}
		h.written = true
		o.note("%s %s", h.what, endingNames[end])
		o.tally.add(h.what+" "+endingNames[end], 1)
		h.begin <- end
		if o.chance(40) {
			return
		}
		synctest.Wait()
	}
	o.note("%s is told", h.what)
	o.gates.drop(h)
	close(h.answer)
}

// pass lets time pass.
func (o *overlap) pass() {
	d := pickFrom(o.r, time.Millisecond, 50*time.Millisecond, time.Second, 20*time.Second, 3*time.Minute)
	o.note("%s pass", d)
	time.Sleep(d)
}

// makeRoom acts as the engine does when the disk has room again.
func (o *overlap) makeRoom() { o.shard.SetFull(false) }

// copyTo copies the files as a kill would leave them now.
func (o *overlap) copyTo() string {
	dir := o.t.TempDir()
	o.copyFiles("journal.db", dir)
	o.copyFiles("store.db", dir)
	return dir
}

// auditCopy checks that the files on the disk now are enough for everything that was answered, as a kill may come next.
func (o *overlap) auditCopy() {
	o.note("a copy is audited")
	o.tally.add("copy audited", 1)
	b := &box{t: o.t, dir: o.copyTo(), settings: o.settings}
	b.clock.ms.Store(time.Now().UnixMilli())
	b.open()
	defer b.close()
	o.compare(b)
	o.compareContents(b)
}

// crash kills the server and starts it again. Callers that wait for an answer never get it.
func (o *overlap) crash() {
	o.note("crash")
	o.tally.add("crash", 1)
	dir := o.copyTo()
	o.end()
	o.dir = dir
	o.start()
	o.compare(&o.box)
}

// end lets go of a shard, whatever it is at.
func (o *overlap) end() {
	o.gates.mu.Lock()
	o.gates.disk = newDiskModel() // later writes of this shard do not count
	o.gates.mu.Unlock()
	o.gates.throw()
	for _, c := range o.calls {
		c.cancel()
	}
	synctest.Wait()
	o.close()
	synctest.Wait()
	o.calls = nil
}

// finish lets everything end well and compares everything, then again after a restart.
func (o *overlap) finish() {
	o.note("the end")
	o.ending = true
	o.shard.SetFull(false)
	shut := o.gates.throw()
	for range 3 {
		o.settle()
		time.Sleep(time.Hour)
	}
	o.settle()
	if o.seed%2 == 0 {
		o.must("checkpoint", o.shard.Checkpoint())
	}
	shut()
	if len(o.calls) > 0 {
		o.fail("c%d %s is never answered", o.calls[0].number, o.calls[0].what)
	}
	o.compare(&o.box)
	o.gates.throw() // a shard that is closed writes what is held
	o.close()
	o.start()
	o.compare(&o.box)
	o.gates.throw()
	o.compareContents(&o.box)
	o.close()
	h := fnv.New64a()
	fmt.Fprint(h, strings.Join(o.lines, "\n"))
	o.t.Logf("history %x: %d calls, %d ops, %v", h.Sum64(), o.begun, o.disk.ops, o.tally.n)
}
