package web

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// orderedOverShards are strategies whose order is one over all shards. The groups are g0, g1 and so on.
var orderedOverShards = []string{`OldestFirst`, `NewestFirst`, `CustomPriority`,
	`MaxSimultaneous("group", 2, OldestFirst)`, `MaxSimultaneous("group", 3, CustomPriority)`,
	`PreferDistinct("group", OldestFirst)`, `PreferDistinct("group", CustomPriority)`,
	`OrElse(SelectAny("group", ["%[1]s", "%[2]s"], MaxSimultaneous("group", 1, NewestFirst)), CustomPriority)`,
	`OrElse(MaxSimultaneous("group", 1, CustomPriority), PreferDistinct("group", NewestFirst))`,
	`Except("group", ["%[1]s"], MaxRate("group", 2, "1s", OldestFirst))`,
}

// A preview of a queue of several shards has the chunks that a reserve then gives, in its order.
func TestShardsPreviewIsTheReserve(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("the seed is %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 39))
	s := newOrders(t, api.QueueSettingsInput{})
	made := s.spread(12, 3)
	s.do("PUT", queuePath("orders", "/strategies/own"), `{"strategy":"CustomPriority"}`, http.StatusCreated, nil)
	for turn := range 40 {
		body := fmt.Sprintf(`{"group":%q,"priority":%d,"chunks":{"count":3,"prefix":"x"}}`, made[rnd.IntN(12)].Group, rnd.IntN(3))
		s.do("POST", queuePath("orders", "/submissions"), body, http.StatusCreated, nil)
		s.advance(time.Duration(rnd.IntN(3)) * time.Millisecond)
		text := orderedOverShards[turn%len(orderedOverShards)]
		if strings.Contains(text, "%") {
			text = fmt.Sprintf(text+"%.[1]s", made[rnd.IntN(12)].Group, made[rnd.IntN(12)].Group)
		}
		strategy, _ := json.Marshal(text)
		if turn == 2 {
			strategy = []byte(`{"name":"own"}`)
		}
		ask := api.PreviewRequest{Strategy: strategy, Max: 1 + rnd.IntN(12)}
		var preview api.PreviewResponse
		s.do("POST", queuePath("orders", "/strategies/preview"), ask, http.StatusOK, &preview)
		var explained api.ExplainResponse
		s.do("POST", queuePath("orders", "/strategies/explain"), ask, http.StatusOK, &explained)
		r := request("", ask.Max)
		r.Strategy = strategy
		got := s.reserve("orders", r).Reservations
		var want, foreseen, listed []string
		for _, chunk := range got {
			want = append(want, fmt.Sprint(chunk.Submission, "/", chunk.Index))
		}
		for _, pick := range preview.Picks {
			foreseen = append(foreseen, fmt.Sprint(pick.Submission, "/", pick.Index))
			if shard := s.submission(pick.Submission).Shard; pick.Shard != shard {
				t.Errorf("%s is in shard %d, and the preview says %d", pick.Submission, shard, pick.Shard)
			}
		}
		for _, pick := range explained.Picks {
			listed = append(listed, fmt.Sprint(pick.Pick.Submission, "/", pick.Pick.Index))
		}
		if !slices.Equal(foreseen, want) || !slices.Equal(listed, want) || len(preview.MissingShards) > 0 {
			t.Fatalf("turn %d: %s of %d\npreview  %v\nexplain  %v\nreserved %v", turn, strategy, ask.Max, foreseen, listed, want)
		}
		if turn%3 == 0 && len(got) > 0 {
			s.completing("orders", got...)
		}
	}
}

// By Random, a preview draws a shard by the number of its chunks. The same seed gives the same picks.
func TestShardsPreviewOfRandom(t *testing.T) {
	t.Parallel()
	s := newOrders(t, api.QueueSettingsInput{})
	made := s.spread(3, 1)
	s.do("POST", queuePath("orders", "/submissions"), inGroup(made[1].Group, 7), http.StatusCreated, nil)
	const draws = 300
	count := map[int]int{}
	for seed := range draws {
		ask := fmt.Sprintf(`{"max":2,"seed":%d}`, seed)
		var one, again api.PreviewResponse
		s.do("POST", queuePath("orders", "/strategies/preview"), ask, http.StatusOK, &one)
		count[one.Picks[0].Shard]++
		if seed%50 > 0 {
			continue
		}
		s.do("POST", queuePath("orders", "/strategies/preview"), ask, http.StatusOK, &again)
		if one.Seed != uint64(seed) || fmt.Sprint(again) != fmt.Sprint(one) || len(one.Picks) != 2 || one.Picks[0].Among == 0 {
			t.Errorf("the seed %d gives %+v, and then %+v", seed, one, again)
		}
	}
	// Of ten chunks, eight are in shard 2. The seeds are fixed, so the numbers are the same in every run.
	if n := count[2]; n < draws*7/10 || n > draws*9/10 || count[1] == 0 || count[3] == 0 || count[4] > 0 {
		t.Errorf("the first pick is from these shards: %v", count)
	}
}

// Shards with the same work do not draw the same places by one seed. Two of them draw the same first places
// by chance in fewer than one of a billion runs.
func TestShardsDrawForThemselves(t *testing.T) {
	t.Parallel()
	s := newOrders(t, api.QueueSettingsInput{})
	place := map[string]int{}
	for i, made := range s.spread(4*50, 1) {
		place[made.ID] = i / 4
	}
	seed := rand.Uint64() & api.MaxSeed
	t.Logf("the seed is %d", seed)
	var preview api.PreviewResponse
	s.do("POST", queuePath("orders", "/strategies/preview"), api.PreviewRequest{Max: 100, Seed: &seed}, http.StatusOK, &preview)
	drawn := map[int][]int{}
	for _, pick := range preview.Picks {
		drawn[pick.Shard] = append(drawn[pick.Shard], place[pick.Submission])
	}
	for a := 1; a <= 4; a++ {
		for b := 1; b < a; b++ {
			if n := min(8, len(drawn[a]), len(drawn[b])); slices.Equal(drawn[a][:n], drawn[b][:n]) {
				t.Errorf("shard %d draws %v, and shard %d draws %v", a, drawn[a], b, drawn[b])
			}
		}
	}
}

// An explanation adds up the chunks that the blocks refuse in all shards, and names the shard of each value.
func TestShardsExplain(t *testing.T) {
	t.Parallel()
	s := newOrders(t, api.QueueSettingsInput{})
	made := s.spread(8, 3)
	s.reserve("orders", request(`OldestFirst`, 4)) // three of the first group, one of the second
	s.do("POST", queuePath("orders", "/rules"), fmt.Sprintf(`{"action":"pause","match":{"meta":{"group":%q}}}`, made[7].Group),
		http.StatusCreated, nil)
	ask := map[string]any{"strategy": `MaxSimultaneous("group", 1, OldestFirst)`, "max": 100}
	var x api.ExplainResponse
	s.do("POST", queuePath("orders", "/strategies/explain"), ask, http.StatusOK, &x)
	limit := x.Tree[0]
	if limit.Entered.Chunks != 17 || limit.Refused.Chunks != 2 || limit.Passed.Chunks != 15 || x.Submissions != 8 || x.Examined != 8 {
		t.Errorf("the limit: %+v", limit)
	}
	if len(limit.Top) != 1 || limit.Top[0].Shard != made[1].Shard || limit.RefusedValues != 1 {
		t.Errorf("the refused values: %+v", limit.Top)
	}
	if len(x.Ruled) != 1 || x.Ruled[0].Refused.Chunks != 3 || !slices.Equal(x.Ruled[0].Rule.Shards, []int{made[7].Shard}) ||
		!wholeRule(x.Ruled[0].Rule.ID) {
		t.Errorf("the rules: %+v", x.Ruled)
	}
	if len(x.Picks) != 5 { // each group may have one, and two groups have one, and one is paused
		t.Errorf("%d picks: %+v", len(x.Picks), x.Picks)
	}
	if len(x.Branches) != 1 || x.Strategy != ask["strategy"] {
		t.Errorf("the branches: %+v", x.Branches)
	}
}

// A comparison is that of two previews of all shards.
func TestShardsCompare(t *testing.T) {
	t.Parallel()
	s := newOrders(t, api.QueueSettingsInput{})
	made := s.spread(8, 2)
	var c api.CompareResponse
	ask := map[string]any{"a": "OldestFirst", "b": `PreferDistinct("group", OldestFirst)`, "max": 8}
	s.do("POST", queuePath("orders", "/strategies/compare"), ask, http.StatusOK, &c)
	if c.A.Picks != 8 || c.B.Picks != 8 || c.Overlap != 4 || len(c.OnlyA) != 4 || len(c.OnlyB) != 4 ||
		c.OnlyA[0].Shard != made[0].Shard || c.OnlyB[0].Submission != made[4].ID {
		t.Errorf("the comparison: %+v", c)
	}
	for _, key := range c.B.Keys {
		if key.Key == "group" && (key.Distinct != 8 || key.Jain != 1) {
			t.Errorf("the groups under PreferDistinct: %+v", key)
		}
	}
	one := func(i int) string { return fmt.Sprintf("SelectOnly(%q, %q, OldestFirst)", "group", made[i].Group) }
	ask = map[string]any{"a": one(1), "b": one(2)} // each is in a shard of its own
	s.do("POST", queuePath("orders", "/strategies/compare"), ask, http.StatusOK, &c)
	if c.Overlap != 0 || len(c.OnlyA) != 2 || c.OnlyA[0].Submission != made[1].ID || c.OnlyB[0].Submission != made[2].ID {
		t.Errorf("the comparison of two groups: %+v", c)
	}
}

// A strategy whose picks no shard can foresee by itself is refused, with the field and the reason.
func TestShardsCannotForesee(t *testing.T) {
	t.Parallel()
	s := newOrders(t, api.QueueSettingsInput{})
	s.alone() // over several nodes, these strategies are refused for more than that
	s.spread(8, 2)
	for strategy, why := range map[string]string{`Fair("group", Random)`: "one ledger", `MaxSimultaneous("user", 2, Random)`: `the key "user"`,
		`MaxRate("user", 2, "1s", OldestFirst)`: "reservations",
		`PreferDistinct("user", Random)`:        `the key "user"`} {
		for below, field := range map[string]string{"preview": "strategy", "explain": "strategy", "compare": "b"} {
			ask := map[string]any{"a": "Random", field: strategy}
			if field != "b" {
				delete(ask, "a")
			}
			p := s.refused("POST", queuePath("orders", "/strategies/"+below), ask, http.StatusUnprocessableEntity)
			if len(p.Errors) != 1 || p.Errors[0].Pointer != "/"+field || !strings.Contains(p.Errors[0].Detail, why) ||
				!strings.Contains(p.Errors[0].Detail, `"orders~1"`) {
				t.Errorf("%s of %s: %+v", below, strategy, p)
			}
		}
	}
	for body, pointer := range map[string]string{`{"strategy":"OldestFirst","max":101}`: "/max", `{"strategy":"OldestFirst","seed":-1}`: "/seed",
		`{"strategy":"OldestFirst","colour":1}`: "/colour"} {
		p := s.refused("POST", queuePath("orders", "/strategies/preview"), body, http.StatusUnprocessableEntity)
		if len(p.Errors) != 1 || p.Errors[0].Pointer != pointer {
			t.Errorf("%s: %+v", body, p)
		}
	}
}

// A preview lacks the chunks of a shard that does not serve, and names it.
func TestShardsPreviewWithoutOne(t *testing.T) {
	t.Parallel()
	s := newOrders(t, api.QueueSettingsInput{})
	made := s.spread(4, 1)
	s.setAside()
	var preview api.PreviewResponse
	got := s.do("POST", queuePath("orders", "/strategies/preview"), `{"strategy":"OldestFirst"}`, http.StatusOK, &preview)
	if len(preview.Picks) != 3 || preview.Picks[2].Submission != made[3].ID || got.header.Get(headerMissing) != "orders~3" ||
		len(preview.MissingShards) != 1 || preview.MissingShards[0].Shard != "orders~3" {
		t.Errorf("the preview: %+v", preview)
	}
}

// A question about a chunk or a submission names the shard. A name of a strategy means the same in all of them.
func TestShardsWhyByName(t *testing.T) {
	t.Parallel()
	s := newOrders(t, api.QueueSettingsInput{})
	s.do("PUT", queuePath("orders", "/strategies/own"), `{"strategy":"OldestFirst"}`, http.StatusCreated, nil)
	for _, made := range s.spread(4, 1) {
		var why api.WhyResponse
		s.do("POST", "/v1/submissions/"+made.ID+"/chunks/0/why", `{"strategy":{"name":"own"}}`, http.StatusOK, &why)
		var d api.Diagnosis
		s.do("GET", "/v1/submissions/"+made.ID+"/diagnosis", nil, http.StatusOK, &d)
		if why.Strategy != "OldestFirst" || why.Shard != made.Shard || d.Shard != made.Shard {
			t.Errorf("shard %d: %+v, %+v", made.Shard, why, d)
		}
	}
}

// A tenant previews its own chunks in all shards, and is asked nothing else.
func TestShardsPreviewOfATenant(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("PUT", "/v1/queues/orders", `{"settings":{"shards":4}}`, 201, nil)
	var want []string
	for i := range 16 {
		var made api.Submission
		body := fmt.Sprintf(`{"group":"g%d","meta":{"company":%d},"chunks":{"count":1,"prefix":"x"}}`, i/2, 7+i%2)
		f.do("POST", "/v1/queues/orders/submissions", body, 201, &made)
		if i%2 == 0 {
			want = append(want, made.ID)
		}
	}
	f.do("POST", "/v1/queues/orders/reservations", `{"strategy":"SelectOnly(\"company\", 8, Random)","max":100}`, 200, nil)
	entry := queue.MetaEntry{Key: "company", Value: queue.IntValue(7)}
	_, mine := f.token(engine.TokenRequest{Name: "tenant", Scopes: restrictableScopes,
		Restriction: access.Restriction{Queues: []string{"orders"}, Entry: entry}})
	for shard := range 4 {
		f.eventually("the nodes know the token", func() bool {
			list := call{method: "GET", path: fmt.Sprintf("/v1/queues/orders~%d/submissions", shard+1)}
			return f.as(mine, list).status == http.StatusOK && f.send(list).status == http.StatusUnauthorized
		})
	}
	for _, strategy := range []string{"OldestFirst", `SelectAny("company", [7, 8], OldestFirst)`} {
		body, _ := json.Marshal(map[string]any{"strategy": strategy, "max": 100})
		got := f.as(mine, call{method: "POST", path: "/v1/queues/orders/strategies/preview", body: string(body)})
		var preview api.PreviewResponse
		got.decode(t, &preview)
		var ids []string
		for _, pick := range preview.Picks {
			ids = append(ids, pick.Submission)
		}
		slices.Sort(ids) // in one millisecond, ids of several shards are in no order of time
		slices.Sort(want)
		if got.status != http.StatusOK || !slices.Equal(ids, want) || !strings.HasPrefix(preview.Strategy, `SelectOnly("company", 7`) {
			t.Errorf("%s: %d %+v, want %v", strategy, got.status, preview, want)
		}
	}
	distinct := call{method: "POST", path: "/v1/queues/orders/strategies/preview", body: `{"strategy":"PreferDistinct(\"group\", OldestFirst)"}`}
	if got := f.as(mine, distinct); got.status != http.StatusUnprocessableEntity || !strings.Contains(string(got.body), "PreferDistinct") {
		t.Errorf("%d %s, want 422", got.status, got.body)
	}
	shown := 0
	for shard := range 4 { // the chunks of others in flight are not shown
		distinct.path = fmt.Sprintf("/v1/queues/orders~%d/strategies/preview", shard+1)
		got := f.as(mine, distinct)
		shown += strings.Count(string(got.body), `"submission"`)
		if got.status != http.StatusOK || strings.Contains(string(got.body), "in_flight") {
			t.Errorf("%s: %d %s", distinct.path, got.status, got.body)
		}
	}
	if shown != 8 {
		t.Errorf("the shards show %d chunks, want 8", shown)
	}
	for below, body := range map[string]string{"explain": `{"strategy":"OldestFirst"}`, "compare": `{"a":"OldestFirst","b":"Random"}`} {
		if got := f.as(mine, call{method: "POST", path: "/v1/queues/orders/strategies/" + below, body: body}); got.status != http.StatusForbidden {
			t.Errorf("%s: %d %s, want 403", below, got.status, got.body)
		}
	}
}
