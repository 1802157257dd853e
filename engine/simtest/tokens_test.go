package simtest

import (
	"github.com/quern-queue/quern/engine/queue"
)

// standing is the row of the table in docs/GUARANTEES.md that a token belongs to.
type standing uint8

const (
	holds      standing = iota
	free                // genuine, no one holds the chunk, it is ready
	overdue             // its deadline passed, and the chunk waits for its next try
	finishing           // decided earlier in the same call
	completed           // has completed the chunk
	replaced            // another token holds or has completed the chunk
	over                // the submission or the chunk ended
	overOrLost          // the submission completed with dead chunks: the place where it is kept decides between the two
	forged
	retired // the retention of its submission is over
	anyEnd  // decided within a call that ends the submission: another token held or completed the chunk
)

// stand finds the row. same compares tokens without the slot hint.
func (m *model) stand(t queue.Token, genuine bool) (*modelSub, *modelChunk, standing) {
	x := m.sub(t.Submission)
	if genuine && m.forgotten[t.Submission] {
		return nil, nil, retired
	}
	if !genuine || x == nil {
		return nil, nil, forged
	}
	c := x.chunks[t.Index]
	switch {
	case c.state == queue.ChunkDone && same(c.doneBy, t):
		return x, c, completed
	case x.state == queue.Completed && x.count(queue.ChunkSkipped)+x.count(queue.ChunkForwarded) == 0:
		return x, c, replaced
	case x.state == queue.CompletedWithDead || x.state == queue.Completed:
		return x, c, overOrLost
	case x.state != queue.Open || c.state == queue.ChunkDead || c.state == queue.ChunkSkipped || c.state == queue.ChunkForwarded:
		return x, c, over
	case c.state == queue.ChunkReserved && same(c.hold.token, t):
		return x, c, holds
	case c.state == queue.ChunkReady || c.state == queue.ChunkWaiting && c.shelved:
		return x, c, free
	case c.state == queue.ChunkWaiting && (c.expired || c.snoozed) && same(c.tried, t):
		return x, c, overdue
	}
	return x, c, replaced
}

func same(a, b queue.Token) bool {
	return a.Submission == b.Submission && a.Index == b.Index && a.Epoch == b.Epoch && a.Sequence == b.Sequence
}

// verb is a column of the table.
type verb uint8

const (
	completeIt verb = iota
	failIt
	extendIt
	releaseIt
)

// answers is the table of the outcomes that a token of a row may get.
func answers(s standing, v verb) []queue.Outcome {
	const (
		ok, already, lost, gone = queue.OutcomeOK, queue.OutcomeAlready, queue.OutcomeLost, queue.OutcomeGone
	)
	table := map[standing][4][]queue.Outcome{
		holds:      {{ok}, {ok}, {ok}, {ok}},
		free:       {{ok}, {ok}, {ok}, {already}},
		overdue:    {{ok}, {ok}, {lost}, {already}},
		finishing:  {{already}, {already}, {lost}, {lost}},
		completed:  {{already}, {already}, {lost}, {lost}},
		replaced:   {{lost}, {lost}, {lost}, {lost}},
		over:       {{gone}, {gone}, {gone}, {gone}},
		overOrLost: {{gone, lost}, {gone, lost}, {gone, lost}, {gone, lost}},
		anyEnd:     {{already, lost, gone}, {already, lost, gone}, {lost, gone}, {lost, gone}},
		retired:    {{already, queue.OutcomeUnknown}, {already, queue.OutcomeUnknown}, {lost, queue.OutcomeUnknown}, {lost, queue.OutcomeUnknown}},
		forged:     {{queue.OutcomeUnknown}, {queue.OutcomeUnknown}, {queue.OutcomeUnknown}, {queue.OutcomeUnknown}},
	}
	return table[s][v]
}
