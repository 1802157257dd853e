package backups

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
)

// scene is a server with a folder for backups, and a clock that the test moves.
type scene struct {
	*testing.T
	core *engine.Engine
	dir  string
	now  time.Time
	fail error // of the next backups
	log  bytes.Buffer
	reg  *prometheus.Registry
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{T: t, dir: filepath.Join(t.TempDir(), "backups"), now: time.Date(2026, 3, 1, 4, 0, 0, 0, time.UTC)}
	core, err := engine.Open(context.Background(), engine.Options{Dir: filepath.Join(t.TempDir(), "data"), Now: func() time.Time { return s.now },
		Seed: rand.Uint64, BallastBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	s.core = core
	t.Cleanup(func() {
		if err := core.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *scene) keeper() *Keeper {
	s.Helper()
	s.reg = prometheus.NewRegistry()
	k, err := New(Options{Dir: s.dir, Every: time.Hour, Keep: 3, Now: func() time.Time { return s.now }, Registerer: s.reg,
		Logger: slog.New(slog.NewTextHandler(&s.log, nil)),
		Make: func(ctx context.Context) (*engine.Backup, error) {
			if s.fail != nil {
				return nil, s.fail
			}
			return s.core.Storage().Backup(ctx, "test", "", nil)
		}})
	if err != nil {
		s.Fatal(err)
	}
	return k
}

// metric is the value of a gauge or a counter.
func (s *scene) metric(name string) float64 {
	s.Helper()
	families, err := s.reg.Gather()
	if err != nil {
		s.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	s.Fatalf("there is no metric %s", name)
	return 0
}

func (s *scene) files() (names []string) {
	s.Helper()
	list, err := os.ReadDir(s.dir)
	if err != nil {
		s.Fatal(err)
	}
	for _, entry := range list {
		names = append(names, entry.Name())
	}
	return names
}

func (s *scene) want(names ...string) {
	s.Helper()
	if got := s.files(); !slices.Equal(got, names) {
		s.Errorf("the folder has %v, want %v", got, names)
	}
}

// Backups are made at their pace, the last ones are kept, and other files are left alone. A start goes on where the last one was.
func TestBackupsAreKept(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	k := s.keeper()
	if wait := k.wait(); wait != 0 {
		t.Errorf("the first backup is due in %v, want at once", wait)
	}
	for _, name := range []string{"mine.tar", "quern-20200101T000000Z.tar.old", "quern-20260301T035959Z.tar.partial"} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		_, _, err := queueAt(s.core, engine.DefaultQueue).Insert(t.Context(), queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Template: "x"}})
		if err != nil {
			t.Fatal(err)
		}
		if wait := k.step(t.Context()); wait != time.Hour {
			t.Errorf("backup %d: the next one is due in %v, want in an hour", i, wait)
		}
		s.now = s.now.Add(time.Hour)
	}
	s.want("mine.tar", "quern-20200101T000000Z.tar.old", "quern-20260301T060000Z.tar", "quern-20260301T070000Z.tar", "quern-20260301T080000Z.tar")
	for hour, open := range map[int]uint64{6: 3, 8: 5} {
		file, err := os.Open(filepath.Join(s.dir, fmt.Sprintf("quern-20260301T%02d0000Z.tar", hour)))
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(t.TempDir(), "restored")
		_, err = engine.Restore(t.Context(), to, file)
		if err = errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
		restored, err := engine.Open(t.Context(), engine.Options{Dir: to, Now: time.Now, Seed: rand.Uint64, BallastBytes: -1})
		if err != nil {
			t.Fatal(err)
		}
		stats := queueAt(restored, engine.DefaultQueue).Stats()
		if err := restored.Close(); err != nil || stats.SubmissionsOpen != open {
			t.Errorf("the backup of %d o'clock has %d submissions, %v; want %d", hour, stats.SubmissionsOpen, err, open)
		}
	}
	s.now = s.now.Add(-30 * time.Minute)
	again := s.keeper()
	if wait := again.wait(); wait != 30*time.Minute {
		t.Errorf("after a start the next one is due in %v, want in half an hour", wait)
	}
	if got := s.metric("quern_backup_last_timestamp_seconds"); got != float64(time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC).Unix()) {
		t.Errorf("quern_backup_last_timestamp_seconds is %v", got)
	}
	s.now = s.now.Add(-48 * time.Hour)
	if wait := again.wait(); wait != time.Hour {
		t.Errorf("with the clock set back the next one is due in %v, want in an hour", wait)
	}
}

// A backup that fails leaves nothing, removes nothing, is counted and logged, and is tried again soon.
func TestFailedBackups(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	k := s.keeper()
	k.step(t.Context())
	s.fail = errors.New("no luck")
	s.now = s.now.Add(time.Hour)
	for range 4 {
		if wait := k.step(t.Context()); wait != retryAfter {
			t.Errorf("it is tried again in %v, want in %v", wait, retryAfter)
		}
	}
	s.want("quern-20260301T040000Z.tar")
	if got := s.metric("quern_backup_failures_total"); got != 4 || strings.Count(s.log.String(), "no luck") != 4 {
		t.Errorf("%v failures are counted, and the log says\n%s", got, s.log.String())
	}
	s.fail = nil
	if err := os.Mkdir(filepath.Join(s.dir, "quern-20260301T050000Z.tar.partial"), 0o700); err != nil { // no file can be made there
		t.Fatal(err)
	}
	if wait := k.step(t.Context()); wait != retryAfter {
		t.Errorf("a folder that cannot be written: tried again in %v, want in %v", wait, retryAfter)
	}
	if err := os.Remove(filepath.Join(s.dir, "quern-20260301T050000Z.tar.partial")); err != nil {
		t.Fatal(err)
	}
	if wait := k.step(t.Context()); wait != time.Hour {
		t.Errorf("once it can be: the next one in %v", wait)
	}
	s.want("quern-20260301T040000Z.tar", "quern-20260301T050000Z.tar")
}

// queueAt is a queue that serves.
func queueAt(e *engine.Engine, name string) *engine.Queue {
	q, err := e.Queue(name)
	if err != nil {
		panic(err)
	}
	return q
}
