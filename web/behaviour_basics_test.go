package web

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/sdk/api"
)

// The behaviour that every queue must have: waiting, order, limits, tokens, replays, bytes.

// A consumer that waits is answered by the insert.
//
//quern:overlapping
func TestBehaviour001WaitingReserveIsAnsweredByAnInsert(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	waiting := s.reserving(t.Context(), "", request("OldestFirst", 5))
	n := s.insert("", submission(1, "t", "a"))
	if got := (<-waiting).Reservations; len(got) != 1 || got[0].Submission != n.ID {
		t.Errorf("the consumer that waited has %+v, want the chunk of %s", got, n.ID)
	}
}

// A wait that ends is no error, and later chunks go to others.
//
//quern:overlapping
func TestBehaviour002WaitEndsWithNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	r := request("OldestFirst", 5)
	r.WaitMS = 300
	got := s.reserve("", r)
	if len(got.Reservations) != 0 || got.Reason == nil || *got.Reason != "nothing" {
		t.Fatalf("got %+v, want no chunk and the reason nothing", got)
	}
	s.wantCounts("", "")
	t.Run("003AndLeavesWhatComesAfterToOthers", func(t *testing.T) {
		s.insert("", submission(1, "t", "a"))
		s.wantCounts("", "ready 1")
		if got := s.reserveAll("", "OldestFirst"); len(got) != 1 {
			t.Errorf("got %d chunks, want the one that came after the wait", len(got))
		}
	})
}

// Consumers that wait at once get different chunks.
//
//quern:overlapping
func TestBehaviour004WaitingReservesShareWhatComes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name            string
		waiting, chunks int
	}{{"two", 2, 20}, {"005ThreeOfTenAndTwelveChunks", 3, 12}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			var waiting []<-chan api.ReserveResponse
			for range c.waiting {
				waiting = append(waiting, s.reserving(t.Context(), "", request("OldestFirst", 10)))
			}
			// As producers do that send one after the other: a consumer without work is served before another gets more.
			for range c.chunks {
				s.insert("", submission(1, "t", "a"))
			}
			seen, sum := map[string]bool{}, 0
			for _, w := range waiting {
				got := (<-w).Reservations
				if len(got) == 0 {
					t.Error("a consumer that waited got nothing")
				}
				for i := range got {
					if seen[chunk(&got[i])] {
						t.Errorf("chunk %s was handed out twice", chunk(&got[i]))
					}
					seen[chunk(&got[i])] = true
				}
				sum += len(got)
			}
			if left := len(s.reserveAll("", "OldestFirst")); sum+left != c.chunks {
				t.Errorf("%d chunks were handed out and %d are left, want %d in all", sum, left, c.chunks)
			}
		})
	}
}

func TestBehaviour006OldestFirstIsTheOrderOfInsertion(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	var want []string
	for range 10 {
		want = append(want, s.insert("", submission(1, "t", "a")).ID)
	}
	var got []string
	for range want {
		got = append(got, s.reserve("", request("OldestFirst", 1)).Reservations[0].Submission)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A value out of range is refused with the field and the limit.
func TestBehaviour007LimitsAreNamed(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for _, c := range []struct{ body, pointer, limit string }{
		{`{"max":0}`, "/max", "1000"},
		{`{"max":-1}`, "/max", "1000"},
		{`{"max":1001}`, "/max", "1000"},
		{`{"max":1,"wait_ms":-1}`, "/wait_ms", "60000"},
		{`{"max":1,"wait_ms":900000}`, "/wait_ms", "60000"},
		{`{"max":1,"timeout_ms":1}`, "/timeout_ms", "100"},
	} {
		p := s.refused("POST", reservePath, c.body, http.StatusUnprocessableEntity)
		if len(p.Errors) != 1 || p.Errors[0].Pointer != c.pointer || !strings.Contains(strings.ReplaceAll(p.Errors[0].Detail, ",", ""), c.limit) {
			t.Errorf("%s: got %+v, want a problem at %s that names %s", c.body, p, c.pointer, c.limit)
		}
	}
	t.Run("008AndNothingIsInserted", func(t *testing.T) {
		for _, c := range []struct{ body, pointer string }{
			{`{"chunks":{"inline":[` + strings.Repeat(`{"text":""},`, 100_000) + `{"text":""}]}}`, "/chunks/inline"},
			{`{"chunks":{"count":4294967296,"prefix":"x/"}}`, "/chunks/count"},
			{`{"chunks":{"count":0,"prefix":"x/"}}`, "/chunks/count"},
		} {
			p := s.refused("POST", insertPath, c.body, http.StatusUnprocessableEntity)
			if len(p.Errors) == 0 || p.Errors[0].Pointer != c.pointer {
				t.Errorf("%.60s: got %+v, want a problem at %s", c.body, p, c.pointer)
			}
		}
		if got := s.statsOf(""); got.SubmissionsOpen != 0 || got.Ready != 0 {
			t.Errorf("%d submissions and %d chunks are there, want none", got.SubmissionsOpen, got.Ready)
		}
	})
}

// A bad token fails only its own item. The other items are done.
func TestBehaviour034BadTokensSpoilNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.insert("", submission(2, "t", "a"))
	held := s.reserve("", request("OldestFirst", 2)).Reservations
	other := newScene(t) // a server with another key
	other.insert("", submission(1, "t", "a"))
	foreign := other.reserve("", request("OldestFirst", 1)).Reservations[0].Token
	got := s.results("", "complete", api.CompleteRequest{Items: []api.CompleteItem{{Token: held[0].Token}, {Token: foreign}, {Token: "rubbish"}, {Token: held[1].Token}}})
	if want := []string{api.StatusOK, api.StatusUnknown, api.StatusUnknown, api.StatusOK}; !slices.Equal(statuses(got), want) {
		t.Errorf("got %v, want %v", statuses(got), want)
	}
	if got[1].Code == "" || got[2].Detail == "" {
		t.Errorf("got %+v, want a code and words for what was wrong", got)
	}
	if state := s.submission(held[0].Submission).State; state != "completed" {
		t.Errorf("the submission is %s, want completed", state)
	}
}

func TestBehaviour035CompletingTwiceCountsOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.insert("", submission(3, "t", "a"))
	held := s.reserve("", request("OldestFirst", 1)).Reservations
	s.wantStatuses(s.completing("", held...), 1, api.StatusOK)
	s.wantStatuses(s.completing("", held...), 1, api.StatusAlready)
	s.wantCounts("", "ready 2, done 1")
	s.reopen(time.Minute)
	s.wantStatuses(s.completing("", held...), 1, api.StatusAlready)
	s.wantCounts("", "ready 2, done 1")
}

// Streams are bounded: one too many is refused at once, and one that ends makes room.
func TestBehaviour046OneTooManyIsRefused(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	var close []func() error
	t.Cleanup(func() {
		for _, end := range close {
			_ = end()
		}
	})
	open := func() (status int, retry string) {
		response, err := s.client.Get("http://" + s.address + "/v1/events?topics=stats")
		if err != nil {
			t.Fatal(err)
		}
		close = append(close, response.Body.Close)
		return response.StatusCode, response.Header.Get("Retry-After")
	}
	for n := range maxSubscribers {
		if status, _ := open(); status != http.StatusOK {
			t.Fatalf("stream %d: got %d", n, status)
		}
	}
	if status, retry := open(); status != http.StatusTooManyRequests || retry == "" {
		t.Fatalf("one more: got %d, Retry-After %q; want 429 and when to come again", status, retry)
	}
	s.insert("", submission(1, "t", "a")) // everybody else is served as before
	if err := close[0](); err != nil {
		t.Fatal(err)
	}
	for status := 0; status != http.StatusOK; status, _ = open() { // until the server has seen that the stream is gone
		if t.Context().Err() != nil {
			t.Fatal("a closed stream made no room")
		}
	}
}

// Work is done once, and its result is kept.
func TestBehaviour048WorkIsDoneOnceAndItsResultKept(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	n := s.insert("", submission(3, "t", "a"))
	t.Run("049CountsGoDownOneByOne", func(t *testing.T) {
		for left := 3; left > 0; left-- {
			if got := s.statsOf(""); got.Ready != uint64(left) {
				t.Errorf("%d are ready, want %d", got.Ready, left)
			}
			held := s.reserve("", request("OldestFirst", 1)).Reservations
			done := s.results("", "complete", api.CompleteRequest{Items: []api.CompleteItem{{Token: held[0].Token, Output: api.Bytes(fmt.Sprint("result ", held[0].Index))}}})
			s.wantStatuses(statuses(done), 1, api.StatusOK)
		}
	})
	if reason := s.reserveNone("", "Random"); reason != "nothing" {
		t.Errorf("reason: got %q, want nothing", reason)
	}
	s.reopen(time.Hour)
	answer := s.do("GET", "/v1/submissions/"+n.ID+"/outputs", nil, http.StatusOK, nil)
	if lines := bytes.Count(answer.body, []byte("\n")); lines != 3 || !bytes.Contains(answer.body, []byte("result 2")) {
		t.Errorf("outputs: got %s, want 3 lines", answer.body)
	}
}

//quern:overlapping
func TestBehaviour071OneOfManyGetsTheChunk(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for range 50 {
		s.insert("", submission(1, "t", "a"))
		var group sync.WaitGroup
		got := make([]int, 8)
		for i := range got {
			group.Go(func() {
				var answer api.ReserveResponse
				if err := s.ask(t.Context(), "POST", reservePath, request("Random", 1), &answer); err != nil {
					t.Error(err)
				}
				got[i] = len(answer.Reservations)
			})
		}
		group.Wait()
		sum := 0
		for _, n := range got {
			sum += n
		}
		if sum != 1 {
			t.Fatalf("%v: %d consumers have the one chunk", got, sum)
		}
	}
}

// No request has to be repeated after a crash: acknowledged work is there.
//
//quern:overlapping
func TestBehaviour073WorkIsFoundWithoutBeingSentAgain(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	n := s.insert("", submission(2, "t", "a"))
	s.reopen(0)
	waiting := s.reserving(t.Context(), "", request(`SelectOnly("t", "b", Random)`, 1))
	if got := s.reserveAll("", "Random"); len(got) != 2 || got[0].Submission != n.ID {
		t.Errorf("got %d chunks, want both", len(got))
	}
	s.insert("", submission(1, "t", "b"))
	if got := (<-waiting).Reservations; len(got) != 1 {
		t.Errorf("the consumer that waited has %d chunks, want 1", len(got))
	}
}

// Times far away hold across restarts, for a submission and for a retry.
func TestBehaviour075LongDelaysHoldAcrossRestarts(t *testing.T) {
	t.Parallel()
	const month = 30 * 24 * time.Hour
	s := newScene(t)
	late := submission(1, "t", "late")
	late.RunAt = api.At(s.now().Add(month))
	s.insert("", late)
	for range 29 {
		s.reopen(12 * time.Hour)
		s.advance(12 * time.Hour)
		s.wantCounts("", "waiting 1")
	}
	s.advance(24*time.Hour - time.Millisecond)
	s.wantCounts("", "waiting 1")
	s.advance(time.Millisecond)
	s.wantCounts("", "ready 1")
}

// The same request sent again makes no second submission and says which one there is; another request under its key is refused.
func TestBehaviour088TheSameKeyInsertsOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	send := func(body string) answer {
		return send(t, s.client, s.address, call{method: "POST", path: insertPath, body: body, header: map[string]string{"Idempotency-Key": "order-17"}})
	}
	const body = `{"chunks":{"count":3,"prefix":"x/"}}`
	first, again := send(body), send(body)
	var a, b api.Submission
	first.decode(t, &a)
	again.decode(t, &b)
	if first.status != http.StatusCreated || again.status != http.StatusOK || a.ID != b.ID || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("got %d %s, then %d %s with %v", first.status, a.ID, again.status, b.ID, again.header)
	}
	if other := send(`{"chunks":{"count":4,"prefix":"x/"}}`); other.status != http.StatusUnprocessableEntity {
		t.Errorf("another request under the same key: got %d %s, want 422", other.status, other.body)
	}
	s.reopen(23 * time.Hour)
	if late := send(body); late.status != http.StatusOK {
		t.Errorf("a day less an hour later: got %d %s, want 200", late.status, late.body)
	}
	s.wantCounts("", "ready 3")
}

// A repeated insert answers what a question about the submission answers now, down to the last field: while it is worked on and
// held back, when it has ended, after a restart, and not at all once its retention is over.
func TestBehaviour088ARepeatTellsThePresent(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	const body = `{"chunks":{"count":4,"prefix":"x/"},"meta":{"company":7}}`
	send := func() answer {
		return send(t, s.client, s.address, call{method: "POST", path: insertPath, body: body, header: map[string]string{"Idempotency-Key": "order-17"}})
	}
	var id string
	wantPresent := func(when, state string) {
		t.Helper()
		var now api.Submission
		got, asked := send(), s.do("GET", "/v1/submissions/"+id, nil, http.StatusOK, &now)
		if now.State != state {
			t.Errorf("%s: the submission is %s, want %s", when, now.State, state)
		}
		var repeated, question map[string]any
		got.decode(t, &repeated)
		asked.decode(t, &question)
		if got.status != http.StatusOK || got.header.Get("Idempotency-Replayed") != "true" || !reflect.DeepEqual(repeated, question) {
			t.Errorf("%s: the repeat got %d %s\nwant %s", when, got.status, got.body, asked.body)
		}
	}
	var first api.Submission
	send().decode(t, &first)
	id = first.ID
	held := s.reserve("", api.ReserveRequest{Max: 2}).Reservations
	s.completing("", held[0])
	wantPresent("half way", "open")
	s.setRule("", "pause", api.RuleMatch{Submission: id})
	wantPresent("paused", "open")
	s.cancel(id)
	wantPresent("cancelled", "cancelled")
	s.reopen(time.Hour)
	wantPresent("an hour later, after a restart", "cancelled")
	s.queue("", api.QueueSettingsInput{RetentionSeconds: new(int64(60))})
	s.advance(2 * time.Minute)
	if gone := send(); gone.status != http.StatusNotFound {
		t.Errorf("after its retention: got %d %s, want 404", gone.status, gone.body)
	}
}

// A submission that failed names the chunk that failed it, also when others died before it, at the same moment and with the same
// error; alone and in a list, from memory and from the history. One that ended otherwise names none.
func TestAFailedSubmissionNamesItsChunk(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	older := s.insert("", submission(1, "t", "a"))
	s.cancel(older.ID)
	s.advance(time.Hour)
	budget := api.NewSubmission{Chunks: api.Chunks{Count: 6, Prefix: "x/"}, MaxFailedChunks: 2, OnExhausted: "dead_letter"}
	first, second, cancelled := s.insert("", budget), s.insert("", api.NewSubmission{Chunks: api.Chunks{Count: 2, Prefix: "x/"}, MaxAttempts: 1, OnExhausted: "fail_submission"}), s.insert("", submission(1, "t", "a"))
	s.cancel(cancelled.ID)
	held := map[string][]api.Reservation{}
	for _, r := range s.reserveAll("", "OldestFirst") {
		held[r.Submission] = append(held[r.Submission], r)
	}
	slices.SortFunc(held[first.ID], func(a, b api.Reservation) int { return int(a.Index) - int(b.Index) })
	one := held[first.ID]
	s.failing("", "no", true, one[4], one[5], one[0], one[2])
	s.failing("", "out of attempts", false, held[second.ID][1])
	want := map[string]string{first.ID: "failed 0", second.ID: fmt.Sprint("failed ", held[second.ID][1].Index), cancelled.ID: "cancelled"}
	check := func(when string) {
		t.Helper()
		for id, text := range want {
			var listed api.Page[api.Submission]
			s.do("GET", queuePath("", "/submissions"), nil, http.StatusOK, &listed)
			list := []api.Submission{s.submission(id)}
			list = append(list, listed.Items[slices.IndexFunc(listed.Items, func(x api.Submission) bool { return x.ID == id })])
			for _, x := range list {
				got := x.State
				if x.FailedChunk != nil {
					got += fmt.Sprint(" ", *x.FailedChunk)
				}
				if got != text {
					t.Errorf("%s: submission %s is %q, want %q", when, id, got, text)
				}
			}
		}
	}
	check("at once")
	s.reopen(0)
	check("after a restart")
	s.queue("", api.QueueSettingsInput{RetentionSeconds: new(int64(3600))})
	s.advance(time.Minute)
	s.refused("GET", "/v1/submissions/"+older.ID, nil, http.StatusNotFound) // for which the others had to become rows of the history
	check("after a checkpoint")
	s.reopen(time.Minute)
	check("after a checkpoint and a restart")
}

func TestBehaviour092NothingComesBeforeItsTime(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	start := s.now()
	const chunksEach, submissions = 10, 1000
	for range submissions {
		n := submission(chunksEach, "t", "a")
		n.RunAt = api.At(start.Add(time.Duration(1+rnd.IntN(3600)) * time.Second))
		s.insert("", n)
	}
	due := map[string]time.Time{}
	var got int
	for s.now().Before(start.Add(time.Hour)) {
		s.advance(time.Duration(1+rnd.IntN(90)) * time.Second)
		for _, r := range s.reserveAll("", "Random") {
			if _, known := due[r.Submission]; !known {
				due[r.Submission] = s.submission(r.Submission).RunAt.Time
			}
			if at := due[r.Submission]; at.After(s.now()) {
				t.Fatalf("seed %d: %s was handed out at %s, before %s", seed, r.Submission, s.now(), at)
			}
			got++
		}
	}
	s.advance(time.Hour)
	if got += len(s.reserveAll("", "Random")); got != chunksEach*submissions {
		t.Errorf("seed %d: %d chunks came, want %d", seed, got, chunksEach*submissions)
	}
}

// Bytes come back as they were given: quotes, zeros, bytes that are not UTF-8, none at all.
func TestBehaviour100BytesComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	list := []api.Bytes{{}, api.Bytes(`'; DROP TABLE chunks; -- "quoted" \ \u0000`), {0}, all, api.Bytes("\u00e9\u4e16\u754c \U0001F600"), bytes.Repeat([]byte{0xff}, 100_000)}
	n := api.NewSubmission{Chunks: api.Chunks{Inline: list}, Attachment: all}
	s.insert("", n)
	for round := range 2 {
		for _, r := range s.reserve("", request("OldestFirst", len(list))).Reservations {
			if got := r.Content.Bytes; !bytes.Equal(got, list[r.Index]) {
				t.Errorf("round %d, chunk %d: got %.80q, want %.80q", round, r.Index, got, list[r.Index])
			}
			if !bytes.Equal(r.Attachment, all) {
				t.Errorf("round %d: the attachment is %q, want %q", round, r.Attachment, all)
			}
		}
		s.killed(time.Minute)
	}
	p := s.refused("POST", insertPath, `{"chunks":{"inline":["`+strings.Repeat("x", 1<<20+1)+`"]}}`, http.StatusUnprocessableEntity)
	if len(p.Errors) != 1 || p.Errors[0].Pointer != "/chunks/inline" || !strings.Contains(p.Errors[0].Detail, "number 0") {
		t.Errorf("a chunk that is too large: got %+v, want a problem at /chunks/inline that says which entry", p)
	}
	s.wantCounts("", fmt.Sprint("ready ", len(list)))
}

// Many consumers wait for a long time. New chunks wake as many of them as there are chunks, at once.
//
//quern:overlapping
func TestBehaviour106IdleConsumersAreWoken(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answered := make(chan api.ReserveResponse)
	for range 20 {
		waiting := s.reserving(ctx, engine.DefaultQueue, request("OldestFirst", 1))
		go func() {
			if got, is := <-waiting; is {
				answered <- got
			}
		}()
	}
	for range 5 {
		s.insert("", submission(1, "t", "a"))
		if got := <-answered; len(got.Reservations) != 1 {
			t.Errorf("a consumer was woken with %d chunks", len(got.Reservations))
		}
	}
	if got := s.statsOf("").ConsumersWaiting; got != 15 {
		t.Errorf("%d consumers wait, want 15", got)
	}
}
