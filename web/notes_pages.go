package web

func pageNotes() map[string]note {
	out := map[string]note{
		"Views.items":               {text: "The views, the largest first"},
		"Views.bytes":               {text: "What the views of all queues take together, by strategies that are reserved by"},
		"Views.bytes_most":          {text: "What they may take: the server's option view-memory"},
		"Views.question_bytes":      {text: "What those take that only questions made"},
		"Views.question_bytes_most": {text: "What those may take: a quarter as much"},
		"View.branch":               {text: "Text of the branch"},
		"View.bytes": {text: "About how much memory it takes, an equal part of what it shares with " +
			"views of another number; while it is being built, how much it may come to"},
		"View.question":             {text: "Only questions (preview, explain, why, compare) are about it: no consumer reserves by it"},
		"View.built":                {text: "false: it is being built, and nothing is reserved by it yet"},
		"PageLedger.items":          {text: "The ledgers, by branch, the outer ones first"},
		"PageLedger.next":           {text: "Never there: a queue has at most 64 branches with ledgers"},
		"Ledger.id":                 {text: "The same as long as strategies have this branch"},
		"Ledger.branch":             {text: "Text of the branch that it is in"},
		"Ledger.key":                {text: "Whose values are its tenants; $submission: every submission is one"},
		"Ledger.cost":               oneOf("What is shared: chunks, or the time that consumers hold them", "chunk", "time"),
		"Ledger.depth":              {text: "How many Fair blocks are around it"},
		"Ledger.places":             {text: "One, or one inside of each tenant around it"},
		"Ledger.active":             {text: "Tenants that have something to offer"},
		"Ledger.owing":              {text: "That have nothing, and are ahead still"},
		"Ledger.blocked":            {text: "That are behind limits"},
		"LedgerTenants.ledger":      {text: "The block"},
		"LedgerTenants.at":          {text: "When it was read"},
		"LedgerTenants.received":    {text: "By all tenants: chunks, or seconds where time is shared"},
		"LedgerTenants.entitled":    {text: "Likewise, by an ideal division"},
		"LedgerTenants.lag":         {text: "Sum of all lags: 0, but for what was reserved while it was summed up"},
		"LedgerTenants.most_behind": {text: "The largest lag of all tenants"},
		"LedgerTenants.most_ahead":  {text: "The least"},
		"LedgerTenants.tenants":     {text: "How many were looked at"},
		"LedgerTenants.whole":       {text: "false: there are more"},
		"LedgerTenants.sentence":    {text: "How far tenants are from their due, in words"},
		"LedgerTenants.lately_since": {text: "Since when lately counts: up to eleven minutes ago. Absent in the first minute of the " +
			"server and of the ledger"},
		"LedgerTenant.lately": {text: "What it was handed out and was entitled to since lately_since; absent of those that were not " +
			"among the thousand that had received most"},
		"TenantLately.received": {text: "What it was handed out"},
		"TenantLately.entitled": {text: "What an ideal division would have handed out to it"},
		"LedgerTenants.lags": {text: "How many tenants are how far from their due, those furthest ahead first. A lag is positive for " +
			"who is owed"},
		"LagClass.from":       {text: "Lags above this; absent: all that are less than to"},
		"LagClass.to":         {text: "Lags up to this; absent: all that are above from"},
		"LagClass.tenants":    {text: "How many tenants"},
		"LedgerTenants.items": {text: "The first of them", items: 1000},
		"LedgerTenant.value":  {text: "Of the key; left out for all submissions without it"},
		"LedgerTenant.around": {text: "The tenants that it is inside of, the outermost first"},
		"LedgerTenant.state": oneOf("active: it has something to offer. owing: it has nothing and is ahead "+
			"still. blocked: it is behind a limit", "active", "owing", "blocked"),
		"LedgerTenant.weight":   {text: "As set for the value; 1 otherwise"},
		"LedgerTenant.share":    {text: "What it is entitled to of all that is handed out at its place now, 0 to 1"},
		"LedgerTenant.received": {text: "What it was handed out since it was first heard of"},
		"LedgerTenant.entitled": {text: "What an ideal division would have handed out to it"},
		"LedgerTenant.lag":      {text: "The difference: positive, it is owed; negative, it is ahead"},
		"ChunkMap.chunks":       {text: "Of the submission"},
		"ChunkMap.from":         {text: "Index of the first chunk of the first cell"},
		"ChunkMap.to":           {text: "Index behind the last one; less than chunks: go on from here"},
		"ChunkMap.each":         {text: "Chunks in a cell; the last one may have fewer"},
		"PageAttempt.items":     {text: "The tries, the oldest first"},
		"PageAttempt.next":      {text: "Never there"},
	}
	for _, state := range []string{"ready", "waiting", "reserved", "done", "dead", "skipped"} {
		out["ChunkMap."+state] = note{text: "Chunks of each cell that are " + state, items: 1000}
	}
	return out
}
