package simtest

import (
	"context"
	"fmt"

	"github.com/quern-queue/quern/engine/queue"
)

// ruleSeen is a rule as operators know it.
type ruleSeen struct {
	rule    queue.Rule
	inForce bool // its setting was answered, and no one asked to lift it since
}

func (o *overlap) setRule() *call {
	r := queue.Rule{Action: queue.Pause, Match: queue.RuleMatch{Entry: number("b", o.r.IntN(2))}}
	if o.chance(30) {
		r.Action = queue.Block
	}
	var set queue.Rule
	var err error
	return &call{
		what: fmt.Sprintf("%v of b=%s", r.Action, r.Match.Entry.Value.Text()), alone: "rule",
		run: func(context.Context) { set, _, err = o.shard.Rules.Set(r, nil) },
		check: func() string {
			if err != nil {
				return o.erred(err)
			}
			if _, there := o.disk.rules[set.ID]; !there {
				o.fail("rule %d is answered to be set, and is not on the disk", set.ID)
			}
			o.rules[set.ID] = &ruleSeen{set, true}
			return fmt.Sprintf("rule %d", set.ID)
		},
	}
}

func (o *overlap) liftRule() *call {
	var id queue.RuleID
	for known := range o.rules {
		id = max(id, known)
	}
	if id == 0 {
		return nil
	}
	id -= queue.RuleID(o.r.IntN(2))
	if seen := o.rules[id]; seen != nil {
		seen.inForce = false
	}
	var err error
	return &call{
		what: fmt.Sprintf("lift rule %d", id), alone: "rule",
		run: func(context.Context) { _, _, err = o.shard.Rules.Lift(id, "") },
		check: func() string {
			if _, there := o.disk.rules[id]; there && err == nil {
				o.fail("rule %d is answered to be lifted, and stands on the disk", id)
			}
			return o.erred(err)
		},
	}
}

// letters does something with the dead chunks of a submission.
func (o *overlap) letters() *call {
	var dead []*diskSub
	for _, a := range o.asked {
		if x := o.disk.byGroup[a.n.Group]; x != nil && x.count(queue.ChunkDead) > 0 {
			dead = append(dead, x)
		}
	}
	if len(dead) == 0 {
		return nil
	}
	x := dead[o.r.IntN(len(dead))]
	var indexes []uint32
	for i := range x.chunks {
		indexes = append(indexes, uint32(i))
	}
	what, do := "redrive", o.shard.DeadLetters.Redrive
	if o.chance(30) {
		what, do = "delete letters of", o.shard.DeadLetters.Delete
	}
	ops := x.moves
	var n int
	var err error
	return &call{
		what: what + " " + x.ID.String(),
		run:  func(ctx context.Context) { n, err = do(ctx, x.ID, indexes) },
		check: func() string {
			if err == nil && n > 0 && x.moves == ops {
				o.fail("%s %s is answered with %d, and the disk knows of none", what, x.ID, n)
			}
			return o.erred(err)
		},
	}
}

func (o *overlap) bulk() *call {
	var b queue.Bulk
	var err error
	return &call{
		what: "bulk redrive",
		run:  func(context.Context) { b, err = o.shard.Bulks.Start(queue.BulkRequest{Action: queue.BulkRedrive}) },
		check: func() string {
			if _, there := o.disk.bulks[b.ID]; err == nil && !there {
				o.fail("bulk operation %s is answered to run, and is not on the disk", b.ID)
			}
			if err == nil {
				o.bulks = append(o.bulks, b.ID)
			}
			return o.erred(err)
		},
	}
}

func (o *overlap) stepBulk() *call {
	if len(o.bulks) == 0 {
		return nil
	}
	id := o.bulks[len(o.bulks)-1]
	var n int
	var err error
	return &call{
		what: "step of a bulk operation", alone: "bulk",
		run:   func(ctx context.Context) { n, _, err = o.shard.Bulks.Step(ctx, id, 50) },
		check: func() string { return fmt.Sprint(n, " ", o.erred(err)) },
	}
}

func (o *overlap) fold() *call {
	var err error
	return &call{
		what: "checkpoint", alone: "checkpoint",
		run: func(context.Context) { err = o.shard.Checkpoint() },
		check: func() string {
			if err == nil {
				o.tally.add("checkpoint", 1)
			} else {
				o.tally.add("checkpoint failed", 1)
			}
			return fmt.Sprint(err)
		},
	}
}

// tick is a pass of the life-cycle worker. It may lift rules, so it does not overlap with orders for them.
func (o *overlap) tick() *call {
	return &call{
		what: "tick", alone: "rule",
		run:   func(context.Context) { o.shard.Worker.Tick() },
		check: func() string { return "over" },
	}
}
