package engine

// A reserve over several shards. For each branch of the plan, one after the other, the shards' heads are merged (package merge) until there
// are enough chunks. A reserve by Random uses weights that an earlier one found, if they are fresh (sharded_heads.go). A plan that admits
// only one group goes to the shard of that group as it is. When no shard has chunks, the call waits in all of them.
//
// A shard that does not serve gives nothing, and stalls nothing. The call fails only if no shard serves. Shards of other
// nodes are asked by errands (sharded_errand.go): one to each node for all heads, and one for each turn.

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/engine/together"
)

// Reserve hands chunks of all shards to a consumer. The reservations are appended to dst.
func (s *Sharded) Reserve(ctx context.Context, r ReserveRequest, dst []queue.Reservation) (ReserveResult, error) {
	settings, err := s.settings()
	if err == nil {
		err = validReserve(&r, settings)
	}
	if err != nil {
		return ReserveResult{Reservations: dst}, err
	}
	return s.reserve(ctx, &r, dst)
}

func (s *Sharded) reserve(ctx context.Context, r *ReserveRequest, dst []queue.Reservation) (ReserveResult, error) {
	var started time.Time
	var grown <-chan struct{}
	if r.Wait > 0 {
		started = s.e.options.Now()
	}
	for wait := r.Wait; ; wait = max(0, r.Wait-s.e.options.Now().Sub(started)) {
		more := s.groups.coming()
		if wait > 0 {
			grown = growthOf(s)
		}
		of := s.serving(r.Plan)
		if len(of.shards) == 0 {
			return ReserveResult{Reservations: dst}, of.refused
		}
		asked, most := r, wait
		if r.Plan.Percents() { // the number changes with what is in flight
			asked, most = numbered(s, r), min(wait, machine.RetryScored)
		}
		out, err := s.reserveFrom(ctx, asked, of, most, more, grown, dst)
		if err != nil || wait == 0 || len(out.Reservations) > len(dst) || !of.partly && asked == r && !isClosed(grown) {
			return out, err
		}
	}
}

// isClosed says that a channel to which nothing is sent is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// partlyMost is how long a call waits in the only shard that has some of its groups before it looks for the other groups.
const partlyMost = time.Second

// reserveFrom reserves from the shards that serve. A wait also ends when the queue gets more shards, and if the plan names
// groups, when more groups come.
func (s *Sharded) reserveFrom(ctx context.Context, r *ReserveRequest, of *serving, wait time.Duration, more, grown <-chan struct{},
	dst []queue.Reservation) (ReserveResult, error) {
	cross := together.CrossingOf(r.Plan)
	switch {
	case r.Plan.Percents(): // over several nodes
		return ReserveResult{Reservations: dst}, s.mergeable(r.Plan)
	case cross.Counts() || cross.Fair && !of.whole && !of.none: // the shards count together, even if the call is about one of them
	case of.whole:
		asked := *r
		if asked.Wait = wait; of.partly {
			asked.Wait = min(wait, partlyMost)
		}
		return of.shards[0].whole(ctx, &asked, dst)
	case of.none:
		asked := *r
		asked.Wait = 0
		out, err := of.shards[0].whole(ctx, &asked, dst)
		if err == nil && wait > 0 && len(out.Reservations) == len(dst) {
			err = until(ctx, more, wait)
		}
		return out, err
	}
	if err := s.mergeable(r.Plan); err != nil {
		return ReserveResult{Reservations: dst}, err
	}
	m := newMerging(ctx, s, of.shards, r, dst)
	if m.cross = cross; cross.Any() && wait > 0 {
		defer s.counts.Wait()()
	}
	if m.grown = grown; of.partly || of.none {
		m.more = more
	}
	if wait > 0 {
		s.shares.waiting.Add(int64(r.Max))
		defer s.shares.waiting.Add(-int64(r.Max))
	}
	var over <-chan time.Time
	for {
		m.counting(m.take)
		if m.err != nil || m.grace > 0 || len(m.got) > m.from || wait == 0 {
			return m.result()
		}
		if over == nil {
			timer := time.NewTimer(wait)
			defer timer.Stop()
			over = timer.C
		}
		if !m.wait(over) {
			return m.result()
		}
	}
}

// until waits until a channel is closed or a time is over. It fails if the caller goes away.
func until(ctx context.Context, closed <-chan struct{}, most time.Duration) error {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// source is a shard as a reserve of the whole queue uses it, whether this node serves it or another one.
type source interface {
	// heads are the next chunks of the branches of a plan.
	heads(ctx context.Context, plan *strategy.Plan) ([]backlog.Head, error)
	// take reserves by one branch of the plan of a call, or by all (branch -1), and appends to dst. If it returns heads, these are the next
	// chunks of the branch.
	take(ctx context.Context, asked *ReserveRequest, branch int, request machine.Request,
		dst []queue.Reservation) (got machine.Reserved, heads []backlog.Head, err error)
	// whole reserves for a call that this shard alone can answer, and waits if the call does.
	whole(ctx context.Context, r *ReserveRequest, dst []queue.Reservation) (ReserveResult, error)
}

// ownShard is a shard that this node serves.
type ownShard struct {
	q      *Queue
	number int
}

func (o ownShard) heads(ctx context.Context, plan *strategy.Plan) ([]backlog.Head, error) {
	return o.q.shard.Heads(ctx, plan, nil)
}

func (o ownShard) take(ctx context.Context, asked *ReserveRequest, _ int, request machine.Request,
	dst []queue.Reservation) (machine.Reserved, []backlog.Head, error) {
	q, started := o.q, o.q.e.options.Now()
	got, err := q.shard.Reserve(ctx, request, dst)
	if err != nil {
		return got, nil, err
	}
	q.counts.reserve.Observe(q.e.options.Now().Sub(started).Seconds(), 1)
	q.counts.strategies.add(asked.Strategy, len(got.Reservations)-len(dst))
	q.inUse.Add(asked.Plan, asked.Consumer, len(got.Reservations)-len(dst))
	return got, nil, nil
}

func (o ownShard) whole(ctx context.Context, r *ReserveRequest, dst []queue.Reservation) (ReserveResult, error) {
	one := *r
	one.Of = ""
	return o.q.Reserve(ctx, one, dst)
}

// isFar says that another node serves a shard.
func isFar(of source) bool { _, other := of.(farShard); return other }

// numberOf is the number of a shard in its queue.
func numberOf(of source) int {
	if far, other := of.(farShard); other {
		return far.number
	}
	return of.(ownShard).number
}

// serving are the shards that a plan can get something from and that serve.
type serving struct {
	shards  []source
	few     bool  // the plan names groups, and admits no others
	partly  bool  // no shard has some of these yet
	whole   bool  // one shard has all of these
	none    bool  // no shard has any of these yet: the one that is here says only what is wrong with the call
	refused error // why no shard serves
}

func (s *Sharded) serving(plan *strategy.Plan) *serving {
	of := new(serving)
	var all []source
	all, of.refused = s.sources()
	numbers, few, partly := s.asked(plan)
	of.few, of.partly = few, partly
	if !few { // the usual call, which needs no second list
		of.shards = slices.DeleteFunc(all, func(m source) bool { return m == nil })
		return of
	}
	for i, m := range all {
		if m != nil && slices.Contains(numbers, i+1) {
			of.shards = append(of.shards, m)
		}
	}
	switch {
	case len(numbers) == 0:
		of.none = true
		if i := slices.IndexFunc(all, func(m source) bool { return m != nil }); i >= 0 {
			of.shards = all[i : i+1]
		}
	case len(of.shards) == 0:
		_, of.refused = s.shard(numbers[0])
	case len(numbers) == 1:
		of.whole = true
	}
	return of
}

// sources are the shards, here or on other nodes, by number less one; nil: that one does not serve. refused says why the first such shard
// does not.
func (s *Sharded) sources() (all []source, refused error) {
	if here := allHere(s); here != nil {
		return here.sources, nil
	}
	own, absent := s.shards()
	all = make([]source, len(own))
	for i, q := range own {
		if q != nil {
			all[i] = ownShard{q, i + 1}
		} else if at := s.farAt(i + 1); at != nil {
			all[i] = farShard{s, i + 1, at.URL}
		} else {
			refused = absent
		}
	}
	return all, refused
}

// asked are the shards of the groups that a plan names; few: it admits no others; partly: no shard has some of them yet.
func (s *Sharded) asked(plan *strategy.Plan) (numbers []int, few, partly bool) {
	few = len(plan.Branches) > 0
	for i := range plan.Branches {
		plan.Branches[i].Leaves(func(leaf *strategy.Branch) bool {
			at := slices.IndexFunc(leaf.Filters, func(f strategy.Filter) bool { return f.Key == queue.GroupKey && f.Index() != nil })
			if few = few && at >= 0; few {
				for _, value := range leaf.Filters[at].Index() {
					n := s.groups.of(value.String())
					if partly = partly || n == 0; n > 0 && !slices.Contains(numbers, n) {
						numbers = append(numbers, n)
					}
				}
			}
			return few
		})
	}
	return numbers, few, few && partly
}

// mergeable refuses plans that several shards cannot follow exactly: scores and nested shares, and on several nodes shares and all that
// counts by another key than the group.
func (s *Sharded) mergeable(plan *strategy.Plan) error {
	if err := countsInOne(plan, !s.Spread()); err != nil {
		return err
	}
	for i := range plan.Branches {
		switch br := &plan.Branches[i]; {
		case br.Scored != nil:
			return notMerged(plan, br, "ranks candidates")
		case br.Fair == "":
		case s.Spread():
			// By the key "group" Fair needs all shards as well: it shares out work among the groups.
			return notTogether(br.Fair, outermost(plan, br), oneGroup)
		case slices.ContainsFunc(br.Inner, func(inner strategy.Branch) bool { return inner.Fair != "" }):
			return notMerged(plan, br, "with another Fair inside shares out the chunks")
		}
	}
	return nil
}

// oneGroup is the advice for blocks that the shard of one group can keep alone.
var oneGroup = fmt.Sprintf("select one group, as in SelectOnly(%q, \"NAME\", ...)", queue.GroupKey)

// notMerged refuses a branch that one shard has to follow alone.
func notMerged(plan *strategy.Plan, br *strategy.Branch, does string) error {
	instead := oneGroup
	if cross := together.CrossingOf(plan); cross.Counts() { // one group is not enough: other shards have chunks of these values, too
		instead = fmt.Sprintf("count by the key %q only, and %s", queue.GroupKey, oneGroup)
	}
	return queue.Invalid("/strategy", "cannot be kept exactly, because the queue has several shards: %s %s of one shard only. Instead, %s",
		outermost(plan, br), does, instead)
}

// outermost is the path to the Score, Plugin or Fair that a branch is.
func outermost(plan *strategy.Plan, br *strategy.Branch) (path string) {
	br.Leaves(func(leaf *strategy.Branch) bool {
		path = plan.PathTo(leaf, func(n *strategy.Node) bool { return n.Fair != "" || n.Block == "Score" || n.Block == "Plugin" })
		return false
	})
	return path
}

// countsInOne refuses a plan with limits that one shard cannot keep, as others have chunks of the same values, too. inOne says that the
// shards count chunks in flight together.
func countsInOne(plan *strategy.Plan, inOne bool) (err error) {
	for i := range plan.Branches {
		plan.Branches[i].Leaves(func(leaf *strategy.Branch) bool {
			for _, l := range slices.Backward(leaf.Limits) { // of two limits by missing=one, the one without the key comes first
				if instead := insteadOf(l, inOne); instead != "" {
					path := plan.PathTo(leaf, func(n *strategy.Node) bool { return slices.Contains(n.Limits, l) })
					err = notTogether(l.Key, path, instead)
					return false
				}
			}
			if leaf.Fewest == "" {
				return true
			}
			l := strategy.Limit{Key: leaf.Fewest}
			if leaf.FewestOne {
				l.Key = queue.Without(leaf.Fewest)
			}
			if instead := insteadOf(l, inOne); instead != "" {
				path := plan.PathTo(leaf, func(n *strategy.Node) bool { return n.Block == "PreferDistinct" && !n.Soft })
				err = notTogether(l.Key, path, instead)
			}
			return err == nil
		})
	}
	return err
}

// insteadOf says what can be used instead of a limit that one shard cannot keep; "": it can keep the limit.
func insteadOf(l strategy.Limit, inOne bool) string {
	var advice []string
	const byGroup = "use the key \"" + queue.GroupKey + "\""
	switch key, lacking := queue.LackedBy(l.Key); {
	case key == queue.GroupKey: // submissions without a group are all in the first shard
	case !inOne:
		advice = append(advice, byGroup)
	case lacking:
		advice = append(advice, "leave missing=one out, or "+byGroup)
	}
	if l.Percent > 0 && !inOne {
		advice = append(advice, "give a number")
	}
	return strings.Join(advice, " and ")
}

// notTogether refuses a block that counts chunks of all shards by a key, at the end of this path.
func notTogether(key queue.MetaKey, path, instead string) error {
	if of, lacking := queue.LackedBy(key); lacking {
		return queue.Invalid("/strategy", "cannot be kept exactly, because the queue has several shards: %s counts submissions without "+
			"the key %q, and each shard counts only its own. Instead, %s", path, of, instead)
	}
	return queue.Invalid("/strategy", "cannot be kept exactly: %s counts chunks of all shards of the queue. That is possible if the "+
		"call names the whole queue, and all its shards are on one node. Otherwise %s", path, instead)
}
