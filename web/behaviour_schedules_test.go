package web

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// cron is a definition, with values for the fields that most tests do not care about.
func cron(spec string) api.ScheduleDefinition {
	return api.ScheduleDefinition{Spec: spec, Template: api.ScheduleTemplate{Chunks: api.Chunks{Count: 1, Prefix: "p/"}}}
}

func schedulePath(name, below string) string { return queuePath("", "/schedules/"+name+below) }

// schedule makes or changes one in the default queue.
func (s *scene) schedule(name string, d api.ScheduleDefinition) (got api.Schedule) {
	s.Helper()
	answered := s.call("PUT", schedulePath(name, ""), d)
	if answered.status != http.StatusOK && answered.status != http.StatusCreated {
		s.Fatalf("PUT schedule %s: %d %s", name, answered.status, answered.body)
	}
	answered.decode(s, &got)
	return got
}

func (s *scene) scheduleNow(name string) (got api.Schedule) {
	s.Helper()
	s.do("GET", schedulePath(name, ""), nil, http.StatusOK, &got)
	return got
}

// runs are the submissions of a schedule, the oldest first.
func (s *scene) runs(name string) (list []api.Submission) {
	s.Helper()
	cursor := ""
	for {
		var page api.Page[api.Submission]
		s.do("GET", queuePath("", "/submissions?limit=1000&cursor="+cursor), nil, http.StatusOK, &page)
		for _, one := range page.Items {
			if one.Schedule == name {
				list = append([]api.Submission{one}, list...)
			}
		}
		if cursor = page.Next; cursor == "" {
			return list
		}
	}
}

// wantRuns compares the ticks of a schedule's submissions with times of the form 15:04:05, or with a date before.
func (s *scene) wantRuns(name string, want ...string) {
	s.Helper()
	var got []string
	for _, one := range s.runs(name) {
		form := "15:04:05"
		if len(want) > 0 {
			form = "2006-01-02 15:04:05"[len("2006-01-02 15:04:05")-len(want[0]):]
		}
		got = append(got, one.ScheduledAt.UTC().Format(form))
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		s.Errorf("ticks of %s: got %v, want %v", name, got, want)
	}
}

// wantSkipped compares the counters of dropped ticks.
func (s *scene) wantSkipped(name string, missed, late, overlap uint64) {
	s.Helper()
	got := s.scheduleNow(name)
	if got.SkippedMissed != missed || got.SkippedLate != late || got.SkippedOverlap != overlap {
		s.Errorf("skipped of %s: got missed %d, late %d, overlap %d; want %d, %d, %d", name, got.SkippedMissed, got.SkippedLate, got.SkippedOverlap, missed, late, overlap)
	}
}

// Given an hourly schedule made at 16:30, its first run is at 17:00 and not before, unless run_on_create.
func TestBehaviour078TheFirstRunIsTheNextTick(t *testing.T) {
	t.Parallel()
	s := newSceneAt(t, time.Date(2026, 1, 5, 16, 30, 0, 0, time.UTC))
	s.schedule("plain", cron("@hourly"))
	eager := cron("@hourly")
	eager.RunOnCreate = true
	s.schedule("eager", eager)
	s.settle()
	s.wantRuns("plain")
	s.wantRuns("eager", "16:30:00")
	s.advance(29*time.Minute + 59*time.Second)
	s.wantRuns("plain")
	s.advance(time.Second)
	s.wantRuns("plain", "17:00:00")
	s.wantRuns("eager", "16:30:00", "17:00:00")
	s.schedule("eager", eager)
	s.settle()
	s.wantRuns("eager", "16:30:00", "17:00:00")
}

// Given a server that looks late at every tick, the scheduled times stay on the grid for 1,000 ticks.
func TestBehaviour079ScheduledTimesDoNotDrift(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.schedule("every", cron("@every 7s"))
	begin := s.now()
	for i := range 1000 {
		late := time.Duration(1+i%3) * 900 * time.Millisecond // too little to count as missed
		next := begin.Add(time.Duration(i+1)*7*time.Second + late)
		s.advance(next.Sub(s.now()))
	}
	runs := s.runs("every")
	if len(runs) != 1000 {
		t.Fatalf("%d runs, want 1000", len(runs))
	}
	for i, one := range runs {
		if want := begin.Add(time.Duration(i+1) * 7 * time.Second); !one.ScheduledAt.Equal(want) {
			t.Fatalf("run %d is for %s, want %s", i+1, one.ScheduledAt, want)
		}
	}
	s.wantSkipped("every", 0, 0, 0)
}

// Given many who look at one schedule at once, each tick has one submission. (Two servers cannot open one data directory: see the
// tests of the lock and of the journal's conditional append.)
//
//quern:overlapping
func TestBehaviour081ManyLookersOneSubmission(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	every := cron("* * * * * *")
	every.Seconds = true
	every.Template.Chunks = api.Chunks{Inline: []api.Bytes{api.Bytes("a")}}
	s.schedule("second", every)
	for range 20 {
		s.ahead.Add(int64(time.Second))
		var group sync.WaitGroup
		for range 8 {
			group.Go(s.settle)
		}
		group.Wait()
	}
	runs := s.runs("second")
	seen := map[string]int{}
	for _, one := range runs {
		seen[one.ScheduledAt.String()]++
	}
	if len(runs) != 20 || len(seen) != 20 {
		t.Errorf("%d submissions for %d ticks, want 20 for 20", len(runs), len(seen))
	}
}

// Given five hours down and an hourly schedule: once emits one late run, all emits five, skip none; the next run is on
// the grid, and dropped ticks are counted.
func TestBehaviour082MissedRuns(t *testing.T) {
	t.Parallel()
	s := newSceneAt(t, time.Date(2026, 1, 5, 8, 30, 0, 0, time.UTC))
	for _, missed := range []string{api.MissedOnce, api.MissedAll, api.MissedSkip} {
		d := cron("@hourly")
		d.Missed, d.CatchupWindowMS = missed, (24 * time.Hour).Milliseconds()
		s.schedule(missed, d)
	}
	s.reopen(5 * time.Hour)
	s.wantRuns("once", "13:00:00")
	s.wantRuns("all", "09:00:00", "10:00:00", "11:00:00", "12:00:00", "13:00:00")
	s.wantRuns("skip")
	s.wantSkipped("once", 4, 0, 0)
	s.wantSkipped("all", 0, 0, 0)
	s.wantSkipped("skip", 5, 0, 0)
	s.advance(30 * time.Minute)
	s.wantRuns("once", "13:00:00", "14:00:00")
	s.wantRuns("skip", "14:00:00")
	// A tick that is on time stands for those that were missed.
	s.reopen(2 * time.Hour)
	s.wantRuns("once", "13:00:00", "14:00:00", "16:00:00")
	s.wantSkipped("once", 5, 0, 0)
}

// Given all, every minute and 30 days down with a window of an hour and the limit 100, at most 60 runs come late.
func TestBehaviour083CatchingUpIsBounded(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	minutely, few := cron("* * * * *"), cron("* * * * * *")
	minutely.Missed = api.MissedAll
	few.Missed, few.Seconds, few.CatchupLimit = api.MissedAll, true, 150
	s.schedule("minutely", minutely)
	s.schedule("few", few)
	s.reopen(30*24*time.Hour + 30*time.Second)
	runs := s.runs("minutely")
	if len(runs) != 60 {
		t.Errorf("%d runs, want 60", len(runs))
	}
	s.wantSkipped("minutely", 0, 30*24*60-60, 0)
	if got := len(s.runs("few")); got < 150 || got > 156 {
		t.Errorf("%d runs of every second, want the limit 150 and those of the last 5 seconds", got)
	}
	got := s.scheduleNow("few")
	if sum := got.Emitted + got.SkippedLate; sum != 30*24*3600+30 {
		t.Errorf("%d emitted and %d dropped are %d, want every second of 30 days and 30 seconds", got.Emitted, got.SkippedLate, sum)
	}
}

// Given a rule on the queue or on the submissions of a schedule, it emits nothing; when the rule is lifted, or ends by
// itself, the policy for missed ticks applies. A pause of the schedule itself and a draining queue do the same.
func TestBehaviour084RulesKeepSchedulesFromEmitting(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]func(*scene) (lift func()){
		"pause of the queue": func(s *scene) func() {
			r := s.setRule("", api.ActionPause, onQueue())
			return func() { s.liftRule("", r) }
		},
		"block of the tenant": func(s *scene) func() {
			r := s.setRule("", api.ActionBlock, onTenant("a"))
			return func() { s.liftRule("", r) }
		},
		"pause that ends": func(s *scene) func() {
			s.setRule("", api.ActionPause, onTenant("a"), func(r *api.RuleRequest) { r.Until = api.At(s.now().Add(5*time.Hour + 10*time.Minute)) })
			return func() { s.advance(10 * time.Minute) }
		},
		"pause of the schedule": func(s *scene) func() {
			for _, name := range []string{"once", "all", "skip"} {
				s.do("POST", schedulePath(name, "/pause?reason=holidays"), nil, http.StatusOK, nil)
			}
			return func() {
				for _, name := range []string{"once", "all", "skip"} {
					s.do("POST", schedulePath(name, "/resume"), nil, http.StatusOK, nil)
				}
			}
		},
		"draining": func(s *scene) func() {
			s.queue("", api.QueueSettingsInput{Draining: new(true)})
			return func() {
				s.queue("", api.QueueSettingsInput{})
				s.advance(time.Second)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSceneAt(t, time.Date(2026, 1, 5, 8, 30, 0, 0, time.UTC))
			for _, missed := range []string{api.MissedOnce, api.MissedAll, api.MissedSkip} {
				d := cron("@hourly")
				d.Missed, d.CatchupWindowMS, d.Template.Meta = missed, (24 * time.Hour).Milliseconds(), api.Meta{"t": api.Text("a")}
				s.schedule(missed, d)
			}
			other := cron("@hourly")
			other.Template.Meta = api.Meta{"t": api.Text("b")}
			s.schedule("other", other)
			lift := keep(s)
			for range 5 {
				s.advance(time.Hour)
				if name == "block of the tenant" {
					s.reopen(0)
				}
			}
			for _, missed := range []string{"once", "all", "skip"} {
				s.wantRuns(missed)
				state := s.scheduleNow(missed).State
				if want := map[bool]string{true: api.SchedulePaused, false: api.ScheduleHeld}[name == "pause of the schedule"]; state != want {
					t.Errorf("%s is %s, want %s", missed, state, want)
				}
			}
			if n := len(s.runs("other")); (n == 0) != (name == "pause of the queue" || name == "draining") {
				t.Errorf("the schedule of the other tenant emitted %d times", n)
			}
			lift()
			s.settle()
			s.wantRuns("once", "13:00:00")
			s.wantRuns("all", "09:00:00", "10:00:00", "11:00:00", "12:00:00", "13:00:00")
			s.wantRuns("skip")
			s.wantSkipped("once", 4, 0, 0)
			s.wantSkipped("skip", 5, 0, 0)
		})
	}
}

// Given overlap skip and the submission before still open, nothing is emitted, and that is counted; buffer_one emits once it ended.
func TestBehaviour085Overlap(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for _, overlap := range []string{api.OverlapAllow, api.OverlapSkip, api.OverlapBufferOne} {
		d := cron("@hourly")
		d.Overlap = overlap
		s.schedule(overlap, d)
	}
	for range 3 {
		s.advance(time.Hour)
	}
	s.wantRuns("allow", "09:00:00", "10:00:00", "11:00:00")
	s.wantRuns("skip", "09:00:00")
	s.wantSkipped("skip", 0, 0, 2)
	s.wantRuns("buffer_one", "09:00:00")
	s.wantSkipped("buffer_one", 0, 0, 1)
	if got := s.scheduleNow("buffer_one").WaitingAt.UTC().Format("15:04"); got != "10:00" {
		t.Errorf("the tick of %s waits, want that of 10:00", got)
	}
	s.reopen(0)
	for _, name := range []string{"skip", "buffer_one"} {
		s.cancel(s.runs(name)[0].ID)
	}
	s.settle()
	s.wantRuns("skip", "09:00:00")
	s.wantRuns("buffer_one", "09:00:00", "10:00:00")
	s.advance(time.Hour)
	s.wantRuns("skip", "09:00:00", "12:00:00")
	s.wantSkipped("buffer_one", 0, 0, 1)
}

// Given 02:30 every day in Amsterdam, on 29 March 2026 there is one run, at 03:00 summer time, on 25 October exactly one; every half
// hour no tick is lost.
func TestBehaviour086ClocksThatChange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from      time.Time
		daily     []string
		halfHours int
	}{
		{time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC), []string{"2026-03-29 01:00:00", "2026-03-30 00:30:00"}, 96},
		{time.Date(2026, 10, 24, 12, 0, 0, 0, time.UTC), []string{"2026-10-25 00:30:00", "2026-10-26 01:30:00"}, 96},
	} {
		s := newSceneAt(t, c.from)
		for name, spec := range map[string]string{"daily": "30 2 * * *", "half": "*/30 * * * *"} {
			d := cron(spec)
			d.TZ = "Europe/Amsterdam"
			s.schedule(name, d)
		}
		for range 96 {
			s.advance(30 * time.Minute)
		}
		s.wantRuns("daily", c.daily...)
		if got := len(s.runs("half")); got != c.halfHours {
			t.Errorf("from %s: %d runs in 48 hours, want %d", c.from, got, c.halfHours)
		}
		s.wantSkipped("half", 0, 0, 0)
	}
}

// Given a date that never comes, the schedule is refused.
func TestBehaviour087ImpossibleDates(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	p := s.refused("PUT", schedulePath("never", ""), cron("0 0 30 2 *"), http.StatusUnprocessableEntity)
	if len(p.Errors) != 1 || p.Errors[0].Pointer != "/spec" || !strings.Contains(p.Errors[0].Detail, "no date ever fits") {
		t.Errorf("errors: got %+v, want /spec, which no date ever fits", p.Errors)
	}
	s.refused("GET", schedulePath("never", ""), nil, http.StatusNotFound)
}

// Given a schedule that is given a new spec while it runs, the next run follows the new one; a single date in the past fires once.
func TestBehaviour110NewSpecAndPastDates(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.schedule("changing", cron("@hourly"))
	s.advance(time.Hour)
	s.schedule("changing", cron("15 * * * *"))
	s.schedule("past", cron("@at 2025-12-31T00:00:00Z"))
	s.settle()
	for range 4 {
		s.advance(15 * time.Minute)
	}
	s.wantRuns("changing", "09:00:00", "09:15:00")
	s.wantRuns("past", "2025-12-31 00:00:00")
	if got := s.scheduleNow("past"); got.State != api.ScheduleFinished || !got.NextAt.IsZero() {
		t.Errorf("it is %s and due next at %s, want finished and never", got.State, got.NextAt)
	}
	s.reopen(time.Hour)
	s.schedule("past", cron("@at 2025-12-31T00:00:00Z"))
	s.settle()
	s.wantRuns("past", "2025-12-31 00:00:00")
}

// Given 20 runs that fail in a row, the 21st comes, unless pause_on_failure.
func TestBehaviour111FailingRuns(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"fail_submission", "dead_letter"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			failingRuns(t, policy)
		})
	}
}

func failingRuns(t *testing.T, policy string) {
	s := newScene(t)
	s.queue("", api.QueueSettingsInput{OnExhausted: &policy})
	stubborn, careful := cron("@hourly"), cron("@hourly")
	stubborn.Template.Meta, careful.Template.Meta = api.Meta{"s": api.Text("stubborn")}, api.Meta{"s": api.Text("careful")}
	careful.PauseOnFailure = true
	s.schedule("stubborn", stubborn)
	s.schedule("careful", careful)
	for range 20 {
		s.advance(time.Hour)
		held := s.reserveAll("", "OldestFirst")
		s.wantStatuses(s.failing("", "no luck", true, held...), len(held), api.StatusOK)
	}
	s.advance(time.Hour)
	if got := len(s.runs("stubborn")); got != 21 {
		t.Errorf("%d runs, want 21", got)
	}
	s.wantRuns("careful", "09:00:00")
	got := s.scheduleNow("careful")
	if got.State != api.SchedulePaused || !strings.Contains(got.Reason, "no luck") || !strings.Contains(got.Reason, s.runs("careful")[0].ID) {
		t.Errorf("it is %s because of %q, want paused because of its submission and its error", got.State, got.Reason)
	}
	s.do("POST", schedulePath("careful", "/resume"), nil, http.StatusOK, nil)
	s.settle()
	s.wantRuns("careful", "09:00:00", fmt.Sprintf("%02d:00:00", (8+21)%24))
}

// A schedule's pause, its delay by jitter, its end, and the fields of its submissions, over restarts.
func TestSchedulesOverRestarts(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	d := cron("@hourly")
	d.JitterMS = (10 * time.Minute).Milliseconds()
	d.End = api.At(time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC))
	d.Template = api.ScheduleTemplate{
		Meta: api.Meta{"company": api.Int(7)}, Priority: 4, Attachment: api.Bytes("att"), DeadAfterMS: time.Hour.Milliseconds(),
		Chunks: api.Chunks{Count: 2, Template: "report of {scheduled_at}, part {index}"},
	}
	s.schedule("jittery", d)
	var emitted []time.Time
	for range 4*60 + 11 {
		s.advance(time.Minute)
		if runs := s.runs("jittery"); len(runs) > len(emitted) {
			emitted = append(emitted, s.now())
			s.reopen(0)
		}
	}
	s.wantRuns("jittery", "09:00:00", "10:00:00", "11:00:00", "12:00:00")
	spread := map[time.Duration]bool{}
	for i, one := range s.runs("jittery") {
		late := emitted[i].Sub(one.ScheduledAt.Time)
		if late < 0 || late > 11*time.Minute {
			t.Errorf("the tick of %s was emitted %s later, want up to 10 minutes and the minute of the test's clock", one.ScheduledAt, late)
		}
		spread[late] = true
	}
	if len(spread) < 2 {
		t.Errorf("all ticks were delayed by the same: %v", spread)
	}
	if got := s.scheduleNow("jittery"); got.State != api.ScheduleFinished || got.Emitted != 4 {
		t.Errorf("it is %s after %d ticks, want finished after 4", got.State, got.Emitted)
	}
	held := s.reserve("", request("OldestFirst", 1)).Reservations
	if len(held) != 1 || string(held[0].Content.Bytes) != "report of 2026-01-05T12:00:00Z, part 0" || string(held[0].Attachment) != "att" || held[0].Priority != 4 {
		t.Errorf("reserved %+v, want the first part of the only report whose dead_deadline has not passed", held)
	}
}
