package web

import (
	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/sdk/api"
)

const mostSeed = 1<<53 - 1

func previewNotes() map[string]note {
	out := map[string]note{
		"PreviewRequest.strategy": {text: "The strategy; absent: Random", ref: "Strategy"},
		"PreviewResponse.picks":   {text: "What would be handed out, in order"},
		"PreviewPick.submission":  {text: "Id of the submission"},
		"PreviewPick.index":       {text: "Index of the chunk"},
		"PreviewPick.meta":        {text: "Of the submission"},
		"PreviewPick.priority":    {text: "Of the submission"},
		"WhyRequest.strategy":     {text: "The strategy; absent: Random", ref: "Strategy"},
		"WhyResponse.state":       oneOf("Where the chunk stands", "ready", "waiting", "reserved", "done", "dead", "skipped"),
		"WhyResponse.branches":    {text: "The strategy's branches, in the order in which they are asked"},
		"WhyBranch.obstacle": oneOf("The first obstacle; none: the branch may hand the chunk out now", api.ObstacleNone, api.ObstacleDone, api.ObstacleDead,
			api.ObstacleSkipped, api.ObstacleWaiting, api.ObstacleReserved, api.ObstacleNotDue, api.ObstacleFilter, api.ObstacleLimit, api.ObstacleHidden),
		"WhyBranch.detail":          {text: "The obstacle in words"},
		"WhyBranch.until":           {text: "Of waiting, reserved and not_yet_due: until when"},
		"WhyBranch.consumer":        {text: "Of reserved: who holds it"},
		"WhyBranch.key":             {text: "Of filter and limit: the meta key"},
		"WhyBranch.value":           {text: "Of filter and limit: the submission's value, if it has one", ref: "MetaValue"},
		"WhyBranch.in_flight":       {text: "Of limit: chunks of that value that are held"},
		"WhyBranch.max":             {text: "Of limit: how many may be"},
		"WhyBranch.hidden_by":       {text: "Of hidden: number of the branch that comes first"},
		"WhyBranch.before":          {text: "Of none under an order: about how many chunks come first; absent when it is not cheap to say"},
		"WhyBranch.among":           {text: "Of none under Random: about how many chunks it is drawn from; absent when it is not cheap to say"},
		"ExplainResponse.strategy":  {text: "Canonical text of the strategy"},
		"ExplainResponse.branches":  {text: "Its branches, in the order in which they are asked"},
		"ExplainResponse.picks":     {text: "What would be handed out, in order"},
		"ExplainBranch.built":       {text: "Whether its view was standing already; if not, it was built for this answer"},
		"ExplainBranch.submissions": {text: "Submissions with ready chunks that its filters admit, those under a limit too"},
		"ExplainBranch.gates_open":  {text: "Values of limited keys that have something to give"},
		"ExplainBranch.gates_shut":  {text: "Values that are at their limit"},
		"ExplainBranch.gates_empty": {text: "Values below their limit that have nothing ready"},
		"ExplainBranch.saturated":   {text: "Of the values at their limit the ten with most in flight"},
		"Saturated.key":             {text: "The meta key"},
		"Saturated.value":           {text: "The value"},
		"Saturated.in_flight":       {text: "Chunks of the value that are held"},
		"Saturated.max":             {text: "How many may be"},
		"ExplainPick.pick":          {text: "The chunk"},
		"ExplainPick.skipped":       {text: "What kept each branch before its own from it; the picks before it count as in flight"},
		"CompareRequest.a":          {text: "The one strategy", ref: "Strategy"},
		"CompareRequest.b":          {text: "The other", ref: "Strategy"},
		"CompareResponse.a":         {text: "Of the one strategy"},
		"CompareResponse.b":         {text: "Of the other"},
		"CompareResponse.overlap":   {text: "Chunks that both would hand out"},
		"Spread.picks":              {text: "Chunks that would be handed out"},
		"Spread.keys":               {text: "By meta key; $submission stands for the submission itself"},
		"KeySpread.key":             {text: "The meta key"},
		"KeySpread.picks":           {text: "Chunks whose submission has the key"},
		"KeySpread.distinct":        {text: "Different values among them"},
		"KeySpread.max_share":       between(0, 1, "Share of the most frequent value"),
		"KeySpread.jain":            between(0, 1, "Jain's index over all values that either strategy would hand out: 1 is the same number for each, 1/n all for one of n"),
	}
	for _, schema := range []string{"PreviewRequest", "CompareRequest"} {
		out[schema+".max"] = between(0, engine.MaxPreview, "Most chunks to look ahead; 0 or absent: 10")
		out[schema+".seed"] = between(0, mostSeed, "The same seed on the same state gives the same picks; absent: any")
	}
	for _, schema := range []string{"PreviewResponse", "ExplainResponse", "CompareResponse"} {
		out[schema+".seed"] = note{text: "What Random drew by; ask with it again to get the same picks from the same state"}
	}
	for _, schema := range []string{"PreviewPick", "WhyBranch", "ExplainBranch"} {
		out[schema+".branch"] = note{text: "Number of the branch, from 1"}
		out[schema+".branch_text"] = note{text: "The branch: its order, its filters and its limits"}
	}
	return out
}
