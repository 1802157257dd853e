//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// A follower of the ends goes on over kills of the server, without noticing them. It gets every end that was acknowledged, once and in the
// order of the places, from the history, from the journal and as they come. So does a follower that comes later and begins with all.
//
//quern:killing
func TestFollowEndsOverKills(t *testing.T) {
	t.Parallel()
	const each, kills = 40, 3
	program, dir := quernProgram(t), t.TempDir()
	start := func(address string) *launched {
		return launch(t, dir, program, "serve", "--data", filepath.Join(dir, "data"), "--listen", address, "--fold-bytes", "64KiB")
	}
	server := start(freeAddress(t))
	url := server.url()
	c, err := client.New(url)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	got := make(chan client.End, each*(kills+1))
	followed := make(chan error, 1)
	go func() {
		for end, err := range (client.Ends{Queue: "default", Meta: api.Meta{"odd": api.Int(1)}, After: "0"}).Follow(ctx, c) {
			if err != nil {
				followed <- err
				return
			}
			got <- end
		}
		followed <- nil
	}()
	want := map[string]bool{}
	for life := range kills + 1 {
		for i := range each {
			s, err := c.Insert(t.Context(), "default", &api.NewSubmission{Meta: api.Meta{"odd": api.Int(int64(i % 2))}, Chunks: api.Chunks{Count: 1, Template: strings.Repeat("x", 500)}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Cancel(t.Context(), s.ID); err != nil {
				t.Fatal(err)
			}
			if i%2 == 1 {
				want[s.ID] = true
			}
		}
		if life < kills {
			server.tell(syscall.SIGKILL)
			_ = server.Wait()
			server = start(strings.TrimPrefix(url, "http://"))
			server.url()
		}
	}
	check := func(who string, next func() client.End) {
		t.Helper()
		left, last := map[string]bool{}, ""
		for id := range want {
			left[id] = true
		}
		for len(left) > 0 {
			end := next()
			if end.Gap != nil || !left[end.Submission.ID] || end.Submission.State != api.StateCancelled || end.Place == last {
				t.Fatalf("%s got %+v, want one of the %d ends that it lacks", who, end, len(left))
			}
			delete(left, end.Submission.ID)
			last = end.Place
		}
	}
	check("who was there all the time", func() client.End {
		select {
		case end := <-got:
			return end
		case err := <-followed:
			t.Fatalf("the follower ended: %v", err)
			return client.End{}
		}
	})
	later := launch(t, dir, program, "ends", "--server", url, "--after", "0", "--meta", "odd=1", "-o", "jsonl")
	check("quern ends", func() client.End {
		line := later.line()
		var end endLine
		if err := json.Unmarshal([]byte(line), &end); err != nil || end.Submission == nil {
			t.Fatalf("quern ends printed %s (%v)", line, err)
		}
		return client.End{Place: end.Place, Submission: *end.Submission, Gap: end.Gap}
	})
	later.tell(syscall.SIGINT)
	later.ends(exitOK)
	stop()
	if err := <-followed; err != nil {
		t.Errorf("when its context has ended the follower says %v, want nothing", err)
	}
	server.tell(syscall.SIGTERM)
	server.ends(exitOK)
	if len(got) > 0 {
		t.Errorf("the follower got %d more than there are: %s", len(got), fmt.Sprint(<-got))
	}
}
