package web

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// lifecycle asks how the queue's life-cycle worker is doing.
func (s *scene) lifecycle(queue string) (got api.Lifecycle) {
	s.Helper()
	s.do("GET", queuePath(queue, "/lifecycle"), nil, http.StatusOK, &got)
	return got
}

// three inserts A, B and C, of one chunk each, oldest first, and names them by their ids.
func (s *scene) three(queue string) map[string]string {
	s.Helper()
	names := map[string]string{}
	for _, name := range []string{"A", "B", "C"} {
		names[s.insert(queue, submission(1)).ID] = name
	}
	return names
}

// order reserves one chunk after the other, oldest first, and returns the names of their submissions.
func (s *scene) order(queue string, names map[string]string) (got []string) {
	s.Helper()
	for {
		answer := s.reserve(queue, briefly("OldestFirst", 1))
		if len(answer.Reservations) == 0 {
			return got
		}
		got = append(got, names[answer.Reservations[0].Submission])
	}
}

// briefly asks for chunks for ten minutes.
func briefly(strategy string, most int) api.ReserveRequest {
	r := request(strategy, most)
	r.TimeoutMS = (10 * time.Minute).Milliseconds()
	return r
}

func TestBehaviour009RunAtNearNowIsNow(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for _, ahead := range []time.Duration{50 * time.Millisecond, 0, -time.Hour} {
		n := submission(1)
		n.RunAt = api.At(s.now().Add(ahead))
		if got := s.insert("", n); got.Ready != 1 || got.Waiting != 0 {
			t.Errorf("run_at %s ahead: %d ready, %d waiting; want 1 and 0", ahead, got.Ready, got.Waiting)
		}
	}
}

func TestBehaviour010RunAtIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	n := submission(2)
	n.RunAt = api.At(s.now().Add(time.Minute))
	sub := s.insert("", n)
	s.advance(59 * time.Second)
	if reason := s.reserveNone("", "OldestFirst"); reason != "not_yet_due" {
		t.Errorf("a second before: reason %s, want not_yet_due", reason)
	}
	var list api.Page[api.Chunk]
	s.do("GET", "/v1/submissions/"+sub.ID+"/chunks?state=waiting", nil, http.StatusOK, &list)
	if got := s.statsOf(""); got.Ready != 0 || got.Waiting != 2 || len(list.Items) != 2 {
		t.Errorf("a second before: %d ready, %d waiting, %d in the list of waiting; want 0, 2, 2", got.Ready, got.Waiting, len(list.Items))
	}
	s.advance(time.Second)
	if got := s.reserveAll("", "OldestFirst"); len(got) != 2 {
		t.Errorf("on time: %d chunks, want 2", len(got))
	}
}

func TestBehaviour011EveryRunAtIsKept(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for i := range 2 {
		n := submission(1)
		n.RunAt = api.At(s.now().Add(time.Duration(i+1) * time.Second))
		s.insert("", n)
	}
	for i := range 2 {
		s.advance(time.Second)
		if got := s.reserveAll("", "OldestFirst"); len(got) != 1 {
			t.Errorf("after %d s: %d chunks, want 1", i+1, len(got))
		}
	}
}

func TestBehaviour012RunAtSurvivesARestart(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	n := submission(1)
	n.RunAt = api.At(s.now().Add(time.Minute))
	s.insert("", n)
	s.reopen(10 * time.Second)
	s.reserveNone("", "OldestFirst")
	s.advance(50 * time.Second)
	if got := s.reserveAll("", "OldestFirst"); len(got) != 1 {
		t.Errorf("on time: %d chunks, want 1", len(got))
	}
}

func TestBehaviour013RunAtThatPassedWhileDown(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	n := submission(1)
	n.RunAt = api.At(s.now().Add(time.Minute))
	s.insert("", n)
	s.reopen(time.Hour)
	if got := s.reserveAll("", "OldestFirst"); len(got) != 1 {
		t.Errorf("after the start: %d chunks, want 1", len(got))
	}
}

//quern:overlapping
func TestBehaviour014EqualRunAtInOrderOfInsertion(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	at := api.At(s.now().Add(time.Minute))
	var want, got []string
	for range 20 {
		n := submission(1)
		n.RunAt = at
		want = append(want, s.insert("", n).ID)
	}
	answers := s.reserving(t.Context(), "", briefly("OldestFirst", 1))
	s.advance(time.Minute)
	first := <-answers
	for _, r := range append(first.Reservations, s.reserveAll("", "OldestFirst")...) {
		got = append(got, r.Submission)
	}
	if !slices.Equal(got, want) {
		t.Errorf("handed out %v, want the order of insertion %v", got, want)
	}
}

func TestBehaviour015DeadDeadlineComesAfterRunAt(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	n := submission(1)
	n.RunAt, n.DeadDeadline = api.At(s.now().Add(time.Hour)), api.At(s.now().Add(time.Minute))
	s.refused("POST", queuePath("", "/submissions"), n, http.StatusUnprocessableEntity)
	n.DeadDeadline = api.At(s.now().Add(2 * time.Hour))
	sub := s.insert("", n)
	s.advance(time.Hour + time.Minute)
	held := s.reserveAll("", "OldestFirst")
	if len(held) != 1 {
		t.Fatalf("after its run_at: %d chunks, want 1", len(held))
	}
	s.releasing("", held...)
	s.advance(time.Hour)
	if got := s.submission(sub.ID); got.State != "expired" {
		t.Errorf("after its dead_deadline: %s, want expired", got.State)
	}
}

func TestBehaviour016ExpiredIsOfferedAgain(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	sub := s.insert("", submission(1))
	first := s.reserve("", briefly("OldestFirst", 1)).Reservations[0]
	s.advance(10 * time.Minute) // the deadline
	s.advance(time.Second)      // the back-off
	second := s.reserve("", briefly("OldestFirst", 1)).Reservations
	if len(second) != 1 || second[0].Attempt != 2 || second[0].Submission != sub.ID {
		t.Fatalf("after the deadline: %+v, want the chunk's second try", second)
	}
	s.wantStatuses(s.extending("", time.Minute, first), 1, "lost")
	s.wantStatuses(s.failing("", "late", false, first), 1, "lost")
	s.wantStatuses(s.completing("", second[0]), 1, "ok")
}

func TestBehaviour017TailPutsTheExpiredBehind(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.queue("q", api.QueueSettingsInput{Requeue: new("tail"), ExpiryBackoff: new(api.Backoff{})})
	names := s.three("q")
	if got := s.reserve("q", briefly("OldestFirst", 1)).Reservations; names[got[0].Submission] != "A" {
		t.Fatalf("first: %s, want A", names[got[0].Submission])
	}
	s.advance(10 * time.Minute)
	s.advance(time.Millisecond)
	d := s.insert("q", submission(1)) // after A came back: behind it
	names[d.ID] = "D"
	if got, want := s.order("q", names), []string{"B", "C", "A", "D"}; !slices.Equal(got, want) {
		t.Errorf("handed out %v, want %v", got, want)
	}
}

func TestBehaviour018TailPutsTheFailedBehind(t *testing.T) {
	t.Parallel()
	for requeue, want := range map[string][]string{"tail": {"B", "C", "A"}, "head": {"A", "B", "C"}} {
		s := newScene(t)
		s.queue("q", api.QueueSettingsInput{Requeue: &requeue, RetryBackoff: new(api.Backoff{})})
		names := s.three("q")
		held := s.reserve("q", briefly("OldestFirst", 1)).Reservations
		s.wantStatuses(s.failing("q", "again", false, held...), 1, "ok")
		s.advance(time.Millisecond)
		if got := s.order("q", names); !slices.Equal(got, want) {
			t.Errorf("requeue %s: handed out %v, want %v", requeue, got, want)
		}
	}
}

func TestBehaviour019ABurstOfExpiriesLeavesSlotsToFreshWork(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	const burst, slots = 1000, 100
	old := s.insert("", submission(burst))
	for held := 0; held < burst; {
		held += len(s.reserve("", briefly("OldestFirst", 1000)).Reservations)
	}
	s.insert("", submission(burst))
	s.advance(11 * time.Minute)
	if got := s.submission(old.ID); got.Reserved != 0 || got.Waiting+got.Ready != burst {
		t.Fatalf("after the burst: %d reserved, %d waiting, %d ready; want all %d waiting or ready", got.Reserved, got.Waiting, got.Ready, burst)
	}
	var held []api.Reservation
	suspects := func() (n int) {
		for i := range held {
			if held[i].Submission == old.ID {
				n++
			}
		}
		return n
	}
	most := 0
	for round := 0; s.submission(old.ID).Done < burst/2; round++ {
		if round == 400 {
			t.Fatalf("after %d rounds %d of the burst are done: they starve", round, s.submission(old.ID).Done)
		}
		for len(held) < slots {
			got := s.reserve("", briefly("OldestFirst", 1)).Reservations
			if len(got) == 0 {
				break
			}
			held = append(held, got...)
		}
		n := suspects()
		if most = max(most, n); n > slots*3/10 {
			t.Fatalf("round %d: %d suspects of %d slots are held beside fresh work, at most %d are allowed; %+v", round, n, slots, slots*3/10, s.lifecycle("").Suspects)
		}
		s.wantStatuses(s.completing("", held[:10]...), 10, "ok") // the oldest ten, so that the kinds mix
		held = held[10:]
		if s.statsOf("").Ready < 3*slots {
			s.insert("", submission(burst)) // there is fresh work at any moment
		}
		s.advance(time.Second)
	}
	if most < slots/5 {
		t.Errorf("at most %d suspects were held at once: the quota of %d is not used", most, slots*3/10)
	}
}

func TestBehaviour020TwoExpiriesAreTheEnd(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.queue("q", api.QueueSettingsInput{MaxAttempts: new(uint16(2)), OnExhausted: new("dead_letter"), ExpiryBackoff: new(api.Backoff{})})
	sub := s.insert("q", submission(1))
	for range 2 {
		if got := s.reserve("q", briefly("OldestFirst", 1)).Reservations; len(got) != 1 {
			t.Fatalf("reserved %d, want 1", len(got))
		}
		s.advance(10 * time.Minute)
	}
	var list api.Page[api.DeadLetter]
	s.do("GET", queuePath("q", "/dead-letters"), nil, http.StatusOK, &list)
	if len(list.Items) != 1 || list.Items[0].Attempts != 2 || list.Items[0].Expiries != 2 || list.Items[0].Error == "" {
		t.Errorf("dead letters: %+v; want one of 2 attempts and 2 expiries, with a reason", list.Items)
	}
	s.reserveNone("q", "OldestFirst")
	if got := s.submission(sub.ID); got.Dead != 1 {
		t.Errorf("the submission has %d dead, want 1", got.Dead)
	}
}

func TestBehaviour021ALiveReservationIsNotJudged(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.queue("q", api.QueueSettingsInput{MaxAttempts: new(uint16(1)), ExpiryBackoff: new(api.Backoff{})})
	sub := s.insert("q", submission(2))
	held := s.reserve("q", briefly("OldestFirst", 1)).Reservations
	s.advance(9 * time.Minute)
	s.insert("q", submission(1))
	if got := s.submission(sub.ID); got.Reserved != 1 || got.State != "open" {
		t.Fatalf("on its last try: %+v, want it reserved", got)
	}
	s.wantStatuses(s.completing("q", held...), 1, "ok")
}

func TestBehaviour022TwoFailuresAreTheEnd(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.queue("q", api.QueueSettingsInput{MaxAttempts: new(uint16(2)), RetryBackoff: new(api.Backoff{})})
	sub := s.insert("q", submission(1))
	for try := range 2 {
		held := s.reserve("q", briefly("OldestFirst", 1)).Reservations
		s.wantStatuses(s.failing("q", fmt.Sprint("try ", try), false, held...), 1, "ok")
	}
	if got := s.submission(sub.ID); got.State != "completed_with_dead" || got.Dead != 1 {
		t.Errorf("after the second failure: %s with %d dead, want completed_with_dead with 1", got.State, got.Dead)
	}
}

func TestBehaviour023EndlessAttempts(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.queue("q", api.QueueSettingsInput{MaxAttempts: new(uint16(0)), MaxExpiries: new(uint8(2)), OnExhausted: new("fail_submission"),
		ExpiryBackoff: new(api.Backoff{}), RetryBackoff: new(api.Backoff{})})
	sub := s.insert("q", submission(1))
	for try := range 50 {
		held := s.reserve("q", briefly("OldestFirst", 1)).Reservations
		if len(held) != 1 || int(held[0].Attempt) != try+1 {
			t.Fatalf("try %d: %+v", try, held)
		}
		s.wantStatuses(s.failing("q", "no", false, held...), 1, "ok")
	}
	for expiry := range 2 {
		if got := s.submission(sub.ID); got.State != "open" {
			t.Fatalf("after %d expiries: %s, want open", expiry, got.State)
		}
		s.reserve("q", briefly("OldestFirst", 1))
		s.advance(10 * time.Minute)
	}
	if got := s.submission(sub.ID); got.State != "failed" {
		t.Errorf("after the last expiry: %s, want failed: max_expiries applies", got.State)
	}
	s.queue("q", api.QueueSettingsInput{MaxAttempts: new(uint16(0)), MaxExpiries: new(uint8(0)), ExpiryBackoff: new(api.Backoff{})})
	sub = s.insert("q", submission(1))
	for range 5 {
		s.reserve("q", briefly("OldestFirst", 1))
		s.advance(10 * time.Minute)
	}
	if got := s.submission(sub.ID); got.State != "open" {
		t.Errorf("with no limit at all: %s after 5 expiries, want open", got.State)
	}
}

func TestBehaviour024FatalIsTheEnd(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.queue("q", api.QueueSettingsInput{OnExhausted: new("dead_letter")})
	s.insert("q", submission(1))
	s.wantStatuses(s.failing("q", "poison", true, s.reserveAll("q", "OldestFirst")...), 1, "ok")
	var list api.Page[api.DeadLetter]
	s.do("GET", queuePath("q", "/dead-letters"), nil, http.StatusOK, &list)
	if len(list.Items) != 1 || list.Items[0].Error != "poison" || list.Items[0].Attempts != 1 {
		t.Errorf("dead letters: %+v; want one with the consumer's message", list.Items)
	}
}

func TestBehaviour028MaxAttemptsOfTheMoment(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	set := func(n uint16) {
		s.queue("q", api.QueueSettingsInput{MaxAttempts: &n, OnExhausted: new("fail_submission"), RetryBackoff: new(api.Backoff{})})
	}
	fail := func() { s.failing("q", "no", false, s.reserve("q", briefly("OldestFirst", 1)).Reservations...) }
	set(2)
	sub := s.insert("q", submission(1))
	fail()
	set(5)
	for range 3 {
		fail()
		if got := s.submission(sub.ID); got.State != "open" {
			t.Fatalf("raised to 5: %s, want open", got.State)
		}
	}
	set(2) // below what it has: applies when the next reservation ends
	held := s.reserve("q", briefly("OldestFirst", 1)).Reservations
	if got := s.submission(sub.ID); got.State != "open" || len(held) != 1 {
		t.Fatalf("lowered to 2: %s, %d reserved; want it still offered", got.State, len(held))
	}
	s.failing("q", "the end", false, held...)
	if got := s.submission(sub.ID); got.State != "failed" {
		t.Errorf("after the next failure: %s, want failed", got.State)
	}
}

func TestBehaviour099MaxAttemptsRaisedInFlight(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	set := func(n uint16) {
		s.queue("q", api.QueueSettingsInput{MaxAttempts: &n, OnExhausted: new("fail_submission"), RetryBackoff: new(api.Backoff{})})
	}
	set(1)
	sub := s.insert("q", submission(1))
	held := s.reserve("q", briefly("OldestFirst", 1)).Reservations
	set(9)
	for try := 1; try < 9; try++ {
		s.failing("q", "no", false, held...)
		held = s.reserve("q", briefly("OldestFirst", 1)).Reservations
		if len(held) != 1 {
			t.Fatalf("after %d tries of 9 nothing is offered: %+v", try, s.submission(sub.ID))
		}
	}
	s.failing("q", "no", false, held...)
	if got := s.submission(sub.ID); got.State != "failed" {
		t.Errorf("after 9 tries: %s, want failed", got.State)
	}
}

func TestBehaviour038RetryAfterIsKept(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	sub := s.insert("", submission(1))
	held := s.reserve("", briefly("OldestFirst", 1)).Reservations
	after := time.Hour.Milliseconds()
	s.results("", "fail", api.FailRequest{Items: []api.FailItem{{Token: held[0].Token, Error: "later", RetryAfterMS: &after}}})
	s.advance(59 * time.Minute)
	s.reopen(30 * time.Second)
	s.reserveNone("", "OldestFirst")
	if got := s.submission(sub.ID); got.Waiting != 1 {
		t.Errorf("half a minute before: %d waiting, want 1", got.Waiting)
	}
	s.advance(30 * time.Second)
	if got := s.reserve("", briefly("OldestFirst", 1)).Reservations; len(got) != 1 || got[0].Attempt != 2 {
		t.Errorf("an hour later: %+v, want the second try", got)
	}
}

// A chunk that is released with a delay is offered after it, also after a restart, and it is the same attempt.
func TestReleaseDelayIsKept(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	sub := s.insert("", submission(1))
	held := s.reserve("", briefly("OldestFirst", 1)).Reservations
	delayed := api.ReleaseRequest{Items: []api.ReleaseItem{{Token: held[0].Token, DelayMS: time.Hour.Milliseconds()}}}
	s.results("", "release", delayed)
	s.advance(59 * time.Minute)
	s.reopen(30 * time.Second)
	s.reserveNone("", "OldestFirst")
	if got := s.submission(sub.ID); got.Waiting != 1 {
		t.Errorf("half a minute before: %d waiting, want 1", got.Waiting)
	}
	s.advance(30 * time.Second)
	if got := s.reserve("", briefly("OldestFirst", 1)).Reservations; len(got) != 1 || got[0].Attempt != 1 {
		t.Errorf("an hour later: %+v, want the first attempt", got)
	}
}

func TestBehaviour039CountsAfterExpiries(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.insert("", submission(10))
	s.reserve("", briefly("OldestFirst", 10))
	s.advance(10 * time.Minute)
	if got := s.statsOf(""); got.Reserved != 0 || got.Waiting+got.Ready != 10 {
		t.Errorf("got %d reserved, %d waiting, %d ready; want 0, and 10 waiting or ready", got.Reserved, got.Waiting, got.Ready)
	}
}

func TestBehaviour094FailWaitsForTheBackoffOnly(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.queue("q", api.QueueSettingsInput{RetryBackoff: new(api.Backoff{BaseMS: 5000, Factor: 1, CapMS: 5000})})
	s.insert("q", submission(1))
	s.failing("q", "no", false, s.reserve("q", briefly("OldestFirst", 1)).Reservations...)
	s.advance(5001 * time.Millisecond)
	if got := s.reserve("q", briefly("OldestFirst", 1)).Reservations; len(got) != 1 {
		t.Errorf("after the back-off: %d chunks, want 1; the reservation would have lasted ten minutes", len(got))
	}
}

func TestBehaviour097ManyDueAtOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	const due = 5000
	sub := s.insert("", submission(due))
	after := time.Hour.Milliseconds()
	for held := s.reserve("", briefly("OldestFirst", 1000)).Reservations; len(held) > 0; held = s.reserve("", briefly("OldestFirst", 1000)).Reservations {
		var body api.FailRequest
		for i := range held {
			body.Items = append(body.Items, api.FailItem{Token: held[i].Token, RetryAfterMS: &after})
		}
		s.results("", "fail", body)
	}
	before := s.lifecycle("")
	s.advance(time.Hour)
	if got := s.submission(sub.ID); got.Ready != due {
		t.Fatalf("%d are ready, want %d", got.Ready, due)
	}
	if slices := s.lifecycle("").Slices - before.Slices; slices < due/500 || slices > due/500+1 {
		t.Errorf("%d were made ready in %d slices, want about %d of at most 500", due, slices, due/500)
	}
}

func TestBehaviour101CountsAreExact(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	subs := []api.Submission{s.insert("", submission(300)), s.insert("", submission(200))}
	check := func(when string) {
		t.Helper()
		want := map[string]uint64{}
		for _, sub := range subs {
			next := "?limit=1000"
			var page api.Page[api.Chunk]
			s.do("GET", "/v1/submissions/"+sub.ID+"/chunks"+next, nil, http.StatusOK, &page)
			for i := range page.Items {
				want[page.Items[i].State]++
			}
		}
		got := s.statsOf("")
		if got.Ready != want["ready"] || got.Waiting != want["waiting"] || got.Reserved != want["reserved"] || got.Done != want["done"] || got.Skipped != want["skipped"] {
			t.Errorf("%s: counted %d ready, %d waiting, %d reserved, %d done, %d skipped; there are %v", when, got.Ready, got.Waiting, got.Reserved, got.Done, got.Skipped, want)
		}
	}
	held := s.reserve("", briefly("Random", 200)).Reservations
	check("reserved")
	s.completing("", held[:50]...)
	s.failing("", "no", false, held[50:80]...)
	s.releasing("", held[80:90]...)
	check("some of each")
	s.advance(11 * time.Minute)
	check("expired")
	s.reserve("", briefly("OldestFirst", 100))
	s.reopen(time.Minute)
	check("restarted")
}

func TestBehaviour122CancelOfManyChunks(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	large := s.insert("", submission(1_000_000))
	other := s.insert("", submission(1))
	var held []api.Reservation
	for range 20 {
		held = append(held, s.reserve("", briefly("OldestFirst", 1000)).Reservations...)
	}
	s.completing("", held[:10]...)
	if got := s.cancel(large.ID); got.State != "cancelled" || got.Skipped != 999_990 || got.Done != 10 {
		t.Errorf("cancelled: %s, %d skipped, %d done; want 999,990 and 10", got.State, got.Skipped, got.Done)
	}
	if got := s.reserveAll("", "OldestFirst"); len(got) != 1 || got[0].Submission != other.ID {
		t.Errorf("after the answer: handed out %d, want only the other submission's chunk", len(got))
	}
	s.wantStatuses(s.completing("", held[10:20]...), 10, "gone")
	s.settle()
	if got := s.lifecycle(""); got.Degraded || slices.ContainsFunc(got.Kinds, func(k api.LifecycleKind) bool { return k.Kind == "sweep" && k.Pending > 0 }) {
		t.Errorf("after the sweep: %+v, want nothing pending", got)
	}
}
