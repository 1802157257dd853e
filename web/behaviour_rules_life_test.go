package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// 64. A pause of customer 7: customer 8's chunks flow, and no strategy of the queue sees any of 7: no order, no filter, no limit, no
// fallback, no share, no formula and no module.
func TestBehaviour064NoStrategySeesWhatIsPaused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i := range 40 {
		f.insert(fmt.Sprintf(`{"chunks":{"count":2,"template":"%d"},"priority":%d,"meta":{"customer":%d,"tries":1}}`, 7+i%2, i, 7+i%2))
	}
	f.inUse(wasmtest.Scorer(), "newest", "priority", "meta_i64:tries")
	f.do("POST", "/v1/queues/default/rules", `{"action":"pause","match":{"meta":{"customer":7}}}`, 201, nil)
	for _, strategy := range []string{
		"Random", "OldestFirst", "NewestFirst", "CustomPriority", `SelectOnly("customer", 7, Random)`, `MaxSimultaneous("customer", 50, OldestFirst)`,
		`MaxSimultaneous("customer", 50, MaxSimultaneous("tries", 90, Random))`, `PreferDistinct("customer", 1, Random)`,
		`OrElse(SelectOnly("customer", 7, OldestFirst), OldestFirst)`, `Fair("customer", OldestFirst)`, `Fair("$submission", time, Random)`,
		`Score(priority*10, OldestFirst)`, `Plugin("newest", explore=0, OldestFirst)`, `OrElse(Plugin("newest", Fair("customer", Random)), Random)`,
	} {
		texts, got := f.taken(100, strategy)
		want := 40
		if strings.HasPrefix(strategy, "SelectOnly") {
			want = 0
		}
		if len(texts) != want || slices.Contains(texts, "7") {
			t.Errorf("%s gave %d chunks, %v; want %d of customer 8", strategy, len(texts), texts, want)
		}
		f.giveBack(got.Reservations)
	}
	if texts, got := f.taken(100, `SelectOnly("customer", 7, Plugin("newest", OldestFirst))`); len(texts) != 0 || *got.Reason != api.ReasonPaused {
		t.Errorf("got %v, %+v; want nothing, because it is paused", texts, got)
	}
}

// 74. Work that no consumer asks for stays visible: its count and its age.
func TestBehaviour074UnservedWorkIsSeen(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	x := s.insert("", submission(3, "handler", "unserved"))
	s.insert("", submission(1, "handler", "served"))
	s.advance(40 * 24 * time.Hour)
	s.reopen(time.Hour)
	held := s.reserve("", request(`SelectOnly("handler", "served", Random)`, 10)).Reservations
	s.wantStatuses(s.completing("", held...), 1, api.StatusOK)
	s.advance(time.Hour)
	s.wantCounts("", "ready 3")
	if got, want := s.statsOf("").OldestReadySeconds, (40*24*time.Hour + 2*time.Hour).Seconds(); got != want {
		t.Errorf("the oldest is ready for %g s, want %g", got, want)
	}
	var value api.ValueCount
	s.do("GET", queuePath("", "/meta-keys/handler/values/unserved"), nil, http.StatusOK, &value)
	if value.Ready != 3 || value.InFlight != 0 || value.Submissions != 1 {
		t.Errorf("the value: got %+v, want 3 ready chunks of one submission", value)
	}
	if got := s.submission(x.ID); got.State != api.StateOpen || got.Ready != 3 {
		t.Errorf("the submission: got %+v, want it open with 3 ready chunks", got)
	}
}

// 76. 91 % of the backlog is paused, at the head: a reserve looks at as little as if it were not there. BenchmarkRule
// of engine/backlog and BenchmarkPausedHead here measure how long it takes.
func TestBehaviour076PausedHeadIsNotScanned(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	pausedHead(s, 1000, 10)
	for _, strategy := range []string{"OldestFirst", "Random", `MaxSimultaneous("mode", 500, OldestFirst)`, `Fair("mode", OldestFirst)`} {
		s.take(strategy, 1, 1) // the view is built
		before := s.examined()
		for i, r := range s.take(strategy, 50, 1) {
			if tenant(&r) != "b" {
				t.Errorf("%s: reserve %d gave a chunk of %q", strategy, i, tenant(&r))
			}
		}
		if looked := s.examined() - before; looked > 50*8 {
			t.Errorf("%s: 50 reserves looked at %d submissions, want a few each", strategy, looked)
		}
	}
	if got := s.statsOf(""); got.Paused != 1000*10 {
		t.Errorf("%d chunks are paused, want 10000", got.Paused)
	}
}

// pausedHead inserts submissions that are paused then, and a tenth as many behind them.
func pausedHead(s *scene, submissions int, chunks uint32) {
	s.Helper()
	for i := range submissions {
		s.insert("", submission(chunks, "t", "a", "mode", fmt.Sprint(i%3)))
	}
	s.take("OldestFirst", 1, 1) // the view is there before the rule
	for i := range submissions / 10 {
		s.insert("", submission(chunks*10, "t", "b", "mode", fmt.Sprint(i%3)))
	}
	s.setRule("", api.ActionPause, onTenant("a"), func(r *api.RuleRequest) { r.Effects.Revoke = true })
}

// examined is how many submissions all reserves looked at so far.
func (s *scene) examined() uint64 {
	s.Helper()
	return queueAt(s.engine, engine.DefaultQueue).Examined()
}

// 77. A pause that lasts longer than the dead_deadline ends nothing; once it is lifted there is at least one reservation timeout to run.
func TestBehaviour077PauseOutlastsTheDeadDeadline(t *testing.T) {
	t.Parallel()
	for name, match := range map[string]func(api.Submission) api.RuleMatch{
		"queue":      func(api.Submission) api.RuleMatch { return onQueue() },
		"value":      func(api.Submission) api.RuleMatch { return onTenant("a") },
		"submission": func(x api.Submission) api.RuleMatch { return api.RuleMatch{Submission: x.ID} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.queue("", api.QueueSettingsInput{ReservationTimeoutMS: new(int64(600_000))})
			n := submission(2, "t", "a")
			n.DeadDeadline = api.At(s.now().Add(time.Hour))
			x := s.insert("", n)
			n.DeadDeadline = api.At(s.now().Add(24*time.Hour + time.Minute)) // would pass a minute after the lifting
			n.Meta["t"] = api.Text("a")
			y := s.insert("", n)
			n.Meta = api.Meta{"t": api.Text("b")}
			n.DeadDeadline = api.At(s.now().Add(time.Hour))
			z := s.insert("", n)
			rule := s.setRule("", api.ActionPause, match(x))
			state := func(x api.Submission, want string) {
				t.Helper()
				if got := s.submission(x.ID).State; got != want {
					t.Errorf("at %s: %s, want %s", s.now(), got, want)
				}
			}
			s.advance(2 * time.Hour)
			state(x, api.StateOpen)
			if name != "queue" {
				state(z, api.StateExpired) // no rule covers it
			}
			s.reopen(22 * time.Hour)
			state(x, api.StateOpen)
			s.liftRule("", rule)
			s.advance(10*time.Minute - time.Millisecond)
			state(x, api.StateOpen)
			if name != "submission" {
				state(y, api.StateOpen)
			}
			held := s.reserve("", request(`SelectOnly("t", "a", OldestFirst)`, 1)).Reservations
			if len(held) != 1 || held[0].Submission != x.ID {
				t.Fatalf("got %+v, want a chunk of the one that was paused", held)
			}
			s.wantStatuses(s.completing("", held...), 1, api.StatusOK)
			s.advance(time.Millisecond)
			state(x, api.StateExpired)
			state(y, api.StateExpired)
		})
	}
}

// Without an end in sight the grace survives a restart, too, and a second rule that covers the submission keeps it
// alive.
func TestGraceAfterAPauseIsDurable(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.queue("", api.QueueSettingsInput{ReservationTimeoutMS: new(int64(600_000))})
	n := submission(1, "t", "a")
	n.DeadDeadline = api.At(s.now().Add(time.Minute))
	x := s.insert("", n)
	first, second := s.setRule("", api.ActionPause, onTenant("a")), s.setRule("", api.ActionPause, onQueue())
	s.advance(time.Hour)
	s.liftRule("", first)
	s.advance(time.Hour)
	s.liftRule("", second)
	s.reopen(9 * time.Minute)
	if got := s.submission(x.ID).State; got != api.StateOpen {
		t.Errorf("nine minutes after the last rule: %s, want open", got)
	}
	s.advance(time.Minute)
	if got := s.submission(x.ID).State; got != api.StateExpired {
		t.Errorf("ten minutes after the last rule: %s, want expired", got)
	}
}

// A rule that revokes takes reservations back without counting an attempt. Their holder learns of it when it extends,
// and its completions still count.
func TestRuleRevokes(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.insert("", submission(4, "t", "a"))
	s.insert("", submission(1, "t", "b"))
	held := s.reserve("", request("OldestFirst", 5)).Reservations
	rule := s.setRule("", api.ActionBlock, onTenant("a"), func(r *api.RuleRequest) { r.Effects.Revoke = true })
	s.wantCounts("", "reserved 1, blocked 4")
	results := s.results("", "extend", api.ExtendRequest{Items: []api.ExtendItem{{Token: held[0].Token}, {Token: held[4].Token}}})
	if results[0].Status != api.StatusLost || results[0].Code != "reservation_revoked" || !strings.Contains(results[0].Detail, "unpaid") || results[1].Status != api.StatusOK {
		t.Errorf("extending: got %+v, want the first revoked with the reason, and the other extended", results)
	}
	s.wantStatuses(s.completing("", held[1]), 1, api.StatusOK)
	s.wantCounts("", "reserved 1, blocked 3, done 1")
	s.liftRule("", rule)
	again := s.reserve("", request(`SelectOnly("t", "a", Random)`, 5)).Reservations
	if len(again) != 3 {
		t.Fatalf("got %d chunks, want the 3 that are left", len(again))
	}
	for _, r := range again {
		if r.Attempt != 1 {
			t.Errorf("chunk %s is at attempt %d, want 1", chunk(&r), r.Attempt)
		}
	}
	s.wantStatuses(s.extending("", time.Minute, held[0]), 1, api.StatusLost) // another consumer holds it now
}

// 105. A queue that is set inactive hands out nothing from then on, also to those who wait, and goes on when it is active again: a pause
// of the whole queue. Consumers do not poll: one that waits is not answered before.
//
//quern:overlapping
func TestBehaviour105InactiveQueue(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.queue("other", api.QueueSettingsInput{})
	s.insert("", submission(6, "t", "a"))
	s.insert("other", submission(1, "t", "a"))
	held := s.reserve("", request("Random", 2)).Reservations
	rule := s.setRule("", api.ActionPause, onQueue())
	waiting := s.reserving(t.Context(), "", request("Random", 2))
	before := s.statsOf("").ReservedTotal
	s.insert("", submission(3, "t", "b"))
	s.wantStatuses(s.releasing("", held[0]), 1, api.StatusOK)
	s.advance(time.Hour) // expired chunks come back, and stay here
	s.wantCounts("", "reserved 1, paused 8")
	if got := s.statsOf(""); got.ReservedTotal != before || got.ConsumersWaiting != 1 || got.OldestReadySeconds != 0 {
		t.Errorf("while it is inactive: got %+v, want nothing handed out, one who waits, and nothing ready", got)
	}
	if got := s.reserveAll("other", "Random"); len(got) != 1 {
		t.Errorf("the other queue gave %d chunks, want 1", len(got))
	}
	s.liftRule("", rule)
	if got := (<-waiting).Reservations; len(got) != 2 {
		t.Errorf("who waited got %d chunks, want 2", len(got))
	}
	s.wantCounts("", "ready 6, reserved 3")
}

// The dashboard's stream lists the rules, those of the whole queue first, and the metrics say how much they cover.
func TestRulesAreShown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert(`{"meta":{"t":"a"},"chunks":{"count":3,"template":"x"}}`)
	f.insert(`{"meta":{"t":"b"},"chunks":{"count":4,"template":"x"}}`)
	for i := range 25 {
		f.do("POST", "/v1/queues/default/rules", fmt.Sprintf(`{"action":"pause","match":{"meta":{"t":"x%d"}}}`, i), 201, nil)
	}
	f.do("POST", "/v1/queues/default/rules", `{"action":"pause","match":{"queue":true},"reason":"all hands"}`, 201, nil)
	f.do("POST", "/v1/queues/default/rules", `{"action":"block","match":{"meta":{"t":"a"}},"reason":"why not"}`, 201, nil)
	s := f.subscribe("?topics=stats", "")
	frame, _ := until(s, api.EventStats, func(x api.StatsFrame) bool { return x.RulesTotal == 27 })
	if len(frame.Rules) != 20 || frame.Rules[0].Reason != "all hands" || frame.Rules[1].Reason != "why not" {
		text, err := json.Marshal(frame.Rules)
		t.Errorf("the frame has %d rules: %s (%v); want 20, that of the queue, then the newest", len(frame.Rules), text, err)
	}
	if frame.Stats.Blocked != 3 || frame.Stats.Paused != 4 || frame.Stats.Ready != 0 || frame.Stats.OperationsReady != 0 {
		t.Errorf("the frame counts %+v, want 3 blocked and 4 paused chunks", frame.Stats)
	}
	metrics := string(f.send(call{method: "GET", path: "/metrics"}).body)
	for _, want := range []string{`quern_chunks{queue="default",state="paused"} 4`, `quern_chunks{queue="default",state="blocked"} 3`, `quern_chunks{queue="default",state="ready"} 0`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
}

// BenchmarkPausedHead is a reserve and a release over HTTP by OldestFirst, behind 10^6 paused chunks in 1,000 submissions and without
// them, in turns.
func BenchmarkPausedHead(b *testing.B) {
	s := newScene(b)
	pausedHead(s, 1000, 1000)
	free := newScene(b)
	for i := range 100 {
		free.insert("", submission(10_000, "t", "b", "mode", fmt.Sprint(i%3)))
	}
	var took [2]time.Duration
	one := func(s *scene) time.Duration {
		began := time.Now()
		s.releasing("", s.take("OldestFirst", 1, 1)...)
		return time.Since(began)
	}
	one(s)
	one(free)
	for b.Loop() {
		took[0] += one(s)
		took[1] += one(free)
	}
	b.ReportMetric(float64(took[0].Microseconds())/float64(b.N), "paused-µs")
	b.ReportMetric(float64(took[1].Microseconds())/float64(b.N), "free-µs")
	b.ReportMetric(float64(took[0])/float64(took[1]), "ratio")
}
