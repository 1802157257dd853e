package web

import (
	"math"

	"github.com/quern-queue/quern/engine/queue"
)

func bulkNotes() map[string]note {
	out := map[string]note{
		"BulkFilter.submission":     {text: "Of this submission only"},
		"BulkFilter.states":         {text: "Of submissions in one of these states only: open; for dead letters also completed_with_dead"},
		"BulkFilter.meta":           {text: "Of submissions with these values only"},
		"BulkFilter.created_before": {text: "Of submissions that were inserted earlier than this"},
		"BulkFilter.created_after":  {text: "Of submissions that were inserted then or later"},
		"BulkFilter.fingerprint":    {text: "Chunks whose last error has this fingerprint"},
		"BulkFilter.died_before":    {text: "Chunks whose last try ended earlier than this"},
		"BulkFilter.died_after":     {text: "Chunks whose last try ended at this time or later"},
		"BulkFilter.oldest": between(0, queue.MaxOldest, "Of the dead letters that the rest of the filter means so many at most: those "+
			"that died first. Which those are is settled at the start. 0 or absent: all"),
		"BulkOperation.id":          {text: "Names it"},
		"BulkOperation.state":       oneOf("All but running are final", "running", "completed", "cancelled", "failed"),
		"BulkOperation.created_at":  {text: "When it was started; what came later is not meant"},
		"BulkOperation.finished_at": {text: "When it ended"},
		"BulkOperation.matched":     {text: "What it came to so far and the filter means: the sum of done, unchanged and refused"},
		"BulkOperation.done":        {text: "What the action was done with; of a dry run: would be"},
		"BulkOperation.unchanged":   {text: "What it did not change: another caller was first, or nothing was left to do"},
		"BulkOperation.refused": {text: "What does not allow it, such as a dead letter whose submission has a " +
			"dead_deadline that passed"},
		"BulkOperation.failure": {text: "Why it failed"},
		"BulkOperation.examined": {text: "How much it walked over so far of what there was at its start, whether " +
			"the filter means it or not: dead letters, chunks that wait for a retry, or open submissions of the " +
			"queue, or of the one submission of the filter. Absent if an older server began it"},
		"BulkOperation.to_examine": {text: "How much there is to walk over: what was counted at the start, and " +
			"less when so much of that went away meanwhile. Never less than examined; the same when it has completed"},
		"BulkOperation.percent": between(0, 100,
			"How much of it was walked over, rounded down: 100 when it has completed, and not before"),
		"BulkOperation.remaining_ms": {text: "Until it has walked over all, at its pace of the last minute, or at " +
			"rate_per_second as long as that is not known. Absent: it has ended, or nothing tells"},
		"BulkOperation.cancelled_by": {text: "Who cancelled it, as he said"},
		"PageBulkOperation.items":    {text: "The operations, newest first"},
		"PageBulkOperation.next":     {text: "Always absent"},
		"Origin.queue":               {text: "The queue that it was a dead letter of"},
		"Origin.submission":          {text: "Its submission there"},
		"Origin.index":               {text: "Index of the chunk there"},
		"Origin.attempts":            {text: "Tries that were made there"},
		"Origin.died_at":             {text: "When the last of them ended"},
		"Origin.error":               {text: "The last error there"},
	}
	for _, schema := range []string{"BulkRequest", "BulkOperation"} {
		out[schema+".queue"] = note{text: "The queue"}
		out[schema+".action"] = oneOf("What is done with each", queue.BulkActions()...)
		out[schema+".actor"] = note{text: "Who started it: the name of the access token; where none is needed, what " +
			"the request says, at most 128 bytes"}
		out[schema+".filter"] = note{text: "What it is about; everything given has to fit, and nothing given means all"}
		out[schema+".to"] = note{text: "Of forward: the queue that dead letters go on to"}
		out[schema+".priority"] = between(-queue.MaxPriority, queue.MaxPriority, "Of reprioritize: the new priority")
		out[schema+".rate_per_second"] = between(0, math.MaxUint32, "Most chunks or submissions per second; 0: as fast as it goes")
		out[schema+".dry_run"] = note{text: "Count what would come of it, and change nothing"}
	}
	return out
}
