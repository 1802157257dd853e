package shard

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// The names under which the store keeps the rules, and those that have ended.
const (
	rulesName     = "rules"
	pastRulesName = "rules_past"
)

// Rules are the rules of a shard, as its callers see them.
type Rules struct{ s *Shard }

// Set sets a rule, durably: from its commit on nothing that it covers is handed out. Its ID and Since are drawn here. There is one rule
// for each action and match: a second one takes its place and keeps its id and beginning, and if it asks for the same nothing is
// written. created is false then. It is refused if its Until is not ahead, about a submission that is not open, and beyond MaxRules.
func (p *Rules) Set(r queue.Rule, acts ...queue.Act) (set queue.Rule, created bool, err error) {
	s := p.s
	s.ordering.Lock()
	defer s.ordering.Unlock()
	counted := p.draft(r.Match, func(now queue.Ruling) queue.Ruling { return max(now, r.Ruling()) })
	defer p.reconcile(counted)
	now := s.now()
	s.mu.Lock()
	m := s.m
	known, there := m.rules.Find(r.Action, r.Match)
	switch err = s.usable(); {
	case err != nil:
	case r.Until != 0 && r.Until <= now:
		err = queue.Invalid("/until", "is not ahead of the server's time, %s", now.Std().Format(time.RFC3339))
	case r.Match.Submission != 0 && (m.live(r.Match.Submission) == nil || m.live(r.Match.Submission).ending):
		err = &queue.Error{Code: queue.CodeUnknownSubmission,
			Message: fmt.Sprintf("There is no open submission %s in this queue.", r.Match.Submission)}
	case !there && m.rules.Len() >= queue.MaxRules:
		err = &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf("The queue has %d rules already, the most "+
			"it keeps. Lift those that are not needed any more.", queue.MaxRules)}
	}
	if err != nil || there && known.Same(&r) {
		s.mu.Unlock()
		return known, false, err
	}
	if there { // the op names it, so that a replay onto a row that is younger, and has it lifted already, lifts it again
		r.ID, r.Since = known.ID, known.Since
	} else {
		m.rules.drawn++
		r.ID, r.Since = m.rules.drawn, now
	}
	m.encode(now).Rule(journal.Rule{Rule: r})
	if there {
		m.rules.setting = r.ID
		m.intend(setting{})
	}
	m.actLog.tellRule(now, acts, there, &known, &r)
	waits := commits{first: m.batch}
	s.mu.Unlock()
	if err := s.writer.wait(waits); err != nil {
		return queue.Rule{}, false, err
	}
	s.mu.Lock()
	set, found := s.m.rules.Find(r.Action, r.Match)
	s.Worker.unpark(Action{Kind: KindRule, Rule: r.ID}) // another time may be what fixes it
	s.mu.Unlock()
	if !found {
		return r, true, nil // lifted again meanwhile
	}
	p.shelve(r.Match)
	if r.Revoke {
		p.revoke(set.ID)
	}
	return set, set.ID == r.ID && !there, nil
}

// revoke takes back the reservations of what a rule covers, slice by slice.
func (p *Rules) revoke(id queue.RuleID) {
	s := p.s
	for from, more := uint32(0), true; more; more = from != 0 {
		now := s.now()
		s.mu.Lock()
		if s.usable() != nil {
			s.mu.Unlock()
			return
		}
		from = s.m.rules.revokes(id, from, tickMost)
		s.waiters.serve(now)
		s.mu.Unlock()
	}
}

// Lift ends a rule, durably; what it alone covered is handed out from then on, to those who wait at once. was is false if it had ended
// before: that is no mistake. An id that was never given is one. by is who asks, for Past.
func (p *Rules) Lift(id queue.RuleID, by string, acts ...queue.Act) (lifted queue.Rule, was bool, err error) {
	return p.lift(id, 0, queue.RuleLifted, by, acts...)
}

// endLarge ends a rule whose time is over and that covers too many submissions for one step, as an operator would. more: there may be
// others.
func (p *Rules) endLarge() (more bool) {
	s := p.s
	t, now := &s.Worker.kinds[KindRule], s.now()
	s.mu.Lock()
	id, is := s.m.rules.large(now, s.Worker.parked)
	is = is && s.usable() == nil && t.may(now)
	s.mu.Unlock()
	if !is {
		return false
	}
	_, was, err := p.lift(id, now, queue.RuleOver, "")
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		t.fail(err, now, s.options.Seed())
		s.Worker.blame(Action{Kind: KindRule, Rule: id}, err, now)
	case was:
		t.pass(now, 1)
		delete(s.Worker.blamed, Action{Kind: KindRule, Rule: id})
		s.Worker.slices++
	}
	s.Worker.assess()
	return err == nil && was
}

// lift is Lift; with a time, of a rule that is over by then only: someone may have set it again.
func (p *Rules) lift(id queue.RuleID, over queue.Time, end queue.RuleEnd, by string,
	acts ...queue.Act) (lifted queue.Rule, was bool, err error) {
	s := p.s
	s.ordering.Lock()
	defer s.ordering.Unlock()
	stands := func(r *queue.Rule) bool { return over != 0 && (r.Until == 0 || r.Until > over) }
	if lifted, was = p.Get(id); was && stands(&lifted) {
		return lifted, false, nil
	}
	if was {
		other := queue.Pause
		if lifted.Action == queue.Pause {
			other = queue.Block
		}
		defer p.reconcile(p.draft(lifted.Match, func(queue.Ruling) queue.Ruling { return s.m.rules.Only(other, lifted.Match) }))
	}
	now := s.now()
	s.mu.Lock()
	lifted, was = s.m.rules.ByID(id)
	var waits commits
	switch err = s.usable(); {
	case err != nil:
	case !was && id > s.m.rules.Last():
		err = &queue.Error{Code: queue.CodeUnknownRule, Message: fmt.Sprintf("There never was a rule %d in this queue.", id)}
	case !was:
	case s.m.rules.lifts(id):
		waits.add(s.writer.pending())
	default:
		alone := s.Worker.blamed[Action{Kind: KindRule, Rule: id}] > 0 // no one else is to fail with it again
		if alone {
			s.writer.seal()
		}
		s.m.rules.lift(id, now, end, by)
		s.m.actLog.tellRule(now, acts, true, &lifted, nil)
		waits.add(s.m.batch)
		if alone {
			s.writer.seal()
		}
	}
	s.mu.Unlock()
	if err != nil {
		return queue.Rule{}, false, err
	}
	if err := s.writer.wait(waits); err != nil || !was {
		return lifted, was, err
	}
	s.mu.Lock()
	s.Worker.unpark(Action{Kind: KindRule, Rule: id})
	s.mu.Unlock()
	p.shelve(lifted.Match)
	return lifted, was, nil
}

// draft counts beforehand, slice by slice, what a value comes under if what rules say of it becomes what fn says, so that the change itself
// is one step. It returns the machine that has the draft, nil if there is none; reconcile has to follow.
func (p *Rules) draft(match queue.RuleMatch, fn func(now queue.Ruling) queue.Ruling) (in *machine) {
	s := p.s
	if match.Whole() || match.Submission != 0 {
		return nil
	}
	s.mu.Lock()
	if s.usable() == nil {
		now := s.m.rules.On(match)
		if ruling := fn(now); ruling != now {
			in = s.m
			in.backlog.Draft(match.Entry, ruling)
		}
	}
	s.mu.Unlock()
	p.slicesOf(in, func(from int) int { return in.backlog.Prepare(from, countMost) })
	return in
}

// countMost is how many submissions one hold of the mutex enters into a book.
const countMost = 2000

// reconcile ends a draft, whether or not it came to anything.
func (p *Rules) reconcile(in *machine) {
	p.slicesOf(in, func(from int) int { return in.backlog.Reconcile(from, countMost) })
}

// slicesOf calls fn in holds of the mutex, first with -1, then with what it returned, until that is 0 or the machine is gone; nil is.
func (p *Rules) slicesOf(in *machine, fn func(from int) (next int)) {
	s := p.s
	for from, more := -1, in != nil; more; more = from != 0 {
		s.mu.Lock()
		if s.m != in {
			s.mu.Unlock()
			return
		}
		from = fn(from)
		s.mu.Unlock()
	}
}

// shelve puts what has a value, and is held back, behind shut gates, slice by slice, so that no reserve has to: nothing depends on
// when it is done.
func (p *Rules) shelve(match queue.RuleMatch) {
	s := p.s
	if match.Whole() || match.Submission != 0 {
		return
	}
	s.mu.Lock()
	in := s.m
	s.mu.Unlock()
	p.slicesOf(in, func(from int) int { return in.backlog.Shelve(match.Entry, from, shelveMost) })
}

// List lists the rules by ascending id. The list must not be changed.
func (p *Rules) List() []queue.Rule {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.rules.List()
}

// Len is how many rules there are.
func (p *Rules) Len() int {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.rules.Len()
}

// HeldRule is a rule that holds, with the chunks that it keeps from being handed out. Several rules may keep the same ones.
type HeldRule struct {
	queue.Rule
	Chunks uint64
}

// Held lists the rules by ascending id, each with what it keeps.
func (p *Rules) Held() []HeldRule {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.m.rules.List()
	out := make([]HeldRule, len(list))
	for i := range list {
		out[i] = HeldRule{Rule: list[i], Chunks: s.m.rules.keptBy(&list[i].Match)}
	}
	return out
}

// keptBy counts the chunks that would be available, were it not for the rules on what is matched and those on others that cover it too.
func (p *activeRules) keptBy(match *queue.RuleMatch) uint64 {
	m := p.m
	switch {
	case match.Whole():
		n := m.backlog.Amounts()
		return n.Paused + n.Blocked
	case match.Submission == 0:
		n := m.backlog.Value(match.Entry.Key, match.Entry.Value)
		return n.Paused + n.Blocked
	}
	if r := m.record(match.Submission); r != nil {
		sub := m.info(r, "")
		return uint64(sub.Paused) + uint64(sub.Blocked)
	}
	return 0
}

// Past lists the last queue.MaxEndedRules rules that have ended, the last one first.
func (p *Rules) Past() []queue.EndedRule {
	s := p.s
	s.mu.Lock()
	list := s.m.rules.past.List()
	s.mu.Unlock()
	slices.Reverse(list)
	return list
}

// Get is a rule by its id, false if there is none.
func (p *Rules) Get(id queue.RuleID) (queue.Rule, bool) {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.rules.ByID(id)
}

// Covering is the rule that counts for submissions with this meta, also for those that are not inserted yet; false if none covers them.
func (p *Rules) Covering(meta queue.Meta) (queue.Rule, bool) {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.rules.Covering(0, meta)
}

// refusal is why something with this meta may not be inserted now, nil if it may. The mutex is held.
func (p *activeRules) refusal(meta queue.Meta) error {
	rule, refused := p.Refusing(meta)
	if !refused {
		return nil
	}
	text := describe(&rule)
	if rule.Until != 0 {
		text += fmt.Sprintf(". It ends at %s", rule.Until.Std().Format(time.RFC3339))
	}
	return &queue.Error{Code: queue.CodeRefusedByRule, Message: "Inserts are refused by " + text + "."}
}

// ruleRows are what the store is to know of rules, and of those that have ended; nil: it does.
type ruleRows struct{ standing, past []byte }

// rows makes them. The mutex is held.
func (p *activeRules) rows(now queue.Time) (rows ruleRows) {
	if p.changed {
		p.changed = false
		row := journal.Rules{Position: p.m.applied, Last: p.Last(), Rules: p.List()}
		p.Graces(now, func(match queue.RuleMatch, until queue.Time) {
			row.Graces = append(row.Graces, journal.Grace{Match: match, Until: until})
		})
		rows.standing = journal.AppendRules(nil, &row)
	}
	if p.pastChanged {
		p.pastChanged = false
		rows.past = journal.AppendEndedRules(nil, p.past.List())
	}
	return rows
}

// store writes what ruleRows made: first what ended, so that nothing is in neither row. What is in both ends again in the replay.
func (p *Rules) store(ctx context.Context, m *machine, rows ruleRows) error {
	s := p.s
	put := func(name string, row []byte) error {
		if row == nil {
			return nil
		}
		return s.disk.write(func() error { return s.store.PutStanding(ctx, name, row) })
	}
	err := put(pastRulesName, rows.past)
	past := err != nil
	if err == nil {
		err = put(rulesName, rows.standing)
	}
	if err != nil {
		s.mu.Lock()
		m.rules.pastChanged = m.rules.pastChanged || past
		m.rules.changed = m.rules.changed || rows.standing != nil
		s.mu.Unlock()
	}
	return err
}

// load reads what store wrote.
func (p *Rules) load(ctx context.Context, m *machine) error {
	row, err := p.s.store.Standing(ctx, rulesName)
	if err != nil {
		return err
	}
	known, err := journal.DecodeRules(row)
	if err != nil {
		return fmt.Errorf("store: rules: %w", err)
	}
	m.rules.applied = known.Position
	m.rules.SetLast(known.Last)
	for _, r := range known.Rules {
		m.rules.Put(r)
	}
	for _, g := range known.Graces {
		m.rules.SetGrace(g.Match, g.Until)
	}
	if row, err = p.s.store.Standing(ctx, pastRulesName); err != nil {
		return err
	}
	ended, err := journal.DecodeEndedRules(row)
	if err != nil {
		return fmt.Errorf("store: rules that have ended: %w", err)
	}
	for _, r := range ended {
		m.rules.past.Add(r)
	}
	return nil
}

// RuledAmount is how much one rule keeps from every strategy.
type RuledAmount struct {
	Rule    queue.Rule
	Refused Amount
}

// ruleTally counts submissions by the rule that counts for them.
type ruleTally struct {
	of map[queue.RuleID]*RuledAmount
}

// count counts a submission if a rule covers it, and says whether one does.
func (t *ruleTally) count(m *machine, x *backlog.Submission) bool {
	if x.Ruling() == queue.Unruled || x.Available() == 0 {
		return false
	}
	rule, covered := m.rules.covering(x.Data.(*record))
	if !covered {
		return false
	}
	if t.of == nil {
		t.of = map[queue.RuleID]*RuledAmount{}
	}
	if t.of[rule.ID] == nil {
		t.of[rule.ID] = &RuledAmount{Rule: rule}
	}
	t.of[rule.ID].Refused.add(x)
	return true
}

// most are the rules that keep most chunks.
func (t *ruleTally) most() (list []RuledAmount) {
	for _, amount := range t.of {
		list = append(list, *amount)
	}
	slices.SortFunc(list, func(a, b RuledAmount) int {
		return cmp.Or(cmp.Compare(b.Refused.Chunks, a.Refused.Chunks), cmp.Compare(a.Rule.ID, b.Rule.ID))
	})
	return list[:min(topMost, len(list))]
}
