package web

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// Groups that someone creates, and their limits, in a queue of one shard and of four, over a kill.

// inGroup is a submission of a group.
func inGroup(group string, chunks int) string {
	return fmt.Sprintf(`{"group":%q,"chunks":{"count":%d,"prefix":"x/"}}`, group, chunks)
}

// together inserts the same many times at once, and counts what is taken. Each of the others has to be refused by the limit.
func (s *scene) together(queue, body string, times, most int) (taken int) {
	s.Helper()
	answers := make([]answer, times)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = s.call("POST", queuePath(queue, "/submissions"), body) })
	}
	all.Wait()
	for _, got := range answers {
		if got.status == http.StatusCreated {
			taken++
			continue
		}
		p := got.problem(s)
		if got.status != http.StatusTooManyRequests || p.Code != api.CodeLimitReached || p.Max == nil || int(*p.Max) != most || p.Current == nil {
			s.Errorf("%d %s; want it refused by the limit of %d", got.status, got.body, most)
		}
	}
	return taken
}

// Of 20 inserts at once, a group with a limit of 10 takes 10.
func TestBehaviour112GroupTakesAsManyAsItsLimit(t *testing.T) {
	t.Parallel()
	for _, shards := range []uint8{1, 4} {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.queue("orders", api.QueueSettingsInput{Shards: new(shards)})
			s.do("PUT", queuePath("orders", "/groups/acme"), `{"limits":{"submissions":10}}`, http.StatusCreated, nil)
			s.do("PUT", queuePath("orders", "/groups/bulk"), `{"limits":{"waiting":10}}`, http.StatusCreated, nil)
			if n := s.together("orders", inGroup("acme", 1), 20, 10); n != 10 {
				t.Errorf("%d submissions were taken, want 10", n)
			}
			if n := s.together("orders", inGroup("bulk", 3), 20, 10); n != 3 {
				t.Errorf("%d submissions of 3 chunks were taken, want 3", n)
			}
			s.killed(time.Second)
			p := s.refused("POST", queuePath("orders", "/submissions"), inGroup("acme", 1), http.StatusTooManyRequests)
			if *p.Current != 10 || *p.Max != 10 {
				t.Errorf("after a kill: %+v", p)
			}
			if n := s.together("orders", inGroup("bulk", 1), 20, 10); n != 1 {
				t.Errorf("%d chunks were taken in the last place, want 1", n)
			}
			var group api.Group
			s.do("GET", queuePath("orders", "/groups/bulk"), nil, http.StatusOK, &group)
			if group.Waiting != 10 || group.Submissions != 4 || *group.Limits.Waiting != 10 || group.Limits.Submissions != nil {
				t.Errorf("the group is %+v", group)
			}
		})
	}
}

// In a queue whose groups must exist, no insert makes one; otherwise many at once make one.
func TestBehaviour113GroupThatNoOneCreated(t *testing.T) {
	t.Parallel()
	for _, shards := range []uint8{1, 4} {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.queue("orders", api.QueueSettingsInput{Shards: new(shards)})
			if n := s.together("orders", inGroup("acme", 1), 30, 0); n != 30 {
				t.Errorf("%d of 30 were taken", n)
			}
			var list api.Page[api.Group]
			s.do("GET", queuePath("orders", "/groups"), nil, http.StatusOK, &list)
			if len(list.Items) != 1 || list.Items[0].Submissions != 30 {
				t.Errorf("the groups are %+v", list.Items)
			}
			s.queue("orders", api.QueueSettingsInput{Shards: new(shards), GroupMustExist: new(true)})
			for _, name := range []string{"acme", "other"} {
				p := s.refused("POST", queuePath("orders", "/submissions"), inGroup(name, 1), http.StatusNotFound)
				if p.Code != api.CodeUnknownGroup {
					t.Errorf("%s: %+v", name, p)
				}
			}
			s.do("PUT", queuePath("orders", "/groups/other"), `{}`, http.StatusCreated, nil)
			s.killed(time.Second)
			s.do("POST", queuePath("orders", "/submissions"), inGroup("other", 1), http.StatusCreated, nil)
			s.refused("POST", queuePath("orders", "/submissions"), inGroup("acme", 1), http.StatusNotFound)
		})
	}
}
