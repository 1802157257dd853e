package api

// Ledger is a Fair block that is in use: what shares out service by one key.
type Ledger struct {
	ID      string `json:"id"`
	Branch  string `json:"branch"` // text of the branch that it is in
	Key     string `json:"key"`    // "$submission": every submission is a tenant
	Cost    string `json:"cost"`   // chunk or time: what is shared
	Depth   int    `json:"depth"`  // how many Fair blocks are around it
	Places  int    `json:"places"` // one, or one inside of each tenant around it
	Active  int    `json:"active"` // tenants that have something to offer
	Owing   int    `json:"owing"`  // that have nothing, and are ahead still
	Blocked int    `json:"blocked"`
}

// LedgerTenants is the answer of GET /v1/queues/{queue}/ledgers/{ledger}. Amounts are chunks or, where time is shared, seconds, since a
// tenant was first heard of. The sums are over all tenants and not only those listed.
type LedgerTenants struct {
	Ledger     Ledger  `json:"ledger"`
	At         Time    `json:"at"`
	Received   float64 `json:"received"`
	Entitled   float64 `json:"entitled"`
	Lag        float64 `json:"lag"`         // 0, but for what was reserved while it was summed up
	MostBehind float64 `json:"most_behind"` // the largest lag
	MostAhead  float64 `json:"most_ahead"`  // the least
	Tenants    int     `json:"tenants"`
	Whole      bool    `json:"whole"` // false: there are more than were looked at
	Sentence   string  `json:"sentence"`

	// Since when tenants' Lately counts: up to eleven minutes ago; absent in the first minute of a server and of a ledger.
	LatelySince Time `json:"lately_since,omitzero"`

	Lags  []LagClass     `json:"lags"` // how many tenants are how far from their due, the furthest ahead first
	Items []LedgerTenant `json:"items"`
}

// LagClass is how many tenants have a lag above From and up to To. The first has no From and the last no To.
type LagClass struct {
	From    *float64 `json:"from,omitempty"`
	To      *float64 `json:"to,omitempty"`
	Tenants int      `json:"tenants"`
}

// LedgerTenant is how one tenant stands. Value is left out for the one tenant of all submissions without the key. Around are the
// tenants that it is inside of, the outermost first.
type LedgerTenant struct {
	Value    *MetaValue `json:"value,omitempty"`
	Around   []Tenant   `json:"around,omitempty"`
	State    string     `json:"state"` // active, owing or blocked
	Weight   float64    `json:"weight"`
	Share    float64    `json:"share"`    // what it is entitled to of all that is handed out at its place now, 0 to 1
	Received float64    `json:"received"` // what it was handed out
	Entitled float64    `json:"entitled"` // what an ideal division would have handed out to it
	Lag      float64    `json:"lag"`      // the difference: positive, it is owed; negative, it is ahead

	Lately *TenantLately `json:"lately,omitempty"` // since LedgerTenants.LatelySince; absent where that is not known
}

// TenantLately is what a tenant was handed out and was entitled to in the last ten minutes.
type TenantLately struct {
	Received float64 `json:"received"`
	Entitled float64 `json:"entitled"`
}

// ChunkMap says where the chunks of a part of a submission stand: those from From up to To (not included), in cells of Each chunks.
// The lists are as long as there are cells.
type ChunkMap struct {
	Chunks   uint32   `json:"chunks"` // of the submission
	From     uint32   `json:"from"`
	To       uint32   `json:"to"` // less than Chunks: ask on from here
	Each     uint32   `json:"each"`
	Ready    []uint32 `json:"ready"`
	Waiting  []uint32 `json:"waiting"`
	Reserved []uint32 `json:"reserved"`
	Done     []uint32 `json:"done"`
	Dead     []uint32 `json:"dead"`
	Skipped  []uint32 `json:"skipped"`
}
