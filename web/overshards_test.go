//quern:overlapping
package web

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// Calls about a queue of several shards as a whole, as its users see them: the answers are those of one queue.

// newOrders is a server with the queue "orders" of 4 shards, with settings for quick failures.
func newOrders(t *testing.T, settings api.QueueSettingsInput) *scene {
	t.Helper()
	s := newScene(t)
	settings.Shards = new(uint8(4))
	s.queue("orders", settings)
	return s
}

// spread inserts n submissions of as many groups, a millisecond apart, and returns them. They take turns among the
// shards.
func (s *scene) spread(n int, chunks int) (list []api.Submission) {
	s.Helper()
	for tried := 0; len(list) < n; tried++ {
		var group api.Group
		s.do("PUT", queuePath("orders", fmt.Sprint("/groups/g", tried)), `{}`, http.StatusCreated, &group)
		if group.Shard != len(list)%4+1 {
			continue
		}
		s.advance(time.Millisecond)
		var made api.Submission
		s.do("POST", queuePath("orders", "/submissions"), inGroup(group.Group, chunks), http.StatusCreated, &made)
		list = append(list, made)
	}
	return list
}

// setAside damages the files of shard 3, and starts the server again without it.
func (s *scene) setAside() {
	s.Helper()
	s.alone()
	s.stop()
	for _, dir := range []string{"0001", "0002", "0003", "0004", "0005"} {
		if name := s.shardName(dir); name == "orders~3" {
			if err := os.Truncate(filepath.Join(s.dir, "shards", dir, "journal.db"), 5000); err != nil {
				s.Fatal(err)
			}
		}
	}
	s.start()
	s.settle()
}

// shardName is the queue whose files a directory has. Shards are made in the order of their numbers, behind the default
// queue.
func (s *scene) shardName(dir string) string {
	return map[string]string{"0001": "orders", "0002": "orders~2", "0003": "orders~3", "0004": "orders~4"}[dir]
}

// pages reads a list to its end, page by page, each of at most limit items.
func pages[T any](s *scene, below string, query url.Values, limit int) (all []T, missing []api.MissingShard) {
	s.Helper()
	query.Set("limit", fmt.Sprint(limit))
	for turn := 0; ; turn++ {
		if turn > 1000 {
			s.Fatalf("%s?%s: no end after %d pages", below, query.Encode(), turn)
		}
		var page api.Page[T]
		s.do("GET", queuePath("orders", below)+"?"+query.Encode(), nil, http.StatusOK, &page)
		if len(page.Items) > limit {
			s.Fatalf("%s: a page of %d items, the limit is %d", below, len(page.Items), limit)
		}
		all, missing = append(all, page.Items...), page.MissingShards
		if page.Next == "" {
			return all, missing
		}
		query.Set("cursor", page.Next)
	}
}

func ids(list []api.Submission) (all []string) {
	for i := range list {
		all = append(all, list[i].ID)
	}
	return all
}

// The list of submissions is that of one queue, whatever the size of its pages and whatever its filters.
func TestShardsSubmissionsInOneList(t *testing.T) {
	t.Parallel()
	s := newOrders(t, api.QueueSettingsInput{})
	made := s.spread(23, 2)
	want := ids(made)
	slices.Reverse(want)
	for _, limit := range []int{1, 2, 3, 7, 22, 23, 24, 1000} {
		got, missing := pages[api.Submission](s, "/submissions", url.Values{}, limit)
		if !slices.Equal(ids(got), want) || len(missing) > 0 {
			t.Errorf("pages of %d: got %d %v\nwant %v\nmissing %v", limit, len(got), ids(got), want, missing)
		}
	}
	s.cancel(made[5].ID)
	s.cancel(made[6].ID)
	for query, want := range map[string][]string{
		"state=cancelled":             {made[6].ID, made[5].ID},
		"meta.group=" + made[7].Group: {made[7].ID},
		"meta.group=none":             nil,
		"created_before=" + made[2].CreatedAt.Format(time.RFC3339Nano): {made[1].ID, made[0].ID},
		"created_after=" + made[21].CreatedAt.Format(time.RFC3339Nano): {made[22].ID, made[21].ID},
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := pages[api.Submission](s, "/submissions", values, 1); !slices.Equal(ids(got), want) {
			t.Errorf("%s: got %v, want %v", query, ids(got), want)
		}
	}
	for _, path := range []string{"?limit=0", "?limit=1001", "?colour=1", "?cursor=x", "?cursor=czAuMA"} {
		s.refused("GET", queuePath("orders", "/submissions")+path, nil, http.StatusUnprocessableEntity)
	}
}

// The largest submissions are the largest of all shards.
func TestShardsLargestOfAll(t *testing.T) {
	t.Parallel()
	s := newOrders(t, api.QueueSettingsInput{})
	s.spread(12, 1)
	var want []string
	for i, chunks := range []int{50, 40, 30, 20} {
		var made api.Submission
		s.do("POST", queuePath("orders", "/submissions"), inGroup(fmt.Sprint("big", i), chunks), http.StatusCreated, &made)
		want = append(want, made.ID)
	}
	var page api.Page[api.Submission]
	s.do("GET", queuePath("orders", "/submissions?sort=largest&limit=3"), nil, http.StatusOK, &page)
	if !slices.Equal(ids(page.Items), want[:3]) || page.Next != "" {
		t.Errorf("got %v (next %q), want %v", ids(page.Items), page.Next, want[:3])
	}
}

// Dead letters, retries, reservations and outputs are lists of the whole queue, and an act on one dead letter reaches
// its shard.
func TestShardsListsOfChunks(t *testing.T) {
	t.Parallel()
	s := newOrders(t, api.QueueSettingsInput{MaxAttempts: new(uint16(2)), RetryBackoff: &api.Backoff{BaseMS: 60_000, Factor: 1}})
	made := s.spread(12, 4)
	held := s.reserve("orders", request("OldestFirst", 48)).Reservations
	if len(held) != 48 {
		t.Fatalf("%d chunks were reserved, want 48", len(held))
	}
	for _, sort := range []string{"age", "deadline"} {
		list, _ := pages[api.HeldReservation](s, "/reservations", url.Values{"sort": {sort}}, 5)
		if len(list) != 48 || len(byChunk(list, heldChunk)) != 48 {
			t.Errorf("%s: %d reservations, %d different ones, want 48", sort, len(list), len(byChunk(list, heldChunk)))
		}
	}
	one, _ := pages[api.HeldReservation](s, "/reservations", url.Values{"submission": {made[3].ID}}, 3)
	if len(one) != 4 || one[0].Submission != made[3].ID {
		t.Errorf("reservations of one submission: %+v", one)
	}
	var done, fatal, again []api.Reservation
	for i := range held {
		switch held[i].Index {
		case 0:
			done = append(done, held[i])
		case 1, 2:
			fatal = append(fatal, held[i])
		default:
			again = append(again, held[i])
		}
	}
	body := api.CompleteRequest{}
	for i := range done {
		body.Items = append(body.Items, api.CompleteItem{Token: done[i].Token, Output: []byte(done[i].Submission)})
	}
	s.wantStatuses(statuses(s.results("orders", "complete", body)), 12, api.StatusOK)
	s.failing("orders", "no such file 7", true, fatal...)
	s.failing("orders", "try 8", false, again...)
	s.settle()
	for _, limit := range []int{1, 5, 24, 1000} {
		outputs, _ := pages[api.SubmissionOutput](s, "/outputs", url.Values{}, limit)
		s.newestFirst("outputs", byNewest(outputs, outputPlace), 12)
		for _, o := range outputs {
			if string(o.Output) != o.Submission {
				t.Errorf("output %q of %s", o.Output, o.Submission)
			}
		}
		letters, _ := pages[api.DeadLetter](s, "/dead-letters", url.Values{}, limit)
		s.newestFirst("dead letters", byNewest(letters, letterPlace), 24)
		retries, _ := pages[api.Retry](s, "/retries", url.Values{}, limit)
		s.newestFirst("retries", byNewest(retries, retryPlace), 12)
	}
	at := queuePath("orders", "/dead-letters/"+made[4].ID)
	var letter api.DeadLetter
	s.do("GET", at+"/1", nil, http.StatusOK, &letter)
	if p := s.refused("PUT", at+"/1/content", `"AAEC"`, http.StatusConflict); !strings.Contains(p.Detail, "is not inline") {
		t.Errorf("the change of a content: %+v", p)
	}
	s.do("POST", at+"/1/redrive", nil, http.StatusOK, nil)
	s.do("DELETE", at+"/2", nil, http.StatusNoContent, nil)
	s.refused("GET", at+"/1", nil, http.StatusNotFound)
	s.refused("GET", queuePath("orders", "/dead-letters/x/1"), nil, http.StatusUnprocessableEntity)
	if left, _ := pages[api.DeadLetter](s, "/dead-letters", url.Values{"submission": {made[4].ID}}, 10); len(left) != 0 {
		t.Errorf("dead letters that are left: %+v", left)
	}
}

func heldChunk(h *api.HeldReservation) (string, uint32) { return h.Submission, h.Index }

// byChunk has the items of a list by their chunks.
func byChunk[T any](list []T, of func(*T) (string, uint32)) map[string]T {
	all := map[string]T{}
	for i := range list {
		id, index := of(&list[i])
		all[fmt.Sprint(id, "/", index)] = list[i]
	}
	return all
}

// byNewest are the chunks of a list in its order.
func byNewest[T any](list []T, of func(*T) (string, uint32)) (all []queue.ChunkID) {
	for i := range list {
		id, index := of(&list[i])
		n, _ := queue.ParseSubmissionID(id)
		all = append(all, queue.ChunkID{Submission: n, Index: index})
	}
	return all
}

// newestFirst fails unless there are so many different chunks, those of the newest submission first.
func (s *scene) newestFirst(what string, list []queue.ChunkID, want int) {
	s.Helper()
	if len(list) != want {
		s.Errorf("%s: %d, want %d", what, len(list), want)
	}
	for i := 1; i < len(list); i++ {
		a, b := list[i-1], list[i]
		if a.Submission < b.Submission || a.Submission == b.Submission && a.Index >= b.Index {
			s.Errorf("%s: %v comes before %v", what, a, b)
		}
	}
}

// A shard that does not serve leaves a list without its work, and the list says so. If it is asked about alone, the
// call fails.
func TestShardsListNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := newOrders(t, api.QueueSettingsInput{})
	made := s.spread(20, 1)
	s.setAside()
	var want []string
	lost := ""
	for i := range slices.Backward(made) {
		if made[i].Shard != 3 {
			want = append(want, made[i].ID)
		} else {
			lost = made[i].ID
		}
	}
	got, missing := pages[api.Submission](s, "/submissions", url.Values{}, 3)
	if !slices.Equal(ids(got), want) {
		t.Errorf("got %v, want %v", ids(got), want)
	}
	if len(missing) != 1 || missing[0].Shard != "orders~3" || missing[0].Code != api.CodeQuarantined ||
		strings.Contains(missing[0].Detail, s.dir) {
		t.Errorf("missing: %+v", missing)
	}
	p := s.refused("GET", queuePath("orders", "/dead-letters/"+lost+"/0"), nil, http.StatusServiceUnavailable)
	if p.Code != api.CodeQuarantined {
		t.Errorf("a dead letter of the shard: %+v", p)
	}
	s.refused("GET", queuePath("orders", "/reservations?submission="+lost), nil, http.StatusServiceUnavailable)
}
