package nodes

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

var (
	oneSeed = flag.Uint64("seed", 0, "play only this seed of the simulation")
	shown   = flag.Bool("history", false, "print the history of each seed")
)

// world is one play of the simulation.
type world struct {
	t         *testing.T
	seed      uint64
	r         *rand.Rand
	db        *database
	book      *book
	nodes     []*node
	workers   []*worker
	settings  queue.Settings
	plans     []*strategy.Plan
	limit     int           // of chunks in flight of a value; 0: there is none
	copies    string        // the folder of the snapshots; "": none are kept
	abrupt    bool          // a process may stand still with the mutex of its shard held: then no reserve waits
	calm      chan struct{} // closed when faults are over
	begun     time.Time
	inserting atomic.Int32 // workers that are at it

	mu       sync.Mutex
	lines    []string
	problem  string
	failed   chan struct{} // closed with the first problem
	happened map[string]int
}

// faulty is how long faults come.
const faulty = 2 * time.Minute

// TestNodes plays seeds: two minutes of faults, and then time to finish the work.
func TestNodes(t *testing.T) {
	t.Parallel()
	first, count := uint64(1), uint64(24)
	if testing.Short() {
		count = 6
	}
	if text := os.Getenv("QUERN_SIM_SEEDS"); text != "" {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			t.Fatalf("QUERN_SIM_SEEDS=%q: want a number", text)
		}
		first, count = uint64(time.Now().Unix()), n
	}
	if *oneSeed != 0 {
		first, count = *oneSeed, 1
	}
	t.Logf("seeds %d to %d", first, first+count-1)
	var mu sync.Mutex
	all := map[string]int{}
	t.Run("seeds", func(t *testing.T) {
		for seed := first; seed < first+count; seed++ {
			t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
				t.Parallel()
				_, happened := play(t, seed)
				mu.Lock()
				defer mu.Unlock()
				for what, n := range happened {
					all[what] += n
				}
			})
		}
	})
	t.Logf("what happened: %v", all)
	if count < 20 || t.Failed() {
		return
	}
	for _, what := range []string{"takeover", "owner stood still", "stood still under the mutex", "killed", "stopped", "cut", "snapshot", "call late", "call twice", "call lost",
		"answer moved", "answer moving", "answer commit_failed", "complete ok", "complete already", "complete lost", "claim refused",
		"insert lost by the database"} {
		if all[what] == 0 {
			t.Errorf("%q never happened, so nothing was tested of it", what)
		}
	}
}

// play plays a seed, and returns its history and its events.
func play(t *testing.T, seed uint64) (lines string, happened map[string]int) {
	watch := time.AfterFunc(40*time.Second, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("seed %d does not end", seed))
	})
	defer watch.Stop()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed)
		w.run()
		lines, happened = strings.Join(w.lines, "\n"), w.happened
		if w.problem != "" {
			t.Errorf("seed %d: %s\n  %s\nREPLAY: go test ./engine/simtest/nodes -count 1 -run '^TestNodes$' -seed %d",
				seed, w.problem, strings.Join(w.lines[max(0, len(w.lines)-40):], "\n  "), seed)
		}
		if *shown {
			t.Log("\n" + lines)
		}
	})
	return lines, happened
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 1)), db: newDatabase(), calm: make(chan struct{}),
		failed: make(chan struct{}), happened: map[string]int{}, begun: time.Now()}
	w.db.journals[journalName] = &table{grown: make(chan struct{})}
	w.book = newBook(w)
	w.db.appended = func(_ string, at journal.Position, batch []byte) { w.book.appended(at, batch) }
	s := queue.DefaultSettings()
	s.Durability, s.MaxAttempts, s.MaxExpiries, s.SuspectShare = queue.Relaxed, 0, 0, 1
	s.RetryBackoff, s.ExpiryBackoff = queue.Backoff{Base: 100 * time.Millisecond, Factor: 2, Cap: time.Second}, queue.Backoff{}
	texts := []string{"Random", "OldestFirst", `SelectOnly("a", 1, NewestFirst)`}
	if seed%3 > 0 {
		w.limit = mostHeld
		s.RestartGrace = 10 * time.Second // longer than anything is reserved for
		for i := range texts {
			texts[i] = fmt.Sprintf(`MaxSimultaneous("a", %d, %s)`, mostHeld, texts[i])
		}
	}
	for _, text := range texts {
		parsed, err := strategy.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		w.plans = append(w.plans, parsed.Plan())
	}
	w.settings = s
	w.abrupt = seed%5 < 2
	if seed%4 == 1 {
		w.copies = t.TempDir()
	}
	rates := []float64{0.95, 1.05, 1} // no two clocks run at rates that are more than a tenth apart
	w.r.Shuffle(len(rates), func(i, j int) { rates[i], rates[j] = rates[j], rates[i] })
	for i, rate := range rates {
		w.nodes = append(w.nodes, &node{w: w, name: string(rune('a' + i)), rate: rate, born: time.Now(),
			offset: time.Duration(w.r.Int64N(int64(4*time.Second))) - 2*time.Second, r: rand.New(rand.NewPCG(seed, uint64(10+i)))})
	}
	for i := range 4 {
		r := rand.New(rand.NewPCG(seed, uint64(20+i)))
		w.workers = append(w.workers, &worker{w: w, name: fmt.Sprint("w", i), r: r, at: w.nodes[i%len(w.nodes)],
			net: w.network(rand.New(rand.NewPCG(seed, uint64(30+i))), 12*time.Second)})
	}
	return w
}

func (w *world) network(r *rand.Rand, tries time.Duration) *network {
	return &network{r: r, calm: w.calm, tries: tries, note: w.tally}
}

// snapshots are the copies that all nodes find.
func (w *world) snapshots() engine.Snapshots {
	return engine.SnapshotsIn(w.copies, queue.Identity{}, time.Now)
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, fmt.Sprintf("%9.3f ", time.Since(w.begun).Seconds())+fmt.Sprintf(format, args...))
}

// fail notes a problem; the first one ends the play.
func (w *world) fail(format string, args ...any) {
	w.note("PROBLEM: "+format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.problem == "" {
		w.problem = fmt.Sprintf(format, args...)
		close(w.failed)
	}
}

func (w *world) tally(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.happened[what]++
}

func (w *world) logger(l *life) *slog.Logger {
	if !*shown {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(lineWriter(func(line string) { w.note("%s %s", l, line) }), nil))
}

type lineWriter func(line string)

func (f lineWriter) Write(b []byte) (int, error) {
	f(strings.TrimSuffix(string(b), "\n"))
	return len(b), nil
}

var _ io.Writer = lineWriter(nil)

// run plays the faults, then lets everything end well, and compares everything.
func (w *world) run() {
	ctx, end := context.WithCancel(context.Background())
	working, leave := context.WithCancel(ctx)
	var nodes, workers sync.WaitGroup
	for _, n := range w.nodes {
		nodes.Go(func() { n.run(ctx) })
	}
	for _, x := range w.workers {
		workers.Go(func() { x.run(working) })
	}
	for time.Since(w.begun) < faulty && !closed(w.failed) {
		wait(w.failed, time.Duration(w.r.Int64N(int64(7*time.Second))))
		w.fault()
	}
	w.settle()
	if !closed(w.failed) {
		w.finish()
	}
	leave()
	workers.Wait()
	end()
	nodes.Wait()
	if w.problem == "" {
		w.audit()
	}
}

// fault lets something go wrong.
func (w *world) fault() {
	n := w.nodes[w.r.IntN(len(w.nodes))]
	if k := w.r.IntN(100); k < 60 { // most interesting faults hit the owner
		for _, other := range w.nodes {
			if l := other.lives(); l != nil && l.turn.own() {
				n = other
			}
		}
	}
	length := time.Duration(w.r.Int64N(int64(4 * time.Second)))
	if w.r.IntN(2) == 0 {
		length = standing - time.Second/2 + time.Duration(w.r.Int64N(int64(9*time.Second)))
	}
	l := n.lives()
	switch k := w.r.IntN(100); {
	case k < 25 && w.abrupt:
		n.pauses.after(1+w.r.IntN(3), true, length)
	case k < 50:
		n.pauses.after(1+w.r.IntN(20), false, length)
	case k < 58 && l != nil:
		w.note("%s is killed", n.name)
		w.tally("killed")
		l.kill()
	case k < 66 && l != nil:
		w.note("%s is told to end", n.name)
		w.tally("stopped")
		l.end()
	case k < 76 && l != nil:
		n.mu.Lock()
		net := n.toDB
		n.mu.Unlock()
		w.note("%s is cut off for %v", n.name, length)
		w.tally("cut")
		net.setCut(true)
		go func() {
			wait(w.calm, length)
			net.setCut(false)
		}()
	case k < 84 && w.seed%6 == 0:
		w.rewind()
	}
}

// rewind has the database lose its last batches, as when a standby without them becomes the primary. Acknowledged calls in these batches
// are lost, and that is no fault of a node.
func (w *world) rewind() {
	w.db.mu.Lock()
	defer w.db.mu.Unlock()
	t := w.db.journals[journalName]
	end, _ := t.end()
	to := end - min(journal.Position(w.r.IntN(4)), end)
	for at := range w.book.claims {
		to = max(to, at) // with an epoch the numbers of tokens would be lost too
	}
	w.note("the database loses what is behind batch %d of %d", to, end)
	t.rows = t.rows[:to-t.base]
	var batches [][]byte
	for _, r := range t.rows {
		batches = append(batches, r.batch)
	}
	w.book.rewound(batches)
}

// settle ends all faults.
func (w *world) settle() {
	w.note("the faults are over")
	close(w.calm)
	for _, n := range w.nodes {
		n.pauses.end()
	}
}

// finish waits until some node serves, and until all work is done.
func (w *world) finish() {
	calmed, serves := time.Now(), false
	for range 3600 {
		wait(w.failed, 250*time.Millisecond)
		if closed(w.failed) {
			return
		}
		for _, n := range w.nodes {
			l, leave, err := n.enter()
			if err != nil {
				continue
			}
			inserting := w.inserting.Load() // read before the look, which then sees the submissions of inserts that ended
			_, refused := l.shard.Extend(l.ctx, nil, nil)
			open := l.shard.Stats().SubmissionsOpen
			leave()
			if serves = serves || refused == nil; refused == nil && open == 0 && inserting == 0 {
				w.note("all work is done")
				return
			}
		}
		if took := time.Since(calmed); !serves && took > within {
			w.fail("no node serves %v after the faults", took)
			return
		}
	}
	w.fail("the work is not done %v after the faults", time.Since(calmed))
}

// audit opens the shard once more, with nothing but the database, and compares it with everything acknowledged, and with the model.
func (w *world) audit() {
	n := w.nodes[0]
	l := n.begin(context.Background(), 1<<32)
	defer l.end()
	l.alone = true
	if err := l.open(); err != nil {
		w.fail("the audit: %v", err)
		return
	}
	defer func() { w.must("closing", errors.Join(l.shard.Close(), l.store.Close())) }()
	w.book.mu.Lock()
	subs := w.book.subs
	w.book.mu.Unlock()
	for seq, s := range subs {
		sub, err := l.shard.Submissions.Get(context.Background(), s.id)
		done := 0
		for _, is := range s.chunks {
			if is {
				done++
			}
		}
		if err != nil || sub.State != queue.Completed || int(sub.Done) != len(s.chunks) || done != len(s.chunks) {
			w.fail("the audit: submission %d is %s with %d chunks done, %v; the journal has %d of %d", seq, sub.State, sub.Done, err, done, len(s.chunks))
		}
	}
}

func (w *world) must(what string, err error) {
	if err != nil {
		w.fail("%s: %v", what, err)
	}
}
