package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// Given a crash between emission and bookkeeping: the server is killed with SIGKILL again and again while schedules are due every second, with and without contents of their own to
// write. Each tick has exactly one submission then, none is left out, and the counters say the same.
//
// QUERN_CRASH_ROUNDS and QUERN_CRASH_SEED are as for TestKillNine; the rounds are a quarter here.
//
//quern:killing
func TestBehaviour080KillNineSchedules(t *testing.T) {
	t.Parallel()
	rounds, seed := envNumber(t, "QUERN_CRASH_ROUNDS", 36)/4, envNumber(t, "QUERN_CRASH_SEED", rand.Uint64())
	if testing.Short() {
		rounds = 6
	}
	t.Logf("rounds %d, seed %d", rounds, seed)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program = quernLink(t, program)
	dir, rnd := t.TempDir(), rand.New(rand.NewPCG(seed, 2))
	names := map[string]bool{}
	for round := range rounds {
		s, err := startServer(program, os.Environ(), dir, "--fold-bytes", "64KiB", "--ballast-bytes", "1MiB")
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		c, err := client.New(s.url)
		if err != nil {
			t.Fatal(err)
		}
		if len(names) < 6 {
			putEverySecond(t, c, names)
		}
		pause := time.NewTimer(time.Duration(20+rnd.IntN(1500)) * time.Millisecond)
		<-pause.C
		_ = s.end(syscall.SIGKILL) // the exit status is "killed"
	}
	s, err := startServer(program, os.Environ(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.end(syscall.SIGKILL) }()
	c, err := client.New(s.url)
	if err != nil {
		t.Fatal(err)
	}
	var kept []api.Schedule
	for name := range names {
		running, err := c.Schedule(t.Context(), "default", name)
		if err != nil {
			t.Fatal(err)
		}
		paused, err := c.PauseSchedule(t.Context(), "default", name, "")
		if err != nil {
			t.Fatal(err)
		}
		if paused.LastAt.Before(running.LastAt.Time) {
			t.Errorf("%s: its last tick was %v, and is %v once it is paused", name, running.LastAt, paused.LastAt)
		}
		kept = append(kept, *paused)
	}
	checkTicks(t, c, kept)
}

// putEverySecond makes two schedules more.
func putEverySecond(t *testing.T, c *client.Client, names map[string]bool) {
	for range 2 {
		name := fmt.Sprintf("s%d", len(names))
		d := &api.ScheduleDefinition{
			Spec: "* * * * * *", Seconds: true, Missed: api.MissedAll, CatchupLimit: 1000, CatchupWindowMS: time.Hour.Milliseconds(),
			Template: api.ScheduleTemplate{Chunks: api.Chunks{Count: 2, Prefix: "p/"}},
		}
		if len(names)%2 == 1 {
			d.Template.Chunks = api.Chunks{Inline: []api.Bytes{[]byte(name), []byte("second")}}
		}
		if _, err := c.PutSchedule(t.Context(), "default", name, d, client.Condition{}); err != nil {
			t.Fatal(err)
		}
		names[name] = true
	}
}

// checkTicks holds the submissions against the seconds since each schedule was made.
func checkTicks(t *testing.T, c *client.Client, schedules []api.Schedule) {
	runs := map[string]map[int64]int{}
	for s, err := range c.List(t.Context(), "default", client.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if runs[s.Schedule] == nil {
			runs[s.Schedule] = map[int64]int{}
		}
		runs[s.Schedule][s.ScheduledAt.Unix()]++
	}
	total := 0
	for _, s := range schedules {
		first, next := s.CreatedAt.Unix()+1, s.LastAt.Unix()+1 // a paused schedule has no next tick
		for second := first; second < next; second++ {
			if n := runs[s.Name][second]; n != 1 {
				t.Errorf("%s: the tick of second %d (of %d to %d) has %d submissions, want 1", s.Name, second, first, next-1, n)
			}
			delete(runs[s.Name], second)
		}
		if len(runs[s.Name]) > 0 {
			t.Errorf("%s: submissions for ticks %v that are none", s.Name, runs[s.Name])
		}
		if s.Emitted != uint64(next-first) || s.SkippedMissed+s.SkippedLate+s.SkippedOverlap > 0 {
			t.Errorf("%s: it counts %d emitted and %d, %d, %d dropped, want %d and none", s.Name, s.Emitted, s.SkippedMissed, s.SkippedLate, s.SkippedOverlap, next-first)
		}
		total += int(next - first)
	}
	t.Logf("%d ticks of %d schedules, each emitted once", total, len(schedules))
}
