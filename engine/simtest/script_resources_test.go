package simtest

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
)

// schedule creates or redefines a schedule that inserts so many chunks.
func (c command) schedule() {
	def := queue.DefaultSchedule()
	def.Template = prefixed(uint32(c.parse(c.words[1])))
	setFields(c, queue.ScheduleFields(), &def)
	if err := def.Valid(); err != nil {
		c.stop("%v", err)
	}
	if _, _, err := c.shard.Schedules.Put(c.words[0], def, nil); !c.refused(err) {
		c.schedules()
	}
}

// schedules shows the state of schedules. Submissions that they inserted get names here, in the order of their
// ticks.
func (c command) schedules() {
	list := c.shard.Schedules.List()
	slices.SortFunc(list, func(a, b queue.ScheduleInfo) int { return cmp.Compare(a.Name, b.Name) })
	for i := range list {
		info := &list[i]
		text := fmt.Sprintf("%s %s, version %d", info.Name, info.State, info.Version)
		if info.Next != 0 {
			text += ", next at " + at(info.Next)
		}
		if info.Waiting != 0 {
			text += ", one waits since " + at(info.Waiting)
		}
		for _, n := range []struct {
			name string
			n    uint64
		}{{"emitted", info.Emitted}, {"missed", info.Missed}, {"late", info.Late}, {"overlapped", info.Overlapped}} {
			if n.n > 0 {
				text += fmt.Sprintf(", %d %s", n.n, n.name)
			}
		}
		c.say("%s", text)
		for _, e := range info.Recent {
			if !slices.Contains(c.subs, e.ID) {
				c.subs = append(c.subs, e.ID)
				c.say("%s is of the tick at %s", c.nameOf(e.ID), at(e.Tick))
			}
		}
	}
	if len(list) == 0 {
		c.say("no schedules")
	}
}

func (c command) pause()  { c.turn(false) }
func (c command) resume() { c.turn(true) }

func (c command) turn(on bool) {
	if _, err := c.shard.Schedules.Switch(c.words[0], on, "an operator"); !c.refused(err) {
		c.schedules()
	}
}

func (c command) unschedule() {
	if err := c.shard.Schedules.Delete(c.words[0], nil); !c.refused(err) {
		c.schedules()
	}
}

// bulk starts a bulk operation. It does not go on by itself: step takes it further, as the server does all the
// time.
func (c command) bulk() {
	action, is := queue.ParseBulkAction(c.words[0])
	if !is {
		c.stop("%q is none of %v", c.words[0], queue.BulkActions())
	}
	op, err := c.shard.Bulks.Start(queue.BulkRequest{
		Action: action, To: c.options["to"], Priority: int64(c.number("priority")), DryRun: c.options["dry_run"] == "yes",
		Filter: queue.BulkFilter{Meta: c.meta()},
	})
	if !c.refused(err) {
		c.bulks = append(c.bulks, op.ID)
		c.showBulk(op.ID)
	}
}

func (c command) step() {
	id := named(c.script, "b", c.words[0], c.bulks)
	if _, _, err := c.shard.Bulks.Step(ctx, id, c.parse(c.words[1])); !c.refused(err) {
		c.showBulk(id)
	}
}

func (c command) abort() {
	id := named(c.script, "b", c.words[0], c.bulks)
	if !c.refused(c.shard.Bulks.End(id, queue.BulkCancelled, "an operator", "")) {
		c.showBulk(id)
	}
}

func (c command) showBulk(id queue.BulkID) {
	op, _ := c.shard.Bulks.Get(id)
	text := fmt.Sprintf("b%d %s %s: %d matched", slices.Index(c.bulks, id)+1, op.Action, op.State, op.Counts.Matched)
	for _, n := range []struct {
		name string
		n    uint64
	}{{"done", op.Counts.Done}, {"unchanged", op.Counts.Unchanged}, {"refused", op.Counts.Refused}} {
		if n.n > 0 {
			text += fmt.Sprintf(", %d %s", n.n, n.name)
		}
	}
	c.say("%s", text)
}

// value sets an operator's settings for a value; settings that are left out are removed.
func (c command) value() {
	entries, settings := metaOf(c.words[0]), queue.NoSettings()
	if _, is := c.options["limit"]; is {
		settings.Limit = uint32(c.number("limit"))
	}
	settings.Weight = uint32(c.number("weight"))
	if len(entries) != 1 {
		c.stop("%q is not KEY:VALUE", c.words[0])
	}
	c.box.setValue(entries[0], settings)
}

func (c command) values() {
	list, _ := c.shard.Values.List(queue.MetaKey(c.words[0]), 1000, nil)
	slices.SortFunc(list, func(a, b backlog.ValueCount) int { return cmp.Compare(a.Value.Quoted(), b.Value.Quoted()) })
	for i := range list {
		v := &list[i]
		text := fmt.Sprintf("%s=%s: %d ready, %d in flight", c.words[0], v.Value.Quoted(), v.Available, v.InFlight)
		if s := c.shard.Values.Settings(queue.MetaEntry{Key: c.words[0], Value: v.Value}); s.Limit != queue.NoLimit {
			text += fmt.Sprintf(" of at most %d", s.Limit)
		}
		c.say("%s", text)
	}
	if len(list) == 0 {
		c.say("no values")
	}
}

func (c command) outputs() {
	none := true
	err := c.shard.Submissions.Outputs(ctx, c.subNamed(c.words[0]), func(index uint32, output []byte) error {
		none = false
		c.say("%s/%d: %q", c.words[0], index, output)
		return nil
	})
	if !c.refused(err) && none {
		c.say("no outputs")
	}
}
