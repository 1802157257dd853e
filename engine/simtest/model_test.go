package simtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// model has the promises of a shard, written without any thought for speed: every chunk has a state, and every question is answered by
// looking at everything. It knows nothing of journals, checkpoints or views.
type model struct {
	settings queue.Settings
	subs     []*modelSub // in the order of their ids
	keys     map[string]*modelKey
	values   map[queue.MetaEntry]queue.ValueSettings // settings of operators
	defaults map[queue.MetaKey]queue.ValueSettings   // likewise, for all values of a key
	rules    []queue.Rule
	past     []queue.EndedRule
	graces   []journal.Grace // of rules that were lifted
	totals   modelTotals
	roster   modelRoster
	lives    int                           // before this one
	rates    map[strategy.Limit]*modelRate // that a reserve has named in this life
	began    queue.Time                    // of this life
	grace    queue.Time                    // end of the restart grace; 0: there is none
	outbox   []queue.ChunkID               // dead letters on their way to another queue, in their order
	stuck    map[queue.ChunkID]bool        // of them, those that cannot be read
	bulks    []*modelBulk                  // by id

	forgotten map[queue.SubmissionID]bool // whose retention is over
	now       func() queue.Time
	tally     *tally
}

// modelTotals count from the last start.
type modelTotals struct {
	inserted, reserved, done, failed, expired, released, submissions, ended, forwarded, lost uint64
	bulk                                                                                     queue.BulkCounts
}

type modelKey struct {
	fingerprint [16]byte
	id          queue.SubmissionID // the first insert's
	at          queue.Time
}

type modelSub struct {
	asked    queue.NewSubmission
	id       queue.SubmissionID
	runAt    queue.Time
	state    queue.SubmissionState
	parked   bool
	finished queue.Time
	failure  string
	failed   *uint32 // the chunk that failed it
	chunks   []*modelChunk
	begun    queue.Time // when its first chunk was reserved; 0: none was, or the record is older
	older    bool       // its record was read from the disk: earlier reservations are not known
}

// begin notes a reservation of a chunk.
func (x *modelSub) begin(now queue.Time) {
	if x.begun == 0 && !x.older {
		x.begun = now.Add(-(now.Sub(x.id.Time()) % (100 * time.Millisecond)))
	}
}

// reread reduces the model to the data that a shard has of a submission it read from the disk.
func (x *modelSub) reread() { x.begun, x.older = 0, true }

type modelChunk struct {
	state     queue.ChunkState // Ready, Waiting, Reserved, Done, Dead or Skipped
	past      []queue.Attempt
	redrives  uint16
	attempts  uint16
	expiries  uint8
	err       string
	to        string // of a forwarded chunk
	notBefore queue.Time
	shelved   bool        // Waiting, though its time has come: held back as a suspect
	tried     queue.Token // whose try was counted last
	expired   bool        // that try ended by its deadline, or with its consumer
	snoozed   bool        // it was no try: that token gave the chunk back for a while
	hold      modelHold   // of a Reserved chunk
	doneBy    queue.Token
	output    []byte
}

type modelHold struct {
	token              queue.Token
	reserved, deadline queue.Time
	consumer           string
	made               int // counts all reservations, also those taken up again
}

func newModel(settings queue.Settings) *model {
	return &model{
		stuck: map[queue.ChunkID]bool{}, settings: settings, keys: map[string]*modelKey{}, values: map[queue.MetaEntry]queue.ValueSettings{},
		defaults:  map[queue.MetaKey]queue.ValueSettings{},
		rates:     map[strategy.Limit]*modelRate{},
		forgotten: map[queue.SubmissionID]bool{}, tally: newTally(),
	}
}

func (m *model) sub(id queue.SubmissionID) *modelSub {
	at, found := slices.BinarySearchFunc(m.subs, id, func(x *modelSub, id queue.SubmissionID) int { return cmp.Compare(x.id, id) })
	if !found {
		return nil
	}
	return m.subs[at]
}

func (x *modelSub) count(state queue.ChunkState) (n uint32) {
	for _, c := range x.chunks {
		if c.state == state {
			n++
		}
	}
	return n
}

func (x *modelSub) operations() uint32 { return max(x.asked.OperationsPerChunk, 1) }

// insert adds a submission under the id that the shard drew.
func (m *model) insert(n queue.NewSubmission, id queue.SubmissionID, now queue.Time) *modelSub {
	x := &modelSub{asked: n, id: id}
	if n.RunAt > now+100 {
		x.runAt, x.parked = n.RunAt, true
	}
	if after := m.settings.DeadAfter; n.DeadDeadline == 0 && after > 0 {
		x.asked.DeadDeadline = max(now, x.runAt).Add(after)
		m.tally.add("a dead_deadline is the queue's", 1)
	}
	for range n.Chunks.Count {
		x.chunks = append(x.chunks, new(modelChunk))
	}
	m.subs = append(m.subs, x)
	m.totals.submissions++
	m.totals.inserted += uint64(n.Chunks.Count)
	return x
}

// inserted is the submission as in the answer to its insert, which says nothing about rules.
func (x *modelSub) inserted() queue.Submission {
	return x.infoUnder(queue.Unruled)
}

// info is the submission as a caller sees it.
func (m *model) info(x *modelSub) queue.Submission { return x.infoUnder(m.ruling(x)) }

func (x *modelSub) infoUnder(ruling queue.Ruling) queue.Submission {
	n := &x.asked
	s := queue.Submission{
		ID: x.id, Queue: queueName, State: x.state, Group: n.Group, Meta: n.Meta, Priority: n.Priority, Chunks: n.Chunks.Count,
		Ready: x.count(queue.ChunkReady), Waiting: x.count(queue.ChunkWaiting), Reserved: x.count(queue.ChunkReserved),
		Done: x.count(queue.ChunkDone), Dead: x.count(queue.ChunkDead), Skipped: x.count(queue.ChunkSkipped) + x.count(queue.ChunkForwarded), Forwarded: x.count(queue.ChunkForwarded), OperationsPerChunk: x.operations(), Prefix: n.Chunks.Prefix,
		Template: n.Chunks.Template, HasAttachment: len(n.Attachment) > 0, Created: x.id.Time(), RunAt: x.runAt, DeadDeadline: x.asked.DeadDeadline,
		Finished: x.finished, MaxAttempts: n.MaxAttempts, OnExhausted: n.OnExhausted, MaxFailedChunks: n.MaxFailedChunks, RetryBackoff: n.RetryBackoff, AttemptTimeout: n.AttemptTimeout, Failure: x.failure, FailedChunk: x.failed, Trace: n.Trace,
	}
	if x.state != queue.Open {
		s.Skipped += s.Ready + s.Waiting + s.Reserved
		s.Ready, s.Waiting, s.Reserved = 0, 0, 0
	} else if x.parked {
		s.Waiting += s.Ready
		s.Ready = 0
	}
	switch ruling {
	case queue.PausedByRule:
		s.Paused, s.Ready = s.Ready, 0
	case queue.BlockedByRule:
		s.Blocked, s.Ready = s.Ready, 0
	}
	return s
}

// chunk is one chunk as a caller sees it.
func (x *modelSub) chunk(index int) queue.Chunk {
	c := x.chunks[index]
	info := queue.Chunk{Index: uint32(index), State: c.state}
	if c.state != queue.ChunkDone {
		info.Attempts, info.Error = c.attempts, c.err
	}
	switch {
	case c.state == queue.ChunkDone:
		info.Output = c.output
	case c.state == queue.ChunkForwarded:
		info.To = c.to
	case c.state == queue.ChunkDead || c.state == queue.ChunkSkipped:
	case x.state != queue.Open:
		info.State = queue.ChunkSkipped
	case c.state == queue.ChunkReserved:
		info.Consumer, info.Since, info.Deadline = c.hold.consumer, c.hold.reserved, c.hold.deadline
	case c.state == queue.ChunkWaiting:
		info.NotBefore = c.notBefore
	case x.parked:
		info.State, info.NotBefore = queue.ChunkWaiting, x.runAt
	}
	return info
}

// content is the content in a reservation of the chunk.
func (x *modelSub) content(index uint32) queue.Content {
	c := &x.asked.Chunks
	number := fmt.Sprint(index)
	switch {
	case len(c.Inline) > 0:
		return queue.Content{Bytes: c.Inline[index]}
	case c.Template != "":
		return queue.Content{Bytes: []byte(strings.ReplaceAll(c.Template, "{index}", number))}
	}
	return queue.Content{Bytes: []byte(c.Prefix + number), IsKey: true}
}

// find is the value of a key; that of a key with "!" behind it is the empty one of all that lack the key.
func (x *modelSub) find(key queue.MetaKey) (value queue.MetaValue, has bool) {
	of, lack := strings.CutSuffix(key, "!")
	value, has = x.asked.Meta.Find(of)
	return value, has != lack
}

func (m *model) inFlight(key queue.MetaKey, value queue.MetaValue) (n uint32) {
	for _, x := range m.subs {
		if v, there := x.find(key); x.state == queue.Open && there && v == value {
			n += x.count(queue.ChunkReserved)
		}
	}
	return n
}

// withheld says whether a value of the submission has as many chunks in flight as an operator allows.
func (m *model) withheld(x *modelSub) bool {
	return slices.ContainsFunc(x.asked.Meta, func(entry queue.MetaEntry) bool {
		limit := m.demanded(entry).Limit
		return limit != queue.NoLimit && (m.grace != 0 || m.inFlight(entry.Key, entry.Value) >= limit)
	})
}

// demanded are the settings of a value: its own, and where it has none the default of its key.
func (m *model) demanded(entry queue.MetaEntry) queue.ValueSettings {
	set, is := m.values[entry]
	if !is {
		set = queue.NoSettings()
	}
	if all, is := m.defaults[entry.Key]; is {
		if set.Limit == queue.NoLimit {
			set.Limit = all.Limit
		}
		if set.Weight == 0 {
			set.Weight = all.Weight
		}
		if set.Rate == (queue.Rate{}) {
			set.Rate = all.Rate
		}
	}
	return set
}

func (x *modelSub) matches(br *strategy.Branch) bool {
	if br.Fair != "" {
		return !br.Leaves(func(leaf *strategy.Branch) bool { return !x.matches(leaf) })
	}
	for _, f := range br.Filters {
		if v, there := x.asked.Meta.Find(f.Key); (there && slices.Contains(f.Values, v)) == f.Except || f.Has && !there {
			return false
		}
	}
	return true
}

// offered says that the submission has something to hand out, limits aside.
func (x *modelSub) offered() bool {
	return x.state == queue.Open && !x.parked && x.count(queue.ChunkReady) > 0
}

func (m *model) admits(br *strategy.Branch, x *modelSub) bool {
	if br.Fair != "" {
		return !br.Leaves(func(leaf *strategy.Branch) bool { return !m.admits(leaf, x) })
	}
	if !x.offered() || !x.matches(br) || m.ruling(x) != queue.Unruled || m.withheld(x) {
		return false
	}
	for _, l := range br.Limits {
		if l.Of == strategy.Rate {
			if m.paces(l, x, m.now()) {
				return false
			}
			continue
		}
		if v, there := x.find(l.Key); there && (m.grace != 0 || m.inFlight(l.Key, v) >= l.Max) {
			return false
		}
	}
	return true
}

// first is the submission that the branch has to hand out from; any of those it admits for Random.
func (m *model) first(br *strategy.Branch) (first *modelSub) {
	for _, x := range m.subs {
		if m.admits(br, x) && (first == nil || m.precedes(br, x, first)) {
			first = x
		}
	}
	return first
}

// firstBeside is the same among those that share with x, and the leaf that gives it: under Fair the ledger decides whose turn it is.
// Inside a tenant the first alternative that has something counts.
func (m *model) firstBeside(br *strategy.Branch, x *modelSub, among []*modelSub) (first *modelSub, leaf *strategy.Branch) {
	var mine []*modelSub
	for _, y := range among {
		if m.admits(br, y) && sameTenant(br.Fair, x, y) {
			mine = append(mine, y)
		}
	}
	if br.Fair == "" {
		for _, y := range mine {
			if first == nil || m.precedes(br, y, first) {
				first = y
			}
		}
		if br.Order == strategy.Random && slices.Contains(mine, x) && m.flight(br, x) == m.flight(br, first) {
			first = x
		}
		return first, br
	}
	for i := range br.Inner {
		if slices.ContainsFunc(mine, func(y *modelSub) bool { return m.admits(&br.Inner[i], y) }) {
			return m.firstBeside(&br.Inner[i], x, mine)
		}
	}
	return nil, nil
}

func sameTenant(key queue.MetaKey, x, y *modelSub) bool {
	if key == "" || x == y {
		return true
	}
	a, hasA := x.asked.Meta.Find(key)
	b, hasB := y.asked.Meta.Find(key)
	return key != strategy.SubmissionKey && hasA == hasB && a == b
}

// flight is how many chunks are in flight of the value of a submission by which the branch prefers those with the fewest.
func (m *model) flight(br *strategy.Branch, x *modelSub) uint32 {
	if v, has := x.asked.Meta.Find(br.Fewest); has && br.Fewest != "" {
		return m.inFlight(br.Fewest, v)
	} else if !has && br.FewestOne {
		return m.inFlight(br.Fewest+"!", v)
	}
	return 0
}

func (m *model) precedes(br *strategy.Branch, x, y *modelSub) bool {
	if a, b := m.flight(br, x), m.flight(br, y); a != b {
		return a < b
	}
	return precedes(br.Order, x, y)
}

func precedes(order strategy.Order, x, y *modelSub) bool {
	switch {
	case order == strategy.NewestFirst:
		return x.id > y.id
	case order == strategy.CustomPriority && x.asked.Priority != y.asked.Priority:
		return x.asked.Priority > y.asked.Priority
	}
	return x.id < y.id
}

// empty is why the plan yields nothing, and the time until something it matches is due.
func (m *model) empty(plan *strategy.Plan, now queue.Time) (queue.EmptyReason, time.Duration) {
	next, paused := queue.Time(0), false
	note := func(at queue.Time) {
		if next == 0 || at < next {
			next = at
		}
	}
	for _, x := range m.subs {
		if x.state != queue.Open {
			continue
		}
		for i := range plan.Branches {
			br := &plan.Branches[i]
			if !x.matches(br) {
				continue
			}
			if x.offered() && m.ruling(x) == queue.Unruled && m.whole() == queue.Unruled {
				if m.grace != 0 {
					return queue.RestartGrace, max(m.grace.Sub(now), time.Millisecond)
				}
				return queue.AllLimited, 0
			}
			paused = paused || x.offered()
			if x.parked {
				note(x.runAt)
			}
			for _, c := range x.chunks {
				switch {
				case c.state == queue.ChunkWaiting && c.shelved:
					note(now + 1000)
				case c.state == queue.ChunkWaiting:
					note(c.notBefore)
				}
			}
		}
	}
	if paused {
		return queue.Paused, 0
	}
	if next != 0 {
		return queue.NotYetDue, max(next.Sub(now), time.Millisecond)
	}
	return queue.Nothing, 0
}

func (m *model) maxAttempts(x *modelSub) uint16 {
	if x.asked.MaxAttempts != 0 {
		return x.asked.MaxAttempts
	}
	return m.settings.MaxAttempts
}

func (m *model) onExhausted(x *modelSub) queue.OnExhausted {
	if x.asked.OnExhausted == queue.Inherit {
		return m.settings.OnExhausted
	}
	return x.asked.OnExhausted
}

// endsSubmission says whether a chunk without a try left takes its submission along, when `more` others of it have none left
// that are not counted yet.
func (m *model) endsSubmission(x *modelSub, more uint32) bool {
	budget := x.asked.MaxFailedChunks
	return m.onExhausted(x) == queue.FailSubmission || budget > 0 && x.count(queue.ChunkDead)+x.count(queue.ChunkSkipped)+x.count(queue.ChunkForwarded)+more >= budget
}

// gone is the next state of a chunk without a try left.
func (m *model) gone(x *modelSub) queue.ChunkState {
	if m.onExhausted(x) == queue.Skip {
		return queue.ChunkSkipped
	}
	return queue.ChunkDead
}

// tried counts a try of the chunk in hand, and takes the chunk from its holder.
func (c *modelChunk) try(t queue.Token, expired bool, text string, now queue.Time) {
	c.ended(queue.Attempt{Expired: expired, Lost: lostBy(text), Error: text}, now)
	c.attempts++
	if expired {
		c.expiries++
	}
	c.tried, c.expired = t, expired || lostBy(text)
}

// ended adds to the history of the chunk, and takes it from its holder.
func (c *modelChunk) ended(a queue.Attempt, now queue.Time) {
	a.Ended = now
	if c.state == queue.ChunkReserved {
		a.Consumer, a.Held = c.hold.consumer, now.Sub(c.hold.reserved)
	}
	if n := len(c.past); n > 0 {
		last := &c.past[n-1]
		last.Error = last.Error[:min(len(last.Error), queue.MaxPastErrorBytes)]
	}
	c.past = append(c.past, a)
	c.past = c.past[max(0, len(c.past)-queue.MaxAttemptsKept):]
	c.err, c.hold, c.snoozed = a.Error, modelHold{}, false
}

func (m *model) end(x *modelSub, state queue.SubmissionState, failure string, now queue.Time) {
	x.state, x.failure, x.finished = state, failure, now
	m.forgetRules(now)
	m.totals.ended++
	m.tally.add("submission "+state.String(), 1)
}

func (m *model) endIfOver(x *modelSub, now queue.Time) {
	done, dead, skipped := x.count(queue.ChunkDone), x.count(queue.ChunkDead), x.count(queue.ChunkSkipped)+x.count(queue.ChunkForwarded)
	switch {
	case x.state != queue.Open || done+dead+skipped < x.asked.Chunks.Count:
	case dead > 0:
		m.end(x, queue.CompletedWithDead, "", now)
	default:
		m.end(x, queue.Completed, "", now)
	}
}

func (m *model) complete(x *modelSub, c *modelChunk, t queue.Token, output []byte, now queue.Time) {
	*c = modelChunk{state: queue.ChunkDone, doneBy: t, output: output}
	m.totals.done++
	m.endIfOver(x, now)
}

// fail ends a submission that a chunk failed.
func (m *model) fail(x *modelSub, index uint32, reason string, now queue.Time) {
	x.failed = &index
	m.end(x, queue.Failed, reason, now)
}

// kill takes the last try of a chunk away.
func (m *model) kill(x *modelSub, c *modelChunk, reason string, now queue.Time) {
	ends := m.endsSubmission(x, 0)
	c.state, c.hold = m.gone(x), modelHold{}
	if ends {
		m.fail(x, uint32(slices.Index(x.chunks, c)), reason, now)
		return
	}
	if to := m.settings.DeadLetterQueue; to != "" && c.state == queue.ChunkDead {
		m.forward(x, c, to)
		m.tally.add("forwarded for want of tries", 1)
	}
	m.endIfOver(x, now)
}

// forward sends a dead chunk on to another queue.
func (m *model) forward(x *modelSub, c *modelChunk, to string) {
	c.state, c.to = queue.ChunkForwarded, to
	m.totals.forwarded++
	m.outbox = append(m.outbox, queue.ChunkID{Submission: x.id, Index: uint32(slices.Index(x.chunks, c))})
}

// crash has the model follow a shard that was killed and starts again: reservations are forgotten.
func (m *model) crash(now queue.Time) {
	m.roster = modelRoster{}
	m.began, m.grace = now, 0
	m.lives, m.rates = m.lives+1, map[strategy.Limit]*modelRate{}
	if m.settings.RestartGrace > 0 {
		m.grace = now.Add(m.settings.RestartGrace)
	}
	for _, x := range m.subs {
		x.reread()
		for _, c := range x.chunks {
			if c.state == queue.ChunkReserved {
				c.state, c.hold = queue.ChunkReady, modelHold{}
			}
		}
	}
	m.promote(now)
}

// restart has the model follow a shard that was closed in order and starts again: reservations go on with the time that was left, and a
// consumer that was attached and holds something is missed. Orders are forgotten.
func (m *model) restart(closed, now queue.Time) {
	m.hush()
	old := m.roster
	m.roster = modelRoster{heard: old.heard, made: old.made}
	m.began, m.grace = now, 0
	m.lives, m.rates = m.lives+1, map[strategy.Limit]*modelRate{}
	for _, x := range m.subs {
		x.reread()
		for _, c := range x.chunks {
			if c.state == queue.ChunkReserved {
				c.hold.deadline = now.Add(c.hold.deadline.Sub(closed))
				m.tally.add("held over a restart", 1)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.roster.heard)) {
		if incarnation, was := old.was(name); was {
			c := m.roster.of(name)
			c.incarnation = incarnation
			c.away = &modelAbsence{name, now}
			m.roster.await(c.away)
			m.tally.add("missed after a restart", 1)
		}
	}
	m.promote(now)
}

// reload has the model follow a shard that reads the journal again: held chunks stay held, unless a rule takes them back, and due
// chunks are offered.
func (m *model) reload(now queue.Time) {
	for _, x := range m.subs {
		x.reread()
		for _, c := range x.chunks {
			if c.state == queue.ChunkReserved && m.revokes(x) {
				c.state, c.hold = queue.ChunkReady, modelHold{}
			}
		}
	}
	m.promote(now)
}

// expireAll ends the submissions whose dead deadline passed.
func (m *model) expireAll(now queue.Time) {
	for _, x := range m.subs {
		if at := x.asked.DeadDeadline; m.overdue(x, now) {
			m.endOverdue(x, now)
		} else if x.state == queue.Open && at != 0 && at <= now && !m.spares(x, now) {
			m.end(x, queue.Expired, "its dead_deadline passed", now)
			m.tally.add("dead_deadline ends a submission", 1)
		} else if x.state == queue.Open && at != 0 && at <= now {
			m.tally.add("dead_deadline waits for a rule", 1)
		}
	}
}

// overdue says that a tick makes dead letters of the remaining chunks of a submission.
func (m *model) overdue(x *modelSub, now queue.Time) bool {
	return x.state == queue.Open && x.tooLate(now) && !m.spares(x, now) && m.settings.OnDeadline == queue.DeadLetterThem
}

// endOverdue makes dead letters of a submission's remaining chunks at its dead deadline.
func (m *model) endOverdue(x *modelSub, now queue.Time) {
	for _, c := range x.chunks {
		if c.state == queue.ChunkDone || c.state == queue.ChunkDead || c.state == queue.ChunkSkipped || c.state == queue.ChunkForwarded {
			continue
		}
		if c.state == queue.ChunkReserved {
			c.tried = c.hold.token
			m.tally.add("dead_deadline takes a chunk from its holder", 1)
		}
		c.ended(queue.Attempt{Error: "its dead_deadline passed"}, now)
		c.state, c.expired, c.shelved, c.notBefore = queue.ChunkDead, false, false, 0
		m.tally.add("dead_deadline makes a dead letter", 1)
		if to := m.settings.DeadLetterQueue; to != "" {
			m.forward(x, c, to)
			m.tally.add("forwarded by its dead_deadline", 1)
		}
	}
	m.endIfOver(x, now)
}

// cancelChunk gives a chunk up, if it is not over yet.
func (m *model) cancelChunk(x *modelSub, c *modelChunk, now queue.Time) {
	switch c.state {
	case queue.ChunkReserved:
		c.tried = c.hold.token
		m.tally.add("a chunk is cancelled under its holder", 1)
	case queue.ChunkWaiting:
		m.tally.add("a chunk is cancelled that waits", 1)
	case queue.ChunkReady:
		m.tally.add("a chunk is cancelled that is ready", 1)
	default:
		return
	}
	c.ended(queue.Attempt{Error: "the chunk was cancelled"}, now)
	c.state, c.expired, c.shelved, c.notBefore = queue.ChunkSkipped, false, false, 0
	m.endIfOver(x, now)
}

// promote offers the chunks that waited until now.
func (m *model) promote(now queue.Time) {
	for _, x := range m.subs {
		if x.state != queue.Open {
			continue
		}
		if x.parked && x.runAt <= now {
			x.parked = false
			m.tally.add("run_at due", 1)
		}
		for _, c := range x.chunks {
			if c.state == queue.ChunkWaiting && c.notBefore <= now && !c.shelved {
				c.state, c.notBefore = queue.ChunkReady, 0
				m.tally.add("retry due", 1)
			}
		}
	}
}
