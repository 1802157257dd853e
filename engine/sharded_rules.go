package engine

import (
	"context"
	"fmt"
)

// Rules, and settings of meta keys and their values, hold for the whole queue, so each shard has them. The HTTP face sets them in all
// shards. A shard that is made later takes them over here, before any submission can come to it.

// inherit has a shard take over the rules and settings of another one of the queue. Rules about single submissions stay with these. It may
// be called again: an entry that is there already changes nothing. The caller holds e.changing.
func (s *Sharded) inherit(ctx context.Context, number int) error {
	q, err := s.shard(number)
	if err != nil {
		return nil // a shard in quarantine has what it had
	}
	from := s.otherThan(number)
	if from == nil {
		return nil
	}
	for _, held := range from.Rules.Held() {
		if held.Rule.Match.Submission != 0 {
			continue
		}
		if _, _, err := q.Rules.Set(ctx, held.Rule, nil); err != nil {
			return fmt.Errorf("a rule of the queue in shard %d: %w", number, err)
		}
	}
	q.values.change.Lock() // e.changing is held, so the queue stays
	defer q.values.change.Unlock()
	for of, set := range from.values.all() {
		if _, err := q.Values.put(ctx, of, set.ValueSettings, nil); err != nil {
			return fmt.Errorf("what is set for a value in shard %d: %w", number, err)
		}
	}
	return nil
}

// otherThan is a shard that calls go to and that serves, but not the one of this number; nil: there is none.
func (s *Sharded) otherThan(number int) *Queue {
	for other := 1; other <= int(s.count.Load()); other++ {
		if q, err := s.shard(other); err == nil && other != number {
			return q
		}
	}
	return nil
}
