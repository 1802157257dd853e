package web

//	preview   what would be handed out     explain  where each block refuses
//	compare   two strategies, one state    why      one chunk, each branch
//	diagnosis what keeps the work of a queue, a value or a submission
//
// All are about one moment, change nothing, and have views of their own: a curious operator takes no memory from
// the consumers.

import (
	"context"
	"math"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/sdk/api"
)

// questions are the handlers of what changes nothing and asks what strategies would do, or
// why work does not move.
type questions struct{ engine *engine.Engine }

// routes are the part of the table about them.
func (ask questions) routes(r *router) {
	registerIn(r, operation{id: "list-strategies-in-use", method: "GET", path: "/v1/queues/{queue}/strategies/in-use",
		scope: scopeRead, narrow: inQueue | noTenants, tag: tagStrategies, compress: true,
		summary: "List the strategies that consumers used in the last hour", about: inUseAbout}, ask.inUse)
	registerIn(r, operation{id: "preview", method: "POST", path: "/v1/queues/{queue}/strategies/preview",
		scope: scopeRead, narrow: inQueue | inHandler, tag: tagStrategies, compress: true,
		summary: "Preview the chunks that a reserve would hand out now",
		about: "It reserves and changes nothing. A later " +
			"reserve may get other chunks, and Random draws again each time."}, ask.preview)
	registerIn(r, operation{id: "explain", method: "POST", path: "/v1/queues/{queue}/strategies/explain",
		scope: scopeRead, narrow: inQueue | noTenants, tag: tagStrategies, compress: true,
		summary: "Explain a strategy", about: explainAbout}, ask.explain)
	registerIn(r, operation{id: "compare", method: "POST", path: "/v1/queues/{queue}/strategies/compare",
		scope: scopeRead, narrow: inQueue | noTenants, tag: tagStrategies, compress: true,
		summary: "Compare what two strategies would hand out now", about: "Previews both on the same state with " +
			"the same seed: the values of each meta key that get chunks, how evenly they share, and the common " +
			"chunks."},
		ask.compare)
	registerIn(r, operation{id: "why", method: "POST", path: "/v1/submissions/{id}/chunks/{index}/why",
		scope: scopeRead, narrow: inSub | noTenants, tag: tagStrategies,
		summary: "Explain why a strategy does not hand out a chunk now", about: "The first obstacle in " +
			"each branch, and the chunk's approximate place: the number of chunks before it, and the wait at the " +
			"rate of the last minute."}, ask.why)
	registerIn(r, operation{id: "diagnose-queue", method: "GET", path: "/v1/queues/{queue}/diagnosis",
		scope: scopeRead, narrow: inQueue | noTenants, tag: tagStrategies,
		summary: "Explain what the chunks of a queue wait for",
		about:   queueDiagnosisAbout}, ask.queueDiagnosis)
	registerIn(r, operation{id: "diagnose-meta-value", method: "GET",
		path:  "/v1/queues/{queue}/meta-keys/{key}/values/{value}/diagnosis",
		scope: scopeRead, narrow: inQueue | inHandler, tag: tagStrategies,
		summary: "Explain why the chunks of a value wait",
		about:   diagnosisAbout + valueAbout}, ask.valueDiagnosis)
	registerIn(r, operation{id: "diagnose-submission", method: "GET", path: "/v1/submissions/{id}/diagnosis",
		scope:  scopeRead,
		narrow: inSub | inHandler, tag: tagStrategies, summary: "Explain why the chunks of a submission wait",
		about: diagnosisAbout}, ask.submissionDiagnosis)
}

const inUseAbout = "The strategies that handed out the most chunks come first. The server remembers at most 256 " +
	"strategies, and forgets the one that was unused for longest. Rates are over the last one to two minutes and " +
	"include empty reserves. `consumers` estimates the number of names that reserved with it in the last half hour " +
	"to hour: nearly exact up to 20, within a few percent beyond. The list starts with the server, at `since`."

// Rates are positive floats, whose bits grow with the number, so they sort as texts in a cursor.
func (ask questions) inUse(_ context.Context, q *engine.Queue, in *listInput) (*output[api.StrategiesInUse], error) {
	all := q.Strategies.InUse()
	busiest := func(u *api.StrategyUse) string {
		chunks, reserves := math.Float64bits(u.ChunksPerSecond), math.Float64bits(u.ReservesPerSecond)
		return downwards(chunks) + "." + downwards(reserves) + "." + hashed(u.Strategy)
	}
	arrange(all.Items, busiest)
	var err error
	all.Items, all.Next, err = pageOf(behind(all.Items, in.Cursor.Cursor, busiest), "", busiest, asIs)
	return answered(all, err, asIs)
}
