package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// Helpers of these tests: the key of a tenant is "t", as everywhere here.

func onQueue() api.RuleMatch { return api.RuleMatch{Queue: true} }

func onTenant(name string) api.RuleMatch {
	return api.RuleMatch{Meta: api.Meta{"t": api.Text(name)}}
}

// setRule sets one; a block gets a reason.
func (s *scene) setRule(queue, action string, match api.RuleMatch, change ...func(*api.RuleRequest)) (got api.Rule) {
	s.Helper()
	r := api.RuleRequest{Action: action, Match: match, Actor: "eve"}
	if action == api.ActionBlock {
		r.Reason = "unpaid"
	}
	for _, c := range change {
		c(&r)
	}
	a := s.call("POST", queuePath(queue, "/rules"), r)
	if a.status != http.StatusOK && a.status != http.StatusCreated {
		s.Fatalf("setting %+v: %d %s", r, a.status, a.body)
	}
	a.decode(s, &got)
	return got
}

func (s *scene) liftRule(queue string, r api.Rule) {
	s.Helper()
	s.do("DELETE", queuePath(queue, "/rules/"+r.ID), nil, http.StatusNoContent, nil)
}

// rules lists the rules, as "action match".
func (s *scene) rules(queue string) (got []string) {
	s.Helper()
	var page api.Page[api.Rule]
	s.do("GET", queuePath(queue, "/rules"), nil, http.StatusOK, &page)
	for _, r := range page.Items {
		what := "queue"
		for key, value := range r.Match.Meta {
			what = key + "=" + value.String()
		}
		if r.Match.Submission != "" {
			what = "submission"
		}
		got = append(got, r.Action+" "+what)
	}
	return got
}

func (s *scene) wantRules(queue string, want ...string) {
	s.Helper()
	if got := s.rules(queue); !slices.Equal(got, want) {
		s.Errorf("rules: got %q, want %q", got, want)
	}
}

// wantNone says that a reserve gets nothing, for this reason.
func (s *scene) wantNone(queue, strategy, reason string) {
	s.Helper()
	if got := s.reserveNone(queue, strategy); got != reason {
		s.Errorf("%s: empty because of %s, want %s", strategy, got, reason)
	}
}

// 50. A pause of a value keeps its chunks from being handed out; those already held may be completed.
func TestBehaviour050PauseStopsHandingOut(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.insert("", submission(10, "t", "a"))
	held := s.reserve("", request("OldestFirst", 3)).Reservations
	s.setRule("", api.ActionPause, onTenant("a"))
	for _, strategy := range []string{"Random", "OldestFirst", "NewestFirst", "CustomPriority", `MaxSimultaneous("t", 100, Random)`, `Fair("t", OldestFirst)`, `PreferDistinct("t", 1, Random)`} {
		s.wantNone("", strategy, api.ReasonPaused)
	}
	s.wantCounts("", "reserved 3, paused 7")
	s.wantStatuses(s.completing("", held...), 3, api.StatusOK)
	s.wantCounts("", "paused 7, done 3")
}

// 51. Inserts of paused work succeed, and the count rises.
func TestBehaviour051InsertsGoOn(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.setRule("", api.ActionPause, onTenant("a")) // before a submission has the value
	s.insert("", submission(2, "t", "a"))
	s.insert("", submission(3, "t", "a", "other", "x"))
	s.insert("", submission(4, "t", "b"))
	s.wantCounts("", "ready 4, paused 5")
	var value api.ValueCount
	s.do("GET", queuePath("", "/meta-keys/t/values/a"), nil, http.StatusOK, &value)
	if value.Ready != 0 || value.Paused != 5 || value.Submissions != 2 {
		t.Errorf("the value: got %+v, want 5 paused chunks of 2 submissions", value)
	}
	if got := len(s.reserveAll("", "Random")); got != 4 {
		t.Errorf("got %d chunks, want the 4 of b", got)
	}
}

// 52. When the pause is lifted, consumers that wait get the work without asking again.
//
//quern:overlapping
func TestBehaviour052LiftingWakes(t *testing.T) {
	t.Parallel()
	for name, match := range map[string]func(api.Submission) api.RuleMatch{
		"queue":      func(api.Submission) api.RuleMatch { return onQueue() },
		"value":      func(api.Submission) api.RuleMatch { return onTenant("a") },
		"submission": func(x api.Submission) api.RuleMatch { return api.RuleMatch{Submission: x.ID} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			x := s.insert("", submission(5, "t", "a"))
			rule := s.setRule("", api.ActionPause, match(x))
			s.wantNone("", "OldestFirst", api.ReasonPaused)
			waiting := s.reserving(t.Context(), "", request("OldestFirst", 2))
			fair := s.reserving(t.Context(), "", request(`Fair("t", Random)`, 3))
			s.liftRule("", rule)
			if a, b := len((<-waiting).Reservations), len((<-fair).Reservations); a != 2 || b != 3 {
				t.Errorf("those who waited got %d and %d chunks, want 2 and 3", a, b)
			}
		})
	}
}

// 53. 5,000 chunks are paused; once it is lifted, all 5,000 are handed out, each once.
func TestBehaviour053AllComeBack(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for range 50 {
		s.insert("", submission(100, "t", "a"))
	}
	rule := s.setRule("", api.ActionPause, onTenant("a"))
	s.wantNone("", "Random", api.ReasonPaused)
	s.wantCounts("", "paused 5000")
	s.liftRule("", rule)
	s.wantCounts("", "ready 5000")
	seen := map[string]int{}
	list := s.reserveAll("", "Random")
	for i := range list {
		seen[chunk(&list[i])]++
	}
	if len(list) != 5000 || len(seen) != 5000 {
		t.Errorf("got %d chunks, %d of them different; want 5000", len(list), len(seen))
	}
}

// 54 to 57. Pause and block are set and lifted by themselves, in every order; the state shows the block while there is one.
func TestBehaviour054PauseAndBlockAreIndependent(t *testing.T) {
	t.Parallel()
	for number, steps := range map[int][3]string{
		54: {"pause block", "pause", "blocked 4"},
		55: {"pause block", "block", "paused 4"},
		56: {"block pause", "pause", "blocked 4"},
		57: {"block pause", "block", "paused 4"},
	} {
		t.Run(fmt.Sprint(number), func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.insert("", submission(4, "t", "a"))
			var first, second string
			fmt.Sscan(steps[0], &first, &second)
			set := map[string]api.Rule{}
			for _, action := range []string{first, second} {
				set[action] = s.setRule("", action, onTenant("a"))
			}
			s.wantCounts("", "blocked 4")
			s.liftRule("", set[steps[1]])
			s.wantCounts("", steps[2])
			s.wantNone("", "Random", api.ReasonPaused)
			for _, r := range set {
				s.liftRule("", r) // one of them for the second time
			}
			s.wantCounts("", "ready 4")
			s.wantRules("")
		})
	}
}

// 59. A pause that is set twice is one rule, and the answer says so; lifting twice is no error.
func TestBehaviour059SetTwiceIsOneRule(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	body := api.RuleRequest{Action: api.ActionPause, Match: onTenant("a"), Reason: "maintenance", Actor: "eve"}
	var first, second, third api.Rule
	got := s.do("POST", queuePath("", "/rules"), body, http.StatusCreated, &first)
	if want := queuePath("", "/rules/"+first.ID); got.header.Get("Location") != want {
		t.Errorf("Location: got %q, want %q", got.header.Get("Location"), want)
	}
	s.advance(time.Minute)
	body.Actor = "adam"
	s.do("POST", queuePath("", "/rules"), body, http.StatusOK, &second)
	if second.ID != first.ID || second.Actor != "eve" || !second.Since.Equal(first.Since.Time) {
		t.Errorf("the second answer is %+v, want the rule of the first, %+v", second, first)
	}
	body.Reason = "longer than planned" // another wish changes the one rule
	s.do("POST", queuePath("", "/rules"), body, http.StatusOK, &third)
	if third.ID != first.ID || third.Reason != body.Reason || third.Actor != "adam" || !third.Since.Equal(first.Since.Time) {
		t.Errorf("the third answer is %+v, want the first rule with the new reason", third)
	}
	s.wantRules("", "pause t=a")
	s.liftRule("", first)
	s.liftRule("", first)
	s.wantRules("")
	if p := s.refused("DELETE", queuePath("", "/rules/77"), nil, http.StatusNotFound); p.Code != "unknown_rule" {
		t.Errorf("lifting what never was: %s, want unknown_rule", p.Code)
	}
	s.refused("GET", queuePath("", "/rules/"+first.ID), nil, http.StatusNotFound)
	if again := s.setRule("", api.ActionPause, onTenant("a")); again.ID == first.ID {
		t.Errorf("the id %s was given a second time", again.ID)
	}
}

// 60. Pausing and lifting a hundred times in parallel with consumers: every chunk is handed out exactly once, at its first try.
//
//quern:overlapping
func TestBehaviour060FlappingCostsNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	const chunks = 600
	for i := range 6 {
		s.insert("", submission(chunks/6, "t", fmt.Sprint("t", i%3)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	flapped := make(chan error, 4)
	for worker := range 4 {
		go func() {
			var err error
			for i := 0; i < 100/4 && err == nil; i++ {
				var rule api.Rule
				match := onTenant(fmt.Sprint("t", i%3))
				if worker == 0 {
					match = onQueue()
				}
				if err = s.ask(ctx, "POST", queuePath("", "/rules"), api.RuleRequest{Action: api.ActionPause, Match: match}, &rule); err == nil {
					err = s.ask(ctx, "DELETE", queuePath("", "/rules/"+rule.ID), nil, nil)
				}
			}
			flapped <- err
		}()
	}
	seen := map[string]int{}
	take := func() int {
		list := s.reserve("", request("Random", 7)).Reservations
		for i := range list {
			if seen[chunk(&list[i])]++; list[i].Attempt != 1 {
				t.Errorf("chunk %s is at attempt %d, want 1", chunk(&list[i]), list[i].Attempt)
			}
		}
		if len(list) > 0 {
			s.wantStatuses(s.completing("", list...), len(list), api.StatusOK)
		}
		return len(list)
	}
	for ended := 0; ended < 4; {
		select {
		case err := <-flapped:
			if ended++; err != nil {
				t.Fatal(err)
			}
		default:
			take()
		}
	}
	for take() > 0 {
	}
	for c, n := range seen {
		if n != 1 {
			t.Errorf("chunk %s was handed out %d times", c, n)
		}
	}
	if len(seen) != chunks {
		t.Errorf("%d chunks were handed out, want %d", len(seen), chunks)
	}
	s.wantCounts("", "")
	s.wantRules("")
}

// 61. Lifting where there is no work is no error.
func TestBehaviour061LiftWithoutWork(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.liftRule("", s.setRule("", api.ActionPause, onTenant("absent")))
	s.liftRule("", s.setRule("", api.ActionBlock, onQueue()))
	s.wantRules("")
	s.wantNone("", "Random", api.ReasonNothing)
}

// 62. After a restart a rule holds at the first reserve, whether it comes from the journal or from the store.
func TestBehaviour062RulesSurviveARestart(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	x := s.insert("", submission(2, "t", "a"))
	y := s.insert("", submission(3, "t", "b"))
	s.insert("", submission(4, "t", "c"))
	s.setRule("", api.ActionPause, onTenant("a"))
	s.setRule("", api.ActionBlock, api.RuleMatch{Submission: y.ID})
	s.restart() // and nothing but a reserve comes next
	if got := s.reserveAll("", "OldestFirst"); len(got) != 4 || tenant(&got[0]) != "c" {
		t.Errorf("after the restart %d chunks were handed out, want the 4 of c", len(got))
	}
	s.wantCounts("", "reserved 4, paused 2, blocked 3")
	s.wantRules("", "pause t=a", "block submission")
	s.setRule("", api.ActionPause, onQueue())
	s.kill()
	s.wantNone("", "Random", api.ReasonPaused)
	s.wantCounts("", "paused 6, blocked 3")
	if got := s.submission(x.ID); got.Paused != 2 || got.Ready != 0 {
		t.Errorf("the submission says %d ready and %d paused, want 0 and 2", got.Ready, got.Paused)
	}
}

// 63. A pause with an end ends by itself, also while the server is down.
//
//quern:overlapping
func TestBehaviour063UntilEnds(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.insert("", submission(3, "t", "a"))
	soon := func(r *api.RuleRequest) { r.Until = api.At(s.now().Add(10 * time.Minute)) }
	s.setRule("", api.ActionPause, onTenant("a"), soon)
	waiting := s.reserving(t.Context(), "", request("Random", 1))
	s.advance(10*time.Minute - time.Millisecond)
	s.wantNone("", "Random", api.ReasonPaused)
	s.wantRules("", "pause t=a")
	s.advance(time.Millisecond)
	if got := (<-waiting).Reservations; len(got) != 1 {
		t.Errorf("who waited got %d chunks, want 1", len(got))
	}
	s.wantRules("")
	s.wantCounts("", "ready 2, reserved 1")
	s.setRule("", api.ActionBlock, onQueue(), soon)
	s.reopen(time.Hour)
	s.wantRules("")
	s.wantCounts("", "ready 2, reserved 1")
	past := api.RuleRequest{Action: api.ActionPause, Match: onQueue(), Until: api.At(s.now())}
	if p := s.refused("POST", queuePath("", "/rules"), past, http.StatusUnprocessableEntity); len(p.Errors) != 1 || p.Errors[0].Pointer != "/until" {
		t.Errorf("an end that is not ahead: got %+v, want /until pointed at", p.Errors)
	}
}

// 65. A block with the insert effect refuses inserts with 423 and the reason; others go on, and so do they once it is lifted.
func TestBehaviour065InsertsAreRefused(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	refuse := func(r *api.RuleRequest) { r.Effects.Insert = true }
	rule := s.setRule("", api.ActionBlock, onQueue(), refuse)
	p := s.refused("POST", insertPath, submission(1, "t", "a"), http.StatusLocked)
	if want := `Inserts are refused by a block of the queue (rule 1, set by "eve"): unpaid.`; p.Code != "refused_by_rule" || p.Detail != want {
		t.Errorf("got %s: %s; want refused_by_rule: %s", p.Code, p.Detail, want)
	}
	s.liftRule("", rule)
	s.setRule("", api.ActionPause, onTenant("a"), refuse)
	s.refused("POST", insertPath, submission(1, "t", "a"), http.StatusLocked)
	s.insert("", submission(1, "t", "b"))
	s.wantCounts("", "ready 1")
}

// Each rule that holds says how many chunks it keeps, also those that another rule keeps too.
func TestRulesSayWhatTheyKeep(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	insert := func(tenant string, n int) string {
		return s.insert("default", api.NewSubmission{Meta: api.Meta{"t": api.Text(tenant)}, Chunks: api.Chunks{Count: uint32(n), Template: "x"}}).ID
	}
	one := insert("a", 30)
	insert("b", 50)
	s.setRule("default", api.ActionPause, onTenant("a"))
	s.setRule("default", api.ActionPause, api.RuleMatch{Submission: one})
	s.setRule("default", api.ActionPause, onTenant("absent"))
	kept := func() (got []uint64) {
		var page api.Page[api.Rule]
		s.do("GET", queuePath("default", "/rules"), nil, http.StatusOK, &page)
		for _, r := range page.Items {
			got = append(got, r.Chunks)
		}
		return got
	}
	if got, want := kept(), []uint64{30, 30, 0}; !slices.Equal(got, want) {
		t.Errorf("chunks kept by each rule: got %v, want %v", got, want)
	}
	s.setRule("default", api.ActionBlock, onQueue())
	if got, want := kept(), []uint64{30, 30, 0, 80}; !slices.Equal(got, want) {
		t.Errorf("chunks kept by each rule, and the queue blocked: got %v, want %v", got, want)
	}
}
