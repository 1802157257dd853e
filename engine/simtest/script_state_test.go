package simtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// The commands of scripts about everything beside reservations, about the clock, and about the end of the process.

// tick moves the clock, runs the life-cycle worker once, and says which counts that changed.
func (c command) tick() {
	d := c.parseDuration("the time", c.words[0])
	before := counts(c.shard.Stats())
	c.tickAfter(d)
	var changes []string
	for i, after := range counts(c.shard.Stats()) {
		if after != before[i] {
			changes = append(changes, fmt.Sprintf("%s %d to %d", after.name, before[i].n, after.n))
		}
	}
	if len(changes) == 0 {
		changes = []string{"nothing changes"}
	}
	c.say("at %s: %s", at(c.clock.now()), strings.Join(changes, ", "))
}

type namedCount struct {
	name string
	n    uint64
}

// counts are the numbers of a queue that scripts show. The last ones count from the start of the process.
func counts(st queue.Stats) []namedCount {
	return []namedCount{
		{"open submissions", st.SubmissionsOpen}, {"ready", st.Ready}, {"paused", st.Paused}, {"blocked", st.Blocked},
		{"waiting", st.Waiting}, {"reserved", st.Reserved}, {"dead letters", st.DeadLetters}, {"outgoing", st.Outgoing},
		{"consumers attached", st.ConsumersAttached}, {"consumers away", st.ConsumersAway},
		{"pauses", st.RulesActive[queue.Pause]}, {"blocks", st.RulesActive[queue.Block]},
		{"attempts failed", st.FailedTotal}, {"attempts expired", st.ExpiredTotal}, {"attempts lost", st.LostTotal},
		{"letters aged out", st.AgedTotal}, {"submissions expired", st.EndedAs[queue.Expired]},
	}
}

func (c command) stats() {
	for _, count := range counts(c.shard.Stats()) {
		if count.n > 0 {
			c.say("%s %d", count.name, count.n)
		}
	}
}

func (c command) submission() { c.show(c.subNamed(c.words[0])) }

func (c command) cancel() {
	id := c.subNamed(c.words[0])
	if _, err := c.shard.Submissions.Cancel(ctx, id); !c.refused(err) {
		c.show(id)
	}
}

func (c command) cancelChunk() {
	id := c.subNamed(c.words[0])
	chunk, err := c.shard.Submissions.CancelChunk(ctx, id, uint32(c.parse(c.words[1])))
	if !c.refused(err) {
		c.say("%s/%d is %s", c.words[0], chunk.Index, chunk.State)
	}
}

func (c command) listChunks() {
	for _, chunk := range c.chunks(c.subNamed(c.words[0])) {
		text := fmt.Sprintf("%d %s", chunk.Index, chunk.State)
		switch {
		case chunk.State == queue.ChunkWaiting && chunk.NotBefore > c.clock.now():
			text += ", not before " + at(chunk.NotBefore)
		case chunk.State == queue.ChunkWaiting:
			text += ", due"
		case chunk.State == queue.ChunkReserved:
			text += " by " + orUnknown(chunk.Consumer) + " until " + at(chunk.Deadline)
		case chunk.State == queue.ChunkForwarded:
			text += " to " + chunk.To
		}
		if chunk.Attempts > 0 {
			text += fmt.Sprintf(", attempts %d, error %q", chunk.Attempts, chunk.Error)
		}
		c.say("%s", text)
	}
}

func orUnknown(consumer string) string {
	if consumer == "" {
		return "an unknown consumer"
	}
	return consumer
}

func (c command) attempts() {
	list, err := c.shard.Inspect.Attempts(ctx, c.subNamed(c.words[0]), uint32(c.parse(c.words[1])))
	if c.refused(err) {
		return
	}
	for i, a := range list {
		how := fmt.Sprintf("failed: %q", a.Error)
		if a.Expired {
			how = "expired"
		} else if a.Lost {
			how = "lost"
		}
		c.say("attempt %d of %s ended at %s after %s, %s", i+1, orUnknown(a.Consumer), at(a.Ended), a.Held, how)
	}
}

func (c command) listLetters() {
	list := c.letters()
	if len(list) == 0 {
		c.say("no letters")
	}
	for _, d := range list {
		c.say("%s/%d died at %s: attempts %d, redrives %d, error %q", c.nameOf(d.Chunk.Submission), d.Chunk.Index, at(d.Died),
			d.Attempts, d.Redrives, d.Error)
	}
}

// groups shows the letters grouped by error.
func (c command) groups() {
	got, err := c.shard.DeadLetters.Groups(ctx, queue.BulkFilter{})
	must(c.t, err)
	list := got.Items
	slices.SortFunc(list, func(a, b api.DeadGroup) int { return strings.Compare(a.Pattern, b.Pattern) })
	for _, g := range list {
		c.say("%d letters of %d submissions, %s to %s: %q", g.Count, g.Submissions, at(queue.At(g.FirstDiedAt.Time)), at(queue.At(g.LastDiedAt.Time)), g.Pattern)
	}
	if len(list) == 0 {
		c.say("no groups")
	}
}

// decide applies one verb of dead letters to the chunks that the command names.
func (c command) decide(verb string, do func(id queue.SubmissionID, indexes []uint32) (int, error)) {
	id := c.subNamed(c.words[0])
	var indexes []uint32
	for _, word := range c.words[1:] {
		indexes = append(indexes, uint32(c.parse(word)))
	}
	if n, err := do(id, indexes); !c.refused(err) {
		c.say("%d %s", n, verb)
		c.show(id)
	}
}

func (c command) redrive() {
	c.decide("redriven", func(id queue.SubmissionID, indexes []uint32) (int, error) {
		return c.shard.DeadLetters.Redrive(ctx, id, indexes)
	})
}

func (c command) discard() {
	c.decide("discarded", func(id queue.SubmissionID, indexes []uint32) (int, error) {
		return c.shard.DeadLetters.Delete(ctx, id, indexes)
	})
}

func (c command) forward() {
	c.decide("forwarded", func(id queue.SubmissionID, indexes []uint32) (int, error) {
		return c.shard.DeadLetters.Forward(ctx, id, indexes, c.options["to"])
	})
}

func (c command) outgoing() {
	list := c.shard.Forwarding.Outgoing(0, 1000)
	if len(list) == 0 {
		c.say("nothing is outgoing")
	}
	for _, o := range list {
		n, err := c.shard.Forwarding.Parcel(ctx, o)
		must(c.t, err)
		c.say("number %d to %s: %s/%d, attempts %d, error %q", o.Number, o.Queue, c.nameOf(o.Chunk.Submission), o.Chunk.Index,
			n.Origin.Attempts, n.Origin.Error)
	}
}

// delivered says that the other queue has these on its disk.
func (c command) delivered() {
	var numbers []uint64
	for _, word := range c.words {
		numbers = append(numbers, uint64(c.parse(word)))
	}
	c.refused(c.shard.Forwarding.Delivered(numbers))
}

// age gives up the letters that are older than dead_retention_seconds, as the server does once a minute.
func (c command) age() {
	must(c.t, onlyError(c.shard.Retention.Age(ctx, c.box.settings.DeadRetention, 1000)))
}

func (c command) rule() {
	action, is := queue.ParseRuleAction(c.words[0])
	if !is {
		c.stop("%q is not an action of rules", c.words[0])
	}
	r := queue.Rule{
		Action: action, Reason: c.options["reason"], Until: c.time("until"),
		Insert: c.options["insert"] == "yes", Revoke: c.options["revoke"] == "yes",
	}
	if list := c.meta(); len(list) > 0 {
		r.Match.Entry = list[0]
	}
	if name := c.options["submission"]; name != "" {
		r.Match.Submission = c.subNamed(name)
	}
	if _, _, err := c.shard.Rules.Set(r, nil); !c.refused(err) {
		c.rules()
	}
}

func (c command) rules() {
	held := c.shard.Rules.Held()
	for _, r := range held {
		about := r.Match.String()
		if r.Match.Submission != 0 {
			about = c.nameOf(r.Match.Submission)
		}
		c.say("rule %d: %s of %s holds back %d", r.ID, r.Action, about, r.Chunks)
	}
	if len(held) == 0 {
		c.say("no rules")
	}
}

func (c command) lift() {
	if _, _, err := c.shard.Rules.Lift(queue.RuleID(c.parse(c.words[0])), "an operator"); !c.refused(err) {
		c.rules()
	}
}

func (c command) attach() {
	incarnation := ""
	if len(c.words) > 1 {
		incarnation = c.words[1]
	}
	a, err := c.shard.Consumers.Attach(c.words[0], incarnation)
	if !c.refused(err) {
		c.opened[c.words[0]] = a
		c.consumers()
	}
}

// vanish breaks the stream of a consumer, as the end of its process does.
func (c command) vanish() {
	a, is := c.opened[c.words[0]]
	if !is {
		c.stop("%s is not attached", c.words[0])
	}
	a.Close(true)
	delete(c.opened, c.words[0])
	c.consumers()
}

func (c command) detach() {
	n, err := c.shard.Consumers.Detach(c.words[0])
	if !c.refused(err) {
		delete(c.opened, c.words[0])
		c.say("%d chunks are given back", n)
		c.consumers()
	}
}

func (c command) consumers() {
	list, _, err := c.shard.Consumers.List(ctx, "", 1000)
	must(c.t, err)
	for i := range list {
		text := fmt.Sprintf("%s holds %d", list[i].Name, list[i].Reserved)
		if list[i].Attached {
			text += ", attached"
		} else if list[i].Away != 0 {
			text += ", away since " + at(list[i].Away) + ", lost at " + at(list[i].LostAt)
		}
		c.say("%s", text)
	}
}

func (c command) checkpoint() { must(c.t, c.shard.Checkpoint()) }

// crash goes on with the files as kill -9 leaves them: now, or when a checkpoint has its rows in the store and the journal is still whole,
// so that a start replays all of it onto these rows.
func (c command) crash() {
	clear(c.opened)
	if c.options["during"] == "checkpoint" {
		c.clock.pass(c.duration("down"))
		c.kill(c.t.(*testing.T), storeAhead)
		return
	}
	c.crashed(c.duration("down"))
}
