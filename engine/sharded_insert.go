package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/quern-queue/quern/engine/queue"
)

// InsertMany makes submissions exist, as Queue.InsertMany does. Each goes to the shard of its group, and each shard makes
// one commit. An atomic call is one commit, so its submissions must belong to one shard.
func (s *Sharded) InsertMany(ctx context.Context, list []queue.Insertion, atomic bool) error {
	for try := 0; ; try++ {
		places, err := s.placed(list, atomic)
		if err != nil || places == nil {
			return err
		}
		if err := s.insertParts(ctx, list, places, atomic); err != nil {
			return err
		}
		if try == movedTries || !lookAgain(list, atomic) {
			return nil
		}
		awaitMove(ctx, s)
	}
}

// placed checks submissions and gives their groups shards. The places are the indexes in the list, by the numbers of the
// shards; nil: all are refused.
func (s *Sharded) placed(list []queue.Insertion, atomic bool) (places map[int][]int, err error) {
	if err := validInsertions(list); err != nil {
		return nil, err
	}
	settings, err := s.settings()
	if err != nil {
		return nil, err
	}
	fitSettings(settings, list)
	refuseUnique(list)
	if atomic && queue.RefuseAll(list) {
		return nil, nil
	}
	var names []string
	for i := range list {
		if name := groupOf(&list[i]); name != "" {
			names = append(names, name)
		}
	}
	if !settings.GroupMustExist {
		if err := s.place(names, 0); err != nil {
			return nil, err
		}
	}
	places = map[int][]int{}
	for i := range list {
		if !list[i].Decided() {
			number := max(s.groups.of(groupOf(&list[i])), 1) // any shard refuses a group that no one created
			places[number] = append(places[number], i)
		}
	}
	if atomic && len(places) > 1 {
		return nil, queue.Invalid("/atomic", "must be false: the groups of these submissions are in %d shards of the queue, and "+
			"each of them makes a commit of its own", len(places))
	}
	return places, nil
}

// Homes names the shard of each submission that is to be inserted, as it is asked: "orders~2". One that is refused has an Err, and no
// shard. New groups get their shards.
func (s *Sharded) Homes(list []queue.Insertion, atomic bool) ([]string, error) {
	places, err := s.placed(list, atomic)
	if err != nil {
		return nil, err
	}
	homes := make([]string, len(list))
	for number, at := range places {
		for _, i := range at {
			homes[i] = queue.ShardName(s.name, number)
		}
	}
	return homes, nil
}

// insertParts has each shard insert its part. If it returns an error, the outcome of each submission is unknown: some may be inserted.
func (s *Sharded) insertParts(ctx context.Context, list []queue.Insertion, places map[int][]int, atomic bool) error {
	var (
		group  sync.WaitGroup
		mu     sync.Mutex
		failed error
	)
	for number, at := range places {
		group.Go(func() {
			part := make([]queue.Insertion, len(at))
			for k, i := range at {
				part[k] = list[i]
			}
			q, err := s.shard(number)
			if err != nil { // nothing of this part is inserted
				for k := range part {
					part[k].Err = err
				}
			} else if err := q.insertMany(ctx, part, atomic); err != nil {
				mu.Lock()
				failed = errors.Join(failed, err)
				mu.Unlock()
				return
			}
			for k, i := range at {
				list[i] = part[k]
			}
		})
	}
	group.Wait()
	return failed
}

// groupOf is the group of a submission that is checked; "" if something is wrong with it.
func groupOf(in *queue.Insertion) string {
	if in.Err != nil {
		return ""
	}
	return in.New.Meta.GroupOf()
}

// fit refuses submissions that belong to another shard than the one of the call.
func (s *Sharded) fit(q *Queue, list []queue.Insertion) {
	refuseUnique(list)
	for i := range list {
		if in := &list[i]; in.Err == nil {
			in.Err = s.belongs(q, in.New)
		}
	}
}

// fitSettings refuses submissions that the queue's settings do not allow.
func fitSettings(settings *queue.Settings, list []queue.Insertion) {
	for i := range list {
		if in := &list[i]; in.Err == nil {
			in.Err = in.New.Fits(settings)
		}
	}
}

// fitBrought is fitSettings for the submissions that the completion of item i inserts.
func (q *Queue) fitBrought(i int, list []queue.Insertion) error {
	fitSettings(q.config.Load(), list)
	for n := range list {
		if err := list[n].Err; err != nil {
			return queue.Repointed(err, func(pointer string) string { return fmt.Sprintf("/items/%d/insert/%d%s", i, n, pointer) })
		}
	}
	return nil
}

// refuseUnique refuses unique keys, which one shard cannot hold for the others.
func refuseUnique(list []queue.Insertion) {
	for i := range list {
		if in := &list[i]; in.Err == nil && in.New.Unique != nil {
			in.Err = queue.Invalid("/unique", "cannot be kept in a queue of several shards, each of which knows its own keys only. "+
				"An Idempotency-Key, which counts within the group, can")
		}
	}
}
