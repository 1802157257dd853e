package web

// Rules of a queue of several shards. A pause of the customer 7 on "orders" is a rule of each shard, with an id of its
// own there. These rules have the action and the match in common. So in answers about the whole queue, a rule has an id
// made of action and match, and each shard finds its own rule by it:
//
//	POST orders/rules  ─► a rule in each shard: 4, 4, 7, 4     ─► "r5f0c2b7791ad003e"
//	DELETE orders/rules/r5f0c2b7791ad003e ─► each shard lifts the rule that says this
//
// Both may be sent again after a failure: a shard that has the rule, or has lifted it, changes nothing.

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// wholeRuleDigits is how many hexadecimal digits follow the r: 64 bits, for at most 10,000 rules.
const wholeRuleDigits = 16

// wholeRule says whether an id is that of a rule in all shards. Ids of rules in one shard are plain numbers, so neither
// is taken for the other.
func wholeRule(id string) bool {
	digits, is := strings.CutPrefix(id, "r")
	return is && len(digits) == wholeRuleDigits && strings.Trim(digits, "0123456789abcdef") == ""
}

// wholeRuleID is the id of a rule in answers about all shards. The engine keeps the conditions of a match sorted, so
// one match has one text.
func wholeRuleID(r *api.Rule) string {
	text, _ := json.Marshal(r.Match) // it is made of texts and numbers
	sum := sha256.Sum256(append([]byte(r.Action+" "), text...))
	return "r" + hex.EncodeToString(sum[:])[:wholeRuleDigits]
}

// ruleOfWhole is the rule of one shard that an id of all shards means: the one in effect, or the last one that ended.
// 0: it has none.
func ruleOfWhole(q *engine.Queue, id string) queue.RuleID {
	for _, held := range q.Rules.Held() {
		if shown := held.Rule.API(); wholeRuleID(&shown) == id {
			return held.Rule.ID
		}
	}
	for _, ended := range q.Rules.Past() {
		if shown := ended.Rule.API(); wholeRuleID(&shown) == id {
			return ended.ID
		}
	}
	return 0
}

// A rule that was set for one shard alone, by its name, is in the list of the whole queue too, with its shard.
//
// inShardsOnly leaves the shards of a rule out if the rule is in all that answered: the list matters only if some lack
// it.
func inShardsOnly(r *api.Rule, answered int) {
	if len(r.Shards) >= answered || r.Match.Submission != "" {
		r.Shards = nil
	}
}

// addRule joins the rules of two shards that have the same action and match. A field that an operator changed in one
// shard alone, such as the reason, is shown as it is in the first shard.
func addRule(sum, one *api.Rule) {
	sum.Chunks += one.Chunks
	sum.Shards = append(sum.Shards, one.Shards...)
}

// addNothing is for changes that answer without a body.
func addNothing(*struct{}, *struct{}) {}

// rulesOverShards is the list of rules, those in effect or those that ended. Each shard has its own time for the end of
// a rule. So the n-th last ended rules of all shards are joined, and the list has the time of the first shard.
func rulesOverShards(x *shardCall) error {
	ended := x.c.QueryParam("state") == "ended"
	seen := map[string]int{} // how often a shard has had a rule
	return gathered(gathering[api.Page[api.Rule], api.Rule]{
		list:    func(p *api.Page[api.Rule]) *[]api.Rule { return &p.Items },
		next:    func(p *api.Page[api.Rule]) *string { return &p.Next },
		missing: func(p *api.Page[api.Rule]) *[]api.MissingShard { return &p.MissingShards },
		key:     func(r *api.Rule) string { return r.ID + " " + r.End + " " + r.Reason },
		add:     addRule,
		named: func(r *api.Rule, p *shardPart) {
			id := wholeRuleID(r)
			turn := fmt.Sprint(p.number, " ", id)
			if r.ID = id; ended && seen[turn] > 0 {
				r.ID += fmt.Sprintf(".%04d", seen[turn]) // taken off below
			}
			seen[turn]++
			r.Shards = []int{p.number}
		},
		done: func(r *api.Rule, answered int) {
			r.ID, _, _ = strings.Cut(r.ID, ".")
			inShardsOnly(r, answered)
		},
		at: func(r *api.Rule) string {
			if ended {
				return downwards(uint64(r.EndedAt.UnixMilli())) + "." + r.ID
			}
			return upTo(r.Since) + "." + r.ID
		},
	})(x)
}

// ruleOverShards is one rule, with the shards in which it holds unless it holds in all.
func ruleOverShards(x *shardCall) error {
	parts := x.parts()
	if err := x.ask(parts); err != nil {
		return err
	}
	good, missing, refused := found(parts)
	if refused != nil {
		return refused
	}
	rule, err := joinedRule(good, len(parts)-len(missing))
	if err != nil {
		return err
	}
	x.lacks(missing)
	x.c.Response().Header().Set("ETag", etagOverAll(good))
	return x.c.JSON(http.StatusOK, rule)
}

// joinedRule joins the answers of the shards about one rule. It does not show the rule's ids in the shards: they
// differ, and mean other rules in other shards.
func joinedRule(good []*shardPart, answered int) (*api.Rule, error) {
	sum := new(api.Rule)
	for i, p := range good {
		var one api.Rule
		if err := p.decode(&one); err != nil {
			return nil, err
		}
		if one.Shards = []int{p.number}; i == 0 {
			*sum = one
		} else {
			addRule(sum, &one)
		}
	}
	sum.ID = wholeRuleID(sum)
	inShardsOnly(sum, answered)
	return sum, nil
}

// setRuleInShards sets a rule in all shards. A rule about a submission is set in the shard that has it.
// It answers when all have it: from then on no shard hands out chunks that the rule covers.
func setRuleInShards(x *shardCall) error {
	if err := x.readBody(); err != nil {
		return err
	}
	var body api.RuleRequest
	parts := x.parts()
	if json.Unmarshal(x.body, &body) == nil && body.Match.Submission != "" {
		id, err := queue.ParseSubmissionID(body.Match.Submission)
		if number := x.engine.NumberIn(x.queue, id); err == nil && number > 0 {
			parts = parts[number-1 : number]
		} else {
			parts = parts[:1] // which refuses it
		}
	}
	if rule, err := ruleOf(&body); err == nil { // else the first shard refuses it
		shown := rule.API()
		if err := x.conditionsOfAll(parts, "rule of this action and match", "/rules/"+wholeRuleID(&shown)); err != nil {
			return err
		}
	}
	if err := x.change(parts, false); err != nil {
		return err
	}
	rule, err := joinedRule(parts, len(parts))
	if err != nil {
		return err
	}
	x.linked(parts[0])
	x.c.Response().Header().Set("ETag", etagOverAll(parts))
	if parts[0].status == http.StatusCreated {
		x.c.Response().Header().Set("Location", "/v1/queues/"+x.queue+"/rules/"+rule.ID)
	}
	return x.c.JSON(parts[0].status, rule)
}
