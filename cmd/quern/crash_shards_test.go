package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// The queue has one shard, and gets two and then four while work runs. Producers create groups by using them, an operator moves groups and
// drains shards, and the server is killed in the middle of all this. The checks of TestKillNine hold over the shards. After each start,
// the queue, its shards and its groups have the numbers that producers and consumers know. Each group is whole in one shard.
//
//quern:killing
func TestKillNineShards(t *testing.T) {
	t.Parallel()
	o := newOracle(t)
	o.groups = newCrashGroups(o)
	o.strategies = []string{
		`MaxSimultaneous("company", 3, MaxSimultaneous("group", 2, Random))`,
		`MaxSimultaneous("company", 3, MaxSimultaneous("group", 2, OldestFirst))`,
		`MaxSimultaneous("group", 2, MaxSimultaneous("company", 3, NewestFirst))`,
		`MaxSimultaneous("group", 2, MaxSimultaneous("company", 3, OrElse(SelectOnly("company", 1, CustomPriority), Random)))`,
	}
	o.kills(envNumber(t, "QUERN_CRASH_ROUNDS", 25), func(*oracle, string) {})
}

func newCrashGroups(o *oracle) *crashGroups {
	return &crashGroups{o: o, submissions: map[string]grouped{}, flying: map[string]int{}, at: map[string]int{}}
}

const (
	crashShards     = 4
	crashGroupLimit = 2  // chunks in flight per group
	crashOpen       = 40 // chunks that the producers let be open, so that groups become empty

	// limitedGroup takes no more than limitedOpen submissions at once.
	limitedGroup = "limited"
	limitedOpen  = 3
)

// errLimitReached says that a group is full: the insert is not done, and may be sent again.
var errLimitReached = errors.New("limit_reached")

// crashGroups is the oracle's knowledge of groups. The oracle's mutex guards the fields that several goroutines use.
type crashGroups struct {
	o            *oracle
	newest       int                // producers use the groups before and after this one
	submissions  map[string]grouped // of acknowledged inserts, by id
	acknowledged []acknowledged     // some of them, to repeat
	flying       map[string]int     // chunks in flight by group, in this life
	at           map[string]int     // the shard of each group, as of the last check

	chunks   int    // of all submissions
	held     int    // chunks of a submission or group that may still be held after a start
	shards   int    // the most that the server has named to the operator
	draining string // the setting when the operator had an answer
	maybe    string // the setting if a change without an answer was made

	moves, unsure, drains, repeats, limits, between int
}

type grouped struct {
	group  string
	chunks int
}

type acknowledged struct {
	key, id string
	body    []byte
}

// pause waits while the producers are far ahead of the consumers.
func (g *crashGroups) pause(ctx context.Context) {
	for ctx.Err() == nil && g.ahead() {
		time.Sleep(2 * time.Millisecond)
	}
}

func (g *crashGroups) ahead() bool {
	g.o.mu.Lock()
	defer g.o.mu.Unlock()
	return g.chunks > g.o.completions+g.o.late+crashOpen
}

// nextInsert is an insert into one of the groups that are busy now, or into one that may be empty for a while. The mutex is held.
func (g *crashGroups) nextInsert() (key string, body []byte) {
	o := g.o
	if len(g.acknowledged) > 0 && o.rnd.IntN(8) == 0 {
		again := g.acknowledged[o.rnd.IntN(len(g.acknowledged))]
		return again.key, again.body
	}
	if o.rnd.IntN(5) == 0 {
		g.newest++
	}
	name := "g" + strconv.Itoa(g.newest+o.rnd.IntN(4))
	switch o.rnd.IntN(8) {
	case 0, 1:
		name = "g" + strconv.Itoa(o.rnd.IntN(g.newest+4))
	case 2:
		name = limitedGroup
	}
	o.keys++
	key = "key-" + strconv.Itoa(o.keys)
	body = fmt.Appendf(nil, `{"group":%q,"meta":{"company":%d},"priority":%d,"chunks":{"count":%d,"template":"row {index}"}}`, name,
		o.rnd.IntN(5), o.rnd.IntN(3), 1+o.rnd.IntN(5))
	o.pending[key] = body
	return key, body
}

// inserted notes an insert that is acknowledged, and finds whether one that was repeated has another id. The mutex is held.
func (g *crashGroups) inserted(key, id string, chunks int) {
	for _, known := range g.acknowledged {
		if known.key == key {
			if g.repeats++; known.id != id {
				g.o.t.Errorf("the insert with %s was submission %s, and is %s when it is repeated", key, known.id, id)
			}
			return
		}
	}
	body, asked := g.o.pending[key]
	if !asked {
		return
	}
	var in struct{ Group string }
	if err := json.Unmarshal(body, &in); err != nil {
		g.o.t.Error(err)
	}
	g.submissions[id] = grouped{in.Group, chunks}
	g.chunks += chunks
	if g.acknowledged = append(g.acknowledged, acknowledged{key, id, body}); len(g.acknowledged) > 300 {
		g.acknowledged = slices.Delete(g.acknowledged, 100, 200) // the oldest stay: their groups have moved since
	}
}

// reserved notes a chunk in flight. The mutex is held.
func (g *crashGroups) reserved(submission, group string) {
	if known, there := g.submissions[submission]; there && known.group != group {
		g.o.t.Errorf("submission %s is of group %q, and was inserted into %q", submission, group, known.group)
	}
	if g.flying[group]++; g.flying[group] > crashGroupLimit {
		g.o.t.Errorf("%d chunks of group %s are in flight, the limit is %d", g.flying[group], group, crashGroupLimit)
	}
}

// mayKeep says whether a consumer may keep a chunk until the server dies. Too many of them would keep all groups where they are.
func (g *crashGroups) mayKeep() bool {
	g.o.mu.Lock()
	defer g.o.mu.Unlock()
	return len(g.o.held) < 6 && g.o.rnd.IntN(3) == 0
}

// refused looks at a refused insert: only the group with a limit may be full.
func (g *crashGroups) refused(body, answer []byte) error {
	var in struct{ Group string }
	var problem api.Problem
	if err := errors.Join(json.Unmarshal(body, &in), json.Unmarshal(answer, &problem)); err != nil || in.Group != limitedGroup ||
		problem.Code != "limit_reached" || !bytes.Contains(answer, []byte(`"max":3`)) {
		g.o.t.Errorf("an insert into the group %q is refused: %s, %v", in.Group, answer, err)
	}
	g.o.mu.Lock()
	defer g.o.mu.Unlock()
	g.limits++
	return errLimitReached
}

// operate has an operator divide the queue, move groups and drain shards, until the server dies.
func (g *crashGroups) operate(ctx context.Context, all *sync.WaitGroup) {
	limits := fmt.Sprintf(`{"limits":{"submissions":%d}}`, limitedOpen)
	all.Go(func() {
		if g.refusedOrDead(g.ask(ctx, "PUT", "/groups/"+limitedGroup, limits, nil)) {
			return
		}
		if g.shards < crashShards {
			more := max(2, 2*g.shards)
			if g.refusedOrDead(g.ask(ctx, "PATCH", "", fmt.Sprintf(`{"settings":{"shards":%d}}`, more), nil)) {
				return
			}
			g.shards = more
		}
		for ctx.Err() == nil && g.drainOne(ctx) {
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(g.o.draw(40)) * time.Millisecond):
			}
		}
	})
	for i := range 2 {
		all.Go(func() {
			for ctx.Err() == nil && g.moveOne(ctx, i) {
				continue
			}
		})
	}
}

// refusedOrDead says that a change has no good answer. None of those that are asked about may be refused.
func (g *crashGroups) refusedOrDead(err error) bool {
	if refused, is := errors.AsType[refusal](err); is {
		g.o.t.Errorf("the operator is refused: %v", refused)
	}
	return err != nil
}

// drainOne drains a shard, or takes all of them back. false: the server is dead.
func (g *crashGroups) drainOne(ctx context.Context) bool {
	if g.shards < crashShards {
		return true
	}
	number, method, after := strconv.Itoa(1+g.o.draw(crashShards)), "POST", ""
	if g.draining != "" {
		number, method = g.draining, "DELETE"
	} else {
		after = number
	}
	g.maybe = after
	if g.refusedOrDead(g.ask(ctx, method, "/shards/"+number+"/drain", "", nil)) {
		return false
	}
	g.draining = after
	g.drains++
	return true
}

// moveOne asks for a move of a group. One of two callers moves those with an odd number, so that none is moved by both. false: the server
// is dead.
func (g *crashGroups) moveOne(ctx context.Context, odd int) bool {
	g.o.mu.Lock()
	name, to := limitedGroup, 1+g.o.rnd.IntN(crashShards)
	if odd == 1 || g.o.rnd.IntN(10) > 0 {
		name = "g" + strconv.Itoa(2*g.o.rnd.IntN(g.newest/2+2)+odd)
	}
	g.o.mu.Unlock()
	var moved api.Group
	err := g.ask(ctx, "POST", "/groups/"+name+"/move", fmt.Sprintf(`{"shard":%d}`, to), &moved)
	var refused refusal
	g.o.mu.Lock()
	defer g.o.mu.Unlock()
	switch {
	case errors.As(err, &refused) && nodeWasLost([]byte(refused.text)):
		g.unsure++
		return false
	case errors.As(err, &refused): // such as a group that is not there yet, or came from elsewhere lately
		if refused.status != 404 && refused.status != 409 && refused.status != 422 {
			g.o.t.Errorf("a move of %s to %d: %v", name, to, err)
		}
	case err != nil:
		g.unsure++
		return false
	case moved.Group != name || moved.Shard != to && moved.MovingTo != to:
		g.o.t.Errorf("a move of %s to %d is answered by %+v", name, to, moved)
	case moved.Shard == to:
		g.moves++
	}
	return true
}

// awaitMoves lets the server live until some more groups have moved.
func (g *crashGroups) awaitMoves(ctx context.Context) {
	count := func() int {
		g.o.mu.Lock()
		defer g.o.mu.Unlock()
		return g.moves
	}
	for end, before := time.Now().Add(3*time.Second), count(); count() < before+20 && time.Now().Before(end) && ctx.Err() == nil; {
		time.Sleep(10 * time.Millisecond)
	}
}

// refusal is an answer that is not good.
type refusal struct {
	status int
	text   string
}

func (r refusal) Error() string { return strconv.Itoa(r.status) + " " + r.text }

// ask asks the server about the queue. An error that is no refusal says that no whole answer came.
func (g *crashGroups) ask(ctx context.Context, method, path, body string, answer any) error {
	q, err := http.NewRequestWithContext(ctx, method, g.o.at()+"/v1/queues/default"+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	q.Header.Set("Content-Type", "application/json")
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if nothingDone(r.StatusCode, text) {
		return g.ask(ctx, method, path, body, answer)
	}
	if r.StatusCode == http.StatusServiceUnavailable && g.o.dying.Load() {
		return errors.New(r.Status)
	}
	if r.StatusCode == http.StatusBadGateway && strings.Contains(string(text), `"outcome_unknown"`) { // the node behind this one was killed
		return errors.New(r.Status)
	}
	if r.StatusCode/100 != 2 {
		return refusal{r.StatusCode, string(text)}
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

// must asks, and needs an answer.
func (g *crashGroups) must(ctx context.Context, path string, answer any) {
	g.o.t.Helper()
	if err := g.ask(ctx, "GET", path, "", answer); err != nil {
		g.o.t.Fatalf("GET %s: %v", path, err)
	}
}

// pagesOf reads all pages of a list.
func pagesOf[T any](ctx context.Context, g *crashGroups, path string) (list []T) {
	g.o.t.Helper()
	for cursor, more := "", true; more; more = cursor != "" {
		var page api.Page[T]
		g.must(ctx, path+"?limit=1000&cursor="+url.QueryEscape(cursor), &page)
		list, cursor = append(list, page.Items...), page.Next
	}
	return list
}

// check compares the server's numbers with those of producers and consumers. No client works meanwhile, and no chunk is held from an
// earlier life any more. The server may still be moving groups.
func (g *crashGroups) check(ctx context.Context) {
	g.o.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute) // a group whose move never ends would answer nothing else than that it moves
	defer cancel()
	g.o.repeatPending(ctx)
	var info api.Queue
	g.must(ctx, "", &info)
	if now := info.Settings.DrainingShards; now != g.draining && now != g.maybe {
		g.o.t.Errorf("the shards %q drain, and the operator drained %q, and perhaps %q", now, g.draining, g.maybe)
	}
	g.draining, g.maybe = info.Settings.DrainingShards, info.Settings.DrainingShards
	if int(info.Settings.Shards) < g.shards {
		g.o.t.Errorf("the queue has %d shards, and had %d", info.Settings.Shards, g.shards)
	}
	g.shards = max(g.shards, int(info.Settings.Shards))
	open := g.checkSubmissions(ctx)
	for {
		before := pagesOf[api.Group](ctx, g, "/groups")
		perShard := map[int][]api.Group{}
		for number := range g.shards {
			if g.shards > 1 {
				perShard[number+1] = g.ofShard(ctx, number+1)
			}
		}
		after := pagesOf[api.Group](ctx, g, "/groups")
		if slices.EqualFunc(before, after, func(a, b api.Group) bool { return a.Group == b.Group && a.Shard == b.Shard }) {
			g.checkGroups(after, perShard, open)
			break
		}
	}
	g.checkQueue(ctx, open)
}

// ofShard are the groups that one shard says that it has.
func (g *crashGroups) ofShard(ctx context.Context, number int) []api.Group {
	var page api.Page[api.Group]
	if err := g.ask(ctx, "GET", "~"+strconv.Itoa(number)+"/groups?limit=1000", "", &page); err != nil || page.Next != "" {
		g.o.t.Fatalf("the groups of shard %d: %v", number, err)
	}
	return page.Items
}

// openWork is the open work of a group, or of all.
type openWork struct {
	submissions, chunks uint64
	shards              map[int]bool // that have it
}

// checkSubmissions finds each submission once, with a possible state, and returns the open work of each group.
func (g *crashGroups) checkSubmissions(ctx context.Context) map[string]*openWork {
	least, most := map[string]int{}, map[string]int{} // completed chunks by submission
	for name, chunk := range g.o.chunks {
		id, _, _ := strings.Cut(name, "/")
		if chunk.done {
			least[id]++
		}
		if chunk.done || chunk.sent {
			most[id]++
		}
	}
	open, seen := map[string]*openWork{}, map[string]bool{}
	for _, s := range pagesOf[api.Submission](ctx, g, "/submissions") {
		known, there := g.submissions[s.ID]
		if !there || seen[s.ID] {
			g.o.t.Errorf("submission %s is listed: inserted %v, listed before %v", s.ID, there, seen[s.ID])
		}
		seen[s.ID] = true
		done := int(s.Done)
		if s.Group != known.group || int(s.Chunks) != known.chunks || done < least[s.ID] || done > most[s.ID] ||
			int(s.Reserved) > g.held || (s.State == "completed") != (done == known.chunks) {
			g.o.t.Errorf("submission %+v was inserted as %+v, and %d to %d of its chunks are done", s, known, least[s.ID], most[s.ID])
		}
		if s.State != "open" {
			continue
		}
		if open[s.Group] == nil {
			open[s.Group] = &openWork{shards: map[int]bool{}}
		}
		work := open[s.Group]
		work.submissions, work.chunks, work.shards[s.Shard] = work.submissions+1, work.chunks+uint64(known.chunks-done), true
	}
	if len(seen) != len(g.submissions) {
		g.o.t.Errorf("%d submissions are listed, and %d were inserted", len(seen), len(g.submissions))
	}
	return open
}

// checkGroups finds each group whole in one shard.
func (g *crashGroups) checkGroups(list []api.Group, perShard map[int][]api.Group, open map[string]*openWork) {
	seen := map[string]bool{}
	for _, group := range list {
		work := open[group.Group]
		if work == nil {
			work = &openWork{shards: map[int]bool{group.Shard: true}}
		}
		if g.shards == 1 {
			work.shards = map[int]bool{group.Shard: true}
		}
		if seen[group.Group] || group.Submissions != work.submissions || group.Waiting+group.InFlight != work.chunks || group.InFlight > uint64(g.held) ||
			len(work.shards) != 1 || !work.shards[group.Shard] {
			g.o.t.Errorf("the group is %+v, listed before %v, and %+v of it is open", group, seen[group.Group], *work)
		}
		if group.Group == limitedGroup && (group.Limits.Submissions == nil && g.shards > 0 && group.ETag != "" ||
			group.Submissions > limitedOpen) {
			g.o.t.Errorf("the group with a limit is %+v", group)
		}
		seen[group.Group] = true
		if before := g.at[group.Group]; before > 0 && before != group.Shard {
			g.between++
		}
		g.at[group.Group] = group.Shard
	}
	for name := range open {
		if !seen[name] {
			g.o.t.Errorf("the group %q has work and is not listed", name)
		}
	}
	for number, groups := range perShard {
		for _, group := range groups {
			if g.at[group.Group] != number || group.Shard != number {
				g.o.t.Errorf("shard %d says that it has %+v, which is in shard %d", number, group, g.at[group.Group])
			}
			delete(seen, group.Group)
		}
	}
	if g.shards > 1 && len(seen) > 0 {
		g.o.t.Errorf("no shard says that it has the groups %v", seen)
	}
}

// checkQueue compares the numbers of the queue and of its shards.
func (g *crashGroups) checkQueue(ctx context.Context, open map[string]*openWork) {
	var want, shards openWork
	for _, work := range open {
		want.submissions, want.chunks = want.submissions+work.submissions, want.chunks+work.chunks
	}
	var stats api.Stats
	g.must(ctx, "/stats", &stats)
	var list api.Page[api.Shard]
	g.must(ctx, "/shards", &list)
	for _, s := range list.Items {
		shards.submissions, shards.chunks = shards.submissions+s.SubmissionsOpen, shards.chunks+s.Ready+s.Reserved
	}
	for what, has := range map[string]openWork{
		"the queue":  {submissions: stats.SubmissionsOpen, chunks: stats.Ready + stats.Reserved + stats.Waiting},
		"its shards": {submissions: shards.submissions, chunks: shards.chunks},
	} {
		if has.submissions != want.submissions || has.chunks != want.chunks {
			g.o.t.Errorf("%s: %d submissions and %d chunks are open, want %d and %d", what, has.submissions, has.chunks, want.submissions,
				want.chunks)
		}
	}
}

// tell logs what happened, and fails if it was not enough to show anything.
func (g *crashGroups) tell() {
	g.o.t.Logf("%d shards, %d groups, %d moves, %d without an answer; %d groups were in another shard after a start; %d drains, %d repeated "+
		"inserts, %d refused", g.shards, len(g.at), g.moves, g.unsure, g.between, g.drains, g.repeats, g.limits)
	if g.shards < crashShards || g.moves == 0 || g.between == 0 || g.repeats == 0 {
		g.o.t.Error("this is too little to show anything")
	}
}
