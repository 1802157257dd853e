package diagnosis

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/usage"
)

// This file writes the sentence of a diagnosis of a value or a submission.

// causeHeads are the first words of the sentence, by its first cause.
var causeHeads = map[queue.Obstacle]string{
	queue.NoObstacle: "Ready", queue.ObstacleDead: "Dead", queue.ObstacleWaiting: "Waiting", queue.ObstacleNotDue: "Not due",
	queue.ObstaclePaused: "Paused", queue.ObstacleBlocked: "Blocked", queue.ObstacleFilter: "Not asked for",
	queue.ObstacleGrace: "Held", queue.ObstacleLimit: "Held", queue.ObstacleValueLimit: "Held",
	queue.ObstacleRate: "At its rate", queue.ObstacleAfter: "Waiting",
}

// sentenceCauses is how many causes the sentence names.
const sentenceCauses = 4

// sentence says it all in one sentence, the cause with most chunks first; dead chunks come last, as they wait for nothing.
func (d *Diagnosis) sentence() string {
	var clauses, dead []string
	var first *Cause
	others := d.Others.Chunks
	for i := range d.Causes {
		c := &d.Causes[i]
		switch {
		case c.Obstacle == queue.ObstacleDead:
			dead = append(dead, d.causeClause(c))
			continue
		case len(clauses) == sentenceCauses:
			others += c.Held.Chunks
			continue
		case first == nil:
			first = c
		}
		clauses = append(clauses, d.causeClause(c))
	}
	head := "Empty"
	switch {
	case first != nil:
		head = causeHeads[first.Obstacle]
	case d.InFlight > 0:
		head = "In flight"
	case len(dead) > 0:
		head = causeHeads[queue.ObstacleDead]
	case d.Submission.State == queue.Failed:
		head = "Failed"
	}
	switch holders := d.holdersClause(first); {
	case first == nil && d.InFlight > 0: // the head has said that they are in flight
		clauses = append(clauses, strings.Replace(holders, " in flight", "", 1))
		if len(dead) == 0 {
			clauses = append(clauses, "nothing else is left")
		}
	case first == nil && len(dead) == 0:
		clauses = append(clauses, d.emptyClause())
	case head == "Held" && d.InFlight > 0: // those that hold it are the reason
		clauses = append([]string{holders}, clauses...)
	case d.InFlight > 0:
		clauses = append(clauses, holders)
	}
	if others > 0 {
		clauses = append(clauses, are(others, "waits", "wait")+" for other reasons")
	}
	text := head + ": " + strings.Join(append(clauses, dead...), "; ") + "."
	if d.Met < d.Present {
		text += fmt.Sprintf(" This is of %s of %s submissions.", queue.Compact(uint64(d.Met)), queue.Compact(uint64(d.Present)))
	}
	return text
}

// causeClause is what a cause says within the sentence.
func (d *Diagnosis) causeClause(c *Cause) string {
	n := c.Held.Chunks
	switch c.Obstacle {
	case queue.NoObstacle:
		text := queue.Compact(n) + " can be handed out"
		if use := d.usedBy(c); use != nil && d.At.Std().Sub(use.LastUsed.Time) > time.Minute {
			text += ", but none has been reserved by a strategy that selects " + queue.One(n, "it", "them") + " for " +
				span(d.At.Std().Sub(use.LastUsed.Time))
		}
		return text
	case queue.ObstacleDead:
		return are(n, "is", "are") + " dead"
	case queue.ObstacleWaiting:
		text := are(n, "waits for its", "wait for their") + " next try"
		if c.Until != 0 {
			text += queue.One(n, ", ", ", the first ") + d.ahead(c.Until)
		}
		return text
	case queue.ObstacleNotDue:
		return are(n, "is", "are") + " due " + queue.One(uint64(c.Held.Submissions), "", "later, the first ") + d.ahead(c.Until)
	case queue.ObstacleAfter:
		return are(n, "waits", "wait") + " for other submissions"
	case queue.ObstaclePaused, queue.ObstacleBlocked:
		return d.ruleClause(c)
	case queue.ObstacleFilter:
		return d.unaskedClause(n)
	case queue.ObstacleGrace:
		return are(n, "waits", "wait") + " for the end of the restart grace " + d.ahead(c.Until)
	case queue.ObstacleRate:
		text := are(n, "waits", "wait") + " for the rate of " + c.Limit.Rate()
		if c.Limit.Key != "" {
			text += " for " + entryText(queue.MetaEntry{Key: c.Limit.Key, Value: c.Value})
		}
		return text
	}
	return d.limitClause(c)
}

func (d *Diagnosis) limitClause(c *Cause) string {
	text := are(c.Held.Chunks, "waits", "wait")
	entry := queue.MetaEntry{Key: c.Limit.Key, Value: c.Value}
	switch {
	case c.Limit.Key == "":
		return text + " for a limit on a value shared with others"
	case c.Limit.Max == 0:
		return text + ", as " + entryText(entry) + " has a limit of 0"
	case entry == d.Entry && d.InFlight > 0: // the holders have been named
		return text
	}
	return text + " for " + entryText(entry) + ", which " + fullText(c)
}

// fullText says how many of the places of a limit are taken.
func fullText(c *Cause) string {
	return "has " + queue.Compact(uint64(c.InFlight)) + " of " + queue.Compact(uint64(c.Limit.Max)) + " in flight"
}

func (d *Diagnosis) ruleClause(c *Cause) string {
	done := "paused"
	if c.Obstacle == queue.ObstacleBlocked {
		done = "blocked"
	}
	text := are(c.Held.Chunks, "is", "are") + " " + done + " by "
	if c.Rule.ID == 0 {
		text += "a rule"
	} else {
		text += ruleName(&c.Rule.Match)
	}
	if c.Until != 0 {
		text += " for another " + span(c.Until.Sub(d.At))
	}
	return text
}

// ruleName is what a rule is about.
func ruleName(match *queue.RuleMatch) string {
	switch {
	case match.Submission != 0:
		return "a rule about the submission"
	case match.Whole():
		return "a rule about the queue"
	case match.Several != "":
		return match.String()
	}
	return entryText(match.Entry)
}

func (d *Diagnosis) unaskedClause(n uint64) string {
	within := "the last hour"
	if known := d.At.Sub(d.Since); known < usage.Kept-time.Minute {
		within = "the last " + span(max(known, time.Second)) + ", which is how far back strategies are known"
	}
	return are(n, "is", "are") + " selected by no strategy of " + within
}

// holdersClause names the consumers that hold the chunks in flight. If the first cause is the limit of the value itself, they are a part of
// the limit.
func (d *Diagnosis) holdersClause(first *Cause) string {
	text := queue.Compact(d.InFlight)
	if first != nil && first.Limit.Max > 0 && d.Entry.Key != "" && first.Limit.Key == d.Entry.Key && first.Value == d.Entry.Value {
		text += " of " + queue.Compact(uint64(first.Limit.Max))
	}
	text += " in flight"
	if d.HoldsMet == 0 {
		return text
	}
	held, name := span(d.At.Sub(d.Oldest.Reserved)), nameText(d.Oldest.Consumer)
	switch seen := queue.Compact(d.HoldsMet); {
	case d.HoldsMet < d.InFlight && d.Holders > 1: // there may be others beyond those, and longer ones
		return fmt.Sprintf("%s, by at least %s consumers; of %s that were looked at, %s holds one the longest, for %s", text,
			queue.Compact(uint64(d.Holders)), seen, name, held)
	case d.HoldsMet < d.InFlight:
		return fmt.Sprintf("%s; %s that were looked at are held by %s, the longest for %s", text, seen, name, held)
	case d.Holders > 1:
		return fmt.Sprintf("%s, by %s consumers, the longest by %s for %s", text, queue.Compact(uint64(d.Holders)), name, held)
	case d.InFlight > 1:
		return fmt.Sprintf("%s, by %s, the longest for %s", text, name, held)
	}
	return fmt.Sprintf("%s, by %s for %s", text, name, held)
}

// emptyClause is about a value or submission that has no chunks but those in flight.
func (d *Diagnosis) emptyClause() string {
	switch {
	case d.InFlight > 0:
		return d.holdersClause(nil) + "; nothing else is left"
	case d.Entry.Key != "" && d.Present == 0:
		return "no open submission has " + entryText(d.Entry)
	case d.Submission.State == queue.CompletedWithDead:
		return "the submission has ended, " + are(uint64(d.Submission.Dead), "chunk is", "chunks are") + " dead"
	case d.Submission.State == queue.Failed:
		return failedClause(&d.Submission)
	case d.Entry.Key == "" && d.Submission.State != queue.Open:
		return "the submission is " + d.Submission.State.String()
	}
	return "nothing is left to hand out"
}

// failedClause says which chunk failed a submission, and by which error.
func failedClause(sub *queue.Submission) string {
	text := "the submission has failed"
	if sub.FailedChunk != nil {
		text = fmt.Sprintf("chunk %d failed the submission", *sub.FailedChunk)
	}
	if sub.Failure != "" {
		text += " with the error " + strconv.Quote(sub.Failure)
	}
	if sub.Skipped > 0 {
		text += "; " + are(uint64(sub.Skipped), "other chunk is", "other chunks are") + " skipped"
	}
	return text
}

// ahead is a time of the future, as a span.
func (d *Diagnosis) ahead(t queue.Time) string {
	if t <= d.At {
		return "now"
	}
	return "in " + span(t.Sub(d.At))
}
