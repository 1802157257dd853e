package powerloss

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/powerloss/disktest"
	"github.com/quern-queue/quern/engine/queue"
)

// faultSteps is the length of a workload on a disk that fails.
const faultSteps = 40

// fresh is a new data directory. A directory whose server had to end is not used again, because in a test that server only stands still.
func fresh(t *testing.T, work string) (dir string) {
	t.Helper()
	old, err := filepath.Glob(filepath.Join(work, "data-*"))
	for _, was := range old {
		err = errors.Join(err, os.RemoveAll(was))
	}
	if err != nil {
		t.Fatal(err)
	}
	dir, err = os.MkdirTemp(work, "data-")
	if err != nil {
		t.Fatal(err)
	}
	e, err := open(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// well makes no operation of the disk fail.
func well() {
	disktest.Fail(disktest.Never, disktest.Never)
	disktest.Break(disktest.Never, false)
}

// run does a workload on a disk that `fails` has set up to fail, and returns what was acknowledged. It ends with the workload, with the
// process, or after so many refused calls.
func run(t *testing.T, dir string, seed uint64, most int, fails func()) (facts []fact, refused int, fatal bool) {
	t.Helper()
	if err := disktest.Begin(dir + "/"); err != nil {
		t.Fatal(err)
	}
	fails()
	defer well()
	type outcome struct {
		refused int
		err     error // of the close
	}
	ended, over := make(chan struct{}), make(chan outcome, 1)
	end := sync.OnceFunc(func() { close(ended) })
	w := &workload{rnd: rand.New(rand.NewPCG(seed, 1))}
	go func() {
		refused, err := 0, error(nil)
		w.e, err = open(t.Context(), dir, func(error) {
			end()
			select {} // a process that has ended does nothing any more
		})
		if err != nil {
			over <- outcome{refused: 1} // nothing was acknowledged; the next start is looked at
			return
		}
		ctx, stop := context.WithCancel(t.Context())
		housework := make(chan error, 1)
		go func() { housework <- w.e.Run(ctx) }()
		for n := 0; n < faultSteps && refused < most; n++ {
			if err := w.step(t.Context(), n); err != nil {
				refused++
			}
		}
		select {
		case <-ended: // the calls were given up with the test
			stop()
			return
		default:
		}
		well()
		stop()
		over <- outcome{refused, errors.Join(<-housework, w.e.Close())}
	}()
	select {
	case <-ended:
		return w.known(), 0, true
	case o := <-over:
		if o.err != nil {
			t.Errorf("close: %v", o.err)
		}
		return w.known(), o.refused, false
	}
}

// positions are numbers of operations of a kind that a workload makes, in order: in each try, one of them is to fail. A workload is not the
// same each time. QUERN_DISK_FAULTS is the number of tries instead, and a large one lets each operation fail once.
func positions(t *testing.T, work string, seed uint64, kind byte, tried int, rnd *rand.Rand) []int {
	t.Helper()
	if _, refused, fatal := run(t, fresh(t, work), seed, faultSteps, well); refused > 0 || fatal {
		t.Fatalf("on a disk that is well %d calls were refused, ended: %v", refused, fatal)
	}
	trace := disktest.End()
	all := rnd.Perm(trace.Count(kind))
	all = all[:min(len(all), number(t, "QUERN_DISK_FAULTS", tried))]
	slices.Sort(all)
	t.Logf("counted: %d places of a workload at which the disk fails", len(all))
	return all
}

// Whichever write is the last that the disk has room for, only work that reached the disk is acknowledged, and a start with room again has
// all of it.
//
//quern:killing
func TestFullDisk(t *testing.T) {
	seed := uint64(number(t, "QUERN_POWER_SEED", int(rand.Uint32()>>1)+1))
	t.Logf("QUERN_POWER_SEED=%d", seed)
	rnd, work, refusals := rand.New(rand.NewPCG(seed, 2)), scratch(t), 0
	boots("one")
	for _, last := range positions(t, work, seed, disktest.Write, 60, rnd) {
		dir := fresh(t, work)
		facts, refused, _ := run(t, dir, seed, faultSteps, func() { disktest.Fail(last, disktest.Never) })
		disktest.End()
		refusals += refused
		if err := survives(t.Context(), dir, facts); err != nil {
			t.Fatalf("write %d fails, and those after it; %d acknowledged, %d refused: %v", last, len(facts), refused, err)
		}
	}
	if refusals == 0 {
		t.Error("nothing was refused: no write failed")
	}
}

// The disk has no room for the start of a journal at first. Batches that it acknowledges once there is room outlive a kill.
func TestRoomAfterTheStart(t *testing.T) {
	boots("one")
	work, refused := scratch(t), 0
	for last := range 8 { // more than the start of a journal writes
		dir, killed := filepath.Join(work, strconv.Itoa(last)), filepath.Join(work, "killed")
		path := filepath.Join(dir, "journal.db")
		made := errors.Join(os.Mkdir(dir, 0o700), appended(t.Context(), path, 0, nil))
		if err := errors.Join(made, os.RemoveAll(killed), disktest.Begin(dir+"/")); err != nil {
			t.Fatal(err)
		}
		disktest.Fail(last, disktest.Never)
		err := appended(t.Context(), path, 1, func() error {
			disktest.Fail(disktest.Never, disktest.Never)
			return nil
		}, func() error { return os.CopyFS(killed, os.DirFS(dir)) })
		disktest.Fail(disktest.Never, disktest.Never)
		disktest.End()
		if errors.Is(err, journal.ErrFull) {
			refused++ // the start itself; nothing was acknowledged
			continue
		}
		if err == nil {
			err = appended(t.Context(), filepath.Join(killed, "journal.db"), 2, nil)
		}
		if err != nil {
			t.Errorf("no room from write %d of the start on: %v", last, err)
		}
	}
	if refused == 8 {
		t.Error("no start succeeded")
	}
}

// appended opens the journal at path and appends a batch behind `tail`. It calls `before` and `after` around the append, while the journal
// is open.
func appended(ctx context.Context, path string, tail journal.Position, before func() error, after ...func() error) error {
	log, err := sqlitelog.Open(ctx, path, sqlitelog.Options{})
	if err != nil {
		return err
	}
	if before != nil {
		err = before()
	}
	if err == nil {
		_, err = log.Append(ctx, tail, []byte("batch"))
	}
	for _, fn := range after {
		err = errors.Join(err, fn())
	}
	return errors.Join(err, log.Close())
}

// One write fails, whichever it is, because of a fault of the medium or for want of room. Its call is refused, or succeeds later. The
// server goes on, and a start has all that was acknowledged before and after.
func TestFailingWrite(t *testing.T) {
	seed := uint64(number(t, "QUERN_POWER_SEED", int(rand.Uint32()>>1)+1))
	t.Logf("QUERN_POWER_SEED=%d", seed)
	rnd, work, refusals, most := rand.New(rand.NewPCG(seed, 4)), scratch(t), 0, 0
	boots("one")
	for _, last := range positions(t, work, seed, disktest.Write, 60, rnd) {
		dir := fresh(t, work)
		room := rnd.IntN(2) == 0
		facts, refused, fatal := run(t, dir, seed, faultSteps, func() { disktest.Break(last, room) })
		disktest.End()
		refusals, most = refusals+refused, max(most, len(facts))
		if err := survives(t.Context(), dir, facts); err != nil || fatal {
			t.Fatalf("write %d fails; %d acknowledged, %d refused, ended: %v: %v", last, len(facts), refused, fatal, err)
		}
	}
	if refusals == 0 || most < faultSteps/2 {
		t.Errorf("%d calls were refused, and at most %d acknowledged: want some, and that the server goes on", refusals, most)
	}
}

// Whichever write is the last before a file system turns read-only, or before a file may not grow, nothing is acknowledged after it, the
// process goes on, and a start that may write again has all that was acknowledged.
func TestRefusedWrites(t *testing.T) {
	seed := uint64(number(t, "QUERN_POWER_SEED", int(rand.Uint32()>>1)+1))
	t.Logf("QUERN_POWER_SEED=%d", seed)
	rnd, work, refusals := rand.New(rand.NewPCG(seed, 5)), scratch(t), 0
	boots("one")
	// Few, because each refused call takes a second, for which the journal tries.
	for _, last := range positions(t, work, seed, disktest.Write, 8, rnd) {
		dir := fresh(t, work)
		facts, refused, fatal := run(t, dir, seed, 2, func() { disktest.Refuse(last) })
		disktest.End()
		refusals += refused
		if err := survives(t.Context(), dir, facts); err != nil || fatal {
			t.Fatalf("write %d is refused, and those after it; %d acknowledged, %d refused, ended: %v: %v", last, len(facts), refused, fatal, err)
		}
	}
	if refusals == 0 {
		t.Error("nothing was refused: no write failed")
	}
}

// Whichever sync fails, the process ends, because the kernel may have dropped pages that it did not write. A start has all that was
// acknowledged, and maybe some of the rest.
func TestFailingSync(t *testing.T) {
	seed := uint64(number(t, "QUERN_POWER_SEED", int(rand.Uint32()>>1)+1))
	t.Logf("QUERN_POWER_SEED=%d", seed)
	rnd, work, ended := rand.New(rand.NewPCG(seed, 3)), scratch(t), 0
	boots("one")
	for _, last := range positions(t, work, seed, disktest.Sync, 60, rnd) {
		boots("one")
		dir := fresh(t, work)
		before, after := filepath.Join(work, "before"), filepath.Join(work, "after")
		if err := errors.Join(os.RemoveAll(before), os.RemoveAll(after), os.CopyFS(before, os.DirFS(dir))); err != nil {
			t.Fatal(err)
		}
		facts, refused, fatal := run(t, dir, seed, faultSteps, func() { disktest.Fail(disktest.Never, last) })
		trace := disktest.End()
		if fatal {
			ended++
		}
		image, err := disktest.ImageOf(before, &trace)
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range trace.Ops {
			image.Apply(op)
		}
		if err := image.Crash(after, disktest.Loss(rnd.IntN(int(disktest.Losses))), rnd); err != nil {
			t.Fatal(err)
		}
		boots("two")
		if err := survives(t.Context(), after, facts); err != nil {
			t.Fatalf("sync %d fails, and those after it; %d acknowledged, %d refused, ended: %v: %v", last, len(facts), refused, fatal, err)
		}
	}
	if ended == 0 {
		t.Error("no failed sync ended the process")
	}
}

// Nothing is acknowledged before the disk has it, however long that takes. Reads go on meanwhile, and the server is ready.
func TestSlowSync(t *testing.T) {
	boots("one")
	dir := fresh(t, scratch(t))
	if err := disktest.Begin(dir + "/"); err != nil {
		t.Fatal(err)
	}
	defer disktest.End()
	e, err := open(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	insert := func() (queue.Submission, error) {
		s, _, err := queueAt(e, engine.DefaultQueue).Insert(t.Context(), queue.NewSubmission{Chunks: queue.Chunks{Count: 2, Template: "x"}})
		return s, err
	}
	first, err := insert()
	if err != nil {
		t.Fatal(err)
	}
	waits, release := disktest.Hold()
	defer release()
	second := make(chan error, 1)
	go func() {
		_, err := insert()
		second <- err
	}()
	select {
	case err := <-second:
		t.Fatalf("an insert was answered before its sync was over: %v", err)
	case <-waits:
	}
	if s, err := e.Submission(t.Context(), first.ID); err != nil || s.Ready != 2 {
		t.Errorf("a read while a sync waits: %+v, %v", s, err)
	}
	for _, check := range e.Ready() {
		if !check.OK {
			t.Errorf("while a sync waits: %+v", check)
		}
	}
	select {
	case err := <-second:
		t.Fatalf("an insert was answered before its sync was over: %v", err)
	default:
	}
	release()
	if err := <-second; err != nil {
		t.Error(err)
	}
	if s := queueAt(e, engine.DefaultQueue).Stats(); s.SubmissionsOpen != 2 {
		t.Errorf("afterwards: %+v", s)
	}
}
