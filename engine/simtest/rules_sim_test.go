package simtest

import (
	"cmp"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// The promises of rules, written without any thought for speed.

// under says whether a submission is under a match; id 0 is one that is not inserted yet.
func under(match queue.RuleMatch, id queue.SubmissionID, meta queue.Meta) bool {
	if match.Whole() || match.Submission != 0 {
		return match.Submission == 0 || match.Submission == id
	}
	for _, c := range match.Conditions() {
		if value, has := meta.Find(c.Key); !has || !slices.Contains(c.Values, value) {
			return false
		}
	}
	return true
}

// ruling is the ruling of all rules on a submission.
func (m *model) ruling(x *modelSub) (is queue.Ruling) {
	for i := range m.rules {
		if under(m.rules[i].Match, x.id, x.asked.Meta) {
			is = max(is, m.rules[i].Ruling())
		}
	}
	return is
}

// whole is the ruling of the rules of the queue.
func (m *model) whole() (is queue.Ruling) {
	for i := range m.rules {
		if m.rules[i].Match.Whole() {
			is = max(is, m.rules[i].Ruling())
		}
	}
	return is
}

// some says whether a rule for which fn is true covers a submission with this meta.
func (m *model) some(id queue.SubmissionID, meta queue.Meta, fn func(*queue.Rule) bool) bool {
	return slices.ContainsFunc(m.rules, func(r queue.Rule) bool { return under(r.Match, id, meta) && fn(&r) })
}

func (m *model) refuses(meta queue.Meta) bool {
	return m.some(0, meta, func(r *queue.Rule) bool { return r.Insert })
}

func (m *model) revokes(x *modelSub) bool {
	return m.some(x.id, x.asked.Meta, func(r *queue.Rule) bool { return r.Revoke })
}

// spares says that no dead deadline ends the submission now.
func (m *model) spares(x *modelSub, now queue.Time) bool {
	if m.ruling(x) != queue.Unruled {
		return true
	}
	return slices.ContainsFunc(m.graces, func(g journal.Grace) bool { return g.Until > now && under(g.Match, x.id, x.asked.Meta) })
}

// setRule puts a rule, and says whether there was none for its action and match.
func (m *model) setRule(r queue.Rule) (created bool) {
	at := slices.IndexFunc(m.rules, func(known queue.Rule) bool { return known.Action == r.Action && known.Match == r.Match })
	if at < 0 {
		m.rules = append(m.rules, r)
		return true
	}
	r.ID, r.Since = m.rules[at].ID, m.rules[at].Since
	m.rules[at] = r
	return false
}

// lift removes rules, and gives the submissions that they covered a grace.
func (m *model) lift(now queue.Time, end queue.RuleEnd, by string, which func(*queue.Rule) bool) {
	m.rules = slices.DeleteFunc(m.rules, func(r queue.Rule) bool {
		if !which(&r) {
			return false
		}
		m.past = append(m.past, queue.EndedRule{Rule: r, Ended: now, End: end, By: by})
		m.graces = append(m.graces, journal.Grace{Match: r.Match, Until: now.Add(m.settings.ReservationTimeout)})
		return true
	})
}

// forgetRules drops the rules about submissions that are not open.
func (m *model) forgetRules(now queue.Time) {
	m.rules = slices.DeleteFunc(m.rules, func(r queue.Rule) bool {
		x := m.sub(r.Match.Submission)
		over := r.Match.Submission != 0 && (x == nil || x.state != queue.Open)
		if over {
			m.past = append(m.past, queue.EndedRule{Rule: r, Ended: now, End: queue.RuleOutlived})
		}
		return over
	})
	m.graces = slices.DeleteFunc(m.graces, func(g journal.Grace) bool {
		x := m.sub(g.Match.Submission)
		return g.Match.Submission != 0 && (x == nil || x.state != queue.Open)
	})
}

func (s *sim) drawMatch() (m queue.RuleMatch) {
	values := []queue.MetaValue{queue.IntValue(0), queue.IntValue(1), queue.IntValue(2), queue.StringValue("1"), queue.IntValue(99)}
	switch s.r.IntN(8) {
	case 0:
	case 2, 3:
		var list []queue.Condition
		for range 1 + s.r.IntN(3) {
			list = append(list, queue.Condition{Key: pickOf(s, "a", "b", "c"), Values: []queue.MetaValue{pickOf(s, values...), pickOf(s, values...)}})
		}
		conditions, err := queue.NewConditions(list)
		s.must("conditions", err)
		m = queue.MatchOf(conditions)
		s.tally.add("a rule about several values", 1)
	case 1:
		if len(s.m.subs) > 0 {
			m.Submission = s.m.subs[s.r.IntN(len(s.m.subs))].id
		}
	default:
		m.Entry = queue.MetaEntry{Key: pickOf(s, "a", "b", "c"), Value: pickOf(s, values...)}
	}
	return m
}

// setRule has an operator set a rule.
func (s *sim) setRule() {
	r := queue.Rule{
		Action: pickOf(s, queue.Pause, queue.Block), Match: s.drawMatch(), Reason: pickOf(s, "x", "y"), Actor: pickOf(s, "", "eve"),
		Insert: s.chance(20), Revoke: s.chance(25),
	}
	if s.chance(40) {
		r.Until = s.now.Add(pickOf(s, time.Millisecond, time.Second, time.Minute, time.Hour))
	}
	s.log.add("%s %s until %d, inserts %v, revokes %v", r.Action, r.Match, r.Until, r.Insert, r.Revoke)
	got, created, err := s.shard.Rules.Set(r, nil)
	if id := r.Match.Submission; id != 0 && s.m.sub(id).state != queue.Open {
		if queue.CodeOf(err) != queue.CodeUnknownSubmission {
			s.fail("a rule about a submission that is %s: got %v", s.m.sub(id).state, err)
		}
		return
	}
	known := slices.IndexFunc(s.m.rules, func(x queue.Rule) bool { return x.Action == r.Action && x.Match == r.Match })
	if known >= 0 && s.m.rules[known].Same(&r) {
		s.must("set a rule again", err)
		s.equal("the rule that is there", got, s.m.rules[known])
		return
	}
	failed, written := s.commitFailed("set a rule", err)
	s.takeEffect([]func(){func() {
		r.Since = s.now
		if r.ID = got.ID; failed { // no caller knows the id
			for _, there := range s.shard.Rules.List() {
				if there.Action == r.Action && there.Match == r.Match {
					r.ID = there.ID
				}
			}
		}
		want := s.m.setRule(r)
		if !failed && created != want {
			s.fail("the rule is said to be new: %v, want %v", created, want)
		}
		s.tally.add(map[bool]string{true: "rule set", false: "rule set again"}[want], 1)
	}}, failed, written)
	if failed {
		return
	}
	if r.Revoke {
		s.takeBack(r.Match)
	}
	s.checkRules()
}

// takeBack releases the chunks in the model that a rule takes back.
func (s *sim) takeBack(match queue.RuleMatch) {
	for _, x := range s.m.subs {
		if x.state != queue.Open || !under(match, x.id, x.asked.Meta) {
			continue
		}
		for _, c := range x.chunks {
			if c.state == queue.ChunkReserved {
				c.state, c.hold = queue.ChunkReady, modelHold{}
				s.m.totals.released++
				s.tally.add("rule takes back", 1)
			}
		}
	}
}

// liftRule has an operator lift a rule, mostly one that is there.
func (s *sim) liftRule() {
	id := queue.RuleID(1 + s.r.IntN(30))
	if len(s.m.rules) > 0 && s.chance(90) {
		id = s.m.rules[s.r.IntN(len(s.m.rules))].ID
	}
	is := func(r *queue.Rule) bool { return r.ID == id }
	there := slices.ContainsFunc(s.m.rules, func(r queue.Rule) bool { return is(&r) })
	s.log.add("lift rule %d, which is there: %v", id, there)
	by := pickOf(s, "", "eve", "adam")
	_, was, err := s.shard.Rules.Lift(id, by)
	if !there {
		if was || err != nil && queue.CodeOf(err) != queue.CodeUnknownRule {
			s.fail("lifting rule %d, which is not there: %v, %v", id, was, err)
		}
		return
	}
	failed, written := s.commitFailed("lift a rule", err)
	if s.takeEffect([]func(){func() { s.m.lift(s.now, queue.RuleLifted, by, is); s.tally.add("rule lifted", 1) }}, failed, written); !failed && !was {
		s.fail("rule %d is said to have been lifted before", id)
	}
	s.checkRules()
}

func (s *sim) checkRules() {
	got := slices.Clone(s.shard.Rules.List())
	want := slices.Clone(s.m.rules)
	slices.SortFunc(want, func(a, b queue.Rule) int { return int(a.ID) - int(b.ID) })
	if len(got)+len(want) > 0 {
		s.equal("rules", got, want)
	}
	past, ended := s.shard.Rules.Past(), slices.Clone(s.m.past)
	slices.SortFunc(ended, func(a, b queue.EndedRule) int { return cmp.Or(cmp.Compare(b.Ended, a.Ended), cmp.Compare(b.ID, a.ID)) })
	if ended = ended[:min(len(ended), queue.MaxEndedRules)]; len(past)+len(ended) > 0 {
		s.equal("rules that have ended", past, ended)
	}
}
