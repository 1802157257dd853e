package web

import (
	"context"
	"math"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/sdk/api"
)

// questions are the handlers of what changes nothing and asks what strategies would do, or why work does not move.
type questions struct{ engine *engine.Engine }

// routes are the part of the table about them.
func (ask questions) routes(d *document) {
	registerIn(d, operation{id: "list-strategies-in-use", method: "GET", path: "/v1/queues/{queue}/strategies/in-use",
		scope: scopeRead, narrow: inQueue | noTenants, tag: tagStrategies, compress: true,
		summary: "List the strategies that consumers reserved by in the last hour", about: inUseAbout}, ask.inUse)
	registerIn(d, operation{id: "preview", method: "POST", path: "/v1/queues/{queue}/strategies/preview",
		scope: scopeRead, narrow: inQueue | inHandler, tag: tagStrategies, compress: true,
		summary: "Say what a reserve would hand out now", about: "Nothing is reserved and nothing changes. A reserve " +
			"that comes later may get something else, and Random draws again each time."}, ask.preview)
	registerIn(d, operation{id: "explain", method: "POST", path: "/v1/queues/{queue}/strategies/explain",
		scope: scopeRead, narrow: inQueue | noTenants, tag: tagStrategies, compress: true,
		summary: "Show how a strategy stands", about: explainAbout}, ask.explain)
	registerIn(d, operation{id: "compare", method: "POST", path: "/v1/queues/{queue}/strategies/compare",
		scope: scopeRead, narrow: inQueue | noTenants, tag: tagStrategies, compress: true,
		summary: "Compare what two strategies would hand out now", about: "Both are previewed on the same state with " +
			"the same seed: how many values of each meta key get something, how evenly, and what the two have in common."}, ask.compare)
	registerIn(d, operation{id: "why", method: "POST", path: "/v1/submissions/{id}/chunks/{index}/why", scope: scopeRead,
		narrow: inSub | noTenants, tag: tagStrategies,
		summary: "Say what keeps a strategy from handing out a chunk now", about: "For each branch the first " +
			"obstacle, and about where the chunk stands: how many come before it, and how long that takes at the " +
			"rate of the last minute."}, ask.why)
	registerIn(d, operation{id: "diagnose-meta-value", method: "GET", path: "/v1/queues/{queue}/meta-keys/{key}/values/{value}/diagnosis",
		scope: scopeRead, narrow: inQueue | inHandler, tag: tagStrategies, summary: "Say why the chunks of a value move or do not",
		about: diagnosisAbout + valueAbout}, ask.valueDiagnosis)
	registerIn(d, operation{id: "diagnose-submission", method: "GET", path: "/v1/submissions/{id}/diagnosis", scope: scopeRead,
		narrow: inSub | inHandler, tag: tagStrategies, summary: "Say why the chunks of a submission move or do not",
		about: diagnosisAbout}, ask.submissionDiagnosis)
}

const inUseAbout = "Those that handed out most chunks first. At most 256 are distinguished: the one that was unused for longest " +
	"makes room. Rates are over the last one to two minutes, empty reserves included. `consumers` is an estimate of how many " +
	"names reserved by it in " +
	"the last half hour to hour: rarely wrong up to 20, and by a few percent beyond. Nothing is known of the time before `since`: the " +
	"list begins again with the server."

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
