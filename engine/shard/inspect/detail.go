package inspect

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

// This file puts the result of Why into words.

// API is the form for answers, with a sentence; leaf is the one of this index, and path the way to it. Details are
// whole sentences that need no other field: the dashboard, `quern why` and clients show them as they are. Fields beside
// them are for programs. Branches count from 1 in both, because people count so. The cases are in the order in which
// Why looks: first obstacles of the chunk under every strategy, then those in the branch. So a reader who fixes the
// named obstacle does not meet one of an earlier kind next.
func (w *BranchWhy) API(index int, leaf *strategy.Leaf, path string) api.WhyBranch {
	out := api.WhyBranch{Branch: index + 1, Path: path, Obstacle: w.Obstacle.String(), Until: w.Until.API(),
		Consumer: w.Consumer}
	for level := range w.Seats {
		tenant := w.Seats[level].Tenant.API(leaf.Around[level].Fair)
		tenant.Before = w.Seats[level].Before
		out.Tenants = append(out.Tenants, tenant)
	}
	own, key := "none", w.Limit.Key
	if of, lack := queue.LackedBy(key); lack {
		own, key = "(none)", of
	}
	if w.HasValue {
		out.Value, own = &w.Value, w.Value.String()
	}
	switch w.Obstacle {
	case queue.ObstacleDone:
		out.Detail = "The chunk is done."
	case queue.ObstacleDead:
		out.Detail = "The chunk is out of attempts."
	case queue.ObstacleSkipped:
		out.Detail = "The submission ended before the chunk was done."
	case queue.ObstacleForwarded:
		out.Detail = "The chunk was out of attempts and went on to another queue."
	case queue.ObstacleWaiting:
		out.Detail = "The chunk waits for its next try until " + timeText(w.Until) + "."
	case queue.ObstacleReserved:
		out.Detail = fmt.Sprintf("The consumer %q holds the chunk until %s.", w.Consumer, timeText(w.Until))
	case queue.ObstacleNotDue:
		out.Detail = "The submission waits for its run_at, " + timeText(w.Until) + "."
	case queue.ObstacleAfter:
		out.Detail = afterText(w.Awaits)
	case queue.ObstaclePaused, queue.ObstacleBlocked:
		rule := w.Rule.API()
		out.Rule, out.Detail = &rule, ruleText(&w.Rule)
	case queue.ObstacleFilter:
		out.Key = w.Filter.Key
		out.Detail = fmt.Sprintf("The branch wants %s; the submission has %s.", &w.Filter, own)
	case queue.ObstacleGrace:
		out.Key, out.Max = key, &w.Limit.Max
		out.Detail = fmt.Sprintf("The server restarted: until %s nothing that a limit counts is handed out, so that "+
			"consumers can extend what they hold first; %s=%s is under a limit of %d.", timeText(w.Until), key,
			own, w.Limit.Max)
	case queue.ObstacleLimit:
		out.Key, out.InFlight, out.Max = key, &w.InFlight, &w.Limit.Max
		out.Detail = fmt.Sprintf("%s=%s has %s of %s chunks in flight.", key, own,
			queue.Compact(uint64(w.InFlight)), queue.Compact(uint64(w.Limit.Max)))
	case queue.ObstacleRate:
		out.Key, out.Max, out.RetryAfterMS = key, &w.Limit.Max, new(w.Wait.Milliseconds())
		out.Detail = rateText(w, key, own)
	case queue.ObstacleValueLimit:
		out.Key, out.InFlight, out.Max = key, &w.InFlight, &w.Limit.Max
		out.Detail = fmt.Sprintf("%s=%s has %s in flight, and an operator set a limit of %s for it, whatever "+
			"the strategy.", key, own, queue.Counted(uint64(w.InFlight), "chunk"), queue.Compact(uint64(w.Limit.Max)))
	case queue.ObstacleHidden, queue.ObstacleAlternative:
		out.HiddenBy, out.Detail = w.HiddenBy+1, hiddenText(w)
	case queue.ObstacleTurn:
		out.Detail = turnText(w.Seats, leaf)
	case queue.ObstacleScore:
		out.Detail = scoreText
	default:
		out.Detail = "Nothing keeps the branch from handing the chunk out."
		out.Detail += fewestText(w, leaf)
	}
	return out
}

// fewestText says which values come first where those with the fewest chunks in flight do.
func fewestText(w *BranchWhy, leaf *strategy.Leaf) string {
	value, has := w.Meta.Find(leaf.Fewest)
	own := value.String()
	switch {
	case !has && !leaf.FewestOne:
		return ""
	case !has:
		own = "(none)"
	}
	return fmt.Sprintf(" Values of %s with fewer chunks in flight come first; %s=%s has %d.",
		leaf.Fewest, leaf.Fewest, own, w.InFlight)
}

// hiddenText names the branch that comes first.
func hiddenText(w *BranchWhy) string {
	if w.Obstacle == queue.ObstacleHidden {
		return fmt.Sprintf("Branch %d comes first and has something to hand out.", w.HiddenBy+1)
	}
	return fmt.Sprintf("For the same tenant branch %d comes first and has something to hand out.", w.HiddenBy+1)
}

const scoreText = "The branch hands out chunks by their scores, and this one has none or a lower one: its submission " +
	"is not among the first candidates, or nothing can score them now."

// afterText names the submissions that one waits for.
func afterText(ids []queue.SubmissionID) string {
	const named = 3
	list := strings.Join(queue.Texts(ids[:min(named, len(ids))]), ", ")
	if more := len(ids) - named; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	if len(ids) == 1 {
		return "The submission waits for the end of submission " + list + "."
	}
	return "The submission waits for the end of the submissions " + list + "."
}

// turnText says how many tenants come first, block by block, and how the chunk's own stands there. Blocks in which no
// other tenant comes first are left out: they do not hold the chunk back.
func turnText(seats []Seat, leaf *strategy.Leaf) string {
	var parts []string
	for level := range seats {
		seat, br := &seats[level], leaf.Around[level]
		if seat.Before == 0 {
			continue
		}
		unit := "chunks"
		if br.Cost == strategy.ByTime {
			unit = "seconds"
		}
		stands := fmt.Sprintf("owed %.2f %s", seat.Lag, unit)
		if seat.Lag < 0 {
			stands = fmt.Sprintf("%.2f %s ahead", -seat.Lag, unit)
		}
		parts = append(parts, fmt.Sprintf("of %s about %d, and its own is %s", br.Fair, seat.Before, stands))
	}
	return "Other tenants come first: " + strings.Join(parts, "; ") + "."
}

// ruleText is the sentence about a rule that is the obstacle. It has everything that helps to decide whether to lift
// the rule, or whom to ask: no one should have to look it up.
func ruleText(r *queue.Rule) string {
	text := "A " + r.Action.String() + " of " + r.Match.String() + " covers the submission (rule " +
		strconv.FormatUint(uint64(r.ID), 10)
	if r.Actor != "" {
		text += ", set by " + strconv.Quote(r.Actor)
	}
	text += " at " + timeText(r.Since)
	if r.Until != 0 {
		text += ", until " + timeText(r.Until)
	}
	if text += ")"; r.Reason != "" {
		text += ": " + r.Reason
	}
	return text + "."
}

// timeText is a time within a sentence, in the format of fields.
func timeText(t queue.Time) string { return t.Std().UTC().Format(api.TimeFormat) }

// rateText is the sentence about a rate that holds the chunk back.
func rateText(w *BranchWhy, key, own string) string {
	of := "All chunks together are"
	if key != "" {
		of = fmt.Sprintf("%s=%s is", key, own)
	}
	return fmt.Sprintf("%s at the rate of %s; the next may be reserved in %v.", of, w.Limit.Rate(), w.Wait)
}
