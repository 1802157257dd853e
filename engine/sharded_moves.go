package engine

// A group moves to another shard of its queue when it has no open submissions, so that no strategy, limit or order ever sees it in two:
//
//	an operator asks, or the shard drains ─► the row of the group in its shard says where it is to go
//	nothing of it is open any more         ─► gone:  its shard opens nothing of it from now on           (journal of the old shard)
//	                                          adopt: the new shard has its limits and its description    (journal of the new shard)
//	                                          the catalogue says where it is, and inserts go there
//
// Until a group is empty, it stays, and all work goes on. So a move holds nothing back, and a group that always has open submissions does
// not move. Each step is durable before the next. The node of the old shard makes the steps. After a restart it goes on from the state in
// the row and the catalogue. To repeat a step changes nothing, because the moves of a group are counted.
//
// A node that does not know of a move yet sends inserts to the old shard, which refuses them, and then the node looks again. If the old
// shard knows the idempotency key of an insert, its answer is used.

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

const (
	// movedTries and movedLook bound how long an insert waits for the catalogue to know where a group went.
	movedTries = 100
	movedLook  = 20 * time.Millisecond

	// movesAtOnce is how many groups of a shard are moved before others get a turn.
	movesAtOnce = 100
)

// lookAgain makes inserts undecided that were refused because their group has moved. false: there are none.
func lookAgain(list []queue.Insertion, atomic bool) (again bool) {
	for i := range list {
		if queue.IsGroupMoved(list[i].Err) {
			list[i].Err, again = nil, true
		}
	}
	for i := range list {
		if again && atomic { // all were refused for the one
			list[i].Err = nil
		}
	}
	return again
}

// awaitMove waits until the catalogue may know more about where groups are.
func awaitMove(ctx context.Context, s *Sharded) {
	more := s.groups.coming()
	if s.e.nodes != nil {
		_ = s.e.nodes.catchUp() // else it is tried again in a moment
	}
	_ = s.follow()
	select {
	case <-more:
	case <-time.After(movedLook):
	case <-ctx.Done():
	}
}

// cameLately is the shard that a group came from, as long as that shard knows idempotency keys of the group; 0: none does. For "" it is the
// first shard, as long as it knows keys from before the queue was divided.
func cameLately(s *Sharded, group string) int {
	s.groups.mu.RLock()
	defer s.groups.mu.RUnlock()
	came := s.groups.came[group]
	if came.shard == 0 || queue.At(s.e.options.Now()).Sub(came.at) > queue.IdempotencyWindow {
		return 0
	}
	return came.shard
}

// answerRepeated answers inserts into a shard that were already made in another one: in the one that their group came from, or in the first
// when it was the only one. If that shard does not answer, they are refused, because they could be made twice.
func answerRepeated(ctx context.Context, s *Sharded, number int, list []queue.Insertion) {
	divided := cameLately(s, "")
	for i := range list {
		in := &list[i]
		if in.Decided() || in.New.IdempotencyKey == "" {
			continue
		}
		came := cameLately(s, in.New.Meta.GroupOf())
		if came > 0 {
			askRepeated(ctx, s, came, in)
		}
		if divided > 0 && number != divided && came != divided && !in.Decided() {
			askRepeated(ctx, s, divided, in)
		}
	}
}

// askRepeated answers an insert that was made in another shard.
func askRepeated(ctx context.Context, s *Sharded, number int, in *queue.Insertion) {
	var known knownInsert
	q, err := s.shard(number)
	asked := knownAsked{number, in.New.Meta.GroupOf(), in.New.IdempotencyKey, in.New.Fingerprint}
	if at := s.farAt(number); err != nil && at != nil {
		err = s.askJSON(ctx, farMost, at.URL, askKnown, &asked, &known)
	} else if err == nil {
		known = insertedIn(ctx, q, &asked)
	}
	switch {
	case err != nil:
		in.Err = err
	case known.Refused != nil:
		in.Err = known.Refused
	case known.Known:
		in.Submission, in.Replayed = known.Submission, true
	}
}

// knownAsked asks whether a shard has made an insert.
type knownAsked struct {
	Shard       int
	Group, Key  string
	Fingerprint [16]byte
}

// knownInsert is the answer.
type knownInsert struct {
	Known      bool
	Submission queue.Submission
	Refused    *queue.Error
}

func insertedIn(ctx context.Context, q *Queue, asked *knownAsked) (out knownInsert) {
	n := queue.NewSubmission{IdempotencyKey: asked.Key, Fingerprint: asked.Fingerprint,
		Meta: queue.Meta{{Key: queue.GroupKey, Value: queue.StringValue(asked.Group)}}}
	in := queue.Insertion{New: &n}
	q.shard.Repeated(ctx, &in)
	if refused, is := errors.AsType[*queue.Error](in.Err); is {
		plain := *refused
		plain.Err, out.Refused = nil, &plain
	} else if in.Err != nil {
		out.Refused = &queue.Error{Code: queue.CodeUnavailable, Message: "The shard that the group came from does not answer."}
	}
	out.Known, out.Submission = in.Replayed, in.Submission
	return out
}

func answerKnown(ctx context.Context, s *Sharded, in *knownAsked) (knownInsert, error) {
	q, err := s.own(in.Shard)
	if err != nil {
		return knownInsert{}, err
	}
	return insertedIn(ctx, q, in), nil
}

// MoveGroup has a group go to another shard as soon as it has no open submissions. A move to the shard where it is cancels a move that
// waits. CodeConflict: the group may not go there now, or a drain or another call sent it to a third shard.
func (x *Sharding) MoveGroup(ctx context.Context, queueName, name string, to int) (info GroupInfo, err error) {
	x.of.changing.RLock()
	defer x.of.changing.RUnlock()
	work, err := x.Work(queueName)
	if err != nil {
		return info, err
	}
	q, err := groupShard(work, name)
	if info = groupIn(work, name); err == nil && (q == nil || !info.exists()) {
		err = noGroup(queueName, name)
	}
	if err != nil {
		return info, err
	}
	s := q.many.Load()
	if s == nil {
		return info, queue.Invalid("/shard", "is %d, and the queue has one shard: \"shards\" of its settings makes more", to)
	}
	if err := mayMove(s, q, name, to); err != nil {
		return info, err
	}
	if err := planMove(ctx, q, name, to); err != nil {
		return info, err
	}
	if to != s.number(q) {
		if err := moveGroup(ctx, s, q, name, to); err != nil {
			return info, err
		}
	}
	switch left := s.groups.of(name); left {
	case info.Shard:
		return groupIn(work, name), nil
	case to:
		return GroupInfo{Name: name, Shard: to, Settings: info.Settings, placed: true}, nil
	default:
		return info, &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf("The group went to shard %d at this moment, because its "+
			"shard drains or another call moved it.", left)}
	}
}

// mayMove refuses a move that could not end, or of which a repeated insert could not know.
func mayMove(s *Sharded, q *Queue, name string, to int) error {
	settings := q.config.Load()
	if to < 1 || to > int(s.count.Load()) {
		return queue.Invalid("/shard", "is %d, and the queue has %d shards", to, s.count.Load())
	}
	if to == s.number(q) {
		return nil
	}
	if settings.Drains(to) {
		return queue.Invalid("/shard", "is %d, which drains: it gets no groups", to)
	}
	for _, sch := range q.shard.Schedules.List() {
		if sch.Schedule.Template.Meta.GroupOf() == name {
			return &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf("The schedule %q inserts into the group, and a schedule "+
				"stays in its shard. Delete it, move the group, and create the schedule again.", sch.Name)}
		}
	}
	if came := cameLately(s, name); came > 0 && came != to {
		return &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf("The group came from shard %d less than %d hours ago. Until "+
			"that time is over, it may move back there only: repeated inserts are looked up there.", came,
			int(queue.IdempotencyWindow.Hours()))}
	}
	return nil
}

// planMove writes down where a group is to go.
func planMove(ctx context.Context, q *Queue, name string, to int) error {
	q.values.change.Lock()
	defer q.values.change.Unlock()
	row := q.shard.Settings.GroupRow(name)
	before := row.Moves.To
	if to == q.many.Load().number(q) {
		to = 0
	}
	if row.Moves.Gone {
		return queue.GroupMoved(name, int(row.Moves.To))
	}
	if int(before) == to {
		return nil
	}
	unset(&row, queue.At(q.e.options.Now()))
	row.Moves.To = uint8(to)
	state := func(to uint8) any {
		if to == 0 {
			return nil
		}
		return map[string]uint8{"moving_to": to}
	}
	return q.shard.Settings.Put(&row, state(before), state(row.Moves.To), q.act(ctx, "", "group.move", name))
}

// unset makes the row that records the moves of a group that no one created.
func unset(row *journal.Set, now queue.Time) {
	if row.Version == 0 {
		row.Version, row.Changed, row.Moves.Unset = 1, now, true
	}
}

// moveGroup moves a group if nothing of it is open. The caller has checked that it may.
func moveGroup(ctx context.Context, s *Sharded, q *Queue, name string, to int) error {
	if q.shard.Settings.Use(name).Submissions > 0 {
		return nil
	}
	if err := adoptIn(ctx, s, to, journal.Set{Name: name}); err != nil { // it could not take the group
		return err
	}
	row, gone, err := leaveShard(q, name, to)
	if err != nil || !gone {
		return err
	}
	return endMove(ctx, s, q, row)
}

// leaveShard has a shard open no more submissions of a group, if none is open.
func leaveShard(q *Queue, name string, to int) (row journal.Set, gone bool, err error) {
	q.values.change.Lock()
	defer q.values.change.Unlock()
	for _, sch := range q.shard.Schedules.List() {
		if sch.Schedule.Template.Meta.GroupOf() == name {
			return row, false, nil
		}
	}
	if row = q.shard.Settings.GroupRow(name); row.Moves.Gone {
		return row, true, nil
	}
	unset(&row, queue.At(q.e.options.Now()))
	row.Moves.Gone, row.Moves.To, row.Moves.Last = true, uint8(to), row.Moves.Last+1
	if _, err := q.shard.Settings.Leave(&row); err != nil {
		return row, false, err
	}
	return row, q.shard.Settings.GroupRow(name).Moves.Gone, nil
}

// endMove does the rest of a move after the group has left its shard. It may be repeated.
func endMove(ctx context.Context, s *Sharded, q *Queue, gone journal.Set) error {
	from, to := s.number(q), int(gone.Moves.To)
	here := gone
	here.Moves.Gone, here.Moves.To = false, 0
	if err := adoptIn(ctx, s, to, here); err != nil {
		return err
	}
	if err := store.MoveGroup(s.e.catalogue, s.name, gone.Name, from, to, queue.At(s.e.options.Now())); err != nil {
		return err
	}
	s.e.options.Logger.Info("a group moved to another shard", "queue", s.name, "group", gone.Name, "from", from, "to", to)
	return s.follow()
}

// adoptIn has a shard take over a group, on whichever node it is. A row without a number of moves only asks whether it could.
func adoptIn(ctx context.Context, s *Sharded, number int, row journal.Set) error {
	row.Kind = journal.SetGroup
	q, err := s.shard(number)
	if at := s.farAt(number); err != nil && at != nil {
		return s.askJSON(ctx, farMost, at.URL, askAdopt, adoptAsked{number, row}, &struct{}{})
	}
	if err != nil {
		return err
	}
	return takeOver(q, row)
}

type adoptAsked struct {
	Shard int
	Row   journal.Set
}

func answerAdopt(_ context.Context, s *Sharded, in *adoptAsked) (struct{}, error) {
	q, err := s.own(in.Shard)
	if err != nil {
		return struct{}{}, err
	}
	return struct{}{}, takeOver(q, in.Row)
}

// takeOver gives a shard a group as another one had it.
func takeOver(q *Queue, row journal.Set) error {
	q.values.change.Lock()
	defer q.values.change.Unlock()
	if row.Moves.Last <= q.shard.Settings.GroupRow(row.Name).Moves.Last {
		return nil
	}
	return q.shard.Settings.Put(&row, nil, nil)
}

// moveGroups moves empty groups that are to move, and ends interrupted moves, in the shards of this server.
func (x *Sharding) moveGroups(ctx context.Context) {
	for _, q := range x.of.all() {
		s := q.many.Load()
		if s == nil || s.deleting.Load() || x.whole(s.name) != s {
			continue
		}
		if err := moveFrom(ctx, s, q); err != nil && ctx.Err() == nil {
			x.of.options.Logger.Warn("groups could not move to another shard; the server tries again", "queue", q.name, "error", err)
		}
	}
}

// moveFrom is moveGroups of one shard.
func moveFrom(ctx context.Context, s *Sharded, q *Queue) error {
	number := s.number(q)
	going, gone := q.shard.Settings.Moving()
	for _, row := range gone {
		if s.groups.of(row.Name) != number {
			continue
		}
		if s.e.nodes != nil { // another node may have done it, and more
			if err := errors.Join(s.e.nodes.catchUp(), s.follow()); err != nil {
				return err
			}
		}
		if s.groups.of(row.Name) == number {
			if err := endMove(ctx, s, q, row); err != nil {
				return err
			}
		}
	}
	for _, row := range going[:min(len(going), movesAtOnce)] {
		if to := int(row.Moves.To); mayMove(s, q, row.Name, to) == nil {
			if err := moveGroup(ctx, s, q, row.Name, to); err != nil {
				return err
			}
		}
	}
	if !q.config.Load().Drains(number) {
		return nil
	}
	return drainShard(ctx, s, q, number)
}

// drainShard moves groups of a shard that are empty to the others.
func drainShard(ctx context.Context, s *Sharded, q *Queue, number int) error {
	l, err := s.loads()
	if err != nil {
		return err
	}
	names, err := groupsOf(q)
	moved := 0
	for _, name := range names {
		if q.shard.Settings.Use(name).Submissions > 0 {
			continue
		}
		to := l.lighter()
		if q.config.Load().Drains(to) || err != nil || moved == movesAtOnce {
			return err
		}
		if came := cameLately(s, name); came > 0 { // the only shard that it may go to
			to = came
		}
		if to == number || mayMove(s, q, name, to) != nil {
			continue
		}
		if err = moveGroup(ctx, s, q, name, to); err == nil && s.groups.of(name) == to {
			moved++
			l.groups[to-1]++
			l.load[to-1]++
		}
	}
	return err
}

// DrainShard drains a shard, or stops that: a draining shard gets no new groups, and its groups move to others.
func (x *Sharding) DrainShard(ctx context.Context, name string, number int, drains bool) error {
	_, err := x.of.ChangeQueue(ctx, name, func(settings *queue.Settings) error {
		if number < 1 || number > int(settings.Shards) {
			return queue.Invalid("/path/shard", "is %d, and the queue has %d shards", number, settings.Shards)
		}
		var list []string
		for i := 1; i <= int(settings.Shards); i++ {
			if i == number && drains || i != number && settings.Drains(i) {
				list = append(list, strconv.Itoa(i))
			}
		}
		if len(list) == int(settings.Shards) {
			return &queue.Error{Code: queue.CodeConflict, Message: "All other shards of the queue drain: one has to be left for new " +
				"groups. Add a shard first."}
		}
		settings.DrainingShards = strings.Join(list, ",")
		return nil
	})
	return err
}
