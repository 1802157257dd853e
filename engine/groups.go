package engine

// Groups that someone creates, with limits and a description. The settings of a group are in the journal of its shard, so that its limits
// hold under the mutex of that shard. The catalogue knows the shard, also after the group is deleted: a submission that is on its way finds
// the same shard.

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// GroupSettings are the settings of a group. Versions count from 1; each change makes the next. Version 0: nothing is set.
type GroupSettings struct {
	Description string
	Limits      queue.Quota
	Version     uint32
	Changed     queue.Time // when this version was set
	ETag        string     // names this version; "" when nothing is set
}

func groupSettings(set *journal.Set) GroupSettings {
	s := GroupSettings{Description: set.Text, Limits: set.Quota, Version: set.Version, Changed: set.Changed}
	if s.Version > 0 {
		s.ETag = queue.ETag(s.Version, fmt.Appendf(nil, "%d %d %d %s", s.Limits.Waiting, s.Limits.Submissions, s.Limits.Bytes,
			s.Description))
	}
	return s
}

// GroupGuard decides, by the present settings, whether a change may go on, as a ValueGuard does.
type GroupGuard func(now GroupSettings) error

// PutGroup creates a group with limits and a description, or sets others in their place, durably. The same as before change
// nothing.
func (x *Sharding) PutGroup(ctx context.Context, queueName, name, description string, limits queue.Quota,
	guard GroupGuard) (info GroupInfo, created bool, err error) {
	if err := ValidGroup(name, description, limits); err != nil {
		return info, false, err
	}
	x.of.changing.RLock() // the queue is neither deleted nor divided meanwhile
	defer x.of.changing.RUnlock()
	work, err := x.Work(queueName)
	if err != nil {
		return info, false, err
	}
	q, err := groupShard(work, name)
	if q == nil && err == nil { // no shard has it yet
		if err = guard(GroupSettings{}); err == nil {
			q, err = placeGroup(work, name)
		}
	}
	if err != nil {
		return info, false, err
	}
	created, err = setGroup(ctx, q, journal.Set{Kind: journal.SetGroup, Name: name, Text: description, Quota: limits}, guard)
	return groupIn(work, name), created, err
}

// DeleteGroup removes the settings of a group, durably. Its next submission creates it again, without limits, unless the setting
// group_must_exist refuses that. A group with open submissions stays.
func (x *Sharding) DeleteGroup(ctx context.Context, queueName, name string, guard GroupGuard) error {
	x.of.changing.RLock()
	defer x.of.changing.RUnlock()
	work, err := x.Work(queueName)
	if err != nil {
		return err
	}
	q, err := groupShard(work, name)
	if info := groupIn(work, name); err == nil && (q == nil || !info.exists()) {
		err = noGroup(queueName, name)
	}
	if err != nil {
		return err
	}
	return deleteGroup(ctx, q, name, guard)
}

// groupShard is the shard that has a group; nil: none has it yet.
func groupShard(work Work, name string) (*Queue, error) {
	q, one := work.(*Queue)
	if !one {
		s := work.(*Sharded)
		number := s.groups.of(name)
		if number == 0 {
			return nil, nil
		}
		return s.shard(number)
	}
	many := q.many.Load()
	if many == nil {
		return q, nil
	}
	switch many.groups.of(name) {
	case 0:
		return nil, nil
	case many.number(q):
		return q, nil
	}
	return nil, many.elsewhere(many.number(q), "/path/group", name)
}

// placeGroup chooses the shard for a new group.
func placeGroup(work Work, name string) (*Queue, error) {
	s, several := work.(*Sharded)
	number := 0
	if !several {
		q := work.(*Queue)
		s, number = q.many.Load(), q.many.Load().number(q)
	}
	if err := s.place([]string{name}, number); err != nil {
		return nil, err
	}
	return groupShard(work, name)
}

// setGroup sets the version after the present one. The caller holds e.changing.
func setGroup(ctx context.Context, q *Queue, set journal.Set, guard GroupGuard) (created bool, err error) {
	q.values.change.Lock()
	defer q.values.change.Unlock()
	set.Version = 0
	now, there := q.shard.Settings.Group(set.Name)
	if set.Moves = q.shard.Settings.GroupRow(set.Name).Moves; set.Moves.Gone {
		return false, queue.GroupMoved(set.Name, int(set.Moves.To))
	}
	set.Moves.Unset = false
	before, after := groupSettings(&now), groupSettings(&set)
	switch err := guard(before); {
	case err != nil:
		return false, err
	case there && before.Description == after.Description && before.Limits == after.Limits:
		return false, nil
	case !there && len(q.shard.Settings.Groups()) >= queue.MaxGroups:
		return false, tooManyGroups(queue.MaxGroups)
	}
	set.Version, set.Changed = now.Version+1, queue.At(q.e.options.Now())
	return !there, q.shard.Settings.Put(&set, before.state(), after.state(), q.act(ctx, "", "group.set", set.Name))
}

// deleteGroup removes the settings. The caller holds e.changing.
func deleteGroup(ctx context.Context, q *Queue, name string, guard GroupGuard) error {
	q.values.change.Lock()
	defer q.values.change.Unlock()
	now, _ := q.shard.Settings.Group(name)
	before := groupSettings(&now)
	if err := guard(before); err != nil {
		return err
	}
	set := journal.Set{Kind: journal.SetGroup, Name: name, Changed: queue.At(q.e.options.Now())}
	if set.Moves = q.shard.Settings.GroupRow(name).Moves; set.Moves.Gone {
		return queue.GroupMoved(name, int(set.Moves.To))
	}
	if q.many.Load() != nil { // the catalogue goes on to say which shard has it
		set.Version, set.Deleted = 1, true
	}
	return q.shard.Settings.DeleteGroup(&set, before.state(), q.act(ctx, "", "group.delete", name))
}

// state is the settings as the audit log shows them; nil for none.
func (s *GroupSettings) state() any {
	if s.Version == 0 && s.Limits == (queue.Quota{}) && s.Description == "" {
		return nil
	}
	state := map[string]any{}
	for name, value := range map[string]uint64{"waiting": s.Limits.Waiting, "submissions": s.Limits.Submissions,
		"bytes": s.Limits.Bytes} {
		if value > 0 {
			state[name] = value
		}
	}
	if s.Description != "" {
		state["description"] = s.Description
	}
	return state
}

// ValidGroup refuses settings that are not allowed. Pointers are those of the body of the HTTP face.
func ValidGroup(name, description string, limits queue.Quota) error {
	switch {
	case name == "" || len(name) > queue.MaxMetaValueBytes || !utf8.ValidString(name):
		return queue.Invalid("/path/group", "is no name of a group: 1 to %d bytes of UTF-8", queue.MaxMetaValueBytes)
	case len(description) > queue.MaxGroupDescription || !utf8.ValidString(description):
		return queue.Invalid("/description", "has %d bytes; at most %d bytes of UTF-8 are allowed", len(description),
			queue.MaxGroupDescription)
	}
	return limits.Valid("/limits")
}

func noGroup(queueName, name string) error {
	return &queue.Error{Code: queue.CodeUnknownGroup, Message: fmt.Sprintf("The queue %q has no group %q: PUT creates one, and so does "+
		"the first submission that names it, unless the setting group_must_exist is true.", queueName, clip(name, 80))}
}

func tooManyGroups(there int) error {
	return &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf("The queue has %d groups, and at most %d are "+
		"allowed. Use fewer groups, and tell work apart by other meta keys.", there, queue.MaxGroups)}
}
