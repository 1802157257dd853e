package web

import (
	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/sdk/api"
)

func previewNotes() map[string]note {
	out := map[string]note{
		"PreviewRequest.strategy": {text: "The strategy; absent: Random", ref: "Strategy"},
		"PreviewAnswer.strategy":  {text: "The canonical text"},
		"PreviewAnswer.picks":     {text: "What would be handed out, in order"},
		"PreviewPick.submission":  {text: "Id of the submission"},
		"PreviewPick.index":       {text: "Index of the chunk"},
		"PreviewPick.meta":        {text: "Of the submission"},
		"PreviewPick.priority":    {text: "Of the submission"},

		"CompareRequest.a":      {text: "The one strategy", ref: "Strategy"},
		"CompareRequest.b":      {text: "The other", ref: "Strategy"},
		"CompareAnswer.a":       {text: "Of the one strategy"},
		"CompareAnswer.b":       {text: "Of the other"},
		"CompareAnswer.overlap": {text: "Chunks that both would hand out"},
		"CompareAnswer.only_a":  {text: "The first that only the one would hand out, in its order", items: mostDiffering},
		"CompareAnswer.only_b":  {text: "The first that only the other would", items: mostDiffering},
		"Spread.strategy":       {text: "The canonical text"},
		"Spread.picks":          {text: "Chunks that would be handed out"},
		"Spread.keys":           {text: "By meta key; $submission stands for the submission itself"},
		"KeySpread.key":         {text: "The meta key"},
		"KeySpread.picks":       {text: "Chunks whose submission has the key"},
		"KeySpread.distinct":    {text: "Different values among them"},
		"KeySpread.max_share":   between(0, 1, "Share of the most frequent value"),
		"KeySpread.jain": between(0, 1, "Jain's index over all values that either strategy would hand out: "+
			"1 is the same number for each, 1/n all for one of n"),
	}
	for _, schema := range []string{"PreviewRequest", "CompareRequest"} {
		out[schema+".context"] = note{text: "What the consumer would say about itself to plugins and formulas, " +
			"as in a reservation: at most 16 keys"}
		out[schema+".max"] = between(0, engine.MaxPreview, "Most chunks to look ahead; 0 or absent: 10")
		out[schema+".seed"] = between(0, engine.MaxSeed, "The same seed on the same state gives the same picks; absent: any")
	}
	for _, schema := range []string{"PreviewAnswer", "ExplainAnswer", "CompareAnswer"} {
		out[schema+".seed"] = note{text: "What Random drew by; ask with it again to get the same picks from the same state"}
		out[schema+".restart_grace_until"] = note{text: "Until then the restart grace keeps back what a limit " +
			"counts, and it is not among the picks; absent: there is none"}
	}
	for _, schema := range []string{"PreviewAnswer", "ExplainAnswer", "Spread"} {
		out[schema+".warnings"] = note{text: "Blocks that were not scored, as their plugin is not there, not active, " +
			"out of use for now, or failed; what follows them was gone on with, as a reserve would. Absent when there is none"}
	}
	for _, schema := range []string{"PreviewPick", "WhyBranch", "ExplainBranch"} {
		out[schema+".branch"] = note{text: "Number of the branch, from 1; inside of Fair every alternative is a branch"}
		out[schema+".path"] = note{text: "The way to the branch through the strategy"}
	}
	return out
}

func whyNotes() map[string]note {
	return map[string]note{
		"WhyRequest.strategy": {text: "The strategy; absent: Random", ref: "Strategy"},
		"WhyAnswer.state":     oneOf("Where the chunk stands", "ready", "waiting", "reserved", "done", "dead", "skipped", "forwarded"),
		"WhyAnswer.strategy":  {text: "The canonical text"},
		"WhyAnswer.warnings": {text: "Blocks that are not scored now, as their plugin is not there, not active, or out of use, " +
			"so that what follows them is gone on with. Absent when there is none"},
		"WhyAnswer.branches":            {text: "The strategy's branches, in the order in which they are asked"},
		"WhyAnswer.restart_grace_until": {text: "Until then the restart grace keeps back what a limit counts; absent: there is none"},
		"WhyAnswer.standing":            {text: "About where the chunk stands; absent when no branch admits it now"},
		"WhyBranch.obstacle": oneOf("The first obstacle; none: the branch may hand the chunk out now", api.ObstacleNone,
			api.ObstacleDone, api.ObstacleDead,
			api.ObstacleSkipped, api.ObstacleForwarded, api.ObstacleWaiting, api.ObstacleReserved, api.ObstacleNotDue, api.ObstaclePaused,
			api.ObstacleBlocked, api.ObstacleFilter, api.ObstacleGrace, api.ObstacleLimit, api.ObstacleValueLimit,
			api.ObstacleHidden, api.ObstacleAlternative, api.ObstacleTurn, api.ObstacleScore),
		"WhyBranch.detail": {text: "The obstacle in words"},
		"WhyBranch.rule":   {text: "Of paused and blocked: the rule that counts"},
		"WhyBranch.until": {text: "Of waiting, reserved, not_yet_due and restart_grace: until when; of paused " +
			"and blocked too, if the rule ends by itself"},
		"WhyBranch.consumer":  {text: "Of reserved: who holds it"},
		"WhyBranch.key":       {text: "Of filter and the limits: the meta key"},
		"WhyBranch.value":     {text: "Of filter and the limits: the submission's value, if it has one", ref: "MetaValue"},
		"WhyBranch.in_flight": {text: "Of limit and value_limit: chunks of that value that are held"},
		"WhyBranch.max":       {text: "Of limit, value_limit and restart_grace: how many may be"},
		"WhyBranch.hidden_by": {text: "Of hidden and alternative: number of the branch that comes first"},
		"WhyBranch.tenants":   {text: "Under Fair: the tenant that the chunk belongs to in each block, the outermost first"},
		"WhyStanding.branch":  {text: "The first branch that admits the chunk, from 1"},
		"WhyStanding.ahead": {text: "About how many chunks come before it, rounded to two digits; of those that " +
			"Random draws among, half"},
		"WhyStanding.among":      {text: "Under Random: about how many chunks it is drawn from"},
		"WhyStanding.at_least":   {text: "Whether there are more before it, as not everything was looked at"},
		"WhyStanding.per_second": {text: "Chunks of the queue reserved a second over the last minute; 0: none, or not known yet"},
		"WhyStanding.wait_ms":    {text: "About how long it waits at that rate; absent when there is none"},
	}
}

func diagnosisNotes() map[string]note {
	return map[string]note{
		"Diagnosis.sentence":    {text: "All of it in one sentence, the cause with most chunks first"},
		"Diagnosis.causes":      {text: "Most chunks first, at most 10; one of the kind empty if there is no other"},
		"Diagnosis.in_flight":   {text: "Chunks that consumers hold"},
		"Diagnosis.holders":     {text: "How many consumers hold them; of very many chunks, those that were looked at"},
		"Diagnosis.oldest":      {text: "The reservation that has been held for longest; absent when there is none", ref: "Holding"},
		"Diagnosis.submissions": {text: "Open submissions that it is about"},
		"Diagnosis.examined":    {text: "Of them those that were looked at: all, unless there are very many. Causes are of these"},

		"Holding.consumer":    {text: "Who holds it; absent when the reserve gave no name"},
		"Holding.submission":  {text: "The chunk's submission"},
		"Holding.index":       {text: "The chunk's index"},
		"Holding.attempt":     {text: "1 for the first try"},
		"Holding.reserved_at": {text: "Since when"},
		"Holding.deadline":    {text: "When it expires, unless it is extended"},

		"Cause.kind": oneOf("What keeps the chunks; none: nothing does. limit includes the restart grace, not_due the wait for the next "+
			"try, unasked means that no strategy in use selects them", api.CauseLimit, api.CauseRule, api.CauseNotDue, api.CauseDead,
			api.CauseEmpty, api.CauseUnasked, api.CauseNone),
		"Cause.detail":      {text: "The cause in words: a part of a sentence"},
		"Cause.chunks":      {text: "Open chunks that it is about; each counts for its first cause"},
		"Cause.submissions": {text: "Their submissions"},
		"Cause.key":         {text: "Of limit: the meta key"},
		"Cause.value":       {text: "Of limit: its value", ref: "MetaValue"},
		"Cause.in_flight":   {text: "Of limit: chunks of that value that are held; absent during the restart grace"},
		"Cause.max":         {text: "Of limit: how many may be"},
		"Cause.rule":        {text: "Of rule: the one that counts. A tenant's token sees only those about its own", ref: "Rule"},
		"Cause.until": {text: "Of not_due: the first time that is known; of rule: when it ends by itself; of limit: the end of the " +
			"restart grace"},
		"Cause.strategy": {text: "Of none: the strategy used last that selects them; of limit: the one whose limit it is, absent for an " +
			"operator's"},
		"Cause.last_used": {text: "When that strategy was last reserved by"},
	}
}

func explainNotes() map[string]note {
	return map[string]note{
		"ExplainAnswer.strategy":    {text: "The canonical text"},
		"ExplainAnswer.submissions": {text: "Submissions that are not waiting for their run_at"},
		"ExplainAnswer.examined":    {text: "Of them those that were looked at for the tree: all, unless there are very many"},
		"ExplainAnswer.tree":        {text: "The blocks of the strategy, each before what it holds"},
		"ExplainAnswer.branches":    {text: "What it compiles to, in the order in which it is asked"},
		"ExplainAnswer.picks":       {text: "What would be handed out, in order"},
		"ExplainAnswer.ruled": {text: "What rules keep from every strategy, by rule, at most ten, which keep " +
			"most; it reaches no block and is not withheld"},
		"ExplainAnswer.withheld":      {text: "What limits that operators set for values keep from every strategy; it reaches no block"},
		"Withheld.refused":            {text: "What is kept back"},
		"Withheld.refused_values":     {text: "Different values that do; at most 10,000 are distinguished"},
		"Withheld.top":                {text: "Of them the ten that keep back most chunks"},
		"ExplainBlock.pointer":        {text: "A JSON pointer into the canonical JSON, below /strategy"},
		"ExplainBlock.depth":          {text: "How many blocks are around it"},
		"ExplainBlock.block":          {text: "Its name"},
		"ExplainBlock.text":           {text: "It alone, without what it holds"},
		"ExplainBlock.entered":        {text: "What reaches it"},
		"ExplainBlock.passed":         {text: "What an order inside of it offers"},
		"ExplainBlock.refused":        {text: "What it keeps back itself; of PreferDistinct what it puts last"},
		"ExplainBlock.refused_values": {text: "Different values among that; at most 10,000 are distinguished"},
		"ExplainBlock.top":            {text: "Of them the ten that keep back most chunks"},
		"Amount.submissions":          {text: "Submissions with ready chunks"},
		"Amount.chunks":               {text: "Their ready chunks"},
		"RefusedValue.key":            {text: "The meta key"},
		"RefusedValue.value":          {text: "The value; absent: the submissions that have none", ref: "MetaValue"},
		"RefusedValue.in_flight":      {text: "Chunks of the value that are held"},
		"RefusedValue.max":            {text: "Of a limit: how many may be"},
		"RefusedValue.refused":        {text: "What of it is kept back"},
		"ExplainBranch.branch_text":   {text: "The branch: the Fair blocks around it, its order, its filters and its limits"},
		"ExplainBranch.built":         {text: "Whether its index was standing already; if not, it was built for this answer"},
		"ExplainBranch.fair":          {text: "The Fair blocks around it and how their tenants stand, the outermost first"},
		"ExplainFair.key":             {text: "The key whose values are the tenants"},
		"ExplainFair.cost":            oneOf("What is shared out: the number of chunks, or the time that they are held", "chunk", "time"),
		"ExplainFair.ledgers":         {text: "How many there are of the block: one, or inside of Fair one for each tenant around it"},
		"ExplainFair.active":          {text: "Tenants that have something to hand out, in all ledgers"},
		"ExplainFair.owing":           {text: "Tenants that have nothing, and had more than their share"},
		"ExplainFair.blocked":         {text: "Tenants that are held back by limits"},
		"ExplainFair.next": {text: "Whose turn it is, within the tenant of the enclosing Fair whose turn " +
			"it is; absent when no tenant competes"},
		"ExplainFair.owed": {text: "Of the active tenants there the ten that are owed most"},
		"Tenant.key":       {text: "Key of the Fair block"},
		"Tenant.before":    {text: "Asked why: about how many tenants come before it in this block"},
		"Tenant.value": {text: "Its value of the key, or the id of the submission; absent: all " +
			"submissions without the key", ref: "MetaValue"},
		"Tenant.state":        oneOf("How it stands", "idle", "active", "owing", "blocked"),
		"Tenant.weight":       {text: "Its weight"},
		"Tenant.share":        between(0, 1, "What it is entitled to of all that is handed out now"),
		"Tenant.lag":          {text: "Chunks that it is owed, under cost time seconds; negative: that it is ahead"},
		"ExplainPick.pick":    {text: "The chunk"},
		"ExplainPick.tenants": {text: "Under Fair: whose it is in each block, the outermost first, as they stand before all picks"},
		"ExplainPick.skipped": {text: "What kept each branch before its own from it; the picks before it count as in flight"},
	}
}
