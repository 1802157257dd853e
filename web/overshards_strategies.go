package web

// Questions about strategies of a queue of several shards: preview, explain and compare. Every shard is asked what it
// would hand out by itself, and the engine says in which order a reserve of the whole queue would take these chunks:
//
//	explain orders ─┬─ explain orders~1   7 9 12    entered 100, refused 60 (group a)
//	                └─ explain orders~2   8 20      entered  10, refused  2 (group b)
//	        joined: 7 8 9 12 20, each with its shard; entered 110, refused 62 (a in shard 1, b in shard 2)
//
// The parts are of slightly different moments. A strategy that selects groups of one shard is a question to this shard
// alone. A strategy whose picks no shard can foresee by itself is refused (engine.Foreseeable).
//
// Names of strategies and percentages mean something for the whole queue only. So the shards are asked about the text
// of the plan, with numbers in the place of percentages. For a tenant, each shard narrows this text as it would narrow
// the text of the call, and answers with the narrowed text. The merge follows the text of the answers.
//
// A shard that does not serve gives nothing to a reserve either. The answer has the picks of the other shards, and
// names the missing one.

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

// strategyCall is a question about one strategy to all shards.
type strategyCall struct {
	*shardCall
	engine.Asking
	most    int // chunks; 0: as many as with one shard
	parts   []*shardPart
	good    []*shardPart // that answered; those of the picks and of order have the same indexes
	missing []api.MissingShard
}

// aboutStrategy asks all shards about the strategies of a call, and lets join answer. below is the path of the
// question to the shards, and fields are those of the body that have a strategy. A comparison asks for two previews:
// if the shards compared by themselves, each would name its own differences, and not those of the whole queue.
//
// The first shard refuses numbers out of bounds and invalid bodies, and says what is wrong.
func aboutStrategy(below string, join func(asked []*strategyCall) error, fields ...string) joining {
	return func(x *shardCall) error {
		if err := x.readBody(); err != nil {
			return err
		}
		var body map[string]json.RawMessage
		var numbers struct {
			Max  int
			Seed *uint64
		}
		if json.Unmarshal(x.body, &body) != nil || json.Unmarshal(x.body, &numbers) != nil || numbers.Max < 0 ||
			numbers.Max > engine.MaxPreview || numbers.Seed != nil && *numbers.Seed > engine.MaxSeed {
			return x.inShard(1) // which refuses it
		}
		var all []*strategyCall
		for _, field := range fields {
			asking, err := x.engine.Asking(x.c.Request().Context(), x.queue, body[field], numbers.Max)
			if err != nil {
				return renamed(err, "/strategy", "/"+field)
			}
			if numbers.Seed == nil {
				numbers.Seed = &asking.Seed // both strategies of a comparison draw by one seed
			}
			asking.Seed = *numbers.Seed
			all = append(all, &strategyCall{shardCall: x, Asking: asking, most: numbers.Max})
		}
		at := all[0].Shard
		if at > 0 && !slices.ContainsFunc(all, func(q *strategyCall) bool { return q.Shard != at }) {
			return x.inShard(at)
		}
		var parts []*shardPart
		for i, q := range all {
			if err := x.foreseeable(q.Plan); err != nil {
				return renamed(err, "/strategy", "/"+fields[i])
			}
			parts = append(parts, q.divide(below, body, fields)...)
		}
		if err := x.ask(parts); err != nil {
			return err
		}
		for _, q := range all {
			var refused error
			if q.good, q.missing, refused = answering(q.parts); refused != nil {
				return refused
			}
			x.lacks(q.missing)
		}
		return join(all)
	}
}

// foreseeable refuses a plan whose picks cannot be foreseen over all shards. A merge by chunks in flight needs their
// number, and the answers to a tenant do not have it.
func (x *shardCall) foreseeable(plan *strategy.Plan) error {
	tenant, by := tenantOf(x.c.Request().Context()), func(b strategy.Branch) bool { return b.Fewest != "" }
	if tenant != nil && slices.ContainsFunc(plan.Branches, by) {
		return queue.Invalid("/strategy", "has PreferDistinct, which counts what others have in flight, too. With "+
			"this token, ask one shard, as in %q", queue.ShardName(x.queue, 1))
	}
	return engine.Foreseeable(x.queue, plan)
}

// divide makes the parts of a question. Names of strategies are those of the whole queue, so the shards get the text.
// Each shard draws by a seed of its own: with the same seed, shards with equal work would draw the same places.
func (q *strategyCall) divide(below string, body map[string]json.RawMessage, fields []string) []*shardPart {
	q.parts = q.shardCall.parts()
	for _, p := range q.parts {
		p.path = "/v1/queues/" + url.PathEscape(p.name) + "/strategies/" + below
		own := maps.Clone(body)
		for _, field := range fields {
			delete(own, field)
		}
		own["strategy"], _ = json.Marshal(q.Plan.Text())                                // a text
		own["seed"], _ = json.Marshal((q.Seed + uint64(p.number) - 1) & engine.MaxSeed) // a number
		p.body, _ = json.Marshal(own)                                                   // was read from JSON
	}
	return q.parts
}

// order lists the shards from which a reserve would take, one after the other. text is the strategy that the shards
// followed: a tenant's is narrower than that of the call.
func (q *strategyCall) order(text string, picks [][]api.PreviewPick) ([]int, error) {
	s, err := strategy.Parse(text)
	if err != nil {
		return nil, err
	}
	lists := make([]engine.ForeseenIn, len(picks))
	for i := range picks {
		if lists[i].Picks, err = previewedOf(picks[i]); err != nil {
			return nil, err
		}
		// A list that was cut for its size is longer than half an answer, as no single pick is.
		lists[i].Cut = len(q.good[i].text) > queue.MaxAnswerBytes/2
	}
	return engine.MergeForeseen(s.Plan(), lists, q.most, q.Seed), nil
}

// A pick has all that the merge needs: how much was in flight of its value, and among how many it was drawn. So shards
// of other nodes need no other call than their preview.
//
// previewedOf are the picks of a shard as the engine compares them.
func previewedOf(picks []api.PreviewPick) ([]engine.Previewed, error) {
	list := make([]engine.Previewed, len(picks))
	for i := range picks {
		p, to := &picks[i], &list[i]
		id, err := queue.ParseSubmissionID(p.Submission)
		if err != nil {
			return nil, err
		}
		*to = engine.Previewed{Submission: id, Index: p.Index, Priority: p.Priority, Leaf: p.Branch - 1}
		to.Head.Flight, to.Head.Weight = p.InFlight, p.Among
		if to.Meta, err = queue.NewMeta(queue.EntriesOf(p.Meta)); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// preview is the joined preview. Its picks are those of the shards, in the order in which a reserve of the whole queue
// would take them. It has no warnings: a strategy that scores is refused, unless it is about one shard.
func (q *strategyCall) preview() (*api.PreviewResponse, error) {
	answers := make([]api.PreviewResponse, len(q.good))
	lists := make([][]api.PreviewPick, len(q.good))
	for i, p := range q.good {
		if err := p.decode(&answers[i]); err != nil {
			return nil, err
		}
		lists[i] = answers[i].Picks
	}
	order, err := q.order(answers[0].Strategy, lists)
	if err != nil {
		return nil, err
	}
	sum := &api.PreviewResponse{Strategy: answers[0].Strategy, Seed: q.Seed, MissingShards: q.missing,
		Picks: []api.PreviewPick{}}
	for i := range answers {
		sum.RestartGraceUntil = later(sum.RestartGraceUntil, answers[i].RestartGraceUntil)
	}
	for _, i := range order {
		sum.Picks, lists[i] = append(sum.Picks, lists[i][0]), lists[i][1:]
	}
	return sum, nil
}

// previewOverShards answers what a reserve of the whole queue would hand out now.
func previewOverShards(asked []*strategyCall) error {
	sum, err := asked[0].preview()
	if err != nil {
		return err
	}
	return asked[0].c.JSON(http.StatusOK, sum)
}

// compareOverShards compares the previews of two strategies over all shards.
func compareOverShards(asked []*strategyCall) error {
	var previews [2]*api.PreviewResponse
	var picks [2][]engine.Previewed
	for i, q := range asked {
		var err error
		if previews[i], err = q.preview(); err == nil {
			picks[i], err = previewedOf(previews[i].Picks)
		}
		if err != nil {
			return err
		}
	}
	a, b := previews[0], previews[1]
	found := engine.ComparePicks(picks[0], picks[1])
	out := api.CompareResponse{Overlap: found.Overlap, Seed: a.Seed, MissingShards: a.MissingShards,
		A: api.Spread{Strategy: a.Strategy, Picks: found.A.Picks, Keys: found.A.Keys}, OnlyA: picksOf(a, found.OnlyA),
		B: api.Spread{Strategy: b.Strategy, Picks: found.B.Picks, Keys: found.B.Keys}, OnlyB: picksOf(b, found.OnlyB),
		RestartGraceUntil: later(a.RestartGraceUntil, b.RestartGraceUntil)}
	return asked[0].c.JSON(http.StatusOK, &out)
}

// picksOf are the picks of a preview that are in a list; both have the same order.
func picksOf(preview *api.PreviewResponse, list []engine.Previewed) []api.PreviewPick {
	out := []api.PreviewPick{}
	for i := range preview.Picks {
		p, n := &preview.Picks[i], len(out)
		if n == min(len(list), api.MaxDiffering) {
			break
		}
		if p.Submission == list[n].Submission.String() && p.Index == list[n].Index {
			out = append(out, *p)
		}
	}
	return out
}

// explainOverShards explains a strategy over all shards. Numbers are added up. Refused values and rules are listed
// once for each shard: a value may be among the ten most refused of one shard only.
//
// A pick's shard says why earlier branches did not give the chunk. That is true for the merged order, too, because the
// picks of other shards do not change the counts of this one.
func explainOverShards(asked []*strategyCall) error {
	q := asked[0]
	var sum api.ExplainResponse
	lists, picks := make([][]api.ExplainPick, len(q.good)), make([][]api.PreviewPick, len(q.good))
	for i, p := range q.good {
		var one api.ExplainResponse
		if err := p.decode(&one); err != nil {
			return err
		}
		lists[i] = one.Picks
		for j := range one.Picks {
			picks[i] = append(picks[i], one.Picks[j].Pick)
		}
		if explainedInShard(&one, p.number); i == 0 {
			sum = one
		} else {
			addExplained(&sum, &one)
		}
	}
	order, err := q.order(sum.Strategy, picks)
	if err != nil {
		return err
	}
	sum.Seed, sum.Picks, sum.MissingShards = q.Seed, nil, q.missing
	for _, i := range order {
		sum.Picks, lists[i] = append(sum.Picks, lists[i][0]), lists[i][1:]
	}
	first := func(*api.ExplainPick) string { return "" } // a list without a next page
	if sum.Picks, _, err = pageOf(sum.Picks, "", first, asIs); err != nil {
		return err
	}
	return q.c.JSON(http.StatusOK, &sum)
}

// explainedInShard adds the number of the shard to its refused values and its rules.
func explainedInShard(x *api.ExplainResponse, number int) {
	for _, top := range topsOf(x) {
		for i := range *top {
			(*top)[i].Shard = number
		}
	}
	for i := range x.Ruled {
		rule := &x.Ruled[i].Rule
		rule.ID, rule.Shards = wholeRuleID(rule), []int{number}
	}
}

// topsOf are the lists of values that are refused.
func topsOf(x *api.ExplainResponse) []*[]api.RefusedValue {
	list := []*[]api.RefusedValue{&x.Withheld.Top}
	for i := range x.Tree {
		list = append(list, &x.Tree[i].Top)
	}
	return list
}

// mostRefused is how many values and rules an explanation lists.
const mostRefused = 10

// addExplained adds the numbers of another shard.
func addExplained(sum, one *api.ExplainResponse) {
	sum.Submissions += one.Submissions
	sum.Examined += one.Examined
	addAmount(&sum.Withheld.Refused, one.Withheld.Refused)
	sum.Withheld.RefusedValues += one.Withheld.RefusedValues
	for i := range min(len(sum.Tree), len(one.Tree)) { // one strategy has one tree in all shards
		to, of := &sum.Tree[i], &one.Tree[i]
		addAmount(&to.Entered, of.Entered)
		addAmount(&to.Passed, of.Passed)
		addAmount(&to.Refused, of.Refused)
		to.RefusedValues += of.RefusedValues
	}
	others := topsOf(one)
	for i, top := range topsOf(sum) {
		*top = mostOf(append(*top, *others[i]...), func(v *api.RefusedValue) api.Amount { return v.Refused })
	}
	sum.Ruled = mostOf(append(sum.Ruled, one.Ruled...), func(r *api.RuledAmount) api.Amount { return r.Refused })
	for i := range min(len(sum.Branches), len(one.Branches)) {
		sum.Branches[i].Built = sum.Branches[i].Built && one.Branches[i].Built
	}
	sum.RestartGraceUntil = later(sum.RestartGraceUntil, one.RestartGraceUntil)
}

// mostOf are the entries of a list that hold back the most chunks. Each shard lists its largest ones, so none of the
// largest of all shards is missing.
func mostOf[T any](list []T, refused func(*T) api.Amount) []T {
	slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(refused(&b).Chunks, refused(&a).Chunks) })
	return list[:min(len(list), mostRefused)]
}

// addAmount adds the amount that another shard holds back. A submission is in one shard, so none counts twice.
func addAmount(to *api.Amount, of api.Amount) {
	to.Submissions += of.Submissions
	to.Chunks += of.Chunks
}
